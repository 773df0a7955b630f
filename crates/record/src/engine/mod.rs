//! The engines that store the tables: ordered tables of bytes, with one writer and snapshots.
//!
//! [`Redb`] is the default, a copy-on-write B-tree in one file. `Fjall`, behind the feature
//! `fjall`, is an LSM tree in a folder. [`conformance`](crate::conformance) has the tests that
//! every engine passes.
//!
//! The traits have callbacks instead of iterators and guards: a value is read where the engine has
//! it, without a copy, and no lifetime of an engine's own types appears in them.

mod error;
#[cfg(feature = "fjall")]
mod fjall;
mod redb;
mod sealed;

use std::ops::{Bound, ControlFlow};

pub use error::EngineError;

#[cfg(feature = "fjall")]
pub use self::fjall::Fjall;
pub(crate) use self::redb::is_of_log;
pub use self::redb::{LostCommits, Redb, RedbReader, SegmentFiles, StorageBackend};
pub use self::sealed::Sealed;

/// The tables of a store, which `docs/format/records.md` describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// The format, and the numbers that come next.
    Meta,
    /// Name → namespace.
    Namespaces,
    /// Namespace and key → first and latest record.
    Keys,
    /// First record of a key, and group of versions → records of these versions.
    Versions,
    /// Number → record.
    Records,
    /// Group of records → how many deltas each has.
    References,
    /// Group of records → their blocks and frames.
    Places,
    /// Number → block of compressed records.
    Blocks,
    /// Number of the newest record of a chain → its position and features.
    Chains,
    /// Position → entry of the log.
    Oplog,
    /// Namespace and name → index; and namespace, index, value and key → nothing more.
    Indexes,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 11] = [
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
        Table::Indexes,
    ];

    /// Returns the number of the table in seals, which is part of the format.
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
            Table::Indexes => 11,
        }
    }

    /// Returns the table of this number.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Table::ALL.into_iter().find(|table| table.number() == number)
    }

    /// Returns the name of the table in the engine, which is part of the format.
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
            Table::Indexes => "indexes",
        }
    }
}

/// The promise of a commit when it returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commit {
    /// The commit, and every commit before it, survives a crash of the machine.
    Synced,
    /// Readers see the commit. A crash, even of the process alone, may lose it together with all
    /// later ones.
    Unsynced,
}

/// A range of keys. If its end is before its beginning, it is empty.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The order in which a range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key up.
    Forward,
    /// From the largest key down.
    Backward,
}

/// Is called with each key and value of a range until it breaks.
pub type EachPair<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Is called with each key of a range until it breaks.
pub type EachKey<'a> = &'a mut dyn FnMut(&[u8]) -> ControlFlow<()>;

/// Is called with the bytes that were moved since its last call, and may end the work.
pub type Pause<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// How much unused disk space is worth returning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// Very much: other work is under way.
    VeryMuch,
    /// Much.
    Much,
    /// All but for a little: there is time for it.
    Any,
}

/// Reads from a snapshot or within a transaction.
///
/// Of a record or a block that is damaged or lost, an engine may show anything, also an empty value: the store's
/// checksums find it. So one damaged value is in the way of no other.
pub trait Read {
    /// Shows the value of a key to `found`, and returns whether there is one.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot read.
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError>;

    /// Returns whether there is a value of a key, without reading it.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot read.
    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        self.get(table, key, &mut |_| {})
    }

    /// Shows a part of the value of a key to `found`: at most `length` bytes from `at` on, as many as there are.
    /// Returns whether there is a value.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot read.
    fn get_part(
        &self,
        table: Table,
        key: &[u8],
        at: u64,
        length: usize,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, EngineError> {
        self.get(table, key, &mut |value| found(part_of(value, at, length)))
    }

    /// Returns whether [`get_part`](Self::get_part) reads no more than the part. Otherwise a caller who needs two parts
    /// of a value rather reads all of it once.
    fn reads_parts(&self) -> bool {
        false
    }

    /// Shows the keys of a range to `each`, as [`range`](Self::range) does, without reading their values.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot read.
    fn keys(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        self.range(table, range, direction, &mut |key, _| each(key))
    }

    /// Shows the keys and values of a range to `each`, in the order of the keys' bytes or its
    /// reverse.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot read.
    fn range(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError>;
}

/// Everything that was committed at one moment. Later commits do not change it.
pub trait Snapshot: Read + Send + Sync {}

/// A transaction, which is committed completely or not at all. Its reads see its writes.
pub trait Transaction: Read {
    /// Stores a value, in place of the key's value if it has one.
    ///
    /// # Errors
    /// [`EngineError::TooLarge`] for more than the engine takes, which is at least 4200 bytes of
    /// key and 300 MiB of value.
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), EngineError>;

    /// Stores a value that is given in parts, as [`put`](Self::put) does. An engine that can write the parts
    /// one by one needs no memory for the whole.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    fn put_parts(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<(), EngineError> {
        self.put(table, key, &parts.concat())
    }

    /// Removes a key if it is there.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot write.
    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError>;
}

/// The work of a transaction. An error undoes all of it.
pub type Work<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Result<(), EngineError>;

/// Ordered tables of bytes, with atomic commits.
///
/// Keys have at least one byte. There is one writer at a time: a second [`write`](Self::write)
/// waits. Readers never wait.
pub trait Engine: Send + Sync {
    /// Returns everything that is committed now.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot read.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError>;

    /// Makes later snapshots show what another process has synced meanwhile, if the engine was opened read only.
    /// Returns whether there was anything. Snapshots that are there stay as they are.
    ///
    /// # Errors
    /// Those of opening the engine read only. Later snapshots show what they showed before.
    fn refresh(&self) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// Runs `work` in a transaction and commits it, unless it fails.
    ///
    /// # Errors
    /// Those of `work`, after which nothing was changed; those of the commit, after which the
    /// engine must be opened again to see whether it took place.
    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError>;

    /// Makes every earlier commit survive a crash.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot write.
    fn sync(&self) -> Result<(), EngineError>;

    /// Returns unused disk space, if there is as much of it as `unused` says, in small commits of its own. Calls
    /// `pause` after each. Reads and writes go on meanwhile.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot write.
    fn reclaim(&self, unused: Unused, pause: Pause<'_>) -> Result<(), EngineError> {
        let _ = (unused, pause);
        Ok(())
    }

    /// Returns what is unused of the engine's own files where these have grown by much since it was opened, or since
    /// they were last made small. Does nothing while snapshots are open. Reads and writes may have to wait meanwhile.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot write.
    fn shrink(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Returns unused disk space, as far as open snapshots allow, and syncs. Reads and writes may
    /// have to wait meanwhile.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot write.
    fn compact(&self) -> Result<(), EngineError>;

    /// Overwrites in the engine's files what was deleted or replaced before, and syncs. Returns
    /// whether nothing of it is left: not if an open snapshot needs it, or if the engine cannot
    /// tell, as by default. Reads and writes may have to wait meanwhile.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot write.
    fn wipe(&self) -> Result<bool, EngineError> {
        Ok(false)
    }

    /// Verifies what the engine notes for itself beside the tables, if it can: without that, it may refuse to write.
    ///
    /// # Errors
    /// [`EngineError::Damaged`]; [`EngineError`] if the engine cannot read.
    fn verify(&self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// Returns whether no key can be in a range. The B-trees of some libraries panic for such a range.
pub(crate) fn is_void(range: &KeyRange<'_>) -> bool {
    match *range {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to))
        | (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

/// Returns a part of a value.
pub(crate) fn part_of(value: &[u8], at: u64, length: usize) -> &[u8] {
    let from = usize::try_from(at).unwrap_or(usize::MAX).min(value.len());
    &value[from..from.saturating_add(length).min(value.len())]
}

/// Refuses a key or value that is longer than the engine takes.
pub(crate) fn check_length(field: &'static str, bytes: &[u8], expected: usize) -> Result<(), EngineError> {
    check_bytes(field, bytes.len(), expected)
}

/// Refuses so many bytes if the engine takes less.
pub(crate) fn check_bytes(field: &'static str, found: usize, expected: usize) -> Result<(), EngineError> {
    let (expected, found) = (expected as u64, found as u64);
    if found > expected {
        return Err(EngineError::TooLarge { field, expected, found });
    }
    Ok(())
}

impl<E: Engine + ?Sized> Engine for Box<E> {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        (**self).snapshot()
    }

    fn refresh(&self) -> Result<bool, EngineError> {
        (**self).refresh()
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        (**self).write(commit, work)
    }

    fn sync(&self) -> Result<(), EngineError> {
        (**self).sync()
    }

    fn reclaim(&self, unused: Unused, pause: Pause<'_>) -> Result<(), EngineError> {
        (**self).reclaim(unused, pause)
    }

    fn shrink(&self) -> Result<(), EngineError> {
        (**self).shrink()
    }

    fn compact(&self) -> Result<(), EngineError> {
        (**self).compact()
    }

    fn wipe(&self) -> Result<bool, EngineError> {
        (**self).wipe()
    }

    fn verify(&self) -> Result<(), EngineError> {
        (**self).verify()
    }
}
