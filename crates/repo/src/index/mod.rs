//! The index: which chunks are stored, and where.

mod dependencies;
mod load;
mod loaded;
mod memory;

pub(crate) use dependencies::{Edges, usable};
pub(crate) use loaded::Loaded;
pub(crate) use memory::{Frame, Pack, Place};
