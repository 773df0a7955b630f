//! SeqCDC with vector instructions.
//!
//! As in the scalar form, a block of 64 pairs becomes masks. Runs are found in another way: the
//! pairs of equal neighbours are removed from the mask of ascents, so that runs are consecutive
//! bits, and the bits of earlier blocks since the last skip are shifted in before it. ANDs of the
//! mask with shifts of itself then leave the last bit of every run that is long enough.
//!
//! The bottleneck is the latency from one position to the next: load, compare, count, find the
//! descent that starts the skip, load there. So
//!
//! - the scan takes two blocks together, since most skips start in the second. The usual case then
//!   has one branch and carries no state between blocks. The blocks overlap, so that the scan waits
//!   for no more bytes than it usually needs;
//! - the places where the scan is likely to resume are prefetched, see [`Ahead`].

use ibid_simd::{BLOCK, Vector};

use super::ahead::Ahead;
use super::padded;
use crate::SeqCdcSettings;

/// The longest sequence that this form finds. Longer ones are for averages of megabytes.
pub(super) const SEQ_LENGTH_MOST: u32 = 1 << STEPS;

/// Steps of [`Scan::complete_runs`]: each can double the length of the runs found.
const STEPS: usize = 3;

/// A number of descents that no data has.
const NO_SKIPS: u32 = u32::MAX;

/// Pairs beyond twice the trigger, of which half would be descents. With them, two blocks hold 98
/// of 100 skips on random data.
const SPARE: u32 = 12;

/// The constants of a scan.
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
    /// Which of those extend it: one bit for each bit set in `moving`.
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
                    // No run (0) wraps round to the largest number, and so counts as after the
                    // skip: one branch less to predict.
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

    /// Searches a segment for a boundary, block after block, until the next skip or the end of the
    /// data. Returns the chunk's end, or as an error where to resume.
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

    /// Returns the masks of 64 - `overlap` pairs, the first of which is `bytes[at..at + 2]`.
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

    /// Returns the history of the pairs until the end of `block`: one bit for each that moved, the
    /// last in the highest bit.
    #[inline(always)]
    fn history(&self, before: u64, block: Block) -> u64 {
        let count = self.vector.count_ones(block.moving);
        // 64 pairs shift the whole history out, and 0 pairs leave it: a plain shift cannot do
        // either.
        before.checked_shr(count).unwrap_or(0) | block.wanted.wrapping_shl(64 - count)
    }

    /// Returns the bits of `wanted` that complete a sequence of ones, counting the bits of
    /// `history` before them.
    #[inline(always)]
    fn complete_runs(&self, history: u64, wanted: u64) -> u64 {
        let (mut before, mut runs) = (history, wanted);
        for shift in self.shifts {
            // With a shift of 0, the runs themselves mask the bits that come down from the history.
            runs &= runs << shift | before.wrapping_shr(64 - shift);
            before &= before << shift;
        }
        runs
    }

    /// Returns the pair that completes the first of these runs, as a bit, or 0 if there is none.
    #[inline(always)]
    fn boundary(&self, block: Block, complete: u64) -> u64 {
        self.vector
            .deposit_bits(complete & complete.wrapping_neg(), block.moving)
    }

    /// Returns the pair that starts the skip, as a bit, if so many opposing pairs came before the
    /// block.
    #[inline(always)]
    fn skip(&self, block: Block, opposing: u32) -> u64 {
        self.vector
            .deposit_bits(1 << (self.skip_trigger - opposing - 1), block.against)
    }
}

/// Returns by how many pairs two blocks overlap, if skips come after so many descents.
fn overlap(skip_trigger: u32) -> u32 {
    let pairs = skip_trigger.saturating_mul(2).saturating_add(SPARE);
    2 * BLOCK as u32 - pairs.clamp(BLOCK as u32 + 1, 2 * BLOCK as u32)
}

/// Returns the shifts after which only the ends of runs of `length` pairs remain.
fn shifts(length: u32) -> [u32; STEPS] {
    let mut known = 1;
    [(); STEPS].map(|()| {
        let shift = known.min(length - known);
        known += shift;
        shift
    })
}
