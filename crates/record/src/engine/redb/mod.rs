//! redb: a copy-on-write B-tree in one file, and a log of commits beside it.

mod commit_log;
mod open;
#[cfg(test)]
mod tests;
mod wipe;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use ibid_format::record::{COMMIT_KEY_BYTES_MAX, CommitLogId};
pub use redb::StorageBackend;
use redb::{
    CompactionError, Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable,
    StorageError, TableDefinition, WriteTransaction,
};

use self::commit_log::{CommitLog, Recording};
pub use self::open::LostCommits;

use super::{
    Commit, Direction, EachPair, Engine, EngineError, KeyRange, Read, Snapshot, Table, Transaction, Work, is_void,
};

const ENGINE: &str = "redb";
/// Smallest cache of redb, bytes.
const CACHE_BYTES_MIN: usize = 1 << 20;
/// Longest value, bytes: what [`Transaction::put`] promises, with a seal. redb itself takes ten
/// times as much.
const VALUE_BYTES_MAX: usize = (300 << 20) + ibid_format::SEAL_OVERHEAD;
/// Values from this length on are written in parts, bytes.
const IN_PARTS_MIN: usize = 64 << 10;
/// redb's own table about the log of commits.
const COMMITS: Definition = TableDefinition::new("commits");
/// What names the log.
const LOG: &[u8] = b"log";
/// The number of the last commit.
const DONE: &[u8] = b"done";

/// All tables of a transaction, in the order of [`Table::ALL`].
type Tables<'t> = Vec<redb::Table<'t, &'static [u8], &'static [u8]>>;
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

impl Redb {
    /// Sets from how many bytes of commits on redb's file is synced and the log begins anew. With more, less is written
    /// twice, and opening after a crash takes longer. Default: 16 MiB, or 20 000 changes in any case.
    #[must_use]
    pub fn with_log_bytes(self, bytes: u64) -> Self {
        self.lock_log().set_long(bytes);
        self
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

    /// Syncs redb's file, so that it has all commits, and gives back what the log took of the disk.
    fn checkpoint(&self) -> Result<(), EngineError> {
        let transaction = self.begin(Commit::Synced)?;
        let log = &mut *self.lock_log();
        log.check_usable()?;
        self.finish(transaction, log.last(), None)?;
        log.begin_anew(true)
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
        let mut transaction = self.begin(Commit::Unsynced)?;
        let log = &mut *self.lock_log();
        let worked = {
            let mut tables = RedbTransaction {
                tables: self.tables(&transaction)?,
                recording: log.begin()?,
                path: &self.path,
            };
            work(&mut tables).and_then(|()| tables.recording.finish())
        };
        if let Err(error) = worked {
            // The caller gets the error of the work. A failed abort shows at the next transaction.
            let _ = transaction.abort();
            return Err(error);
        }
        let committed = if log.is_long() {
            // redb's file is synced instead.
            self.set_commit(&mut transaction, Commit::Synced)
                .and_then(|()| self.finish(transaction, log.last(), None))
                .and_then(|()| log.begin_anew(false))
        } else {
            let synced = if commit == Commit::Synced { log.sync() } else { Ok(()) };
            synced.and_then(|()| self.finish(transaction, log.last(), None))
        };
        // The log has the commit. If redb does not, only opening it again can tell.
        committed.map_err(|error| log.fail(error))
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        // A store that opens without having anything to repeat. If that fails, the log has what was synced.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let has_commits = self.lock_log().has_commits();
            if has_commits { self.checkpoint() } else { Ok(()) }
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
        let compacted = compacted.and_then(|()| self.checkpoint());
        compacted.map_err(|error| self.write_failed(error))
    }

    fn wipe(&self) -> Result<bool, EngineError> {
        self.overwrite_free_pages().map_err(|error| self.write_failed(error))
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
    tables: Tables<'t>,
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

    fn put_parts(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<(), EngineError> {
        super::check_length("key", key, COMMIT_KEY_BYTES_MAX)?;
        let length = parts.iter().map(|part| part.len()).sum();
        if length < IN_PARTS_MIN {
            // A copy takes less time than to reserve a place.
            return self.put(table, key, &parts.concat());
        }
        super::check_bytes("value", length, VALUE_BYTES_MAX)?;
        self.recording.add_parts(table, key, parts)?;
        let reserved = self.tables[table as usize].insert_reserve(key, length);
        let mut value = reserved.map_err(|error| failed("write to", self.path, error.into()))?;
        let mut rest = value.as_mut();
        for part in parts {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError> {
        self.recording.add(table, key, None)?;
        let deleted = self.tables[table as usize].remove(key);
        deleted
            .map(drop)
            .map_err(|error| failed("write to", self.path, error.into()))
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
