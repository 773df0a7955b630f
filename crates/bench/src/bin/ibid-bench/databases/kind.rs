//! The stores that can be compared, by name.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::blocks::{Chunking, InBlocks};
#[cfg(feature = "lmdb")]
use super::lmdb::Lmdb;
#[cfg(not(all(feature = "lmdb", feature = "rocksdb", feature = "sqlite")))]
use super::missing::Missing;
use super::postgres::Postgres;
#[cfg(feature = "rocksdb")]
use super::rocks::Rocks;
#[cfg(feature = "sqlite")]
use super::sqlite;
use super::store::Store;
use super::stream::Stream;
use super::subject::Subject;
use super::table::Table;

/// The names of subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Read the file and store nothing: a cost that all others have too
    Nothing,
    /// `ibid_record::Store` with default options: older records become deltas of newer ones
    /// (dDedup), and the store is compacted
    Ddedup,
    /// `ddedup` as it keeps itself, without being compacted
    #[serde(alias = "ddedup-hot")]
    DdedupLiving,
    /// `ddedup` without deltas
    Plain,
    /// `plain` as it keeps itself
    #[serde(alias = "plain-hot")]
    PlainLiving,
    /// redb, the engine of `ddedup`, each body compressed by zstd
    RedbZstd,
    /// SQLite, each body compressed by zstd
    SqliteZstd,
    /// `sqlite-zstd` with a dictionary of 110 KiB, trained on the first bodies
    SqliteDictionary,
    /// SQLite, the latest version of each key as in `sqlite-zstd`, older ones in blocks of 16
    SqliteBlocks,
    /// LMDB, each body compressed by zstd
    Lmdb,
    /// RocksDB, blocks of 16 KiB compressed by zstd with a dictionary for each file
    Rocksdb,
    /// RocksDB, blocks of 256 KiB compressed by zstd
    RocksdbBlocks,
    /// PostgreSQL, which compresses by lz4
    PostgresLz4,
    /// Bodies in blocks of 32 KiB, each compressed by zstd
    Blocks,
    /// Deduplicated by chunks of 4 KiB
    #[value(name = "trad-4k")]
    #[serde(rename = "trad-4k")]
    Trad4k,
    /// `trad-4k` in blocks of 32 KiB, each compressed by zstd
    #[value(name = "trad-4k-blocks")]
    #[serde(rename = "trad-4k-blocks")]
    Trad4kBlocks,
    /// Deduplicated by chunks of 64 bytes
    #[value(name = "trad-64")]
    #[serde(rename = "trad-64")]
    Trad64,
    /// `trad-64` in blocks of 32 KiB, each compressed by zstd
    #[value(name = "trad-64-blocks")]
    #[serde(rename = "trad-64-blocks")]
    Trad64Blocks,
    /// All bodies as one stream, compressed by zstd with a window of 128 MiB: no body can be read
    /// alone
    Stream,
}

impl Kind {
    /// Returns the store; [`None`] for [`Kind::Nothing`]. With `distinct`, every version is a
    /// record of its own.
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
            Kind::DdedupLiving => store(true, false),
            Kind::Plain => store(false, true),
            Kind::PlainLiving => store(false, false),
            Kind::RedbZstd => Some(Box::new(Table)),
            #[cfg(feature = "sqlite")]
            Kind::SqliteZstd => Some(Box::new(sqlite::Rows { dictionary: false })),
            #[cfg(feature = "sqlite")]
            Kind::SqliteDictionary => Some(Box::new(sqlite::Rows { dictionary: true })),
            #[cfg(feature = "sqlite")]
            Kind::SqliteBlocks => Some(Box::new(sqlite::InBlocks)),
            #[cfg(not(feature = "sqlite"))]
            Kind::SqliteZstd | Kind::SqliteDictionary | Kind::SqliteBlocks => missing("SQLite", "sqlite"),
            #[cfg(feature = "lmdb")]
            Kind::Lmdb => Some(Box::new(Lmdb)),
            #[cfg(not(feature = "lmdb"))]
            Kind::Lmdb => missing("LMDB", "lmdb"),
            #[cfg(feature = "rocksdb")]
            Kind::Rocksdb => Some(Box::new(Rocks {
                block_bytes: 16 << 10,
                dictionary_bytes: 16 << 10,
            })),
            #[cfg(feature = "rocksdb")]
            Kind::RocksdbBlocks => Some(Box::new(Rocks {
                block_bytes: 256 << 10,
                dictionary_bytes: 0,
            })),
            #[cfg(not(feature = "rocksdb"))]
            Kind::Rocksdb | Kind::RocksdbBlocks => missing("RocksDB", "rocksdb"),
            Kind::PostgresLz4 => Some(Box::new(Postgres)),
            Kind::Blocks => blocks(Chunking::Whole, true),
            Kind::Trad4k => blocks(Chunking::Average4KiB, false),
            Kind::Trad4kBlocks => blocks(Chunking::Average4KiB, true),
            Kind::Trad64 => blocks(Chunking::Average64, false),
            Kind::Trad64Blocks => blocks(Chunking::Average64, true),
            Kind::Stream => Some(Box::new(Stream)),
        }
    }

    /// Returns whether single records can be read.
    pub(crate) fn has_keys(self) -> bool {
        !matches!(self, Kind::Nothing | Kind::Stream)
    }

    /// Returns the name on the command line and in tables.
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Returns a stand-in that says how to build this program with that software.
#[cfg(not(all(feature = "lmdb", feature = "rocksdb", feature = "sqlite")))]
fn missing(name: &'static str, feature: &'static str) -> Option<Box<dyn Subject>> {
    Some(Box::new(Missing { name, feature }))
}
