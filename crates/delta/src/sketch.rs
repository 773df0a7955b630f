//! Sketches: a few numbers that similar data has in common.
//!
//! Each feature is a hash of some bytes of the data, chosen by content; a sketch is the largest
//! features (dDedup §3.1.1, consistent sampling). Two pieces of data that share a part `p` of their
//! content share each feature with a probability of about `p`.

use ibid_chunk::Chunker;

use crate::Backend;
use crate::sample::{Interval, WINDOW, sample};

/// Most features in a sketch.
const FEATURES_MAX: usize = Sketch::FEATURES_MAX;
/// Features that a [`Sketcher`] takes by default.
const FEATURES: usize = 8;

/// Positions sampled at a time.
const PIECE: usize = 16 << 10;

/// The largest distinct features of some data, at most [`Sketch::FEATURES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sketch {
    features: [u64; FEATURES_MAX],
    count: usize,
}

impl Sketch {
    /// Most features in a sketch. dDedup's K is 8, and so is the default of a [`Sketcher`]; more
    /// help where a long piece of data has parts of several others.
    pub const FEATURES_MAX: usize = 32;

    /// Returns a sketch of the largest distinct ones of these features.
    #[must_use]
    pub fn of(features: impl IntoIterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::default();
        features
            .into_iter()
            .for_each(|feature| sketch.add(feature, FEATURES_MAX));
        sketch
    }

    /// Returns the features, largest first. Data that is too short or in which nothing is sampled
    /// has none, and resembles nothing.
    #[must_use]
    pub fn features(&self) -> &[u64] {
        &self.features[..self.count]
    }

    /// Keeps the largest `most` features.
    #[must_use]
    pub fn largest(mut self, most: usize) -> Sketch {
        self.count = self.count.min(most);
        self.features[self.count..].fill(0);
        self
    }

    /// Returns how many features both have.
    #[must_use]
    pub fn shared(&self, other: &Sketch) -> usize {
        let others = other.features();
        self.features()
            .iter()
            .filter(|feature| others.contains(feature))
            .count()
    }

    /// Adds a feature made of `hint`, such as a hash of a record's key or of a file's path, so that
    /// data with the same hint has a feature in common. It replaces the smallest feature if there
    /// are [`Sketch::FEATURES_MAX`].
    ///
    /// ```
    /// use ibid_delta::Sketch;
    ///
    /// let (first, second) = (Sketch::of([1, 2, 3]), Sketch::of([4, 5, 6]));
    /// assert_eq!(first.with_lineage(42).shared(&second.with_lineage(42)), 1);
    /// assert_eq!(first.with_lineage(42).shared(&second.with_lineage(43)), 0);
    /// ```
    #[must_use]
    pub fn with_lineage(mut self, hint: u64) -> Sketch {
        // Hashed, because hints may be small numbers. It stays even if it is the smallest.
        let feature = fold(hint ^ MIXERS[1], MIXERS[2]);
        if self.features().contains(&feature) {
            return self;
        }
        self.count = self.count.min(FEATURES_MAX - 1);
        self.add(feature, FEATURES_MAX);
        self
    }

    /// Adds a feature, and drops the smallest if there are more than `most`.
    #[inline]
    fn add(&mut self, feature: u64, most: usize) {
        if self.count == most && feature <= self.features[most - 1] {
            return;
        }
        let at = self.features().partition_point(|&larger| larger > feature);
        if self.features().get(at) == Some(&feature) {
            return;
        }
        self.count = most.min(self.count + 1);
        self.features[at..self.count].rotate_right(1);
        self.features[at] = feature;
    }
}

/// How many bytes a feature is a hash of.
///
/// Longer features tell apart records that share boilerplate, but need longer runs without an edit,
/// and take more time. On 6000 revisions of JSON documents that repeat the same keys, features of
/// 32, 64, 128 and 256 bytes stored 1/37, 1/50, 1/57 and 1/59; on wiki pages 1/16, 1/17, 1/17 and
/// 1/17 (`examples/similar.rs`). On chunks of 64 KiB of source trees and database files they made
/// no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FeatureBytes {
    /// 32 bytes.
    B32,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes.
    B1024,
}

impl FeatureBytes {
    /// All of them, shortest first.
    pub const ALL: [FeatureBytes; 6] = [
        FeatureBytes::B32,
        FeatureBytes::B64,
        FeatureBytes::B128,
        FeatureBytes::B256,
        FeatureBytes::B512,
        FeatureBytes::B1024,
    ];

    /// Returns the number of bytes.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            FeatureBytes::B32 => 32,
            FeatureBytes::B64 => 64,
            FeatureBytes::B128 => 128,
            FeatureBytes::B256 => 256,
            FeatureBytes::B512 => 512,
            FeatureBytes::B1024 => 1024,
        }
    }
}

/// Makes sketches. Reuse it: it owns a buffer of positions.
///
/// ```
/// use ibid_delta::Sketcher;
///
/// let line = |line: usize, edit: usize| format!("{}\n", if line == edit { 0 } else { line * line });
/// let text = |edit: usize| -> String { (0..2000).map(|number| line(number, edit)).collect() };
/// let mut sketcher = Sketcher::new();
/// let (old, new) = (sketcher.sketch(text(5000).as_bytes()), sketcher.sketch(text(1000).as_bytes()));
/// assert!(old.shared(&new) >= 7);
/// ```
#[derive(Debug)]
pub struct Sketcher {
    source: FeatureSource,
    backend: Backend,
    features: usize,
    /// Data shorter than `features` times this has fewer features: one for each so many bytes, but
    /// at least `least`.
    bytes_of_each: usize,
    least: usize,
    positions: Vec<u32>,
}

#[derive(Debug)]
enum FeatureSource {
    Sampled {
        interval: Interval,
        bytes: FeatureBytes,
        /// A sampled position counts if another hash of its window has none of these bits: with one
        /// bit, every second position.
        thinned: u64,
    },
    Chunked(Box<Chunker>),
}

impl Sketcher {
    /// Returns the default sketcher: eight features of 64 bytes, at one position in 64, with the
    /// fastest vector instructions of this machine.
    #[must_use]
    pub fn new() -> Sketcher {
        Sketcher::sampled(Interval::I64, FeatureBytes::B64)
    }

    /// Returns a sketcher with features of so many bytes at positions sampled at this interval.
    ///
    /// A position is sampled if a hash of the eight bytes there is large, so the choice does not
    /// depend on the position itself. Constant data has no features. Denser intervals suit data of
    /// less than a few KiB.
    #[must_use]
    pub fn sampled(interval: Interval, bytes: FeatureBytes) -> Sketcher {
        Sketcher::from_source(FeatureSource::Sampled {
            interval,
            bytes,
            thinned: 0,
        })
    }

    /// Returns a sketcher with features of so many bytes, at one position in as many. There are as
    /// many features, and an edit spoils as many, as with chunks of that size on average.
    ///
    /// dDedup compares chunks of 64 bytes and of 1 KB (figures 1 and 9). Data shorter than a feature
    /// has none. `B64` is the same as [`new`](Self::new).
    ///
    /// ```
    /// use ibid_delta::{FeatureBytes, Sketcher};
    ///
    /// let lines: String = (0..1000).map(|line| format!("{}\n", line * line)).collect();
    /// let of = |bytes| Sketcher::spaced(bytes).sketch(lines.as_bytes()).features().len();
    /// assert!(of(FeatureBytes::B64) == 8 && of(FeatureBytes::B1024) < 8);
    /// ```
    #[must_use]
    pub fn spaced(bytes: FeatureBytes) -> Sketcher {
        let (interval, thinned) = match bytes {
            FeatureBytes::B32 => (Interval::I32, 0),
            FeatureBytes::B64 => (Interval::I64, 0),
            FeatureBytes::B128 => (Interval::I128, 0),
            FeatureBytes::B256 => (Interval::I128, 0b1),
            FeatureBytes::B512 => (Interval::I128, 0b11),
            FeatureBytes::B1024 => (Interval::I128, 0b111),
        };
        Sketcher::from_source(FeatureSource::Sampled {
            interval,
            bytes,
            thinned,
        })
    }

    /// Returns a sketcher with one feature for each chunk that `chunker` cuts, as in dDedup. Small
    /// chunks find more and take longer.
    #[must_use]
    pub fn chunked(chunker: Chunker) -> Sketcher {
        Sketcher::from_source(FeatureSource::Chunked(Box::new(chunker)))
    }

    fn from_source(source: FeatureSource) -> Sketcher {
        Sketcher {
            source,
            backend: Backend::best(),
            features: FEATURES,
            bytes_of_each: 1,
            least: FEATURES_MAX,
            positions: Vec::new(),
        }
    }

    /// Uses these vector instructions to sample. All backends make the same sketches. A chunked
    /// sketcher uses those of its chunker.
    #[must_use]
    pub fn with_backend(mut self, backend: Backend) -> Sketcher {
        self.backend = backend;
        self
    }

    /// Keeps so many features in a sketch, clamped to 1 to [`Sketch::FEATURES_MAX`]. The default is
    /// 8.
    #[must_use]
    pub fn with_features(mut self, features: usize) -> Sketcher {
        self.features = features.clamp(1, FEATURES_MAX);
        self
    }

    /// Keeps fewer features of short data: one for each `bytes` of it, at least `least`, and never
    /// more than of long data.
    ///
    /// Sketches take space, and a short piece of data comes from few places. For 12 versions of a
    /// source tree, sketches of 32 features for every file took 1.3 MB of 26.5, and sketches of one
    /// feature for each 512 bytes 0.8 MB of 26.1.
    ///
    /// ```
    /// use ibid_delta::Sketcher;
    ///
    /// let lines: String = (0..1000).map(|line| format!("{}\n", line * line)).collect();
    /// let mut sketcher = Sketcher::new().with_features(32).with_fewer_of_short_data(100, 4);
    /// let mut features = |length: usize| sketcher.sketch(&lines.as_bytes()[..length]).features().len();
    /// assert_eq!([300, 600, 5000].map(features), [4, 6, 32]);
    /// ```
    #[must_use]
    pub fn with_fewer_of_short_data(mut self, bytes: usize, least: usize) -> Sketcher {
        self.bytes_of_each = bytes.max(1);
        self.least = least.max(1);
        self
    }

    /// Returns the sketch of `data`.
    pub fn sketch(&mut self, data: &[u8]) -> Sketch {
        let mut sketch = Sketch::default();
        let most = (data.len() / self.bytes_of_each).max(self.least).min(self.features);
        match &self.source {
            FeatureSource::Chunked(chunker) => {
                let mut rest = data;
                while !rest.is_empty() {
                    let (chunk, after) = rest.split_at(chunker.cut(rest));
                    sketch.add(weak_hash(chunk), most);
                    rest = after;
                }
            }
            &FeatureSource::Sampled {
                interval,
                bytes,
                thinned,
            } => {
                // Positions at which a whole feature fits.
                let starts = (data.len() + 1).saturating_sub(bytes.count());
                for from in (0..starts).step_by(PIECE) {
                    let windows = &data[from..starts.min(from + PIECE) + WINDOW - 1];
                    self.positions.clear();
                    sample(self.backend, interval, windows, 0, &mut self.positions);
                    for &at in &self.positions {
                        let at = from + at as usize;
                        let covered = &data[at..at + bytes.count()];
                        if thinned == 0 || window_hash(covered) & thinned == 0 {
                            sketch.add(feature(covered), most);
                        }
                    }
                }
            }
        }
        sketch
    }
}

impl Default for Sketcher {
    fn default() -> Self {
        Sketcher::new()
    }
}

/// The fractional parts of the square roots of the first primes, as in SHA-512, made odd.
const MIXERS: [u64; 4] = [
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
];

/// Returns the exclusive or of the two halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[inline(always)]
fn number(bytes: &[u8; 32], index: usize) -> u64 {
    let (numbers, _) = bytes.as_chunks();
    u64::from_le_bytes(numbers[index])
}

/// Hashes 32 bytes.
#[inline(always)]
fn mix(bytes: &[u8; 32]) -> u64 {
    let first = fold(number(bytes, 0) ^ MIXERS[0], number(bytes, 1) ^ MIXERS[1]);
    let last = fold(number(bytes, 2) ^ MIXERS[2], number(bytes, 3) ^ MIXERS[3]);
    fold(first ^ MIXERS[3], last ^ MIXERS[0])
}

/// Hashes a multiple of 32 bytes.
#[inline(always)]
fn feature(bytes: &[u8]) -> u64 {
    let (blocks, _) = bytes.as_chunks();
    let mixed = |hash: u64, block| fold(hash ^ MIXERS[2], mix(block) ^ MIXERS[1]);
    match blocks {
        [block] => mix(block),
        blocks => blocks.iter().fold(0, mixed),
    }
}

/// Hashes the window that a position is sampled by, independently of the hash that samples it.
fn window_hash(covered: &[u8]) -> u64 {
    let window = covered.first_chunk().map_or(0, |window| u64::from_le_bytes(*window));
    fold(window ^ MIXERS[0], MIXERS[3])
}

/// Hashes any bytes, padded with zeros to a multiple of 32, and their number.
fn weak_hash(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks();
    let mut last = [0; 32];
    last[..rest.len()].copy_from_slice(rest);
    let mixed = |hash: u64, block| fold(hash ^ MIXERS[2], mix(block) ^ MIXERS[1]);
    let hash = blocks.iter().chain([&last]).fold(bytes.len() as u64, mixed);
    fold(hash ^ MIXERS[0], MIXERS[3])
}
