//! Which chunker suits this data, on this machine?
//!
//! The library runs the experiments of the program `ibid-bench` in the caller's process, and prints
//! nothing. An [`Observer`] follows long experiments and can stop them.
//!
//! | question | answer |
//! |---|---|
//! | What does each chunker save on these files, how fast, at which sizes? | [`compare()`] |
//! | And as a page with pictures? | [`html()`] |
//! | How do duplicates follow one another in versions? | [`duplicate_locality()`], [`duplicate_locality_html()`] |
//! | Which settings have a minimum, average and maximum that a paper states? | [`ChunkSizes`] |
//! | Where does SeqCDC's speed come from? | [`breakdown()`] |
//! | Which parameters of SeqCDC give this average, and which of them suit this data? | [`tune()`] |
//! | What do hints about boundaries gain? | [`locality()`], [`locality_html()`] |
//! | What do deltas between records save, and what do they cost? | [`records()`], [`records_html()`] |
//! | What does deduplication by chunks, as of files, make of records? | [`traditional`] |
//! | How even are rolling hashes, and how fast? | [`hashes()`] |
//! | What do instructions cost on this CPU? | [`cpu()`] |
//! | What does data look like that changes a little from version to version? | [`Series`] |
//!
//! ```
//! use ibid_bench::{Unobserved, Series};
//!
//! let folder = tempfile::tempdir()?;
//! let series = Series { size: 100_000, versions: 3, edits: 5, ..Series::default() };
//! let versions = series.write_into(folder.path(), &mut Unobserved)?;
//! assert_eq!(versions[0].bytes, 100_000);
//! assert_eq!(versions[2].path, folder.path().join("v03.bin"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod breakdown;
mod chunk_sizes;
mod chunker;
mod clock;
mod compare;
mod cpu;
mod duplicate_locality;
mod duplicates;
mod error;
mod fingerprints;
mod hashes;
mod inputs;
mod locality;
mod machine;
mod observer;
mod random;
mod records;
mod report;
mod sample;
mod sizes;
mod speed;
pub mod traditional;
mod tune;
mod versions;

pub use breakdown::{Breakdown, BreakdownPlan, Part, Step, breakdown};
pub use chunk_sizes::ChunkSizes;
pub use chunker::preferred_chunker;
pub use compare::{Comparison, Entry, INDEX_BYTES, INDEX_MEMORY_BYTES, Plan, RECIPE_BYTES, compare};
pub use cpu::{Cpu, InstructionCost, cpu};
pub use duplicate_locality::{
    Amount, Checkpoint, DuplicateLocality, DuplicateLocalityPlan, Sequences, duplicate_locality,
};
pub use error::{Error, Result};
pub use hashes::{HASH_BINS, HashEntry, Hashes, hashes};
pub use locality::{
    Locality, LocalityChunker, LocalityData, LocalityDataset, LocalityEntry, LocalityPlan, LocalityRun, StoreEntry,
    StoreMethod, ThreadsEntry, locality,
};
pub use machine::Machine;
pub use observer::{Observer, Unobserved};
pub use random::Random;
pub use records::{
    Bursts, BurstsRun, Latencies, Records, RecordsFigure, RecordsPlan, RecordsRun, Rival, RivalRun, SizeShare, Trace,
    TraceRun, records,
};
pub use report::{duplicate_locality_html, html, locality_html, records_html};
pub use sample::sample;
pub use sizes::Sizes;
pub use speed::Speed;
pub use tune::{Candidate, TunePlan, Tuning, tune};
pub use versions::{EDITS_MOST, EditCounts, EditKind, Series, VERSIONS_MOST, Version};

/// The library programs of the repository's README, which are compiled as they are written there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
