//! Who publishes the log: the primary.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ibid_format::record::{
    EntrySpan, Epoch, LogBatch, LogState, PublishedPart, Query, Refusal, Request, Response, split_message,
};

use super::Stopped;
use super::address::Address;
use super::answer::answer_all;
use super::read::{existing, last_whole};
use super::stream::{Link, Making};
use crate::error::Error;
use crate::log::state;
use crate::replicate::follow::{LOOK_EVERY, RETRY_AFTER, wait};
use crate::replicate::{Progress, Sender};
use crate::store::Store;

/// How often a publisher that has nothing to say looks whether another has published.
const LOOK_AT_STREAM_EVERY: Duration = Duration::from_secs(1);
/// Servers that keep a stream in a cluster, unless it is said.
const REPLICAS: u8 = 3;

/// How the stream is made, if it is not there. One that is there stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Publishing {
    /// How many servers keep it, 1 to 5; by default three of a cluster, and one if there is but
    /// one.
    pub replicas: Option<u8>,
    /// Bytes of the stream, from which on the oldest messages go, at least twice what a server lets
    /// pass at once (1 MiB); by default it is as long as the log was ever. A replica that lacks
    /// what is gone asks the primary.
    pub bytes_max: Option<u64>,
}

impl Publishing {
    /// The same, kept by so many servers.
    #[must_use]
    pub fn with_replicas(self, replicas: u8) -> Self {
        let replicas = Some(replicas);
        Publishing { replicas, ..self }
    }

    /// The same with at most so many bytes.
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: u64) -> Self {
        let bytes_max = Some(bytes_max);
        Publishing { bytes_max, ..self }
    }
}

/// What the stream ends with.
struct End {
    /// Of its last message, whole or not.
    sequence: u64,
    /// What its last answer has that is whole; [`None`] in an empty stream.
    last: Option<EntrySpan>,
    /// The latest epoch that somebody published in, or began to.
    heard: Option<Epoch>,
}

/// Publishes the log of a primary until `stop` is set, and answers what replicas ask that the
/// stream has not. It goes on after what was published last, by whomever. `told` hears how far it
/// is, `position` being what the servers have acknowledged, and why it could not go on; it tries
/// again then, a second later.
///
/// # Errors
/// What trying again will not help: [`Error::Fenced`] if a store of a later epoch published,
/// [`Error::StreamDiffers`], [`Error::OtherStream`], [`Error::IsReplica`], [`Error::Incomplete`],
/// [`Error::NoLog`], [`Error::OutOfRange`] for what is said of the stream; [`Error::Damaged`],
/// [`Error::Engine`], [`Error::WriterEnded`].
pub fn publish(
    store: &Store,
    address: &Address,
    publishing: Publishing,
    stop: &AtomicBool,
    told: &mut dyn FnMut(Result<Progress, &Error>),
) -> Result<(), Error> {
    let sender = Sender::new(store)?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| answer_all(store, address, &ended));
        let mut publisher = Publisher {
            store,
            address,
            publishing,
            sender,
            turn: 0,
        };
        let _ends = Ends(&ended);
        publisher.publish(stop, told)
    })
}

/// Ends those who answer, also if the one that is told panics.
struct Ends<'s>(&'s AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Publisher<'s> {
    store: &'s Store,
    address: &'s Address,
    publishing: Publishing,
    sender: Sender,
    turn: usize,
}

impl Publisher<'_> {
    fn publish(&mut self, stop: &AtomicBool, told: &mut dyn FnMut(Result<Progress, &Error>)) -> Result<(), Error> {
        while !stop.load(Ordering::Relaxed) {
            match Stopped::or_failed(self.go_on(stop, told)) {
                Err(error) if error.may_pass() => {
                    told(Err(&error));
                    self.turn = self.turn.wrapping_add(1);
                    wait(RETRY_AFTER, stop);
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Publishes over one connection until it fails.
    fn go_on(&mut self, stop: &AtomicBool, told: &mut dyn FnMut(Result<Progress, &Error>)) -> Result<(), Stopped> {
        let mut link = Link::connect(self.address, self.turn, stop)?;
        let mut end = self.end(&mut link, stop)?;
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let state = state::read(&*self.store.shared.engine.snapshot().map_err(Error::from)?)?;
            state::check_primary(state.as_ref())?;
            let state = state.ok_or(Error::NoLog)?;
            let Some((span, sent)) = self.after(&state, &end)? else {
                continue; // something has changed meanwhile
            };
            let (position, head) = (span.next, state.next);
            if span.from == span.next && end.last.is_some() {
                told(Ok(Progress::Entries { position, head }));
                wait(LOOK_EVERY, stop);
                if looked.elapsed() >= LOOK_AT_STREAM_EVERY {
                    looked = Instant::now();
                    let extent = link.extent(stop)?;
                    if extent.is_none_or(|extent| extent.messages == 0 || extent.last != end.sequence) {
                        end = self.end(&mut link, stop)?;
                    }
                }
                continue;
            }
            let message = Response::Entries(sent).encode();
            match append_all(&mut link, end.sequence, span, &message, stop)? {
                Some(sequence) => {
                    let (last, heard) = (Some(span), Some(span.epoch));
                    end = End { sequence, last, heard };
                    told(Ok(Progress::Entries { position, head }));
                }
                // Another was faster; or what was appended before a failure came late.
                None => end = self.end(&mut link, stop)?,
            }
        }
        Ok(())
    }

    /// What comes after the last answer of the stream; [`None`] if that is to be asked again.
    fn after(&mut self, state: &LogState, end: &End) -> Result<Option<(EntrySpan, LogBatch)>, Error> {
        let last = end.last;
        let (next, before) = match last {
            // What the log has not any more, replicas take with all the rest.
            Some(last) if last.next >= state.first => (last.next, last.digest),
            _ => (state.first, state.before),
        };
        let request = Request {
            store: last.map_or(state.store, |last| last.store),
            epoch: end.heard.unwrap_or(state.epoch),
            query: Query::Entries {
                next,
                digest: before,
                whole: false,
            },
        };
        match self.sender.answer_to(&request)? {
            Response::Entries(sent) => {
                let span = EntrySpan {
                    store: sent.store,
                    epoch: sent.epoch,
                    from: sent.from,
                    next: self.sender.position(),
                    before,
                    digest: sent.digest,
                };
                Ok(Some((span, sent)))
            }
            // The store says by whom.
            Response::Refused(Refusal::Fenced) => Ok(None),
            Response::TransferRequired { .. }
                if state::read(&*self.store.shared.engine.snapshot()?)?.is_some_and(|now| now.first > next) =>
            {
                Ok(None) // it was truncated since
            }
            Response::Refused(Refusal::OtherStore) => Err(Error::OtherStream),
            Response::Refused(Refusal::Incomplete) => Err(Error::Incomplete),
            Response::TransferRequired { .. }
            | Response::Refused(Refusal::Ahead | Refusal::OtherEpoch)
            | Response::TransferPage(_) => Err(Error::StreamDiffers { position: next }),
        }
    }

    /// What the stream ends with; it is made if there is none.
    fn end(&self, link: &mut Link, stop: &AtomicBool) -> Result<End, Stopped> {
        let extent = match link.extent(stop)? {
            Some(extent) => extent,
            None => {
                // Two parts at least: a stream that keeps none forgets where its end is.
                let (field, min, max) = (
                    "bytes of a stream",
                    2 * link.wire.payload_bytes_max as u64,
                    i64::MAX as u64,
                );
                if let Some(found) = self.publishing.bytes_max
                    && !(min..=max).contains(&found)
                {
                    return Err(Error::OutOfRange { field, min, max, found }.into());
                }
                let replicas = if link.wire.is_clustered { REPLICAS } else { 1 };
                let making = Making {
                    replicas: self.publishing.replicas.unwrap_or(replicas),
                    bytes_max: self.publishing.bytes_max,
                };
                link.make(&making, stop)?;
                existing(link, stop)?
            }
        };
        let last = last_whole(link, &extent, stop)?;
        Ok(End {
            sequence: extent.last,
            last: last.as_ref().map(|last| last.span),
            heard: last.map(|last| last.heard),
        })
    }
}

/// Appends an answer, part for part; gives the place of the last one, [`None`] if something else
/// came between.
fn append_all(
    link: &mut Link,
    mut sequence: u64,
    span: EntrySpan,
    message: &[u8],
    stop: &AtomicBool,
) -> Result<Option<u64>, Stopped> {
    for part in split_message(message, link.part_bytes()) {
        let published = PublishedPart { span, part }.encode();
        match link.append(sequence, &published, stop)? {
            Some(appended) => sequence = appended,
            None => return Ok(None),
        }
    }
    Ok(Some(sequence))
}
