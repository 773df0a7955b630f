//! How thoroughly a check looks, and what it found.

use std::path::PathBuf;

use ibid_format::FileId;

/// How thoroughly to look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReadData {
    /// Only the structure: keys, index, directories of packs, snapshots, trees, recipes.
    #[default]
    No,
    /// Also every byte of this share of the packs (0 to 1), chosen by the seed.
    Share {
        /// The share.
        share: f64,
        /// Another seed, other packs.
        seed: u64,
    },
    /// Also every byte of every pack.
    All,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Which file of the repository: its path in it.
    pub object: String,
    /// What is wrong with it.
    pub problem: String,
}

/// A file (or directory) that a fault touches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Affected {
    /// In which snapshot.
    pub snapshot: FileId,
    /// Where in it.
    pub path: PathBuf,
    /// Why it can't be restored whole.
    pub problem: String,
}

/// What a check found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Snapshots looked at.
    pub snapshots: u64,
    /// Packs whose structure was looked at.
    pub packs: u64,
    /// Packs that were read whole.
    pub packs_read: u64,
    /// Bytes read from packs.
    pub bytes_read: u64,
    /// Bytes of all packs.
    pub pack_bytes: u64,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// What is not as it should be, and harms nothing.
    pub notes: Vec<Fault>,
    /// Whom it touches, at most [`AFFECTED_MAX`].
    pub affected: Vec<Affected>,
    /// How many it touches.
    pub affected_total: u64,
    /// Packs that no index file lists, since a backup was cut short or an index file is lost: the
    /// next backup lists them.
    pub unlisted_packs: u64,
}

impl CheckReport {
    /// Whether all is well.
    pub fn is_clean(&self) -> bool {
        self.faults.is_empty() && self.affected_total == 0
    }
}

/// The most affected files that a report names.
pub const AFFECTED_MAX: usize = 10_000;
