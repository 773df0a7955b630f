//! FastCDC at speed: the cuts of [`spec::fastcdc`](crate::spec::fastcdc), eight bytes a step.
//!
//! The hash of one byte needs the hash of the byte before, and that chain is what a plain loop
//! waits for. Here two bytes are folded into one addend first, which no earlier hash is needed for,
//! so that the chain is one shift and one addition for two bytes (the "rolling two bytes" of the
//! paper, section 3.7, with a single table). Whole blocks of eight bytes through `as_chunks` leave
//! no bounds to check.

use crate::spec::{FastCdcParameters, GEAR};

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
#[inline]
fn scan(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    let (blocks, rest) = bytes.as_chunks::<8>();
    let mut rolling = *hash;
    for (number, block) in blocks.iter().enumerate() {
        let (pairs, _) = block.as_chunks::<2>();
        for (pair, [first, second]) in pairs.iter().enumerate() {
            let first = GEAR[usize::from(*first)];
            let second = GEAR[usize::from(*second)];
            let after_first = (rolling << 1).wrapping_add(first);
            let both = (first << 1).wrapping_add(second);
            rolling = (rolling << 2).wrapping_add(both);
            if after_first & mask == 0 {
                return Some(8 * number + 2 * pair);
            }
            if rolling & mask == 0 {
                return Some(8 * number + 2 * pair + 1);
            }
        }
    }
    for (at, byte) in rest.iter().enumerate() {
        rolling = (rolling << 1).wrapping_add(GEAR[usize::from(*byte)]);
        if rolling & mask == 0 {
            return Some(bytes.len() - rest.len() + at);
        }
    }
    *hash = rolling;
    None
}
