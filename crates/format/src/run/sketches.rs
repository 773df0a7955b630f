//! Runs of sketches: what chunks are like, by pack and by feature.
//!
//! ```text
//! magic ‖ sketches of each pack, sealed, among them pages of packs ‖ entry pages ‖ pack id pages ‖ tables ‖ trailer
//! ```
//!
//! Entries lead from a chunk's largest features to the number of its pack in the run.

use super::{PAGE, PAGE_PLAIN, Section, ShortId, VALUE_BITS_MAX, finish_page};
use crate::error::{equal, in_range};
use crate::magic::MAGIC;
use crate::sketches::LIMIT;
use crate::wire::{self, Reader};
use crate::{Error, FileId, FileKind, Keys, SEAL_OVERHEAD, SealKind};

const PLAIN: usize = 64;
const RECORD: usize = 36;
/// Packs in every page of a run of sketches except the last.
pub const SKETCH_PACKS_A_PAGE: usize = PAGE_PLAIN / RECORD;

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
    /// Pages of the ids of packs.
    pub pack_id_pages: u32,
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

    /// Returns the number of pages of packs.
    pub fn pack_pages(&self) -> u32 {
        self.packs.div_ceil(SKETCH_PACKS_A_PAGE as u32)
    }

    /// Returns the offset of a page of the ids of packs.
    pub fn pack_id_page(&self, number: u32) -> u64 {
        self.entry_page(self.entry_pages) + u64::from(number) * PAGE as u64
    }

    /// Returns the section of the tables.
    pub fn tables(&self) -> Section {
        Section {
            offset: self.pack_id_page(self.pack_id_pages),
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
        for count in [self.entry_pages, self.packs, self.covers, self.pack_id_pages] {
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
            pack_id_pages: reader.u32("pages of a run")?,
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
}

/// Gathers packs of a run of sketches into pages.
#[derive(Debug, Default)]
pub struct SketchPackPageBuilder {
    records: Vec<u8>,
}

impl SketchPackPageBuilder {
    /// Returns a builder of the first page.
    pub fn new() -> SketchPackPageBuilder {
        SketchPackPageBuilder::default()
    }

    /// Adds a pack. If that fills the page, appends the page's plaintext to `out` and returns true.
    pub fn push(&mut self, pack: &SketchPack, out: &mut Vec<u8>) -> bool {
        self.records.extend_from_slice(&pack.id.0);
        wire::put_u64(&mut self.records, pack.time as u64);
        wire::put_u64(&mut self.records, pack.offset);
        wire::put_u32(&mut self.records, pack.sealed);
        self.records.len() == SKETCH_PACKS_A_PAGE * RECORD && self.finish(out)
    }

    /// Appends the plaintext of the last page to `out`; returns whether there are packs in it.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        finish_page(&mut self.records, out)
    }
}

/// Reads the plaintext of a page of packs, the one with this number, of the run with this trailer.
///
/// # Errors
///
/// The first fault: another length, numbers out of range or out of order.
pub fn sketch_packs(trailer: &SketchTrailer, number: u32, plain: &[u8]) -> Result<Vec<SketchPack>, Error> {
    equal("page of a run", PAGE_PLAIN as u64, plain.len() as u64)?;
    let a_page = SKETCH_PACKS_A_PAGE as u32;
    let count = trailer.packs.saturating_sub(number.saturating_mul(a_page)).min(a_page);
    let mut reader = Reader::new(plain);
    let mut free = SketchTrailer::SKETCHES_AT;
    let mut read = |_| {
        let pack = SketchPack {
            id: FileId(reader.array("pack id")?),
            time: reader.u64("time of sketches")? as i64,
            offset: reader.u64("offset of sketches")?,
            sealed: reader.u32("length of sketches")?,
        };
        let end = pack.offset.saturating_add(pack.sealed.into());
        in_range("length of sketches", pack.sealed.into(), SEAL_OVERHEAD as u64, LIMIT)?;
        in_range("offset of sketches", pack.offset, free, trailer.sketches_end)?;
        free = in_range("end of sketches", end, free, trailer.sketches_end)?;
        Ok(pack)
    };
    let packs = (0..count).map(&mut read).collect::<Result<_, Error>>()?;
    reader.zeros("page of a run")?;
    Ok(packs)
}

/// The tables of a run of sketches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SketchTables {
    /// Files of sketches that the run stands for.
    pub covers: Vec<FileId>,
    /// Offset of each page of packs.
    pub pack_pages: Vec<u64>,
    /// First 32 bits of the first id of each page of entries.
    pub entry_fences: Vec<u32>,
    /// First 32 bits of the first id of each page of packs' ids.
    pub pack_fences: Vec<u32>,
}

impl SketchTables {
    /// Returns the length of the tables that a trailer announces, bytes.
    pub fn len_of(trailer: &SketchTrailer) -> u64 {
        u64::from(trailer.covers) * 16
            + u64::from(trailer.pack_pages()) * 8
            + (u64::from(trailer.entry_pages) + u64::from(trailer.pack_id_pages)) * 4
    }

    /// Returns the encoded tables.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.covers.iter().for_each(|id| out.extend_from_slice(&id.0));
        self.pack_pages.iter().for_each(|&page| wire::put_u64(&mut out, page));
        let fences = self.entry_fences.iter().chain(&self.pack_fences);
        fences.for_each(|&fence| wire::put_u32(&mut out, fence));
        out
    }

    /// Reads the tables that this trailer announces.
    ///
    /// # Errors
    ///
    /// The first fault: another length, numbers out of range or out of order.
    pub fn read(trailer: &SketchTrailer, bytes: &[u8]) -> Result<SketchTables, Error> {
        equal("tables of a run", SketchTables::len_of(trailer), bytes.len() as u64)?;
        // An entry leads to a pack.
        let pages_max = if trailer.packs == 0 { 0 } else { u32::MAX };
        in_range("pages of a run", trailer.entry_pages.into(), 0, pages_max.into())?;
        let mut reader = Reader::new(bytes);
        let mut tables = SketchTables::default();
        for _ in 0..trailer.covers {
            tables.covers.push(FileId(reader.array("file of a run")?));
        }
        let mut free = SketchTrailer::SKETCHES_AT;
        for _ in 0..trailer.pack_pages() {
            let page = in_range(
                "page of a run",
                reader.u64("page of a run")?,
                free,
                trailer.sketches_end,
            )?;
            free = in_range("end of a page", page + PAGE as u64, free, trailer.sketches_end)?;
            tables.pack_pages.push(page);
        }
        let mut fences = |count| {
            (0..count)
                .map(|_| reader.u32("first id of a page"))
                .collect::<Result<Vec<u32>, _>>()
        };
        tables.entry_fences = fences(trailer.entry_pages)?;
        tables.pack_fences = fences(trailer.pack_id_pages)?;
        match tables.entry_fences.is_sorted() && tables.pack_fences.is_sorted() {
            true => Ok(tables),
            false => Err(Error::Unordered {
                field: "pages of a run",
                position: 0,
            }),
        }
    }
}
