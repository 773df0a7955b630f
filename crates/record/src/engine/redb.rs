//! redb: a copy-on-write B-tree in one file.

use std::fs;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock};

use ibid_format::FileId;
pub use redb::StorageBackend;
use redb::{
    Builder, CompactionError, Database, DatabaseError, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase,
    ReadableTable, StorageError, TableDefinition,
};

use super::{
    Commit, Direction, EachPair, Engine, EngineError, KeyRange, Read, Snapshot, Table, Transaction, Work, is_void,
};

const ENGINE: &str = "redb";
/// Smallest cache of redb, bytes.
const CACHE_BYTES_MIN: usize = 1 << 20;
/// Longest value, bytes: what [`Transaction::put`] promises, with a seal. redb itself takes ten
/// times as much.
const VALUE_BYTES_MAX: usize = (300 << 20) + ibid_format::SEAL_OVERHEAD;
/// Longest key, bytes.
const KEY_BYTES_MAX: usize = 64 << 10;

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

fn definition(table: Table) -> Definition {
    TableDefinition::new(table.name())
}

/// The [`Engine`] of the library redb, in one file.
///
/// A commit with [`Commit::Synced`] costs one sync of the file. Other commits stay in memory, and
/// are lost if the process ends without [`sync`](Engine::sync). Opening it after a crash reads the
/// file's tables once to find free pages.
pub struct Redb {
    /// [`None`] only while it is dropped. Compacting takes the lock for writing.
    database: RwLock<Option<Database>>,
    path: PathBuf,
    /// Why the first write failed, after which redb refuses every other.
    first_failure: OnceLock<EngineError>,
}

impl Redb {
    /// Opens the file, or makes it. Caches pages up to `cache_bytes`.
    ///
    /// # Errors
    /// [`EngineError::InUse`] if it is open already; [`EngineError::Damaged`] or
    /// [`EngineError::Version`] if it is not as redb writes it; [`EngineError::Io`].
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, EngineError> {
        let there = path
            .try_exists()
            .map_err(|source| EngineError::io("open", path, source))?;
        if !there {
            make(path)?;
        }
        Redb::opened(path, cache_bytes, |builder| builder.open(path))
    }

    /// Opens it on storage of your own, for example of a test that simulates power failures. `path`
    /// is for messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(storage: impl StorageBackend, path: &Path, cache_bytes: usize) -> Result<Self, EngineError> {
        Redb::opened(path, cache_bytes, |builder| builder.create_with_backend(storage))
    }

    fn opened(
        path: &Path,
        cache_bytes: usize,
        open: impl FnOnce(&Builder) -> Result<Database, DatabaseError>,
    ) -> Result<Self, EngineError> {
        let database = unless_it_panics(path, || {
            let mut builder = Database::builder();
            builder.set_cache_size(cache_bytes.max(CACHE_BYTES_MIN));
            open(&builder).map_err(|error| failed("open", path, error.into()))
        })?;
        let engine = Redb {
            database: RwLock::new(Some(database)),
            path: path.to_owned(),
            first_failure: OnceLock::new(),
        };
        // Makes all tables of a new file, so that snapshots find them.
        if !unless_it_panics(path, || engine.has_all_tables())? {
            engine.write(Commit::Synced, &mut |_| Ok(()))?;
        }
        Ok(engine)
    }

    fn with_database<T>(&self, work: impl FnOnce(&Database) -> T) -> T {
        // The caller catches a panic under the lock, and reports it as damage of the file.
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        work(database.as_ref().expect("the database is there until it is dropped"))
    }

    fn has_all_tables(&self) -> Result<bool, EngineError> {
        let failed = |error: redb::Error| self.failed("open", error);
        let transaction = self.with_database(Database::begin_read);
        let transaction = transaction.map_err(|error| failed(error.into()))?;
        for table in Table::ALL {
            match transaction.open_table(definition(table)) {
                Ok(_) => {}
                Err(redb::TableError::TableDoesNotExist(_)) => return Ok(false),
                Err(error) => return Err(failed(error.into())),
            }
        }
        Ok(true)
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
        let failed = |error: redb::Error| self.failed("write to", error);
        let transaction = self.with_database(Database::begin_write);
        let mut transaction = transaction.map_err(|error| failed(error.into()))?;
        let durability = match commit {
            Commit::Synced => Durability::Immediate,
            Commit::Unsynced => Durability::None,
        };
        transaction
            .set_durability(durability)
            .map_err(|error| failed(error.into()))?;
        let worked = {
            let mut tables = Vec::with_capacity(Table::ALL.len());
            for table in Table::ALL {
                tables.push(
                    transaction
                        .open_table(definition(table))
                        .map_err(|error| failed(error.into()))?,
                );
            }
            work(&mut RedbTransaction {
                tables,
                path: &self.path,
            })
        };
        match worked {
            Ok(()) => transaction.commit().map_err(|error| failed(error.into())),
            Err(error) => {
                // The caller gets the error of the work. A failed abort shows at the next
                // transaction.
                let _ = transaction.abort();
                Err(error)
            }
        }
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
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
        self.write(Commit::Synced, &mut |_| Ok(()))
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.sync()?;
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_mut().expect("the database is there until it is dropped");
        match database.compact() {
            // While snapshots are open nothing can be moved.
            Ok(_) | Err(CompactionError::TransactionInProgress) => Ok(()),
            Err(error) => Err(self.write_failed(self.failed("compact", error.into()))),
        }
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
        super::check_length("key", key, KEY_BYTES_MAX)?;
        super::check_length("value", value, VALUE_BYTES_MAX)?;
        let put = self.tables[table as usize].insert(key, value);
        put.map(drop)
            .map_err(|error| failed("write to", self.path, error.into()))
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError> {
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

    #[test]
    fn every_write_to_a_full_disk_says_that_it_is_full() {
        let is_full = Arc::new(AtomicBool::new(false));
        let disk = Disk {
            memory: InMemoryBackend::new(),
            is_full: is_full.clone(),
        };
        let engine = Redb::open_on(disk, Path::new("full"), 0).unwrap();
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
