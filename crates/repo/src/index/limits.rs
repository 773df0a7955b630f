//! Sizes at which the index turns from one way of keeping chunks to another.

/// Sizes at which the index turns from one way of keeping chunks to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexLimits {
    /// Chunks in memory move to a temporary file when they take more than this, bytes.
    pub(super) memory: u64,
    /// Pages of runs that are kept, bytes.
    pub(super) pages: u64,
    /// Filters of runs, bytes.
    pub(super) filters: u64,
    /// Entries that are sorted at once, bytes.
    pub(crate) sorted: u64,
    /// Index files, and sketch files, that are read into memory: their number, and their bytes.
    pub(crate) files_read: usize,
    pub(crate) bytes_read: u64,
    /// Index files of about one size in the repository at which they are merged, and the bytes that are
    /// merged at once.
    pub(super) merged_files: usize,
    pub(super) merged_bytes: u64,
    /// Sketches in runs that are read into memory at once: their number.
    pub(crate) sketches: u64,
    /// An array of an operation is in a temporary file if it takes more than this, and then so much of
    /// the file is kept in memory, bytes.
    pub(crate) arrays: u64,
    /// Ids with numbers that an operation keeps move to a temporary file when they take more than this,
    /// bytes; as much is used for pages and filters of such files.
    pub(crate) ids: u64,
    /// Names of directories on the path to the current one move to temporary files when they take more
    /// than this, bytes.
    pub(crate) names: u64,
    /// Packs that no index file lists and whose chunks are read into memory, bytes.
    pub(super) unlisted: u64,
    /// Where the storage is far, more packs than this are listed once a day: their number.
    pub(super) packs_listed: u64,
}

impl IndexLimits {
    /// Returns the limits for a budget of memory, bytes. At most a sixth of it is used at once.
    pub(crate) fn of(budget: u64, is_cached: bool) -> IndexLimits {
        IndexLimits {
            memory: budget / 16,
            pages: budget / 32,
            filters: budget / 16,
            sorted: budget / 16,
            files_read: if is_cached { 16 } else { usize::MAX },
            // In memory, an entry takes a quarter more than in its file.
            bytes_read: if is_cached { 3 << 20 } else { budget / 16 },
            merged_files: 8,
            // Merging takes about three times as much, when a backup has given back its buffers. A small
            // backup that merges should not take long, either.
            merged_bytes: (budget / 4).min(24 << 20),
            sketches: 64 << 10,
            arrays: budget / 64,
            ids: budget / 32,
            names: budget / 32,
            // Packs of small files have the most chunks for their size: one for 50 bytes.
            unlisted: budget.saturating_mul(8),
            // Two pages of a list.
            packs_listed: 2000,
        }
    }

    /// Returns limits with which a few chunks take every way. For tests.
    pub(crate) fn tiny() -> IndexLimits {
        IndexLimits {
            memory: 256 << 10,
            pages: 64 << 10,
            filters: 4 << 10,
            sorted: 4 << 10,
            files_read: 1,
            bytes_read: 4 << 10,
            merged_files: 3,
            merged_bytes: 1 << 20,
            sketches: 0,
            arrays: 64,
            ids: 512,
            names: 256,
            unlisted: 64 << 10,
            packs_listed: u64::MAX,
        }
    }
}
