//! Argmin: a chunk ends after the window whose hash is the least of all between minimum and
//! maximum.
//!
//! No paper of the three has it; the idea is that of the `mincdc` crate, the hashes and what
//! follows are ours. Every length from `size_min` to `size_max` is compared by a hash of the 4 or 8
//! bytes that such a chunk would end with, and the least hash wins. So lengths are spread nearly
//! evenly from minimum to maximum on any data that has 4 or 8 bytes to tell places apart by, and
//! none is forced.
//!
//! - The choice needs all bytes up to `size_max`. With fewer, nothing is decided: **data shorter
//!   than the maximum is one chunk**. If such an end were compared too, a cut found
//!   there could move when more data comes.
//! - Of equal hashes the *last* wins. A run of one byte thus ends with a chunk, or goes on to the
//!   maximum, rather than being cut to pieces of the minimum size.
//! - The hash is 32 bits of multiplications by odd numbers, one for each four bytes read least
//!   significant byte first, and a number added: the highest bits, which count most, depend on all
//!   bits of the window, and zeros have a hash in the upper half.

use crate::{ArgminSettings, ArgminWindow};

/// What the last four bytes are multiplied by: 2^32 over the golden ratio, made odd.
pub(crate) const MULTIPLIER_LAST: u32 = 0x9e37_79b1;
/// What the four bytes before them are multiplied by, in windows of eight.
pub(crate) const MULTIPLIER_FIRST: u32 = 0x85eb_ca77;
/// The hash of zeros.
pub(crate) const ADDEND: u32 = 0xc2b2_ae3d;

/// Length of the first chunk of `data` by argmin.
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

/// The hash of the last bytes of `chunk`.
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
