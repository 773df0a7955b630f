//! The chunker of the paper's rival: it cuts wherever the fingerprint of the preceding bytes
//! matches, and has no minimum.
//!
//! The chunker of `ibid-chunk` has no chunks shorter than 64 bytes, so it cannot give an average of
//! 64 bytes.

/// An irreducible polynomial of degree 63, the same as in `ibid-chunk`.
const POLYNOMIAL: u64 = 0xa43f_6a88_85a3_08dd;
/// Bytes of the window, as in LBFS.
const WINDOW: usize = 48;
/// The longest chunk, in averages. On random data one in nine million would be longer.
const AVERAGES_TO_MAXIMUM: usize = 16;

/// Rabin's fingerprint of a window that slides over a whole record.
#[derive(Debug)]
pub(super) struct Rabin {
    /// Bits that are all set where a chunk ends. They are ones, so that zeros do not end chunks.
    mask: u64,
    length_max: usize,
    /// The remainders of the eight highest bits when they are shifted out.
    overflow: [u64; 256],
    /// The contribution of a byte to the fingerprint when it leaves the window.
    leaving: [u64; 256],
}

/// Returns the remainder of a polynomial to which eight coefficients are appended.
fn shift(remainder: u64, byte: u8) -> u64 {
    (0..8).rev().fold(remainder, |remainder, bit| {
        let longer = remainder << 1 | u64::from(byte >> bit & 1);
        if longer >> 63 == 1 { longer ^ POLYNOMIAL } else { longer }
    })
}

impl Rabin {
    /// Returns a chunker with an average of `average` bytes, a power of two, on random data.
    pub(super) fn new(average: usize) -> Rabin {
        let leaving = |byte: usize| (0..WINDOW).fold(byte as u64, |remainder, _| shift(remainder, 0));
        Rabin {
            mask: average as u64 - 1,
            length_max: average * AVERAGES_TO_MAXIMUM,
            overflow: std::array::from_fn(|high| shift((high as u64) << 55, 0)),
            leaving: std::array::from_fn(leaving),
        }
    }

    /// Returns the fingerprint of the bytes from `at + 1 - WINDOW` to `at`, given that of the
    /// window one byte earlier.
    fn slide(&self, fingerprint: u64, data: &[u8], at: usize) -> u64 {
        let high = (fingerprint >> 55) as usize & 0xff;
        let entered = (fingerprint & ((1 << 55) - 1)) << 8 | u64::from(data[at]);
        let left = at
            .checked_sub(WINDOW)
            .map_or(0, |at| self.leaving[usize::from(data[at])]);
        entered ^ self.overflow[high] ^ left
    }

    /// Returns the chunks of a record.
    pub(super) fn chunks<'a>(&'a self, data: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let (mut fingerprint, mut start) = (0, 0);
        std::iter::from_fn(move || {
            let rest = data.get(start..).filter(|rest| !rest.is_empty())?;
            let most = rest.len().min(self.length_max);
            let ends = |at: &usize| {
                fingerprint = self.slide(fingerprint, data, *at);
                fingerprint & self.mask == self.mask
            };
            let end = (start..start + most).find(ends).map_or(start + most, |at| at + 1);
            let chunk = &data[start..end];
            start = end;
            Some(chunk)
        })
    }
}

#[cfg(test)]
mod tests {
    use ibid_chunk::{RollingHash, spec};

    use super::*;
    use crate::Random;

    fn noise(length: usize) -> Vec<u8> {
        Random::new(1).bytes(length)
    }

    #[test]
    fn the_fingerprint_is_that_of_the_specification() {
        assert_eq!(WINDOW, RollingHash::Rabin.window());
        let (data, rabin) = (noise(500), Rabin::new(64));
        let mut fingerprint = 0;
        for at in 0..data.len() {
            fingerprint = rabin.slide(fingerprint, &data, at);
            if at + 1 >= WINDOW {
                let expected = spec::window_hash(RollingHash::Rabin, &data[at + 1 - WINDOW..=at]);
                assert_eq!(fingerprint as u32, expected, "at {at}");
            }
        }
    }

    #[test]
    fn chunks_are_the_data_and_as_long_as_asked_for() {
        let data = noise(1 << 18);
        for average in [64, 4096] {
            let rabin = Rabin::new(average);
            let chunks: Vec<_> = rabin.chunks(&data).collect();
            assert_eq!(chunks.concat(), data);
            let mean = data.len() / chunks.len();
            assert!((average * 2 / 3..average * 3 / 2).contains(&mean), "{mean}");
        }
        let zeros = vec![0; 5000];
        let chunks: Vec<_> = Rabin::new(64).chunks(&zeros).map(<[u8]>::len).collect();
        assert_eq!(chunks, [1024, 1024, 1024, 1024, 904]);
        assert_eq!(Rabin::new(64).chunks(b"").count(), 0);
    }

    #[test]
    fn an_insertion_moves_no_chunk_far_from_it() {
        let mut data = noise(20_000);
        let rabin = Rabin::new(64);
        let before: Vec<Vec<u8>> = rabin.chunks(&data).map(<[u8]>::to_vec).collect();
        data.splice(10_000..10_000, *b"inserted");
        let new = rabin
            .chunks(&data)
            .filter(|chunk| !before.iter().any(|old| old == chunk))
            .count();
        assert!((1..=8).contains(&new), "{new} of about 300");
    }
}
