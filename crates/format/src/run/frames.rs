//! Pages of frames, found by their numbers and by the ordinals of their chunks.

use super::PAGE_PLAIN;
use crate::Error;
use crate::error::{equal, in_range};
use crate::index::IndexedFrame;
use crate::pack::FRAMES_AT;
use crate::wire::{self, Reader};

/// First ordinal, pack, offset and count.
const HEAD: usize = 18;
const RECORD: usize = 10;
/// Frames in every page except the last.
pub const FRAMES_A_PAGE: usize = (PAGE_PLAIN - HEAD) / RECORD;

/// The frame begins a pack.
const NEXT_PACK: u32 = 1 << 31;
/// Bits of a frame's length; the depth is above them.
const LENGTH_BITS: u32 = 27;

/// A frame of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunFrame {
    /// Number of its pack in the run's table.
    pub pack: u32,
    /// Ordinal of its first chunk.
    pub ordinal: u64,
    /// The frame as an index file lists it.
    pub frame: IndexedFrame,
}

/// Gathers frames, in the order of their packs, into pages.
#[derive(Debug, Default)]
pub struct FramePageBuilder {
    records: Vec<u8>,
    /// Ordinal, pack and offset of the page's first frame.
    first: (u64, u32, u32),
    ordinal: u64,
    pack: Option<u32>,
    end: u32,
}

impl FramePageBuilder {
    /// Returns a builder of the first page.
    pub fn new() -> FramePageBuilder {
        FramePageBuilder::default()
    }

    /// Returns the ordinal of the next frame's first chunk.
    pub fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Adds a frame of the pack with this number. If that fills the page, appends the page's plaintext
    /// to `out` and returns the ordinal of its first chunk.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] or [`Error::Mismatch`] if packs have gaps between their numbers or frames, or
    /// numbers are beyond those of any index file.
    pub fn push(&mut self, pack: u32, frame: &IndexedFrame, out: &mut Vec<u8>) -> Result<Option<u64>, Error> {
        let begins = self.pack != Some(pack);
        if begins {
            equal(
                "pack of a run's frame",
                self.pack.map_or(0, |last| u64::from(last) + 1),
                pack.into(),
            )?;
            self.end = FRAMES_AT as u32;
        }
        equal("frame offset", self.end.into(), frame.offset.into())?;
        in_range("sealed frame", frame.sealed.into(), 1, u64::from(NEXT_PACK) - 1)?;
        in_range("frame body", frame.length.into(), 0, (1 << LENGTH_BITS) - 1)?;
        in_range("depth of a frame", frame.depth.into(), 0, (1 << (32 - LENGTH_BITS)) - 1)?;
        self.pack = Some(pack);
        if self.records.is_empty() {
            self.first = (self.ordinal, pack, frame.offset);
        }
        let mark = if begins { NEXT_PACK } else { 0 };
        wire::put_u32(&mut self.records, frame.sealed | mark);
        wire::put_u32(&mut self.records, frame.length | u32::from(frame.depth) << LENGTH_BITS);
        wire::put_u16(&mut self.records, frame.blobs);
        self.ordinal += u64::from(frame.blobs);
        self.end = frame.offset.saturating_add(frame.sealed);
        let is_full = self.records.len() / RECORD == FRAMES_A_PAGE;
        Ok(is_full.then(|| self.finish(out)).flatten())
    }

    /// Appends the plaintext of the last page to `out` and returns the ordinal of its first chunk;
    /// `None` if there are no frames in it.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Option<u64> {
        if self.records.is_empty() {
            return None;
        }
        let start = out.len();
        let (ordinal, pack, offset) = self.first;
        wire::put_u64(out, ordinal);
        wire::put_u32(out, pack);
        wire::put_u32(out, offset);
        wire::put_u16(out, (self.records.len() / RECORD) as u16);
        out.append(&mut self.records);
        out.resize(start + PAGE_PLAIN, 0);
        Some(ordinal)
    }
}

/// A page of frames.
#[derive(Clone)]
pub struct FramePage {
    ordinal: u64,
    pack: u32,
    offset: u32,
    records: Box<[u8]>,
}

impl FramePage {
    /// Most memory of a page, bytes.
    pub const MEMORY: usize = PAGE_PLAIN + size_of::<FramePage>() + 16;

    /// Reads a page's plaintext.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] for another length, [`Error::OutOfRange`] for a count that no page has.
    pub fn read(plain: &[u8]) -> Result<FramePage, Error> {
        equal("page of a run", PAGE_PLAIN as u64, plain.len() as u64)?;
        let mut reader = Reader::new(plain);
        let ordinal = reader.u64("ordinal")?;
        let pack = reader.u32("pack of a run's frame")?;
        let offset = reader.u32("frame offset")?;
        let count = usize::from(reader.u16("frames of a run's page")?);
        in_range("frames of a run's page", count as u64, 0, FRAMES_A_PAGE as u64)?;
        let records = reader.take("frames of a run's page", count * RECORD)?;
        Ok(FramePage {
            ordinal,
            pack,
            offset,
            records: records.into(),
        })
    }

    /// Returns the frames, in order.
    pub fn frames(&self) -> impl Iterator<Item = RunFrame> + '_ {
        let (mut ordinal, mut pack, mut offset) = (self.ordinal, self.pack, self.offset);
        let mut is_first = true;
        self.records.as_chunks::<RECORD>().0.iter().map(move |record| {
            let [a, b, c, d, e, f, g, h, i, j] = *record;
            let marked = u32::from_le_bytes([a, b, c, d]);
            let sized = u32::from_le_bytes([e, f, g, h]);
            if marked & NEXT_PACK != 0 && !is_first {
                pack = pack.wrapping_add(1);
                offset = FRAMES_AT as u32;
            }
            is_first = false;
            let frame = IndexedFrame {
                offset,
                sealed: marked & !NEXT_PACK,
                blobs: u16::from_le_bytes([i, j]),
                depth: (sized >> LENGTH_BITS) as u8,
                length: sized & ((1 << LENGTH_BITS) - 1),
            };
            let found = RunFrame { pack, ordinal, frame };
            offset = offset.saturating_add(frame.sealed);
            ordinal = ordinal.saturating_add(u64::from(frame.blobs));
            found
        })
    }

    /// Returns the frame at a position in the page.
    pub fn get(&self, position: usize) -> Option<RunFrame> {
        self.frames().nth(position)
    }

    /// Returns the position in the page of the frame that has the chunk with this ordinal, and the
    /// frame.
    pub fn find(&self, ordinal: u64) -> Option<(usize, RunFrame)> {
        let has = |found: &RunFrame| {
            ordinal
                .checked_sub(found.ordinal)
                .is_some_and(|slot| slot < found.frame.blobs.into())
        };
        self.frames().enumerate().find(|(_, found)| has(found))
    }
}

impl std::fmt::Debug for FramePage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FramePage")
            .field("frames", &(self.records.len() / RECORD))
            .finish_non_exhaustive()
    }
}
