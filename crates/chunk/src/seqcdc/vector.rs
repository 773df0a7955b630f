//! SeqCDC with vector instructions.
//!
//! As in the scalar form a block of 64 pairs becomes masks. Runs are found otherwise: the pairs that
//! equal neighbours make are taken out of the mask of ascents, so that runs are consecutive bits, and
//! the mask is joined with what came out of the blocks before it since the last skip. Then ANDs with
//! shifts of itself leave the last bit of every run that is long enough.

use ibid_simd::{BLOCK, Vector};

use super::padded;
use crate::SeqCdcSettings;

/// The longest sequence that is found here.
pub(super) const SEQ_LENGTH_MOST: u32 = 1 << STEPS;

/// Each can double the length of the runs that are known.
const STEPS: usize = 4;

/// The end of the chunk that `data[..end]` begins with, if it is longer than the minimum.
#[inline(always)]
pub(super) fn scan<V: Vector, const DECREASING: bool, const STRICT: bool>(
    vector: V,
    settings: &SeqCdcSettings,
    data: &[u8],
    end: usize,
) -> usize {
    let window = &data[..end];
    let shifts = shifts(settings.seq_length);
    let skip_trigger = if settings.skip_trigger == 0 {
        u32::MAX
    } else {
        settings.skip_trigger
    };
    let skip_size = settings.skip_size as usize;
    // The pairs before, equals taken out, the last in the highest bit; nothing before a skip.
    let mut history = 0;
    let mut opposing = 0;
    // The block's first pair is (window[right - 1], window[right]).
    let mut right = settings.size_min - settings.seq_length as usize;
    while right < end {
        let (rises, falls) = match window[right - 1..].first_chunk() {
            Some(bytes) => compare(vector, bytes),
            None => compare(vector, &padded(&window[right - 1..])),
        };
        let (wanted, against) = if DECREASING { (falls, rises) } else { (rises, falls) };
        let moving = if STRICT { u64::MAX } else { wanted | against };
        let ascents = vector.extract_bits(wanted, moving);
        let complete = complete_runs(history, ascents, shifts);
        // Position of the pair that completes the first run.
        let boundary = || vector.nth_bit(moving, complete.trailing_zeros());

        let seen = opposing + vector.count_ones(against);
        if seen >= skip_trigger {
            let skip = vector.nth_bit(against, skip_trigger - opposing - 1);
            if complete != 0 {
                let boundary = boundary();
                if boundary < skip {
                    return right + boundary as usize + 1;
                }
            }
            right += skip as usize + 1 + skip_size;
            history = 0;
            opposing = 0;
            continue;
        }
        if complete != 0 {
            return right + boundary() as usize + 1;
        }
        let count = vector.count_ones(moving);
        // 64 pairs shift all of the history out, none leave it; neither fits one shift.
        history = history.checked_shr(count).unwrap_or(0) | ascents.wrapping_shl(64 - count);
        opposing = seen;
        right += BLOCK;
    }
    end
}

/// Which of the 64 pairs rise and which fall, first pair in the lowest bit.
#[inline(always)]
fn compare<V: Vector>(vector: V, bytes: &[u8; BLOCK + 1]) -> (u64, u64) {
    let rises = !vector.block_at_least(bytes, 0, bytes, 1);
    let falls = !vector.block_at_least(bytes, 1, bytes, 0);
    (rises, falls)
}

/// By how much runs are extended step by step so that those of `length` pairs remain.
fn shifts(length: u32) -> [u32; STEPS] {
    let mut known = 1;
    [(); STEPS].map(|()| {
        let shift = known.min(length - known);
        known += shift;
        shift
    })
}

/// The bits of `ascents` that are the last of as many ones in a row as `shifts` were made for, with
/// those of `history` before them.
#[inline(always)]
fn complete_runs(history: u64, ascents: u64, shifts: [u32; STEPS]) -> u64 {
    let (mut before, mut runs) = (history, ascents);
    for shift in shifts {
        // With a shift of 0, what comes down from the history is masked by the runs themselves.
        runs &= runs << shift | before.wrapping_shr(64 - shift);
        before &= before << shift;
    }
    runs
}
