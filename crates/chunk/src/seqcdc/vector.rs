//! SeqCDC with vector instructions.
//!
//! As in the scalar form a block of 64 pairs becomes masks. Runs are found otherwise: the pairs
//! that equal neighbours make are taken out of the mask of ascents, so that runs are consecutive
//! bits, and the mask is joined with what came out of the blocks before it since the last skip.
//! Then ANDs with shifts of itself leave the last bit of every run that is long enough.
//!
//! *What takes time* is the way from a position to the next: load, compare, count, find the descent
//! that starts the skip, load there. So
//!
//! - two blocks are looked at together, since most skips start in the second: one branch for all
//!   that usually happens, and nothing to remember between them. They overlap, so that no more
//!   bytes are loaded, and waited for, than usually matter;
//! - the places where scanning is likely to go on are fetched ahead, see [`Ahead`].

use ibid_simd::{BLOCK, Vector};

use super::ahead::Ahead;
use super::padded;
use crate::SeqCdcSettings;

/// The longest sequence that is found here. Longer ones are for averages of megabytes.
pub(super) const SEQ_LENGTH_MOST: u32 = 1 << STEPS;

/// Each can double the length of the runs that are known.
const STEPS: usize = 3;

/// A number of descents that no data has.
const NO_SKIPS: u32 = u32::MAX;

/// Pairs looked at beyond those in which half are descents, and make a skip. That is enough for 98
/// of 100 skips on random data.
const SPARE: u32 = 12;

/// What does not change during a scan.
struct Scan<V> {
    vector: V,
    size_min: usize,
    seq_length: usize,
    skip_trigger: u32,
    skip_size: usize,
    /// Pairs of the second of two blocks that are in the first as well.
    overlap: u32,
    shifts: [u32; STEPS],
}

/// The masks of up to 64 pairs, first pair in the lowest bit.
#[derive(Clone, Copy)]
struct Block {
    /// Pairs that go against the order wanted.
    against: u64,
    /// Pairs that extend or break a run.
    moving: u64,
    /// Of those, the ones that extend it; one bit for each of `moving`.
    wanted: u64,
}

/// The end of the chunk that `data[..end]` begins with, if it is longer than the minimum.
#[inline(always)]
pub(super) fn scan<V: Vector, const DECREASING: bool, const STRICT: bool>(
    vector: V,
    settings: &SeqCdcSettings,
    data: &[u8],
    end: usize,
) -> usize {
    let skip_trigger = match settings.skip_trigger {
        0 => NO_SKIPS,
        trigger => trigger,
    };
    let scan = Scan {
        vector,
        size_min: settings.size_min,
        seq_length: settings.seq_length as usize,
        skip_trigger,
        skip_size: settings.skip_size as usize,
        overlap: overlap(skip_trigger),
        shifts: shifts(settings.seq_length),
    };
    scan.run::<DECREASING, STRICT>(Ahead::new(settings, data), &data[..end])
}

impl<V: Vector> Scan<V> {
    #[inline(always)]
    fn run<const DECREASING: bool, const STRICT: bool>(&self, mut ahead: Ahead, window: &[u8]) -> usize {
        // A segment's first pair is (window[right - 1], window[right]).
        let mut right = self.size_min - self.seq_length;
        while right < window.len() {
            if let Some(bytes) = window[right - 1..].first_chunk::<{ 2 * BLOCK + 1 }>() {
                let first = self.block::<DECREASING, STRICT>(bytes, 0, 0);
                let second = self.block::<DECREASING, STRICT>(bytes, BLOCK, self.overlap);
                let seen = self.vector.count_ones(first.against);
                let both = seen + self.vector.count_ones(second.against);
                if seen < self.skip_trigger && both >= self.skip_trigger {
                    let complete = self.complete_runs(0, first.wanted);
                    let boundary = self.boundary(second, self.complete_runs(self.history(0, first), second.wanted));
                    let skip = self.skip(second, seen);
                    // No run is the same as one after the skip: a branch less to guess.
                    if (complete != 0) | (boundary.wrapping_sub(1) < skip) {
                        let cut = match self.boundary(first, complete) {
                            0 => right + BLOCK + boundary.trailing_zeros() as usize + 1,
                            boundary => right + boundary.trailing_zeros() as usize + 1,
                        };
                        ahead.cuts(cut);
                        return cut;
                    }
                    let next = right + BLOCK + skip.trailing_zeros() as usize + 1 + self.skip_size;
                    ahead.skips(right, next);
                    right = next;
                    continue;
                }
            }
            match self.segment::<DECREASING, STRICT>(&ahead, window, right) {
                Ok(cut) => {
                    ahead.cuts(cut);
                    return cut;
                }
                Err(next) => {
                    ahead.skips(right, next);
                    right = next;
                }
            }
        }
        ahead.cuts(window.len());
        window.len()
    }

    /// Looks for a boundary in a segment, block after block until the next skip or the end of the
    /// data: the chunk's end, or where to go on.
    #[inline(always)]
    fn segment<const DECREASING: bool, const STRICT: bool>(
        &self,
        ahead: &Ahead,
        window: &[u8],
        right: usize,
    ) -> Result<usize, usize> {
        let mut right = right;
        let mut history = 0;
        let mut opposing = 0;
        while right < window.len() {
            let block = match window[right - 1..].first_chunk::<{ BLOCK + 1 }>() {
                Some(bytes) => self.block::<DECREASING, STRICT>(bytes, 0, 0),
                None => self.block::<DECREASING, STRICT>(&padded(&window[right - 1..]), 0, 0),
            };
            ahead.looks_at(right);
            if block.moving == 0 {
                // Long stretches of one byte are not rare.
                right += BLOCK;
                continue;
            }
            let boundary = self.boundary(block, self.complete_runs(history, block.wanted));
            let seen = opposing + self.vector.count_ones(block.against);
            if seen >= self.skip_trigger {
                let skip = self.skip(block, opposing);
                if boundary.wrapping_sub(1) >= skip {
                    return Err(right + skip.trailing_zeros() as usize + 1 + self.skip_size);
                }
            }
            if boundary != 0 {
                return Ok(right + boundary.trailing_zeros() as usize + 1);
            }
            history = self.history(history, block);
            opposing = seen;
            right += BLOCK;
        }
        Err(right)
    }

    /// The pairs of which the first is `bytes[at..at + 2]`, 64 less the `overlap` that is not
    /// looked at again.
    #[inline(always)]
    fn block<const DECREASING: bool, const STRICT: bool>(&self, bytes: &[u8], at: usize, overlap: u32) -> Block {
        let from = at - overlap as usize;
        let rises = self.vector.block_below(bytes, from, bytes, from + 1) >> overlap;
        let falls = self.vector.block_below(bytes, from + 1, bytes, from) >> overlap;
        let (wanted, against) = if DECREASING { (falls, rises) } else { (rises, falls) };
        let moving = if STRICT { u64::MAX >> overlap } else { wanted | against };
        Block {
            against,
            moving,
            wanted: if STRICT {
                wanted
            } else {
                self.vector.extract_bits(wanted, moving)
            },
        }
    }

    /// What matters of the pairs until the end of `block`: the last in the highest bit, one bit for
    /// each that moved.
    #[inline(always)]
    fn history(&self, before: u64, block: Block) -> u64 {
        let count = self.vector.count_ones(block.moving);
        // 64 pairs shift all that was before out, none leave it; neither fits one shift.
        before.checked_shr(count).unwrap_or(0) | block.wanted.wrapping_shl(64 - count)
    }

    /// The bits of `wanted` that are the last of as many ones in a row as make a sequence, with
    /// those of `history` before them.
    #[inline(always)]
    fn complete_runs(&self, history: u64, wanted: u64) -> u64 {
        let (mut before, mut runs) = (history, wanted);
        for shift in self.shifts {
            // With a shift of 0, what comes down from the history is masked by the runs themselves.
            runs &= runs << shift | before.wrapping_shr(64 - shift);
            before &= before << shift;
        }
        runs
    }

    /// The pair that completes the first of these runs, as a bit; 0 when there is none.
    #[inline(always)]
    fn boundary(&self, block: Block, complete: u64) -> u64 {
        self.vector
            .deposit_bits(complete & complete.wrapping_neg(), block.moving)
    }

    /// The pair that starts the skip, as a bit, when so many opposing ones came before the block.
    #[inline(always)]
    fn skip(&self, block: Block, opposing: u32) -> u64 {
        self.vector
            .deposit_bits(1 << (self.skip_trigger - opposing - 1), block.against)
    }
}

/// By how many pairs two blocks overlap, if skips come after so many descents.
fn overlap(skip_trigger: u32) -> u32 {
    let pairs = skip_trigger.saturating_mul(2).saturating_add(SPARE);
    2 * BLOCK as u32 - pairs.clamp(BLOCK as u32 + 1, 2 * BLOCK as u32)
}

/// By how much runs are extended step by step so that those of `length` pairs remain.
fn shifts(length: u32) -> [u32; STEPS] {
    let mut known = 1;
    [(); STEPS].map(|()| {
        let shift = known.min(length - known);
        known += shift;
        shift
    })
}
