//! A replica reads the stream at its own position.

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

/// How long the primary may take for an answer before it is asked for the same one again.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// How long an answer about the end of the stream is valid.
const END_IS_KNOWN: Duration = Duration::from_secs(1);
/// How long a server that keeps the stream may lag behind its leader.
const LAG: Duration = Duration::from_millis(50);
/// The number of times to wait for that.
const LAGS: usize = 40;

/// A published log. Answers are read from the stream, or come from the store that publishes.
pub struct Published {
    address: Address,
    turn: usize,
    link: Option<Link>,
    /// The entries of the last complete answer that was read from the stream.
    last: Option<EntrySpan>,
    /// The next place to read in the stream, and the position of the log there.
    place: Option<Place>,
    /// The end of the stream when its leader was last asked, and the time of that.
    ended: Option<(u64, Instant)>,
    asking: Asking,
}

/// A place in the stream, and the position of the log there.
#[derive(Clone, Copy)]
struct Place {
    sequence: u64,
    position: u64,
}

/// A request to the primary, whose answer comes in parts.
struct Asking {
    asker: u64,
    number: u64,
    request: Vec<u8>,
    parts: PartAssembler,
}

/// The result of reading the stream up to a complete answer.
struct Scanned {
    /// The first complete answer.
    found: Option<(EntrySpan, Vec<u8>)>,
    /// The place after the last message that was read.
    sequence: u64,
}

/// The last complete answer of the stream.
pub(super) struct LastComplete {
    /// The place of its last part.
    sequence: u64,
    pub(super) span: EntrySpan,
    /// The latest epoch in which a store published it, or began to publish after it.
    pub(super) heard: Epoch,
}

/// What the stream has for a position.
enum FromStream {
    Response(Response),
    /// Nothing. The primary may have it.
    Nothing,
}

impl Published {
    /// Returns the log at an address, without connecting.
    ///
    /// # Errors
    /// [`Error::Engine`] if the operating system gives no random bytes.
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
                parts: PartAssembler::default(),
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
        // A link is not used again after an error: an answer may be late, and another server may
        // work.
        let answer = self.answer_to(&mut link, &asked, request, stop)?;
        self.link = Some(link);
        Ok(answer)
    }

    fn answer_to(
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
            && let FromStream::Response(answer) = self.read(link, asked, (next, digest), stop)?
        {
            return Ok(answer.into_bytes());
        }
        if let Query::Fence { .. } = asked.query {
            return Err(refused(
                "fence a primary through NATS",
                "publishing the log of its successor does that",
            )
            .into());
        }
        if self.last.is_none() {
            self.locate(link, u64::MAX, stop)?;
        }
        let Some(last) = self.last else {
            return Err(nothing_published(&self.address));
        };
        let answer = self.ask(link, last, request, stop);
        if answer.is_err() {
            // Another store may be the primary by now.
            self.last = None;
        }
        answer
    }

    /// Returns what the stream has for a position.
    fn read(
        &mut self,
        link: &mut Link,
        asked: &Request,
        (next, digest): (u64, Digest),
        stop: &AtomicBool,
    ) -> Result<FromStream, Stopped> {
        if self.place.is_none_or(|place| place.position != next) {
            self.place = self.locate(link, next, stop)?;
        }
        let mut lags = 0;
        while let Some(place) = self.place {
            let Scanned { found, sequence } = scan(link, place.sequence, stop)?;
            if let Some((span, message)) = found {
                self.saw(span);
                let answer = if span.next <= next {
                    None // the replica has these entries
                } else if span.from <= next {
                    Some(self.fitting(asked, (next, digest), span, &message)?)
                } else {
                    break; // the entries between were removed from the stream
                };
                let position = answer.as_ref().map_or(next, |_| span.next);
                self.place = Some(Place { sequence, position });
                match answer {
                    Some(answer) => return Ok(FromStream::Response(answer)),
                    None => continue,
                }
            }
            // The leader of the stream knows whether that is all. Waiting replicas do not ask it
            // each time.
            if let Some((end, asked_at)) = self.ended
                && end == sequence
                && asked_at.elapsed() < END_IS_KNOWN
            {
                return Ok(self
                    .at_end(asked, (next, digest))
                    .map_or(FromStream::Nothing, FromStream::Response));
            }
            let extent = existing(link, stop)?;
            if extent.last + 1 < place.sequence {
                // The stream was made anew.
                self.last = None;
                self.place = self.locate(link, next, stop)?;
            } else if extent.last < sequence {
                self.ended = Some((sequence, Instant::now()));
                return Ok(self
                    .at_end(asked, (next, digest))
                    .map_or(FromStream::Nothing, FromStream::Response));
            } else if lags == LAGS {
                return Err(refused("read the stream", "the server lags behind its leader").into());
            } else {
                lags += 1;
                wait(LAG, stop);
            }
        }
        self.place = None;
        Ok(FromStream::Nothing)
    }

    fn saw(&mut self, span: EntrySpan) {
        if self.last.is_none_or(|last| last.next <= span.next) {
            self.last = Some(span);
        }
    }

    /// Returns the place of a position in the stream, which may be its end; [`None`] if the
    /// position is before the first message.
    fn locate(&mut self, link: &mut Link, position: u64, stop: &AtomicBool) -> Result<Option<Place>, Stopped> {
        let extent = existing(link, stop)?;
        let Some(LastComplete {
            sequence, span: last, ..
        }) = last_complete(link, &extent, stop)?
        else {
            return Err(nothing_published(&self.address));
        };
        self.last = Some(last);
        if position >= last.next {
            let sequence = sequence + 1;
            return Ok(Some(Place { sequence, position }));
        }
        // Searches for the last message that begins at the position or before it. Positions ascend.
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

    /// Returns the answer for a replica that lacks entries of the stream.
    fn fitting(
        &self,
        asked: &Request,
        (next, digest): (u64, Digest),
        span: EntrySpan,
        message: &[u8],
    ) -> Result<Response, Stopped> {
        let Response::Entries(mut sent) = Response::decode(message)? else {
            return Err(refused("read the stream", "one of its messages has no entries").into());
        };
        if (sent.from, sent.digest, sent.epoch) != (span.from, span.digest, span.epoch) {
            return Err(refused("read the stream", "one of its messages contradicts itself").into());
        }
        let before = if span.from == next {
            Some(span.before)
        } else {
            digest_within(&sent, span.before, next)?
        };
        if before != Some(digest) {
            return Ok(self.other_entries(asked, next, span));
        }
        // There is more until the end of the stream is reached.
        sent.head = sent.head.max(span.next + 1);
        Ok(Response::Entries(sent))
    }

    /// Returns the answer for a replica that has all entries of the stream, or more.
    fn at_end(&self, asked: &Request, (next, digest): (u64, Digest)) -> Option<Response> {
        let last = self.last.filter(|last| last.next <= next)?;
        let (is_more, is_behind) = (last.next < next, asked.epoch.number < last.epoch.number);
        if (is_more && is_behind) || (!is_more && last.digest != digest) {
            return Some(self.other_entries(asked, next, last));
        }
        // If the replica has more, the publisher has yet to append it.
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

    /// Returns the answer for a replica that has other entries than the stream, as a primary gives
    /// it.
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

    /// Asks the primary, part by part.
    fn ask(&mut self, link: &mut Link, last: EntrySpan, request: &[u8], stop: &AtomicBool) -> Result<Vec<u8>, Stopped> {
        const WHAT: &str = "ask the primary for what the stream does not have";
        let asking = &mut self.asking;
        if asking.request != request {
            asking.number += 1;
            asking.request = request.to_vec();
            asking.parts = PartAssembler::default();
        }
        let subject = self.address.ask_subject();
        loop {
            let pull = PartRequest {
                store: last.store,
                epoch: last.epoch,
                asker: asking.asker,
                number: asking.number,
                part: asking.parts.next_part(),
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
            let gathered = asking.parts.add(&pulled.part);
            if !matches!(gathered, Ok(None)) {
                // The same request begins anew then.
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

/// Returns what the stream has, which must exist.
pub(super) fn existing(link: &mut Link, stop: &AtomicBool) -> Result<Extent, Stopped> {
    let extent = link.extent(stop)?;
    extent.ok_or_else(|| nothing_published(&link.address))
}

fn nothing_published(address: &Address) -> Stopped {
    let address = address.to_string();
    Error::NothingPublished { address }.into()
}

/// Returns the first part at a place in the stream or after it, with its own place.
fn part_at(link: &mut Link, sequence: u64, stop: &AtomicBool) -> Result<Option<(u64, PublishedPart)>, Stopped> {
    let found = link.get(sequence, stop)?;
    Ok(match found {
        Some((sequence, bytes)) => Some((sequence, PublishedPart::decode(&bytes)?)),
        None => None,
    })
}

/// Returns the last complete answer of the stream. The publisher of a later one was killed, or has
/// not finished.
pub(super) fn last_complete(
    link: &mut Link,
    extent: &Extent,
    stop: &AtomicBool,
) -> Result<Option<LastComplete>, Stopped> {
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
                    return Ok(Some(LastComplete { sequence, span, heard }));
                }
                let Some(before) = sequence.checked_sub(part.part.number + 1) else {
                    break;
                };
                sequence = before;
            }
            // The message was removed.
            Some(_) if sequence > 1 => sequence -= 1,
            Some(_) => break,
            None if lags == LAGS => {
                return Err(refused(
                    "read the stream",
                    "the server lags behind its leader, or the end of the stream was removed",
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

/// Reads the stream from a place on until an answer is complete. Passes over parts of answers that
/// were not published to their end.
fn scan(link: &mut Link, mut sequence: u64, stop: &AtomicBool) -> Result<Scanned, Stopped> {
    let mut begun: Option<EntrySpan> = None;
    let mut parts = PartAssembler::default();
    while let Some((found, part)) = part_at(link, sequence, stop)? {
        let goes_on = found == sequence && part.part.number == parts.next_part() && begun == Some(part.span);
        sequence = found + 1;
        if !goes_on {
            (begun, parts) = (None, PartAssembler::default());
            if part.part.number > 0 {
                continue;
            }
        }
        match parts.add(&part.part)? {
            Some(message) => {
                let found = Some((part.span, message));
                return Ok(Scanned { found, sequence });
            }
            None => begun = Some(part.span),
        }
    }
    let found = None;
    Ok(Scanned { found, sequence })
}

/// Returns the digest of the entry before a position within an answer.
fn digest_within(sent: &LogBatch, before: Digest, position: u64) -> Result<Option<Digest>, Stopped> {
    let mut raw = Vec::new();
    let contents = decompress_contents(&sent.packed, sent.length, &mut raw)?;
    let known = position.saturating_sub(sent.from) as usize;
    let known = contents.entries.get(..known);
    Ok(known.map(|known| known.iter().fold(before, |digest, entry| log_digest(digest, entry))))
}
