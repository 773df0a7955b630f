//! Test data: every kind is a function of a seed and a length alone.
#![allow(dead_code, reason = "every test file takes what it needs")]

use ibid_chunk::{Equal, Method, Mode, RollingHash, SeqCdcSettings, Settings};
use proptest::prelude::*;

/// The splitmix64 sequence: adds the golden ratio, then mixes.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Eight bytes of splitmix64 at a time, least significant first.
pub(crate) fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut source = Random(seed);
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        data.extend_from_slice(&source.next().to_le_bytes());
    }
    data.truncate(len);
    data
}

/// The kinds of [`structured`].
pub(crate) const KINDS: usize = 8;

/// Returns data with a structure that chunkers often get wrong, by kind.
pub(crate) fn structured(kind: usize, seed: u64, len: usize) -> Vec<u8> {
    let mut source = Random(seed);
    let mut data = Vec::with_capacity(len + 600);
    match kind {
        0 => return random(seed, len),
        // One byte.
        1 => return vec![seed as u8; len],
        // Few letters.
        2 => return random(seed, len).iter().map(|byte| byte % 3).collect(),
        // Mostly one byte.
        3 => {
            return random(seed, len)
                .iter()
                .map(|byte| if *byte < 240 { 7 } else { *byte })
                .collect();
        }
        // Runs of equal bytes.
        4 => {
            while data.len() < len {
                let byte = source.next() as u8;
                data.resize(data.len() + 1 + source.below(200), byte);
            }
        }
        // Saw-teeth: up or down by a step, for a while.
        5 => {
            while data.len() < len {
                let size = 1 + source.below(3) as u8;
                let step = if source.below(2) == 0 {
                    size
                } else {
                    size.wrapping_neg()
                };
                let mut byte = source.next() as u8;
                for _ in 0..1 + source.below(9) {
                    data.push(byte);
                    byte = byte.wrapping_add(step);
                }
            }
        }
        // A short period.
        6 => {
            let period = random(seed, 1 + source.below(300));
            return period.iter().copied().cycle().take(len).collect();
        }
        // Noise and zeros by turns.
        _ => {
            while data.len() < len {
                let noise = random(source.next(), source.below(300));
                data.extend_from_slice(&noise);
                data.resize(data.len() + source.below(300), 0);
            }
        }
    }
    data.truncate(len);
    data
}

/// Returns all four variants of SeqCDC with these numbers.
pub(crate) fn seqcdc_variants(base: SeqCdcSettings) -> [SeqCdcSettings; 4] {
    [
        SeqCdcSettings {
            mode: Mode::Increasing,
            equal: Equal::Absorb,
            ..base
        },
        SeqCdcSettings {
            mode: Mode::Increasing,
            equal: Equal::Strict,
            ..base
        },
        SeqCdcSettings {
            mode: Mode::Decreasing,
            equal: Equal::Absorb,
            ..base
        },
        SeqCdcSettings {
            mode: Mode::Decreasing,
            equal: Equal::Strict,
            ..base
        },
    ]
}

/// Any AE, RAM, MAXP and argmin with maxima up to some thousand bytes.
pub(crate) fn any_hashless() -> impl Strategy<Value = Settings> {
    (4u16..8, 64u32..900, 0u32..3000, 0u32..3000, 0u32..2).prop_map(|(number, min, to_average, to_max, which)| {
        let first = match number {
            4 | 5 => min - 1,
            6 => min / 2,
            _ => min,
        };
        let size_average = min + 1 + to_average;
        let mut words = vec![first, size_average, size_average + to_max];
        match number {
            4 => words.push(which),
            7 => words.push(4 + 4 * which),
            _ => {}
        }
        Settings::from_words(number, &words).expect("sizes within the limits")
    })
}

/// Returns the least average of the named algorithm, or `average` if that is more.
pub(crate) fn at_least(name: &str, average: usize) -> usize {
    average.max(if name.contains("crc32") { 1024 } else { 256 })
}

/// Any method with any hash, with maxima up to some thousand bytes.
pub(crate) fn any_windowed() -> impl Strategy<Value = Settings> {
    let numbers = (
        0u32..8,
        0u32..6,
        0u32..600,
        0u32..3000,
        0u32..3000,
        1u32..11,
        any::<u32>(),
    );
    numbers.prop_map(|(method, hash, above, to_average, to_max, bits, noise)| {
        let (method_, hash_) = (Method::ALL[method as usize], RollingHash::ALL[hash as usize]);
        let least = hash_.window().max(64) as u32;
        let size_min = if method_.has_minimum() { least + above } else { least };
        let size_average = size_min + to_average;
        let (main, backup) = if method_.has_mask() {
            // One run of bits, anywhere.
            let mask = |bits: u32| (!(u32::MAX >> bits)).rotate_right(noise % 32);
            (mask(bits + 1), mask(bits))
        } else {
            let main = (2 << bits) + 1 + noise % (1 << bits);
            (main, 2 + noise / 2 % (main - 2))
        };
        let backup = if method_.has_backup() { backup } else { 0 };
        let words = [
            size_min,
            size_average,
            size_average + to_max,
            method,
            hash,
            main,
            backup,
        ];
        Settings::from_words(8, &words).expect("numbers within the limits")
    })
}
