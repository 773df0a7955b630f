//! An engine that encrypts the values of another.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use ibid_format::Keys;
use ibid_format::record::{open_value, seal_value};

use super::{
    Commit, Direction, EachKey, EachPair, Engine, EngineError, KeyRange, Pause, Read, Snapshot, Table, Transaction,
    Unused, Work,
};

/// An [`Engine`] that seals every value before it stores it in another engine: without the key no
/// value can be read, or changed unnoticed.
///
/// A seal covers the table and the key, so values cannot change places either. Keys are not sealed,
/// because they are stored in order. Anyone who can read the files can see the keys of records, the
/// names of namespaces and indexes, the values of indexes, how long other values are, and when they
/// change. Replacing the whole store by an older copy of it is not noticed.
pub struct Sealed<E> {
    engine: E,
    keys: Keys,
    path: PathBuf,
}

impl<E: Engine> Sealed<E> {
    /// Seals what is stored in `engine`. `path` is for messages.
    pub fn new(engine: E, keys: Keys, path: &Path) -> Self {
        let path = path.to_owned();
        Sealed { engine, keys, path }
    }
}

/// Seals and opens values.
#[derive(Clone, Copy)]
struct Sealer<'s> {
    keys: &'s Keys,
    path: &'s Path,
}

impl Sealer<'_> {
    fn seal(self, table: Table, key: &[u8], value: &[&[u8]]) -> Vec<u8> {
        let mut sealed = Vec::new();
        seal_value(self.keys, table.number(), key, value, &mut sealed);
        sealed
    }

    fn open<T>(
        self,
        table: Table,
        key: &[u8],
        sealed: &[u8],
        found: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, EngineError> {
        let mut sealed = sealed.to_vec();
        match open_value(self.keys, table.number(), key, &mut sealed) {
            Ok(value) => Ok(found(value)),
            Err(_) => Err(EngineError::Damaged {
                engine: "encryption",
                path: self.path.to_owned(),
                found: format!(
                    "the value under \"{}\" in the table {} is not the one that was sealed",
                    key.escape_ascii(),
                    table.name()
                ),
            }),
        }
    }

    fn get(
        self,
        read: &(impl Read + ?Sized),
        table: Table,
        key: &[u8],
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, EngineError> {
        let mut opened = Ok(());
        let there = read.get(table, key, &mut |sealed| {
            opened = self.open(table, key, sealed, &mut *found)
        })?;
        opened.map(|()| there)
    }

    fn range(
        self,
        read: &(impl Read + ?Sized),
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        let mut failed = Ok(());
        let mut open = |key: &[u8], sealed: &[u8]| match self.open(table, key, sealed, |value| each(key, value)) {
            Ok(flow) => flow,
            Err(error) => {
                failed = Err(error);
                ControlFlow::Break(())
            }
        };
        read.range(table, range, direction, &mut open)?;
        failed
    }
}

impl<E: Engine> Engine for Sealed<E> {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(SealedSnapshot {
            snapshot: self.engine.snapshot()?,
            keys: self.keys.clone(),
            path: self.path.clone(),
        }))
    }

    fn refresh(&self) -> Result<bool, EngineError> {
        self.engine.refresh()
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        let sealer = Sealer {
            keys: &self.keys,
            path: &self.path,
        };
        self.engine.write(commit, &mut |transaction| {
            work(&mut SealedTransaction { transaction, sealer })
        })
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.engine.sync()
    }

    fn reclaim(&self, unused: Unused, pause: Pause<'_>) -> Result<(), EngineError> {
        self.engine.reclaim(unused, pause)
    }

    fn shrink(&self) -> Result<(), EngineError> {
        self.engine.shrink()
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.engine.compact()
    }

    fn wipe(&self) -> Result<bool, EngineError> {
        self.engine.wipe()
    }

    fn verify(&self) -> Result<(), EngineError> {
        self.engine.verify()
    }
}

struct SealedSnapshot {
    snapshot: Box<dyn Snapshot>,
    keys: Keys,
    path: PathBuf,
}

impl SealedSnapshot {
    fn sealer(&self) -> Sealer<'_> {
        Sealer {
            keys: &self.keys,
            path: &self.path,
        }
    }
}

impl Snapshot for SealedSnapshot {}

impl Read for SealedSnapshot {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        self.sealer().get(&*self.snapshot, table, key, found)
    }

    fn range(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        self.sealer().range(&*self.snapshot, table, range, direction, each)
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        self.snapshot.contains(table, key)
    }

    fn keys(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        self.snapshot.keys(table, range, direction, each)
    }
}

struct SealedTransaction<'t> {
    transaction: &'t mut dyn Transaction,
    sealer: Sealer<'t>,
}

impl Read for SealedTransaction<'_> {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        self.sealer.get(&*self.transaction, table, key, found)
    }

    fn range(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        self.sealer.range(&*self.transaction, table, range, direction, each)
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        self.transaction.contains(table, key)
    }

    fn keys(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        self.transaction.keys(table, range, direction, each)
    }
}

impl Transaction for SealedTransaction<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        self.put_parts(table, key, &[value])
    }

    fn put_parts(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<(), EngineError> {
        let sealed = self.sealer.seal(table, key, parts);
        self.transaction.put(table, key, &sealed)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError> {
        self.transaction.delete(table, key)
    }
}
