//! What a prune is asked to do, and what it reports.

use std::time::Duration;

use ibid_format::FileId;

use crate::SessionInfo;
use crate::options::setters;

/// A limit: a share of the repository, or bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Of the bytes that are needed, from 0 to 1.
    Share(f64),
    /// Bytes.
    Bytes(u64),
}

impl Limit {
    /// Returns the limit in bytes, if `needed` bytes are needed.
    pub(super) fn of(self, needed: u64) -> u64 {
        match self {
            Limit::Share(share) => (needed as f64 * share) as u64,
            Limit::Bytes(bytes) => bytes,
        }
    }
}

/// How long a network folder may be seen as it was: `acdirmax` of NFS, unless it was changed.
const CACHE_AGE: Duration = Duration::from_secs(60);

/// Settings of a prune.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PruneOptions {
    /// How much that no snapshot needs may stay in packs that also have what is needed. Packs are written anew, those
    /// with the most first, until no more is left, or until the rest would cost more than eight bytes moved
    /// for each one freed. Default: 5 %.
    pub max_unused: Limit,
    /// The most that is moved in one run; no limit by default.
    pub max_repack: Option<Limit>,
    /// How long to wait for sessions that are open, from when they were first seen. Afterwards they are ended:
    /// if a backup still runs, it notices, and begins again. Default: 7 days.
    pub patience: Duration,
    /// Sessions that are ended now.
    pub give_up_on: Vec<FileId>,
    /// Whether the caller promises that nothing else works in the repository meanwhile. Then the prune does not
    /// rely on the storage to decide between processes, and does not wait; it refuses to begin if a session is
    /// open whose process may still run.
    pub exclusive: bool,
    /// How long another machine may see a network folder as it was: the caches of NFS and SMB keep what they know
    /// of folders for a minute at most, unless they were told otherwise. In a network folder the prune waits twice
    /// as long before it looks for sessions, and once more after some have ended. Default: 60 s.
    pub cache_age: Duration,
}

impl Default for PruneOptions {
    fn default() -> PruneOptions {
        PruneOptions {
            max_unused: Limit::Share(0.05),
            max_repack: None,
            patience: Duration::from_secs(7 * 24 * 60 * 60),
            give_up_on: Vec::new(),
            exclusive: false,
            cache_age: CACHE_AGE,
        }
    }
}

setters!(PruneOptions {
    max_unused: Limit,
    patience: Duration,
    exclusive: bool,
    cache_age: Duration,
} into {
    max_repack: Option<Limit>,
    give_up_on: Vec<FileId>,
});

/// What is needed, and what a prune would do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneEstimate {
    /// Packs.
    pub packs: u64,
    /// Bytes of these packs.
    pub pack_bytes: u64,
    /// Packs that are missing, cut short or unreadable. The monitor was told. They are left to a repair, and the
    /// others are pruned.
    pub lost_packs: u64,
    /// Bytes that no snapshot needs, but that what is in these packs may be encoded against. A prune frees them once
    /// a repair has given the packs up, or they are there again.
    pub held: u64,
    /// Bytes of frames that snapshots need.
    pub needed: u64,
    /// Bytes of frames that are needed only to decode others.
    pub bases: u64,
    /// Bytes that no snapshot needs, and that stay because their packs are in an archive, and also have what is needed:
    /// nothing can be moved out of these.
    pub archived: u64,
    /// Bytes that no snapshot needs, not even as bases.
    pub unused: u64,
    /// Packs that go as a whole.
    pub packs_deleted: u64,
    /// Packs of which a part is needed, and moved.
    pub packs_repacked: u64,
    /// Bytes of the packs that go, less what is moved out of them, and about what is encoded anew.
    pub freed: u64,
    /// Bytes that are moved: read, and written.
    pub moved: u64,
    /// Bytes of chunks that are decoded, and encoded anew, so that what they were encoded with or against can go.
    pub encoded_anew: u64,
}

/// What a prune has done.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PruneSummary {
    /// What it found, and set out to do.
    pub estimate: PruneEstimate,
    /// Packs that were deleted.
    pub packs_deleted: u64,
    /// Bytes of these packs.
    pub deleted: u64,
    /// Packs that were written.
    pub packs_written: u64,
    /// Bytes of these packs.
    pub written: u64,
    /// Bytes of chunks that were decoded, and encoded anew.
    pub encoded_anew: u64,
    /// Index files and sketch files that were replaced by fewer, or deleted.
    pub files_merged: u64,
    /// Sessions that must end before the rest can be freed.
    pub waiting: Vec<WaitingFor>,
    /// Bytes of all packs, index files, sketches and snapshots afterwards.
    pub stored: u64,
    /// Writers, whose files it leaves alone: each [has a prune of its own](crate::Repository::writer).
    pub writers: u64,
    /// Files that were locked anew.
    pub locks_renewed: u64,
    /// When the last lock of the deleted packs ends, seconds since 1970: until then the storage keeps what they take.
    /// `None` if none is locked.
    pub locked_until: Option<i64>,
}

impl PruneSummary {
    /// Returns the bytes that packs take less than before.
    pub fn freed(&self) -> u64 {
        self.deleted.saturating_sub(self.written)
    }
}

/// A session that must end before packs can be deleted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WaitingFor {
    /// The session.
    pub id: FileId,
    /// What it says of itself; `None` if its file can't be read.
    pub info: Option<SessionInfo>,
}
