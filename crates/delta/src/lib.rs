//! What is it like, and what differs?
//!
//! A record, or a chunk of a file, is often a changed copy of another. A [`Sketcher`] makes a
//! [`Sketch`] of each, by which one finds the other: what is similar shares features, and a
//! [`FeatureIndex`] knows who has which. A [`Chooser`] takes the best of the candidates; a
//! [`Cover`] takes the parts of several that are of use together. Then this crate writes one as the
//! difference from the other ([`DeltaEncoder`], [`DeltaDecoder`]), by one of three codecs that every delta
//! names in its first byte ([`Codec`]).
#![forbid(unsafe_code)]

mod codec;
mod cover;
mod error;
mod index;
mod sample;
mod select;
mod sketch;
mod varint;
mod window;

pub use codec::{Codec, DeltaDecoder, DeltaEncoder, LENGTH_MAX, Method, Outline, Reversal, Stretch, describe};
pub use cover::{Anchors, Cover, CoverSettings};
pub use error::Error;
pub use ibid_simd::Backend;
pub use index::{BYTES_PER_ENTRY, Candidate, FeatureIndex, InsertReport, PARTITIONS_MAX, POSTING_MAX};
pub use sample::Interval;
pub use select::{Chooser, Chosen, Scored, Scoring, Standing};
pub use sketch::{FEATURES_MAX, FeatureBytes, Sketch, Sketcher};
