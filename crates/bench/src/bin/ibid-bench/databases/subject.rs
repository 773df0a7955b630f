//! What is compared, and what is asked of it.

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::blocks::{Chunking, InBlocks};
use super::input::Entry;
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::store::Store;
use super::stream::Stream;
use super::table::Table;

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

/// The names of subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// The file is read, and nothing stored: what all others pay as well
    Nothing,
    /// `ibid_record::Store` as it is by default: older records become deltas of newer ones
    /// (dDedup), and all is compacted
    Ddedup,
    /// The same, not compacted
    DdedupHot,
    /// The same store without deltas
    Plain,
    /// The same, not compacted
    PlainHot,
    /// The same engine, each body compressed by zstd
    RedbZstd,
    /// SQLite, each body compressed by zstd
    SqliteZstd,
    /// PostgreSQL, which compresses by lz4
    PostgresLz4,
    /// Bodies in blocks of 32 KiB, each compressed by zstd
    Blocks,
    /// Deduplicated by chunks of 4 KiB
    #[value(name = "trad-4k")]
    #[serde(rename = "trad-4k")]
    Trad4k,
    /// The same, in blocks of 32 KiB compressed by zstd
    #[value(name = "trad-4k-blocks")]
    #[serde(rename = "trad-4k-blocks")]
    Trad4kBlocks,
    /// Deduplicated by chunks of 64 bytes
    #[value(name = "trad-64")]
    #[serde(rename = "trad-64")]
    Trad64,
    /// The same, in blocks of 32 KiB compressed by zstd
    #[value(name = "trad-64-blocks")]
    #[serde(rename = "trad-64-blocks")]
    Trad64Blocks,
    /// All bodies as one stream, compressed by zstd with a window of 128 MiB: nothing can be read
    /// alone
    Stream,
}

impl Kind {
    /// What it stands for; none for [`Kind::Nothing`]. If `distinct`, every version is a record of
    /// its own.
    pub(crate) fn subject(self, distinct: bool) -> Option<Box<dyn Subject>> {
        let blocks =
            |chunking, compressed| -> Option<Box<dyn Subject>> { Some(Box::new(InBlocks { chunking, compressed })) };
        let store = |deltas, compacted| -> Option<Box<dyn Subject>> {
            Some(Box::new(Store {
                deltas,
                compacted,
                distinct,
            }))
        };
        match self {
            Kind::Nothing => None,
            Kind::Ddedup => store(true, true),
            Kind::DdedupHot => store(true, false),
            Kind::Plain => store(false, true),
            Kind::PlainHot => store(false, false),
            Kind::RedbZstd => Some(Box::new(Table)),
            Kind::SqliteZstd => Some(Box::new(Sqlite)),
            Kind::PostgresLz4 => Some(Box::new(Postgres)),
            Kind::Blocks => blocks(Chunking::Whole, true),
            Kind::Trad4k => blocks(Chunking::Average4KiB, false),
            Kind::Trad4kBlocks => blocks(Chunking::Average4KiB, true),
            Kind::Trad64 => blocks(Chunking::Average64, false),
            Kind::Trad64Blocks => blocks(Chunking::Average64, true),
            Kind::Stream => Some(Box::new(Stream)),
        }
    }

    /// Whether single records can be read.
    pub(crate) fn has_keys(self) -> bool {
        !matches!(self, Kind::Nothing | Kind::Stream)
    }

    /// Its name on the command line and in tables.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
