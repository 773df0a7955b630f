//! Depth and result of a check.

use std::path::PathBuf;

use ibid_format::FileId;

/// How much data a check reads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ReadData {
    /// Only the structure: keys, index, pack directories, snapshots, trees, recipes.
    #[default]
    No,
    /// The structure and every byte of a share of the packs, chosen by the seed.
    Share {
        /// Share of the packs, 0 to 1.
        share: f64,
        /// Seed of the choice: another seed selects other packs.
        seed: u64,
    },
    /// The structure and every byte of every pack.
    All,
}

/// A fault or remark about one file of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Path of the file in the repository.
    pub object: String,
    /// The problem.
    pub problem: String,
}

/// A file or directory affected by a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Affected {
    /// Snapshot that contains it.
    pub snapshot: FileId,
    /// Its path in the snapshot.
    pub path: PathBuf,
    /// Reason why it can't be restored completely.
    pub problem: String,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Snapshots checked.
    pub snapshots: u64,
    /// Packs whose structure was checked.
    pub packs: u64,
    /// Packs read completely.
    pub packs_read: u64,
    /// Bytes read from packs.
    pub bytes_read: u64,
    /// Bytes of all packs.
    pub pack_bytes: u64,
    /// Faults found, at most [`FAULTS_MAX`] of each kind of file.
    pub faults: Vec<Fault>,
    /// Number of faults.
    pub faults_total: u64,
    /// Irregularities that do no harm.
    pub notes: Vec<Fault>,
    /// Affected files, at most [`AFFECTED_MAX`].
    pub affected: Vec<Affected>,
    /// Number of affected files.
    pub affected_total: u64,
    /// Packs that no index file lists, because a backup was interrupted or an index file is lost.
    /// The next backup lists them.
    pub unlisted_packs: u64,
    /// Missing packs that nothing needs.
    pub(crate) unneeded: Vec<FileId>,
}

impl CheckReport {
    /// Returns whether the check found no faults and no affected files.
    pub fn is_clean(&self) -> bool {
        self.faults_total == 0 && self.affected_total == 0
    }
}

/// Maximum number of faults of each kind of file (packs, snapshots, ...) in a report.
pub const FAULTS_MAX: usize = 10_000;
/// Maximum number of affected files in a report.
pub const AFFECTED_MAX: usize = 10_000;
