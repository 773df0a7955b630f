//! The stores that are compared, and the operations that they offer.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::input::Entry;

/// Memory for caches of each store, bytes; PostgreSQL has twice as much by default.
pub(crate) const CACHE_BYTES: usize = 64 << 20;
/// The level of zstd wherever it is used.
pub(crate) const LEVEL: i32 = 3;

/// A way to store records, in a folder of its own. Loading and reading run in processes of their
/// own.
pub(crate) trait Subject {
    /// Makes an empty store in a folder that exists and is empty.
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>>;
    /// Opens the finished store in a folder.
    fn open(&self, folder: &Path) -> Result<Box<dyn Read>>;
    /// Returns the version of the software, if known; an error says why it is not available here.
    fn version(&self) -> Result<Option<String>> {
        Ok(None)
    }
}

/// A store that is being filled.
pub(crate) trait Load {
    /// Stores records in one transaction, which is on disk when this returns.
    fn load(&mut self, batch: &[Entry]) -> Result<()>;
    /// Brings the store into its smallest form, and closes it.
    fn finish(self: Box<Self>) -> Result<Finished>;
}

/// A store that is full.
pub(crate) trait Read {
    /// Returns the latest version of a record.
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Returns one version. A stream has no other order than that in which they were stored.
    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>>;
    /// Returns the bytes that were given to the engine as values, without the engine's overhead;
    /// [`None`] if unknown. Closes the store.
    fn value_bytes(self: Box<Self>) -> Result<Option<u64>>;
}

/// The properties of a filled store.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    /// The bytes on disk, if they are not the sum of the sizes of all files in the folder.
    pub(crate) disk_bytes: Option<u64>,
    pub(crate) index: Option<Index>,
}

/// The memory of the index that deduplication needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}
