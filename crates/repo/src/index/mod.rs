//! The index: which chunks are stored, and where.

mod dependencies;
mod load;
mod loaded;
mod memory;

pub(crate) use dependencies::{Dependencies, find_base};
pub(crate) use loaded::LoadedIndex;
pub(crate) use memory::{Frame, Pack, Place};
