//! FastCDC of 2020: a chunk ends where masked bits of a rolling sum are all zero.
//!
//! After Xia and others, *The Design of Fast Content-Defined Chunking for Data Deduplication Based
//! Storage Systems* (IEEE TPDS 31, 2020), with the constants and the cut points of the `fastcdc`
//! crate, module `v2020`. The paper rolls two bytes at a time with shifted constants. That changes
//! the speed but no cut, so the specification rolls one.
//!
//! Two properties of the crate are part of this specification:
//!
//! - The byte whose hash fits is the *first of the next chunk*, not the last of this one. A cut at
//!   `len` therefore depends on `data[len]`.
//! - Bytes are judged in pairs, so the last byte of data of odd length is never judged.

use super::GEAR;
use crate::FastCdcSettings;

/// Masks by the base-2 logarithm of the expected distance between boundaries.
///
/// The values are those of the `fastcdc` crate, which names its sources: 64 bytes to 128 KiB as in
/// the authors' implementation in destor, larger ones as in restic-FastCDC. The number of bits set
/// is the entry's index or close to it. The bits are spread widely because the paper found that
/// this saves a little more. No settings reach the entries below 5.
#[rustfmt::skip]
const MASKS: [u64; 26] = [
    0, 0, 0, 0, 0, 0x0000_0000_0180_4110,
    0x0000_0000_0180_3110, 0x0000_0000_1803_5100, 0x0000_0018_0003_5300, 0x0000_0190_0035_3000,
    0x0000_5900_0353_0000, 0x0000_d900_0353_0000, 0x0000_d901_0353_0000, 0x0000_d903_0353_0000,
    0x0000_d903_1353_0000, 0x0000_d90f_0353_0000, 0x0000_d903_0353_7000, 0x0000_d907_0353_7000,
    0x0000_d907_0753_7000, 0x0000_d917_0753_7000, 0x0000_d917_4753_7000, 0x0000_d917_6753_7000,
    0x0000_d937_6753_7000, 0x0000_d937_7753_7000, 0x0000_d937_7757_7000, 0x0000_db37_7757_7000,
];

/// The parameters of FastCDC: the sizes, and the two masks that follow from the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastCdcParameters {
    /// Bytes below which no chunk ends unless the data does; even.
    pub size_min: usize,
    /// Length in bytes below which `mask_strict` decides, and from which on `mask_loose` does;
    /// even.
    pub size_average: usize,
    /// Bytes at which a chunk ends whatever it holds; even.
    pub size_max: usize,
    /// The mask with more bits, for boundaries before the average.
    pub mask_strict: u64,
    /// The mask with fewer bits, for boundaries after the average.
    pub mask_loose: u64,
}

impl FastCdcParameters {
    /// Returns the parameters of valid settings.
    ///
    /// # Panics
    /// When `settings` do not pass [`FastCdcSettings::validate`].
    #[must_use]
    pub fn new(settings: &FastCdcSettings) -> FastCdcParameters {
        let bits = logarithm_rounded(settings.size_average);
        let level = usize::from(settings.normalisation);
        FastCdcParameters {
            size_min: settings.size_min,
            size_average: settings.size_average,
            size_max: settings.size_max,
            mask_strict: MASKS[bits + level],
            mask_loose: MASKS[bits - level],
        }
    }
}

/// Returns the base-2 logarithm of `value`, rounded to the nearest integer.
///
/// It computes in integers, so that no platform's floating point can move a cut. The logarithm
/// rounds up from `2^n * sqrt(2)` on, where the square reaches `2^(2n + 1)`. No square equals that,
/// so there are no ties.
fn logarithm_rounded(value: usize) -> usize {
    let value = value as u64;
    let floor = value.ilog2();
    let up = value * value > 1 << (2 * floor + 1);
    floor as usize + usize::from(up)
}

/// Returns the length of the first chunk of `data` by FastCDC.
#[must_use]
pub fn fastcdc(parameters: &FastCdcParameters, data: &[u8]) -> usize {
    let FastCdcParameters {
        size_min,
        size_average,
        size_max,
        mask_strict,
        mask_loose,
    } = *parameters;
    let end = data.len().min(size_max);
    if end <= size_min {
        return end;
    }

    let mut hash = 0u64;
    let judged = end - end % 2;
    for at in size_min..judged {
        hash = (hash << 1).wrapping_add(GEAR[usize::from(data[at])]);
        let mask = if at < size_average { mask_strict } else { mask_loose };
        if hash & mask == 0 {
            return at;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use md5::{Digest, Md5};

    use super::*;

    #[test]
    fn the_gear_table_is_the_digest_of_64_equal_bytes() {
        for byte in 0..=255u8 {
            let digest = Md5::digest([byte; 64]);
            let (high, _) = digest.split_first_chunk::<8>().expect("16 bytes");
            assert_eq!(GEAR[usize::from(byte)], u64::from_be_bytes(*high), "byte {byte}");
        }
    }

    #[test]
    fn the_masks_are_those_of_the_fastcdc_crate() {
        assert_eq!(MASKS, fastcdc::v2020::MASKS);
    }

    /// The crate rounds a floating-point logarithm. Ours must agree for every average that the
    /// crate takes.
    #[test]
    fn the_logarithm_rounds_as_floating_point_does() {
        for value in 64..=1usize << 22 {
            assert_eq!(
                logarithm_rounded(value),
                (value as f64).log2().round() as usize,
                "{value}"
            );
        }
    }
}
