//! The primary publishes its log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ibid_format::record::{
    EntrySpan, Epoch, LogBatch, LogState, PublishedPart, Query, Refusal, Request, Response, split_message,
};

use super::Stopped;
use super::address::Address;
use super::answer::answer_all;
use super::read::{existing, last_complete};
use super::stream::{Link, StreamConfig};
use crate::error::Error;
use crate::log::state;
use crate::replicate::follow::{LOOK_EVERY, RETRY_AFTER, wait};
use crate::replicate::{Progress, Sender};
use crate::store::Store;

/// How often a publisher without new entries checks whether another store has published.
const LOOK_AT_STREAM_EVERY: Duration = Duration::from_secs(1);
/// The servers of a cluster that keep a stream by default.
const REPLICAS: u8 = 3;

/// The settings of a new stream. An existing stream stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Publishing {
    /// The number of servers that keep the stream, 1 to 5. The default is three in a cluster, and
    /// otherwise the only server.
    pub replicas: Option<u8>,
    /// Bytes of the stream. When it has more, the oldest messages are removed, and a replica that
    /// needs them asks the primary. At least twice the longest message of the server (1 MiB by
    /// default). By default nothing is removed.
    pub bytes_max: Option<u64>,
}

impl Publishing {
    /// Sets how many servers keep the stream.
    #[must_use]
    pub fn with_replicas(self, replicas: u8) -> Self {
        let replicas = Some(replicas);
        Publishing { replicas, ..self }
    }

    /// Sets the most bytes of the stream.
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: u64) -> Self {
        let bytes_max = Some(bytes_max);
        Publishing { bytes_max, ..self }
    }
}

/// The end of the stream.
struct End {
    /// The sequence number of its last message.
    sequence: u64,
    /// The entries of its last complete answer; [`None`] in an empty stream.
    last: Option<EntrySpan>,
    /// The latest epoch in which a store published, or began to.
    heard: Option<Epoch>,
}

/// Publishes the log of a primary until `stop` is set, and answers requests of replicas that the
/// stream cannot answer. It continues after the last published entry, of this store or another.
/// Calls `on_progress` with its progress (`position` is what the servers have acknowledged), and
/// with errors that may pass; after such an error it tries again a second later.
///
/// # Errors
/// Errors that trying again does not help: [`Error::Fenced`] if a store of a later epoch published,
/// [`Error::StreamDiffers`], [`Error::OtherStream`], [`Error::IsReplica`], [`Error::Incomplete`],
/// [`Error::NoLog`], [`Error::OutOfRange`] for the bytes of the stream; [`Error::Damaged`],
/// [`Error::Engine`], [`Error::WriterEnded`].
pub fn publish(
    store: &Store,
    address: &Address,
    publishing: Publishing,
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(Result<Progress, &Error>),
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
        publisher.publish(stop, on_progress)
    })
}

/// Ends the answering thread, even if `on_progress` panics.
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
    fn publish(
        &mut self,
        stop: &AtomicBool,
        on_progress: &mut dyn FnMut(Result<Progress, &Error>),
    ) -> Result<(), Error> {
        while !stop.load(Ordering::Relaxed) {
            match Stopped::or_failed(self.go_on(stop, on_progress)) {
                Err(error) if error.may_pass() => {
                    on_progress(Err(&error));
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
    fn go_on(
        &mut self,
        stop: &AtomicBool,
        on_progress: &mut dyn FnMut(Result<Progress, &Error>),
    ) -> Result<(), Stopped> {
        let mut link = Link::connect(self.address, self.turn, stop)?;
        let mut end = self.end(&mut link, stop)?;
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let state = state::read(&*self.store.shared.engine.snapshot().map_err(Error::from)?)?;
            state::check_primary(state.as_ref())?;
            let state = state.ok_or(Error::NoLog)?;
            let Some((span, sent)) = self.after(&state, &end)? else {
                continue; // the log or its role has changed meanwhile
            };
            let (position, head) = (span.next, state.next);
            if span.from == span.next && end.last.is_some() {
                on_progress(Ok(Progress::Entries { position, head }));
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
            let message = Response::Entries(sent).into_bytes();
            match append_all(&mut link, end.sequence, span, &message, stop)? {
                Some(sequence) => {
                    let (last, heard) = (Some(span), Some(span.epoch));
                    end = End { sequence, last, heard };
                    on_progress(Ok(Progress::Entries { position, head }));
                }
                // Another store appended first, or a message from before a failure arrived late.
                None => end = self.end(&mut link, stop)?,
            }
        }
        Ok(())
    }

    /// Returns the entries after the last answer of the stream; [`None`] if they have to be asked
    /// for again.
    fn after(&mut self, state: &LogState, end: &End) -> Result<Option<(EntrySpan, LogBatch)>, Error> {
        let last = end.last;
        let (next, before) = match last {
            // Replicas get entries that the log does not have any more with all contents.
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
            // The state of the store says by which epoch.
            Response::Refused(Refusal::Fenced) => Ok(None),
            Response::TransferRequired { .. }
                if state::read(&*self.store.shared.engine.snapshot()?)?.is_some_and(|now| now.first > next) =>
            {
                Ok(None) // it was truncated since
            }
            Response::Refused(Refusal::OtherStore) => Err(Error::OtherStream),
            Response::Refused(Refusal::Incomplete) => Err(Error::Incomplete),
            Response::TransferRequired { .. }
            | Response::Refused(Refusal::Ahead | Refusal::OtherEpoch | Refusal::NotPrimary | Refusal::LaterEpoch)
            | Response::TransferPage(_)
            | Response::Fenced(_) => Err(Error::StreamDiffers { position: next }),
        }
    }

    /// Returns the end of the stream, which is made if there is none.
    fn end(&self, link: &mut Link, stop: &AtomicBool) -> Result<End, Stopped> {
        let extent = match link.extent(stop)? {
            Some(extent) => extent,
            None => {
                // Two parts at least: an empty stream does not know where its end was.
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
                let config = StreamConfig {
                    replicas: self.publishing.replicas.unwrap_or(replicas),
                    bytes_max: self.publishing.bytes_max,
                };
                link.make(&config, stop)?;
                existing(link, stop)?
            }
        };
        let last = last_complete(link, &extent, stop)?;
        Ok(End {
            sequence: extent.last,
            last: last.as_ref().map(|last| last.span),
            heard: last.map(|last| last.heard),
        })
    }
}

/// Appends an answer, part by part. Returns the sequence number of the last part; [`None`] if
/// another message came between.
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
