//! Bit fields for CPUs without instructions for them.

/// See [`Vector::extract_bits`](crate::Vector::extract_bits).
///
/// Takes one step for each run of ones in the mask: masks of real data are mostly a few long runs.
pub(crate) fn extract(bits: u64, mask: u64) -> u64 {
    let mut extracted = 0;
    let mut filled = 0;
    let mut left = mask;
    while left != 0 {
        let start = left.trailing_zeros();
        let run = (left >> start).trailing_ones();
        let ones = u64::MAX >> (64 - run);
        extracted |= (bits >> start & ones) << filled;
        filled += run;
        left &= !(ones << start);
    }
    extracted
}

/// See [`Vector::deposit_bits`](crate::Vector::deposit_bits).
pub(crate) fn deposit(bits: u64, mask: u64) -> u64 {
    if bits.is_power_of_two() {
        return nth(mask, bits.trailing_zeros());
    }
    let mut deposited = 0;
    let mut bits = bits;
    let mut left = mask;
    while bits != 0 && left != 0 {
        let lowest = left & left.wrapping_neg();
        deposited |= lowest & (bits & 1).wrapping_neg();
        bits >>= 1;
        left ^= lowest;
    }
    deposited
}

/// Returns the `n`-th set bit, counting from 0, or 0 if `bits` has fewer.
fn nth(bits: u64, n: u32) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    if n >= bits.count_ones() {
        return 0;
    }
    // Counts the ones in each byte, then in each byte and all below it.
    let pairs = bits - (bits >> 1 & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let counts = ((nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES);
    // A byte's top bit stays set where its count is at most n (both are below 128). The search
    // passes over these bytes.
    let passed = (((u64::from(n) * ONES) | (ONES << 7)) - counts) & (ONES << 7);
    let byte = passed.count_ones() * 8;
    let before = (counts << 8 >> byte & 0xff) as u32;
    let mut left = bits >> byte & 0xff;
    for _ in before..n {
        left &= left - 1;
    }
    (left & left.wrapping_neg()) << byte
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Masks with runs and gaps of all kinds.
    fn masks() -> impl Iterator<Item = u64> {
        let mut state = 1u64;
        let spread = (0..2000).map(move |round| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round);
            state ^ state >> 29
        });
        let runs = (0..64).flat_map(|from| (0..64).map(move |len| (u64::MAX >> len) << from));
        spread
            .chain(runs)
            .chain([0, u64::MAX, 1, 1 << 63, 0x5555_5555_5555_5555])
    }

    #[test]
    fn bits_are_extracted_in_order() {
        for mask in masks() {
            for bits in [u64::MAX, 0x0123_4567_89ab_cdef, mask, !mask, mask.rotate_left(7)] {
                let mut expected = 0;
                for (filled, at) in (0..64).filter(|at| mask >> at & 1 == 1).enumerate() {
                    expected |= (bits >> at & 1) << filled;
                }
                assert_eq!(extract(bits, mask), expected, "{bits:#x} {mask:#x}");
            }
        }
    }

    #[test]
    fn bits_are_deposited_in_order() {
        for mask in masks() {
            for bits in [u64::MAX, 0x0123_4567_89ab_cdef, mask, !mask, 1 << 63] {
                let mut expected = 0;
                for (from, at) in (0..64).filter(|at| mask >> at & 1 == 1).enumerate() {
                    expected |= (bits >> from & 1) << at;
                }
                assert_eq!(deposit(bits, mask), expected, "{bits:#x} {mask:#x}");
            }
        }
    }

    #[test]
    fn one_bit_is_deposited_where_as_many_are_before_it() {
        for mask in masks() {
            let mut positions = (0..64).filter(|at| mask >> at & 1 == 1);
            for n in 0..64 {
                let expected = positions.next().map_or(0, |at| 1 << at);
                assert_eq!(deposit(1 << n, mask), expected, "{mask:#x} {n}");
            }
        }
    }
}
