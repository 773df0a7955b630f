//! What is it like? A few numbers that similar data have in common.
//!
//! Each feature is a hash of some bytes of the data, chosen by content; a sketch is the largest of
//! them (paper 004, section 3.1.1: consistent sampling). Two pieces of data that share a part `p`
//! of their content share each feature with a probability of about `p`.

use ibid_chunk::Chunker;

use crate::Backend;
use crate::sample::{Interval, WINDOW, sample};

/// Features in a sketch, at most. The paper's K is 8, and so is the default here; more tell apart
/// where a long piece of data has parts from several others.
pub const FEATURES_MAX: usize = 32;
/// Features that a [`Sketcher`] takes unless it is told otherwise.
const FEATURES: usize = 8;

/// Positions that are sampled at a time.
const PIECE: usize = 16 << 10;

/// The largest distinct features of some data, at most [`FEATURES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sketch {
    features: [u64; FEATURES_MAX],
    count: usize,
}

impl Sketch {
    /// One of any features: the largest distinct ones of those given.
    #[must_use]
    pub fn of(features: impl IntoIterator<Item = u64>) -> Sketch {
        let mut sketch = Sketch::default();
        features
            .into_iter()
            .for_each(|feature| sketch.add(feature, FEATURES_MAX));
        sketch
    }

    /// The features, largest first. None if the data is too short, or has nothing that is sampled:
    /// such data has no similar data.
    #[must_use]
    pub fn features(&self) -> &[u64] {
        &self.features[..self.count]
    }

    /// The same with the largest features alone, at most so many.
    #[must_use]
    pub fn largest(mut self, most: usize) -> Sketch {
        self.count = self.count.min(most);
        self.features[self.count..].fill(0);
        self
    }

    /// How many features both have.
    #[must_use]
    pub fn shared(&self, other: &Sketch) -> usize {
        let others = other.features();
        self.features()
            .iter()
            .filter(|feature| others.contains(feature))
            .count()
    }

    /// The same with one more feature, that of a lineage: data with an equal hint, such as a hash
    /// of a record's key or a file's path, then has a feature in common. It takes the place of
    /// the smallest feature if there are [`FEATURES_MAX`].
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
        // Mixed by itself, so that hints may be small numbers; it stays even if it is the least.
        let feature = fold(hint ^ MIXERS[1], MIXERS[2]);
        if self.features().contains(&feature) {
            return self;
        }
        self.count = self.count.min(FEATURES_MAX - 1);
        self.add(feature, FEATURES_MAX);
        self
    }

    /// Adds a feature, and drops the least if there are more than `most`.
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

/// Bytes that a feature of sampled positions is a hash of.
///
/// Longer ones tell records apart that share boilerplate: on 6000 revisions of JSON documents with
/// the same keys over and over, deltas by features of 32, 64, 128 and 256 bytes stored 1/37, 1/50,
/// 1/57 and 1/59; of wiki pages, 1/16, 1/17, 1/17 and 1/17 (`examples/similar.rs`). For chunks of
/// 64 KiB of source trees and database files they made no difference. They need longer stretches
/// without an edit, and time.
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

    /// How many bytes.
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

/// Makes sketches. Keep it: it has memory to find positions with.
///
/// ```
/// use ibid_delta::Sketcher;
///
/// let lines = |edit: usize| -> String { (0..2000).map(|line| format!("{}\n", if line == edit { 0 } else { line * line })).collect() };
/// let mut sketcher = Sketcher::new();
/// let (old, new) = (sketcher.sketch(lines(5000).as_bytes()), sketcher.sketch(lines(1000).as_bytes()));
/// assert!(old.shared(&new) >= 7);
/// ```
#[derive(Debug)]
pub struct Sketcher {
    way: Way,
    features: usize,
    /// Data shorter than `features` times this has fewer: one for each so many bytes, and `least`
    /// at least.
    bytes_of_each: usize,
    least: usize,
    positions: Vec<u32>,
}

#[derive(Debug)]
enum Way {
    Sampled {
        backend: Backend,
        interval: Interval,
        bytes: FeatureBytes,
        /// Of the sampled positions those count whose window has no bit of this in another hash:
        /// with a bit, every second one.
        thinned: u64,
    },
    Chunked(Box<Chunker>),
}

impl Sketcher {
    /// The default: features of 64 bytes at one position in 64, with the fastest vector
    /// instructions of this machine.
    #[must_use]
    pub fn new() -> Sketcher {
        Sketcher::sampled(Backend::best(), Interval::I64, FeatureBytes::B64)
    }

    /// Features of so many bytes at positions sampled at this interval: a position is sampled if a
    /// hash of the eight bytes there is large, so what is sampled does not depend on where it
    /// is. Constant data has no features.
    ///
    /// The sketches are the same with every backend. Denser intervals suit data of less than a few
    /// KiB.
    #[must_use]
    pub fn sampled(backend: Backend, interval: Interval, bytes: FeatureBytes) -> Sketcher {
        Sketcher::by(Way::Sampled {
            backend,
            interval,
            bytes,
            thinned: 0,
        })
    }

    /// Features of so many bytes, one position in as many: as many, and as easily spoilt by an
    /// edit, as those of chunks of that size on average.
    ///
    /// Paper 004 compares chunks of 64 bytes and of 1 KB (figures 1 and 9). Data that is shorter
    /// than a feature has none; that of `B64` is [`new`](Self::new).
    ///
    /// ```
    /// use ibid_delta::{Backend, FeatureBytes, Sketcher};
    ///
    /// let lines: String = (0..1000).map(|line| format!("{}\n", line * line)).collect();
    /// let of = |bytes| Sketcher::spaced(Backend::best(), bytes).sketch(lines.as_bytes()).features().len();
    /// assert!(of(FeatureBytes::B64) == 8 && of(FeatureBytes::B1024) < 8);
    /// ```
    #[must_use]
    pub fn spaced(backend: Backend, bytes: FeatureBytes) -> Sketcher {
        let (interval, thinned) = match bytes {
            FeatureBytes::B32 => (Interval::I32, 0),
            FeatureBytes::B64 => (Interval::I64, 0),
            FeatureBytes::B128 => (Interval::I128, 0),
            FeatureBytes::B256 => (Interval::I128, 0b1),
            FeatureBytes::B512 => (Interval::I128, 0b11),
            FeatureBytes::B1024 => (Interval::I128, 0b111),
        };
        Sketcher::by(Way::Sampled {
            backend,
            interval,
            bytes,
            thinned,
        })
    }

    /// As in paper 004: a feature of each chunk that `chunker` cuts the data into. Small chunks
    /// find more, and take longer.
    #[must_use]
    pub fn chunked(chunker: Chunker) -> Sketcher {
        Sketcher::by(Way::Chunked(Box::new(chunker)))
    }

    fn by(way: Way) -> Sketcher {
        Sketcher {
            way,
            features: FEATURES,
            bytes_of_each: 1,
            least: FEATURES_MAX,
            positions: Vec::new(),
        }
    }

    /// The same, with so many features in a sketch: 1 to [`FEATURES_MAX`], others are brought into
    /// this range. The default is 8.
    #[must_use]
    pub fn with_features(mut self, features: usize) -> Sketcher {
        self.features = features.clamp(1, FEATURES_MAX);
        self
    }

    /// The same, but short data has fewer: one for each `bytes` of it, `least` at least, but no
    /// more than long data has.
    ///
    /// Sketches have to be kept, and a short piece of data is from few places: of 12 versions of a
    /// source tree, sketches with 32 features of every file took 1.3 MB of 26.5, and those with
    /// one for each 512 bytes 0.8 of 26.1.
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

    /// The sketch of `data`.
    pub fn sketch(&mut self, data: &[u8]) -> Sketch {
        let mut sketch = Sketch::default();
        let most = (data.len() / self.bytes_of_each).max(self.least).min(self.features);
        match &self.way {
            Way::Chunked(chunker) => {
                let mut rest = data;
                while !rest.is_empty() {
                    let (chunk, after) = rest.split_at(chunker.cut(rest));
                    sketch.add(weak_hash(chunk), most);
                    rest = after;
                }
            }
            &Way::Sampled {
                backend,
                interval,
                bytes,
                thinned,
            } => {
                // Only where all bytes of a feature are.
                let starts = (data.len() + 1).saturating_sub(bytes.count());
                for from in (0..starts).step_by(PIECE) {
                    let windows = &data[from..starts.min(from + PIECE) + WINDOW - 1];
                    self.positions.clear();
                    sample(backend, interval, windows, 0, &mut self.positions);
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

/// Numbers without a pattern: the fractional parts of the square roots of the first primes (as in
/// SHA-512), made odd.
const MIXERS: [u64; 4] = [
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
];

/// The two halves of the product, exclusive-ored.
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

/// A hash of 32 bytes.
#[inline(always)]
fn mix(bytes: &[u8; 32]) -> u64 {
    let first = fold(number(bytes, 0) ^ MIXERS[0], number(bytes, 1) ^ MIXERS[1]);
    let last = fold(number(bytes, 2) ^ MIXERS[2], number(bytes, 3) ^ MIXERS[3]);
    fold(first ^ MIXERS[3], last ^ MIXERS[0])
}

/// A hash of a multiple of 32 bytes.
#[inline(always)]
fn feature(bytes: &[u8]) -> u64 {
    let (blocks, _) = bytes.as_chunks();
    let mixed = |hash: u64, block| fold(hash ^ MIXERS[2], mix(block) ^ MIXERS[1]);
    match blocks {
        [block] => mix(block),
        blocks => blocks.iter().fold(0, mixed),
    }
}

/// Another hash of the window that a position is sampled by, which decides with nothing else
/// whether it counts.
fn window_hash(covered: &[u8]) -> u64 {
    let window = covered.first_chunk().map_or(0, |window| u64::from_le_bytes(*window));
    fold(window ^ MIXERS[0], MIXERS[3])
}

/// A hash of any bytes: of those up to a multiple of 32, and of the rest filled up with zeros, and
/// their number.
fn weak_hash(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks();
    let mut last = [0; 32];
    last[..rest.len()].copy_from_slice(rest);
    let mixed = |hash: u64, block| fold(hash ^ MIXERS[2], mix(block) ^ MIXERS[1]);
    let hash = blocks.iter().chain([&last]).fold(bytes.len() as u64, mixed);
    fold(hash ^ MIXERS[0], MIXERS[3])
}
