//! Argmin at speed: the cuts of [`spec::argmin`](crate::spec::argmin).
//!
//! A register of numbers of four bytes holds every fourth window; four loads, a byte apart, hold all.
//! Windows are hashed a block of 64 at a time. Only whether a block's least hash is as small as the
//! least so far is asked, which happens some five times in a chunk; in the last such block the place
//! is searched for at the end.

use ibid_simd::{BLOCK, Backend, Kernel, Vector};

use crate::spec::{ADDEND, MULTIPLIER_FIRST, MULTIPLIER_LAST};
use crate::{ArgminSettings, ArgminWindow};

/// See [`spec::argmin`](crate::spec::argmin).
pub(crate) fn cut(backend: Backend, settings: &ArgminSettings, data: &[u8]) -> usize {
    let ArgminSettings {
        size_min,
        size_max,
        window,
        ..
    } = *settings;
    let Some(data) = data.get(..size_max) else {
        return data.len();
    };
    let bytes = &data[size_min - window.bytes()..];
    let found = match window {
        ArgminWindow::Bytes4 => backend.run(LastLeast::<4> { bytes }),
        ArgminWindow::Bytes8 => backend.run(LastLeast::<8> { bytes }),
    };
    size_min + found
}

/// The search for the last window of `N` bytes whose hash is least: its position.
struct LastLeast<'a, const N: usize> {
    bytes: &'a [u8],
}

impl<const N: usize> Kernel for LastLeast<'_, N> {
    type Output = usize;

    fn run_scalar(self) -> usize {
        last_least::<N>(self.bytes).1
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> usize {
        let addend = vector.splat_u32(ADDEND);
        let [first, last] = [MULTIPLIER_FIRST, MULTIPLIER_LAST].map(|number| vector.splat_u32(number));
        let hash = |at| {
            let sum = vector.multiply_add_u32(vector.load(self.bytes, at + N - 4), last, addend);
            match N {
                4 => sum,
                _ => vector.multiply_add_u32(vector.load(self.bytes, at), first, sum),
            }
        };

        let windows = (self.bytes.len() + 1).saturating_sub(N);
        let mut least = u32::MAX;
        let mut least_everywhere = vector.splat_u32(least);
        let mut block = 0;
        for at in (0..windows / BLOCK * BLOCK).step_by(BLOCK) {
            let mut of_block = hash(at);
            for part in (0..BLOCK).step_by(V::LANES) {
                for offset in 0..4 {
                    of_block = vector.min_u32(of_block, hash(at + part + offset));
                }
            }
            // Some number as small as the least: the smaller of the two, in all four bytes.
            let smaller = vector.min_u32(of_block, least_everywhere);
            if has_equal_numbers(vector.equal(smaller, of_block)) {
                least = least.min(vector.least_u32(of_block));
                least_everywhere = vector.splat_u32(least);
                block = at;
            }
        }

        // The block that has it, or the windows that fill no block.
        let rest = windows / BLOCK * BLOCK;
        let (least_of_rest, found) = last_least::<N>(&self.bytes[rest..]);
        if least_of_rest <= least && rest < windows {
            return rest + found;
        }
        block + last_least::<N>(&self.bytes[block..block + BLOCK + N - 1]).1
    }
}

/// Whether four bits that belong to one number are all set.
#[inline(always)]
fn has_equal_numbers(equal: u64) -> bool {
    equal & equal >> 1 & equal >> 2 & equal >> 3 & 0x1111_1111_1111_1111 != 0
}

/// The least hash of all windows, and the position of the last that has it.
#[inline(always)]
fn last_least<const N: usize>(bytes: &[u8]) -> (u32, usize) {
    let mut best = (u32::MAX, 0);
    for (at, window) in bytes.windows(N).enumerate() {
        let number =
            |from: usize| u32::from_le_bytes([window[from], window[from + 1], window[from + 2], window[from + 3]]);
        let mut hash = number(N - 4).wrapping_mul(MULTIPLIER_LAST).wrapping_add(ADDEND);
        if N == 8 {
            hash = hash.wrapping_add(number(0).wrapping_mul(MULTIPLIER_FIRST));
        }
        if hash <= best.0 {
            best = (hash, at);
        }
    }
    best
}
