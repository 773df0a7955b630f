//! Cutting faster where data repeats: a hint says where the next chunk ended last time.
//!
//! After Ni and Jiang, *RapidCDC: Leveraging Duplicate Locality to Accelerate Chunking in CDC-based
//! Deduplication Systems* (SoCC '19). Duplicates come in runs: a chunk that was seen before is most
//! often followed by the chunk that followed it then. So each chunk keeps the sizes of those that
//! followed it ([`Hint`]s, the latest first). When it occurs again, the next chunk is cut off at one
//! of these sizes without looking at the bytes between, if a [`Criterion`] accepts the place. If
//! none is accepted, or the chunk is new, the chunker looks for a boundary as usual.
//!
//! [`HintedChunker`] does this over any [`Chunker`](crate::Chunker) and any implementation of
//! [`Known`]. [`Table`] is a table of fingerprints and hints in memory that threads can share.
//!
//! # Hints are advice
//!
//! Whatever the hints say, chunks have a length of 1 to the maximum and together are the data. So a
//! lost, stale or corrupt hint changes the speed, at worst which duplicates are found, and never
//! what is restored. Under [`Criterion::WindowAndFingerprint`] the cuts are exactly those of the
//! chunker alone.
//!
//! ```
//! use ibid_chunk::locality::{Criterion, HintedChunker, Table};
//! use ibid_chunk::{Chunker, Settings};
//!
//! let chunker = Chunker::new(&Settings::for_average("gear", 1024)?)?;
//! let rapid = HintedChunker::new(&chunker, Criterion::WindowAndFingerprint)?;
//! // Use a collision-resistant hash instead: a table needs 16 bytes that no two chunks share.
//! let step = |sum: u128, byte: &u8| (sum ^ u128::from(*byte)).wrapping_mul(0x1000003d_00000000_000001b3);
//! let name = |chunk: &[u8]| chunk.iter().fold(0u128, step).to_le_bytes();
//! let table = Table::new(chunker.settings(), 2, 1 << 20);
//! let data: Vec<u8> = (0..200_000u32).map(|at| (at.wrapping_mul(at) >> 13) as u8).collect();
//! let mut known = table.with(name);
//! let first = rapid.for_each_chunk(&mut known, &data, |_| {});
//! let again = rapid.for_each_chunk(&mut known, &data, |chunk| assert!(chunk.is_duplicate));
//! assert_eq!(again.chunks, first.chunks);
//! assert!(again.hinted() > 9 * again.scanned);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod criterion;
mod hint;
#[cfg(feature = "std")]
mod packing;
mod rapid;
#[cfg(feature = "std")]
mod table;

pub use criterion::{Criterion, CriterionError};
pub use hint::{Hint, LIST_MOST};
pub use rapid::{Cut, Entered, HintedChunk, HintedChunker, Known, Tally, Trail};
#[cfg(feature = "std")]
pub use table::{Fingerprint, Table, TableEntry, TableWith};
