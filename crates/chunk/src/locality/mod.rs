//! Do not look twice: where the next chunk ended last time.
//!
//! After Ni and Jiang, *RapidCDC: Leveraging Duplicate Locality to Accelerate Chunking in CDC-based
//! Deduplication Systems* (SoCC '19). Duplicates come in runs: behind a chunk that was there before
//! comes most often the one that followed it then. So with every chunk the sizes of those are kept
//! that followed it ([`Hint`]s, the last one first), and when the chunk turns up again, the next is
//! cut off at one of these sizes without a look at the bytes between, if a [`Criterion`] accepts
//! the place. If none is accepted, or the chunk was not there before, the chunker looks for a
//! boundary as usual.
//!
//! [`HintedChunker`] does this over any [`Chunker`](crate::Chunker) and anything that is [`Known`];
//! [`Table`] is a table of fingerprints and hints in memory that several threads can share.
//!
//! # Hints are advice
//!
//! Whatever hints say, chunks have a length of 1 to the maximum and are together the data, so a
//! lost, stale or garbled hint changes speed, at worst what is found to be there twice, and never
//! what is restored. Under [`Criterion::WindowAndFingerprint`] cuts are exactly those of the
//! chunker alone, whatever the hints: see there.
//!
//! ```
//! use ibid_chunk::locality::{Criterion, HintedChunker, Table};
//! use ibid_chunk::{Chunker, Settings};
//!
//! let chunker = Chunker::new(&Settings::for_average("gear", 1024)?)?;
//! let rapid = HintedChunker::new(&chunker, Criterion::WindowAndFingerprint)?;
//! // Not a hash to rely on: a table wants 16 bytes that no two chunks share.
//! let name = |chunk: &[u8]| chunk.iter().fold(0u128, |sum, byte| (sum ^ u128::from(*byte)).wrapping_mul(0x1000003d_00000000_000001b3)).to_le_bytes();
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
