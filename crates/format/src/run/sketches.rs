//! Runs of sketches: what chunks are like, by pack and by feature.
//!
//! ```text
//! magic ‖ sketches of each pack, sealed ‖ entry pages ‖ tables ‖ trailer
//! ```
//!
//! Entries lead from a chunk's largest features to its number among all chunks of the run.

use super::{PAGE, Section, ShortId, VALUE_BITS_MAX};
use crate::error::{equal, in_range};
use crate::magic::MAGIC;
use crate::sketches::LIMIT;
use crate::wire::{self, Reader};
use crate::{Error, FileId, FileKind, Keys, SEAL_OVERHEAD, SealKind};

const PLAIN: usize = 64;
const PACK: usize = 40;

/// Returns a feature as the id of an entry.
pub fn feature_id(feature: u32) -> ShortId {
    ShortId(u128::from(feature) << 96)
}

/// Counts of a run of sketches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SketchTrailer {
    /// Offset at which the sketches end and the pages of entries begin.
    pub sketches_end: u64,
    /// Chunks.
    pub chunks: u64,
    /// Entries.
    pub entries: u64,
    /// Pages of entries.
    pub entry_pages: u32,
    /// Packs, each as often as it has sketches in one place.
    pub packs: u32,
    /// Files of sketches that the run stands for.
    pub covers: u32,
}

impl SketchTrailer {
    /// Length of the sealed trailer, the last bytes of the file.
    pub const LEN: usize = PLAIN + SEAL_OVERHEAD;
    /// Offset of the first sketches.
    pub const SKETCHES_AT: u64 = MAGIC as u64;

    /// Returns the offset of a page of entries.
    pub fn entry_page(&self, number: u32) -> u64 {
        self.sketches_end + u64::from(number) * PAGE as u64
    }

    /// Returns the section of the tables.
    pub fn tables(&self) -> Section {
        Section {
            offset: self.entry_page(self.entry_pages),
            plain: SketchTables::len_of(self),
        }
    }

    /// Returns the size of the file, bytes.
    pub fn size(&self) -> u64 {
        self.tables().end() + SketchTrailer::LEN as u64
    }

    /// Appends the sealed trailer of the run `id`.
    pub fn seal(&self, keys: &Keys, id: FileId, out: &mut Vec<u8>) {
        let mut plain = Vec::with_capacity(PLAIN);
        for count in [self.sketches_end, self.chunks, self.entries] {
            wire::put_u64(&mut plain, count);
        }
        for count in [self.entry_pages, self.packs, self.covers] {
            wire::put_u32(&mut plain, count);
        }
        plain.resize(PLAIN, 0);
        keys.seal(SealKind::Run, id, self.size() - SketchTrailer::LEN as u64, &plain, out);
    }

    /// Opens the last [`SketchTrailer::LEN`] bytes of the run `id`, a file of `size` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Seal`]; counts out of range, or that do not fit the size.
    pub fn open(keys: &Keys, id: FileId, size: u64, sealed: &mut [u8]) -> Result<SketchTrailer, Error> {
        equal("trailer of a run", SketchTrailer::LEN as u64, sealed.len() as u64)?;
        let least = MAGIC + SketchTrailer::LEN;
        let position = in_range("size of a run", size, least as u64, 1 << 56)? - SketchTrailer::LEN as u64;
        let mut reader = Reader::new(keys.open(SealKind::Run, id, position, sealed)?);
        let end = reader.u64("end of sketches")?;
        let trailer = SketchTrailer {
            sketches_end: in_range("end of sketches", end, SketchTrailer::SKETCHES_AT, size)?,
            chunks: in_range(
                "chunks of a run",
                reader.u64("chunks of a run")?,
                0,
                1 << VALUE_BITS_MAX,
            )?,
            entries: reader.u64("entries of a run")?,
            entry_pages: reader.u32("pages of a run")?,
            packs: reader.u32("packs of a run")?,
            covers: reader.u32("files of a run")?,
        };
        reader.zeros("trailer of a run")?;
        equal("size of a run", trailer.size(), size)?;
        Ok(trailer)
    }

    /// Returns the first bytes of a file.
    pub fn head() -> [u8; MAGIC] {
        FileKind::SketchRun.magic()
    }
}

/// Sketches of chunks in one pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchPack {
    /// The pack's name.
    pub id: FileId,
    /// When they were written, seconds since 1970.
    pub time: i64,
    /// Offset of their seal in the file.
    pub offset: u64,
    /// Length of the seal, bytes.
    pub sealed: u32,
    /// Number of the first chunk among all chunks of the run.
    pub first: u32,
}

/// The tables of a run of sketches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SketchTables {
    /// Files of sketches that the run stands for.
    pub covers: Vec<FileId>,
    /// Packs with sketches, in the order of their chunks' numbers.
    pub packs: Vec<SketchPack>,
    /// First 32 bits of the first id of each page of entries.
    pub entry_fences: Vec<u32>,
}

impl SketchTables {
    /// Returns the length of the tables that a trailer announces, bytes.
    pub fn len_of(trailer: &SketchTrailer) -> u64 {
        u64::from(trailer.covers) * 16 + u64::from(trailer.packs) * PACK as u64 + u64::from(trailer.entry_pages) * 4
    }

    /// Returns the encoded tables.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.covers.iter().for_each(|id| out.extend_from_slice(&id.0));
        for pack in &self.packs {
            out.extend_from_slice(&pack.id.0);
            wire::put_u64(&mut out, pack.time as u64);
            wire::put_u64(&mut out, pack.offset);
            wire::put_u32(&mut out, pack.sealed);
            wire::put_u32(&mut out, pack.first);
        }
        self.entry_fences
            .iter()
            .for_each(|&fence| wire::put_u32(&mut out, fence));
        out
    }

    /// Reads the tables that this trailer announces.
    ///
    /// # Errors
    ///
    /// The first fault: another length, numbers out of range or out of order.
    pub fn read(trailer: &SketchTrailer, bytes: &[u8]) -> Result<SketchTables, Error> {
        equal("tables of a run", SketchTables::len_of(trailer), bytes.len() as u64)?;
        let mut reader = Reader::new(bytes);
        // An entry leads to the pack of its chunk.
        let pages_max = if trailer.packs == 0 { 0 } else { u32::MAX };
        in_range("pages of a run", trailer.entry_pages.into(), 0, pages_max.into())?;
        let mut tables = SketchTables::default();
        for _ in 0..trailer.covers {
            tables.covers.push(FileId(reader.array("file of a run")?));
        }
        let (mut free, mut before) = (SketchTrailer::SKETCHES_AT, 0);
        for _ in 0..trailer.packs {
            let pack = SketchPack {
                id: FileId(reader.array("pack id")?),
                time: reader.u64("time of sketches")? as i64,
                offset: reader.u64("offset of sketches")?,
                sealed: reader.u32("length of sketches")?,
                first: reader.u32("first chunk of a pack")?,
            };
            let end = pack.offset.saturating_add(pack.sealed.into());
            in_range("length of sketches", pack.sealed.into(), SEAL_OVERHEAD as u64, LIMIT)?;
            in_range("offset of sketches", pack.offset, free, trailer.sketches_end)?;
            in_range("end of sketches", end, free, trailer.sketches_end)?;
            in_range("first chunk of a pack", pack.first.into(), before, trailer.chunks)?;
            (free, before) = (end, pack.first.into());
            tables.packs.push(pack);
        }
        for _ in 0..trailer.entry_pages {
            tables.entry_fences.push(reader.u32("first id of a page")?);
        }
        match tables.entry_fences.is_sorted() {
            true => Ok(tables),
            false => Err(Error::Unordered {
                field: "pages of a run",
                position: 0,
            }),
        }
    }
}
