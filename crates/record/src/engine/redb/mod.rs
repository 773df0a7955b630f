//! redb: a copy-on-write B-tree in one file, and a log of commits beside it.

mod commit_log;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use ibid_format::FileId;
use ibid_format::record::{COMMIT_KEY_BYTES_MAX, COMMIT_LOG_ID_BYTES, CommitLogId};
pub use redb::StorageBackend;
use redb::backends::FileBackend;
use redb::{
    Builder, CompactionError, Database, DatabaseError, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase,
    ReadableTable, StorageError, TableDefinition, WriteTransaction,
};

use self::commit_log::{CommitLog, Recording};

use super::{
    Commit, Direction, EachPair, Engine, EngineError, KeyRange, Read, Snapshot, Table, Transaction, Work, is_void,
};

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

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

fn definition(table: Table) -> Definition {
    TableDefinition::new(table.name())
}

/// The [`Engine`] of the library redb, in one file, with a log of commits in another.
///
/// A commit with [`Commit::Synced`] costs one sync of the log. Other commits stay in memory, or are in a part of the
/// log that is not synced: they may be lost if the machine stops without [`sync`](Engine::sync). After a crash, opening
/// it repeats the commits since redb's file was synced last, which are at most 16 MiB and the largest one.
pub struct Redb {
    /// [`None`] only while it is dropped. Compacting takes the lock for writing.
    database: RwLock<Option<Database>>,
    path: PathBuf,
    /// A commit takes it after redb's own lock for writing, and keeps it until redb has the commit.
    log: Mutex<CommitLog>,
    /// Why the first write failed, after which redb refuses every other.
    first_failure: OnceLock<EngineError>,
}

/// What redb knows of the log.
struct LogState {
    id: CommitLogId,
    /// The last commit that redb has.
    done: u64,
}

impl Redb {
    /// Opens the file, or makes it. Its log is beside it, under the same name with `.log` behind it. Caches pages up
    /// to `cache_bytes`.
    ///
    /// # Errors
    /// [`EngineError::InUse`] if it is open already; [`EngineError::Damaged`] or
    /// [`EngineError::Version`] if it is not as redb writes it, or the log is missing or damaged; [`EngineError::Io`].
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, EngineError> {
        let there = path
            .try_exists()
            .map_err(|source| EngineError::io("open", path, source))?;
        if !there {
            make(path)?;
        }
        let log_path = log_path(path);
        Redb::opened(
            path,
            cache_bytes,
            |builder| builder.open(path),
            |new| {
                let opened = OpenOptions::new().read(true).write(true).create(new).open(&log_path)?;
                if new {
                    // The name is on disk before redb relies on it.
                    let folder = path.parent().filter(|folder| *folder != Path::new(""));
                    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
                }
                FileBackend::new(opened)
                    .map(|file| Box::new(file) as Box<dyn StorageBackend>)
                    .map_err(io::Error::other)
            },
        )
    }

    /// Opens it on storage of your own, for example of a test that simulates power failures. `path`
    /// is for messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(
        file: impl StorageBackend,
        log: impl StorageBackend,
        path: &Path,
        cache_bytes: usize,
    ) -> Result<Self, EngineError> {
        Redb::opened(
            path,
            cache_bytes,
            |builder| builder.create_with_backend(file),
            |_| Ok(Box::new(log)),
        )
    }

    fn opened(
        path: &Path,
        cache_bytes: usize,
        open: impl FnOnce(&Builder) -> Result<Database, DatabaseError>,
        open_log: impl FnOnce(bool) -> io::Result<Box<dyn StorageBackend>>,
    ) -> Result<Self, EngineError> {
        let database = unless_it_panics(path, || {
            let mut builder = Database::builder();
            builder.set_cache_size(cache_bytes.max(CACHE_BYTES_MIN));
            open(&builder).map_err(|error| failed("open", path, error.into()))
        })?;
        let log_path = log_path(path);
        let state = unless_it_panics(path, || log_state(&database, path))?;
        let file = open_log(state.is_none()).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => EngineError::Damaged {
                engine: ENGINE,
                path: log_path.clone(),
                found: "it is missing".to_owned(),
            },
            _ => EngineError::io("open", &log_path, source),
        })?;
        let log = match &state {
            Some(state) => CommitLog::open(file, &log_path, state.id, state.done)?,
            None => {
                let mut id = [0; COMMIT_LOG_ID_BYTES];
                id.copy_from_slice(&FileId::random().0);
                CommitLog::create(file, &log_path, id)?
            }
        };
        let engine = Redb {
            database: RwLock::new(Some(database)),
            path: path.to_owned(),
            log: Mutex::new(log),
            first_failure: OnceLock::new(),
        };
        unless_it_panics(path, || engine.repeat_commits(state.is_none()))?;
        Ok(engine)
    }

    /// Sets from how many bytes of commits on redb's file is synced and the log begins anew. With more, less is written
    /// twice, and opening after a crash takes longer. Default: 16 MiB, or 20 000 changes in any case.
    #[must_use]
    pub fn with_log_bytes(self, bytes: u64) -> Self {
        self.lock_log().set_long(bytes);
        self
    }

    /// Repeats the commits that only the log has. Makes the tables of a new file, so that snapshots find them.
    fn repeat_commits(&self, is_new: bool) -> Result<(), EngineError> {
        let log = &mut *self.lock_log();
        let found = log.find()?;
        if found.lost() > 0 {
            return Err(log.damaged(format!(
                "commits {} to {} were synced, and are damaged or missing",
                found.last + 1,
                found.synced
            )));
        }
        if !is_new && found.last == log.last() {
            return log.begin_anew(false);
        }
        let transaction = self.begin(Commit::Synced)?;
        {
            let mut tables = self.tables(&transaction)?;
            log.repeat(&found, &mut |table, change| {
                let table = &mut tables[table as usize];
                let changed = match change.value {
                    Some(value) => table.insert(change.key, value).map(drop),
                    None => table.remove(change.key).map(drop),
                };
                changed.map_err(|error| self.failed("write to", error.into()))
            })?;
        }
        self.finish(transaction, found.last, is_new.then(|| log.id()))?;
        log.begin_anew(false)
    }

    fn with_database<T>(&self, work: impl FnOnce(&Database) -> T) -> T {
        // The caller catches a panic under the lock, and reports it as damage of the file.
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        work(database.as_ref().expect("the database is there until it is dropped"))
    }

    fn lock_log(&self) -> MutexGuard<'_, CommitLog> {
        // A panic under the lock is reported as damage of the file, and ends the store's writer.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transaction of redb. One that is synced leaves redb's file as one that opens at once.
    fn begin(&self, commit: Commit) -> Result<WriteTransaction, EngineError> {
        let failed = |error: redb::Error| self.failed("write to", error);
        let transaction = self.with_database(Database::begin_write);
        let mut transaction = transaction.map_err(|error| failed(error.into()))?;
        let durability = match commit {
            Commit::Synced => Durability::Immediate,
            Commit::Unsynced => Durability::None,
        };
        let set = transaction.set_durability(durability);
        set.map_err(|error| failed(error.into()))?;
        transaction.set_quick_repair(commit == Commit::Synced);
        Ok(transaction)
    }

    /// Opens all tables, in the order of [`Table::ALL`].
    fn tables<'t>(
        &self,
        transaction: &'t WriteTransaction,
    ) -> Result<Vec<redb::Table<'t, &'static [u8], &'static [u8]>>, EngineError> {
        let open = |table| transaction.open_table(definition(table));
        let opened = Table::ALL.into_iter().map(open).collect::<Result<_, _>>();
        opened.map_err(|error| self.failed("write to", error.into()))
    }

    /// Commits a transaction as this one, and says what names the log if that is new.
    fn finish(&self, transaction: WriteTransaction, number: u64, log: Option<CommitLogId>) -> Result<(), EngineError> {
        let failed = |error: redb::Error| self.failed("write to", error);
        {
            let mut commits = transaction.open_table(COMMITS).map_err(|error| failed(error.into()))?;
            let mut put = |key, value: &[u8]| commits.insert(key, value).map(drop);
            put(DONE, &number.to_be_bytes()).map_err(|error| failed(error.into()))?;
            if let Some(log) = log {
                put(LOG, &log).map_err(|error| failed(error.into()))?;
            }
        }
        transaction.commit().map_err(|error| failed(error.into()))
    }

    /// Syncs redb's file, so that it has all commits, and begins the log anew.
    fn checkpoint(&self, gives_back: bool) -> Result<(), EngineError> {
        let transaction = self.begin(Commit::Synced)?;
        let log = &mut *self.lock_log();
        self.finish(transaction, log.last(), None)?;
        log.begin_anew(gives_back)
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
        if self.lock_log().is_long() {
            self.checkpoint(false)?;
        }
        let transaction = self.begin(Commit::Unsynced)?;
        let log = &mut *self.lock_log();
        let worked = {
            let mut tables = RedbTransaction {
                tables: self.tables(&transaction)?,
                recording: log.begin()?,
                path: &self.path,
            };
            work(&mut tables).and_then(|()| tables.recording.finish())
        };
        let worked = worked.and_then(|()| match commit {
            Commit::Synced => log.sync(),
            Commit::Unsynced => Ok(()),
        });
        if let Err(error) = worked {
            // The caller gets the error of the work. A failed abort shows at the next transaction.
            let _ = transaction.abort();
            return Err(error);
        }
        let committed = self.finish(transaction, log.last(), None);
        committed.inspect_err(|error| log.fail(error.clone()))
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        // A store that opens without having anything to repeat. If that fails, the log has what was synced.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let has_commits = self.lock_log().has_commits();
            if has_commits { self.checkpoint(true) } else { Ok(()) }
        }));
        let database = self.database.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // redb tidies its file when it closes it. If that fails, all synced commits are still
        // there.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

impl Engine for Redb {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        let transaction = self.with_database(Database::begin_read);
        let transaction = transaction.map_err(|error| self.failed("read", error.into()))?;
        Ok(Box::new(RedbSnapshot {
            transaction,
            tables: Default::default(),
            path: self.path.clone(),
        }))
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        self.transact(commit, work).map_err(|error| self.write_failed(error))
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.lock_log().sync().map_err(|error| self.write_failed(error))
    }

    fn compact(&self) -> Result<(), EngineError> {
        let compacted = {
            let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
            let database = database.as_mut().expect("the database is there until it is dropped");
            database.compact()
        };
        let compacted = match compacted {
            // While snapshots are open nothing can be moved.
            Ok(_) | Err(CompactionError::TransactionInProgress) => Ok(()),
            Err(error) => Err(self.failed("compact", error.into())),
        };
        let compacted = compacted.and_then(|()| self.checkpoint(true));
        compacted.map_err(|error| self.write_failed(error))
    }
}

struct RedbSnapshot {
    /// Opened when they are first read: most snapshots read two.
    tables: [OnceLock<ReadOnlyTable<&'static [u8], &'static [u8]>>; Table::ALL.len()],
    transaction: ReadTransaction,
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
}

impl Snapshot for RedbSnapshot {}

impl Read for RedbSnapshot {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || get(self.table(table)?, &self.path, key, found))
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        unless_it_panics(&self.path, || {
            range(self.table(table)?, &self.path, keys, direction, each)
        })
    }
}

struct RedbTransaction<'t> {
    /// In the order of [`Table::ALL`].
    tables: Vec<redb::Table<'t, &'static [u8], &'static [u8]>>,
    recording: Recording<'t>,
    path: &'t Path,
}

impl Read for RedbTransaction<'_> {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        get(&self.tables[table as usize], self.path, key, found)
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        range(&self.tables[table as usize], self.path, keys, direction, each)
    }
}

impl Transaction for RedbTransaction<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        super::check_length("key", key, COMMIT_KEY_BYTES_MAX)?;
        super::check_length("value", value, VALUE_BYTES_MAX)?;
        self.recording.add(table, key, Some(value))?;
        let put = self.tables[table as usize].insert(key, value);
        put.map(drop)
            .map_err(|error| failed("write to", self.path, error.into()))
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError> {
        self.recording.add(table, key, None)?;
        let deleted = self.tables[table as usize].remove(key);
        deleted
            .map(drop)
            .map_err(|error| failed("write to", self.path, error.into()))
    }
}

/// Returns the path of the log beside redb's file.
fn log_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// Returns what redb knows of the log; [`None`] if it has none yet.
fn log_state(database: &Database, path: &Path) -> Result<Option<LogState>, EngineError> {
    let failed = |error: redb::Error| failed("open", path, error);
    let transaction = database.begin_read().map_err(|error| failed(error.into()))?;
    let commits = match transaction.open_table(COMMITS) {
        Ok(commits) => commits,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    };
    let read = |key| {
        let value = commits.get(key).map_err(|error| failed(error.into()))?;
        Ok(value.map(|value| value.value().to_vec()))
    };
    let id = read(LOG)?.and_then(|id| id.try_into().ok());
    let done = read(DONE)?
        .and_then(|done| done.try_into().ok())
        .map(u64::from_be_bytes);
    match id.zip(done) {
        Some((id, done)) => Ok(Some(LogState { id, done })),
        None => Err(EngineError::Damaged {
            engine: ENGINE,
            path: path.to_owned(),
            found: "it does not say which log of commits is its own".to_owned(),
        }),
    }
}

fn get(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    key: &[u8],
    found: &mut dyn FnMut(&[u8]),
) -> Result<bool, EngineError> {
    let value = table.get(key).map_err(|error| failed("read", path, error.into()))?;
    if let Some(value) = &value {
        found(value.value());
    }
    Ok(value.is_some())
}

fn range(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    keys: KeyRange<'_>,
    direction: Direction,
    each: EachPair<'_>,
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
        let (key, value) = pair.map_err(failed)?;
        if let ControlFlow::Break(()) = each(key.value(), value.value()) {
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

/// Makes an empty database under another name, and gives it its own once it is whole. So a process
/// that is killed meanwhile leaves no file that does not open, and a file without content is
/// damage.
fn make(path: &Path) -> Result<(), EngineError> {
    let create = |path: &Path| {
        unless_it_panics(path, || {
            let database = Database::builder().create(path);
            database.map(drop).map_err(|error| failed("create", path, error.into()))
        })
    };
    let new = path.with_extension(format!("new.{}", FileId::random()));
    let made = create(&new).and_then(|()| match fs::hard_link(&new, path) {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(_) if path.exists() => Ok(()),
        // The file system has no links, and a rename could replace what another process has open.
        Err(_) => create(path),
    });
    // The next process that opens the store removes a file that stays.
    let _ = fs::remove_file(&new);
    made
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use redb::backends::InMemoryBackend;

    use super::*;

    /// A disk that can become full.
    #[derive(Debug)]
    struct Disk {
        memory: InMemoryBackend,
        is_full: Arc<AtomicBool>,
    }

    impl Disk {
        fn has_room(&self) -> io::Result<()> {
            match self.is_full.load(Ordering::SeqCst) {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(()),
            }
        }
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            self.memory.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.memory.read(offset, out)
        }

        fn set_len(&self, length: u64) -> io::Result<()> {
            self.has_room()?;
            self.memory.set_len(length)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.has_room()?;
            self.memory.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.has_room()?;
            self.memory.write(offset, data)
        }
    }

    /// A file in memory, of which a copy can be taken at any time.
    #[derive(Debug, Clone, Default)]
    struct Copied(Arc<Mutex<Vec<u8>>>);

    impl Copied {
        fn copy(&self) -> Vec<u8> {
            self.0.lock().unwrap().clone()
        }

        fn of(bytes: Vec<u8>) -> Copied {
            Copied(Arc::new(Mutex::new(bytes)))
        }
    }

    impl StorageBackend for Copied {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let bytes = self.0.lock().unwrap();
            let found = bytes.get(offset as usize..offset as usize + out.len());
            out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }

        fn set_len(&self, length: u64) -> io::Result<()> {
            self.0.lock().unwrap().resize(length as usize, 0);
            Ok(())
        }

        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.0.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
            Ok(())
        }
    }

    const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

    /// Returns the files of an engine that was stopped after it had committed these keys one after the other.
    fn stopped() -> (Vec<u8>, Vec<u8>) {
        let (file, log) = (Copied::default(), Copied::default());
        let engine = Redb::open_on(file.clone(), log.clone(), Path::new("stopped"), 0).unwrap();
        for key in KEYS {
            let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, key, b"in the same place");
            engine.write(Commit::Synced, &mut put).unwrap();
        }
        (file.copy(), log.copy())
    }

    /// Returns the keys that an engine has which opens these files.
    fn keys_of(file: &[u8], log: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        let (file, log) = (Copied::of(file.to_vec()), Copied::of(log.to_vec()));
        let engine = Redb::open_on(file, log, Path::new("opened"), 0)?;
        let mut found = Vec::new();
        let mut each = |key: &[u8], _: &[u8]| {
            found.push(key.to_vec());
            ControlFlow::Continue(())
        };
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let snapshot = engine.snapshot()?;
        snapshot.range(Table::Keys, everything, Direction::Forward, &mut each)?;
        Ok(found)
    }

    /// All commits were synced: they are there, or it is an error.
    #[track_caller]
    fn assert_none_is_lost(file: &[u8], log: &[u8], what: &str) -> bool {
        match keys_of(file, log) {
            Ok(keys) => assert_eq!(keys, KEYS, "{what}"),
            Err(EngineError::Damaged { .. }) => return true,
            Err(error) => panic!("{what}: {error}"),
        }
        false
    }

    #[test]
    fn commits_are_there_after_a_stop_at_any_moment() {
        let (file, log) = stopped();
        assert!(!assert_none_is_lost(&file, &log, "stopped"));
    }

    #[test]
    fn no_synced_commit_is_lost_silently_whichever_byte_of_the_log_changes() {
        let (file, log) = stopped();
        let end = log.len() - log.iter().rev().take_while(|byte| **byte == 0).count();
        let mut noticed = 0;
        for at in 0..end + 8 {
            let mut damaged = log.clone();
            damaged[at] ^= 1 << (at % 8);
            noticed += u32::from(assert_none_is_lost(&file, &damaged, &format!("byte {at}")));
        }
        // The header, and four commits with a key and a value each.
        assert!(noticed > 32 + 4 * 60, "{noticed}");
    }

    #[test]
    fn no_synced_commit_is_lost_silently_wherever_the_log_is_cut() {
        let (file, log) = stopped();
        for length in (0..1600).chain([log.len() - 1]) {
            assert_none_is_lost(&file, &log[..length], &format!("{length} bytes"));
        }
        let longer = [&log[..], &[7; 100]].concat();
        assert!(!assert_none_is_lost(&file, &longer, "longer"));
    }

    #[test]
    fn the_log_of_another_store_is_refused() {
        let (file, _) = stopped();
        let (_, log) = stopped();
        assert!(matches!(keys_of(&file, &log), Err(EngineError::Damaged { .. })));
    }

    #[test]
    fn every_write_to_a_full_disk_says_that_it_is_full() {
        let is_full = Arc::new(AtomicBool::new(false));
        let disk = Disk {
            memory: InMemoryBackend::new(),
            is_full: is_full.clone(),
        };
        let log = Disk {
            memory: InMemoryBackend::new(),
            is_full: is_full.clone(),
        };
        let engine = Redb::open_on(disk, log, Path::new("full"), 0).unwrap();
        is_full.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Meta, b"key", b"value");
            let said = engine.write(Commit::Synced, &mut put).unwrap_err();
            assert!(
                matches!(&said, EngineError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
                "{said}"
            );
        }
    }
}
