//! Descending numbers, by the gaps between them, in Rice codes.
//!
//! The features of a chunk are the largest of many random numbers: the more of them there were, the
//! smaller the gaps. A gap of some 2^k takes about k + 1.5 bits, where each number by itself would
//! take 32.

use crate::Error;
use crate::error::in_range;
use crate::wire::Reader;

/// Most bits that a gap's lower part has.
const LOW_BITS_MAX: u32 = 31;

/// Gaps from one number to the next, beginning with the one from 2^32 to the first. Each is one at
/// least, and counted from there.
fn gaps(descending: &[u32]) -> impl Iterator<Item = u32> + '_ {
    let above = std::iter::once(u64::from(u32::MAX) + 1).chain(descending.iter().map(|&number| number.into()));
    above
        .zip(descending)
        .map(|(above, &number)| (above - u64::from(number) - 1) as u32)
}

/// Appends strictly descending numbers, at least one.
pub(crate) fn put(out: &mut Vec<u8>, descending: &[u32]) {
    let sum: u64 = gaps(descending).map(u64::from).sum();
    // The best is near the logarithm of ln 2 of the mean.
    let mean = sum / descending.len().max(1) as u64;
    let low_bits = (mean * 11 / 16).max(1).ilog2().min(LOW_BITS_MAX);
    out.push(low_bits as u8);
    let (mut bits, mut held) = (0u64, 0);
    let mut flush = |bits: &mut u64, held: &mut u32, least: u32| {
        while *held >= least {
            out.push(*bits as u8);
            *bits >>= 8;
            *held = held.saturating_sub(8);
        }
    };
    for gap in gaps(descending) {
        for _ in 0..gap >> low_bits {
            bits |= 1 << held;
            held += 1;
            flush(&mut bits, &mut held, 8);
        }
        // A zero ends them.
        held += 1;
        bits |= u64::from(gap & ((1 << low_bits) - 1)) << held;
        held += low_bits;
        flush(&mut bits, &mut held, 8);
    }
    flush(&mut bits, &mut held, 1);
}

/// Reads what [`put`] wrote: as many numbers as there is room for in `descending`.
pub(crate) fn read(reader: &mut Reader<'_>, field: &'static str, descending: &mut [u32]) -> Result<(), Error> {
    let low_bits = u32::from(reader.u8(field)?);
    in_range(field, low_bits.into(), 0, LOW_BITS_MAX.into())?;
    let (mut bits, mut held) = (0u64, 0);
    let mut above = u64::from(u32::MAX) + 1;
    for number in descending {
        let mut high = 0u64;
        loop {
            let ones = bits.trailing_ones();
            if ones < held {
                high += u64::from(ones);
                bits >>= ones + 1;
                held -= ones + 1;
                break;
            }
            high += u64::from(held);
            bits = reader.u8(field)?.into();
            held = 8;
        }
        while held < low_bits {
            bits |= u64::from(reader.u8(field)?) << held;
            held += 8;
        }
        let gap = high << low_bits | bits & ((1 << low_bits) - 1);
        bits >>= low_bits;
        held -= low_bits;
        in_range(field, gap + 1, 1, above)?;
        above -= gap + 1;
        *number = above as u32;
    }
    in_range("bits after the last", bits, 0, 0).map(drop)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(bytes: &[u8], count: usize) -> Result<Vec<u32>, Error> {
        let mut reader = Reader::new(bytes);
        let mut numbers = vec![0; count];
        read(&mut reader, "numbers", &mut numbers)?;
        reader.finish("numbers")?;
        Ok(numbers)
    }

    proptest! {
        #[test]
        fn written_values_are_read_back(
            numbers in prop_oneof![
                prop::collection::btree_set(any::<u32>(), 1..40),
                prop::collection::btree_set(0..100u32, 1..40),
                prop::collection::btree_set(u32::MAX - 100..=u32::MAX, 1..40),
            ],
        ) {
            let descending: Vec<u32> = numbers.into_iter().rev().collect();
            let mut bytes = Vec::new();
            put(&mut bytes, &descending);
            prop_assert!(bytes.len() <= 2 + 5 * descending.len());
            prop_assert_eq!(read_all(&bytes, descending.len()), Ok(descending));
        }

        #[test]
        fn any_bytes_give_numbers_that_descend_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            count in 1..40usize,
        ) {
            if let Ok(numbers) = read_all(&bytes, count) {
                prop_assert!(numbers.windows(2).all(|pair| pair[0] > pair[1]));
            }
        }
    }

    /// 32 of the largest of 2048 take 23 bits each.
    #[test]
    fn the_largest_of_many_take_little() {
        let step = u32::MAX / 2048;
        let largest: Vec<u32> = (1..=32).map(|n| u32::MAX - n * step - n * n * 997).collect();
        let mut bytes = Vec::new();
        put(&mut bytes, &largest);
        assert!(bytes.len() <= 1 + 32 * 23 / 8, "{}", bytes.len());
    }

    #[test]
    fn reserved_bits_must_be_zero_and_no_number_is_negative() {
        let mut bytes = Vec::new();
        put(&mut bytes, &[u32::MAX]);
        assert_eq!(bytes, [0, 0]);
        assert_eq!(read_all(&[0, 0], 1), Ok(vec![u32::MAX]));
        assert!(read_all(&[0, 0b10], 1).is_err());
        assert!(read_all(&[32, 0], 1).is_err());
        // 2^32 - 1 is the least gap to 0; one more would be below.
        assert_eq!(read_all(&[31, 0b1111_1101, 0xff, 0xff, 0xff, 1], 1), Ok(vec![0]));
        assert!(read_all(&[31, 0b0000_0011, 0, 0, 0, 0], 1).is_err());
    }
}
