//! Storing in redb what commits have made of keys, beside further commits.
//!
//! A checkpoint begins when it *freezes* the layers in memory: commits that come later are in others. A thread stores
//! the frozen ones in redb in the order of their keys, so that a page that many of them change is written once; in
//! steps, each of which is synced, so that redb can use pages anew that a step has replaced, and its file stays small.
//! Only the last step says that redb has these commits. Whoever opens the files before that finds all of them in the
//! log, and reads them above redb's tables: what the steps have left there does not show.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ibid_format::record::{LogStart, SegmentEntry};
use redb::WriteTransaction;

use super::commit_log::CommitLog;
use super::journal::{Journal, Usage};
use super::layers::Layer;
use super::tables::store;
use super::{COMMITS, DONE, LOG, SEGMENT_ENTRIES, START, Shared};
use crate::engine::EngineError;

/// Changes that are stored in one step, unless [`Redb::with_step_changes`](super::Redb::with_step_changes) was called.
pub(super) const STEP_CHANGES: usize = 4096;
/// A step ends sooner if its changes are longer, bytes.
const STEP_BYTES: usize = 4 << 20;
/// A commit is stored in redb within this time if others follow it, so that the room of what it deleted is known.
const OLDEST: Duration = Duration::from_secs(10);
/// Writers go on without waiting until they have used so much more of their room than is stored in redb.
const AHEAD: f64 = 0.5;

/// The commits that a checkpoint stores in redb.
pub(super) struct Frozen {
    layers: Vec<Arc<Layer>>,
    /// The last of them.
    done: u64,
    /// Where in the log the next one is.
    start: LogStart,
    /// Segments that the log has gone on from meanwhile.
    passed: BTreeSet<u64>,
}

/// Is there while something is stored in redb: nothing else is meanwhile.
pub(super) struct Storing<'s> {
    _alone: MutexGuard<'s, ()>,
}

/// How far a checkpoint is, and what its thread has to do.
#[derive(Default)]
pub(super) struct Progress {
    state: Mutex<ProgressState>,
    changed: Condvar,
}

#[derive(Default)]
struct ProgressState {
    /// Whether there is something frozen.
    is_under_way: bool,
    /// Which part of it is stored: 0 to 1.
    stored: f64,
    has_ended: bool,
}

impl Progress {
    fn state(&self) -> MutexGuard<'_, ProgressState> {
        // Nothing that may panic is done while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut ProgressState)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Has the thread end once nothing is frozen.
    pub(super) fn end(&self) {
        self.change(|state| state.has_ended = true);
    }

    /// Waits until something is frozen. Returns whether there is; otherwise it is the end.
    fn wait_for_work(&self) -> bool {
        let nothing = |state: &mut ProgressState| !state.is_under_way && !state.has_ended;
        let waited = self.changed.wait_while(self.state(), nothing);
        waited.unwrap_or_else(PoisonError::into_inner).is_under_way
    }

    /// Waits until enough is stored for a writer that has used this part of its room.
    fn wait_for_room(&self, used: f64) {
        let is_ahead = |state: &mut ProgressState| state.is_under_way && used > (state.stored + AHEAD).min(1.0);
        drop(self.changed.wait_while(self.state(), is_ahead));
    }
}

impl Shared {
    /// Stores what is frozen until the end.
    pub(super) fn run(&self) {
        while self.progress.wait_for_work() {
            // A failure is kept for those who commit next.
            let _ = self.store_frozen(&self.alone());
        }
    }

    /// Waits until no other one stores anything in redb.
    pub(super) fn alone(&self) -> Storing<'_> {
        Storing {
            _alone: self.storing.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    fn step_changes(&self) -> usize {
        self.step_changes.load(Ordering::Relaxed)
    }

    /// Returns how much of their room writers have used since the last checkpoint began; from 1 on it is time for the
    /// next one.
    pub(super) fn used_room(&self, journal: &Journal) -> f64 {
        let memory = self.layers().recent_memory() as f64 / (self.memory_max / 2) as f64;
        journal.log.part_of_long().max(memory)
    }

    /// Begins a checkpoint if it is time, and none is under way. Returns how much of their room writers have used.
    pub(super) fn begin_if_due(&self, journal: &mut Journal) -> Result<f64, EngineError> {
        let used = self.used_room(journal);
        let is_old = |first: Instant| first.elapsed() > OLDEST;
        if journal.frozen.is_some() || used < 1.0 && !journal.first_commit.is_some_and(is_old) {
            return Ok(used);
        }
        self.freeze(journal, false, false)?;
        Ok(0.0)
    }

    /// Lets a writer wait that has used so much of its room, until enough of the checkpoint is stored that is under
    /// way.
    pub(super) fn wait_for_room(&self, used: f64) -> Result<(), EngineError> {
        if self.has_thread.load(Ordering::Relaxed) {
            self.progress.wait_for_room(used);
            Ok(())
        } else {
            self.store_frozen(&self.alone())
        }
    }

    /// Freezes all commits. The log goes on in another segment if it `moves_on` or has to. If no commit comes before
    /// they are stored, because the caller `holds` the journal until then, it may begin anew.
    pub(super) fn freeze(
        &self,
        journal: &mut Journal,
        moves_on: bool,
        holds: bool,
    ) -> Result<Arc<Frozen>, EngineError> {
        // redb may have places in a segment only if what is there survives a crash, and so does its end. And readers in
        // other processes may see what is stored before the next sync.
        journal.log.sync()?;
        let done = journal.log.last();
        let accounts = &mut *self.accounts();
        let is_used = journal.has_new_values || accounts.used(journal.log.segment()) > 0;
        // A snapshot may still need what nothing else does, so it is not written over.
        let start = if moves_on || journal.is_segment_full(accounts) || journal.had_values && !is_used {
            journal.log.give_back()?;
            let next = self.new_segment(journal)?;
            journal.continue_in(next, accounts);
            journal.log.next_start(false)
        } else {
            journal.log.next_start(holds && !is_used)
        };
        journal.log.begin_checkpoint();
        (journal.has_new_values, journal.first_commit) = (false, None);
        let layers = self.shown().freeze();
        let passed = journal.passed.clone();
        let frozen = Arc::new(Frozen {
            layers,
            done,
            start,
            passed,
        });
        journal.frozen = Some(frozen.clone());
        self.progress
            .change(|state| (state.is_under_way, state.stored) = (true, 0.0));
        Ok(frozen)
    }

    /// Makes an empty segment that follows the log's.
    fn new_segment(&self, journal: &Journal) -> Result<CommitLog, EngineError> {
        let number = self.segments.next_number()?.max(journal.log.segment() + 1);
        let file = self.segments.create(number)?;
        CommitLog::create(file, &self.path, number, journal.log.id(), journal.log.last())
    }

    /// Stores what is frozen, if anything is, while others commit.
    fn store_frozen(&self, alone: &Storing<'_>) -> Result<(), EngineError> {
        let frozen = self.lock_journal().frozen.clone();
        let Some(frozen) = frozen else { return Ok(()) };
        let stored = self.writing(|| self.store(alone, &frozen));
        self.complete(&mut self.lock_journal(), &frozen, stored)?;
        self.remove_unused(frozen.start.segment);
        Ok(())
    }

    /// Stores what is frozen, until nothing is: another checkpoint may be due by then.
    fn with_nothing_frozen(&self, alone: &Storing<'_>) -> Result<MutexGuard<'_, Journal>, EngineError> {
        loop {
            self.store_frozen(alone)?;
            let journal = self.lock_journal();
            if journal.frozen.is_none() {
                return Ok(journal);
            }
        }
    }

    /// Has redb store all commits, while others come. The log goes on in another segment if it `moves_on`.
    pub(super) fn checkpoint(&self, moves_on: bool) -> Result<(), EngineError> {
        let alone = self.alone();
        let begun = self.freeze(&mut *self.with_nothing_frozen(&alone)?, moves_on, false);
        begun.and_then(|_| self.store_frozen(&alone))
    }

    /// Has redb store all commits, and gives the disk back what the log took of it. Other commits wait for the end.
    pub(super) fn checkpoint_and_give_back(&self, moves_on: bool) -> Result<(), EngineError> {
        if self.layers().recent_changes() > self.step_changes() {
            self.checkpoint(false)?; // most of it while others commit
        }
        let alone = self.alone();
        let journal = &mut *self.with_nothing_frozen(&alone)?;
        let frozen = self.freeze(journal, moves_on, true)?;
        let stored = self.writing(|| self.store(&alone, &frozen));
        self.complete(journal, &frozen, stored)?;
        self.remove_unused(frozen.start.segment);
        journal.log.continue_at(frozen.start);
        journal.log.give_back()
    }

    /// Stores what is frozen in redb, step by step.
    fn store(&self, alone: &Storing<'_>, frozen: &Frozen) -> Result<(), EngineError> {
        let layer = Layer::of_all(&frozen.layers);
        self.shown().replace_frozen(layer.clone());
        let mut changes = layer.iter().peekable();
        let (all, mut stored) = (layer.changes(), 0);
        loop {
            let mut usage = Usage::new();
            self.in_redb(alone, |transaction| {
                {
                    let mut tables = self.tables(transaction)?;
                    let (mut count, mut bytes) = (0, 0);
                    while (count < self.step_changes() && bytes < STEP_BYTES)
                        && let Some((table, key, value)) = changes.next()
                    {
                        count += 1;
                        bytes += key.len() + value.map_or(0, <[u8]>::len);
                        let done = store(&mut tables[table as usize], (table, key, value), &mut usage);
                        done.map_err(|error| self.failed("write to", error.into()))?;
                    }
                    stored += count;
                }
                let is_last = changes.peek().is_none();
                if is_last {
                    self.note_done(transaction, frozen.done, frozen.start)?;
                    // An entry says of a segment that it is not needed, even if there was never a value in it.
                    for segment in &frozen.passed {
                        usage.entry(*segment).or_default();
                    }
                }
                self.note_usage(transaction, &usage)
            })?;
            self.accounts().commit(&usage);
            if changes.peek().is_none() {
                return Ok(());
            }
            self.progress.change(|state| state.stored = stored as f64 / all as f64);
        }
    }

    /// Says in redb that it has all commits up to `done`, and where in the log the next one is.
    pub(super) fn note_done(
        &self,
        transaction: &WriteTransaction,
        done: u64,
        start: LogStart,
    ) -> Result<(), EngineError> {
        let failed = |error: redb::Error| self.failed("write to", error);
        let mut commits = transaction.open_table(COMMITS).map_err(|error| failed(error.into()))?;
        let mut put = |key, value: &[u8]| commits.insert(key, value).map(drop);
        let start = start.encode(&self.log_id);
        for (key, value) in [(LOG, &self.log_id[..]), (DONE, &done.to_be_bytes()), (START, &start)] {
            put(key, value).map_err(|error| failed(error.into()))?;
        }
        Ok(())
    }

    /// Says in redb what is used of segments.
    fn note_usage(&self, transaction: &WriteTransaction, usage: &Usage) -> Result<(), EngineError> {
        let failed = |error: redb::Error| self.failed("write to", error);
        let accounts = self.accounts();
        let mut entries = transaction
            .open_table(SEGMENT_ENTRIES)
            .map_err(|error| failed(error.into()))?;
        for segment in &accounts.removed {
            let removed = entries.remove(&segment.to_be_bytes()[..]).map(drop);
            removed.map_err(|error| failed(error.into()))?;
        }
        for &segment in usage.keys() {
            let used = accounts.used_after(segment, usage);
            let entry = SegmentEntry { used }.encode(&self.log_id, segment);
            let put = entries.insert(&segment.to_be_bytes()[..], &entry[..]).map(drop);
            put.map_err(|error| failed(error.into()))?;
        }
        Ok(())
    }

    /// Commits one transaction of redb, synced, and keeps the pages for readers that it leaves.
    pub(super) fn in_redb(
        &self,
        _alone: &Storing<'_>,
        work: impl FnOnce(&WriteTransaction) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let transaction = self.begin_write()?;
        work(&transaction)?;
        // Not before: from now until it is committed, no reader gets a lock that counts.
        let readers = self.readers.as_ref();
        let pages = readers.map(|readers| self.with_database(|database| readers.release(database)));
        let pages = pages.transpose()?;
        transaction
            .commit()
            .map_err(|error| self.failed("write to", error.into()))?;
        match (readers, pages) {
            (Some(readers), Some(pages)) => readers.keep(pages),
            _ => Ok(()),
        }
    }

    /// Ends a checkpoint, if redb has `stored` its commits. Otherwise nothing more is written.
    fn complete(
        &self,
        journal: &mut Journal,
        frozen: &Frozen,
        stored: Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let stored = stored.map_err(|failure| journal.log.fail(failure));
        if stored.is_ok() {
            self.shown().thaw();
            journal.frozen = None;
            journal.passed.retain(|segment| !frozen.passed.contains(segment));
        }
        self.progress.change(|state| state.is_under_way = false);
        stored
    }

    /// Removes the segments before `end` in which nothing is left.
    fn remove_unused(&self, end: u64) {
        let accounts = &mut *self.accounts();
        for segment in accounts.unused_before(end) {
            // A file that can't be removed only takes room: its entry stays, and the next checkpoint tries again.
            if self.segments.remove(segment).is_ok() {
                accounts.removed.insert(segment);
            }
            accounts.lengths.remove(&segment);
            accounts.stuck.remove(&segment);
        }
    }
}
