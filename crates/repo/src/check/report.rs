//! Depth and result of a check.

use std::path::PathBuf;

use ibid_format::FileId;

use crate::SessionInfo;

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
    /// Packs that were not looked into, because they are in an archive; with data read, those that are not thawed. That
    /// they are there, in their size, was checked. It is no fault.
    pub archived: PackBytes,
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
    /// What backups and prunes have begun and not ended. It is no fault.
    pub unfinished: Unfinished,
    /// Missing packs that nothing needs.
    pub(crate) unneeded: Vec<FileId>,
}

/// What backups and prunes have begun and not ended.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Unfinished {
    /// Sessions that have not ended, oldest first: backups that run, or were killed.
    pub sessions: Vec<SessionInfo>,
    /// Void files in `snapshots/`, by which prunes have ended sessions.
    pub void_snapshots: u64,
    /// Number of the last entry of the log of prunes; 0 if there is none.
    pub log_entry: u64,
    /// Condemned packs that are still there: a backup does not use them.
    pub condemned: PackBytes,
    /// Doomed packs that are still there: no process uses them.
    pub doomed: PackBytes,
    /// Index files that are not used, because a prune may have ended the backup that wrote them.
    pub untrusted_index_files: u64,
    /// Frames in stored packs that can't be decoded because a base is gone, that no snapshot needs, and that no
    /// backup relies on.
    pub orphaned_frames: u64,
    /// Bytes of these frames in packs.
    pub orphaned_bytes: u64,
}

/// A number of packs, and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackBytes {
    /// Packs.
    pub packs: u64,
    /// Their bytes.
    pub bytes: u64,
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
