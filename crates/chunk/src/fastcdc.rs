//! FastCDC at speed: the cuts of [`spec::fastcdc`](crate::spec::fastcdc), two lanes at a time.
//!
//! The hash of one byte needs the hash of the byte before, and that chain is what a plain loop
//! waits for. Two things loosen it:
//!
//! - *Lanes.* A byte is shifted out of the hash by the 64 that follow it, so a hash can be started
//!   anywhere, 64 bytes ahead of where it is first judged. A block is two lanes of 512 bytes: the
//!   first goes on with the hash of the block before, the second is started on the end of the first,
//!   and both are judged side by side. When either meets a boundary, the first one in order of
//!   position is looked for again, which costs less than a register to note it in every turn.
//! - *Steps.* Eight bytes are one shift of the hash by eight, after which each byte is added already
//!   shifted to its place: a byte with n more to come in the step finds hash, table and mask n bits
//!   further left. That is the "rolling two bytes" of the paper (section 3.7), taken to eight.
//!
//! What bounds the loop then is two loads for every byte: its value and its table entry. More lanes
//! gain nothing, and longer ones only where chunks are large: a boundary in one lane makes the work
//! of the other vain.

use crate::spec::{FastCdcParameters, GEAR};

/// Bytes to one shift of the hash.
const STEP: usize = 8;
/// Bytes of a lane.
const LANE: usize = 512;
/// Bytes that decide a hash: each of its bits has been shifted out after as many.
const WINDOW: usize = 64;

/// What a step adds for each of its bytes: [`GEAR`], shifted by the bytes that follow in the step.
static SHIFTED: [[u64; 256]; STEP] = shifted();

const fn shifted() -> [[u64; 256]; STEP] {
    let mut tables = [[0; 256]; STEP];
    let mut place = 0;
    while place < STEP {
        let mut byte = 0;
        while byte < 256 {
            tables[place][byte] = GEAR[byte] << (STEP - 1 - place);
            byte += 1;
        }
        place += 1;
    }
    tables
}

/// See [`spec::fastcdc`](crate::spec::fastcdc).
pub(crate) fn cut(parameters: &FastCdcParameters, data: &[u8]) -> usize {
    let FastCdcParameters {
        size_min,
        size_average,
        size_max,
        ..
    } = *parameters;
    let end = data.len().min(size_max);
    if end <= size_min {
        return end;
    }
    let judged = end - end % 2;
    let middle = size_average.clamp(size_min, judged);

    let mut hash = 0;
    if let Some(found) = scan(&data[size_min..middle], &mut hash, parameters.mask_strict) {
        return size_min + found;
    }
    if let Some(found) = scan(&data[middle..judged], &mut hash, parameters.mask_loose) {
        return middle + found;
    }
    end
}

/// Position of the first byte of `bytes` at which `hash`, rolled on, has no bit of `mask`.
fn scan(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    // Any mask that settings stand for has its bits far below: it can move by a step and lose none.
    if mask.leading_zeros() < STEP as u32 {
        return scan_bytes(bytes, hash, mask);
    }
    let (blocks, rest) = bytes.as_chunks();
    let mut at = 0;
    for block in blocks {
        if let Some(found) = scan_block(block, hash, mask) {
            return Some(at + found);
        }
        at += block.len();
    }
    Some(at + scan_lane(rest, hash, mask)?)
}

/// As [`scan`], for a block of two lanes.
#[inline(never)]
fn scan_block(block: &[u8; 2 * LANE], hash: &mut u64, mask: u64) -> Option<usize> {
    let masks = shifted_masks(mask);
    let (steps, _) = block.as_chunks();
    let (first, second) = steps.split_at(LANE / STEP);
    let mut first_hash = *hash;
    let mut second_hash = hash_after(first, 0);
    for (turn, (of_first, of_second)) in first.iter().zip(second).enumerate() {
        if roll(&mut first_hash, of_first, &masks) || roll(&mut second_hash, of_second, &masks) {
            return Some(find_in_block(block, *hash, mask, turn * STEP));
        }
    }
    *hash = second_hash;
    None
}

/// The first boundary of a block that has one, but none among the first `passed` bytes of either
/// lane. `hash` is that before the block.
#[cold]
fn find_in_block(block: &[u8; 2 * LANE], hash: u64, mask: u64, passed: usize) -> usize {
    for (start, end) in [(passed, LANE), (LANE + passed, 2 * LANE)] {
        let (before, after) = block[..end].split_at(start);
        let (steps, _) = before.as_chunks();
        let mut hash = hash_after(steps, hash);
        if let Some(found) = scan_lane(after, &mut hash, mask) {
            return start + found;
        }
    }
    unreachable!("a lane stopped at a boundary")
}

/// As [`scan`], for one lane of any length.
fn scan_lane(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    let masks = shifted_masks(mask);
    let (steps, rest) = bytes.as_chunks();
    let mut at = 0;
    for step in steps {
        let before = *hash;
        if roll(hash, step, &masks) {
            *hash = before;
            return Some(at + scan_bytes(step, hash, mask)?);
        }
        at += STEP;
    }
    Some(at + scan_bytes(rest, hash, mask)?)
}

/// As [`scan`], byte by byte.
fn scan_bytes(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    bytes.iter().position(|byte| {
        *hash = (*hash << 1).wrapping_add(GEAR[usize::from(*byte)]);
        *hash & mask == 0
    })
}

/// The hash after `steps`, of which only the last ones count, and `hash` before them only when they
/// are few.
#[inline]
fn hash_after(steps: &[[u8; STEP]], hash: u64) -> u64 {
    let last = &steps[steps.len().saturating_sub(WINDOW / STEP)..];
    last.iter().fold(hash, |hash, step| {
        (0..STEP).fold(hash << STEP, |hash, place| hash.wrapping_add(addend(step, place)))
    })
}

/// Rolls `hash` on by a step and says whether a byte of it is a boundary. If so, the hash is void.
#[inline(always)]
fn roll(hash: &mut u64, step: &[u8; STEP], masks: &[u64; STEP]) -> bool {
    *hash <<= STEP;
    (0..STEP).any(|place| {
        *hash = hash.wrapping_add(addend(step, place));
        *hash & masks[place] == 0
    })
}

#[inline(always)]
fn addend(step: &[u8; STEP], place: usize) -> u64 {
    SHIFTED[place][usize::from(step[place])]
}

#[inline]
fn shifted_masks(mask: u64) -> [u64; STEP] {
    core::array::from_fn(|place| mask << (STEP - 1 - place))
}
