//! Index files: the pack and the frame of every chunk.
//!
//! ```text
//! magic (8) ‖ header, sealed (72) ‖ packs ‖ frames ‖ entries ‖ padding, sealed
//! ```
//!
//! The three tables have records of fixed size, in blocks of [`BLOCK_RECORDS`] that are sealed one by
//! one. Entries are sorted by chunk id, and ids are uniform, so interpolation finds an id with few
//! reads.
//!
//! [`Index`] holds a whole file in memory, at 38 bytes for each chunk. [`Header`] names the block to
//! read of a file that stays on disk.

mod blocks;
mod layout;
mod open;
mod write;

pub use blocks::{Block, EntryBlock, Header, Lookup, header, open_block};
pub use layout::would_fit;
pub use open::Index;
pub use write::{encode, merge, merge_without};

use crate::error::equal;
use crate::pack::{FrameSummary, PackKind};
use crate::wire::Reader;
use crate::{ChunkId, Error, FileId};

/// Largest index file, bytes.
pub const LIMIT: u64 = 64 << 20;
/// Records in every block of a table but the last.
pub const BLOCK_RECORDS: u32 = 1024;
/// Entries that fit into one index file if a frame has five of them and a pack a hundred;
/// [`would_fit`] is exact.
pub const ENTRIES_MAX: u32 = 1_400_000;

/// Guesses after the first, each from the id found at the last one: two bring a million entries
/// down to a few.
const GUESSES: usize = 2;

/// A pack, as an index lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedPack {
    /// The pack's name.
    pub id: FileId,
    /// The kind of its chunks.
    pub kind: PackKind,
    /// Size of the file, bytes.
    pub size: u64,
    /// Number of its first frame in the table of frames; its frames end where the next pack's
    /// begin.
    pub first_frame: u32,
}

/// A frame, as an index lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedFrame {
    /// Offset of its seal in the pack.
    pub offset: u32,
    /// Length of its seal, bytes.
    pub sealed: u32,
    /// Chunks in it.
    pub blobs: u16,
    /// Its depth; see [`FrameSummary::depth`].
    pub depth: u8,
    /// Lengths of its chunks together, bytes.
    pub length: u32,
}

/// A chunk, as an index lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexedChunk {
    /// The chunk's name.
    pub id: ChunkId,
    /// Number of its frame in the table of frames.
    pub frame: u32,
    /// Its slot in the frame.
    pub slot: u16,
}

impl IndexedPack {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.first_frame.to_le_bytes());
        out.extend_from_slice(&[self.kind.number(), 0, 0, 0]);
    }

    fn read(record: &[u8]) -> Result<IndexedPack, Error> {
        let mut reader = Reader::new(record);
        let id = FileId(reader.array("pack id")?);
        let size = reader.u64("pack size")?;
        let first_frame = reader.u32("first frame of a pack")?;
        let kind = PackKind::from_number(reader.u8("pack kind")?)?;
        reader.zeros("end of a pack record")?;
        Ok(IndexedPack {
            id,
            kind,
            size,
            first_frame,
        })
    }
}

impl From<&FrameSummary> for IndexedFrame {
    /// Returns a directory's frame as an index lists it. (Counts and sums beyond 16 and 32 bits,
    /// which no valid frame has, become the largest number.)
    fn from(summary: &FrameSummary) -> IndexedFrame {
        let length: u64 = summary.blobs.iter().map(|blob| u64::from(blob.length)).sum();
        IndexedFrame {
            offset: summary.offset,
            sealed: summary.sealed,
            blobs: u16::try_from(summary.blobs.len()).unwrap_or(u16::MAX),
            depth: summary.depth,
            length: u32::try_from(length).unwrap_or(u32::MAX),
        }
    }
}

impl IndexedFrame {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.sealed.to_le_bytes());
        out.extend_from_slice(&self.blobs.to_le_bytes());
        out.extend_from_slice(&[self.depth, 0]);
        out.extend_from_slice(&self.length.to_le_bytes());
    }

    fn read(record: &[u8]) -> Result<IndexedFrame, Error> {
        let mut reader = Reader::new(record);
        let offset = reader.u32("frame offset")?;
        let sealed = reader.u32("sealed frame")?;
        let blobs = reader.u16("blobs of a frame")?;
        let depth = reader.u8("depth of a frame")?;
        equal("frame record", 0, reader.u8("frame record")?.into())?;
        let length = reader.u32("frame body")?;
        Ok(IndexedFrame {
            offset,
            sealed,
            blobs,
            depth,
            length,
        })
    }
}

impl IndexedChunk {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.frame.to_le_bytes());
        out.extend_from_slice(&self.slot.to_le_bytes());
    }

    fn read(record: &[u8]) -> Result<IndexedChunk, Error> {
        let mut reader = Reader::new(record);
        Ok(IndexedChunk {
            id: ChunkId(reader.array("chunk id")?),
            frame: reader.u32("frame of an entry")?,
            slot: reader.u16("slot of an entry")?,
        })
    }
}

/// Returns the first entry with an id not below `id`, in a sorted table of `count`, where `id_at`
/// returns the id of an entry.
///
/// Ids are uniform, so the share of all ids below one predicts its place, with an error of about
/// the square root of the count. The id found there predicts the remaining distance, with an error
/// of the square root of that, and so on. Then steps double until they pass the place, and a binary
/// search ends in the range between. Ids that are not uniform cost time, not correctness.
fn lower_bound(count: usize, id: &ChunkId, id_at: impl Fn(usize) -> ChunkId) -> usize {
    let share = |prefix: u64| ((u128::from(prefix) * count as u128) >> 64) as usize;
    let mut guess = share(id.leading_bits());
    for _ in 0..GUESSES {
        if guess >= count {
            break;
        }
        let found = id_at(guess).leading_bits();
        guess = match id.leading_bits().checked_sub(found) {
            Some(ahead) => guess + share(ahead),
            None => guess.saturating_sub(share(found - id.leading_bits())),
        };
    }
    let guess = guess.min(count);
    let below = |position: usize| id_at(position) < *id;
    let (mut low, mut high) = (0, count);
    let mut step = 1;
    if guess < count && below(guess) {
        low = guess + 1;
        while low < high && step < high - low {
            if !below(low + step) {
                high = low + step;
                break;
            }
            low += step + 1;
            step *= 2;
        }
    } else {
        high = guess;
        while high > 0 && step < high {
            if below(high - step) {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if below(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
