//! Cutting for threads and stores: each chunk is named and looked up.

use ibid_chunk::Chunker;
use ibid_chunk::locality::{HintedChunker, Known, TableEntry, TableWith, Tally, Trail};

use super::contender::Naming;

/// How boundaries are found.
pub(super) enum Cutter<'c> {
    /// With the chunker.
    Plain(&'c Chunker),
    /// With hints, and with the chunker where no hint holds.
    Hinted(HintedChunker<'c>),
}

/// The position after the last cut of a file.
pub(super) struct Cursor {
    trail: Trail<TableEntry>,
    before: Option<TableEntry>,
}

impl Cursor {
    pub(super) fn start() -> Cursor {
        Cursor {
            trail: Trail::start(),
            before: None,
        }
    }

    /// Returns the length of the next chunk, and whether the chunk was known. A `length` that is
    /// known beforehand is used without a search.
    pub(super) fn next_chunk(
        &mut self,
        cutter: &Cutter<'_>,
        known: &mut TableWith<'_, Naming>,
        data: &[u8],
        is_last: bool,
        length: Option<usize>,
    ) -> (usize, bool) {
        let length = match (length, cutter) {
            (Some(length), _) => length.clamp(1, data.len()),
            (None, Cutter::Plain(chunker)) => chunker.cut(data),
            (None, Cutter::Hinted(hinted)) => {
                let chunk = hinted.next_chunk(known, &mut self.trail, data, is_last, &mut Tally::default());
                return (chunk.bytes.len(), chunk.is_duplicate);
            }
        };
        let fingerprint = known.fingerprint(&data[..length]);
        let found = known.enter(fingerprint, self.before, is_last && length == data.len());
        self.before = found.entry;
        (length, found.is_duplicate)
    }
}
