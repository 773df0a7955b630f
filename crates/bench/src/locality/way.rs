//! One way of cutting, as threads and stores use it: chunk by chunk, each named and looked up.

use ibid_chunk::Chunker;
use ibid_chunk::locality::{HintedChunker, Known, TableEntry, TableWith, Tally, Trail};

use super::lane::Naming;

/// How boundaries are found.
pub(super) enum Way<'c> {
    /// By the chunker.
    Plain(&'c Chunker),
    /// By hints first.
    Hinted(HintedChunker<'c>),
}

/// Where somebody is in a file.
pub(super) struct Walk {
    trail: Trail<TableEntry>,
    before: Option<TableEntry>,
}

impl Walk {
    pub(super) fn start() -> Walk {
        Walk {
            trail: Trail::start(),
            before: None,
        }
    }

    /// Length of the next chunk, and whether it was known. `length` if that is known beforehand:
    /// then nothing is looked for.
    pub(super) fn step(
        &mut self,
        way: &Way<'_>,
        known: &mut TableWith<'_, Naming>,
        data: &[u8],
        is_last: bool,
        length: Option<usize>,
    ) -> (usize, bool) {
        let length = match (length, way) {
            (Some(length), _) => length.clamp(1, data.len()),
            (None, Way::Plain(chunker)) => chunker.cut(data),
            (None, Way::Hinted(hinted)) => {
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
