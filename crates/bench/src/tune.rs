//! Parameters of SeqCDC for an average: found on random data, chosen on the user's (papers 000 and
//! 001, section V).

use std::ops::RangeInclusive;
use std::path::PathBuf;

use ibid_chunk::{Backend, Chunker, SeqCdcSettings, Settings, chunks};

use crate::compare::{at_least_one, compare_in_memory};
use crate::{Comparison, Entry, Error, Observer, Plan, Random, Result, Series, Sizes, compare};

/// The lengths of sequences that are tried.
const SEQ_LENGTHS: RangeInclusive<u32> = 3..=10;
/// The numbers of opposing pairs that start a skip; the papers have 50 and 55.
const SKIP_TRIGGERS: [u32; 6] = [30, 40, 50, 55, 70, 100];
/// Bytes that a skip passes over; the papers stay within 256 to 512.
const SKIP_SIZES: RangeInclusive<u32> = 16..=4096;
/// A search for a skip size ends when the average is as near as this,
const NEAR: f64 = 0.01;
/// and nothing is a candidate whose average is further off than this.
const TOLERANCE: f64 = 0.05;
/// Nor if more than this share of the chunks has the maximum size: cut by force, they give any
/// average.
const FORCED_MOST: f64 = 0.25;

/// What to look for, and where to try it.
#[derive(Clone, Debug)]
pub struct TunePlan {
    /// Sizes, mode and what equal neighbours do; the other parameters are looked for.
    /// [`SeqCdcSettings::size_average`] is the average wanted.
    pub base: SeqCdcSettings,
    /// Random bytes on which averages are simulated.
    pub random_bytes: usize,
    /// Other seeds give other random bytes.
    pub seed: u64,
    /// Files, and folders with files, to try candidates on. If there are none: edited versions of
    /// random bytes.
    pub paths: Vec<PathBuf>,
    /// How often speeds are measured.
    pub rounds: u32,
    /// Bytes on which speeds are measured.
    pub sample: usize,
    /// Threads that look for duplicates.
    pub threads: usize,
}

impl TunePlan {
    /// The plan for an average: sizes as the papers have them (a minimum of half the average, of a
    /// quarter up to 4 KiB; a maximum of twice), simulations of 2000 chunks each.
    ///
    /// # Errors
    /// When the average is outside the limits of SeqCDC.
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

/// Parameters that give the average on random data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// All of them.
    pub settings: SeqCdcSettings,
    /// The average that they gave on random bytes, other ones than they were found with.
    pub mean_on_random: f64,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Those that give the average on random data, in the order of `comparison.entries`.
    pub candidates: Vec<Candidate>,
    /// What each did on the data.
    pub comparison: Comparison,
    /// Which is best: a place among the candidates.
    pub best: usize,
}

/// Looks for parameters on random bytes, tries all that give the average on the data, and chooses.
///
/// For each length of sequence and number of opposing pairs, the size of skips that gives the
/// average is found by halving. Of what is found, the best is the one that stores least on the
/// data, with metadata ([`Entry::ratio_with_metadata`]), among those that realise there between two
/// thirds and three halves of the average, if there are such; and of several that are within 1 % of
/// it, the fastest.
///
/// # Errors
/// When no parameters give the average, settings are not valid, a path can't be read, or the
/// observer asks to stop.
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

/// Four versions of random bytes, with an edit of 100 bytes every 200 kB or so.
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

/// Parameters that give the average wanted on random data, shortest sequences first.
fn candidates(plan: &TunePlan, observer: &mut impl Observer) -> Result<Vec<Candidate>> {
    let average = plan.base.size_average as f64;
    let found_with = Random::stream(plan.seed, 1).bytes(plan.random_bytes);
    let judged_with = Random::stream(plan.seed, 2).bytes(plan.random_bytes);
    let combinations = SEQ_LENGTHS.count() * SKIP_TRIGGERS.len();
    observer.expect((combinations * plan.random_bytes) as u64);
    let mut found = Vec::new();
    let mut take = |settings: SeqCdcSettings| -> Result<()> {
        let chunker = Chunker::new(&Settings::SeqCdc(settings))?;
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

/// The settings with the skip size that gives the average; none if no size does.
fn fit(settings: SeqCdcSettings, data: &[u8]) -> Result<Option<SeqCdcSettings>> {
    let with = |skip_size| SeqCdcSettings { skip_size, ..settings };
    let average = settings.size_average as f64;
    let (mut low, mut high) = SKIP_SIZES.into_inner();
    if mean(with(high), data)? < average * (1.0 - NEAR) {
        return Ok(None);
    }
    // The average grows with the skip, but for chance.
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
    let chunker = Chunker::new(&Settings::SeqCdc(settings))?;
    Ok(data.len() as f64 / chunks(&chunker, data).count().max(1) as f64)
}
