//! The sums of Gear at speed: the first byte at which masked bits are all zero, two lanes at a
//! time.
//!
//! The hash of one byte needs the hash of the byte before, and that chain is what a plain loop
//! waits for. Two things loosen it:
//!
//! - *Lanes.* A byte is shifted out of the hash by the 64 that follow it, so a hash can be started
//!   anywhere, 64 bytes ahead of where it is first judged. A block is two lanes of 512 bytes: the
//!   first goes on with the hash of the block before, the second is started on the end of the
//!   first, and both are judged side by side. When either meets a boundary, the first one in order
//!   of position is looked for again, which costs less than a register to note it in every turn.
//! - *Steps.* Eight bytes are one shift of the hash by eight, after which each byte is added
//!   already shifted to its place: a byte with n more to come in the step finds hash, table and
//!   mask n bits further left. That is the "rolling two bytes" of FastCDC's paper (section 3.7),
//!   taken to eight.
//!
//! What bounds the loop then is two loads for every byte: its value and its table entry. More lanes
//! gain nothing, and longer ones only where chunks are large: a boundary in one lane makes the work
//! of the other vain. Eight lanes in a register, whose entries are gathered, are slower by far
//! where they were measured: see `windowed/gear.rs`.

use crate::spec::GEAR;

/// Bytes to one shift of the hash.
pub(crate) const STEP: usize = 8;
/// Bytes of a lane.
const LANE: usize = 512;
/// Bytes that decide a hash: each of its bits has been shifted out after as many.
pub(crate) const WINDOW: usize = 64;

/// Which bits of the sums are judged.
pub(crate) trait Sums {
    /// What a step adds for each of its bytes, shifted by the bytes that follow in the step.
    const SHIFTED: &'static [[u64; 256]; STEP];
}

/// The sums themselves: a byte is looked for at which all masked bits are zero.
pub(crate) struct Plain;

/// The sums with every bit inverted: a byte is looked for at which all masked bits are set.
///
/// Inverted, 2h + g is twice the inverse of h, and 1 - g. That is a sum of the same kind.
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

/// What each byte adds to the hash.
pub(crate) fn addends<S: Sums>() -> &'static [u64; 256] {
    &S::SHIFTED[STEP - 1]
}

/// Hashes the last bytes of `window`: as many as the hash has bits.
pub(crate) fn start<S: Sums>(window: &[u8]) -> u64 {
    window
        .iter()
        .fold(0, |hash: u64, byte| (hash << 1).wrapping_add(byte_addend::<S>(*byte)))
}

/// Whether a mask can be moved by a step and lose no bit, which is what makes [`scan`] fast.
pub(crate) fn has_room(mask: u64) -> bool {
    mask.leading_zeros() >= STEP as u32
}

/// Position of the first byte of `bytes` at which `hash`, rolled on, has no bit of `mask`.
pub(crate) fn scan<S: Sums>(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    // No mask of FastCDC's comes here.
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

/// As [`scan`], for a block of two lanes.
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

/// The first boundary of a block that has one, but none among the first `passed` bytes of either
/// lane. `hash` is that before the block.
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

/// As [`scan`], for one lane of any length.
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

/// As [`scan`], byte by byte.
fn scan_bytes<S: Sums>(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    bytes.iter().position(|byte| {
        *hash = (*hash << 1).wrapping_add(byte_addend::<S>(*byte));
        *hash & mask == 0
    })
}

/// The hash after `steps`, of which only the last ones count, and `hash` before them only when they
/// are few.
#[inline]
fn hash_after<S: Sums>(steps: &[[u8; STEP]], hash: u64) -> u64 {
    let last = &steps[steps.len().saturating_sub(WINDOW / STEP)..];
    last.iter().fold(hash, |hash, step| {
        (0..STEP).fold(hash << STEP, |hash, place| hash.wrapping_add(addend::<S>(step, place)))
    })
}

/// Rolls `hash` on by a step and says whether a byte of it is a boundary. If so, the hash is void.
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

    /// One wrong in the lowest bit would show in one cut of four billion.
    #[test]
    fn inverted_sums_are_the_inverse_of_the_sums() {
        for seed in 0..100u8 {
            let window: [u8; WINDOW] = core::array::from_fn(|at| seed.wrapping_mul(at as u8).wrapping_add(seed));
            assert_eq!(start::<Inverted>(&window), !start::<Plain>(&window));
        }
    }
}
