//! The layout of an index file, which follows from the three counts.

use super::{BLOCK_RECORDS, LIMIT};
use crate::magic::MAGIC;
use crate::{SEAL_OVERHEAD, padme};

/// Plaintext of the header, bytes.
pub(super) const HEADER: usize = 32;
/// Length of magic and sealed header, bytes.
pub(super) const HEAD: usize = MAGIC + HEADER + SEAL_OVERHEAD;

/// Lengths of a record of each table, bytes.
pub(super) const PACK: usize = 32;
pub(super) const FRAME: usize = 16;
pub(super) const ENTRY: usize = 38;

/// Counts of records, from which all offsets follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) packs: u32,
    pub(super) frames: u32,
    pub(super) entries: u32,
}

/// One of the tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    /// Offset in the file of its first block.
    pub(super) offset: u64,
    pub(super) records: u32,
    /// Length of a record, bytes.
    pub(super) record: usize,
}

/// A sealed block of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) offset: u64,
    /// Length of its seal, bytes.
    pub(super) sealed: usize,
    /// Number of its first record in the table.
    pub(super) first: u32,
    pub(super) records: u32,
}

impl Table {
    pub(super) fn blocks(&self) -> u32 {
        self.records.div_ceil(BLOCK_RECORDS)
    }

    /// Bytes in the file.
    fn len(&self) -> u64 {
        u64::from(self.records) * self.record as u64 + u64::from(self.blocks()) * SEAL_OVERHEAD as u64
    }

    fn end(&self) -> u64 {
        self.offset + self.len()
    }

    /// The block with this number, which the table must have.
    pub(super) fn block(&self, number: u32) -> Span {
        let full = BLOCK_RECORDS as usize * self.record + SEAL_OVERHEAD;
        let first = number * BLOCK_RECORDS;
        let records = (self.records - first).min(BLOCK_RECORDS);
        Span {
            offset: self.offset + u64::from(number) * full as u64,
            sealed: records as usize * self.record + SEAL_OVERHEAD,
            first,
            records,
        }
    }

    pub(super) fn spans(self) -> impl Iterator<Item = Span> {
        (0..self.blocks()).map(move |number| self.block(number))
    }
}

impl Layout {
    pub(super) fn packs(&self) -> Table {
        Table {
            offset: HEAD as u64,
            records: self.packs,
            record: PACK,
        }
    }

    pub(super) fn frames(&self) -> Table {
        Table {
            offset: self.packs().end(),
            records: self.frames,
            record: FRAME,
        }
    }

    pub(super) fn entries(&self) -> Table {
        Table {
            offset: self.frames().end(),
            records: self.entries,
            record: ENTRY,
        }
    }

    /// Offset of the sealed padding.
    pub(super) fn padding(&self) -> u64 {
        self.entries().end()
    }

    /// Size of the file, padded, bytes.
    pub(super) fn size(&self) -> u64 {
        padme::padded(self.padding() + SEAL_OVERHEAD as u64)
    }
}

/// Whether an index of so many packs, frames and entries is within the limit of a file.
///
/// ```
/// use ibid_format::index::{ENTRIES_MAX, would_fit};
///
/// assert!(would_fit(ENTRIES_MAX / 1000, ENTRIES_MAX / 10, ENTRIES_MAX));
/// assert!(!would_fit(1, 1, 2_000_000));
/// ```
pub fn would_fit(packs: u32, frames: u32, entries: u32) -> bool {
    Layout { packs, frames, entries }.size() <= LIMIT
}
