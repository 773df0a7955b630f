//! The index: which chunks are stored, and where.
//!
//! | question | module |
//! |---|---|
//! | What is known of a chunk, a frame, a pack? | [`lookup`] |
//! | Where are chunks that are new, or few? | [`memory`] |
//! | Where are all others? | [`run`], files on the local disk |
//! | Which runs stay between commands? | [`crate::cache`] |
//! | When does it turn from one to another? | [`limits`] |
//! | How is it loaded, and what is missing? | [`load`], [`loaded`], [`stored`], [`build`] |
//! | What was in packs that are missing, and what may a writer take for stored then? | [`missing`], [`of_writer`] |
//! | How do new packs get into index files, and these stay few? | [`unlisted`], [`merge`] |
//! | Which frames need which? | [`dependencies`], [`number_set`] |
//! | Which ids has an operation met? | [`id_map`] |

mod build;
mod dependencies;
mod directories;
mod frames;
mod id_map;
mod limits;
mod load;
mod loaded;
mod lookup;
mod memory;
mod merge;
mod missing;
mod number_set;
mod of_writer;
mod run;
mod stored;
#[cfg(test)]
mod tests;
mod unlisted;

pub(crate) use dependencies::{Dependencies, PairSorter, Pairs, Unread, find_base};
pub(crate) use directories::bases_of;
pub(crate) use frames::{Frame, Pack, Place};
pub(crate) use id_map::IdMap;
pub(crate) use limits::IndexLimits;
pub(crate) use loaded::{DamagedFile, LoadedIndex, MissingPack, View};
pub(crate) use lookup::Index;
pub(crate) use number_set::NumberSet;
pub(crate) use run::{EntryOrder, Merge, Merged, Run, RunWriter, Sorter};
pub(crate) use unlisted::{Unlisted, each_unlisted};
