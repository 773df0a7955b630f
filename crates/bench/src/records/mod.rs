//! Savings and costs of deltas between records: the figures of dDedup §5, and its figure 6, on your
//! own records.
//!
//! Every run stores all records in a store of its own, in order, a hundred at a time and without
//! syncs, so that the processor is measured and not the disk.

mod bursts;
mod rivals;
mod stores;
mod traces;

use std::path::PathBuf;
use std::time::Duration;

use ibid_record::{Encoding, FeatureBytes, Interval, Retrieval, SizeClass};

use crate::{Machine, Observer, Result};

/// The plan of the measurements.
#[derive(Clone, Debug)]
pub struct RecordsPlan {
    /// Keys and bodies, in the order in which they are stored. A key that occurs again gets another
    /// version. If no key occurs twice, versions are not kept, so that any record may become a
    /// delta of a similar one. Where versions are kept, the latest of a key never becomes a delta.
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
    /// An empty folder for the stores, which are removed one after the other.
    pub folder: PathBuf,
    /// Mixtures of reads and writes.
    pub traces: Vec<Trace>,
    /// Bursts of writes, if any.
    pub bursts: Bursts,
}

/// A ratio of reads to writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Reads of the latest version of a record.
    pub reads: u64,
    /// Writes of the next record.
    pub writes: u64,
}

/// Bursts: records are stored at full speed for some time, then none for some time, and so on.
///
/// After the last record, the first is stored again, under another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// The number of bursts; 0 leaves them out.
    pub count: u32,
    /// The duration of a burst.
    pub busy: Duration,
    /// The duration of the pause after a burst.
    pub idle: Duration,
}

impl Default for Bursts {
    /// Three bursts of 300 ms, with pauses of 300 ms. The paper's bursts take 10 s.
    fn default() -> Self {
        Bursts {
            count: 3,
            busy: Duration::from_millis(300),
            idle: Duration::from_millis(300),
        }
    }
}

/// The results.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// The machine that they were measured on.
    pub machine: Machine,
    /// The number of records.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Whether versions were kept, because keys occurred more than once.
    pub versions_kept: bool,
    /// Runs, figure by figure.
    pub runs: Vec<RecordsRun>,
    /// The results of other ways to store the records.
    pub rivals: Vec<RivalRun>,
    /// Records by the size of their bodies, with the bytes that are stored of them by default,
    /// before compaction.
    pub sizes: Vec<SizeClass>,
    /// Mixtures of reads and writes, each without deltas and with them.
    pub traces: Vec<TraceRun>,
    /// Bursts of writes with a write-back cache and without, if asked for.
    pub bursts: Vec<BurstsRun>,
}

/// Cumulative shares up to a size: a point of figure 6.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeShare {
    /// The size, bytes.
    pub to: u64,
    /// The share of the records that are no larger, 0 to 1.
    pub records: f64,
    /// The share of the total saving that is due to these records; 0 if nothing is saved.
    pub saved: f64,
}

impl Records {
    /// Returns the shares up to each size that occurs, which rise to 1.
    #[must_use]
    pub fn size_shares(&self) -> Vec<SizeShare> {
        let saved = |class: &SizeClass| class.body_bytes.saturating_sub(class.stored_bytes);
        let all: u64 = self.sizes.iter().map(|class| class.records).sum();
        let all_saved: u64 = self.sizes.iter().map(saved).sum();
        let (mut records, mut saved_so_far) = (0, 0);
        let share = |class: &SizeClass| {
            records += class.records;
            saved_so_far += saved(class);
            SizeShare {
                to: class.to,
                records: records as f64 / all.max(1) as f64,
                saved: saved_so_far as f64 / all_saved.max(1) as f64,
            }
        };
        self.sizes.iter().map(share).collect()
    }

    /// Returns for each of these shares of the records, ascending, the first size that so many
    /// records do not exceed; no size twice.
    #[must_use]
    pub fn sizes_at(&self, shares: &[f64]) -> Vec<SizeShare> {
        let all = self.size_shares();
        // Sums of shares are not exact.
        let at = |share: &f64| all.iter().find(|at| at.records >= share - 1e-9).copied();
        let mut found: Vec<SizeShare> = shares.iter().filter_map(at).collect();
        found.dedup();
        found
    }

    /// Returns the runs of each trace: without deltas, then with them.
    pub fn by_trace(&self) -> impl Iterator<Item = &[TraceRun]> {
        self.traces.chunk_by(|one, next| one.trace == next.trace && !one.deltas)
    }
}

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsFigure {
    /// 1 and 9: savings of deltas and blocks, with features of 64 bytes and of 1 KiB, and the
    /// memory of the index.
    Ratio,
    /// 11a: the size of the source cache, and the reward for records in it.
    SourceCache,
    /// 12a: hops and version jumping, by distance.
    Retrieval,
    /// 12b: how densely records are searched for copies.
    Interval,
}

/// A store that was filled.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordsRun {
    /// The figure that it belongs to.
    pub figure: RecordsFigure,
    /// The settings of the encoder.
    pub encoding: Encoding,
    /// Seconds until all records were stored and, where it pays, encoded.
    pub seconds: f64,
    /// Bytes stored of bodies, before compaction.
    pub stored_bytes: u64,
    /// Bytes of blocks, if the store was compacted.
    pub block_bytes: Option<u64>,
    /// How many other records must be read for a record, on average.
    pub retrievals_mean: f64,
    /// How many other records must be read for a record, at most.
    pub retrievals_max: u64,
    /// Older records that were found in the source cache.
    pub cache_hits: u64,
    /// Older records that were read from the store.
    pub cache_misses: u64,
    /// Memory of the index, bytes.
    pub index_bytes: u64,
}

impl RecordsRun {
    /// Returns the share of the older records that had to be read from the store, because they were
    /// not in the cache; 0 if no record was needed.
    #[must_use]
    pub fn miss_share(&self) -> f64 {
        self.cache_misses as f64 / (self.cache_hits + self.cache_misses).max(1) as f64
    }
}

/// Another way to store records, of figures 1 and 9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Block compression alone: bodies in sequence, in blocks of 32 KiB, each compressed by zstd at
    /// its level 3.
    Blocks,
    /// [Deduplication](crate::traditional) by chunks of this average size, in the same blocks.
    Traditional {
        /// A power of two.
        chunk_bytes: usize,
    },
}

/// The bytes that a rival stores. They are counted and not written. Speeds are not compared,
/// because a rival has no store here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalRun {
    /// The rival.
    pub rival: Rival,
    /// Bytes of bodies before compression: chunks, and the recipes that list the chunks of each
    /// record.
    pub stored_bytes: u64,
    /// Bytes after compression.
    pub block_bytes: u64,
    /// Memory of the index of chunks without its free slots, bytes.
    pub index_bytes: u64,
}

/// The result of a mixture of reads and writes: figures 10a and 10b.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRun {
    /// The mixture.
    pub trace: Trace,
    /// Whether older records became deltas meanwhile.
    pub deltas: bool,
    /// Reads and writes a second.
    pub operations_per_s: f64,
    /// Latencies of reads.
    pub reads: Latencies,
    /// Latencies of writes.
    pub writes: Latencies,
}

/// Latencies in microseconds, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies(Vec<f64>);

impl Latencies {
    fn new(mut took_us: Vec<f64>) -> Latencies {
        took_us.sort_unstable_by(f64::total_cmp);
        Latencies(took_us)
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the latency that `percent` of the operations do not exceed, microseconds; none if
    /// there are none.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let place = (percent / 100.0 * last as f64).round() as usize;
        Some(self.0[place.min(last)])
    }

    /// Returns points of the distribution, as percent and microseconds: every second percent, and
    /// closer towards the slowest. Nothing if there are no latencies.
    pub fn curve(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let even = (0..50).map(|step| f64::from(2 * step));
        let slow = [99.0, 99.5, 99.9, 99.95, 99.99, 100.0];
        let percents = even.chain(slow);
        percents.filter_map(|percent| Some((percent, self.percentile_us(percent)?)))
    }
}

/// Bursts of writes: figure 11b.
#[derive(Clone, Debug, PartialEq)]
pub struct BurstsRun {
    /// Whether deltas waited in the write-back cache until the store was idle; otherwise each was
    /// written at once.
    pub write_back: bool,
    /// The length of a slice, seconds.
    pub slice_seconds: f64,
    /// Records stored in each slice, in order.
    pub slices: Vec<u64>,
    /// Bytes of all bodies that were stored.
    pub bytes: u64,
    /// Bytes stored of them after the last pause, before compaction.
    pub stored_bytes: u64,
    /// Deltas that were dropped because the cache was full.
    pub dropped: u64,
}

impl BurstsRun {
    /// Returns the records a second in each slice.
    pub fn speeds(&self) -> impl Iterator<Item = f64> + '_ {
        self.slices.iter().map(|&records| records as f64 / self.slice_seconds)
    }

    /// Returns the average and the lowest number of records a second, over the slices in which any
    /// was stored; 0 if there are none.
    #[must_use]
    pub fn busy_speeds(&self) -> (f64, f64) {
        let busy = || self.speeds().filter(|speed| *speed > 0.0);
        let least = busy().min_by(f64::total_cmp).unwrap_or_default();
        (busy().sum::<f64>() / busy().count().max(1) as f64, least)
    }
}

/// Returns the encodings of each figure. Each figure has the default once.
fn encodings() -> Vec<(RecordsFigure, Encoding)> {
    // Deltas that cannot be written in time must cost time here, and not be dropped.
    let usual = Encoding::default().with_lossy(false);
    let longer = usual.with_feature_bytes(FeatureBytes::B1024);
    let mut all = vec![
        (RecordsFigure::Ratio, usual.with_enabled(false)),
        (RecordsFigure::Ratio, usual),
        (RecordsFigure::Ratio, longer),
    ];
    let no_cache = usual.with_source_cache_bytes(0);
    all.push((RecordsFigure::SourceCache, no_cache));
    for source_cache_bytes in [256 << 10, 1 << 20, 4 << 20, 32 << 20] {
        for reward in [0, 2, 4, 8] {
            let encoding = usual.with_source_cache_bytes(source_cache_bytes).with_reward(reward);
            all.push((RecordsFigure::SourceCache, encoding));
        }
    }
    let distances = [4, 8, 16, 32, 64];
    let hops = distances.map(|distance| Retrieval::Hop { distance });
    let jumps = distances.map(|distance| Retrieval::VersionJumping { distance });
    let chain = [Retrieval::Chain];
    for retrieval in chain.into_iter().chain(hops).chain(jumps) {
        all.push((RecordsFigure::Retrieval, usual.with_retrieval(retrieval)));
    }
    for interval in Interval::ALL {
        all.push((RecordsFigure::Interval, usual.with_interval(interval)));
    }
    all
}

/// Stores the records in all ways of the plan, and measures them.
///
/// # Errors
/// [`Error::Records`](crate::Error::Records), [`Error::File`](crate::Error::File),
/// [`Error::Stopped`](crate::Error::Stopped).
///
/// ```
/// use ibid_bench::{Bursts, Unobserved, RecordsPlan, records};
///
/// let folder = tempfile::tempdir()?;
/// let body = |version: u32| format!("{} {version}", "in the same place ".repeat(20)).into_bytes();
/// let plan = RecordsPlan {
///     records: (0..50).map(|version| (b"ibid".to_vec(), body(version))).collect(),
///     folder: folder.path().to_owned(),
///     traces: Vec::new(),
///     bursts: Bursts { count: 0, ..Bursts::default() },
/// };
/// let found = records(&plan, &mut Unobserved)?;
/// assert!(found.runs[1].stored_bytes * 4 < found.runs[0].stored_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn records(plan: &RecordsPlan, observer: &mut dyn Observer) -> Result<Records> {
    let encodings = encodings();
    let bytes: u64 = plan.records.iter().map(|(_, body)| body.len() as u64).sum();
    let bursts_expected = bursts::expected(plan.bursts, bytes);
    let passes = encodings.len() + rivals::RIVALS.len() + 2 * plan.traces.len();
    observer.expect(bytes * passes as u64 + 2 * bursts_expected);
    let mut runs: Vec<RecordsRun> = Vec::new();
    let mut sizes = Vec::new();
    for (figure, encoding) in encodings {
        let same = runs.iter().find(|run| run.encoding == encoding);
        let run = match same {
            // One run can serve several figures.
            Some(same) => {
                let run = RecordsRun { figure, ..same.clone() };
                stores::advance(&plan.records, observer)?;
                run
            }
            None => {
                let (run, found) = stores::run(plan, figure, encoding, observer)?;
                if runs.len() == 1 {
                    sizes = found;
                }
                run
            }
        };
        runs.push(run);
    }
    let mut rivals = Vec::new();
    for rival in rivals::RIVALS {
        rivals.push(rivals::run(plan, rival, observer)?);
    }
    let mut traces = Vec::new();
    for &trace in &plan.traces {
        for deltas in [false, true] {
            traces.push(traces::run(plan, trace, deltas, observer)?);
        }
    }
    let mut bursts = Vec::new();
    if plan.bursts.count > 0 && bytes > 0 {
        for write_back in [true, false] {
            bursts.push(bursts::run(plan, write_back, bursts_expected, observer)?);
        }
    }
    Ok(Records {
        machine: Machine::here(),
        records: plan.records.len() as u64,
        bytes,
        versions_kept: stores::versions(plan) == ibid_record::Versions::Kept,
        runs,
        rivals,
        sizes,
        traces,
        bursts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_to_the_slowest() {
        let latencies = Latencies::new((0..=10_000).rev().map(f64::from).collect());
        let curve: Vec<(f64, f64)> = latencies.curve().collect();
        assert_eq!(curve.len(), 56);
        assert!(
            curve.iter().all(|(percent, us)| (percent * 100.0 - us).abs() < 1.0),
            "{curve:?}"
        );
        assert_eq!((curve[0], curve[55]), ((0.0, 0.0), (100.0, 10_000.0)));
        assert_eq!(Latencies::default().curve().count(), 0);
    }

    #[test]
    fn only_busy_slices_count_for_speeds() {
        let mut run = BurstsRun {
            write_back: true,
            slice_seconds: 0.5,
            slices: vec![10, 0, 30, 0],
            bytes: 0,
            stored_bytes: 0,
            dropped: 0,
        };
        assert!(run.speeds().eq([20.0, 0.0, 60.0, 0.0]));
        assert_eq!(run.busy_speeds(), (40.0, 20.0));
        run.slices.clear();
        assert_eq!(run.busy_speeds(), (0.0, 0.0));
    }

    #[test]
    fn shares_are_of_all_that_are_no_larger() {
        let class = |to, records, body_bytes, stored_bytes| SizeClass {
            from: to,
            to,
            records,
            body_bytes,
            stored_bytes,
        };
        let mut found = Records {
            machine: Machine::here(),
            records: 4,
            bytes: 0,
            versions_kept: true,
            runs: Vec::new(),
            rivals: Vec::new(),
            sizes: vec![class(10, 2, 20, 20), class(100, 1, 100, 70), class(1000, 1, 1000, 910)],
            traces: Vec::new(),
            bursts: Vec::new(),
        };
        let shares = found.size_shares().into_iter().map(|at| (at.to, at.records, at.saved));
        assert!(shares.eq([(10, 0.5, 0.0), (100, 0.75, 0.25), (1000, 1.0, 1.0)]));
        let at: Vec<u64> = found
            .sizes_at(&[0.1, 0.5, 0.6, 1.0])
            .into_iter()
            .map(|at| at.to)
            .collect();
        assert_eq!(at, [10, 100, 1000]);
        found.sizes.clear();
        assert!(found.size_shares().is_empty() && found.sizes_at(&[1.0]).is_empty());
    }

    #[test]
    fn every_figure_has_the_default() {
        let usual = Encoding::default().with_lossy(false);
        use RecordsFigure::{Interval, Ratio, Retrieval, SourceCache};
        for figure in [Ratio, SourceCache, Retrieval, Interval] {
            let of = encodings()
                .into_iter()
                .filter(|(of, encoding)| *of == figure && *encoding == usual);
            assert_eq!(of.count(), 1, "{figure:?}");
        }
        assert_eq!(encodings()[1].1, usual, "the one whose sizes are kept");
    }
}
