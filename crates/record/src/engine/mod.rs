//! The seam between a store and what keeps its bytes: ordered tables, one writer, snapshots.
//!
//! [`Redb`] is the default, a copy-on-write B-tree in one file; `Fjall`, behind the feature
//! `fjall`, is an LSM tree in a folder. [`conformance`](crate::conformance) holds the tests that
//! every engine passes.
//!
//! Callbacks instead of iterators and guards: a value is looked at where the engine has it, without
//! a copy, and no lifetime of an engine's own types shows through the trait.

mod error;
#[cfg(feature = "fjall")]
mod fjall;
mod redb;
mod sealed;

use std::ops::{Bound, ControlFlow};

pub use error::EngineError;

#[cfg(feature = "fjall")]
pub use self::fjall::Fjall;
pub use self::redb::{Redb, StorageBackend};
pub use self::sealed::Sealed;

/// The tables of a store. `docs/format/records.md` says what is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Which format it is, and what numbers come next.
    Meta,
    /// Name → what the namespace is.
    Namespaces,
    /// Namespace and key → where its records are.
    Keys,
    /// First record of a key and group of versions → their records.
    Versions,
    /// Number → record.
    Records,
    /// Group of records → how many are decoded from each.
    References,
    /// Group of records → in which blocks they are.
    Places,
    /// Number → records that are compressed together.
    Blocks,
    /// Number of a record that no delta was made of yet → its place in a chain, and its sketch.
    Chains,
    /// Position → what was done.
    Oplog,
}

impl Table {
    /// All of them.
    pub const ALL: [Table; 10] = [
        Table::Meta,
        Table::Namespaces,
        Table::Keys,
        Table::Versions,
        Table::Records,
        Table::References,
        Table::Places,
        Table::Blocks,
        Table::Chains,
        Table::Oplog,
    ];

    /// The number that stands for it in seals. Part of the format.
    pub(crate) fn number(self) -> u8 {
        match self {
            Table::Keys => 1,
            Table::Versions => 2,
            Table::Namespaces => 3,
            Table::Meta => 4,
            Table::References => 5,
            Table::Chains => 6,
            Table::Places => 7,
            Table::Blocks => 8,
            Table::Records => 9,
            Table::Oplog => 10,
        }
    }

    /// What it is called inside the engine. Part of the format.
    pub fn name(self) -> &'static str {
        match self {
            Table::Meta => "meta",
            Table::Namespaces => "namespaces",
            Table::Keys => "keys",
            Table::Versions => "versions",
            Table::Records => "records",
            Table::References => "references",
            Table::Places => "places",
            Table::Blocks => "blocks",
            Table::Chains => "chains",
            Table::Oplog => "oplog",
        }
    }
}

/// What is promised when a commit returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// It, and every commit before it, survives a crash of the machine.
    Synced,
    /// Readers see it. A crash, even of the process alone, may lose it and those after it, never
    /// those before it alone.
    Unsynced,
}

/// A range of keys. One whose end is before its beginning is empty.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Which way a range is gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key up.
    Forward,
    /// From the largest key down.
    Backward,
}

/// Looks at each pair of a range, until it breaks.
pub type EachPair<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Reading, from a snapshot or within a transaction.
pub trait Read {
    /// Shows the value of a key to `found`, and says whether there is one.
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError>;

    /// Shows the pairs of a range to `each`, in the order of the keys' bytes or its reverse.
    fn range(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError>;
}

/// What was committed at one moment. Later commits do not change what is read from it.
pub trait Snapshot: Read + Send + Sync {}

/// Writing, all or nothing. Reads see what it has written itself.
pub trait Transaction: Read {
    /// Stores a value, in place of the one that is there.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`] for more than the engine takes; at least 4200 bytes of key and 300
    /// MiB of value are taken.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), EngineError>;

    /// Removes a key, if it is there.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError>;
}

/// What a transaction does. An error undoes all of it.
pub type Work<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Result<(), EngineError>;

/// Ordered tables of bytes, with atomic commits.
///
/// Keys have at least one byte. One writer at a time: a second [`write`](Self::write) waits.
/// Readers wait for nobody.
pub trait Engine: Send + Sync {
    /// What is committed now.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError>;

    /// Runs `work` in a transaction and commits it, unless it fails.
    ///
    /// # Errors
    /// Those of `work`; nothing was changed then. Those of the commit itself: whether it took place
    /// is known after reopening.
    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError>;

    /// Makes every earlier commit survive a crash.
    fn sync(&self) -> Result<(), EngineError>;

    /// Gives room on the disk back that is not needed any more, as far as that goes while snapshots
    /// are open. Others may have to wait meanwhile. Syncs.
    fn compact(&self) -> Result<(), EngineError>;
}

/// Whether nothing can be in a range. B-trees of several libraries panic if asked.
pub(crate) fn is_void(range: &KeyRange<'_>) -> bool {
    match *range {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

/// Refuses what is longer than the engine takes.
pub(crate) fn check_length(field: &'static str, bytes: &[u8], expected: usize) -> Result<(), EngineError> {
    let (expected, found) = (expected as u64, bytes.len() as u64);
    if found > expected {
        return Err(EngineError::TooLarge { field, expected, found });
    }
    Ok(())
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        (**self).snapshot()
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        (**self).write(commit, work)
    }

    fn sync(&self) -> Result<(), EngineError> {
        (**self).sync()
    }

    fn compact(&self) -> Result<(), EngineError> {
        (**self).compact()
    }
}
