//! A filter that tells most absent ids: a Bloom filter in blocks of one cache line.

use super::ShortId;
use crate::Error;
use crate::error::equal;

/// Bits of a block: a cache line.
const BLOCK_BITS: u64 = 512;
/// Bits for each id. One absent id in about 70 is not told.
const BITS_PER_ID: u64 = 10;
/// Bits set for an id.
const BITS_SET: u32 = 6;

/// Length of a filter for so many ids, bytes.
fn length_of(ids: u64) -> u64 {
    blocks_of(ids) * BLOCK_BITS / 8
}

fn blocks_of(ids: u64) -> u64 {
    (ids * BITS_PER_ID).div_ceil(BLOCK_BITS).max(1)
}

/// Returns the block of an id: smaller ids have no later blocks.
fn block_of(id: ShortId, blocks: u64) -> u64 {
    ((u128::from(id.leading()) * u128::from(blocks)) >> 64) as u64
}

/// Returns the positions in its block of an id's bits.
fn positions(id: ShortId) -> impl Iterator<Item = u64> {
    let low = id.0 as u64;
    (0..BITS_SET).map(move |n| low >> (9 * n) & (BLOCK_BITS - 1))
}

/// Makes a filter from sorted ids, a block at a time.
#[derive(Debug)]
pub struct FilterBuilder {
    blocks: u64,
    /// Number of the block in `open`.
    number: u64,
    open: [u64; BLOCK_BITS as usize / 64],
}

impl FilterBuilder {
    /// Returns a builder of a filter for this many ids.
    pub fn new(ids: u64) -> FilterBuilder {
        FilterBuilder {
            blocks: blocks_of(ids),
            number: 0,
            open: Default::default(),
        }
    }

    fn next(&mut self, out: &mut Vec<u8>) {
        let open = std::mem::take(&mut self.open);
        open.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        self.number += 1;
    }

    /// Adds an id, not smaller than the last one. Appends the blocks before its own to `out`.
    pub fn push(&mut self, id: ShortId, out: &mut Vec<u8>) {
        let block = block_of(id, self.blocks);
        while self.number < block {
            self.next(out);
        }
        for at in positions(id) {
            self.open[at as usize / 64] |= 1 << (at % 64);
        }
    }

    /// Appends all other blocks to `out`.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        while self.number < self.blocks {
            self.next(out);
        }
    }
}

/// A filter in memory.
pub struct Filter(Vec<u64>);

impl Filter {
    /// Returns the length of a filter for this many ids, bytes.
    pub fn len_of(ids: u64) -> u64 {
        length_of(ids)
    }

    /// Returns the filter for this many ids with these bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] for another length.
    pub fn read(ids: u64, bytes: &[u8]) -> Result<Filter, Error> {
        equal("filter of a run", length_of(ids), bytes.len() as u64)?;
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        Ok(Filter(words.collect()))
    }

    /// Returns whether the run may have this id. If not, it has not.
    pub fn may_have(&self, id: ShortId) -> bool {
        let words = BLOCK_BITS as usize / 64;
        let block = block_of(id, (self.0.len() / words) as u64) as usize;
        let block = &self.0[block * words..][..words];
        positions(id).all(|at| block[at as usize / 64] >> (at % 64) & 1 == 1)
    }

    /// Returns the memory in use, bytes.
    pub fn memory(&self) -> u64 {
        self.0.len() as u64 * 8
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Filter")
            .field("bytes", &self.memory())
            .finish_non_exhaustive()
    }
}
