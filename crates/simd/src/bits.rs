//! Bit fields for CPUs without instructions for them.

/// See [`Vector::extract_bits`](crate::Vector::extract_bits).
///
/// A step for every run of ones in the mask: masks of data are mostly a few long runs.
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

/// See [`Vector::nth_bit`](crate::Vector::nth_bit).
pub(crate) fn nth(bits: u64, n: u32) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    if n >= bits.count_ones() {
        return 64;
    }
    // The ones in every byte, then in every byte and all before it.
    let pairs = bits - (bits >> 1 & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let counts = ((nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(ONES);
    // A byte's top bit stays set where its count is at most n (both are below 128): as many bytes
    // as that go by.
    let passed = (((u64::from(n) * ONES) | (ONES << 7)) - counts) & (ONES << 7);
    let byte = passed.count_ones() * 8;
    let before = (counts << 8 >> byte & 0xff) as u32;
    let mut left = bits >> byte & 0xff;
    for _ in before..n {
        left &= left - 1;
    }
    byte + left.trailing_zeros()
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
    fn the_nth_bit_has_n_before_it() {
        for bits in masks() {
            let mut positions = (0..64).filter(|at| bits >> at & 1 == 1);
            for n in 0..66 {
                assert_eq!(nth(bits, n), positions.next().unwrap_or(64), "{bits:#x} {n}");
            }
        }
    }
}
