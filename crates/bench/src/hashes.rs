//! Rolling hashes: how evenly they are spread, and how fast they roll (CDC Throughput, figures 2 and 3).

use ibid_chunk::{Backend, Chunker, Method, RollingHash, SIZE_MAX_MOST, Settings, WindowedSettings, spec};

use crate::compare::at_least_one;
use crate::{Error, Machine, Observer, Random, Result, Speed, speed};

/// The number of ranges of equal width in which hashes are counted.
pub const HASH_BINS: usize = 64;

/// The result of [`hashes`].
#[derive(Clone, Debug)]
pub struct Hashes {
    /// The machine that it was measured on.
    pub machine: Machine,
    /// Random bytes that speeds were measured on.
    pub sample: u64,
    /// How many times each speed was measured.
    pub rounds: u32,
    /// Random windows that were hashed.
    pub windows: u64,
    /// The results, one for each hash.
    pub entries: Vec<HashEntry>,
}

/// One rolling hash.
#[derive(Clone, Debug)]
pub struct HashEntry {
    /// The hash.
    pub hash: RollingHash,
    /// Its name.
    pub name: String,
    /// How many windows have a hash in each of [`HASH_BINS`] ranges from 0 to 2³².
    pub bins: Vec<u64>,
    /// The speed of rolling byte by byte and comparing every hash with a mask, for each backend.
    pub speeds: Vec<(Backend, Speed)>,
}

impl HashEntry {
    /// Returns the count of the fullest range, as a multiple of the count in a uniform
    /// distribution.
    #[must_use]
    pub fn fullest(&self) -> f64 {
        self.relative(self.bins.iter().max())
    }

    /// Returns the count of the emptiest range, likewise.
    #[must_use]
    pub fn emptiest(&self) -> f64 {
        self.relative(self.bins.iter().min())
    }

    fn relative(&self, bin: Option<&u64>) -> f64 {
        let total: u64 = self.bins.iter().sum();
        *bin.unwrap_or(&0) as f64 * self.bins.len() as f64 / total.max(1) as f64
    }

    /// Returns Pearson's chi-squared statistic divided by its degrees of freedom: about 1 if hashes
    /// are as even as random numbers. It grows with the unevenness and with the number of windows.
    #[must_use]
    pub fn unevenness(&self) -> f64 {
        let total: u64 = self.bins.iter().sum();
        let expected = (total as f64 / self.bins.len() as f64).max(f64::MIN_POSITIVE);
        let squares = self.bins.iter().map(|bin| (*bin as f64 - expected).powi(2) / expected);
        squares.sum::<f64>() / (self.bins.len() - 1) as f64
    }
}

/// Hashes `windows` random windows with each rolling hash, and rolls each over `sample` random
/// bytes in memory, `rounds` times for each backend.
///
/// # Errors
/// A number is 0, or the observer asks to stop.
pub fn hashes(
    windows: u64,
    sample: usize,
    rounds: u32,
    backends: &[Backend],
    observer: &mut impl Observer,
) -> Result<Hashes> {
    at_least_one("windows", windows as usize)?;
    at_least_one("bytes of the sample", sample)?;
    at_least_one("rounds", rounds as usize)?;
    at_least_one("backends", backends.len())?;
    let passes = u64::from(rounds) * backends.len() as u64;
    let each = passes * sample as u64;
    observer.expect(each * RollingHash::ALL.len() as u64);
    let data = Random::new(1).bytes(sample);
    let mut entries = Vec::new();
    for hash in RollingHash::ALL {
        let settings = never(hash);
        let value = |(name, value): (&str, String)| (name == "hash").then_some(value);
        entries.push(HashEntry {
            hash,
            name: settings
                .parameter_values()
                .into_iter()
                .find_map(value)
                .unwrap_or_default(),
            bins: bins(hash, windows),
            speeds: Vec::new(),
        });
        let entry = entries.last_mut().expect("one was just put there");
        for backend in backends {
            let chunker = Chunker::with_backend(&settings, *backend)?;
            let mut all = Vec::new();
            for _ in 0..rounds {
                all.push(speed::round(&data, speed::cut(&chunker)));
                if !observer.advance(sample as u64) {
                    return Err(Error::Stopped);
                }
            }
            entry.speeds.push((*backend, Speed::of(&all)));
        }
    }
    Ok(Hashes {
        machine: Machine::here(),
        sample: sample as u64,
        rounds,
        windows,
        entries,
    })
}

/// Returns a chunker that looks at every hash and hardly ever finds a boundary.
fn never(hash: RollingHash) -> Settings {
    let size_min = hash.window().max(ibid_chunk::SIZE_MIN_LEAST);
    Settings::Windowed(WindowedSettings {
        size_min,
        size_average: SIZE_MAX_MOST,
        size_max: SIZE_MAX_MOST,
        method: Method::Obsw,
        hash,
        main: u32::MAX,
        backup: 0,
    })
}

fn bins(hash: RollingHash, windows: u64) -> Vec<u64> {
    let mut bins = vec![0; HASH_BINS];
    let mut source = Random::new(2);
    let mut window = vec![0; hash.window()];
    for _ in 0..windows {
        source.fill(&mut window);
        let hash = u64::from(spec::window_hash(hash, &window));
        bins[((hash * HASH_BINS as u64) >> 32) as usize] += 1;
    }
    bins
}
