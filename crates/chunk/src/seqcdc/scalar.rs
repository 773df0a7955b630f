//! SeqCDC without vector instructions, 64 pairs a step.
//!
//! A block of 64 pairs becomes three 64-bit masks with one bit for each pair: ascents, descents,
//! equals. The rest is arithmetic on whole masks, without branches on single bytes:
//!
//! 1. *Runs.* Level 1 has the ascents. Level k + 1 has the ascents whose predecessor, equals passed
//!    over, is on level k. A shift finds an adjacent predecessor. If equals are between, adding the
//!    shifted bit to the mask of equals makes the carry run along them to the first pair after.
//! 2. *Skips.* The number of descents says whether the trigger falls in this block; a search for
//!    the n-th set bit says where.
//!
//! One bit for each level and the count of descents carry over from block to block. The comparisons
//! are plain loops that the compiler can vectorize.

use super::ahead::Ahead;
use super::padded;
use crate::SeqCdcSettings;

/// Pairs in a block: the bits of a mask.
const BLOCK: usize = 64;

/// Returns the end of the first chunk of `data[..end]`, which is longer than the minimum.
pub(super) fn scan<const DECREASING: bool, const STRICT: bool>(
    settings: &SeqCdcSettings,
    data: &[u8],
    end: usize,
) -> usize {
    let window = &data[..end];
    let mut ahead = Ahead::new(settings, data);
    let seq_length = settings.seq_length;
    let mut levels = 0;
    let mut opposing = 0;
    // The block's first pair is (window[right - 1], window[right]).
    let mut right = settings.size_min - seq_length as usize;
    let mut segment = right;
    while right < window.len() {
        let (rises, falls) = match window[right - 1..].first_chunk() {
            Some(bytes) => compare(bytes),
            None => compare(&padded(&window[right - 1..])),
        };
        let (wanted, against) = if DECREASING { (falls, rises) } else { (rises, falls) };
        let equals = if STRICT { 0 } else { !(rises | falls) };

        let complete = extend_runs(&mut levels, wanted, equals, seq_length);
        let boundary = complete.trailing_zeros();
        let seen = opposing + against.count_ones();
        if settings.skip_trigger != 0 && seen >= settings.skip_trigger {
            let skip = position_of_bit(against, settings.skip_trigger - opposing);
            if skip < boundary {
                right += skip as usize + 1 + settings.skip_size as usize;
                ahead.skips(segment, right);
                segment = right;
                levels = 0;
                opposing = 0;
                continue;
            }
        }
        if complete != 0 {
            let cut = right + boundary as usize + 1;
            ahead.cuts(cut);
            return cut;
        }
        ahead.looks_at(right);
        opposing = seen;
        right += BLOCK;
    }
    ahead.cuts(end);
    end
}

/// Returns which of the 64 pairs rise and which fall, the first pair in the lowest bit.
#[inline]
fn compare(bytes: &[u8; BLOCK + 1]) -> (u64, u64) {
    let mut rises = [0u8; BLOCK];
    let mut falls = [0u8; BLOCK];
    for pair in 0..BLOCK {
        rises[pair] = u8::from(bytes[pair + 1] > bytes[pair]);
        falls[pair] = u8::from(bytes[pair + 1] < bytes[pair]);
    }
    (pack(&rises), pack(&falls))
}

/// Returns one bit for each byte; the bytes are 0 or 1.
#[inline]
fn pack(flags: &[u8; BLOCK]) -> u64 {
    // The product's top byte is the sum, over byte j, of 2^(8j) * 2^(56 - 7j) = 2^(56 + j); no two
    // other terms meet in one bit, so nothing carries into it.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (words, _) = flags.as_chunks::<8>();
    words.iter().enumerate().fold(0, |mask, (at, word)| {
        let bits = u64::from_le_bytes(*word).wrapping_mul(GATHER) >> 56;
        mask | bits << (8 * at)
    })
}

/// Returns the pairs at which a run of `seq_length` is complete.
///
/// Bit k of `levels` says whether the run before this block has k pairs or more; on return, the run
/// at its end.
#[inline]
fn extend_runs(levels: &mut u64, ascents: u64, equals: u64, seq_length: u32) -> u64 {
    let mut reached = ascents;
    let mut levels_after = 0;
    for level in 1..seq_length {
        let next = reached << 1 | (*levels >> level & 1);
        let (along_equals, past_end) = equals.overflowing_add(next & equals);
        levels_after |= (reached >> 63 | u64::from(past_end)) << level;
        reached = ascents & (next | along_equals) & !equals;
    }
    *levels = levels_after;
    reached
}

/// Returns the position of the `n`-th set bit of `mask`, counting from 1; `mask` has that many.
#[inline]
fn position_of_bit(mask: u64, n: u32) -> u32 {
    let mut n = n;
    let mut from = 0;
    // Halve the part that holds the bit: 32 bits, 16, 8, 4, 2, 1.
    for half in [32, 16, 8, 4, 2, 1] {
        let low = (mask >> from & ((1 << half) - 1)).count_ones();
        if low < n {
            n -= low;
            from += half;
        }
    }
    from
}
