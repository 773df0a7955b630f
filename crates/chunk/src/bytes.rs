//! Searches for extreme bytes, written so that a compiler can turn them into vector instructions.

/// Bytes compared at once before one asks whether any fits.
const BLOCK: usize = 64;

/// The largest byte, 0 if there is none.
#[inline]
pub(crate) fn largest(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |largest, byte| largest.max(*byte))
}

/// Position of the first byte that is `least` or larger.
#[inline]
pub(crate) fn first_from(bytes: &[u8], least: u8) -> Option<usize> {
    first(bytes, |block| largest(block) >= least, |byte| byte >= least)
}

/// Position of the first byte that is `most` or smaller.
#[inline]
pub(crate) fn first_upto(bytes: &[u8], most: u8) -> Option<usize> {
    let smallest = |block: &[u8; BLOCK]| block.iter().fold(u8::MAX, |smallest, byte| smallest.min(*byte));
    first(bytes, |block| smallest(block) <= most, |byte| byte <= most)
}

/// Position of the first byte that fits, where `any` says whether there is one in a block.
#[inline(always)]
fn first(bytes: &[u8], any: impl Fn(&[u8; BLOCK]) -> bool, fits: impl Fn(u8) -> bool) -> Option<usize> {
    let (blocks, rest) = bytes.as_chunks();
    for (number, block) in blocks.iter().enumerate() {
        if any(block) {
            return Some(number * BLOCK + block.iter().position(|byte| fits(*byte))?);
        }
    }
    Some(blocks.len() * BLOCK + rest.iter().position(|byte| fits(*byte))?)
}
