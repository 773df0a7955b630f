//! Who reads the stream: a replica, at its own position.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ibid_format::record::{
    Digest, EntrySpan, Epoch, LogBatch, PartAssembler, PartRequest, PartResponse, PublishedPart, Query, Refusal,
    Request, Response, decompress_contents, log_digest,
};

use super::Stopped;
use super::address::Address;
use super::stream::{Extent, Link};
use super::wire::refused;
use crate::error::Error;
use crate::replicate::follow::{Oplog, wait};
use crate::write::oplog;

/// How long the primary may take for an answer. It is asked again for the same one then.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// How long after it was asked where the stream ends.
const END_IS_KNOWN: Duration = Duration::from_secs(1);
/// How long until a server that keeps the stream has what the one that leads it has.
const LAG: Duration = Duration::from_millis(50);
/// How often that is waited for.
const LAGS: usize = 40;

/// A log that is published: what a replica asks is read from the stream, or asked of who publishes.
pub struct Published {
    address: Address,
    turn: usize,
    link: Option<Link>,
    /// What the last answer of the stream has that was seen whole.
    last: Option<EntrySpan>,
    /// Where the stream goes on, and which position of the log is there.
    place: Option<Place>,
    /// Where the stream ended when the server that leads it was asked last, and when that was.
    ended: Option<(u64, Instant)>,
    asking: Asking,
}

#[derive(Clone, Copy)]
struct Place {
    sequence: u64,
    position: u64,
}

/// What is asked of the primary.
struct Asking {
    asker: u64,
    number: u64,
    request: Vec<u8>,
    gathering: PartAssembler,
}

/// What was read of the stream.
struct Gathered {
    /// The first answer that is there whole.
    found: Option<(EntrySpan, Vec<u8>)>,
    /// The place after what was seen.
    sequence: u64,
}

/// The last answer of the stream that is whole.
pub(super) struct LastWhole {
    /// Place of its last part.
    sequence: u64,
    pub(super) span: EntrySpan,
    /// The latest epoch of who published it, or began to publish another after it.
    pub(super) heard: Epoch,
}

/// What the stream has for a position.
enum Found {
    Response(Response),
    /// It has nothing for it, and the primary may.
    Nothing,
}

impl Published {
    /// The log at an address, where nothing is asked yet.
    ///
    /// # Errors
    /// [`Error::Engine`] if there is no randomness to be had.
    pub fn at(address: Address) -> Result<Self, Error> {
        Ok(Published {
            address,
            turn: 0,
            link: None,
            last: None,
            place: None,
            ended: None,
            asking: Asking {
                asker: oplog::random()?,
                number: 0,
                request: Vec::new(),
                gathering: PartAssembler::default(),
            },
        })
    }

    fn answered(&mut self, request: &[u8], stop: &AtomicBool) -> Result<Vec<u8>, Stopped> {
        let asked = Request::decode(request)?;
        let mut link = match self.link.take() {
            Some(link) => link,
            None => {
                (self.place, self.ended) = (None, None);
                Link::connect(&self.address, self.turn, stop)?
            }
        };
        // A link that fails is not used again: an answer may come late, and another server may be there.
        let answer = self.look(&mut link, &asked, request, stop)?;
        self.link = Some(link);
        Ok(answer)
    }

    fn look(
        &mut self,
        link: &mut Link,
        asked: &Request,
        request: &[u8],
        stop: &AtomicBool,
    ) -> Result<Vec<u8>, Stopped> {
        if let Query::Entries {
            next,
            digest,
            whole: false,
        } = asked.query
            && let Found::Response(answer) = self.read(link, asked, (next, digest), stop)?
        {
            return Ok(answer.encode());
        }
        if self.last.is_none() {
            self.locate(link, u64::MAX, stop)?;
        }
        let Some(last) = self.last else {
            return Err(nothing_published());
        };
        let answer = self.ask(link, last, request, stop);
        if answer.is_err() {
            // Another may be the primary by now.
            self.last = None;
        }
        answer
    }

    /// What the stream has for a position.
    fn read(
        &mut self,
        link: &mut Link,
        asked: &Request,
        (next, digest): (u64, Digest),
        stop: &AtomicBool,
    ) -> Result<Found, Stopped> {
        if self.place.is_none_or(|place| place.position != next) {
            self.place = self.locate(link, next, stop)?;
        }
        let mut lags = 0;
        while let Some(place) = self.place {
            let Gathered { found, sequence } = gather(link, place.sequence, stop)?;
            if let Some((span, message)) = found {
                self.saw(span);
                let answer = if span.next <= next {
                    None // it is here already
                } else if span.from <= next {
                    Some(self.fitting(asked, (next, digest), span, &message)?)
                } else {
                    break; // what is between was removed from the stream
                };
                let position = answer.as_ref().map_or(next, |_| span.next);
                self.place = Some(Place { sequence, position });
                match answer {
                    Some(answer) => return Ok(Found::Response(answer)),
                    None => continue,
                }
            }
            // The server that leads the stream knows whether that is all. It is not asked again and again by
            // all who wait.
            if let Some((end, asked_at)) = self.ended
                && end == sequence
                && asked_at.elapsed() < END_IS_KNOWN
            {
                return Ok(self
                    .at_end(asked, (next, digest))
                    .map_or(Found::Nothing, Found::Response));
            }
            let extent = existing(link, stop)?;
            if extent.last + 1 < place.sequence {
                // It was made anew.
                self.last = None;
                self.place = self.locate(link, next, stop)?;
            } else if extent.last < sequence {
                self.ended = Some((sequence, Instant::now()));
                return Ok(self
                    .at_end(asked, (next, digest))
                    .map_or(Found::Nothing, Found::Response));
            } else if lags == LAGS {
                return Err(refused("read the stream", "the server that is asked lags behind").into());
            } else {
                lags += 1;
                wait(LAG, stop);
            }
        }
        self.place = None;
        Ok(Found::Nothing)
    }

    fn saw(&mut self, span: EntrySpan) {
        if self.last.is_none_or(|last| last.next <= span.next) {
            self.last = Some(span);
        }
    }

    /// Where in the stream a position is; [`None`] if that is before its first message. It may be
    /// at the end.
    fn locate(&mut self, link: &mut Link, position: u64, stop: &AtomicBool) -> Result<Option<Place>, Stopped> {
        let extent = existing(link, stop)?;
        let Some(LastWhole {
            sequence, span: last, ..
        }) = last_whole(link, &extent, stop)?
        else {
            return Err(nothing_published());
        };
        self.last = Some(last);
        if position >= last.next {
            let sequence = sequence + 1;
            return Ok(Some(Place { sequence, position }));
        }
        // The last message that begins at the position or before it: positions ascend.
        let (mut low, mut high, mut found) = (extent.first, sequence, None);
        while low <= high {
            let middle = low + (high - low) / 2;
            match part_at(link, middle, stop)? {
                Some((sequence, part)) if sequence <= high && part.span.from <= position => {
                    found = Some((sequence, part));
                    low = sequence + 1;
                }
                _ if middle == 0 => break,
                _ => high = middle - 1,
            }
        }
        Ok(found.map(|(sequence, part)| Place {
            sequence: sequence.saturating_sub(part.part.number),
            position,
        }))
    }

    /// The answer of the stream to a replica that lacks entries of it.
    fn fitting(
        &self,
        asked: &Request,
        (next, digest): (u64, Digest),
        span: EntrySpan,
        message: &[u8],
    ) -> Result<Response, Stopped> {
        let Response::Entries(mut sent) = Response::decode(message)? else {
            return Err(refused("read the stream", "a message in it has no entries").into());
        };
        if (sent.from, sent.digest, sent.epoch) != (span.from, span.digest, span.epoch) {
            return Err(refused("read the stream", "a message in it contradicts itself").into());
        }
        let before = if span.from == next {
            Some(span.before)
        } else {
            digest_within(&sent, span.before, next)?
        };
        if before != Some(digest) {
            return Ok(self.other_entries(asked, next, span));
        }
        // Only where the stream ends is it known that nothing more is there.
        sent.head = sent.head.max(span.next + 1);
        Ok(Response::Entries(sent))
    }

    /// The answer of the stream to a replica that has all of it, or more.
    fn at_end(&self, asked: &Request, (next, digest): (u64, Digest)) -> Option<Response> {
        let last = self.last.filter(|last| last.next <= next)?;
        let (is_more, is_behind) = (last.next < next, asked.epoch.number < last.epoch.number);
        if (is_more && is_behind) || (!is_more && last.digest != digest) {
            return Some(self.other_entries(asked, next, last));
        }
        // If it has more, who publishes comes later.
        Some(Response::Entries(LogBatch {
            store: last.store,
            epoch: last.epoch,
            from: next,
            head: next,
            digest,
            bodies_digest: Digest::default(),
            packed: Vec::new(),
            length: 0,
        }))
    }

    /// The answer to a replica that has other entries than the stream: as a primary gives it.
    fn other_entries(&self, asked: &Request, next: u64, found: EntrySpan) -> Response {
        let last = self.last.unwrap_or(found);
        let knows = asked.store != [0; 16];
        if knows && asked.store != last.store {
            Response::Refused(Refusal::OtherStore)
        } else if asked.epoch.number < last.epoch.number {
            Response::TransferRequired {
                store: last.store,
                epoch: last.epoch,
                asked: next,
            }
        } else {
            Response::Refused(Refusal::OtherEpoch)
        }
    }

    /// Asks the primary, part for part.
    fn ask(&mut self, link: &mut Link, last: EntrySpan, request: &[u8], stop: &AtomicBool) -> Result<Vec<u8>, Stopped> {
        const WHAT: &str = "take from the primary what the stream has not";
        let asking = &mut self.asking;
        if asking.request != request {
            asking.number += 1;
            asking.request = request.to_vec();
            asking.gathering = PartAssembler::default();
        }
        let subject = self.address.ask_subject();
        loop {
            let pull = PartRequest {
                store: last.store,
                epoch: last.epoch,
                asker: asking.asker,
                number: asking.number,
                part: asking.gathering.next_part(),
                request: request.to_vec(),
            };
            let Some(reply) = link.ask(&subject, &pull.encode(), ANSWER_MAX, stop)? else {
                return Err(refused(WHAT, "no store publishes now").into());
            };
            let pulled = PartResponse::decode(&reply)?;
            let of = |pulled: &PartResponse| (pulled.store, pulled.epoch, pulled.asker, pulled.number);
            if of(&pulled) != (pull.store, pull.epoch, pull.asker, pull.number) {
                return Err(refused(WHAT, "the answer is to another request").into());
            }
            let gathered = asking.gathering.add(&pulled.part);
            if !matches!(gathered, Ok(None)) {
                // Asked the same again, it is to be computed anew.
                asking.request.clear();
            }
            if let Some(answer) = gathered? {
                return Ok(answer);
            }
        }
    }
}

impl Oplog for Published {
    fn answer(&mut self, request: &[u8], stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error> {
        let answered = Stopped::or_failed(self.answered(request, stop));
        if answered.is_err() {
            self.turn = self.turn.wrapping_add(1);
        }
        answered
    }
}

/// What the stream has, if there is one.
pub(super) fn existing(link: &mut Link, stop: &AtomicBool) -> Result<Extent, Stopped> {
    let extent = link.extent(stop)?;
    extent.ok_or_else(|| {
        let found = format!(
            "there is no stream {}: `ibid records serve --publish` makes it",
            link.address.stream()
        );
        refused("read the stream", &found).into()
    })
}

fn nothing_published() -> Stopped {
    refused(
        "read the stream",
        "nothing was published yet: `ibid records serve --publish` does it",
    )
    .into()
}

/// The first part at a place in the stream or after it, with its own place.
fn part_at(link: &mut Link, sequence: u64, stop: &AtomicBool) -> Result<Option<(u64, PublishedPart)>, Stopped> {
    let found = link.get(sequence, stop)?;
    Ok(match found {
        Some((sequence, bytes)) => Some((sequence, PublishedPart::decode(&bytes)?)),
        None => None,
    })
}

/// The last answer that is there whole: who published the one after it was killed, or is about to
/// go on.
pub(super) fn last_whole(link: &mut Link, extent: &Extent, stop: &AtomicBool) -> Result<Option<LastWhole>, Stopped> {
    let (mut sequence, mut lags) = (extent.last, 0);
    let mut heard = Epoch::default();
    while extent.messages > 0 && sequence >= extent.first {
        match part_at(link, sequence, stop)? {
            Some((found, part)) if found == sequence => {
                let span = part.span;
                if span.epoch.number > heard.number {
                    heard = span.epoch;
                }
                if part.part.is_last() {
                    return Ok(Some(LastWhole { sequence, span, heard }));
                }
                let Some(before) = sequence.checked_sub(part.part.number + 1) else {
                    break;
                };
                sequence = before;
            }
            // It was removed, and the one before it is wanted.
            Some(_) if sequence > 1 => sequence -= 1,
            Some(_) => break,
            None if lags == LAGS => {
                return Err(refused(
                    "read the stream",
                    "the server that is asked lags behind, or its end was removed",
                )
                .into());
            }
            None => {
                lags += 1;
                wait(LAG, stop);
            }
        }
    }
    Ok(None)
}

/// Reads the stream from a place on until an answer is whole. Of one that was not published to its
/// end the parts are passed over.
fn gather(link: &mut Link, mut sequence: u64, stop: &AtomicBool) -> Result<Gathered, Stopped> {
    let mut begun: Option<EntrySpan> = None;
    let mut gathering = PartAssembler::default();
    while let Some((found, part)) = part_at(link, sequence, stop)? {
        let goes_on = found == sequence && part.part.number == gathering.next_part() && begun == Some(part.span);
        sequence = found + 1;
        if !goes_on {
            (begun, gathering) = (None, PartAssembler::default());
            if part.part.number > 0 {
                continue;
            }
        }
        match gathering.add(&part.part)? {
            Some(message) => {
                let found = Some((part.span, message));
                return Ok(Gathered { found, sequence });
            }
            None => begun = Some(part.span),
        }
    }
    let found = None;
    Ok(Gathered { found, sequence })
}

/// The digest of the entry before a position within an answer.
fn digest_within(sent: &LogBatch, before: Digest, position: u64) -> Result<Option<Digest>, Stopped> {
    let mut raw = Vec::new();
    let contents = decompress_contents(&sent.packed, sent.length, &mut raw)?;
    let known = position.saturating_sub(sent.from) as usize;
    let known = contents.entries.get(..known);
    Ok(known.map(|known| known.iter().fold(before, |digest, entry| log_digest(digest, entry))))
}
