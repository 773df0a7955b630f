//! What is gained by not looking twice: RapidCDC §4.
//!
//! Everything is measured in one run and on the same bytes in memory, piece by piece, each piece by
//! every contender in turn, so that what else the machine does falls on all of them, and in
//! processor time, so that little of it does. Only threads and stores go over all the data, one
//! after the other, and by the clock on the wall.

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

use crate::{Machine, Observer, Result, Series};

/// What is cut.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalityData {
    /// Files, and those in folders, one after the other.
    Files(Vec<PathBuf>),
    /// The versions of a series, made in memory.
    Series(Series),
}

/// What to compare.
#[derive(Clone, Debug)]
pub struct LocalityPlan {
    /// What is cut; each is measured alone.
    pub data: Vec<LocalityData>,
    /// With which chunkers.
    pub chunkers: Vec<Settings>,
    /// With which criteria; those that a chunker can't meet ([`Settings::tests_places`]) are left
    /// out for it.
    pub criteria: Vec<Criterion>,
    /// With how many hints for a chunk, each 1 to [`LIST_MOST`](ibid_chunk::locality::LIST_MOST).
    /// Threads and stores use the first.
    pub lists: Vec<usize>,
    /// Whether to see also what it costs if every hint is refused after its test (figure 12).
    pub worst: bool,
    /// With how many threads to cut several files at once (figure 18); none leaves that out.
    pub threads: Vec<usize>,
    /// The folder in which to measure a whole deduplication (figure 17), into a file that has a
    /// name for a moment only; none leaves that out.
    pub store: Option<PathBuf>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Locality {
    /// Where it was measured.
    pub machine: Machine,
    /// In the order of the plan.
    pub datasets: Vec<LocalityDataset>,
}

/// What was found of some data.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalityDataset {
    /// Which.
    pub data: LocalityData,
    /// Files, or versions.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// In the order of the plan.
    pub chunkers: Vec<LocalityChunker>,
}

/// What was found with one chunker.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalityChunker {
    /// Its settings.
    pub settings: Settings,
    /// Without hints.
    pub plain: LocalityRun,
    /// With them, by list length, then criterion.
    pub hinted: Vec<LocalityEntry>,
    /// Criteria that were asked for and that it can't meet.
    pub left_out: Vec<Criterion>,
    /// With several threads, without hints first; by criterion, then number of threads.
    pub threads: Vec<ThreadsEntry>,
    /// Whole deduplications.
    pub stores: Vec<StoreEntry>,
}

impl LocalityChunker {
    /// What was found with lists of this length, in the order of the criteria.
    pub fn with_list(&self, list: usize) -> impl Iterator<Item = &LocalityEntry> {
        self.hinted.iter().filter(move |entry| entry.list == list)
    }

    /// The lengths of lists, in the order of the plan.
    #[must_use]
    pub fn lists(&self) -> Vec<usize> {
        let mut lists: Vec<usize> = self.hinted.iter().map(|entry| entry.list).collect();
        lists.dedup();
        lists
    }

    /// How many times as fast as without hints boundaries are found (figures 8 to 11, 13, 15).
    #[must_use]
    pub fn chunking_gain(&self, run: &LocalityRun) -> f64 {
        self.plain.chunking_seconds / run.chunking_seconds.max(MOMENT)
    }

    /// How many times as fast as without hints chunks are found and named (figure 16).
    #[must_use]
    pub fn total_gain(&self, run: &LocalityRun) -> f64 {
        self.plain.total_seconds / run.total_seconds.max(MOMENT)
    }

    /// How much slower than without hints boundaries are found if all hints are refused: 0.05 is 5
    /// % (figure 12). None if that was not measured.
    #[must_use]
    pub fn worst_slowdown(&self, entry: &LocalityEntry) -> Option<f64> {
        Some(entry.worst_seconds? / self.plain.chunking_seconds.max(MOMENT) - 1.0)
    }

    /// How many times as fast as one thread with the same criterion; none if one was not measured.
    #[must_use]
    pub fn threads_gain(&self, entry: &ThreadsEntry) -> Option<f64> {
        let is_one = |one: &&ThreadsEntry| one.threads == 1 && one.criterion == entry.criterion;
        let one = self.threads.iter().find(is_one)?;
        Some(one.seconds / entry.seconds.max(MOMENT))
    }

    /// How many times as fast as a whole deduplication without hints.
    #[must_use]
    pub fn store_gain(&self, entry: &StoreEntry) -> Option<f64> {
        let plain = self.stores.iter().find(|plain| plain.method == StoreMethod::Plain)?;
        Some(plain.seconds / entry.seconds.max(MOMENT))
    }
}

/// Less than any time that is divided by.
const MOMENT: f64 = 1e-9;

/// What was found with one chunker, criterion and length of lists.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalityEntry {
    /// When a hint is accepted.
    pub criterion: Criterion,
    /// How many hints are kept of a chunk.
    pub list: usize,
    /// What came of it.
    pub run: LocalityRun,
    /// Seconds of chunking if every hint is refused after its test, if that was asked for. With
    /// [`Criterion::FastForward`], which tests nothing: none.
    pub worst_seconds: Option<f64>,
}

/// One way through all the data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalityRun {
    /// Seconds of the processor that finding boundaries took: looking at data, at hints and keeping
    /// these; fingerprints of places that were not accepted in the end count, too. What every
    /// deduplication needs is left out: naming the chunks and looking them up.
    pub chunking_seconds: f64,
    /// The same with all of it: finding boundaries, naming chunks (BLAKE3) and looking them up in a
    /// table in memory.
    pub total_seconds: f64,
    /// Bytes of chunks that are not there already.
    pub unique_bytes: u64,
    /// What became of the chunks.
    pub tally: Tally,
    /// Chunks that follow a duplicate in their file: those for which there are hints.
    pub followers: u64,
    /// Searches in the table of chunks.
    pub searches: u64,
    /// Chunks that were found without a search, beside the one before.
    pub neighbours: u64,
    /// Bytes of memory of the table, with hints.
    pub memory: u64,
}

impl LocalityRun {
    /// Bytes that were cut.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.unique_bytes + self.tally.duplicate_bytes
    }

    /// Bytes a second of finding boundaries alone.
    #[must_use]
    pub fn chunking_speed(&self) -> f64 {
        self.bytes() as f64 / self.chunking_seconds.max(MOMENT)
    }

    /// Bytes a second with naming and looking up.
    #[must_use]
    pub fn total_speed(&self) -> f64 {
        self.bytes() as f64 / self.total_seconds.max(MOMENT)
    }

    /// Bytes of all data by bytes of chunks that differ.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.bytes() as f64 / self.unique_bytes.max(1) as f64
    }

    /// Of the chunks after a duplicate, the share whose end was the hint in this place of the list,
    /// from 0 (figure 14).
    #[must_use]
    pub fn hit_share(&self, place: usize) -> f64 {
        let hits = self.tally.hits.get(place).copied().unwrap_or_default();
        hits as f64 / self.followers.max(1) as f64
    }
}

/// Cuts the data with all chunkers, each without hints and with them.
///
/// The observer is told once how many bytes will be looked at in all: those of the data as often as
/// they are gone over.
///
/// Memory: for each chunker without hints, and with each criterion and list length (twice to see
/// the worst), at most 23 bytes for each different chunk, 3 for each hint of its list (4 with sizes
/// that far apart: [`Table`](ibid_chunk::locality::Table)), and those of the hints once more.
/// Besides, 64 MiB and the longest chunk; of a series, two versions, and all of them if threads are
/// asked for. A store takes 5 MiB, and 4 bytes for every chunk.
///
/// # Errors
/// When the data can't be read, settings can't be, there is no writing in the folder of the store,
/// or the observer asks to stop.
pub fn locality(plan: &LocalityPlan, observer: &mut impl Observer) -> Result<Locality> {
    if let Some(folder) = &plan.store {
        // Before minutes are spent on the rest.
        store::create(folder)?;
    }
    let mut work = Vec::new();
    for data in &plan.data {
        work.push((data, Source::new(data, observer)?));
    }
    let chunkers = plan.chunkers.iter().map(Chunker::new);
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
    /// The criteria that a chunker can meet.
    fn criteria_for(&self, settings: &Settings) -> impl Iterator<Item = Criterion> {
        let tests_places = settings.tests_places();
        let all = self.criteria.iter().copied();
        all.filter(move |criterion| tests_places || !criterion.tests_places())
    }

    /// How many hints threads and stores keep.
    fn list(&self) -> usize {
        self.lists.first().copied().unwrap_or(2)
    }

    /// How often the data is gone over with a chunker.
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
