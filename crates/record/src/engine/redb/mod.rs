//! redb: a copy-on-write B-tree in one file, and beside it a log of commits, in whose segments large values stay.

mod commit_log;
mod effort;
mod from_segments;
mod header;
mod journal;
mod open;
mod ordered;
mod overlay;
mod own_tables;
mod reader;
mod readers;
mod reclaim;
mod segments;
mod stored;
mod tables;
#[cfg(test)]
mod tests;
mod wipe;

use std::ops::{ControlFlow, Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use ibid_format::record::{LogStart, SegmentEntry};
pub use redb::StorageBackend;
use redb::{CompactionError, Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};

use self::commit_log::CommitLog;
use self::journal::{Checkpoint, Journal, Usage};
pub use self::open::LostCommits;
use self::ordered::Order;
pub use self::reader::RedbReader;
use self::readers::Readers;
pub use self::segments::SegmentFiles;
use self::segments::Segments;
use self::tables::{RedbSnapshot, RedbTransaction};
use super::{Commit, Engine, EngineError, Pause, Snapshot, Table, Work};

const ENGINE: &str = "redb";
/// Smallest cache of redb, bytes.
const CACHE_BYTES_MIN: usize = 1 << 20;
/// Longest value, bytes: what [`Transaction::put`] promises, with a seal. redb itself takes ten
/// times as much.
const VALUE_BYTES_MAX: usize = (300 << 20) + ibid_format::SEAL_OVERHEAD;
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

/// Whether a checkpoint is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Others commit until it is on disk.
    No,
    /// Until it is on disk. Then the disk gets back what the log took of it.
    AndGiveBack,
}

/// All tables of a transaction, in the order of [`Table::ALL`].
struct Tables<'t>(Vec<redb::Table<'t, &'static [u8], &'static [u8]>>);

impl<'t> Deref for Tables<'t> {
    type Target = [redb::Table<'t, &'static [u8], &'static [u8]>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Tables<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for Tables<'_> {
    fn drop(&mut self) {
        // redb panics over some damage of its file. If it does while a table is opened, it would panic again where one
        // that is open is dropped, and two panics end the process.
        if std::thread::panicking() {
            std::mem::take(&mut self.0).into_iter().for_each(std::mem::forget);
        }
    }
}

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
/// it repeats the commits since redb's file was synced last: at most 16 MiB and the largest one, or twice as many if it
/// was being synced.
///
/// Records and blocks of 64 bytes and more are written once, into the log. redb's file has their places, and the
/// log's segments stay as long as there is a value in them.
pub struct Redb {
    /// [`None`] only while it is dropped. Compacting takes the lock for writing.
    database: RwLock<Option<Database>>,
    /// How redb's file is written.
    order: Order,
    path: PathBuf,
    segments: Arc<Segments>,
    /// A commit takes it after redb's own lock for writing, and keeps it until redb has the commit.
    journal: Arc<Mutex<Journal>>,
    /// What is kept for other processes; [`None`] if nothing is. The lock in it is released last.
    readers: Option<Arc<Readers>>,
}

impl Redb {
    /// Sets from how many bytes of commits on redb's file is synced and the log begins anew. With more, less is written
    /// twice, and opening after a crash takes longer. Default: 16 MiB, or in any case 5000 changes of neighbours and
    /// 1667 of random keys.
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
        let mut tables = Tables(Vec::with_capacity(Table::ALL.len()));
        for table in Table::ALL {
            let opened = transaction.open_table(definition(table));
            tables
                .0
                .push(opened.map_err(|error| self.failed("write to", error.into()))?);
        }
        Ok(tables)
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

    /// Commits a transaction so that redb's file has everything. The log goes on in another segment if it `moves_on` or
    /// if the segment is full. Once that is on disk, segments are removed in which nothing is left; until then the log
    /// keeps what it had. [`Wait::No`] leaves that to a thread, if there is one.
    fn finish_synced(
        &self,
        mut transaction: WriteTransaction,
        journal: &mut Journal,
        usage: &Usage,
        moves_on: bool,
        wait: Wait,
    ) -> Result<(), EngineError> {
        self.end_checkpoint(journal)?;
        self.set_commit(&mut transaction, Commit::Synced)?;
        let is_waited_for = wait != Wait::No || !self.order.has_thread();
        let segment = journal.log.segment();
        let is_used = journal.used_after(segment, usage) > 0;
        // redb's file may have places in it only if what is there survives a crash, and so does its end. And readers in
        // other processes may see the new state of the file before that is synced.
        journal.log.sync()?;
        // A snapshot may still need what nothing else does, so it is not written over.
        let moves_on = moves_on || journal.is_segment_full() || journal.had_values && !is_used;
        let mut usage = usage.clone();
        let mut next = None;
        if moves_on {
            journal.log.give_back()?;
            next = Some(self.new_segment(journal)?);
            // An entry says of the segment that it is not needed, even if there was never a value in it.
            usage.entry(segment).or_default();
        }
        let start = match &next {
            Some(next) => next.next_start(false),
            None => journal.log.next_start(is_used || !is_waited_for),
        };
        let pages = match &self.readers {
            Some(readers) => Some(self.with_database(|database| readers.release(database))?),
            None => None,
        };
        self.finish(transaction, journal, &usage, Some(start))?;
        journal.checkpoints += 1;
        let number = journal.checkpoints;
        if is_waited_for {
            self.wait_for_file()?;
        } else {
            self.tell_when_synced(number);
        }
        match next {
            Some(next) => {
                journal.lengths.insert(segment, journal.log.end());
                journal.log.continue_in(next);
                journal.had_values = false;
            }
            None => journal.log.begin_anew(start, wait == Wait::AndGiveBack)?,
        }
        journal.commit(&usage);
        let unused = journal.unused().collect();
        journal.checkpoint = Some(Checkpoint { number, pages, unused });
        if is_waited_for {
            complete(journal, &self.segments, self.readers.as_deref())?;
        }
        Ok(())
    }

    /// Has a thread do what has to wait until a checkpoint is on disk.
    fn tell_when_synced(&self, number: u64) {
        let (shared, segments, readers) = (self.journal.clone(), self.segments.clone(), self.readers.clone());
        let path = self.path.clone();
        self.order.tell(move |synced| {
            let journal = &mut *match shared.try_lock() {
                Ok(journal) => journal,
                // Who has it may wait for the file.
                Err(TryLockError::WouldBlock) => return ControlFlow::Continue(()),
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            };
            let is_this_one = |checkpoint: &Checkpoint| checkpoint.number == number;
            if !journal.checkpoint.as_ref().is_some_and(is_this_one) {
                return ControlFlow::Break(()); // a commit has waited for it
            }
            let ended = match synced {
                Ok(()) => complete(journal, &segments, readers.as_deref()),
                Err(source) => Err(EngineError::io("sync", &path, source)),
            };
            if let Err(failure) = ended {
                journal.log.fail(failure);
            }
            ControlFlow::Break(())
        });
    }

    /// Waits until the checkpoint is on disk that is being synced, if there is one, while others commit.
    fn wait_for_checkpoint(&self) -> Result<(), EngineError> {
        self.wait_for_file()?;
        self.end_checkpoint(&mut self.lock_journal())
    }

    /// Waits until the checkpoint is on disk that is being synced, if there is one.
    fn end_checkpoint(&self, journal: &mut Journal) -> Result<(), EngineError> {
        if journal.checkpoint.is_none() {
            return Ok(());
        }
        self.wait_for_file()?;
        complete(journal, &self.segments, self.readers.as_deref())
    }

    /// Waits until redb's file is on disk as far as redb has synced it.
    fn wait_for_file(&self) -> Result<(), EngineError> {
        let synced = self.order.wait();
        synced.map_err(|source| EngineError::io("sync", &self.path, source))
    }

    /// Makes an empty segment that follows the log's.
    fn new_segment(&self, journal: &Journal) -> Result<CommitLog, EngineError> {
        let number = self.segments.next_number()?.max(journal.log.segment() + 1);
        let file = self.segments.create(number)?;
        CommitLog::create(file, &self.path, number, journal.log.id(), journal.log.last())
    }

    /// Makes redb's file as short as it can be. Reads and writes wait meanwhile. Returns whether it could: not while
    /// snapshots are open.
    fn compact_redb(&self) -> Result<bool, EngineError> {
        // redb moves nothing as long as there are commits that are not synced.
        self.checkpoint(false, Wait::AndGiveBack)?;
        let could = self.move_pages()?;
        self.checkpoint(false, Wait::AndGiveBack)?;
        if could {
            self.lock_journal().compacted_bytes = self.occupied_bytes()?;
        }
        Ok(could)
    }

    /// Moves pages to the beginning of the file, and shortens it. Returns whether it could: not while snapshots are
    /// open, here or in another process. A checkpoint has to come next, so that readers can have locks again.
    fn move_pages(&self) -> Result<bool, EngineError> {
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(readers) = &self.readers
            && !readers.end_if_there_are_none()
        {
            return Ok(false);
        }
        let database = database.as_mut().expect("the database is there until it is dropped");
        match database.compact() {
            Ok(_) => Ok(true),
            Err(CompactionError::TransactionInProgress) => Ok(false),
            Err(error) => Err(self.failed("compact", error.into())),
        }
    }

    /// Syncs redb's file, so that it has all commits.
    fn checkpoint(&self, moves_on: bool, wait: Wait) -> Result<(), EngineError> {
        let transaction = self.begin(Commit::Synced)?;
        let journal = &mut *self.lock_journal();
        journal.log.check_usable()?;
        self.finish_synced(transaction, journal, &Usage::new(), moves_on, wait)
    }

    fn failed(&self, operation: &'static str, error: redb::Error) -> EngineError {
        failed(operation, &self.path, error)
    }

    /// Returns the error of a failed write. Those that redb refuses because of an earlier failure, which may have been
    /// told to none, get the reason of that, such as a full disk.
    fn write_failed(&self, error: EngineError) -> EngineError {
        let EngineError::Stopped { operation, .. } = error else {
            return error;
        };
        let first = self.order.first_error();
        first.map_or(error, |first| EngineError::io(operation, &self.path, first))
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
        let is_due = journal.log.is_long() || journal.unused_bytes() > journal.segment_bytes / 2;
        let committed = if is_due && (journal.checkpoint.is_none() || journal.log.is_too_long()) {
            // redb's file is synced, too.
            self.finish_synced(transaction, journal, &usage, false, Wait::No)
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
            let has_commits = {
                let journal = &mut *self.lock_journal();
                self.end_checkpoint(journal)?;
                // A checkpoint that nothing waited for has left what the log took of the disk.
                journal.log.give_back()?;
                journal.log.has_commits()
            };
            if has_commits {
                self.checkpoint(false, Wait::AndGiveBack)
            } else {
                Ok(())
            }
        }));
        let database = self.database.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(readers) = &self.readers
            && !readers.close()
        {
            // Readers still rely on pages that redb would free. The next opening finds everything as after a crash.
            std::mem::forget(database);
            return;
        }
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
        unless_it_panics(&self.path, || self.reclaim_segments(thorough, pause))
            .map_err(|error| self.write_failed(error))
    }

    fn shrink(&self) -> Result<(), EngineError> {
        unless_it_panics(&self.path, || self.compact_grown_file()).map_err(|error| self.write_failed(error))
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.reclaim(true, &mut |_| ControlFlow::Continue(()))?;
        let done = unless_it_panics(&self.path, || self.compact_redb());
        done.map(drop).map_err(|error| self.write_failed(error))
    }

    fn wipe(&self) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || self.overwrite_free_pages()).map_err(|error| self.write_failed(error))
    }
}

/// Does what had to wait until a checkpoint is on disk, unless that is done.
fn complete(journal: &mut Journal, segments: &Segments, readers: Option<&Readers>) -> Result<(), EngineError> {
    let Some(Checkpoint { pages, unused, .. }) = journal.checkpoint.take() else {
        return Ok(());
    };
    for segment in unused {
        // A file that can't be removed only takes room: its entry stays, and the next checkpoint tries again.
        if segments.remove(segment).is_ok() {
            journal.removed.insert(segment);
        }
        journal.lengths.remove(&segment);
        journal.stuck.remove(&segment);
    }
    match (readers, pages) {
        (Some(readers), Some(pages)) => readers.keep(pages),
        _ => Ok(()),
    }
}

/// Returns the path of what is beside redb's file, and has the same name with this behind it.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Whether it is the log of commits that is damaged, and not redb's file.
pub(crate) fn is_of_log(error: &EngineError) -> bool {
    matches!(error, EngineError::Damaged { found, .. } if found.contains(commit_log::GIVE_UP))
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
