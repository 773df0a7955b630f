//! Gear with a mask: by the loop of FastCDC, or with vector instructions (SS-Gear in *Vectorized
//! Sequence-Based Chunking*; the idea is from Ni, Lin and Jiang, *SS-CDC: A Two-stage Parallel
//! Content-Defined Chunking*, SYSTOR 2019): several heads mark places that fit side by side, and
//! the first place is the cut.
//!
//! A head is eight bytes of a register, which hold its hash. It first rolls over the window before
//! its own [`HEAD`] bytes, and then over those, gathering the addends from Gear's table. A head
//! that meets a place that fits ends the search for the heads after it. The heads know the place to
//! a step of eight bytes; at the end a scalar hash finds which of the eight it is.
//!
//! The gathers cannot be avoided. CRC-32 is linear, so its table splits into tables that fit in
//! registers. Gear's sums carry, and all 64 bits of 256 random numbers count.
//!
//! On Zen 4, whose gathers are slow, this loses to the two lanes of [`crate::gear`], which load one
//! entry after another: 1.5 GB/s beside 7.0 on random bytes in the cache and chunks of 8 KiB, 1.8
//! beside 7.8 with chunks of 64 KiB. Heads of 128 and 512 bytes are no better. Other CPUs have not
//! been measured. So only the backend named for its gathers uses them
//! ([`Backend::gathers`](ibid_simd::Backend::gathers)). To compare the two:
//! `cargo run --release -p ibid-chunk --example speed -- algorithms=gear averages=8,64 bytes=256
//! backends=scalar,avx512-gather`.

use ibid_simd::{Kernel, Vector};

use super::fit::Mask;
use crate::gear::{self, Inverted, STEP, WINDOW};

/// Bytes that a head tests. Longer heads repeat a smaller share of the window before them, and
/// waste more work after a boundary.
const HEAD: usize = 256;

/// The search for the first length from `least` on whose hash fits.
pub(super) struct First<'a> {
    pub(super) data: &'a [u8],
    pub(super) least: usize,
    pub(super) test: &'a Mask,
}

impl Kernel for First<'_> {
    type Output = Option<usize>;

    fn run_scalar(self) -> Option<usize> {
        // The first length to test ends with the first byte scanned.
        let (before, after) = self.data.split_at(self.least - 1);
        let window = &before[before.len() - (WINDOW - 1)..];
        let mut hash = gear::start::<Inverted>(window);
        Some(self.least + gear::scan::<Inverted>(after, &mut hash, self.test.of_upper_half())?)
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> Option<usize> {
        let First { data, least, test } = self;
        let mask = test.of_upper_half();
        if gear::start::<Inverted>(&data[least - WINDOW..least]) & mask == 0 {
            return Some(least);
        }
        let mut passed = least;
        let block = heads::<V>() * HEAD;
        while let Some(bytes) = data[passed - WINDOW..].get(..WINDOW + block) {
            if let Some(found) = first_in_block(vector, bytes, mask) {
                return Some(passed + found + 1);
            }
            passed += block;
        }
        First {
            data,
            least: passed,
            test,
        }
        .run_scalar()
    }
}

/// Returns the number of hashes in a register.
const fn heads<V: Vector>() -> usize {
    V::LANES / size_of::<u64>()
}

/// Returns the position, counted from the end of the first window, of the first byte at which the
/// hash fits, in a window and as many bytes as all heads test.
#[inline(always)]
fn first_in_block<V: Vector>(vector: V, bytes: &[u8], mask: u64) -> Option<usize> {
    let table = gear::addends::<Inverted>();
    let mask_of_all = vector.splat_u64(mask);
    let mut hashes = vector.splat(0);
    for at in (0..WINDOW).step_by(STEP) {
        let step = vector.load_strided_u64(bytes, at, HEAD);
        for place in 0..STEP {
            hashes = vector.add_u64(vector.add_u64(hashes, hashes), vector.gather_u64(table, step, place));
        }
    }
    // The heads that still count.
    let mut heads: u64 = (1 << heads::<V>()) - 1;
    let mut best = None;
    for at in (0..HEAD).step_by(STEP) {
        let step = vector.load_strided_u64(bytes, WINDOW + at, HEAD);
        let mut fits = 0;
        for place in 0..STEP {
            hashes = vector.add_u64(vector.add_u64(hashes, hashes), vector.gather_u64(table, step, place));
            fits |= vector.disjoint_u64(hashes, mask_of_all);
        }
        fits &= heads;
        if fits != 0 {
            let head = fits.trailing_zeros();
            best = Some(head as usize * HEAD + at);
            heads &= (1 << head) - 1;
            if heads == 0 {
                break;
            }
        }
    }
    let best = best?;
    let (window, after) = bytes[best..].split_at(WINDOW);
    let mut hash = gear::start::<Inverted>(window);
    Some(best + gear::scan::<Inverted>(&after[..STEP], &mut hash, mask)?)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use ibid_simd::Backend;

    use super::*;
    use crate::RollingHash;
    use crate::spec::window_hash;

    /// Bytes by splitmix64.
    fn random(len: usize) -> Vec<u8> {
        let number = |at: u64| {
            let z = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) as u8
        };
        (1..=len as u64).map(number).collect()
    }

    /// Backends without the instruction gather by single loads.
    #[test]
    fn every_backend_finds_the_first_place_from_any_on() {
        let data = random(3 * 8 * HEAD + WINDOW + 77);
        let backends: Vec<_> = Backend::available()
            .chain(Backend::from_name("avx512-gather"))
            .collect();
        for mask in [0xff80_0000, 0x03fc_0000, 0x000f_f800, 0x8001_007f, u32::MAX] {
            let fits = |len: &usize| window_hash(RollingHash::Gear, &data[len - WINDOW..*len]) & mask == mask;
            let places: Vec<usize> = (WINDOW..=data.len()).filter(fits).collect();
            assert_eq!(places.is_empty(), mask == u32::MAX);
            let test = &Mask::new(mask);
            for least in (WINDOW..data.len()).step_by(5).chain(places.iter().copied()) {
                let expected = places.iter().copied().find(|place| *place >= least);
                for backend in &backends {
                    let data = &data;
                    assert_eq!(
                        backend.run(First { data, least, test }),
                        expected,
                        "{backend} {mask:x} {least}"
                    );
                }
            }
        }
    }
}
