//! redb: a copy-on-write B-tree in one file, and beside it a log of commits, in whose segments large values stay.

mod commit_log;
mod open;
mod reclaim;
mod segments;
#[cfg(test)]
mod tests;
mod wipe;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use ibid_format::record::{COMMIT_KEY_BYTES_MAX, LogStart, SegmentEntry, StoredValue, ValuePlace};
pub use redb::StorageBackend;
use redb::{
    AccessGuard, CompactionError, Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase,
    ReadableTable, StorageError, TableDefinition, WriteTransaction,
};

use self::commit_log::{CommitLog, Recording};
pub use self::open::LostCommits;
pub use self::segments::SegmentFiles;
use self::segments::{EARLIER_LOG, SegmentSet, Segments};
use super::{
    Commit, Direction, EachKey, EachPair, Engine, EngineError, KeyRange, Pause, Read, Snapshot, Table, Transaction,
    Work, is_void, part_of,
};

const ENGINE: &str = "redb";
/// Smallest cache of redb, bytes.
const CACHE_BYTES_MIN: usize = 1 << 20;
/// Longest value, bytes: what [`Transaction::put`] promises, with a seal. redb itself takes ten
/// times as much.
const VALUE_BYTES_MAX: usize = (300 << 20) + ibid_format::SEAL_OVERHEAD;
/// Values from this length on are placed in segments, bytes. Of shorter ones little more than the place would be saved.
const PLACED_BYTES_MIN: usize = 64;
/// A segment is followed by another from this length on, bytes, or from the share below of all segments.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Of so many parts of the length of all segments, one makes a segment long: so there are few however large the store.
const SEGMENTS: u64 = 128;
/// Values from this length on are written in parts, bytes.
const IN_PARTS_MIN: usize = 64 << 10;
/// redb's own table about the log of commits.
const COMMITS: Definition = TableDefinition::new("commits");
/// What names the log.
const LOG: &[u8] = b"log";
/// The number of the last commit.
const DONE: &[u8] = b"done";
/// Where in the log the next commit is.
const START: &[u8] = b"start";
/// redb's own table about segments.
const SEGMENT_ENTRIES: Definition = TableDefinition::new("segments");

/// All tables of a transaction, in the order of [`Table::ALL`].
type Tables<'t> = Vec<redb::Table<'t, &'static [u8], &'static [u8]>>;
/// Is called with each key of a range, and what redb stores of its value, until it breaks.
type EachStored<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, EngineError>;
type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Whether values of a table may be placed in segments. Then redb has a [`StoredValue`] of each, in a table of another
/// name than in earlier versions.
fn is_placed(table: Table) -> bool {
    matches!(table, Table::Records | Table::Blocks)
}

fn definition(table: Table) -> Definition {
    TableDefinition::new(match table {
        Table::Records => "placed records",
        Table::Blocks => "placed blocks",
        table => table.name(),
    })
}

/// The [`Engine`] of the library redb, in one file, with a log of commits in segments beside it.
///
/// A commit with [`Commit::Synced`] costs one sync of the log. Other commits stay in memory, or are in a part of the
/// log that is not synced: they may be lost if the machine stops without [`sync`](Engine::sync). After a crash, opening
/// it repeats the commits since redb's file was synced last, which are at most 16 MiB and the largest one.
///
/// Records and blocks of 64 bytes and more are written once, into the log. redb's file has their places, and the
/// log's segments stay as long as there is a value in them.
pub struct Redb {
    /// [`None`] only while it is dropped. Compacting takes the lock for writing.
    database: RwLock<Option<Database>>,
    path: PathBuf,
    segments: Segments,
    /// A commit takes it after redb's own lock for writing, and keeps it until redb has the commit.
    journal: Mutex<Journal>,
    /// Why the first write failed, after which redb refuses every other.
    first_failure: OnceLock<EngineError>,
}

/// The log, and how much of its segments is in use.
struct Journal {
    log: CommitLog,
    /// Length of all values that redb has a place of, by segment.
    used: BTreeMap<u64, u64>,
    /// Length of the files of the segments before the one that the log is in.
    lengths: BTreeMap<u64, u64>,
    /// Segments that were removed, and that redb still has an entry of.
    removed: BTreeSet<u64>,
    /// Segments of which nothing can be moved, because something is damaged.
    stuck: BTreeSet<u64>,
    /// From which length on a segment is followed by another, bytes.
    segment_bytes: u64,
    /// Length of redb's file after it was compacted last, bytes; 0 before the first time.
    compacted_bytes: u64,
    /// Whether values have ever been placed in the log's segment: a snapshot may need one that nothing else does.
    had_values: bool,
}

/// What a transaction has added to the used bytes of segments, or taken from them.
type Usage = BTreeMap<u64, i64>;

impl Journal {
    fn new(log: CommitLog) -> Self {
        Journal {
            log,
            used: BTreeMap::new(),
            lengths: BTreeMap::new(),
            removed: BTreeSet::new(),
            stuck: BTreeSet::new(),
            segment_bytes: SEGMENT_BYTES,
            compacted_bytes: 0,
            had_values: false,
        }
    }

    fn used(&self, segment: u64) -> u64 {
        self.used.get(&segment).copied().unwrap_or(0)
    }

    /// Returns what is used of a segment after a transaction.
    fn used_after(&self, segment: u64, usage: &Usage) -> u64 {
        let change = usage.get(&segment).copied().unwrap_or(0);
        self.used(segment).saturating_add_signed(change)
    }

    /// Whether the log has to go on in another segment.
    fn is_segment_full(&self) -> bool {
        let all = self.lengths.values().sum::<u64>() + self.log.end();
        self.log.segment() == EARLIER_LOG || self.log.end() >= self.segment_bytes.max(all / SEGMENTS)
    }

    /// Returns the segments in which nothing is left, and whose files are still there.
    fn unused(&self) -> impl Iterator<Item = u64> {
        let unused = self.used.iter().filter(|&(_, &used)| used == 0);
        let unused = unused.map(|(&segment, _)| segment);
        unused.filter(|segment| *segment != self.log.segment() && !self.removed.contains(segment))
    }

    /// Returns the length of these segments, bytes. They are removed at the next checkpoint.
    fn unused_bytes(&self) -> u64 {
        self.unused().filter_map(|segment| self.lengths.get(&segment)).sum()
    }

    /// Takes over what a committed transaction has changed.
    fn commit(&mut self, usage: &Usage) {
        for segment in std::mem::take(&mut self.removed) {
            self.used.remove(&segment);
        }
        for &segment in usage.keys() {
            let used = self.used_after(segment, usage);
            self.used.insert(segment, used);
        }
    }
}

impl Redb {
    /// Sets from how many bytes of commits on redb's file is synced and the log begins anew. With more, less is written
    /// twice, and opening after a crash takes longer. Default: 16 MiB, or 20 000 changes in any case.
    #[must_use]
    pub fn with_log_bytes(self, bytes: u64) -> Self {
        self.lock_journal().log.set_long(bytes);
        self
    }

    /// Sets from which length on a segment is followed by another, bytes. With less, what is not used is given back in
    /// smaller pieces, and there are more files. Default: 16 MiB, or more in a large store.
    #[must_use]
    pub fn with_segment_bytes(self, bytes: u64) -> Self {
        self.lock_journal().segment_bytes = bytes;
        self
    }

    fn with_database<T>(&self, work: impl FnOnce(&Database) -> T) -> T {
        // The caller catches a panic under the lock, and reports it as damage of the file.
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        work(database.as_ref().expect("the database is there until it is dropped"))
    }

    fn lock_journal(&self) -> MutexGuard<'_, Journal> {
        // A panic under the lock is reported as damage of the file, and ends the store's writer.
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, commit: Commit) -> Result<WriteTransaction, EngineError> {
        let transaction = self.with_database(Database::begin_write);
        let mut transaction = transaction.map_err(|error| self.failed("write to", error.into()))?;
        self.set_commit(&mut transaction, commit)?;
        Ok(transaction)
    }

    /// Sets how a transaction is committed. One that is synced leaves redb's file as one that opens at once.
    fn set_commit(&self, transaction: &mut WriteTransaction, commit: Commit) -> Result<(), EngineError> {
        let durability = match commit {
            Commit::Synced => Durability::Immediate,
            Commit::Unsynced => Durability::None,
        };
        transaction.set_quick_repair(commit == Commit::Synced);
        let set = transaction.set_durability(durability);
        set.map_err(|error| self.failed("write to", error.into()))
    }

    fn tables<'t>(&self, transaction: &'t WriteTransaction) -> Result<Tables<'t>, EngineError> {
        let open = |table| transaction.open_table(definition(table));
        let opened = Table::ALL.into_iter().map(open).collect::<Result<_, _>>();
        opened.map_err(|error| self.failed("write to", error.into()))
    }

    /// Commits a transaction as the last one in the log, with what else redb has to know: `start` if redb's file is
    /// synced with it.
    fn finish(
        &self,
        transaction: WriteTransaction,
        journal: &Journal,
        usage: &Usage,
        start: Option<LogStart>,
    ) -> Result<(), EngineError> {
        let failed = |error: redb::Error| self.failed("write to", error);
        let id = journal.log.id();
        {
            let mut commits = transaction.open_table(COMMITS).map_err(|error| failed(error.into()))?;
            let mut put = |key, value: &[u8]| commits.insert(key, value).map(drop);
            put(DONE, &journal.log.last().to_be_bytes()).map_err(|error| failed(error.into()))?;
            if let Some(start) = start {
                put(LOG, &id).map_err(|error| failed(error.into()))?;
                put(START, &start.encode(&id)).map_err(|error| failed(error.into()))?;
            }
        }
        if !usage.is_empty() || !journal.removed.is_empty() || start.is_some() {
            let table = transaction.open_table(SEGMENT_ENTRIES);
            let mut entries = table.map_err(|error| failed(error.into()))?;
            for segment in &journal.removed {
                let removed = entries.remove(&segment.to_be_bytes()[..]).map(drop);
                removed.map_err(|error| failed(error.into()))?;
            }
            for &segment in usage.keys() {
                let entry = SegmentEntry {
                    used: journal.used_after(segment, usage),
                };
                let put = entries.insert(&segment.to_be_bytes()[..], &entry.encode(&id, segment)[..]);
                put.map(drop).map_err(|error| failed(error.into()))?;
            }
        }
        transaction.commit().map_err(|error| failed(error.into()))
    }

    /// Commits a transaction so that redb's file has everything. The log begins anew, in another segment if it
    /// `moves_on` or if the segment is full. Removes the segments in which nothing is left.
    fn finish_synced(
        &self,
        mut transaction: WriteTransaction,
        journal: &mut Journal,
        usage: &Usage,
        moves_on: bool,
        gives_back: bool,
    ) -> Result<(), EngineError> {
        self.set_commit(&mut transaction, Commit::Synced)?;
        let segment = journal.log.segment();
        let is_used = journal.used_after(segment, usage) > 0;
        if is_used {
            // redb's file may have places in it only if what is there survives a crash, and so does its end.
            journal.log.sync()?;
        }
        // A snapshot may still need what nothing else does, so it is not written over.
        let moves_on = moves_on || journal.is_segment_full() || journal.had_values && !is_used;
        let mut usage = usage.clone();
        if moves_on {
            journal.log.give_back()?;
            let next = self.new_segment(journal)?;
            let start = next.next_start(false);
            // An entry says of the segment that it is not needed, even if there was never a value in it.
            usage.entry(segment).or_default();
            self.finish(transaction, journal, &usage, Some(start))?;
            journal.lengths.insert(segment, journal.log.end());
            journal.log.continue_in(next);
            journal.had_values = false;
        } else {
            let start = journal.log.next_start(is_used);
            self.finish(transaction, journal, &usage, Some(start))?;
            journal.log.begin_anew(start, gives_back)?;
        }
        journal.commit(&usage);
        self.remove_unused(journal);
        Ok(())
    }

    /// Makes an empty segment that follows the log's.
    fn new_segment(&self, journal: &Journal) -> Result<CommitLog, EngineError> {
        let number = self.segments.next_number()?.max(journal.log.segment() + 1);
        let file = self.segments.create(number)?;
        CommitLog::create(file, &self.path, number, journal.log.id(), journal.log.last())
    }

    /// Removes the segments in which redb's file, which is synced, has no place.
    fn remove_unused(&self, journal: &mut Journal) {
        let unused: Vec<u64> = journal.unused().collect();
        for segment in unused {
            // A file that can't be removed only takes room: its entry stays, and the next checkpoint tries again.
            if self.segments.remove(segment).is_ok() {
                journal.removed.insert(segment);
            }
            journal.lengths.remove(&segment);
            journal.stuck.remove(&segment);
        }
    }

    /// Makes redb's file as short as it can be. Reads and writes wait meanwhile. Returns whether it could: not while
    /// snapshots are open.
    fn compact_redb(&self) -> Result<bool, EngineError> {
        // redb moves nothing as long as there are commits that are not synced.
        self.checkpoint(false)?;
        let could = self.move_pages()?;
        self.checkpoint(false).map(|()| could)
    }

    /// Moves pages to the beginning of the file, and shortens it. Returns whether it could.
    fn move_pages(&self) -> Result<bool, EngineError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_mut().expect("the database is there until it is dropped");
        match database.compact() {
            Ok(_) => Ok(true),
            Err(CompactionError::TransactionInProgress) => Ok(false),
            Err(error) => Err(self.failed("compact", error.into())),
        }
    }

    /// Syncs redb's file, so that it has all commits, and gives back what the log took of the disk.
    fn checkpoint(&self, moves_on: bool) -> Result<(), EngineError> {
        let transaction = self.begin(Commit::Synced)?;
        let journal = &mut *self.lock_journal();
        journal.log.check_usable()?;
        self.finish_synced(transaction, journal, &Usage::new(), moves_on, true)
    }

    fn failed(&self, operation: &'static str, error: redb::Error) -> EngineError {
        failed(operation, &self.path, error)
    }

    /// Returns the error of a failed write. Those after it, which redb refuses without a reason, get
    /// the reason of the first, such as a full disk.
    fn write_failed(&self, error: EngineError) -> EngineError {
        match error {
            EngineError::Io { .. } => self.first_failure.get_or_init(|| error).clone(),
            EngineError::Stopped { .. } => self.first_failure.get().cloned().unwrap_or(error),
            error => error,
        }
    }

    fn transact(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        self.transact_redb(commit, &mut |transaction| work(transaction))
    }

    fn transact_redb(
        &self,
        commit: Commit,
        work: &mut dyn FnMut(&mut RedbTransaction<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let transaction = self.begin(Commit::Unsynced)?;
        let journal = &mut *self.lock_journal();
        let worked = {
            let mut tables = RedbTransaction {
                tables: self.tables(&transaction)?,
                recording: journal.log.begin()?,
                segments: self.segments.set(),
                usage: Usage::new(),
                stored: Vec::new(),
                path: &self.path,
            };
            work(&mut tables).and_then(|()| tables.recording.finish().map(|()| tables.usage))
        };
        let usage = match worked {
            Ok(usage) => usage,
            Err(error) => {
                // The caller gets the error of the work. A failed abort shows at the next transaction.
                let _ = transaction.abort();
                return Err(error);
            }
        };
        let current = journal.log.segment();
        journal.had_values |= usage.contains_key(&current);
        let committed = if journal.log.is_long() || journal.unused_bytes() > journal.segment_bytes / 2 {
            // redb's file is synced instead.
            self.finish_synced(transaction, journal, &usage, false, false)
        } else {
            let synced = match commit {
                Commit::Synced => journal.log.sync(),
                Commit::Unsynced => Ok(()),
            };
            synced
                .and_then(|()| self.finish(transaction, journal, &usage, None))
                .map(|()| journal.commit(&usage))
        };
        // The log has the commit. If redb does not, only opening it again can tell.
        committed.map_err(|error| journal.log.fail(error))
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        // A store that opens without having anything to repeat. If that fails, the log has what was synced.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let has_commits = self.lock_journal().log.has_commits();
            if has_commits { self.checkpoint(false) } else { Ok(()) }
        }));
        let database = self.database.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // redb tidies its file when it closes it. If that fails, all synced commits are still
        // there.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

impl Engine for Redb {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        let mut segments = self.segments.set();
        let transaction = loop {
            let transaction = self.with_database(Database::begin_read);
            let transaction = transaction.map_err(|error| self.failed("read", error.into()))?;
            // Those of the same moment: no segment may come or go between the two.
            let now = self.segments.set();
            if Arc::ptr_eq(&now, &segments) {
                break transaction;
            }
            segments = now;
        };
        Ok(Box::new(RedbSnapshot {
            transaction,
            tables: Default::default(),
            segments,
            path: self.path.clone(),
        }))
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        self.transact(commit, work).map_err(|error| self.write_failed(error))
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.lock_journal().log.sync().map_err(|error| self.write_failed(error))
    }

    fn reclaim(&self, thorough: bool, pause: Pause<'_>) -> Result<(), EngineError> {
        self.reclaim_segments(thorough, pause)
            .map_err(|error| self.write_failed(error))
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.reclaim(true, &mut |_| ControlFlow::Continue(()))?;
        self.compact_redb().map(drop).map_err(|error| self.write_failed(error))
    }

    fn wipe(&self) -> Result<bool, EngineError> {
        self.overwrite_free_pages().map_err(|error| self.write_failed(error))
    }
}

struct RedbSnapshot {
    /// Opened when they are first read: most snapshots read two.
    tables: [OnceLock<ReadOnlyTable<&'static [u8], &'static [u8]>>; Table::ALL.len()],
    transaction: ReadTransaction,
    /// Those that it may have values in. They can be read even if they were removed since.
    segments: Arc<SegmentSet>,
    path: PathBuf,
}

impl RedbSnapshot {
    fn table(&self, table: Table) -> Result<&ReadOnlyTable<&'static [u8], &'static [u8]>, EngineError> {
        let place = &self.tables[table as usize];
        if let Some(table) = place.get() {
            return Ok(table);
        }
        let opened = self.transaction.open_table(definition(table));
        let opened = opened.map_err(|error| failed("read", &self.path, error.into()))?;
        Ok(place.get_or_init(|| opened))
    }

    fn value(&self, table: Table, stored: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError> {
        let placed = |place, found: &mut dyn FnMut(&[u8])| segments::show(&self.segments, place, &self.path, found);
        value(table, stored, found, placed)
    }
}

impl Snapshot for RedbSnapshot {}

impl Read for RedbSnapshot {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || {
            let stored = get(self.table(table)?, &self.path, key)?;
            let shown = stored.map(|stored| self.value(table, stored.value(), found));
            shown.map_or(Ok(false), |shown| shown.map(|()| true))
        })
    }

    fn get_part(
        &self,
        table: Table,
        key: &[u8],
        at: u64,
        length: usize,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || {
            let Some(stored) = get(self.table(table)?, &self.path, key)? else {
                return Ok(false);
            };
            match StoredValue::decode(stored.value()) {
                Ok(StoredValue::Placed(place)) if is_placed(table) => {
                    let from = at.min(place.length);
                    let place = ValuePlace {
                        offset: place.offset.saturating_add(from),
                        length: (place.length - from).min(length as u64),
                        ..place
                    };
                    segments::show(&self.segments, place, &self.path, found)?;
                }
                Ok(_) | Err(_) => self.value(table, stored.value(), &mut |value| found(part_of(value, at, length)))?,
            }
            Ok(true)
        })
    }

    fn reads_parts(&self) -> bool {
        true
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || Ok(get(self.table(table)?, &self.path, key)?.is_some()))
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        unless_it_panics(&self.path, || {
            range(self.table(table)?, &self.path, keys, direction, &mut |key, stored| {
                let mut flow = ControlFlow::Continue(());
                self.value(table, stored, &mut |value| flow = each(key, value))?;
                Ok(flow)
            })
        })
    }

    fn keys(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        unless_it_panics(&self.path, || {
            range(self.table(table)?, &self.path, keys, direction, &mut |key, _| {
                Ok(each(key))
            })
        })
    }
}

struct RedbTransaction<'t> {
    tables: Tables<'t>,
    recording: Recording<'t>,
    segments: Arc<SegmentSet>,
    usage: Usage,
    /// What redb stores of a value; kept so that no value allocates it.
    stored: Vec<u8>,
    path: &'t Path,
}

impl RedbTransaction<'_> {
    /// Returns where the value of a key is; [`None`] if it is in redb, or there is none.
    fn place(&self, table: Table, key: &[u8]) -> Result<Option<ValuePlace>, EngineError> {
        let stored = get(&self.tables[table as usize], self.path, key)?;
        Ok(stored.and_then(|stored| match StoredValue::decode(stored.value()) {
            Ok(StoredValue::Placed(place)) => Some(place),
            Ok(StoredValue::Here(_)) | Err(_) => None,
        }))
    }

    fn value(&self, table: Table, stored: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError> {
        value(table, stored, found, |place, found| {
            let is_here = place.segment == self.recording.segment();
            let shown = is_here.then(|| self.recording.show(place.offset, place.length, found));
            match shown.flatten() {
                Some(shown) => shown,
                None => segments::show(&self.segments, place, self.path, found),
            }
        })
    }
}

impl Read for RedbTransaction<'_> {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let stored = get(&self.tables[table as usize], self.path, key)?;
        let shown = stored.map(|stored| self.value(table, stored.value(), found));
        shown.map_or(Ok(false), |shown| shown.map(|()| true))
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        Ok(get(&self.tables[table as usize], self.path, key)?.is_some())
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        let tables = &self.tables[table as usize];
        range(tables, self.path, keys, direction, &mut |key, stored| {
            let mut flow = ControlFlow::Continue(());
            self.value(table, stored, &mut |value| flow = each(key, value))?;
            Ok(flow)
        })
    }

    fn keys(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        let tables = &self.tables[table as usize];
        range(tables, self.path, keys, direction, &mut |key, _| Ok(each(key)))
    }
}

impl Transaction for RedbTransaction<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        super::check_length("key", key, COMMIT_KEY_BYTES_MAX)?;
        super::check_length("value", value, VALUE_BYTES_MAX)?;
        let offset = self.recording.add(table, key, Some(value))?;
        let segment = self.recording.segment();
        let done = put(
            &mut self.tables[table as usize],
            (table, key, value),
            ValuePlace {
                segment,
                offset,
                length: value.len() as u64,
            },
            &mut self.stored,
            &mut self.usage,
        );
        done.map_err(|error| failed("write to", self.path, error.into()))
    }

    fn put_parts(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<(), EngineError> {
        super::check_length("key", key, COMMIT_KEY_BYTES_MAX)?;
        let length = parts.iter().map(|part| part.len()).sum();
        if length < IN_PARTS_MIN || !is_placed(table) {
            return self.put(table, key, &parts.concat());
        }
        super::check_bytes("value", length, VALUE_BYTES_MAX)?;
        let place = ValuePlace {
            segment: self.recording.segment(),
            offset: self.recording.add_parts(table, key, parts)?,
            length: length as u64,
        };
        let tables = &mut self.tables[table as usize];
        let done = put_place(tables, key, place, &mut self.stored, &mut self.usage);
        done.map_err(|error| failed("write to", self.path, error.into()))
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError> {
        self.recording.add(table, key, None)?;
        let deleted = delete(&mut self.tables[table as usize], table, key, &mut self.usage);
        deleted.map_err(|error| failed("write to", self.path, error.into()))
    }
}

/// Puts a value, whose `place` is in the log.
fn put(
    tables: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    (table, key, value): (Table, &[u8], &[u8]),
    place: ValuePlace,
    stored: &mut Vec<u8>,
    usage: &mut Usage,
) -> Result<(), StorageError> {
    if !is_placed(table) {
        return tables.insert(key, value).map(drop);
    }
    if value.len() >= PLACED_BYTES_MIN {
        return put_place(tables, key, place, stored, usage);
    }
    stored.clear();
    StoredValue::Here(value).encode(stored);
    let before = tables.insert(key, stored.as_slice())?;
    release(before.as_ref(), usage);
    Ok(())
}

/// Puts the place of a value, which is in the log.
fn put_place(
    tables: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
    place: ValuePlace,
    stored: &mut Vec<u8>,
    usage: &mut Usage,
) -> Result<(), StorageError> {
    stored.clear();
    StoredValue::Placed(place).encode(stored);
    let before = tables.insert(key, stored.as_slice())?;
    release(before.as_ref(), usage);
    *usage.entry(place.segment).or_default() += place.length as i64;
    Ok(())
}

/// Deletes a key.
fn delete(
    tables: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    table: Table,
    key: &[u8],
    usage: &mut Usage,
) -> Result<(), StorageError> {
    let before = tables.remove(key)?;
    if is_placed(table) {
        release(before.as_ref(), usage);
    }
    Ok(())
}

/// Counts that what redb had of a value is not used any more.
fn release(before: Option<&AccessGuard<'_, &'static [u8]>>, usage: &mut Usage) {
    // One that is damaged frees nothing: the segment stays.
    if let Some(Ok(StoredValue::Placed(place))) = before.map(|before| StoredValue::decode(before.value())) {
        let length = place.length.min(VALUE_BYTES_MAX as u64);
        *usage.entry(place.segment).or_default() -= length as i64;
    }
}

/// Shows a value of which redb has this.
fn value(
    table: Table,
    stored: &[u8],
    found: &mut dyn FnMut(&[u8]),
    placed: impl FnOnce(ValuePlace, &mut dyn FnMut(&[u8])) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    if !is_placed(table) {
        found(stored);
        return Ok(());
    }
    match StoredValue::decode(stored) {
        Ok(StoredValue::Here(value)) => found(value),
        Ok(StoredValue::Placed(place)) => placed(place, found)?,
        // The store's checksums find that it is damaged.
        Err(_) => found(&[]),
    }
    Ok(())
}

fn get<'t>(
    table: &'t impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    key: &[u8],
) -> Result<Option<AccessGuard<'t, &'static [u8]>>, EngineError> {
    table.get(key).map_err(|error| failed("read", path, error.into()))
}

fn range(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    keys: KeyRange<'_>,
    direction: Direction,
    each: EachStored<'_>,
) -> Result<(), EngineError> {
    if is_void(&keys) {
        return Ok(());
    }
    let failed = |error: StorageError| failed("read", path, error.into());
    let mut pairs = table.range::<&[u8]>(keys).map_err(failed)?;
    while let Some(pair) = match direction {
        Direction::Forward => pairs.next(),
        Direction::Backward => pairs.next_back(),
    } {
        let (key, stored) = pair.map_err(failed)?;
        if each(key.value(), stored.value())?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Turns a panic into an error. redb trusts the pages that it reads, and a changed byte can make it
/// panic. A read leaves nothing half done. A panic during a write ends the store's writer, which
/// tells its callers.
fn unless_it_panics<T>(path: &Path, read: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(EngineError::Damaged {
            engine: ENGINE,
            path: path.to_owned(),
            found: text.unwrap_or_else(|| "a panic without a message".to_owned()),
        })
    })
}

fn failed(operation: &'static str, path: &Path, error: redb::Error) -> EngineError {
    let engine = ENGINE;
    let location = path.to_owned();
    let path = location;
    match error {
        redb::Error::DatabaseAlreadyOpen => EngineError::InUse { path },
        redb::Error::Io(source) if source.kind() == std::io::ErrorKind::InvalidData => {
            let found = source.to_string();
            EngineError::Damaged { engine, path, found }
        }
        redb::Error::Io(source) => EngineError::io(operation, &path, source),
        redb::Error::PreviousIo => EngineError::Stopped { operation, path },
        redb::Error::UpgradeRequired(version) => {
            let found = format!("version {version}");
            EngineError::Version { engine, path, found }
        }
        error @ (redb::Error::Corrupted(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableDoesNotExist(_)) => {
            let found = error.to_string();
            EngineError::Damaged { engine, path, found }
        }
        error => {
            let found = error.to_string();
            EngineError::Engine {
                engine,
                operation,
                path,
                found,
            }
        }
    }
}
