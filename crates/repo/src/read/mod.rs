//! Reads chunks back from packs.

mod ahead;
mod cache;
mod delta_body;
mod listings;
mod moved;
mod reader;
mod recency;
mod verified;

pub(crate) use ahead::{Ahead, FrameSource, GAP_MAX};
pub(crate) use cache::Body;
pub(crate) use delta_body::{DeltaBody, Sources};
pub(crate) use reader::{ChunkReader, FrameReader, Opened};
pub(crate) use recency::Recency;
