//! Division of the memory budget among the queues and buffers of a backup.

use super::groups::GROUPS_MAX;

/// Bytes of small files that are read together.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// Lengths of the queues, chosen so that all buffers together stay within the budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) workers: usize,
    pub(crate) cutters: usize,
    /// Results of the reader queued for the builder.
    pub(crate) events: usize,
    /// Queued pieces of one large file: enough to keep every worker busy. More would only touch
    /// fresh memory.
    pub(crate) pieces: usize,
    /// Queued pieces of all large files; at least as many as for one file.
    pub(crate) pieces_all: usize,
    /// Bytes of one piece.
    pub(crate) piece: usize,
    /// Frames queued for the packer.
    pub(crate) frames: usize,
    pub(crate) pack: u32,
    pub(crate) uploaders: usize,
    /// Bytes of frames kept as bases; 0 if the budget has no room for finding similar chunks.
    pub(crate) bases: u64,
    /// Further bytes of frames, kept until the index needs the memory.
    pub(crate) bases_lent: u64,
    /// Bytes of the index of features.
    pub(crate) features: u64,
    /// Bytes of frames that may be read back as bases; no limit if none.
    pub(crate) reads_max: Option<u64>,
}

/// Memory that one worker needs to encode against bases, bytes: zstd's tables, the prefix, and
/// frames read as bases.
const DELTA_CODER: usize = 16 << 20;
/// Part of the budget that is reserved for growth of the index.
const GROWTH_SHARE: u64 = 6;
/// With less memory than this, looking for similar chunks does not pay, bytes.
const SIMILARITY_MIN: u64 = 8 << 20;
/// Part of the budget that looking for similar chunks gets before buffers that only add speed, and the
/// most that it gets before them, bytes. With a twelfth of 256 MiB, 5.2 GiB of `/usr` took 1724 MiB; with
/// a sixth, 1677.
const SIMILARITY_SHARE: u64 = 6;
const SIMILARITY_FIRST_MAX: u64 = 64 << 20;
/// Most bytes of frames kept as bases, and of features. More did not save more, and every page
/// touched costs 2 µs.
const BASES_MAX: u64 = 160 << 20;
const FEATURES_MAX: u64 = 64 << 20;
/// Bytes of features that come before bases: which chunks resemble each other must be found first.
const FEATURES_FIRST: u64 = 16 << 20;

/// Directories that are open because files in them wait to be read, at most. A process may usually have 1024 files
/// open, and files that have grown meanwhile wait for another turn, of all batches that were read.
const OPEN_MAX: usize = 128;

impl Limits {
    /// Divides `budget` (bytes left beside the index). If possible, a part is reserved for growth of the
    /// index. If the backup looks for similar chunks (`looks`), a [part](SIMILARITY_SHARE) goes to that
    /// before the buffers that only add speed.
    pub(crate) fn new(budget: u64, cores: usize, chunk_max: usize, frame: u32, pack: u32, looks: bool) -> Limits {
        // Small enough to be fingerprinted while it is still in the cache after cutting.
        let piece = (1 << 20).max(2 * chunk_max);
        let mut limits = Limits {
            workers: cores,
            cutters: 2,
            events: 24,
            pieces: cores + 1,
            pieces_all: (2 * cores + 2).max(24),
            piece,
            frames: cores + 2,
            pack,
            uploaders: 2,
            bases: 0,
            bases_lent: 0,
            features: 0,
            reads_max: None,
        };
        let growth = budget / GROWTH_SHARE;
        let wanted = (budget / SIMILARITY_SHARE).min(SIMILARITY_FIRST_MAX);
        let mut fits: Option<Limits> = None;
        // Reduce first the limits that cost least speed.
        let steps: [fn(&mut Limits); 11] = [
            |l| (l.events, l.pieces_all) = (12, (2 * l.pieces).max(12)),
            |l| (l.pieces, l.pieces_all) = (l.pieces.min(3), 6),
            |l| l.pack = l.pack.min(16 << 20),
            |l| l.uploaders = 1,
            |l| l.workers = l.workers.min(4),
            |l| l.pack = l.pack.min(8 << 20),
            |l| l.pack = l.pack.min(4 << 20),
            |l| (l.cutters, l.pieces_all, l.workers) = (1, l.pieces, l.workers.min(2)),
            |l| l.events = 4,
            |l| (l.workers, l.events, l.pieces, l.pieces_all) = (1, 3, 2, 2),
            // A piece must have room for a chunk, and for data beyond it.
            |l| l.piece = l.piece / 2 + (1 << 20),
        ];
        for step in steps.map(Some).into_iter().chain([None]) {
            if let Some(left) = (budget - growth).checked_sub(limits.bytes(frame)) {
                let mut shared = limits;
                let room = if looks {
                    shared.share_out(left, growth, frame)
                } else {
                    wanted
                };
                if room >= wanted {
                    return shared;
                }
                if shared.bases > 0 || fits.is_none() {
                    fits = Some(shared);
                }
            }
            if let Some(step) = step {
                step(&mut limits);
                limits.frames = limits.workers + 2;
            }
        }
        // With the largest chunks, frames and packs that there are, the least may be more than the
        // smallest budget. The sum counts all buffers as full at once, which they hardly ever are.
        fits.unwrap_or(limits)
    }

    /// Returns how many directories may have files to read in a batch, each of which is open until they are read.
    pub(crate) fn open_in_batch(&self) -> usize {
        // One that is gathered, those that are sent to the workers, and those that they read.
        let batches = 1 + 2 * self.workers + self.workers;
        (OPEN_MAX / batches).max(1)
    }

    /// Gives the remaining memory to the search for similar chunks if it is enough, and lends it
    /// the memory reserved for growth of the index. Returns what is there for it.
    fn share_out(&mut self, left: u64, growth: u64, frame: u32) -> u64 {
        let room = left.saturating_sub(self.beside_bases(frame));
        if room >= SIMILARITY_MIN {
            self.features = (room / 5 * 2).min(FEATURES_FIRST).max(room / 8).min(FEATURES_MAX);
            self.bases = (room - self.features).min(BASES_MAX);
            self.bases_lent = growth.min(BASES_MAX - self.bases);
        }
        room
    }

    /// Returns what encoding against bases needs beside these: memory of each worker, and open groups.
    fn beside_bases(&self, frame: u32) -> u64 {
        // Half of the groups: hardly ever are all full at once, and others are counted with the frames.
        (self.workers * DELTA_CODER) as u64 + u64::from(GROUPS_MAX / 2) * u64::from(frame)
    }

    /// Returns the largest total size of all buffers, without lent memory, bytes.
    pub(crate) fn bytes(&self, frame: u32) -> u64 {
        let groups = (self.events + self.workers + 2) * 2 * BATCH_BYTES;
        // Beside queued pieces: one at the builder, two at each cutter, and two at a worker that
        // reads a file which grew meanwhile.
        let pieces = (self.pieces_all + 1 + 2 * self.cutters + 2) * self.piece;
        // A frame exists both uncompressed and compressed; zstd's own tables take about 4 MiB at
        // level 3.
        let frames = (self.frames + 2) * 2 * (frame as usize + self.piece / 8) + self.workers * (4 << 20);
        // Three packs being filled, and those being stored. A pack exceeds its target size by at most
        // an eighth.
        let packs = (3 + self.uploaders) * (self.pack as usize + self.pack as usize / 8);
        let similarity = match self.bases {
            0 => 0,
            bases => bases + self.features + self.beside_bases(frame),
        };
        (groups + pieces + frames + packs + (16 << 20)) as u64 + similarity
    }
}
