//! Which older record does a new one resemble? Older records become deltas of newer ones, in the
//! background (dDedup §3.1 and §3.2).
//!
//! A new record is stored whole. Then the encoder looks for an older record that it resembles: the
//! one that was the latest of its key, or else one that shares features of its sketch. The older
//! record is stored as a delta of the new one, which takes its place as the newest of the chain. So
//! the newest record is read without decoding.
//!
//! The feature index has only the newest records of chains: older ones resemble these. The latest
//! version of a key stays whole unless its [namespace](crate::Latest) says otherwise, so that
//! reading it costs nothing more. Only if a newer record has the same bytes, it becomes a copy of
//! that.
//!
//! Nothing here is needed to read a record. After a crash, with a full cache or without an index
//! entry, some records stay whole that could have been deltas.

mod bodies;
mod chain;
mod encoder;
mod governor;
mod index;
mod pending;
mod report;
mod settings;

pub use chain::Retrieval;
pub(crate) use encoder::{EncoderThread, yield_to_others};
pub use governor::Governor;
pub use report::EncodingReport;
pub(crate) use report::Tally;
pub use settings::Encoding;
