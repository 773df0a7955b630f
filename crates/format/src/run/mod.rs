//! Runs: files of the local cache that say where chunks are, in about 20 bytes for each.
//!
//! ```text
//! magic, zeros (4096) ‖ frame pages ‖ entry pages ‖ pack pages ‖ pack id pages
//! ‖ filter ‖ tables ‖ trailer
//! ```
//!
//! A run is made from index files, and can be made again at any time. It has the same frames and packs,
//! and for each chunk the first 16 bytes of its id and its **ordinal**: the number of chunks in all
//! frames before its own, plus its slot. Sorted by id, a chunk takes about 17 bytes. Its frame is found
//! by its ordinal, and a frame takes 10 bytes.
//!
//! A lookup reads one page of entries. Packs are in pages too, so that what is in memory stays small: a
//! page of entries more leads from a pack's id to its number. [`Trailer`] says where everything is,
//! [`Tables`] has what must be in memory to find a page, and a [`Filter`] tells most absent ids without
//! reading any page.
//! `docs/format/cache.md` is the specification. This module does no I/O.

mod entries;
mod filter;
mod frames;
mod packs;
mod sketches;
mod tables;
mod trailer;

pub use entries::{EntryPage, EntryPageBuilder, VALUE_BITS_MAX};
pub use filter::{Filter, FilterBuilder};
pub use frames::{FRAMES_A_PAGE, FramePage, FramePageBuilder, RunFrame};
pub use packs::{PACK_VALUE_BITS, PACKS_A_PAGE, PackPage, PackPageBuilder, RunPack};
pub use sketches::{
    SKETCH_PACKS_A_PAGE, SketchPack, SketchPackPageBuilder, SketchTables, SketchTrailer, feature_id, sketch_packs,
};
pub use tables::Tables;
pub use trailer::{Section, Trailer};

use crate::{ChunkId, ChunkPrefix, Error, FileId, Keys, SEAL_OVERHEAD, SealKind};

/// Length of a page in the file, bytes.
pub const PAGE: usize = 4096;
/// Plaintext of a page, bytes.
pub const PAGE_PLAIN: usize = PAGE - SEAL_OVERHEAD;
/// Plaintext of every block of the filter and of the tables except the last, bytes.
pub const BLOCK: usize = 64 << 10;

/// The first 16 bytes of a chunk's id as a number, in the same order as ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortId(pub u128);

impl ShortId {
    /// Returns the short form of an id.
    pub fn of(id: &ChunkId) -> ShortId {
        let (first, _) = id.0.split_first_chunk::<16>().expect("an id is longer");
        ShortId(u128::from_be_bytes(*first))
    }

    /// Returns the name of a file as the id of an entry.
    pub fn of_file(id: FileId) -> ShortId {
        ShortId(u128::from_be_bytes(id.0))
    }

    /// Returns the name of the file of which this is the id.
    pub fn file(self) -> FileId {
        FileId(self.0.to_be_bytes())
    }

    /// Returns the smallest and the largest short id that begin with these 12 bytes.
    pub fn range_of(prefix: ChunkPrefix) -> (ShortId, ShortId) {
        let mut bytes = [0; 16];
        bytes[..12].copy_from_slice(&prefix.0);
        let first = u128::from_be_bytes(bytes);
        (ShortId(first), ShortId(first | u128::from(u32::MAX)))
    }

    /// Returns the id with the bytes that a short id lacks set to zero.
    pub fn padded(self) -> ChunkId {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.0.to_be_bytes());
        ChunkId(bytes)
    }

    /// Returns the first 64 bits. They are uniform, as ids are.
    fn leading(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Returns the first 32 bits, by which pages are found.
    pub fn fence(self) -> u32 {
        (self.0 >> 96) as u32
    }
}

/// Appends the plaintext of a page of these records to `out`, and takes them; returns whether there were
/// any.
fn finish_page(records: &mut Vec<u8>, out: &mut Vec<u8>) -> bool {
    if records.is_empty() {
        return false;
    }
    let start = out.len();
    out.append(records);
    out.resize(start + PAGE_PLAIN, 0);
    true
}

/// Appends the seal of a page or block that will be at `position` of the run `id`.
pub fn seal(keys: &Keys, id: FileId, position: u64, plaintext: &[u8], out: &mut Vec<u8>) {
    keys.seal(SealKind::Run, id, position, plaintext, out);
}

/// Opens the seal of a page or block at `position` of the run `id`, in place.
///
/// # Errors
///
/// [`Error::Seal`].
pub fn open<'a>(keys: &Keys, id: FileId, position: u64, sealed: &'a mut [u8]) -> Result<&'a [u8], Error> {
    keys.open(SealKind::Run, id, position, sealed).map(|plain| &*plain)
}
