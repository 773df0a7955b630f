//! The conditions under which a hash is a boundary.

/// A test of hashes.
pub(super) trait Fit {
    /// Whether the hash fits.
    fn fits(&self, hash: u32) -> bool;

    /// Returns the mask, if this tests a mask.
    fn as_mask(&self) -> Option<&Mask> {
        None
    }
}

/// Fits if all bits of the mask are set.
#[derive(Clone, Debug)]
pub(super) struct Mask(u32);

impl Mask {
    pub(super) fn new(mask: u32) -> Mask {
        Mask(mask)
    }

    /// Returns the mask for hashes that are the upper half of a number.
    pub(super) fn of_upper_half(&self) -> u64 {
        u64::from(self.0) << 32
    }

    pub(super) fn mask(&self) -> u32 {
        self.0
    }
}

impl Fit for Mask {
    #[inline(always)]
    fn fits(&self, hash: u32) -> bool {
        hash & self.0 == self.0
    }

    fn as_mask(&self) -> Option<&Mask> {
        Some(self)
    }
}

/// Fits if the remainder is one less than the divisor, which takes one multiplication.
///
/// With `inverse` = 2^64 / divisor, rounded up, the product with a hash modulo 2^64 is the fraction
/// of hash / divisor in units of 2^-64. It is too large by less than the distance to the next
/// remainder (Lemire, Kaser and Kurz, *Faster Remainder by Direct Computation*, 2019: exact for all
/// 32-bit numbers). So the remainder is the largest where the fraction is (divisor - 1) / divisor
/// or more.
#[derive(Clone, Debug)]
pub(super) struct Divisor {
    inverse: u64,
    least: u64,
}

impl Divisor {
    /// `divisor` is 2 or more.
    pub(super) fn new(divisor: u32) -> Divisor {
        let divisor = u64::from(divisor);
        let least = (u128::from(divisor - 1) << 64).div_ceil(u128::from(divisor));
        Divisor {
            inverse: u64::MAX / divisor + 1,
            least: least as u64,
        }
    }
}

impl Fit for Divisor {
    #[inline(always)]
    fn fits(&self, hash: u32) -> bool {
        u64::from(hash).wrapping_mul(self.inverse) >= self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_multiplication_finds_the_last_remainder() {
        let near = |number: u32| (number.saturating_sub(3)..=number.saturating_add(3)).collect::<alloc::vec::Vec<_>>();
        let powers = (0..32)
            .map(|bit| 1u32 << bit)
            .chain([u32::MAX, 540, 270, 1000, 3 << 20]);
        for divisor in powers.clone().flat_map(near).filter(|divisor| *divisor >= 2) {
            let test = Divisor::new(divisor);
            let multiples = [1, 2, 3, 1000, u32::MAX / divisor].map(|factor| divisor.wrapping_mul(factor));
            for hash in powers.clone().chain(multiples).flat_map(near) {
                assert_eq!(test.fits(hash), hash % divisor == divisor - 1, "{hash} by {divisor}");
            }
        }
    }
}
