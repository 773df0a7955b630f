//! Frames being gathered.

use ibid_format::ChunkId;

use super::compress::FrameBuffers;
use super::job::Job;
use crate::Result;
use crate::index::Place;

/// A frame being gathered.
pub(super) struct OpenFrame {
    pub(super) number: u32,
    pub(super) buffers: FrameBuffers,
}

impl OpenFrame {
    pub(super) fn new(job: &Job<'_>, buffers: FrameBuffers) -> Result<OpenFrame> {
        let number = job.loaded.index.add_frame()?;
        Ok(OpenFrame { number, buffers })
    }

    /// Returns whether a frame of the target `size` is full.
    pub(super) fn is_full(&self, size: u32) -> bool {
        self.buffers.body.len() >= size as usize || self.buffers.blobs.len() >= usize::from(u16::MAX)
    }
}

/// Adds an unknown chunk to a frame.
pub(super) fn push(job: &Job<'_>, open: &mut OpenFrame, id: &ChunkId, bytes: &[u8]) -> Result<Place> {
    let place = Place {
        frame: open.number,
        slot: open.buffers.blobs.len() as u16,
    };
    job.loaded.index.insert(id, place)?;
    open.buffers.push(*id, bytes);
    Ok(place)
}
