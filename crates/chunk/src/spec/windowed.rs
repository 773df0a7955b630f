//! Windowed hashes: a chunk ends where the hash of the last bytes fits.
//!
//! After Chapuis, Garbinato and Andritsos, *Throughput: A Key Performance Measure of
//! Content-Defined Chunking Algorithms* (2016), sections II and III, and the methods that it
//! compares: basic sliding window (BSW), two thresholds (TT; LBFS), two divisors (TD) and both
//! (TTTD), with divisors or with bit masks (O). *SeqCDC* (Middleware '24) adds Rabin, CRC-32 and
//! Gear to the hashes. The readings:
//!
//! - The window is inside the chunk, and its last byte, which completes the condition, is the
//!   chunk's last. The minimum is at least as long as the window, so no hash reaches over a
//!   boundary.
//! - A hash is a 32-bit number ([`window_hash`]). It fits a divisor D if the remainder is D - 1,
//!   and a mask if all of the mask's bits are set. The paper leaves the remainder open. Other
//!   programs ask for zeros, but several hashes turn a window of zeros into 0.
//! - *Two divisors.* A place that fits the second divisor (mask) but not the first is held in
//!   reserve. A chunk that reaches the maximum ends at the last such place instead. If the data
//!   ends before the maximum, the places in reserve are dropped, because more data might bring a
//!   boundary that fits the first.

use super::GEAR;
use crate::{RollingHash, WindowedSettings};

/// Returns the length of the first chunk of `data` by the hash of a window.
///
/// # Panics
/// Unless `hash.window() <= size_min <= size_max`, or with a divisor of 0.
#[must_use]
pub fn windowed(settings: &WindowedSettings, data: &[u8]) -> usize {
    let WindowedSettings {
        size_min,
        size_max,
        method,
        hash,
        main,
        backup,
        ..
    } = *settings;
    let window = hash.window();
    assert!(window <= size_min && size_min <= size_max);
    let fits = |hash: u32, value: u32| {
        if method.has_mask() {
            hash & value == value
        } else {
            hash % value == value - 1
        }
    };

    let mut reserve = size_max;
    for len in size_min..=size_max {
        if len > data.len() {
            return data.len();
        }
        let hash = window_hash(hash, &data[len - window..len]);
        if fits(hash, main) {
            return len;
        }
        if method.has_backup() && fits(hash, backup) {
            reserve = len;
        }
    }
    reserve
}

/// The multiplier of Rabin-Karp: 5 more than a multiple of 8, like the multiplier of a linear
/// congruential generator.
pub(crate) const RABIN_KARP_MULTIPLIER: u32 = 1_664_525;

/// An irreducible polynomial of degree 63; bit n stands for x^n. It is the first, counting up from
/// x^63 and the first 62 binary digits of the fraction of pi.
pub(crate) const RABIN_POLYNOMIAL: u64 = 0xa43f_6a88_85a3_08dd;

/// CRC-32's polynomial (IEEE 802.3); bit n stands for x^(31 - n), and x^32 is left out.
pub(crate) const CRC32_POLYNOMIAL: u32 = 0xedb8_8320;

/// Returns the hash of `window`, which is as long as the [hash's window](RollingHash::window).
///
/// With n bytes b0 to b(n-1):
///
/// | hash | number |
/// |---|---|
/// | Rabin-Karp | the sum of T(bi) * 1664525^(n - 1 - i), modulo 2^32, where T is the upper half of Gear's table |
/// | cyclic | the upper half of the exclusive or of G(bi) rotated left by n - 1 - i, 64 bits, where G is Gear's table |
/// | rsync | the sum of bi in the lower 16 bits, the sum of (n - i) bi in the upper, both modulo 2^16 |
/// | Rabin | the lower half of the window's remainder as a polynomial (first bit highest) by one of degree 63 |
/// | CRC-32 | the register of CRC-32 (reflected, as in zip) after the window; starts as zeros, not inverted |
/// | Gear | the upper half of the sum of G(bi) * 2^(n - 1 - i), modulo 2^64 |
#[must_use]
pub fn window_hash(hash: RollingHash, window: &[u8]) -> u32 {
    let gear = |byte: u8| GEAR[usize::from(byte)];
    let upper = |number: u64| (number >> 32) as u32;
    match hash {
        RollingHash::RabinKarp => window.iter().fold(0, |hash: u32, byte| {
            hash.wrapping_mul(RABIN_KARP_MULTIPLIER)
                .wrapping_add(upper(gear(*byte)))
        }),
        RollingHash::Cyclic => upper(
            window
                .iter()
                .fold(0, |hash: u64, byte| hash.rotate_left(1) ^ gear(*byte)),
        ),
        RollingHash::Rsync => {
            let (mut sum, mut sum_of_sums) = (0u16, 0u16);
            for byte in window {
                sum = sum.wrapping_add(u16::from(*byte));
                sum_of_sums = sum_of_sums.wrapping_add(sum);
            }
            u32::from(sum) | u32::from(sum_of_sums) << 16
        }
        RollingHash::Rabin => window.iter().fold(0, |hash, byte| shift_in_rabin(hash, *byte)) as u32,
        RollingHash::Crc32 => window.iter().fold(0, |hash, byte| shift_in_crc32(hash, *byte)),
        RollingHash::Gear => upper(
            window
                .iter()
                .fold(0, |hash: u64, byte| (hash << 1).wrapping_add(gear(*byte))),
        ),
    }
}

/// Returns Rabin's remainder after one more byte.
pub(crate) const fn shift_in_rabin(hash: u64, byte: u8) -> u64 {
    let mut hash = hash;
    let mut bit = 8;
    while bit > 0 {
        bit -= 1;
        hash = hash << 1 | (byte >> bit & 1) as u64;
        if hash >> 63 == 1 {
            hash ^= RABIN_POLYNOMIAL;
        }
    }
    hash
}

/// Returns CRC-32's register after one more byte.
pub(crate) const fn shift_in_crc32(hash: u32, byte: u8) -> u32 {
    let mut hash = hash ^ byte as u32;
    let mut bit = 0;
    while bit < 8 {
        hash = if hash & 1 == 1 {
            hash >> 1 ^ CRC32_POLYNOMIAL
        } else {
            hash >> 1
        };
        bit += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC-32's published check value starts the register as ones and inverts the result. To start
    /// as ones is to start as zeros with the first four bytes inverted.
    #[test]
    fn crc32_is_the_one_of_zip() {
        let mut window = [0; 256];
        window[247..].copy_from_slice(b"123456789");
        for byte in &mut window[247..251] {
            *byte = !*byte;
        }
        assert_eq!(!window_hash(RollingHash::Crc32, &window), 0xcbf4_3926);
    }

    /// Rabin's test: x^(2^63) is x, and for every prime q that divides 63, x^(2^(63/q)) - x has no
    /// factor in common with the polynomial.
    #[test]
    fn the_polynomial_of_rabin_is_irreducible_and_no_smaller_one_is() {
        let start = 1 << 63 | 0x243f_6a88_85a3_08d3;
        assert_eq!(
            (start..).find(|polynomial| is_irreducible(*polynomial)),
            Some(RABIN_POLYNOMIAL)
        );
    }

    fn is_irreducible(polynomial: u64) -> bool {
        let mut power = 2;
        for squarings in 1..=63 {
            power = product(power, power, polynomial);
            if (squarings == 9 || squarings == 21) && common_divisor(polynomial, power ^ 2) != 1 {
                return false;
            }
        }
        power == 2
    }

    fn product(left: u64, right: u64, polynomial: u64) -> u64 {
        (0..63).rev().fold(0, |product, bit| {
            let doubled = product << 1;
            let reduced = if doubled >> 63 == 1 {
                doubled ^ polynomial
            } else {
                doubled
            };
            reduced ^ if right >> bit & 1 == 1 { left } else { 0 }
        })
    }

    fn common_divisor(left: u64, right: u64) -> u64 {
        let (mut left, mut right) = (left, right);
        while right != 0 {
            while left != 0 && left.leading_zeros() <= right.leading_zeros() {
                left ^= right << (right.leading_zeros() - left.leading_zeros());
            }
            (left, right) = (right, left);
        }
        left
    }
}
