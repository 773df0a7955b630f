//! Argmin at speed: the cuts of [`spec::argmin`](crate::spec::argmin).
//!
//! A register of 32-bit numbers holds every fourth window, so four loads, one byte apart, cover
//! all. Windows are hashed in blocks of 64. For each block the kernel only asks whether its least
//! hash is as small as the least so far, which holds some five times in a chunk. At the end it
//! searches the last such block for the place.

use ibid_simd::{BLOCK, Backend, Kernel, Vector};

use crate::bytes::{Search, Vectors};
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
    if data.len() < size_max {
        return data.len();
    }
    let from = size_min - window.bytes();
    let bytes = &data[from..size_max];
    let found = match window {
        ArgminWindow::Bytes4 => backend.run(LastLeast::<4> { data, from, bytes }),
        ArgminWindow::Bytes8 => backend.run(LastLeast::<8> { data, from, bytes }),
    };
    size_min + found
}

/// Bytes to prefetch ahead of the search, and of the next chunk once the cut is known.
const AHEAD: usize = 4096;

/// The search for the position of the last window of `N` bytes in `bytes` with the least hash.
struct LastLeast<'a, const N: usize> {
    data: &'a [u8],
    /// The position of `bytes` in `data`.
    from: usize,
    bytes: &'a [u8],
}

impl<const N: usize> Kernel for LastLeast<'_, N> {
    type Output = usize;

    fn run_scalar(self) -> usize {
        last_least::<N>(self.bytes).1
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> usize {
        let search = Vectors(vector);
        let windows = (self.bytes.len() + 1).saturating_sub(N);
        let rest = windows / BLOCK * BLOCK;
        let (least, block) = self.least_block(search, rest);
        // Finds the place in that block, or among the windows that fill no block.
        let (least_of_rest, found) = last_least::<N>(&self.bytes[rest..]);
        let found = if least_of_rest <= least && rest < windows {
            rest + found
        } else {
            block + last_least::<N>(&self.bytes[block..block + BLOCK + N - 1]).1
        };
        search.fetch(self.data, 2 * self.from + found, AHEAD);
        found
    }
}

impl<const N: usize> LastLeast<'_, N> {
    /// Returns the least hash of the first `windows`, which fill whole blocks, and the last block
    /// that has it.
    #[inline(always)]
    fn least_block<V: Vector>(&self, search: Vectors<V>, windows: usize) -> (u32, usize) {
        let Vectors(vector) = search;
        let mut best = (u32::MAX, 0);
        let mut least = vector.splat_u32(best.0);
        for at in (0..windows).step_by(BLOCK) {
            search.fetch(self.data, self.from + at + AHEAD, BLOCK);
            let bytes = &self.bytes[at..at + BLOCK + N - 1];
            let mut of_block = hashes::<V, N>(vector, bytes, 0);
            for part in (0..BLOCK).step_by(V::LANES) {
                for offset in 0..4 {
                    of_block = vector.min_u32(of_block, hashes::<V, N>(vector, bytes, part + offset));
                }
            }
            // A number of the block is as small as the least if it equals the minimum of the two in
            // all four bytes.
            let smaller = vector.min_u32(of_block, least);
            if has_equal_numbers(vector.equal(smaller, of_block)) {
                best = (vector.least_u32(of_block), at);
                least = vector.splat_u32(best.0);
            }
        }
        best
    }
}

/// Returns the hashes of the windows at `at` and every fourth place after it, one for each 32 bits
/// of a register.
#[inline(always)]
fn hashes<V: Vector, const N: usize>(vector: V, bytes: &[u8], at: usize) -> V::Register {
    let (first, last) = (vector.splat_u32(MULTIPLIER_FIRST), vector.splat_u32(MULTIPLIER_LAST));
    let addend = vector.splat_u32(ADDEND);
    let hash = vector.multiply_add_u32(vector.load(bytes, at + N - 4), last, addend);
    match N {
        4 => hash,
        _ => vector.multiply_add_u32(vector.load(bytes, at), first, hash),
    }
}

/// Whether all four bits of some number are set.
#[inline(always)]
fn has_equal_numbers(equal: u64) -> bool {
    equal & equal >> 1 & equal >> 2 & equal >> 3 & 0x1111_1111_1111_1111 != 0
}

/// Returns the least hash of all windows, and the position of the last that has it.
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
