//! Which bytes will the scan look at next? They are fetched before it comes to them.
//!
//! On random data, as many bytes lie between two skips as between any others, give or take a few,
//! and a few cache lines at the right places do. Other data has a pace of its own, which the skips
//! before tell. Where skips come irregularly, all that lies ahead is fetched. After a cut the next
//! chunk's minimum is known before anything of that chunk is needed.
//!
//! On 1 GiB of random data, most of the time is waiting for memory: fetching far ahead makes cuts
//! of 16 KiB three times as fast. What is fetched and then not needed, since a chunk ended, costs
//! as well: on a Xeon (Sapphire Rapids), 16 skips ahead instead of 6 are a fifth slower.

use ibid_simd::{prefetch, prefetch_far};

use crate::SeqCdcSettings;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Cache lines that are looked at between two skips, their place being uncertain by as much as the
/// next says.
const LINES: usize = 3;
/// Bytes by which a place that skips lead to may differ from where it is expected.
const ASTRAY: usize = 16;
/// How many skips ahead cache lines are fetched from memory, and how many from the start of a
/// chunk.
const SKIPS_AHEAD: usize = 6;

/// How many bytes ahead memory is read where skips come irregularly.
const BYTES_AHEAD: usize = 3072;

/// Bytes of data that are probably in the second-level cache already, because a caller has just put
/// them there. There, fetching takes longer than it saves.
const CACHED: usize = 1 << 20;

/// What lies ahead of the scan of one chunk.
pub(super) struct Ahead<'a> {
    data: &'a [u8],
    in_memory: bool,
    /// Where the scan of a chunk begins.
    first: usize,
    /// Bytes from one skip to the next, if half of the pairs are descents; without skips, a step.
    pitch_random: usize,
    /// Most bytes between two skips for which the part looked at is short.
    pitch_max: usize,
    /// Bytes from one skip to the next, lately.
    pitch: usize,
    /// Whether the last skip was as far as expected, and little to look at before it.
    regular: bool,
}

impl<'a> Ahead<'a> {
    /// Before the scan of the chunk that `data` begins with.
    #[inline(always)]
    pub(super) fn new(settings: &SeqCdcSettings, data: &'a [u8]) -> Self {
        let skip_size = settings.skip_size as usize;
        let pitch = match settings.skip_trigger {
            0 => LINES * LINE,
            trigger => 2 * trigger as usize + skip_size,
        };
        Self {
            data,
            in_memory: data.len() > CACHED,
            first: settings.size_min - settings.seq_length as usize,
            pitch_random: pitch,
            pitch_max: skip_size + (LINES + 1) * LINE,
            pitch,
            regular: true,
        }
    }

    /// The scan looks at `data[right]`, and no skip came lately.
    #[inline(always)]
    pub(super) fn looks_at(&self, right: usize) {
        if self.in_memory && !self.regular {
            prefetch_far(self.data, right + BYTES_AHEAD);
        }
    }

    /// The scan, which began at `from` or skipped to it, skips to `to`.
    #[inline(always)]
    pub(super) fn skips(&mut self, from: usize, to: usize) {
        // With tiny parameters a place may lie before the data, which does no harm.
        let near = (to + self.pitch).wrapping_sub(ASTRAY);
        for line in 0..LINES {
            prefetch(self.data, near.wrapping_add(LINE * line));
        }
        self.learn(to - from);
        if self.in_memory {
            if self.regular {
                self.fetch((to + self.pitch * SKIPS_AHEAD).wrapping_sub(ASTRAY), LINES);
            } else {
                self.fetch(from + BYTES_AHEAD, (to - from).div_ceil(LINE).min(BYTES_AHEAD / LINE));
            }
        }
    }

    /// The next chunk starts at `start`.
    #[inline(always)]
    pub(super) fn cuts(&self, start: usize) {
        if !self.in_memory {
            return;
        }
        let right = start + self.first;
        if self.regular {
            for skip in 0..SKIPS_AHEAD {
                self.fetch((right + self.pitch * skip).wrapping_sub(ASTRAY), LINES);
            }
        } else {
            self.fetch(right, BYTES_AHEAD / LINE);
        }
    }

    /// From one skip to the next it was so many bytes.
    #[inline(always)]
    fn learn(&mut self, distance: usize) {
        let near = |pitch: usize| distance.abs_diff(pitch) <= ASTRAY;
        let (as_random, as_before) = (near(self.pitch_random), near(self.pitch));
        self.pitch = if as_random {
            // Known better than a few skips tell it.
            self.pitch_random
        } else if as_before {
            (3 * self.pitch + distance) / 4
        } else {
            distance
        };
        self.regular = (as_random | as_before) & (distance <= self.pitch_max);
    }

    #[inline(always)]
    fn fetch(&self, at: usize, lines: usize) {
        for line in 0..lines {
            prefetch_far(self.data, at.wrapping_add(LINE * line));
        }
    }
}
