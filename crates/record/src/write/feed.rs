//! Committed records on their way from the writer to the encoder.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::request::Prior;
use crate::compact::Waiting;
use crate::error::Error;

/// Records that wait, at most and at least. When more come, the oldest are dropped, and the encoder finds them in the
/// store.
const RECORDS_MAX: usize = 1 << 16;
const RECORDS_MIN: usize = 1 << 10;
/// There is one for so many bytes of room at most: short bodies take less than what is beside them.
const BYTES_PER_RECORD: usize = 512;
/// How long a writer waits for the encoder at most, for each record. One that reads all records from the store takes
/// longer than this.
const GIVING_WAY: Duration = Duration::from_micros(100);

/// A record that was committed.
#[derive(Debug)]
pub(crate) struct NewRecord {
    pub(crate) number: u64,
    pub(crate) namespace: u32,
    /// Whether the namespace keeps versions.
    pub(crate) versions_kept: bool,
    /// An older record that it probably resembles.
    pub(crate) prior: Option<Prior>,
    /// Length of the body, bytes.
    pub(crate) length: usize,
    /// [`None`] if there was no room for it here.
    pub(crate) body: Option<Vec<u8>>,
    /// Its body, and those before it that were dropped here.
    pub(crate) lag: Waiting,
}

/// What the encoder does next.
pub(crate) enum FeedEvent {
    Record(NewRecord),
    /// Nothing came within the time that the encoder waits.
    Idle,
    /// Write everything that was committed before, and tell the caller.
    Finish(Finish),
    End,
}

/// A caller that waits until everything is encoded.
pub(crate) struct Finish {
    pub(crate) told: SyncSender<Result<(), Error>>,
    /// Whether it leaves to a later opening what is little, if that costs less, and what takes long.
    pub(crate) leaves_some: bool,
}

/// A queue of committed records, and how busy the writer is.
pub(crate) struct Feed {
    /// Most bytes of bodies that wait. Later records are read from the store in their turn.
    room: usize,
    /// Most records that wait.
    records_max: usize,
    state: Mutex<State>,
    came: Condvar,
    /// A record was taken out for which writers wait.
    went: Condvar,
    /// How often it was changed how namespaces store records.
    settings: AtomicU64,
}

#[derive(Default)]
struct State {
    records: VecDeque<NewRecord>,
    bytes: usize,
    /// The bodies that were dropped since a record was taken out last.
    dropped: Waiting,
    finish: VecDeque<Finish>,
    ended: bool,
    /// Requests that wait for the writer, or that it is committing.
    at_writer: usize,
    /// When the writer committed last.
    committed: Option<Instant>,
}

impl Feed {
    /// Returns an empty queue with room for so many bytes of bodies.
    pub(crate) fn new(room: usize) -> Self {
        Feed {
            room,
            records_max: (room / BYTES_PER_RECORD).clamp(RECORDS_MIN, RECORDS_MAX),
            state: Mutex::default(),
            came: Condvar::new(),
            went: Condvar::new(),
            settings: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that may panic is done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds committed records, ascending, without waiting. The encoder sees them when it looks next
    /// or is [woken](Self::wake).
    pub(crate) fn push(&self, new: impl IntoIterator<Item = NewRecord>) {
        let mut state = self.state();
        for mut record in new {
            if state.records.len() == self.records_max {
                // The encoder notices the gap between numbers.
                if let Some(oldest) = state.records.pop_front() {
                    state.bytes -= oldest.body.map_or(0, |body| body.len());
                    state.dropped += oldest.lag;
                }
            }
            let length = record.body.as_ref().map_or(0, Vec::len);
            if state.bytes + length > self.room {
                record.body = None;
            } else {
                state.bytes += length;
            }
            state.records.push_back(record);
        }
    }

    /// Has a writer wait that is to commit so many records, for a while, if most records that may wait here do already:
    /// the encoder would have to read from the store those that are dropped here.
    pub(crate) fn give_way(&self, records: usize) {
        let is_nearly_full = |state: &mut State| !state.ended && state.records.len() >= self.records_max / 4 * 3;
        let time = GIVING_WAY * u32::try_from(records).unwrap_or(u32::MAX);
        drop(self.went.wait_timeout_while(self.state(), time, is_nearly_full));
    }

    /// Notes that a namespace stores records in another way.
    pub(crate) fn settings_change(&self) {
        self.settings.fetch_add(1, Ordering::Release);
    }

    /// Returns how often that was noted.
    pub(crate) fn settings(&self) -> u64 {
        self.settings.load(Ordering::Acquire)
    }

    /// Wakes the encoder if it is waiting.
    pub(crate) fn wake(&self) {
        self.came.notify_one();
    }

    /// Has a caller told when everything that was committed before is encoded and written, or left.
    pub(crate) fn finish(&self, finish: Finish) {
        let mut state = self.state();
        if !state.ended {
            state.finish.push_back(finish);
        }
        self.came.notify_one();
    }

    /// Whether all callers that wait leave some, and there is one.
    pub(crate) fn leaves_some(&self) -> bool {
        let state = self.state();
        !state.finish.is_empty() && state.finish.iter().all(|finish| finish.leaves_some)
    }

    /// Tells callers that leave some that no more is done now.
    pub(crate) fn leave(&self) {
        self.state().finish.retain(|finish| {
            let is_left = finish.leaves_some;
            if is_left {
                let _ = finish.told.send(Ok(()));
            }
            !is_left
        });
    }

    /// Ends the encoder after the record that it is encoding. Drops the senders of callers that
    /// wait for it to finish.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        state.finish.clear();
        self.came.notify_one();
        self.went.notify_all();
    }

    /// Whether the encoder is to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.state().ended
    }

    /// Waits for the next event; for ever without `patience`.
    pub(crate) fn next(&self, patience: Option<Duration>) -> FeedEvent {
        let mut state = self.state();
        let begun = Instant::now();
        loop {
            if state.ended {
                return FeedEvent::End;
            }
            if let Some(mut record) = state.records.pop_front() {
                state.bytes -= record.body.as_ref().map_or(0, Vec::len);
                record.lag += std::mem::take(&mut state.dropped);
                if state.records.len() + 1 == self.records_max / 4 * 3 {
                    self.went.notify_all();
                }
                return FeedEvent::Record(record);
            }
            if let Some(finish) = state.finish.pop_front() {
                return FeedEvent::Finish(finish);
            }
            state = match patience.map(|patience| patience.saturating_sub(begun.elapsed())) {
                None => self.came.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return FeedEvent::Idle,
                Some(left) => {
                    self.came
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Counts requests that are sent to the writer, or with a negative number, that it has
    /// committed.
    pub(crate) fn writer_has(&self, requests: isize) {
        let mut state = self.state();
        state.at_writer = state.at_writer.saturating_add_signed(requests);
        if requests < 0 {
            state.committed = Some(Instant::now());
        }
    }

    /// Returns whether at most `requests_max` requests wait for the writer and it has committed
    /// nothing for the time `since`.
    pub(crate) fn writer_is_idle(&self, requests_max: usize, since: Duration) -> bool {
        let state = self.state();
        state.at_writer <= requests_max && state.committed.is_none_or(|at| at.elapsed() >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> NewRecord {
        NewRecord {
            number,
            namespace: 1,
            versions_kept: true,
            prior: None,
            length: 10,
            body: Some(vec![7; 10]),
            lag: Waiting { bytes: 10, records: 1 },
        }
    }

    #[test]
    fn few_records_wait_where_there_is_little_room_and_none_is_forgotten() {
        const RECORDS: u64 = 100_000;
        for (room, waiting) in [(0, RECORDS_MIN), (2 << 20, 4096), (1 << 30, RECORDS_MAX)] {
            let feed = Feed::new(room);
            feed.push((0..RECORDS).map(record));
            assert_eq!(feed.state().records.len(), waiting);
            let mut lag = Waiting::default();
            for number in RECORDS - waiting as u64..RECORDS {
                let FeedEvent::Record(next) = feed.next(Some(Duration::ZERO)) else {
                    panic!("record {number} waits");
                };
                assert_eq!(next.number, number);
                lag += next.lag;
            }
            let all = Waiting {
                bytes: 10 * RECORDS,
                records: RECORDS,
            };
            assert_eq!(lag, all);
        }
    }
}
