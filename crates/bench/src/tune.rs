//! A search for the parameters of SeqCDC that give an average: found on random data, chosen on the
//! user's data (SeqCDC and VSEQ, section V).

use std::ops::RangeInclusive;
use std::path::PathBuf;

use ibid_chunk::{Backend, SeqCdcSettings, Settings, chunks};

use crate::compare::{at_least_one, compare_in_memory};
use crate::{Comparison, Entry, Error, Observer, Plan, Random, Result, Series, Sizes, compare, preferred_chunker};

/// The lengths of sequences that are tried.
const SEQ_LENGTHS: RangeInclusive<u32> = 3..=10;
/// The numbers of opposing pairs that start a skip; the papers use 50 and 55.
const SKIP_TRIGGERS: [u32; 6] = [30, 40, 50, 55, 70, 100];
/// Bytes that a skip passes over; the papers use 256 to 512.
const SKIP_SIZES: RangeInclusive<u32> = 16..=4096;
/// The search for a skip size ends when the average is within this share of the target.
const NEAR: f64 = 0.01;
/// A candidate's average is within this share of the target.
const TOLERANCE: f64 = 0.05;
/// The largest share of a candidate's chunks that may have the maximum size: chunks cut at the
/// maximum can give any average.
const FORCED_MOST: f64 = 0.25;

/// The plan of a search.
#[derive(Clone, Debug)]
pub struct TunePlan {
    /// Sizes, mode and the treatment of equal neighbours; the search finds the other parameters.
    /// [`SeqCdcSettings::size_average`] is the target average.
    pub base: SeqCdcSettings,
    /// Random bytes that averages are simulated on.
    pub random_bytes: usize,
    /// The seed of the random bytes.
    pub seed: u64,
    /// Files, and folders with files, to try candidates on. Without any, edited versions of random
    /// bytes are used.
    pub paths: Vec<PathBuf>,
    /// How many times speeds are measured.
    pub rounds: u32,
    /// Bytes that speeds are measured on.
    pub sample: usize,
    /// Threads that search for duplicates.
    pub threads: usize,
}

impl TunePlan {
    /// Returns the plan for an average with the sizes of the papers (a minimum of half the average,
    /// or a quarter up to 4 KiB; a maximum of twice the average) and simulations of 2000 chunks
    /// each.
    ///
    /// # Errors
    /// The average is outside the limits of SeqCDC.
    pub fn for_average(average: usize) -> Result<TunePlan> {
        let Settings::SeqCdc(usual) = Settings::for_average("seqcdc", average)? else {
            unreachable!("asked for by name");
        };
        let size_min = if average <= 4096 { average / 4 } else { average / 2 };
        Ok(TunePlan {
            base: SeqCdcSettings {
                size_min: size_min.max(ibid_chunk::SIZE_MIN_LEAST),
                ..usual
            },
            random_bytes: average.saturating_mul(2000).clamp(4 << 20, 256 << 20),
            seed: 1,
            paths: Vec::new(),
            rounds: 3,
            sample: 64 << 20,
            threads: 1,
        })
    }
}

/// Parameters that give the target average on random data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The settings with these parameters.
    pub settings: SeqCdcSettings,
    /// The average on other random bytes than those of the search.
    pub mean_on_random: f64,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// The parameters that give the average on random data, in the order of `comparison.entries`.
    pub candidates: Vec<Candidate>,
    /// The comparison of the candidates on the data.
    pub comparison: Comparison,
    /// The index of the best candidate.
    pub best: usize,
}

/// Searches for parameters on random bytes, tries all that give the average on the data, and
/// chooses one.
///
/// For each length of sequence and number of opposing pairs, bisection finds the skip size that
/// gives the average. The best candidate stores least on the data, with metadata
/// ([`Entry::ratio_with_metadata`]), among those whose average there is between two thirds and
/// three halves of the target, if there are any. Among candidates within 1 % of it, the fastest is
/// chosen.
///
/// # Errors
/// No parameters give the average, settings are not valid, a path can't be read, or the observer
/// asks to stop.
pub fn tune(plan: &TunePlan, observer: &mut impl Observer) -> Result<Tuning> {
    at_least_one("random bytes", plan.random_bytes)?;
    let candidates = candidates(plan, observer)?;
    let settings = |candidate: &Candidate| Settings::SeqCdc(candidate.settings);
    let comparing = Plan {
        paths: plan.paths.clone(),
        contenders: candidates.iter().map(settings).collect(),
        backends: vec![Backend::preferred().map_err(ibid_chunk::SettingsError::from)?],
        rounds: plan.rounds,
        sample: plan.sample,
        threads: plan.threads,
    };
    let comparison = match plan.paths.as_slice() {
        [] => compare_in_memory(&comparing, &versions(plan)?, observer)?,
        _ => compare(&comparing, observer)?,
    };
    let best = choose(&comparison.entries, plan.base.size_average);
    Ok(Tuning {
        candidates,
        comparison,
        best,
    })
}

/// Returns four versions of random bytes, with an edit of 100 bytes about every 200 kB.
fn versions(plan: &TunePlan) -> Result<Vec<Vec<u8>>> {
    let size = (plan.random_bytes / 2) as u64;
    let series = Series {
        size,
        versions: 4,
        edits: size.div_ceil(200_000),
        seed: plan.seed,
        ..Series::default()
    };
    series.validate()?;
    let failed = Error::file("make", std::path::Path::new("versions"));
    series.in_memory().map_err(failed)
}

fn choose(entries: &[Entry], average: usize) -> usize {
    let is_near = |entry: &Entry| (0.667..=1.5).contains(&(entry.sizes.mean() / average as f64));
    let any_is_near = entries.iter().any(is_near);
    let eligible = || {
        let all = entries.iter().enumerate();
        all.filter(move |(_, entry)| is_near(entry) || !any_is_near)
    };
    let least = eligible()
        .map(|(_, entry)| entry.ratio_with_metadata())
        .fold(0.0, f64::max);
    let speed = |entry: &Entry| entry.fastest().map_or(0.0, |(_, speed)| speed.median);
    let as_good = eligible().filter(|(_, entry)| entry.ratio_with_metadata() >= 0.99 * least);
    let best = as_good.max_by(|(_, a), (_, b)| speed(a).total_cmp(&speed(b)));
    best.map_or(0, |(at, _)| at)
}

/// Returns the parameters that give the target average on random data, shortest sequences first.
fn candidates(plan: &TunePlan, observer: &mut impl Observer) -> Result<Vec<Candidate>> {
    let average = plan.base.size_average as f64;
    let found_with = Random::stream(plan.seed, 1).bytes(plan.random_bytes);
    let judged_with = Random::stream(plan.seed, 2).bytes(plan.random_bytes);
    let combinations = SEQ_LENGTHS.count() * SKIP_TRIGGERS.len();
    observer.expect((combinations * plan.random_bytes) as u64);
    let mut found = Vec::new();
    let mut take = |settings: SeqCdcSettings| -> Result<()> {
        let chunker = preferred_chunker(&Settings::SeqCdc(settings))?;
        let mut sizes = Sizes::new(settings.size_max);
        chunks(&chunker, &judged_with).for_each(|chunk| sizes.add(chunk.len()));
        let mean_on_random = sizes.mean();
        let is_near = (mean_on_random / average - 1.0).abs() <= TOLERANCE;
        if is_near && sizes.at_max() as f64 <= FORCED_MOST * sizes.chunks() as f64 {
            found.push(Candidate {
                settings,
                mean_on_random,
            });
        }
        Ok(())
    };
    for seq_length in SEQ_LENGTHS {
        let unskipped = SeqCdcSettings {
            seq_length,
            skip_trigger: 0,
            skip_size: 0,
            ..plan.base
        };
        let without = mean(unskipped, &found_with)?;
        take(unskipped)?;
        for skip_trigger in SKIP_TRIGGERS {
            let skipping = SeqCdcSettings {
                skip_trigger,
                ..unskipped
            };
            // Skips only make chunks larger.
            if without < average * (1.0 - NEAR)
                && let Some(settings) = fit(skipping, &found_with)?
            {
                take(settings)?;
            }
            if !observer.advance(plan.random_bytes as u64) {
                return Err(Error::Stopped);
            }
        }
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::OutOfRange {
            what: "parameters of SeqCDC",
            expected: format!("some that give {average:.0} bytes on average between this minimum and maximum"),
            found: "none".into(),
        }),
    }
}

/// Returns the settings with the skip size that gives the average; none if no size does.
fn fit(settings: SeqCdcSettings, data: &[u8]) -> Result<Option<SeqCdcSettings>> {
    let with = |skip_size| SeqCdcSettings { skip_size, ..settings };
    let average = settings.size_average as f64;
    let (mut low, mut high) = SKIP_SIZES.into_inner();
    if mean(with(high), data)? < average * (1.0 - NEAR) {
        return Ok(None);
    }
    // The average grows with the skip size, apart from chance.
    while high - low > 8 {
        let middle = low + (high - low) / 2;
        let share = mean(with(middle), data)? / average;
        if (share - 1.0).abs() <= NEAR {
            return Ok(Some(with(middle)));
        }
        if share < 1.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(with(low)))
}

fn mean(settings: SeqCdcSettings, data: &[u8]) -> Result<f64> {
    let chunker = preferred_chunker(&Settings::SeqCdc(settings))?;
    Ok(data.len() as f64 / chunks(&chunker, data).count().max(1) as f64)
}
