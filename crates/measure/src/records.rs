//! What do deltas between records save, and what do they cost? The figures of paper 004, section 5, on records of one's own.
//!
//! Every run stores all records in a store of its own, in the order in which they come, a hundred at a time and without syncs: what is measured is the work, not the disk.

use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use ibid_record::{Batch, Durability, Encoding, Interval, Namespace, Options, Retrieval, Store, Versions};

use crate::{Error, Observer, Random, Result};

/// Records that are stored together.
const BATCH: usize = 100;
/// Operations of a trace at most.
const OPERATIONS_MAX: u64 = 200_000;
/// Seed of the choice of records that are read.
const SEED: u64 = 1;

/// What is measured.
#[derive(Clone, Debug)]
pub struct RecordsPlan {
    /// Keys and bodies, in the order in which they are stored. The same key again is another version. If there is none, versions are not kept, so that any record may
    /// become a delta of one that is like it: where they are kept, the latest of a key never does.
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
    /// An empty folder for the stores, which are removed one after the other.
    pub folder: PathBuf,
    /// Mixtures of reads and writes.
    pub traces: Vec<Trace>,
}

/// So many reads for so many writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Of the latest version of a record.
    pub reads: u64,
    /// Of the next record.
    pub writes: u64,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Records {
    /// How many records there are.
    pub records: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Runs, figure by figure.
    pub runs: Vec<RecordsRun>,
    /// Mixtures of reads and writes, each without deltas and with.
    pub traces: Vec<TraceRun>,
}

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordsFigure {
    /// 9: what deltas and blocks save, and how much memory the index takes.
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
    /// What it is for.
    pub figure: RecordsFigure,
    /// How records were encoded.
    pub encoding: Encoding,
    /// Seconds until all were stored, and encoded as far as that pays.
    pub seconds: f64,
    /// Bytes that are stored of bodies, before they are compressed together.
    pub stored_bytes: u64,
    /// Bytes of blocks, where the store was compacted.
    pub block_bytes: Option<u64>,
    /// Others that must be read for a record, on average and at most.
    pub retrievals_mean: f64,
    /// At most.
    pub retrievals_max: u64,
    /// Older records that were found in the source cache.
    pub cache_hits: u64,
    /// Older records that were read from the store.
    pub cache_misses: u64,
    /// Memory of the index, bytes.
    pub index_bytes: u64,
}

/// A mixture of reads and writes that was played.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceRun {
    /// Which.
    pub trace: Trace,
    /// Whether older records became deltas meanwhile.
    pub deltas: bool,
    /// Reads and writes a second.
    pub operations_per_s: f64,
    /// How long reads took.
    pub reads: Latencies,
    /// How long writes took.
    pub writes: Latencies,
}

/// Microseconds, ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies(Vec<f64>);

impl Latencies {
    fn new(mut took_us: Vec<f64>) -> Latencies {
        took_us.sort_unstable_by(f64::total_cmp);
        Latencies(took_us)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Microseconds that so many percent of them took at most; none if there are none.
    #[must_use]
    pub fn percentile_us(&self, percent: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let place = (percent / 100.0 * last as f64).round() as usize;
        Some(self.0[place.min(last)])
    }
}

/// Encodings of each figure. The one that is the default comes once in each.
fn encodings() -> Vec<(RecordsFigure, Encoding)> {
    // What has no time to be written shall show as time.
    let usual = Encoding {
        lossy: false,
        ..Encoding::default()
    };
    let mut all = vec![
        (RecordsFigure::Ratio, Encoding { on: false, ..usual }),
        (RecordsFigure::Ratio, usual),
    ];
    for source_cache_bytes in [1 << 20, 4 << 20, 32 << 20] {
        for reward in [0, 2, 4, 8] {
            let encoding = Encoding {
                source_cache_bytes,
                reward,
                ..usual
            };
            all.push((RecordsFigure::SourceCache, encoding));
        }
    }
    let distances = [4, 8, 16, 32, 64];
    let hops = distances.map(|distance| Retrieval::Hop { distance });
    let jumps = distances.map(|distance| Retrieval::VersionJumping { distance });
    let chain = [Retrieval::Chain];
    for retrieval in chain.into_iter().chain(hops).chain(jumps) {
        all.push((RecordsFigure::Retrieval, Encoding { retrieval, ..usual }));
    }
    for interval in Interval::ALL {
        all.push((RecordsFigure::Interval, Encoding { interval, ..usual }));
    }
    all
}

/// Stores the records in many ways.
///
/// # Errors
/// [`Error::Records`], [`Error::File`], [`Error::Stopped`].
///
/// ```
/// use ibid_measure::{Nobody, RecordsPlan, records};
///
/// let folder = tempfile::tempdir()?;
/// let body = |version: u32| format!("{} {version}", "in the same place ".repeat(20)).into_bytes();
/// let plan = RecordsPlan {
///     records: (0..50).map(|version| (b"ibid".to_vec(), body(version))).collect(),
///     folder: folder.path().to_owned(),
///     traces: Vec::new(),
/// };
/// let found = records(&plan, &mut Nobody)?;
/// assert!(found.runs[1].stored_bytes * 4 < found.runs[0].stored_bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn records(plan: &RecordsPlan, observer: &mut dyn Observer) -> Result<Records> {
    let encodings = encodings();
    let bytes: u64 = plan.records.iter().map(|(_, body)| body.len() as u64).sum();
    observer.expect(bytes * (encodings.len() + 2 * plan.traces.len()) as u64);
    let mut runs = Vec::new();
    for (figure, encoding) in encodings {
        runs.push(in_a_store(plan, encoding, |store, space| {
            fill(plan, store, space, figure, encoding, observer)
        })?);
    }
    let mut traces = Vec::new();
    for &trace in &plan.traces {
        for deltas in [false, true] {
            let encoding = Encoding {
                on: deltas,
                ..Encoding::default()
            };
            traces.push(in_a_store(plan, encoding, |store, space| {
                play(plan, store, space, trace, deltas, observer)
            })?);
        }
    }
    Ok(Records {
        records: plan.records.len() as u64,
        bytes,
        runs,
        traces,
    })
}

/// What the namespace keeps.
fn versions(plan: &RecordsPlan) -> Versions {
    let mut keys = HashSet::new();
    if plan.records.iter().all(|(key, _)| keys.insert(key)) {
        Versions::Latest
    } else {
        Versions::Kept
    }
}

/// Makes a store for a run, and removes it.
fn in_a_store<T>(
    plan: &RecordsPlan,
    encoding: Encoding,
    work: impl FnOnce(&Store, &Namespace) -> Result<T>,
) -> Result<T> {
    let folder = plan.folder.join("store");
    let options = Options {
        durability: Durability::None,
        encoding,
        ..Options::default()
    };
    let store = Store::open(&folder, options)?;
    let space = store.namespace("records", versions(plan))?;
    let done = work(&store, &space);
    drop((space, store));
    remove(&folder)?;
    done
}

fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).map_err(Error::file("remove", folder))
}

/// Stores these records.
fn put(store: &Store, space: &Namespace, records: &[(Vec<u8>, Vec<u8>)], observer: &mut dyn Observer) -> Result<()> {
    for records in records.chunks(BATCH) {
        let mut batch = Batch::new();
        for (key, body) in records {
            batch.put(space, key, body);
        }
        store.commit(batch)?;
        advance(records, observer)?;
    }
    Ok(())
}

fn advance(records: &[(Vec<u8>, Vec<u8>)], observer: &mut dyn Observer) -> Result<()> {
    let bytes = records.iter().map(|(_, body)| body.len() as u64).sum();
    if observer.advance(bytes) {
        Ok(())
    } else {
        Err(Error::Stopped)
    }
}

fn fill(
    plan: &RecordsPlan,
    store: &Store,
    space: &Namespace,
    figure: RecordsFigure,
    encoding: Encoding,
    observer: &mut dyn Observer,
) -> Result<RecordsRun> {
    let start = Instant::now();
    put(store, space, &plan.records, observer)?;
    store.finish_encoding()?;
    let seconds = start.elapsed().as_secs_f64();
    let mut go_on = |_| ControlFlow::Continue(());
    let found = store.statistics(&mut go_on)?;
    let block_bytes = if figure == RecordsFigure::Ratio {
        store.compact(&mut go_on)?;
        Some(store.statistics(&mut go_on)?.blocks.bytes)
    } else {
        None
    };
    let of = |figure: fn(&ibid_record::NamespaceStatistics) -> u64| found.namespaces.first().map_or(0, figure);
    let mean = found.namespaces.first().and_then(|space| space.retrievals.mean());
    Ok(RecordsRun {
        figure,
        encoding,
        seconds,
        stored_bytes: of(|space| space.stored_bytes()),
        block_bytes,
        retrievals_mean: mean.unwrap_or_default(),
        retrievals_max: of(|space| space.retrievals.max()),
        cache_hits: found.encoding.cache_hits,
        cache_misses: found.encoding.cache_misses,
        index_bytes: found.encoding.index_bytes,
    })
}

/// Stores half of the records, and then reads some of these and stores the others.
fn play(
    plan: &RecordsPlan,
    store: &Store,
    space: &Namespace,
    trace: Trace,
    deltas: bool,
    observer: &mut dyn Observer,
) -> Result<TraceRun> {
    let (there, new) = plan.records.split_at(plan.records.len().div_ceil(2));
    put(store, space, there, observer)?;
    store.finish_encoding()?;
    let mut random = Random::new(SEED);
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let mut new = new.iter();
    let start = Instant::now();
    for number in 0..OPERATIONS_MAX {
        let took = Instant::now();
        if number % (trace.reads + trace.writes) < trace.writes {
            let Some((key, body)) = new.next() else { break };
            space.put(key, body)?;
            writes.push(took.elapsed().as_secs_f64() * 1e6);
            advance(&[], observer)?;
        } else {
            let (key, _) = &there[random.below(there.len() as u64) as usize];
            space.get(key)?;
            reads.push(took.elapsed().as_secs_f64() * 1e6);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    // What was left is not played.
    let operations = reads.len() + writes.len();
    advance(&plan.records[there.len()..], observer)?;
    Ok(TraceRun {
        trace,
        deltas,
        operations_per_s: operations as f64 / seconds.max(1e-9),
        reads: Latencies::new(reads),
        writes: Latencies::new(writes),
    })
}
