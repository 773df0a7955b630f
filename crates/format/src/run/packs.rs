//! Pages of packs, in the order of their frames, and what leads from a pack's id to its number.

use super::{PAGE_PLAIN, finish_page};
use crate::error::{equal, in_range};
use crate::pack::{self, PackKind};
use crate::wire::{self, Reader};
use crate::{Error, FileId};

const RECORD: usize = 32;
/// Packs in every page except the last.
pub const PACKS_A_PAGE: usize = PAGE_PLAIN / RECORD;
/// Bits of the entry of a pack's id: its number in the lower 32, its size above them.
pub const PACK_VALUE_BITS: u32 = 32 + pack::LIMIT.ilog2() + 1;

/// A pack of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunPack {
    /// The pack's name.
    pub id: FileId,
    /// The kind of its chunks.
    pub kind: PackKind,
    /// Size of the file, bytes.
    pub size: u64,
    /// Number of its first frame in the run.
    pub first_frame: u32,
}

impl RunPack {
    /// Returns the entry of the pack with this number, by which it is found.
    pub fn value(&self, number: u32) -> u64 {
        self.size << 32 | u64::from(number)
    }

    /// Returns the number and the size in bytes that an entry states.
    pub fn of_value(value: u64) -> (u32, u64) {
        (value as u32, value >> 32)
    }
}

/// Gathers packs into pages.
#[derive(Debug, Default)]
pub struct PackPageBuilder {
    records: Vec<u8>,
}

impl PackPageBuilder {
    /// Returns a builder of the first page.
    pub fn new() -> PackPageBuilder {
        PackPageBuilder::default()
    }

    /// Adds a pack. If that fills the page, appends the page's plaintext to `out` and returns true.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a size that no pack has.
    pub fn push(&mut self, pack: &RunPack, out: &mut Vec<u8>) -> Result<bool, Error> {
        in_range("pack size", pack.size, 0, pack::LIMIT)?;
        self.records.extend_from_slice(&pack.id.0);
        wire::put_u64(&mut self.records, pack.size);
        wire::put_u32(&mut self.records, pack.first_frame);
        self.records.extend_from_slice(&[pack.kind.number(), 0, 0, 0]);
        Ok(self.records.len() == PACKS_A_PAGE * RECORD && self.finish(out))
    }

    /// Appends the plaintext of the last page to `out`; returns whether there are packs in it.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> bool {
        finish_page(&mut self.records, out)
    }
}

/// A page of packs.
#[derive(Clone, Debug)]
pub struct PackPage {
    packs: Box<[RunPack]>,
}

impl PackPage {
    /// Most memory of a page, bytes.
    pub const MEMORY: usize = PACKS_A_PAGE * size_of::<RunPack>() + size_of::<PackPage>() + 16;

    /// Reads a page's plaintext, which has so many packs of a run with so many frames.
    ///
    /// # Errors
    ///
    /// The first fault: another length, numbers out of range or out of order.
    pub fn read(plain: &[u8], packs: usize, frames: u32) -> Result<PackPage, Error> {
        equal("page of a run", PAGE_PLAIN as u64, plain.len() as u64)?;
        in_range("packs of a run's page", packs as u64, 0, PACKS_A_PAGE as u64)?;
        let mut reader = Reader::new(plain);
        let mut before = 0;
        let mut read = |_| {
            let id = FileId(reader.array("pack id")?);
            let size = in_range("pack size", reader.u64("pack size")?, 0, pack::LIMIT)?;
            let first_frame = reader.u32("first frame of a pack")?;
            before = in_range("first frame of a pack", first_frame.into(), before, frames.into())?;
            let kind = PackKind::from_number(reader.u8("pack kind")?)?;
            Reader::new(&reader.array::<3>("end of a pack record")?).zeros("end of a pack record")?;
            Ok(RunPack {
                id,
                kind,
                size,
                first_frame,
            })
        };
        let packs = (0..packs).map(&mut read).collect::<Result<_, Error>>()?;
        Ok(PackPage { packs })
    }

    /// Returns the packs, in order.
    pub fn packs(&self) -> &[RunPack] {
        &self.packs
    }
}
