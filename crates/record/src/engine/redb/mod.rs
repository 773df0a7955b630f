//! redb: a copy-on-write B-tree in one file, and beside it a log of commits, in whose segments large values stay.
//! Commits are in the log, and in memory until a checkpoint has stored many of them in redb at once.

mod as_read;
mod checkpoint;
mod commit_log;
mod file;
mod from_segments;
mod header;
mod journal;
mod layers;
mod open;
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
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Instant;

use ibid_format::record::CommitLogId;
pub use redb::StorageBackend;
use redb::{
    CompactionError, Database, Durability, ReadTransaction, ReadableDatabase, TableDefinition, WriteTransaction,
};

use self::checkpoint::Progress;
use self::file::RedbFile;
use self::journal::{Accounts, Journal};
use self::layers::{Changes, Layer, Layers};
pub use self::open::LostCommits;
pub use self::reader::RedbReader;
use self::readers::Readers;
pub use self::segments::SegmentFiles;
use self::segments::Segments;
use self::tables::{Base, Below, RedbSnapshot, RedbTransaction};
use super::{Commit, Engine, EngineError, Pause, Snapshot, Table, Unused, Work};

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
/// The number of the last commit that redb has.
const DONE: &[u8] = b"done";
/// Where in the log the next commit is.
const START: &[u8] = b"start";
/// redb's own table about segments.
const SEGMENT_ENTRIES: Definition = TableDefinition::new("segments");

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
/// A commit with [`Commit::Synced`] costs one sync of the log. Other commits are in a part of the log that is not
/// synced: they may be lost if the machine stops without [`sync`](Engine::sync). All of them stay in memory, in a part
/// of the cache, until a thread has stored them in redb's file, many at once and in the order of their keys. After a
/// crash, opening it reads the commits since then: at most twice 16 MiB or 100 000 changes, and a commit more.
///
/// Records and blocks of 64 bytes and more are written once, into the log. redb's file has their places, and the
/// log's segments stay as long as there is a value in them.
pub struct Redb {
    shared: Arc<Shared>,
    /// Makes checkpoints; [`None`] if it could not be started, so that those who commit make them.
    thread: Option<JoinHandle<()>>,
}

/// What the thread shares with those who use the engine.
struct Shared {
    /// [`None`] only while it is dropped. Compacting takes the lock for writing.
    database: RwLock<Option<Database>>,
    file: Arc<RedbFile>,
    path: PathBuf,
    segments: Segments,
    log_id: CommitLogId,
    /// Is held while something is stored in redb. It is taken before all other locks.
    storing: Mutex<()>,
    /// Is held while a commit is made.
    journal: Mutex<Journal>,
    accounts: Mutex<Accounts>,
    shown: Mutex<Shown>,
    progress: Progress,
    /// Most bytes that commits take in memory.
    memory_max: usize,
    step_changes: AtomicUsize,
    /// What is kept for other processes; [`None`] if nothing is. The lock in it is released last.
    readers: Option<Readers>,
    has_thread: AtomicBool,
}

/// What snapshots show above redb's tables.
#[derive(Default)]
struct Shown {
    layers: Arc<Layers>,
    /// How often it was changed what redb has to have below.
    epoch: Arc<AtomicU64>,
}

impl Shown {
    /// Shows what is recent in these layers.
    fn show(&mut self, layers: Layers) {
        Arc::make_mut(&mut self.layers).take_recent(layers);
    }

    /// Freezes all, which redb has to have none of yet, and returns them.
    fn freeze(&mut self) -> Vec<Arc<Layer>> {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        Arc::make_mut(&mut self.layers).freeze()
    }

    /// Replaces what is frozen by the same in one layer.
    fn replace_frozen(&mut self, merged: Arc<Layer>) {
        Arc::make_mut(&mut self.layers).replace_frozen(merged);
    }

    /// Does not show any more what was frozen: redb has it.
    fn thaw(&mut self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        Arc::make_mut(&mut self.layers).thaw();
    }
}

impl Redb {
    /// Sets from how many bytes of commits on they are stored in redb's file. With more, less is written twice, and
    /// opening after a crash takes longer. Default: 16 MiB, or in any case 100 000 changes.
    #[must_use]
    pub fn with_log_bytes(self, bytes: u64) -> Self {
        self.shared.lock_journal().log.set_long(bytes);
        self
    }

    /// Sets from which length on a segment is followed by another, bytes. With less, what is not used is given back in
    /// smaller pieces, and there are more files. Default: 16 MiB, or more in a large store.
    #[must_use]
    pub fn with_segment_bytes(self, bytes: u64) -> Self {
        self.shared.lock_journal().segment_bytes = bytes;
        self
    }

    /// Sets how many changes are stored in redb's file at once, after which it is synced; at least 1. With less, the
    /// file has to grow by less, and storing takes longer. Default: 4096.
    #[must_use]
    pub fn with_step_changes(self, changes: usize) -> Self {
        self.shared.step_changes.store(changes.max(1), Ordering::Relaxed);
        self
    }
}

impl Shared {
    fn with_database<T>(&self, work: impl FnOnce(&Database) -> T) -> T {
        // The caller catches a panic under the lock, and reports it as damage of the file.
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        work(database.as_ref().expect("the database is there until it is dropped"))
    }

    fn lock_journal(&self) -> MutexGuard<'_, Journal> {
        // A panic under the lock is reported as damage of the file, and ends the store's writer.
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn layers(&self) -> Arc<Layers> {
        self.shown().layers.clone()
    }

    fn begin_read(&self) -> Result<ReadTransaction, EngineError> {
        let transaction = self.with_database(Database::begin_read);
        transaction.map_err(|error| self.failed("read", error.into()))
    }

    /// Begins a transaction of redb, which leaves its file as one that opens at once.
    fn begin_write(&self) -> Result<WriteTransaction, EngineError> {
        let transaction = self.with_database(Database::begin_write);
        let mut transaction = transaction.map_err(|error| self.failed("write to", error.into()))?;
        transaction.set_quick_repair(true);
        let set = transaction.set_durability(Durability::Immediate);
        set.map_err(|error| self.failed("write to", error.into()))?;
        Ok(transaction)
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

    fn snapshot(&self) -> Result<RedbSnapshot, EngineError> {
        loop {
            let (layers, below) = {
                let shown = self.shown();
                let below = Below::new(&shown.epoch, &self.file);
                (shown.layers.clone(), below)
            };
            let base = Base::new(self.begin_read()?);
            let segments = self.segments.set();
            // Otherwise redb may have commits that are not in these layers, or not have some that are not either.
            if below.is_same_epoch() {
                return Ok(RedbSnapshot {
                    base,
                    layers,
                    segments,
                    path: self.path.clone(),
                    below,
                });
            }
        }
    }

    /// Makes a commit, unless `work` fails.
    fn transact(
        &self,
        commit: Commit,
        work: &mut dyn FnMut(&mut RedbTransaction<'_>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let used = {
            let journal = &mut *self.lock_journal();
            let mut transaction = RedbTransaction {
                recording: journal.log.begin()?,
                // No checkpoint begins or ends meanwhile.
                base: Base::new(self.begin_read()?),
                layers: self.layers(),
                changes: Changes::default(),
                has_placed: false,
                segments: self.segments.set(),
                path: &self.path,
            };
            work(&mut transaction)?;
            let RedbTransaction {
                recording,
                changes,
                has_placed,
                ..
            } = transaction;
            recording.finish()?;
            // The log has the commit. If it is not taken over, only opening it again can tell.
            let used = self.take_over(journal, commit, &changes, has_placed);
            let used = used.map_err(|error| journal.log.fail(error))?;
            journal.frozen.is_some().then_some(used)
        };
        used.map_or(Ok(()), |used| self.wait_for_room(used))
    }

    /// Shows a commit that the log has. Returns how much of their room writers have used.
    fn take_over(
        &self,
        journal: &mut Journal,
        commit: Commit,
        changes: &Changes,
        has_placed: bool,
    ) -> Result<f64, EngineError> {
        if commit == Commit::Synced {
            journal.log.sync()?;
        }
        let layer = Layer::of(changes);
        if layer.changes() > 0 {
            // No other one changes what is recent.
            let layers = self.layers().with(layer);
            self.shown().show(layers);
            journal.first_commit.get_or_insert_with(Instant::now);
        }
        journal.had_values |= has_placed;
        journal.has_new_values |= has_placed;
        self.begin_if_due(journal)
    }

    /// Makes redb's file as short as it can be. Reads and writes wait meanwhile. Returns whether it could: not while
    /// snapshots are open.
    fn compact_redb(&self) -> Result<bool, EngineError> {
        self.checkpoint_and_give_back(false)?;
        let could = self.move_pages()?;
        self.checkpoint_and_give_back(false)?;
        if could {
            let bytes = self.occupied_bytes()?;
            self.accounts().compacted_bytes = bytes;
        }
        Ok(could)
    }

    /// Moves pages to the beginning of the file, and shortens it. Returns whether it could: not while snapshots are
    /// open, here or in another process. A checkpoint has to come next, so that readers can have locks again.
    fn move_pages(&self) -> Result<bool, EngineError> {
        let _alone = self.alone();
        // Those who commit read from redb, too.
        let _journal = self.lock_journal();
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

    fn failed(&self, operation: &'static str, error: redb::Error) -> EngineError {
        failed(operation, &self.path, error)
    }

    /// Runs what writes to redb's file. It is an error if it panics.
    fn writing<T>(&self, write: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
        unless_it_panics(&self.path, write).map_err(|error| self.file.reason_of(error))
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        let shared = &*self.shared;
        shared.progress.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // A store that opens without having anything to read. If that fails, the log has what was synced.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            {
                let journal = &mut *shared.lock_journal();
                journal.log.check_usable()?;
                if shared.layers().is_empty() && !journal.log.has_commits() {
                    // A checkpoint beside commits has left what the log took of the disk.
                    return journal.log.give_back();
                }
            }
            shared.checkpoint_and_give_back(false)
        }));
        let database = shared.database.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(readers) = &shared.readers
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
        let snapshot = self.shared.snapshot();
        Ok(Box::new(snapshot.map_err(|error| self.shared.file.reason_of(error))?))
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        let written = self.shared.transact(commit, &mut |transaction| work(transaction));
        written.map_err(|error| self.shared.file.reason_of(error))
    }

    fn sync(&self) -> Result<(), EngineError> {
        let synced = self.shared.lock_journal().log.sync();
        synced.map_err(|error| self.shared.file.reason_of(error))
    }

    fn reclaim(&self, unused: Unused, pause: Pause<'_>) -> Result<(), EngineError> {
        self.shared.writing(|| self.shared.reclaim_segments(unused, pause))
    }

    fn shrink(&self) -> Result<(), EngineError> {
        self.shared.writing(|| self.shared.compact_grown_file())
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.reclaim(Unused::Any, &mut |_| ControlFlow::Continue(()))?;
        self.shared.writing(|| self.shared.compact_redb()).map(drop)
    }

    fn wipe(&self) -> Result<bool, EngineError> {
        self.shared.writing(|| self.shared.overwrite_free_pages())
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
