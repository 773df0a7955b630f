//! The gains of boundary hints: RapidCDC §4.
//!
//! Everything is measured in one run on the same bytes in memory. Every contender processes each
//! piece in turn, so that other work on the machine affects all of them alike, and processor time
//! is measured, which such work affects little. Threads and stores are the exception: each goes
//! over all the data in turn, and elapsed time is measured.

mod contender;
mod cutting;
mod replay;
mod source;
mod store;
mod threads;

use std::path::PathBuf;

use ibid_chunk::locality::{Criterion, Tally};
use ibid_chunk::{Chunker, Settings};
use source::Source;
pub use store::{StoreEntry, StoreMethod};
pub use threads::ThreadsEntry;

use crate::{Machine, Observer, Result, Series, preferred_chunker};

/// The data to cut.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalityData {
    /// Files, and those in folders, one after the other.
    Files(Vec<PathBuf>),
    /// The versions of a series, made in memory.
    Series(Series),
}

/// The plan of a comparison.
#[derive(Clone, Debug)]
pub struct LocalityPlan {
    /// The data; each item is measured alone.
    pub data: Vec<LocalityData>,
    /// The chunkers.
    pub chunkers: Vec<Settings>,
    /// The criteria. Those that a chunker can't meet ([`Settings::tests_places`]) are left out for
    /// it.
    pub criteria: Vec<Criterion>,
    /// The numbers of hints for a chunk, each 1 to [`LIST_MOST`](ibid_chunk::locality::LIST_MOST).
    /// Threads and stores use the first.
    pub lists: Vec<usize>,
    /// Whether to also measure the cost if every hint is refused after its test (figure 12).
    pub worst: bool,
    /// The numbers of threads that cut several files at once (figure 18); none leaves that out.
    pub threads: Vec<usize>,
    /// The folder for a complete deduplication (figure 17), which writes into an unnamed temporary
    /// file; none leaves that out.
    pub store: Option<PathBuf>,
}

/// The results of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Locality {
    /// The machine that it was measured on.
    pub machine: Machine,
    /// The results for each item of data, in the order of the plan.
    pub datasets: Vec<LocalityDataset>,
}

/// The results for one item of data.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalityDataset {
    /// The data.
    pub data: LocalityData,
    /// The number of files or versions.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The results for each chunker, in the order of the plan.
    pub chunkers: Vec<LocalityChunker>,
}

/// The results for one chunker.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalityChunker {
    /// The settings of the chunker.
    pub settings: Settings,
    /// The run without hints.
    pub plain: LocalityRun,
    /// The runs with hints, by list length, then by criterion.
    pub hinted: Vec<LocalityEntry>,
    /// Criteria of the plan that the chunker can't meet.
    pub left_out: Vec<Criterion>,
    /// The runs with several threads: without hints first, then by criterion; each by number of
    /// threads.
    pub threads: Vec<ThreadsEntry>,
    /// Complete deduplications.
    pub stores: Vec<StoreEntry>,
}

impl LocalityChunker {
    /// Returns the results with this list length, in the order of the criteria.
    pub fn with_list(&self, list: usize) -> impl Iterator<Item = &LocalityEntry> {
        self.hinted.iter().filter(move |entry| entry.list == list)
    }

    /// Returns the list lengths, in the order of the plan.
    #[must_use]
    pub fn lists(&self) -> Vec<usize> {
        let mut lists: Vec<usize> = self.hinted.iter().map(|entry| entry.list).collect();
        lists.dedup();
        lists
    }

    /// Returns the speed-up of finding boundaries over no hints (figures 8 to 11, 13, 15).
    #[must_use]
    pub fn chunking_gain(&self, run: &LocalityRun) -> f64 {
        self.plain.chunking_seconds / run.chunking_seconds.max(MOMENT)
    }

    /// Returns the speed-up of finding and naming chunks over no hints (figure 16).
    #[must_use]
    pub fn total_gain(&self, run: &LocalityRun) -> f64 {
        self.plain.total_seconds / run.total_seconds.max(MOMENT)
    }

    /// Returns the slowdown of finding boundaries if all hints are refused: 0.05 is 5 % (figure
    /// 12). None if it was not measured.
    #[must_use]
    pub fn worst_slowdown(&self, entry: &LocalityEntry) -> Option<f64> {
        Some(entry.worst_seconds? / self.plain.chunking_seconds.max(MOMENT) - 1.0)
    }

    /// Returns the speed-up over one thread with the same criterion; none if that was not measured.
    #[must_use]
    pub fn threads_gain(&self, entry: &ThreadsEntry) -> Option<f64> {
        let is_one = |one: &&ThreadsEntry| one.threads == 1 && one.criterion == entry.criterion;
        let one = self.threads.iter().find(is_one)?;
        Some(one.seconds / entry.seconds.max(MOMENT))
    }

    /// Returns the speed-up over a complete deduplication without hints.
    #[must_use]
    pub fn store_gain(&self, entry: &StoreEntry) -> Option<f64> {
        let plain = self.stores.iter().find(|plain| plain.method == StoreMethod::Plain)?;
        Some(plain.seconds / entry.seconds.max(MOMENT))
    }
}

/// A lower limit of divisors, so that no time is 0.
const MOMENT: f64 = 1e-9;

/// The results for one chunker, criterion and list length.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalityEntry {
    /// When a hint is accepted.
    pub criterion: Criterion,
    /// The number of hints for a chunk.
    pub list: usize,
    /// The run.
    pub run: LocalityRun,
    /// Seconds of chunking if every hint is refused after its test. None if it was not measured,
    /// and for [`Criterion::FastForward`], which has no test.
    pub worst_seconds: Option<f64>,
}

/// One run over all the data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalityRun {
    /// Processor seconds of finding boundaries: reading data, reading and storing hints, and
    /// fingerprints of places that were refused in the end. Naming chunks and looking them up is
    /// left out, because every deduplication needs that.
    pub chunking_seconds: f64,
    /// Processor seconds in total: finding boundaries, naming chunks (BLAKE3) and looking them up
    /// in a table in memory.
    pub total_seconds: f64,
    /// Bytes of different chunks.
    pub unique_bytes: u64,
    /// Counts of chunks by how they were found.
    pub tally: Tally,
    /// Chunks after a duplicate in their file: those with hints.
    pub followers: u64,
    /// Lookups in the table of chunks.
    pub searches: u64,
    /// Chunks found next to the previous chunk, without a lookup.
    pub neighbours: u64,
    /// Memory of the table with hints, bytes.
    pub memory: u64,
}

impl LocalityRun {
    /// Returns the bytes that were cut.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.unique_bytes + self.tally.duplicate_bytes
    }

    /// Returns the speed of finding boundaries, bytes a second.
    #[must_use]
    pub fn chunking_speed(&self) -> f64 {
        self.bytes() as f64 / self.chunking_seconds.max(MOMENT)
    }

    /// Returns the speed with naming and looking up, bytes a second.
    #[must_use]
    pub fn total_speed(&self) -> f64 {
        self.bytes() as f64 / self.total_seconds.max(MOMENT)
    }

    /// Returns the bytes of all data divided by the bytes of different chunks.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.bytes() as f64 / self.unique_bytes.max(1) as f64
    }

    /// Returns the share of the chunks after a duplicate whose end was the hint at this place of
    /// the list, from 0 (figure 14).
    #[must_use]
    pub fn hit_share(&self, place: usize) -> f64 {
        let hits = self.tally.hits.get(place).copied().unwrap_or_default();
        hits as f64 / self.followers.max(1) as f64
    }
}

/// Cuts the data with all chunkers, each without hints and with them.
///
/// The observer is told once how many bytes will be processed in all: those of the data, times the
/// number of passes.
///
/// Memory: for each chunker, once without hints and once for each criterion and list length (twice
/// to measure refused hints), at most 23 bytes for each different chunk, 3 for each hint of its
/// list (4 if the sizes are so far apart: [`Table`](ibid_chunk::locality::Table)), and the hints
/// once more. In addition, 64 MiB and the longest chunk; for a series, two versions, or all of them
/// if threads are measured. A store takes 5 MiB, and 4 bytes for every chunk.
///
/// # Errors
/// The data can't be read, settings are not valid, the folder of the store can't be written to, or
/// the observer asks to stop.
pub fn locality(plan: &LocalityPlan, observer: &mut impl Observer) -> Result<Locality> {
    if let Some(folder) = &plan.store {
        // Fails early, before minutes are spent on the rest.
        store::create(folder)?;
    }
    let mut work = Vec::new();
    for data in &plan.data {
        work.push((data, Source::new(data, observer)?));
    }
    let chunkers = plan.chunkers.iter().map(preferred_chunker);
    let chunkers: Vec<Chunker> = chunkers.collect::<std::result::Result<_, _>>()?;
    let passes: u64 = plan.chunkers.iter().map(|settings| plan.passes(settings)).sum();
    let bytes = work.iter().map(|(_, source)| source.bytes());
    observer.expect(bytes.fold(0u64, u64::saturating_add).saturating_mul(passes));
    let datasets = work
        .into_iter()
        .map(|(data, source)| dataset(plan, &chunkers, data, &source, observer));
    Ok(Locality {
        machine: Machine::here(),
        datasets: datasets.collect::<Result<_>>()?,
    })
}

fn dataset(
    plan: &LocalityPlan,
    chunkers: &[Chunker],
    data: &LocalityData,
    source: &Source,
    observer: &mut impl Observer,
) -> Result<LocalityDataset> {
    let mut runs: Vec<_> = chunkers
        .iter()
        .map(|chunker| contender::ChunkerRuns::new(chunker, plan, source.chunks_most(chunker.settings())))
        .collect();
    let longest = chunkers.iter().map(Chunker::size_max).max().unwrap_or_default();
    let total = source.for_each_piece(longest, observer, |piece, observer| {
        runs.iter_mut().try_for_each(|runs| runs.take(piece, observer))
    })?;
    let mut found: Vec<LocalityChunker> = runs.into_iter().map(contender::ChunkerRuns::finish).collect();
    for (chunker, found) in chunkers.iter().zip(&mut found) {
        found.threads = threads::run(plan, chunker, source, observer)?;
        if let Some(folder) = &plan.store {
            found.stores = store::run(plan, chunker, source, folder, observer)?;
        }
    }
    Ok(LocalityDataset {
        data: data.clone(),
        files: total.files,
        bytes: total.bytes,
        chunkers: found,
    })
}

impl LocalityPlan {
    /// Returns the criteria that a chunker can meet.
    fn criteria_for(&self, settings: &Settings) -> impl Iterator<Item = Criterion> {
        let tests_places = settings.tests_places();
        let all = self.criteria.iter().copied();
        all.filter(move |criterion| tests_places || !criterion.tests_places())
    }

    /// Returns the number of hints that threads and stores keep.
    fn list(&self) -> usize {
        self.lists.first().copied().unwrap_or(2)
    }

    /// Returns the number of passes over the data with a chunker.
    fn passes(&self, settings: &Settings) -> u64 {
        let (mut criteria, mut worst) = (0, 0);
        for criterion in self.criteria_for(settings) {
            criteria += 1;
            worst += usize::from(self.worst && contender::has_worst(criterion));
        }
        let runs = contender::PASSES * (1 + self.lists.len() * (criteria + worst));
        let threads = self.threads.len() * (1 + criteria);
        let store = self.store.as_ref().map_or(0, |_| store::passes(criteria));
        (runs + threads + store) as u64
    }
}
