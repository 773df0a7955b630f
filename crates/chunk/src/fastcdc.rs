//! FastCDC at speed: the cuts of [`spec::fastcdc`](crate::spec::fastcdc), two bytes at a time.
//!
//! The hash of one byte needs the hash of the byte before, and that chain is what a plain loop
//! waits for. Here two bytes are folded into one addend first, for which no hash is needed, so that
//! the chain is one shift and one addition for two bytes (the "rolling two bytes" of the paper,
//! section 3.7, with a single table). Steps of a fixed number of bytes leave no bounds to check.

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

/// Bytes that one step of the scan takes: as many as have their addends in registers.
const STEP: usize = 6;

/// What the pairs of a step add to the hash: the first byte alone, and both.
type Addends = [(u64, u64); STEP / 2];

/// Position of the first byte of `bytes` at which `hash`, rolled on, has no bit of `mask`.
#[inline]
fn scan(bytes: &[u8], hash: &mut u64, mask: u64) -> Option<usize> {
    let (steps, rest) = bytes.as_chunks::<STEP>();
    let mut rolling = *hash;
    let mut steps = steps.iter();
    let mut at = 0;
    if let Some(first) = steps.next() {
        let mut addends = fold(first);
        loop {
            for (first, both) in addends {
                let after_first = (rolling << 1).wrapping_add(first);
                rolling = (rolling << 2).wrapping_add(both);
                if after_first & mask == 0 {
                    return Some(at);
                }
                if rolling & mask == 0 {
                    return Some(at + 1);
                }
                at += 2;
            }
            // Folded in the turn before they are used: seen together, a compiler would add the
            // three terms in an order that lengthens the chain again.
            match steps.next() {
                Some(next) => addends = fold(next),
                None => break,
            }
        }
    }
    for byte in rest {
        rolling = (rolling << 1).wrapping_add(GEAR[usize::from(*byte)]);
        if rolling & mask == 0 {
            return Some(at);
        }
        at += 1;
    }
    *hash = rolling;
    None
}

#[inline]
fn fold(bytes: &[u8; STEP]) -> Addends {
    core::array::from_fn(|pair| {
        let first = GEAR[usize::from(bytes[2 * pair])];
        let second = GEAR[usize::from(bytes[2 * pair + 1])];
        (first, (first << 1).wrapping_add(second))
    })
}
