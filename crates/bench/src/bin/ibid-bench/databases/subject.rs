//! What is compared, and what is asked of it.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::input::Entry;

/// Memory that each store of its own kind may use for what it has read, bytes; PostgreSQL has twice
/// as much by default.
pub(crate) const CACHE_BYTES: usize = 64 << 20;
/// zstd's level wherever it is used.
pub(crate) const LEVEL: i32 = 3;

/// A way to store records, in a folder of its own. Loading and reading happen in processes of their
/// own.
pub(crate) trait Subject {
    /// Makes an empty store in a folder that exists and is empty.
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>>;
    /// Opens what was finished there.
    fn open(&self, folder: &Path) -> Result<Box<dyn Read>>;
    /// What it is made of, if it can tell; an error says why it can't be had here.
    fn version(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// A store that is being filled.
pub(crate) trait Load {
    /// Stores records in one transaction, which is on disk when this returns.
    fn load(&mut self, batch: &[Entry]) -> Result<()>;
    /// Brings all into the smallest form that the store has for it by itself, and closes it.
    fn finish(self: Box<Self>) -> Result<Finished>;
}

/// A store that is full.
pub(crate) trait Read {
    /// The last version of a record.
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// One version. All are asked for once, in the order in which they were stored; a stream knows
    /// no other.
    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>>;
    /// Bytes that were given to the engine as values: what is stored without what the engine adds.
    /// None if it can't be seen. Closes the store.
    fn value_bytes(self: Box<Self>) -> Result<Option<u64>>;
}

/// What is known when a store is full.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// Where it is not the sum of the sizes of all files in the folder.
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) index: Option<Index>,
}

/// What must be in memory to find what is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}
