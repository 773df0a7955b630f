//! What a backup did. The summary is also its tally: all threads add to one, as they go.

use ibid_format::FileId;
use ibid_format::snapshot::SnapshotTotals;

/// What a backup did.
#[derive(Clone, Debug, Default)]
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
    /// Extended attributes that could not be read, or for which an entry has no room; each was
    /// reported.
    pub attributes_lost: u64,
    /// Frames of earlier backups that were wanted as bases and can't be read; each was reported. The
    /// backup did without them, but their chunks, and deltas against them, are lost unless they are
    /// stored elsewhere too. This snapshot may need some: run a
    /// [`check`](crate::Repository::check).
    pub damaged_frames: u64,
    /// Of the counters' `new_bytes`, those of metadata: trees and lists of chunks.
    pub new_metadata_bytes: u64,
    /// New chunks that are stored by themselves.
    pub unlike: StoredData,
    /// New chunks that are stored as deltas.
    pub similar: StoredData,
    /// Bytes of new chunks that were not sketched, since the data before them did not compress.
    pub passed_over: u64,
    /// Bytes of new chunks that were not sketched, since changed files with the same extension have
    /// resembled nothing that is stored.
    pub without_gain: u64,
    /// Bytes of large files that were cut at boundaries that the repository suggested.
    pub hinted: u64,
    /// Bytes written to the repository in all: packs, index, sketches, snapshot.
    pub written: u64,
    /// Milliseconds it took.
    pub duration_ms: u64,
}

/// New chunks of data, and the space that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredData {
    /// Number of chunks.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub bytes: u64,
    /// Bytes that their frames take in packs, compressed and sealed.
    pub stored: u64,
}
