//! Sampling: the positions whose window of eight bytes has a high hash.
//!
//! The choice depends on the eight bytes alone, so an edit changes it only in windows that overlap
//! the edit. Every window is hashed by itself instead of rolling, so that vector instructions hash a
//! register of windows at once.

use ibid_simd::{BLOCK, Backend, Kernel, Vector};

/// Bytes that decide whether a position is sampled.
pub(crate) const WINDOW: usize = 8;

/// Bytes that a block of 64 windows covers.
const COVERED: usize = BLOCK + WINDOW - 1;

/// Multiplier of the first four bytes.
const MULTIPLIER_FIRST: u32 = 0x9e37_79b1;

/// Multiplier of the last four bytes.
///
/// A constant window has the hash `byte * 0x0101_0101 * (MULTIPLIER_FIRST + MULTIPLIER_LAST)`. The
/// sum is chosen so that `0x0101_0101` times it is 15 000 002: times any byte, that stays below
/// 15/16 of 2^32, where sampling begins.
const MULTIPLIER_LAST: u32 = 0x7dcb_a611;

/// How densely positions are sampled in random data: one in so many. Constant data is never
/// sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Interval {
    /// One position in 16.
    I16,
    /// One position in 32.
    I32,
    /// One position in 64.
    I64,
    /// One position in 128.
    I128,
}

impl Interval {
    /// All of them, densest first.
    pub const ALL: [Interval; 4] = [Interval::I16, Interval::I32, Interval::I64, Interval::I128];

    /// Returns the mean distance between samples, in positions.
    #[must_use]
    pub const fn positions(self) -> u32 {
        match self {
            Interval::I16 => 16,
            Interval::I32 => 32,
            Interval::I64 => 64,
            Interval::I128 => 128,
        }
    }

    /// Returns the interval of so many positions, or `None` if there is none.
    #[must_use]
    pub fn from_positions(positions: u32) -> Option<Interval> {
        Interval::ALL
            .into_iter()
            .find(|interval| interval.positions() == positions)
    }

    /// Returns the lowest top byte of a sampled hash.
    const fn top_byte_min(self) -> u8 {
        (256 - 256 / self.positions()) as u8
    }
}

/// Hashes a window: the specification that the kernel is tested against.
#[inline(always)]
fn hash(window: [u8; WINDOW]) -> u32 {
    let word = u64::from_le_bytes(window);
    let first = (word as u32).wrapping_mul(MULTIPLIER_FIRST);
    first.wrapping_add(((word >> 32) as u32).wrapping_mul(MULTIPLIER_LAST))
}

/// Appends the sampled positions of `data` in ascending order, each plus `offset`.
pub(crate) fn sample(backend: Backend, interval: Interval, data: &[u8], offset: u32, positions: &mut Vec<u32>) {
    if data.len() < COVERED {
        return scalar(interval, data, offset, positions);
    }
    backend.run(Sample {
        interval,
        data,
        offset,
        positions,
    });
}

fn scalar(interval: Interval, data: &[u8], offset: u32, positions: &mut Vec<u32>) {
    let least = u32::from(interval.top_byte_min()) << 24;
    let mut at = offset;
    let mut rest = data;
    while let Some(window) = rest.first_chunk() {
        if hash(*window) >= least {
            positions.push(at);
        }
        at += 1;
        rest = &rest[1..];
    }
}

/// Positions gathered before they are appended: twice as many as a block can have.
const GATHERED: usize = 2 * BLOCK;

struct Sample<'a> {
    interval: Interval,
    data: &'a [u8],
    offset: u32,
    positions: &'a mut Vec<u32>,
}

impl Kernel for Sample<'_> {
    type Output = ();

    fn run_scalar(self) {
        scalar(self.interval, self.data, self.offset, self.positions);
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) {
        let (first, last) = (vector.splat_u32(MULTIPLIER_FIRST), vector.splat_u32(MULTIPLIER_LAST));
        let zero = vector.splat(0);
        let least = vector.splat(self.interval.top_byte_min());
        let mut gathered = [0; GATHERED];
        let mut count = 0;
        let mut at = 0;
        while let Some(bytes) = self.data.get(at..).and_then(|rest| rest.first_chunk::<COVERED>()) {
            // A register has every fourth window; four loads, a byte apart, have all.
            let mut sampled = 0;
            for apart in 0..4 {
                let mut tops = 0;
                for part in (0..BLOCK).step_by(V::LANES) {
                    let start = vector.load(bytes, part + apart);
                    let end = vector.load(bytes, part + apart + 4);
                    let hashes = vector.multiply_add_u32(start, first, zero);
                    let hashes = vector.multiply_add_u32(end, last, hashes);
                    tops |= vector.at_least(hashes, least) << part;
                }
                // Only the top byte of each hash counts, which is the fourth.
                sampled |= (tops >> 3 & 0x1111_1111_1111_1111) << apart;
            }
            // A mispredicted branch takes as long as hashing a block, and the number of positions is
            // unpredictable. So two places are always written, and the count says which of them are
            // positions.
            let start = self.offset + at as u32;
            let mut gather = |sampled: u64| {
                gathered[count % GATHERED] = start.wrapping_add(sampled.trailing_zeros());
                count += usize::from(sampled != 0);
                sampled & sampled.wrapping_sub(1)
            };
            let mut more = gather(sampled);
            more = gather(more);
            while more != 0 {
                more = gather(more);
            }
            if count > GATHERED - BLOCK {
                self.positions.extend_from_slice(&gathered[..count]);
                count = 0;
            }
            at += BLOCK;
        }
        self.positions.extend_from_slice(&gathered[..count]);
        scalar(self.interval, &self.data[at..], self.offset + at as u32, self.positions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(backend: Backend, interval: Interval, data: &[u8]) -> Vec<u32> {
        let mut positions = Vec::new();
        sample(backend, interval, data, 7, &mut positions);
        positions
    }

    /// Bytes of splitmix64, some of them replaced by zeros so that there is structure too.
    fn data(seed: u64, len: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        (0..len)
            .map(|_| {
                let word = next();
                if word >> 60 == 0 { 0 } else { (word >> 8) as u8 }
            })
            .collect()
    }

    #[test]
    fn every_backend_samples_where_the_definition_says() {
        let room = data(1, 700);
        for interval in Interval::ALL {
            for from in 0..64 {
                for len in (0..200).chain([511, 512, 513, 630]) {
                    let data = &room[from..from + len];
                    let least = u32::from(interval.top_byte_min()) << 24;
                    let expected: Vec<u32> = (0..(len + 1).saturating_sub(WINDOW))
                        .filter(|&at| hash(*data[at..].first_chunk().unwrap()) >= least)
                        .map(|at| at as u32 + 7)
                        .collect();
                    for backend in Backend::available() {
                        assert_eq!(
                            sampled(backend, interval, data),
                            expected,
                            "{backend} {interval:?} {from} {len}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn constant_data_is_never_sampled() {
        for byte in 0..=255 {
            assert_eq!(sampled(Backend::best(), Interval::I16, &[byte; 300]), []);
        }
    }

    #[test]
    fn random_data_is_sampled_as_often_as_asked() {
        let data: Vec<u8> = data(2, 1 << 20);
        for interval in Interval::ALL {
            let expected = data.len() / interval.positions() as usize;
            let found = sampled(Backend::best(), interval, &data).len();
            assert!(found.abs_diff(expected) < expected / 10, "{interval:?}: {found}");
        }
    }
}
