//! What is gained by not looking twice: paper 003, section 4.
//!
//! Everything is measured in one run and on the same bytes in memory, piece by piece, each piece by every contender in turn, so that
//! what else the machine does falls on all of them.

mod lane;
mod replay;
mod source;
mod store;
mod threads;

use crate::{Observer, Result, Series};
use ibid_chunk::Settings;
use ibid_chunk::locality::{Criterion, Tally};
use std::path::PathBuf;

pub use store::{StoreEntry, StoreMethod, StorePlan, locality_store};
pub use threads::{ThreadsEntry, locality_threads};

/// What is cut.
#[derive(Clone, Debug)]
pub enum LocalityData {
    /// Files, and those in folders, one after the other.
    Files(Vec<PathBuf>),
    /// The versions of a series, made in memory.
    Series(Series),
}

/// What to compare.
#[derive(Clone, Debug)]
pub struct LocalityPlan {
    /// What is cut.
    pub data: LocalityData,
    /// With which chunkers.
    pub chunkers: Vec<Settings>,
    /// With which criteria; those that a chunker can't meet are left out for it.
    pub criteria: Vec<Criterion>,
    /// With how many hints for a chunk, each 1 to [`LIST_MOST`](ibid_chunk::locality::LIST_MOST).
    pub lists: Vec<usize>,
    /// Whether to see also what it costs if every hint is refused after its test (figure 12).
    pub worst: bool,
    /// The most different chunks that are remembered.
    pub chunks_most: usize,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Locality {
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
}

/// What was found with one chunker, criterion and length of lists.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalityEntry {
    /// When a hint is accepted.
    pub criterion: Criterion,
    /// How many hints are kept of a chunk.
    pub list: usize,
    /// What came of it.
    pub run: LocalityRun,
    /// Seconds of chunking if every hint is refused after its test, if that was asked for. With [`Criterion::FastForward`], which tests nothing: none.
    pub worst_seconds: Option<f64>,
}

/// One way through all the data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LocalityRun {
    /// Seconds that finding boundaries took: looking at data, at hints and keeping these; fingerprints of places that were not accepted in the end count, too. What every
    /// deduplication needs is left out: naming the chunks and looking them up.
    pub chunking_seconds: f64,
    /// Seconds with that: finding boundaries, naming chunks (BLAKE3) and looking them up in a table in memory.
    pub total_seconds: f64,
    /// Bytes of chunks that are not there already.
    pub unique_bytes: u64,
    /// What became of the chunks.
    pub tally: Tally,
    /// Searches in the table of chunks.
    pub searches: u64,
    /// Chunks that were found without a search, beside the one before.
    pub neighbours: u64,
    /// Bytes of memory of the table, with hints.
    pub memory: u64,
}

impl LocalityRun {
    /// Bytes of all data by bytes of chunks that differ.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let bytes = self.unique_bytes + self.tally.duplicate_bytes;
        bytes as f64 / self.unique_bytes.max(1) as f64
    }
}

/// Cuts the data with all chunkers, each without hints and with them.
///
/// Memory: two pieces of 64 MiB (of a series, two versions), and for each way at most 30 bytes for each different chunk, with lists of two.
///
/// # Errors
/// When the data can't be read, settings can't be, or the observer asks to stop.
pub fn locality(plan: &LocalityPlan, observer: &mut impl Observer) -> Result<Locality> {
    let mut lanes = Vec::new();
    for settings in &plan.chunkers {
        lanes.push(lane::Lanes::new(settings, plan)?);
    }
    let total = source::for_each_piece(&plan.data, &plan.chunkers, observer, |piece| {
        lanes.iter_mut().for_each(|lanes| lanes.take(piece));
    })?;
    Ok(Locality {
        files: total.files,
        bytes: total.bytes,
        chunkers: lanes.into_iter().map(lane::Lanes::finish).collect(),
    })
}
