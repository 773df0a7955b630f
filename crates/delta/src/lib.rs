//! Finds what new data resembles, and stores it as a delta against that.
//!
//! A record, or a chunk of a file, is often a changed copy of another. This crate finds the other
//! one and writes the difference, in five steps (after dDedup):
//!
//! | step | type |
//! |---|---|
//! | Sketch data: a few features that similar data shares | [`Sketcher`], [`Sketch`] |
//! | Look up the records that share features | [`FeatureIndex`], [`Candidate`] |
//! | Choose a base among the candidates | [`Ranking`], [`BaseChooser`] |
//! | Encode the target against the base | [`DeltaEncoder`], [`Method`] |
//! | Decode it again | [`DeltaDecoder`] |
//!
//! ```
//! use ibid_delta::{BaseChooser, CandidateState, DeltaDecoder, FeatureIndex, Method, Ranking, Sketcher};
//!
//! let page = |edit: usize| -> Vec<u8> {
//!     (0..300).map(|line| format!("line {}\n", if line == edit { 0 } else { line * line })).collect::<String>().into()
//! };
//! let stored = [page(7), vec![7; 4000]];
//! let new = page(250);
//!
//! // Sketch what is stored, and index it.
//! let (mut sketcher, mut index) = (Sketcher::new(), FeatureIndex::new());
//! index.add_partition(0, 1000)?;
//! for (place, record) in stored.iter().enumerate() {
//!     index.insert(0, &sketcher.sketch(record), place as u32);
//! }
//!
//! // Find candidates for the new record, rank them, and encode against the best.
//! let (mut candidates, mut ranked, mut delta) = (Vec::new(), Vec::new(), Vec::new());
//! index.candidates(0, &sketcher.sketch(&new), &mut candidates);
//! Ranking::default().rank(&candidates, |_| Some(CandidateState::default()), &mut ranked);
//! let mut chooser = BaseChooser::new(Method::ZstdPrefix { level: 3 });
//! let base = |place: u32| stored.get(place as usize);
//! let chosen = chooser.choose(&ranked, base, &new, &mut delta)?.expect("the first record resembles it");
//! assert!(chosen.place == 0 && delta.len() < new.len() / 20);
//!
//! // Decode it again.
//! let mut decoded = Vec::new();
//! DeltaDecoder::new().decode(&stored[0], &delta, new.len(), &mut decoded)?;
//! assert_eq!(decoded, new);
//! # Ok::<(), ibid_delta::Error>(())
//! ```
//!
//! The bytes of a delta are fixed: `docs/format/delta.md` of the repository describes each of them.
//! Deltas, sketches and choices are the same on every machine; [`Backend`] changes only the speed.
//!
//! The module [`advanced`] has the parts for stores with long targets: several bases for one
//! target, decoding a range, and deltas turned round.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::unwrap_used)]

mod choose;
mod codec;
mod error;
mod index;
mod ranges;
mod sample;
mod sketch;
mod varint;
mod window;

pub use choose::{BaseChooser, CandidateState, ChosenBase, RankedCandidate, Ranking};
pub use codec::{DeltaDecoder, DeltaEncoder, LENGTH_MAX, Method};
pub use error::Error;
pub use ibid_simd::Backend;
pub use index::{Candidate, FeatureIndex, InsertReport};
pub use sample::Interval;
pub use sketch::{FeatureBytes, Sketch, Sketcher};

/// Parts for stores that encode against several bases, read ranges of targets, or turn deltas
/// round.
///
/// - [`RangeSelector`](advanced::RangeSelector) selects the ranges of several bases that together
///   make a good prefix for one target.
/// - [`Outline`](advanced::Outline) says which ranges of the base a target consists of, so that a
///   reader fetches only those: see [`DeltaDecoder::outline`] and [`DeltaEncoder::outline`].
/// - [`Reversal`](advanced::Reversal) reports how [`DeltaEncoder::reverse`] turned a delta round.
/// - [`describe`](advanced::describe) reads the head of a delta: its
///   [`Codec`](advanced::Codec) and the length of its target.
pub mod advanced {
    pub use crate::codec::{Codec, Outline, Reversal, Segment, describe};
    pub use crate::ranges::{BaseAnchors, RangeSelector, RangeSettings};
}
