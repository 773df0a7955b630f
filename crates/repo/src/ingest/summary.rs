//! What a backup did.

use ibid_format::FileId;
use ibid_format::snapshot::SnapshotTotals;

/// What a backup did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupSummary {
    /// The snapshot; none for a dry run.
    pub id: Option<FileId>,
    /// The snapshot that unchanged files were compared with.
    pub parent: Option<FileId>,
    /// What was found and stored.
    pub counters: SnapshotTotals,
    /// Files that were taken over from the parent without reading them.
    pub unchanged_files: u64,
    /// Bytes of holes in the files that were read: nothing was stored for them.
    pub holes: u64,
    /// Extended attributes that could not be read, or that are beyond what an entry can hold; each
    /// was reported.
    pub attributes_lost: u64,
    /// Frames of earlier backups that were wanted as bases and can't be read; each was reported.
    /// They were done without, but what lies in them, or hangs on them, is lost unless it is
    /// stored elsewhere too, and this snapshot may need it: a [`check`](Repository::check) tells.
    pub damaged_frames: u64,
    /// Of the counters' `new_bytes`, those of metadata: trees and lists of chunks.
    pub new_metadata_bytes: u64,
    /// New data for which nothing similar was found.
    pub unlike: StoredData,
    /// New data that is stored as the difference from similar data.
    pub similar: StoredData,
    /// Bytes of new chunks for which nothing similar was looked for, since the data before them did
    /// not compress.
    pub passed_over: u64,
    /// Bytes of new chunks for which nothing similar was looked for, since changed files of their
    /// kind have been like nothing that is stored.
    pub without_gain: u64,
    /// Bytes of large files that were cut where the repository suggested, without looking for
    /// boundaries.
    pub hinted: u64,
    /// Bytes written to the repository in all: packs, index, sketches, snapshot.
    pub written: u64,
    /// Milliseconds it took.
    pub duration_ms: u64,
}

/// New chunks of data, and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredData {
    /// How many.
    pub chunks: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes that their frames take in packs, compressed and sealed.
    pub stored: u64,
}
