//! The results of a comparison of databases.

use serde::{Deserialize, Serialize};

use super::kind::Kind;
use super::subject::Index;
use crate::measure::Cost;
use crate::statistics::Latency;

/// The results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Records {
    /// Whether every version was a record of its own.
    pub(crate) distinct: bool,
    pub(crate) reads: u32,
    /// Versions of the software that is not in this repository's `Cargo.lock`.
    pub(crate) versions: Vec<String>,
    pub(crate) files: Vec<FileInfo>,
    pub(crate) rows: Vec<Row>,
    pub(crate) skipped: Vec<Skipped>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileInfo {
    pub(crate) name: String,
    pub(crate) records: u64,
    pub(crate) keys: u64,
    pub(crate) body_bytes: u64,
}

/// The result of one subject with one file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) file: String,
    pub(crate) subject: Kind,
    pub(crate) disk_bytes: u64,
    /// The most that there was on disk after a transaction, or when all was finished. Runs before there was this have
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk_bytes_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<Index>,
    /// The cost of the process that read the file and filled the store.
    pub(crate) load: Cost,
    /// Seconds within the store: inserting all records, and finishing.
    pub(crate) insert_s: f64,
    pub(crate) finish_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency: Option<Latency>,
    /// The latency of reading any version; runs before there was this have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latency_of_any: Option<Latency>,
}

/// A subject that was asked for and is not available here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Skipped {
    pub(crate) subject: Kind,
    pub(crate) why: String,
}
