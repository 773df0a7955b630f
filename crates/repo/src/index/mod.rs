//! The index: which chunks are stored, and where.

mod dependencies;
mod load;
mod memory;

pub(crate) use dependencies::{Edges, usable};
pub(crate) use load::{BUFFERS_MIN, Loaded, read_directory, read_index};
pub(crate) use memory::{Frame, Pack, Place};
