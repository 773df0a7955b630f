//! Summary of a backup. It is also the running tally. The builder counts in one of its own,
//! which is added at the end to the one that all other threads share.

use std::ops::AddAssign;

use ibid_format::FileId;
use ibid_format::snapshot::SnapshotTotals;
use ibid_format::tree::Time;

/// Summary of a backup.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupSummary {
    /// Id of the new snapshot; none for a dry run, and if it was skipped.
    pub id: Option<FileId>,
    /// Whether there is no new snapshot because it would be the same as its parent, and the
    /// [options](crate::BackupOptions#structfield.skip_if_unchanged) say so.
    pub skipped: bool,
    /// Id of the snapshot that files were compared with.
    pub parent: Option<FileId>,
    /// Files and bytes found and stored.
    pub counters: SnapshotTotals,
    /// Files taken over unread from the parent snapshot.
    pub unchanged_files: u64,
    /// Files taken over unread from [checkpoints](crate::Repository::checkpoints) of interrupted backups. They are
    /// not among the [`unchanged_files`](BackupSummary#structfield.unchanged_files).
    pub resumed_files: u64,
    /// Length of these files together, bytes.
    pub resumed_bytes: u64,
    /// When the newest checkpoint was made from which files could be taken over; none if there was none.
    pub resumed_from: Option<Time>,
    /// Bytes read from files and streams.
    pub read_bytes: u64,
    /// Bytes taken over unread from the parent snapshot because
    /// [changed blocks](crate::BackupOptions#structfield.changed_blocks) were given, without holes.
    pub taken_over_bytes: u64,
    /// Bytes of holes in files that were read; nothing is stored for them.
    pub holes: u64,
    /// Extended attributes and inode flags that could not be read or do not fit into an entry; each was reported.
    pub attributes_lost: u64,
    /// Frames of earlier backups that were needed as bases but can't be read; each was reported.
    /// The backup worked without them. Their chunks, and deltas against these chunks, are lost
    /// unless they are stored elsewhere too. This snapshot may depend on some of them: run a
    /// [`check`](crate::Repository::check).
    pub damaged_frames: u64,
    /// Packs that were missing, cut short or unreadable when the backup began. The monitor was told. What
    /// only they had is lost, unless this backup stored it again.
    pub lost_packs: u64,
    /// Chunks that were lost with such a pack, and that this backup stored again: every snapshot that needs
    /// them has them again.
    pub healed_chunks: u64,
    /// Bytes of these.
    pub healed_bytes: u64,
    /// Bytes of metadata (trees and lists of chunks) among the counters' `new_bytes`.
    pub new_metadata_bytes: u64,
    /// Frames that a [copy](crate::Repository::copy_to) moved as they were.
    pub moved_frames: u64,
    /// Chunks in them. They are among [`whole`](BackupSummary#structfield.whole) and
    /// [`deltas`](BackupSummary#structfield.deltas), too.
    pub moved: StoredData,
    /// New chunks stored without a base.
    pub whole: StoredData,
    /// New chunks stored as deltas.
    pub deltas: StoredData,
    /// How bases of new chunks were found.
    pub search: SimilaritySearch,
    /// Bytes of new chunks that were not sketched because the data before them did not compress.
    pub incompressible_bytes: u64,
    /// Bytes of new chunks that were not sketched because changed files with the same extension
    /// resembled nothing stored.
    pub dissimilar_bytes: u64,
    /// Bytes of large files cut at predicted boundaries.
    pub cut_by_hints_bytes: u64,
    /// Packs written to the repository.
    pub packs: u64,
    /// Bytes written to the repository: packs, index, sketches, snapshot.
    pub written: u64,
    /// Duration, milliseconds.
    pub duration_ms: u64,
}

impl AddAssign for BackupSummary {
    /// Adds what another thread counted.
    fn add_assign(&mut self, other: BackupSummary) {
        // Names every field, so that none is forgotten.
        let BackupSummary {
            id: _,
            skipped: _,
            parent: _,
            counters,
            unchanged_files,
            resumed_files,
            resumed_bytes,
            resumed_from: _,
            read_bytes,
            taken_over_bytes,
            holes,
            attributes_lost,
            damaged_frames,
            lost_packs,
            healed_chunks,
            healed_bytes,
            new_metadata_bytes,
            moved_frames,
            moved,
            whole,
            deltas,
            search,
            incompressible_bytes,
            dissimilar_bytes,
            cut_by_hints_bytes,
            packs,
            written,
            duration_ms: _,
        } = other;
        self.counters += counters;
        self.unchanged_files += unchanged_files;
        self.resumed_files += resumed_files;
        self.resumed_bytes += resumed_bytes;
        self.read_bytes += read_bytes;
        self.taken_over_bytes += taken_over_bytes;
        self.holes += holes;
        self.attributes_lost += attributes_lost;
        self.damaged_frames += damaged_frames;
        self.lost_packs += lost_packs;
        self.healed_chunks += healed_chunks;
        self.healed_bytes += healed_bytes;
        self.new_metadata_bytes += new_metadata_bytes;
        self.moved_frames += moved_frames;
        self.moved += moved;
        self.whole += whole;
        self.deltas += deltas;
        self.search += search;
        self.incompressible_bytes += incompressible_bytes;
        self.dissimilar_bytes += dissimilar_bytes;
        self.cut_by_hints_bytes += cut_by_hints_bytes;
        self.packs += packs;
        self.written += written;
    }
}

/// New data chunks and the space that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredData {
    /// Number of chunks.
    pub chunks: u64,
    /// Bytes of these chunks.
    pub bytes: u64,
    /// Bytes of their frames in packs, compressed and sealed.
    pub stored: u64,
}

impl AddAssign for StoredData {
    fn add_assign(&mut self, other: StoredData) {
        self.chunks += other.chunks;
        self.bytes += other.bytes;
        self.stored += other.stored;
    }
}

/// How a backup found stored chunks that new ones resemble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimilaritySearch {
    /// New chunks for which stored ones were searched.
    pub chunks: u64,
    /// Of these, chunks that resemble one of this backup, or one whose sketch was read when the search
    /// began. If all sketches fit into memory, all are read then.
    pub found_in_memory: u64,
    /// Chunks that resemble one in the pack in which the data before them is stored.
    pub found_by_neighbours: u64,
    /// Chunks that resemble one in a pack that was found by features on the local disk.
    pub found_by_features: u64,
    /// Bytes of chunks for which little or nothing was found, and not all was searched, because sketches
    /// did not fit into memory.
    pub limited_bytes: u64,
}

impl AddAssign for SimilaritySearch {
    fn add_assign(&mut self, other: SimilaritySearch) {
        let SimilaritySearch {
            chunks,
            found_in_memory,
            found_by_neighbours,
            found_by_features,
            limited_bytes,
        } = other;
        self.chunks += chunks;
        self.found_in_memory += found_in_memory;
        self.found_by_neighbours += found_by_neighbours;
        self.found_by_features += found_by_features;
        self.limited_bytes += limited_bytes;
    }
}
