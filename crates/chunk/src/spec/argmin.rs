//! Argmin: a chunk ends after the window with the least hash of all between minimum and maximum.
//!
//! The idea is that of the `mincdc` crate; the hashes and the rules below are ours. Every length
//! from `size_min` to `size_max` is rated by a hash of the 4 or 8 bytes that such a chunk would end
//! with, and the least hash wins. If these bytes differ from place to place, lengths spread nearly
//! evenly from minimum to maximum, and the maximum forces no cut.
//!
//! - The choice needs all bytes up to `size_max`: **data shorter than the maximum is one chunk**.
//!   If shorter data were cut, the cut could move when more data comes.
//! - The *last* of equal hashes wins. A run of one byte thus ends with its chunk or reaches the
//!   maximum, instead of being cut into chunks of the minimum size.
//! - The 32-bit hash multiplies each four bytes, read least significant byte first, by an odd
//!   number of their own, and adds a constant. Its highest bits, which count most, depend on all
//!   bits of the window. The hash of zeros is in the upper half.

use crate::{ArgminSettings, ArgminWindow};

/// The factor of the last four bytes: 2^32 over the golden ratio, made odd.
pub(crate) const MULTIPLIER_LAST: u32 = 0x9e37_79b1;
/// The factor of the four bytes before them, in windows of eight.
pub(crate) const MULTIPLIER_FIRST: u32 = 0x85eb_ca77;
/// The hash of zeros.
pub(crate) const ADDEND: u32 = 0xc2b2_ae3d;

/// Returns the length of the first chunk of `data` by argmin.
///
/// # Panics
/// Unless the window fits in `size_min` and `size_min <= size_max`.
#[must_use]
pub fn argmin(settings: &ArgminSettings, data: &[u8]) -> usize {
    let ArgminSettings {
        size_min,
        size_max,
        window,
        ..
    } = *settings;
    assert!(window.bytes() <= size_min && size_min <= size_max);
    if data.len() < size_max {
        return data.len();
    }

    let mut best = size_min;
    for len in size_min..=size_max {
        if hash(window, &data[..len]) <= hash(window, &data[..best]) {
            best = len;
        }
    }
    best
}

/// Returns the hash of the last bytes of `chunk`.
fn hash(window: ArgminWindow, chunk: &[u8]) -> u32 {
    let four = |from_end: usize| {
        let at = chunk.len() - from_end;
        u32::from_le_bytes([chunk[at], chunk[at + 1], chunk[at + 2], chunk[at + 3]])
    };
    let last = four(4).wrapping_mul(MULTIPLIER_LAST).wrapping_add(ADDEND);
    match window {
        ArgminWindow::Bytes4 => last,
        ArgminWindow::Bytes8 => last.wrapping_add(four(8).wrapping_mul(MULTIPLIER_FIRST)),
    }
}
