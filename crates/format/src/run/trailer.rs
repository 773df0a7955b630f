//! The trailer of a run, from which all positions follow.

use std::ops::Range;

use super::{BLOCK, FRAMES_A_PAGE, Filter, PACKS_A_PAGE, PAGE, Tables, VALUE_BITS_MAX};
use crate::error::{equal, in_range};
use crate::wire::{self, Reader};
use crate::{Error, FileId, FileKind, Keys, SEAL_OVERHEAD, SealKind};

/// Plaintext of the trailer, bytes.
const PLAIN: usize = 64;
/// Most entries and chunks of a run: 2^40.
const COUNT_MAX: u64 = 1 << 40;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trailer {
    /// Entries.
    pub entries: u64,
    /// Chunks in all frames: ordinals are below this.
    pub chunks: u64,
    /// Pages of entries.
    pub entry_pages: u32,
    /// Frames.
    pub frames: u32,
    /// Packs.
    pub packs: u32,
    /// Pages of entries that lead from the ids of packs to their numbers.
    pub pack_id_pages: u32,
    /// Index files that the run stands for.
    pub covers: u32,
    /// Number of the last entry of the [prune log](crate::prune_log) when the run was made.
    pub epoch: u64,
    /// Length of the largest frame's chunks together, bytes.
    pub length_max: u32,
    /// Bits of an entry's number.
    pub value_bits: u8,
    /// Largest depth of a frame.
    pub depth_max: u8,
}

/// A section of the file that is cut into sealed blocks of [`BLOCK`] bytes of plaintext.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    /// Offset of the first block's seal.
    pub offset: u64,
    /// Plaintext, bytes.
    pub plain: u64,
}

impl Section {
    /// Returns the ranges in the file of the sealed blocks.
    pub fn blocks(self) -> impl Iterator<Item = Range<u64>> {
        let count = self.plain.div_ceil(BLOCK as u64);
        (0..count).map(move |n| {
            let start = self.offset + n * (BLOCK + SEAL_OVERHEAD) as u64;
            let plain = (self.plain - n * BLOCK as u64).min(BLOCK as u64);
            start..start + plain + SEAL_OVERHEAD as u64
        })
    }

    /// Returns the offset at which the section ends.
    pub fn end(self) -> u64 {
        self.offset + self.plain + self.plain.div_ceil(BLOCK as u64) * SEAL_OVERHEAD as u64
    }
}

impl Trailer {
    /// Length of the sealed trailer, the last bytes of the file.
    pub const LEN: usize = PLAIN + SEAL_OVERHEAD;

    /// Returns the number of pages of frames.
    pub fn frame_pages(&self) -> u32 {
        self.frames.div_ceil(FRAMES_A_PAGE as u32)
    }

    /// Returns the offset of a page of entries.
    pub fn entry_page(&self, number: u32) -> u64 {
        (1 + u64::from(self.frame_pages()) + u64::from(number)) * PAGE as u64
    }

    /// Returns the offset of a page of frames.
    pub fn frame_page(&self, number: u32) -> u64 {
        (1 + u64::from(number)) * PAGE as u64
    }

    /// Returns the number of pages of packs.
    pub fn pack_pages(&self) -> u32 {
        self.packs.div_ceil(PACKS_A_PAGE as u32)
    }

    /// Returns the offset of a page of packs.
    pub fn pack_page(&self, number: u32) -> u64 {
        self.entry_page(self.entry_pages) + u64::from(number) * PAGE as u64
    }

    /// Returns the offset of a page of pack ids.
    pub fn pack_id_page(&self, number: u32) -> u64 {
        self.pack_page(self.pack_pages()) + u64::from(number) * PAGE as u64
    }

    /// Returns the section of the filter.
    pub fn filter(&self) -> Section {
        Section {
            offset: self.pack_id_page(self.pack_id_pages),
            plain: Filter::len_of(self.entries),
        }
    }

    /// Returns the section of the tables.
    pub fn tables(&self) -> Section {
        Section {
            offset: self.filter().end(),
            plain: Tables::len_of(self),
        }
    }

    /// Returns the size of the file, bytes.
    pub fn size(&self) -> u64 {
        self.tables().end() + Trailer::LEN as u64
    }

    /// Returns the first bytes of a file: magic and zeros up to the first page.
    pub fn head() -> Vec<u8> {
        let mut head = FileKind::Run.magic().to_vec();
        head.resize(PAGE, 0);
        head
    }

    /// Appends the sealed trailer of the run `id`.
    pub fn seal(&self, keys: &Keys, id: FileId, out: &mut Vec<u8>) {
        let mut plain = Vec::with_capacity(PLAIN);
        wire::put_u64(&mut plain, self.entries);
        wire::put_u64(&mut plain, self.chunks);
        for count in [self.entry_pages, self.frames, self.packs, self.covers, self.length_max] {
            wire::put_u32(&mut plain, count);
        }
        plain.extend_from_slice(&[self.value_bits, self.depth_max, 0, 0]);
        wire::put_u32(&mut plain, self.pack_id_pages);
        wire::put_u64(&mut plain, self.epoch);
        plain.resize(PLAIN, 0);
        keys.seal(SealKind::Run, id, self.size() - Trailer::LEN as u64, &plain, out);
    }

    /// Opens the last [`Trailer::LEN`] bytes of the run `id`, a file of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Seal`]; counts out of range, or that do not fit the size.
    pub fn open(keys: &Keys, id: FileId, size: u64, sealed: &mut [u8]) -> Result<Trailer, Error> {
        equal("trailer of a run", Trailer::LEN as u64, sealed.len() as u64)?;
        let least = (PAGE + Trailer::LEN) as u64;
        let position = in_range("size of a run", size, least, u64::MAX)? - Trailer::LEN as u64;
        let mut reader = Reader::new(keys.open(SealKind::Run, id, position, sealed)?);
        let mut trailer = Trailer {
            entries: in_range("entries of a run", reader.u64("entries of a run")?, 0, COUNT_MAX)?,
            chunks: in_range("chunks of a run", reader.u64("chunks of a run")?, 0, COUNT_MAX)?,
            entry_pages: reader.u32("pages of a run")?,
            frames: reader.u32("frames of a run")?,
            packs: reader.u32("packs of a run")?,
            covers: reader.u32("index files of a run")?,
            length_max: reader.u32("largest frame of a run")?,
            value_bits: reader.u8("number width of a run")?,
            depth_max: reader.u8("depth of a run")?,
            pack_id_pages: 0,
            epoch: 0,
        };
        Reader::new(&reader.array::<2>("trailer of a run")?).zeros("trailer of a run")?;
        trailer.pack_id_pages = reader.u32("pages of pack ids of a run")?;
        trailer.epoch = reader.u64("epoch of a run")?;
        reader.zeros("trailer of a run")?;
        in_range(
            "number width of a run",
            trailer.value_bits.into(),
            0,
            VALUE_BITS_MAX.into(),
        )?;
        equal("size of a run", trailer.size(), size)?;
        Ok(trailer)
    }
}
