//! The sizes of chunks.

/// The number of equal bins between 0 and the maximum.
const BINS: usize = 4096;

/// Counts of chunk sizes: exact sums, and a histogram of 4096 equal bins up to the maximum size.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    size_max: usize,
    chunks: u64,
    bytes: u64,
    squares: u128,
    least: usize,
    most: usize,
    at_max: u64,
    bins: Vec<u64>,
}

impl Sizes {
    /// Returns empty counts for chunks of at most `size_max` bytes.
    #[must_use]
    pub fn new(size_max: usize) -> Sizes {
        Sizes {
            size_max: size_max.max(1),
            chunks: 0,
            bytes: 0,
            squares: 0,
            least: usize::MAX,
            most: 0,
            at_max: 0,
            bins: vec![0; BINS],
        }
    }

    /// Counts a chunk of `size` bytes. In the histogram a larger chunk counts as one of the
    /// maximum.
    pub fn add(&mut self, size: usize) {
        self.chunks += 1;
        self.bytes += size as u64;
        self.squares += (size as u128) * (size as u128);
        self.least = self.least.min(size);
        self.most = self.most.max(size);
        self.at_max += u64::from(size >= self.size_max);
        let bin = (size.saturating_sub(1) as u128 * BINS as u128) / self.size_max as u128;
        self.bins[(bin as usize).min(BINS - 1)] += 1;
    }

    /// Returns the number of chunks.
    #[must_use]
    pub fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Returns the bytes of all chunks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many chunks have the maximum size or more.
    #[must_use]
    pub fn at_max(&self) -> u64 {
        self.at_max
    }

    /// Returns the smallest size, bytes; 0 if there are no chunks.
    #[must_use]
    pub fn least(&self) -> usize {
        self.least.min(self.most)
    }

    /// Returns the largest size, bytes; 0 if there are no chunks.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the average size, bytes; 0 if there are no chunks.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.bytes as f64 / self.chunks.max(1) as f64
    }

    /// Returns the standard deviation of the sizes, bytes.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        (self.squares as f64 / self.chunks.max(1) as f64 - mean * mean)
            .max(0.0)
            .sqrt()
    }

    /// Returns the size that `percent` of the chunks do not exceed, bytes, rounded up by less than
    /// 1/4096 of the maximum; 0 if there are no chunks.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> usize {
        let rank = ((percent / 100.0 * self.chunks as f64).ceil() as u64).clamp(1, self.chunks.max(1));
        let mut below = 0;
        for (bin, chunks) in self.bins.iter().enumerate() {
            below += chunks;
            if below >= rank {
                return self.edge(bin).min(self.most);
            }
        }
        0
    }

    /// Returns the largest size that falls into a bin.
    fn edge(&self, bin: usize) -> usize {
        (((bin + 1) as u128 * self.size_max as u128).div_ceil(BINS as u128)) as usize
    }

    /// Returns at most `points` sizes in bytes, ascending, each with the share of the chunks that
    /// are no larger; the last is that of the largest chunk.
    #[must_use]
    pub fn cumulated(&self, points: usize) -> Vec<(usize, f64)> {
        let mut all = Vec::new();
        let step = BINS.div_ceil(points.max(1));
        let mut below = 0;
        for (bin, chunks) in self.bins.iter().enumerate() {
            below += chunks;
            if (bin + 1) % step == 0 || bin + 1 == BINS {
                let size = self.edge(bin).min(self.most);
                all.push((size, below as f64 / self.chunks.max(1) as f64));
                if below == self.chunks {
                    break;
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_sizes() {
        let mut sizes = Sizes::new(8192);
        for size in 1..=1000 {
            sizes.add(size);
        }
        assert_eq!((sizes.chunks(), sizes.bytes(), sizes.at_max()), (1000, 500_500, 0));
        assert_eq!((sizes.least(), sizes.most()), (1, 1000));
        assert_eq!(sizes.mean(), 500.5);
        assert!((sizes.deviation() - (999_999.0f64 / 12.0).sqrt()).abs() < 1e-6);
        for percent in [0.1, 5.0, 50.0, 95.0] {
            let exact = (percent * 10.0) as usize;
            assert!((exact..exact + 2).contains(&sizes.percentile(percent)), "{percent}");
        }
        assert_eq!(sizes.percentile(100.0), 1000);
    }

    #[test]
    fn the_largest_size_is_the_end_of_the_distribution() {
        let mut sizes = Sizes::new(16 << 20);
        (0..10).for_each(|_| sizes.add(100));
        (0..30).for_each(|_| sizes.add(16 << 20));
        assert_eq!(sizes.at_max(), 30);
        let points = sizes.cumulated(100);
        assert!(points.len() <= 100);
        assert_eq!((points[0].1, *points.last().unwrap()), (0.25, (16 << 20, 1.0)));
        assert!(
            points
                .windows(2)
                .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
        );
        let none = Sizes::new(4096);
        assert_eq!(
            (none.mean(), none.deviation(), none.percentile(50.0), none.least()),
            (0.0, 0.0, 0, 0)
        );
    }
}
