//! What has changed in a store: by this its keeper knows when there is something to do.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many bytes a second a writer may commit when half of the bodies wait that may.
const GIVING_WAY: u64 = 400 << 20;
/// How many bytes are between marks.
const MARK_BYTES: u64 = 1 << 20;
/// A writer that has to wait looks so often whether it still has to.
const WAIT: Duration = Duration::from_millis(20);
/// About what a record takes in the files beside its body until it is in a block, bytes.
pub(crate) const RECORD_BYTES: u64 = 64;

/// Bodies that wait for the encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Waiting {
    /// Their length, bytes.
    pub(crate) bytes: u64,
    pub(crate) records: u64,
}

impl AddAssign for Waiting {
    fn add_assign(&mut self, other: Waiting) {
        self.bytes += other.bytes;
        self.records += other.records;
    }
}

/// What was committed since the store was opened, and how much of it waits to be encoded or moved into blocks.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Length of bodies that the encoder has not examined, bytes.
    unexamined: AtomicU64,
    /// How many these are.
    unexamined_records: AtomicU64,
    /// How many bytes were committed before the first record that the keeper has not moved.
    packed: AtomicU64,
    /// Most bytes that may wait.
    lag_bytes_max: u64,
    /// Calls that wait for the keeper.
    hurried: AtomicU64,

    /// Bytes of bodies and deltas, and [`RECORD_BYTES`] for each operation.
    bytes: AtomicU64,
    /// The number of the next record.
    next: AtomicU64,
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug)]
struct State {
    /// When something was committed last.
    committed: Instant,
    /// How many bytes were committed when which number was the next: a mark for each MiB that is not packed.
    marks: VecDeque<(u64, u64)>,
    /// How many keepers wait for a commit.
    waiting: usize,
    ended: bool,
    /// Whether nothing is encoded any more.
    has_no_encoder: bool,
    has_no_keeper: bool,
}

struct Hurried<'a>(&'a Activity);

impl Drop for Hurried<'_> {
    fn drop(&mut self) {
        self.0.hurried.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Activity {
    /// Begins with a store whose next record has this number, and of which so many bytes may wait.
    pub(crate) fn new(next: u64, lag_bytes_max: u64) -> Self {
        Activity {
            unexamined: AtomicU64::new(0),
            unexamined_records: AtomicU64::new(0),
            packed: AtomicU64::new(0),
            lag_bytes_max: lag_bytes_max.max(1),
            hurried: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            next: AtomicU64::new(next),
            state: Mutex::new(State {
                committed: Instant::now(),
                marks: VecDeque::from([(0, next)]),
                waiting: 0,
                ended: false,
                has_no_encoder: false,
                has_no_keeper: false,
            }),
            came: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that may panic is done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a commit of so many bytes, [`RECORD_BYTES`] for each operation among them, after which `next` is the
    /// number of the next record.
    pub(crate) fn committed(&self, bytes: u64, next: u64) {
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.next.store(next, Ordering::Relaxed);
        let mut state = self.state();
        if state.marks.back().is_none_or(|&(at, _)| now >= at + MARK_BYTES) {
            state.marks.push_back((now, next));
        }
        state.committed = Instant::now();
        if state.waiting > 0 {
            self.came.notify_all();
        }
    }

    /// Notes that committed bodies wait for the encoder.
    pub(crate) fn wait_for_encoder(&self, waiting: Waiting) {
        self.unexamined.fetch_add(waiting.bytes, Ordering::Relaxed);
        self.unexamined_records.fetch_add(waiting.records, Ordering::Relaxed);
    }

    /// Notes that the encoder has examined bodies, and that their deltas are written.
    pub(crate) fn were_examined(&self, examined: Waiting) {
        self.unexamined.fetch_sub(examined.bytes, Ordering::Relaxed);
        self.unexamined_records.fetch_sub(examined.records, Ordering::Relaxed);
    }

    /// Returns a number so that at least the last `bytes` belong to records from this number on.
    pub(crate) fn recent_from(&self, bytes: u64) -> u64 {
        let from = self.bytes().saturating_sub(bytes);
        let state = self.state();
        let before = state.marks.iter().take_while(|&&(at, _)| at <= from);
        before.last().map_or(0, |&(_, next)| next)
    }

    /// Returns the length of the bodies that the encoder has not examined, bytes.
    pub(crate) fn unexamined(&self) -> u64 {
        self.unexamined.load(Ordering::Relaxed)
    }

    fn unexamined_with_records(&self) -> u64 {
        self.unexamined() + RECORD_BYTES * self.unexamined_records.load(Ordering::Relaxed)
    }

    /// Notes that all records before this number are in blocks, or in frames that come into one next.
    pub(crate) fn was_packed(&self, below: u64) {
        let mut state = self.state();
        while state.marks.len() > 1 && state.marks[1].1 <= below {
            state.marks.pop_front();
        }
        if let Some(&(at, next)) = state.marks.front()
            && next <= below
        {
            self.packed.store(at, Ordering::Relaxed);
        }
    }

    /// Notes that there is no encoder, so that no writer waits for one.
    pub(crate) fn has_no_encoder(&self) {
        self.state().has_no_encoder = true;
    }

    /// Whether new records are still looked at by an encoder.
    pub(crate) fn has_encoder(&self) -> bool {
        !self.state().has_no_encoder
    }

    /// Notes that there is no keeper, so that no writer waits for one.
    pub(crate) fn has_no_keeper(&self) {
        self.state().has_no_keeper = true;
    }

    /// Returns how much waits for the encoder or the keeper, as a part of what may: 0 up to half of it, 1 for all of it
    /// and more.
    fn pressure(&self) -> f64 {
        let (has_encoder, has_keeper) = {
            let state = self.state();
            (!state.has_no_encoder, !state.has_no_keeper)
        };
        let lag = match (has_encoder, has_keeper) {
            // What the encoder has not examined, the keeper has not moved either.
            (_, true) => self.bytes().saturating_sub(self.packed.load(Ordering::Relaxed)),
            (true, false) => self.unexamined_with_records(),
            (false, false) => 0,
        };
        self.part(lag)
    }

    /// Returns how much waits for the keeper alone, as [`pressure`](Self::pressure) does.
    pub(crate) fn pressure_on_keeper(&self) -> f64 {
        if self.state().has_no_keeper {
            return 0.0;
        }
        let taken = self.packed.load(Ordering::Relaxed) + self.unexamined_with_records();
        self.part(self.bytes().saturating_sub(taken))
    }

    fn part(&self, lag: u64) -> f64 {
        ((lag as f64 / self.lag_bytes_max as f64 - 0.5) * 2.0).clamp(0.0, 1.0)
    }

    /// Has a writer that is to commit so many bytes wait, if too much waits already.
    pub(crate) fn give_way(&self, bytes: u64) {
        let mut waited = Duration::ZERO;
        loop {
            let pressure = self.pressure();
            // No time at the half, and without end at the whole.
            let time = bytes as f64 / GIVING_WAY as f64 * pressure / (1.0 - pressure);
            let left = Duration::try_from_secs_f64(time)
                .unwrap_or(Duration::MAX)
                .saturating_sub(waited);
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(WAIT));
            waited += left.min(WAIT);
        }
    }

    /// Returns how many bytes were committed.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Returns whether nothing was committed for this time.
    pub(crate) fn is_idle(&self, since: Duration) -> bool {
        self.state().committed.elapsed() >= since
    }

    /// Has the keeper make no pauses until this is dropped.
    pub(crate) fn hurry(&self) -> impl Drop + '_ {
        self.hurried.fetch_add(1, Ordering::Relaxed);
        Hurried(self)
    }

    /// Whether the keeper is to make no pauses, because a call waits for it.
    pub(crate) fn is_hurried(&self) -> bool {
        self.hurried.load(Ordering::Relaxed) > 0
    }

    /// Waits for this time, or until the end. Returns whether that has come.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        let state = self.state();
        let goes_on = |state: &mut State| !state.ended;
        let waited = self.came.wait_timeout_while(state, time, goes_on);
        waited.unwrap_or_else(PoisonError::into_inner).0.ended
    }

    /// Waits until something is committed that was not when there were `bytes`, or until the end. Returns whether that
    /// has come.
    pub(crate) fn wait(&self, bytes: u64) -> bool {
        let mut state = self.state();
        state.waiting += 1;
        let nothing_new = |state: &mut State| !state.ended && self.bytes() == bytes;
        let waited = self.came.wait_while(state, nothing_new);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state.ended
    }

    /// Ends the keeper.
    pub(crate) fn end(&self) {
        self.state().ended = true;
        self.came.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bodies_weigh_as_what_they_take_for_the_encoder_and_then_for_the_keeper() {
        let waiting = Waiting {
            bytes: 1000,
            records: 100,
        };
        let bytes = waiting.bytes + RECORD_BYTES * waiting.records;
        let activity = Activity::new(1, bytes);
        activity.committed(bytes, 101);
        activity.wait_for_encoder(waiting);
        assert_eq!((activity.pressure(), activity.pressure_on_keeper()), (1.0, 0.0));
        activity.were_examined(waiting);
        assert_eq!((activity.pressure(), activity.pressure_on_keeper()), (1.0, 1.0));
    }
}
