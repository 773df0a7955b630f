//! fjall: a log-structured merge tree in a folder.

use std::fs::{self, File, TryLockError};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fjall::{
    Config, KvPair, PartitionCreateOptions, PersistMode, ReadTransaction, TxKeyspace, TxPartitionHandle,
    WriteTransaction,
};

use super::{
    Commit, Direction, EachPair, Engine, EngineError, KeyRange, Read, Snapshot, Table, Transaction, Work, check_length,
    is_void,
};

const ENGINE: &str = "fjall";
/// Longest value, bytes: what [`Transaction::put`] promises, with a seal. fjall itself takes ten
/// times as much.
const VALUE_BYTES_MAX: usize = (300 << 20) + ibid_format::SEAL_OVERHEAD;
/// Longest key, bytes. With a longer one fjall panics.
const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// The [`Engine`] of the library fjall, in a folder.
///
/// Commits go to a journal. A commit with [`Commit::Unsynced`] survives a crash of the process, but
/// not of the machine.
pub struct Fjall {
    keyspace: TxKeyspace,
    /// In the order of [`Table::ALL`].
    tables: Vec<TxPartitionHandle>,
    path: PathBuf,
    /// Dropped after the fields above. fjall itself would open a folder twice.
    _lock: Lock,
}

/// A file whose lock this process has.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // To close it would not be enough: a process that is being begun at that moment has it too, until it becomes
        // another program.
        let _ = self.0.unlock();
    }
}

impl Fjall {
    /// Opens the folder, or makes it. Caches blocks up to `cache_bytes`, and has at most 64 MiB in
    /// memory that is not in sorted files yet.
    ///
    /// # Errors
    /// [`EngineError::InUse`] if it is open already; [`EngineError::Damaged`] or
    /// [`EngineError::Version`] if it is not as fjall writes it; [`EngineError::Io`].
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, EngineError> {
        let io = |source| EngineError::io("open", path, source);
        fs::create_dir_all(path).map_err(io)?;
        let lock = File::create(path.join("lock")).map_err(io)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => EngineError::InUse { path: path.to_owned() },
            TryLockError::Error(source) => io(source),
        })?;
        let failed = |error| failed("open", path, error);
        let config = Config::new(path.join("tables")).cache_size(cache_bytes as u64);
        let keyspace = config.open_transactional().map_err(failed)?;
        let open = |table: Table| keyspace.open_partition(table.name(), PartitionCreateOptions::default());
        let tables = Table::ALL
            .into_iter()
            .map(open)
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        Ok(Fjall {
            keyspace,
            tables,
            path: path.to_owned(),
            _lock: Lock(lock),
        })
    }

    fn failed(&self, operation: &'static str, error: fjall::Error) -> EngineError {
        failed(operation, &self.path, error)
    }
}

impl Engine for Fjall {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(FjallSnapshot {
            transaction: self.keyspace.read_tx(),
            tables: self.tables.clone(),
            path: self.path.clone(),
        }))
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        let mode = match commit {
            Commit::Synced => PersistMode::SyncAll,
            Commit::Unsynced => PersistMode::Buffer,
        };
        let mut transaction = FjallTransaction {
            transaction: self.keyspace.write_tx().durability(Some(mode)),
            engine: self,
        };
        match work(&mut transaction) {
            Ok(()) => transaction
                .transaction
                .commit()
                .map_err(|error| self.failed("write to", error)),
            Err(error) => {
                transaction.transaction.rollback();
                Err(error)
            }
        }
    }

    fn sync(&self) -> Result<(), EngineError> {
        let synced = self.keyspace.persist(PersistMode::SyncAll);
        synced.map_err(|error| self.failed("sync", error))
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.sync()?;
        for table in &self.tables {
            let compacted = table.inner().major_compact();
            compacted.map_err(|error| self.failed("compact", error))?;
        }
        Ok(())
    }
}

struct FjallSnapshot {
    transaction: ReadTransaction,
    tables: Vec<TxPartitionHandle>,
    path: PathBuf,
}

impl Snapshot for FjallSnapshot {}

impl Read for FjallSnapshot {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let value = self.transaction.get(&self.tables[table as usize], key);
        let value = value.map_err(|error| failed("read", &self.path, error))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        if is_void(&keys) {
            return Ok(());
        }
        let pairs = self.transaction.range::<&[u8], _>(&self.tables[table as usize], keys);
        show(pairs, &self.path, direction, each)
    }
}

struct FjallTransaction<'e> {
    transaction: WriteTransaction<'e>,
    engine: &'e Fjall,
}

impl Read for FjallTransaction<'_> {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let value = self.transaction.get(&self.engine.tables[table as usize], key);
        let value = value.map_err(|error| self.engine.failed("read", error))?;
        Ok(value.map(|value| found(&value)).is_some())
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        if is_void(&keys) {
            return Ok(());
        }
        let pairs = self
            .transaction
            .range::<&[u8], _>(&self.engine.tables[table as usize], keys);
        show(pairs, &self.engine.path, direction, each)
    }
}

impl Transaction for FjallTransaction<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        check_length("key", key, KEY_BYTES_MAX)?;
        check_length("value", value, VALUE_BYTES_MAX)?;
        self.transaction.insert(&self.engine.tables[table as usize], key, value);
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError> {
        self.transaction.remove(&self.engine.tables[table as usize], key);
        Ok(())
    }
}

fn show(
    mut pairs: impl DoubleEndedIterator<Item = fjall::Result<KvPair>>,
    path: &Path,
    direction: Direction,
    each: EachPair<'_>,
) -> Result<(), EngineError> {
    while let Some(pair) = match direction {
        Direction::Forward => pairs.next(),
        Direction::Backward => pairs.next_back(),
    } {
        let (key, value) = pair.map_err(|error| failed("read", path, error))?;
        if let ControlFlow::Break(()) = each(&key, &value) {
            break;
        }
    }
    Ok(())
}

fn failed(operation: &'static str, path: &Path, error: fjall::Error) -> EngineError {
    let (engine, location) = (ENGINE, path.to_owned());
    match error {
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            EngineError::io(operation, path, source)
        }
        fjall::Error::Poisoned => EngineError::Stopped {
            operation,
            path: location,
        },
        fjall::Error::InvalidVersion(version) => EngineError::Version {
            engine,
            path: location,
            found: version.map_or("no version".to_owned(), |version| format!("{version:?}")),
        },
        error @ (fjall::Error::Storage(_)
        | fjall::Error::Encode(_)
        | fjall::Error::Decode(_)
        | fjall::Error::JournalRecovery(_)) => EngineError::Damaged {
            engine,
            path: location,
            found: error.to_string(),
        },
        error => EngineError::Engine {
            engine,
            operation,
            path: location,
            found: error.to_string(),
        },
    }
}
