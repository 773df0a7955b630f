//! The speed of processing bytes in memory.

use std::hint::black_box;
use std::time::Instant;

use ibid_chunk::{Chunker, chunks};

/// The least bytes that a clock can measure: fewer are processed several times.
const BYTES_LEAST: usize = 1 << 20;

/// Speeds over several rounds, bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// The median.
    pub median: f64,
    /// The lowest.
    pub least: f64,
    /// The highest.
    pub most: f64,
}

impl Speed {
    /// Returns the summary of the speeds of all rounds; all 0 if there were none.
    #[must_use]
    pub fn of(rounds: &[f64]) -> Speed {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = match sorted.len() {
            0 => 0.0,
            n if n % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Speed {
            median,
            least: sorted.first().copied().unwrap_or(0.0),
            most: sorted.last().copied().unwrap_or(0.0),
        }
    }
}

/// Returns the speed of `pass` over `data` in this round, bytes a second.
pub(crate) fn round<T>(data: &[u8], pass: impl Fn(&[u8]) -> T) -> f64 {
    let passes = BYTES_LEAST.div_ceil(data.len().max(1));
    let start = Instant::now();
    for _ in 0..passes {
        black_box(pass(black_box(data)));
    }
    (data.len() * passes) as f64 / start.elapsed().as_secs_f64().max(1e-9)
}

/// Finds all cuts.
pub(crate) fn cut(chunker: &Chunker) -> impl Fn(&[u8]) -> usize {
    |data| chunks(chunker, data).count()
}

/// Finds all cuts, and hashes every chunk while it is in the cache.
pub(crate) fn cut_and_fingerprint(chunker: &Chunker) -> impl Fn(&[u8]) -> u8 {
    |data| {
        let hashes = chunks(chunker, data).map(|chunk| blake3::hash(chunk).as_bytes()[0]);
        hashes.fold(0, |all, byte| all ^ byte)
    }
}

/// Reads every byte and does no other work, which measures the memory.
pub(crate) fn read(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<8>();
    let sum = words.iter().map(|word| u64::from_le_bytes(*word));
    sum.fold(rest.len() as u64, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_the_median_of_its_rounds() {
        let speed = |rounds: &[f64]| {
            let speed = Speed::of(rounds);
            (speed.least, speed.median, speed.most)
        };
        assert_eq!(speed(&[3.0, 1.0, 9.0]), (1.0, 3.0, 9.0));
        assert_eq!(speed(&[4.0, 1.0, 2.0, 9.0]), (1.0, 3.0, 9.0));
        assert_eq!(speed(&[]), (0.0, 0.0, 0.0));
    }
}
