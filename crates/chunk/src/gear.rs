//! Gear's rolling hash at speed: finds the first byte at which all masked bits are zero, two lanes
//! at a time.
//!
//! Each hash needs the hash of the byte before, and a plain loop waits for that chain. Two
//! techniques break it:
//!
//! - *Lanes.* The 64 bytes that follow a byte shift it out of the hash, so a hash can be started
//!   anywhere, 64 bytes before its first test. A block is two lanes of 512 bytes. The first lane
//!   continues the hash of the block before, the second starts on the end of the first, and both
//!   are tested side by side. When either meets a boundary, a second search finds the first one by
//!   position. That costs less than a register to note it in every turn.
//! - *Steps.* Eight bytes take one shift of the hash by eight, after which each byte is added
//!   already shifted to its place: for a byte with n more to come in the step, the hash, the table
//!   and the mask are n bits further left. This extends the "rolling two bytes" of FastCDC's paper
//!   (section 3.7) to eight.
//!
//! The loop is then bound by two loads for each byte: its value and its table entry. More lanes
//! gain nothing. Longer lanes gain only if chunks are large, since a boundary in one lane wastes
//! the work of the other. Eight lanes in a register, with gathered table entries, measured several
//! times slower: see `windowed/gear.rs`.

use crate::spec::GEAR;

/// Bytes for each shift of the hash.
pub(crate) const STEP: usize = 8;
/// Bytes of a lane.
const LANE: usize = 512;
/// Bytes that decide a hash: so many later bytes shift each one out.
pub(crate) const WINDOW: usize = 64;

/// Whether the scan looks for zeros or for ones under the mask.
pub(crate) trait Sums {
    /// The addends of a step's bytes, each shifted by the number of bytes that follow in the step.
    const SHIFTED: &'static [[u64; 256]; STEP];
}

/// The hash itself: the scan looks for a byte at which all masked bits are zero.
pub(crate) struct Plain;

/// The hash with every bit inverted: the scan looks for a byte at which all masked bits are set.
///
/// The inverse of 2h + g is twice the inverse of h, plus 1 - g: a hash of the same kind.
pub(crate) struct Inverted;

impl Sums for Plain {
    const SHIFTED: &'static [[u64; 256]; STEP] = &SHIFTED;
}

impl Sums for Inverted {
    const SHIFTED: &'static [[u64; 256]; STEP] = &SHIFTED_INVERTED;
}

static SHIFTED: [[u64; 256]; STEP] = shifted(false);
static SHIFTED_INVERTED: [[u64; 256]; STEP] = shifted(true);

const fn shifted(inverted: bool) -> [[u64; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut place = 0;
    while place < STEP {
        let mut byte = 0;
        while byte < 256 {
            let addend = GEAR[byte];
            let addend = if inverted { 1u64.wrapping_sub(addend) } else { addend };
            tables[place][byte] = addend << (STEP - 1 - place);
            byte += 1;
        }
        place += 1;
    }
    tables
}

/// Returns the addend of each byte.
pub(crate) fn addends<S: Sums>() -> &'static [u64; 256] {
    &S::SHIFTED[STEP - 1]
}

/// Returns the hash after `window`; only its last 64 bytes matter.
pub(crate) fn start<S: Sums>(window: &[u8]) -> u64 {
    window
        .iter()
        .fold(0, |hash: u64, byte| (hash << 1).wrapping_add(byte_addend::<S>(*byte)))
}

/// Whether the mask can be shifted by a step without losing a bit. Only then is [`scan`] fast.
pub(crate) fn has_room(mask: u64) -> bool {
    mask.leading_zeros() >= STEP as u32
}

/// Returns the position of the first byte of `bytes` at which the rolling `hash` has no bit of
/// `mask`.
pub(crate) fn scan<S: Sums>(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    // All masks of FastCDC have room.
    if !has_room(mask) {
        return scan_bytes::<S>(bytes, hash, mask);
    }
    let (blocks, rest) = bytes.as_chunks();
    let mut at = 0;
    for block in blocks {
        if let Some(found) = scan_block::<S>(block, hash, mask) {
            return Some(at + found);
        }
        at += block.len();
    }
    Some(at + scan_lane::<S>(rest, hash, mask)?)
}

/// Does [`scan`] for a block of two lanes.
#[inline(never)]
fn scan_block<S: Sums>(block: &[u8; 2 * LANE], hash: &mut u64, mask: u64) -> Option<usize> {
    let masks = shifted_masks(mask);
    let (steps, _) = block.as_chunks();
    let (first, second) = steps.split_at(LANE / STEP);
    let mut first_hash = *hash;
    let mut second_hash = hash_after::<S>(first, 0);
    for (turn, (of_first, of_second)) in first.iter().zip(second).enumerate() {
        if roll::<S>(&mut first_hash, of_first, &masks) || roll::<S>(&mut second_hash, of_second, &masks) {
            return Some(find_in_block::<S>(block, *hash, mask, turn * STEP));
        }
    }
    *hash = second_hash;
    None
}

/// Returns the first boundary of a block that has one, but none among the first `passed` bytes of
/// either lane. `hash` is the hash before the block.
#[cold]
fn find_in_block<S: Sums>(block: &[u8; 2 * LANE], hash: u64, mask: u64, passed: usize) -> usize {
    for (start, end) in [(passed, LANE), (LANE + passed, 2 * LANE)] {
        let (before, after) = block[..end].split_at(start);
        let (steps, _) = before.as_chunks();
        let mut hash = hash_after::<S>(steps, hash);
        if let Some(found) = scan_lane::<S>(after, &mut hash, mask) {
            return start + found;
        }
    }
    unreachable!("a lane stopped at a boundary")
}

/// Does [`scan`] for one lane of any length.
fn scan_lane<S: Sums>(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    let masks = shifted_masks(mask);
    let (steps, rest) = bytes.as_chunks();
    let mut at = 0;
    for step in steps {
        let before = *hash;
        if roll::<S>(hash, step, &masks) {
            *hash = before;
            return Some(at + scan_bytes::<S>(step, hash, mask)?);
        }
        at += STEP;
    }
    Some(at + scan_bytes::<S>(rest, hash, mask)?)
}

/// Does [`scan`] byte by byte.
fn scan_bytes<S: Sums>(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    bytes.iter().position(|byte| {
        *hash = (*hash << 1).wrapping_add(byte_addend::<S>(*byte));
        *hash & mask == 0
    })
}

/// Returns the hash after `steps`. Only the last 64 bytes count; the `hash` before counts if
/// `steps` has fewer.
#[inline]
fn hash_after<S: Sums>(steps: &[[u8; STEP]], hash: u64) -> u64 {
    let last = &steps[steps.len().saturating_sub(WINDOW / STEP)..];
    last.iter().fold(hash, |hash, step| {
        (0..STEP).fold(hash << STEP, |hash, place| hash.wrapping_add(addend::<S>(step, place)))
    })
}

/// Rolls `hash` by a step and returns whether one of its bytes is a boundary. If so, the hash is
/// void.
#[inline(always)]
fn roll<S: Sums>(hash: &mut u64, step: &[u8; STEP], masks: &[u64; STEP]) -> bool {
    *hash <<= STEP;
    (0..STEP).any(|place| {
        *hash = hash.wrapping_add(addend::<S>(step, place));
        *hash & masks[place] == 0
    })
}

#[inline(always)]
fn addend<S: Sums>(step: &[u8; STEP], place: usize) -> u64 {
    S::SHIFTED[place][usize::from(step[place])]
}

#[inline(always)]
fn byte_addend<S: Sums>(byte: u8) -> u64 {
    addends::<S>()[usize::from(byte)]
}

#[inline]
fn shifted_masks(mask: u64) -> [u64; STEP] {
    core::array::from_fn(|place| mask << (STEP - 1 - place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error in the lowest bit would change one cut in four billion.
    #[test]
    fn inverted_sums_are_the_inverse_of_the_sums() {
        for seed in 0..100u8 {
            let window: [u8; WINDOW] = core::array::from_fn(|at| seed.wrapping_mul(at as u8).wrapping_add(seed));
            assert_eq!(start::<Inverted>(&window), !start::<Plain>(&window));
        }
    }
}
