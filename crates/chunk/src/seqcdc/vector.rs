//! SeqCDC with vector instructions.
//!
//! As in the scalar form a block of 64 pairs becomes masks. Runs are found otherwise: the pairs that
//! equal neighbours make are taken out of the mask of ascents, so that runs are consecutive bits, and
//! the mask is joined with what came out of the blocks before it since the last skip. Then ANDs with
//! shifts of itself leave the last bit of every run that is long enough.
//!
//! *What takes time* is the way from a position to the next: load, compare, count, find the descent
//! that starts the skip, load there. So
//!
//! - two blocks are looked at together, since most skips start in the second: one branch for all that
//!   usually happens, and nothing to remember between them;
//! - the places where scanning is likely to go on are fetched ahead, from nearby and from far away. On
//!   random data, as many bytes lie between two skips as between any others, give or take a few, and a
//!   few cache lines at the right places do. Where skips come irregularly, all that lies ahead is
//!   fetched. After a cut the next chunk's minimum is known before anything of that chunk is needed.
//!
//! On 1 GiB of random data, most of the time is waiting for memory: fetching far ahead makes cuts of
//! 16 KiB three times as fast.

use ibid_simd::{BLOCK, Vector};

use super::padded;
use crate::SeqCdcSettings;

/// The longest sequence that is found here. Longer ones are for averages of megabytes.
pub(super) const SEQ_LENGTH_MOST: u32 = 1 << STEPS;

/// Each can double the length of the runs that are known.
const STEPS: usize = 3;

/// A number of descents that no data has.
const NO_SKIPS: u32 = u32::MAX;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Cache lines that two blocks touch, and as much again as their place is uncertain by.
const LINES_NEAR: usize = 3;
/// The same some skips later.
const LINES_FAR: usize = 4;
/// How many skips ahead cache lines are fetched from memory, and how many from the start of a chunk.
/// Few chunks have more; with fewer, memory is not busy all the time.
const SKIPS_AHEAD: usize = 16;

/// How many bytes ahead memory is read where skips come irregularly.
const BYTES_AHEAD: usize = 6144;

/// Bytes of data that are probably in the second-level cache already, since somebody has just put
/// them there. There, fetching takes longer than it saves.
const CACHED: usize = 1 << 20;

/// What does not change during a scan.
struct Scan<'a, V> {
    vector: V,
    data: &'a [u8],
    size_min: usize,
    seq_length: usize,
    skip_trigger: u32,
    skip_size: usize,
    shifts: [u32; STEPS],
    /// Bytes from one skip to the next, if half of the pairs are descents; without skips, a step.
    pitch: usize,
}

/// The masks of 64 pairs, first pair in the lowest bit.
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
    let skip_size = settings.skip_size as usize;
    let (skip_trigger, pitch) = match settings.skip_trigger {
        0 => (NO_SKIPS, LINES_FAR * LINE),
        trigger => (trigger, 2 * trigger as usize + skip_size),
    };
    let scan = Scan {
        vector,
        data,
        size_min: settings.size_min,
        seq_length: settings.seq_length as usize,
        skip_trigger,
        skip_size,
        shifts: shifts(settings.seq_length),
        pitch,
    };
    scan.run::<DECREASING, STRICT>(end)
}

impl<V: Vector> Scan<'_, V> {
    #[inline(always)]
    fn run<const DECREASING: bool, const STRICT: bool>(&self, end: usize) -> usize {
        let window = &self.data[..end];
        // A segment's first pair is (window[right - 1], window[right]).
        let mut right = self.size_min - self.seq_length;
        // Whether skips have come as regularly as on random data, lately.
        let mut regular = true;
        while right < end {
            if let Some(bytes) = window[right - 1..].first_chunk::<{ 2 * BLOCK + 1 }>() {
                let first = self.block::<DECREASING, STRICT>(bytes, 0);
                let second = self.block::<DECREASING, STRICT>(bytes, BLOCK);
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
                        self.fetch_chunk(cut, regular);
                        return cut;
                    }
                    let next = right + BLOCK + skip.trailing_zeros() as usize + 1 + self.skip_size;
                    regular = self.fetch_segment(right, next);
                    right = next;
                    continue;
                }
            }
            match self.segment::<DECREASING, STRICT>(window, right) {
                Ok(cut) => {
                    self.fetch_chunk(cut, regular);
                    return cut;
                }
                Err(next) => {
                    regular = self.fetch_segment(right, next);
                    right = next;
                }
            }
        }
        self.fetch_chunk(end, false);
        end
    }

    /// Looks for a boundary in a segment, block after block until the next skip or the end of the
    /// data: the chunk's end, or where to go on.
    #[inline(always)]
    fn segment<const DECREASING: bool, const STRICT: bool>(&self, window: &[u8], right: usize) -> Result<usize, usize> {
        let mut right = right;
        let mut history = 0;
        let mut opposing = 0;
        while right < window.len() {
            let block = match window[right - 1..].first_chunk::<{ BLOCK + 1 }>() {
                Some(bytes) => self.block::<DECREASING, STRICT>(bytes, 0),
                None => self.block::<DECREASING, STRICT>(&padded(&window[right - 1..]), 0),
            };
            if self.in_memory() {
                self.vector.prefetch_far(self.data, right + BYTES_AHEAD);
            }
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

    /// The 64 pairs of which the first is `bytes[at..at + 2]`.
    #[inline(always)]
    fn block<const DECREASING: bool, const STRICT: bool>(&self, bytes: &[u8], at: usize) -> Block {
        let rises = self.vector.block_below(bytes, at, bytes, at + 1);
        let falls = self.vector.block_below(bytes, at + 1, bytes, at);
        let (wanted, against) = if DECREASING { (falls, rises) } else { (rises, falls) };
        let moving = if STRICT { u64::MAX } else { wanted | against };
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

    /// The bits of `wanted` that are the last of as many ones in a row as make a sequence, with those
    /// of `history` before them.
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

    /// Fetches what the scan will need after it went on from one place to the next, and says whether
    /// that was as far as expected.
    #[inline(always)]
    fn fetch_segment(&self, from: usize, to: usize) -> bool {
        // With tiny parameters a place may lie before the data, which does no harm.
        let near = (to + self.pitch).wrapping_sub(LINE / 2);
        for line in 0..LINES_NEAR {
            self.vector.prefetch(self.data, near.wrapping_add(LINE * line));
        }
        let regular = (to - from).abs_diff(self.pitch) <= LINE / 4;
        if self.in_memory() {
            if regular {
                self.fetch_lines((to + self.pitch * SKIPS_AHEAD).wrapping_sub(LINE / 2), LINES_FAR);
            } else {
                self.fetch_lines(from + BYTES_AHEAD, (to - from).div_ceil(LINE).min(BYTES_AHEAD / LINE));
            }
        }
        regular
    }

    /// Fetches what the scan of a chunk that starts at `start` will need first.
    #[inline(always)]
    fn fetch_chunk(&self, start: usize, regular: bool) {
        if !self.in_memory() {
            return;
        }
        let right = start + self.size_min - self.seq_length;
        if regular {
            for skip in 0..SKIPS_AHEAD {
                self.fetch_lines((right + self.pitch * skip).wrapping_sub(LINE / 2), LINES_FAR);
            }
        } else {
            self.fetch_lines(right, BYTES_AHEAD / LINE);
        }
    }

    #[inline(always)]
    fn fetch_lines(&self, at: usize, lines: usize) {
        for line in 0..lines {
            self.vector.prefetch_far(self.data, at.wrapping_add(LINE * line));
        }
    }

    /// Whether there is so much data that it was probably not put into a cache just now.
    #[inline(always)]
    fn in_memory(&self) -> bool {
        self.data.len() > CACHED
    }
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
