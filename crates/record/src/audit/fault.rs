//! The report of a verification.

use std::fmt;

use ibid_format::record::{IndexEntry, IndexRow, VersionGroup, split_key};

use crate::engine::Table;
use crate::error::Damage;
use crate::versions::Versions;

/// Most faults that a verification lists. It counts further ones.
pub const FAULTS_MAX: usize = 1000;
/// The findings of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// The contents of each namespace, in the order in which the namespaces were made.
    pub namespaces: Vec<NamespaceCounts>,
    /// The pieces of long bodies, and the lists of these pieces; [`None`] if there never were any. In its namespace a
    /// long body counts with its length.
    pub pieces: Option<NamespaceCounts>,
    /// The faults, at most [`FAULTS_MAX`]. An entry with several faults is listed once.
    pub faults: Vec<Fault>,
    /// How many faults there are.
    pub faults_total: u64,
    /// Whether it was stopped early, so that there may be more faults.
    pub stopped: bool,
}

impl Verification {
    /// Adds that what the engine notes for itself is damaged.
    pub(crate) fn add_of_engine(&mut self, why: String) {
        self.faults_total += 1;
        self.faults.truncate(FAULTS_MAX - 1);
        self.faults.push(Fault {
            table: Table::Meta,
            key: Vec::new(),
            problem: Problem::OfEngine(why),
        });
    }

    /// Returns whether everything was looked at and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.faults_total == 0 && !self.stopped
    }
}

/// The contents of a namespace. Damaged entries are not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// Its name.
    pub name: String,
    /// Which versions it keeps.
    pub versions: Versions,
    /// Keys that have a body now.
    pub keys: u64,
    /// Deleted keys whose versions are kept.
    pub keys_deleted: u64,
    /// Versions of the keys that are there that were purged.
    pub purged: u64,
    /// Records: versions of all keys, deletions included.
    pub records: u64,
    /// Bytes of the bodies of all versions.
    pub body_bytes: u64,
    /// Bytes of the bodies of the latest version of each key.
    pub latest_body_bytes: u64,
    /// Bytes that are stored of all bodies, whole or as deltas, before compression.
    pub stored_bytes: u64,
}

/// An entry that is wrong or missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The engine's table.
    pub table: Table,
    /// The key in this table.
    pub key: Vec<u8>,
    /// The fault of the entry.
    pub problem: Problem,
}

impl fmt::Display for Fault {
    /// `record 17: it is missing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Problem::OfEngine(_) = self.problem {
            return write!(f, "{}", self.problem);
        }
        let key = &self.key[..];
        let shown = key.escape_ascii();
        match (self.table, split_key(key), split_group_key(key)) {
            (Table::Records, ..) if key.len() == NUMBER_BYTES => write!(f, "record {}", number_of(key))?,
            (Table::References, ..) if key.len() == NUMBER_BYTES => {
                write!(f, "references to group {} of records", number_of(key))?;
            }
            (Table::Places, ..) if key.len() == NUMBER_BYTES => {
                write!(f, "places of group {} of records", number_of(key))?;
            }
            (Table::Blocks, ..) if key.len() == NUMBER_BYTES => write!(f, "block {}", number_of(key))?,
            (Table::Chains, ..) if key.len() == NUMBER_BYTES => {
                write!(f, "entry of record {}, the newest of a chain", number_of(key))?;
            }
            (Table::Versions, _, Some((lineage, group))) => {
                let first = VersionGroup::new(lineage, group).first();
                write!(
                    f,
                    "entry of versions {first} and following of the key that began with record {lineage}"
                )?;
            }
            (Table::Keys, Ok((namespace, key)), _) => {
                write!(f, "key \"{}\" in namespace number {namespace}", key.escape_ascii())?;
            }
            (Table::Indexes, ..) => match (IndexEntry::split_key(key), IndexRow::split(key)) {
                (Some((namespace, name)), _) => {
                    write!(f, "index \"{}\" of namespace number {namespace}", name.escape_debug())?;
                }
                (None, Ok(row)) => {
                    let IndexRow {
                        namespace,
                        index,
                        value,
                        key,
                    } = row;
                    let (value, key) = (value.escape_ascii(), key.escape_ascii());
                    write!(
                        f,
                        "value \"{value}\" of key \"{key}\" in index number {index} of namespace number {namespace}"
                    )?;
                }
                (None, Err(_)) => write!(f, "entry \"{shown}\" of the table indexes")?,
            },
            (Table::Namespaces, ..) => write!(f, "namespace \"{shown}\"")?,
            (table, ..) => write!(f, "entry \"{shown}\" of the table {}", table.name())?,
        }
        write!(f, ": {}", self.problem)
    }
}

/// The kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// A reader of the entry gets the same error.
    #[error("{0}")]
    Damaged(Damage),
    /// No key leads to the entry.
    #[error("nothing leads to it: its key is gone or leads to another record, or what names its key is damaged")]
    Stray,
    /// The entry contradicts others.
    #[error("{field}: other entries imply {expected}, found {found}")]
    Disagrees {
        /// What the entry is about.
        field: &'static str,
        /// The value that follows from other entries.
        expected: u64,
        /// The value of the entry.
        found: u64,
    },
    /// Pieces of the bodies of a key cannot be read, each of which is a fault of its own.
    #[error(
        "the bodies of {versions} of its versions cannot be read, from version {first} on: a piece of each is damaged"
    )]
    Pieces {
        /// How many versions.
        versions: u64,
        /// The first of them.
        first: u32,
    },
    /// The namespace of the key does not exist. Reported for the first key of it only.
    #[error("there is no such namespace")]
    NoNamespace,
    /// The namespace has the number of another, and so its keys; or the index that of another, and so its values.
    #[error("its number is that of another, too")]
    Repeated,
    /// The index of the value does not exist. Reported for the first value of it only.
    #[error("there is no such index")]
    NoIndex,
    /// The format has no such entry.
    #[error("the format has no such entry")]
    Unknown,
    /// The engine shows the entry after a larger one, so that a lookup would not find it.
    #[error("the engine has it in the wrong place")]
    OutOfOrder,
    /// What the engine notes for itself is damaged, so that nothing can be written; its message. Records can be read.
    #[error("the engine: {0}")]
    OfEngine(String),
    /// The engine cannot read the entry or the next one; its message.
    #[error("the engine cannot read on from here: {0}")]
    Unreadable(String),
}

/// Length of a key that is the number of a record.
pub(super) const NUMBER_BYTES: usize = 8;

/// Returns the number in a key of eight bytes; 0, which no record has, for other keys.
pub(super) fn number_of(stored_key: &[u8]) -> u64 {
    stored_key.try_into().map_or(0, u64::from_be_bytes)
}

/// Returns the first record of the key and the group, given a key of the table `versions`.
pub(super) fn split_group_key(stored_key: &[u8]) -> Option<(u64, u32)> {
    let (lineage, group) = stored_key.split_first_chunk()?;
    let group = u32::from_be_bytes(group.try_into().ok()?);
    (group <= VersionGroup::of(u32::MAX)).then_some((u64::from_be_bytes(*lineage), group))
}
