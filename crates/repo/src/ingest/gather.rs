//! New chunks into frames, in the order of the tree; complete frames to the workers and the packer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, Sender, bounded};
use ibid_delta::Sketch;
use ibid_format::ChunkId;
use ibid_format::pack::PackKind;

use super::compress::{Complete, FrameBuffers};
use super::deltas::Against;
use super::fingerprint::{Sketches, Span};
use super::groups::Lanes;
use super::job::Job;
use super::open_frame::{Open, push};
use super::store::{FrameDue, Stored};
use super::work::Work;
use crate::index::Frame;
use crate::read::Body;
use crate::similar::UNSAVED_MAX;
use crate::tree::MetadataSink;
use crate::{Error, Result, budget};

/// Bytes of metadata that are compressed together: trees are read a piece at a time, so their
/// frames are smaller.
const METADATA_FRAME: u32 = 256 << 10;
/// After so many new chunks it is checked that the index stays within the budget.
const CHECK_EVERY: u64 = 4096;

/// Gathers new chunks into frames and sends these off.
pub(super) struct Gather<'j> {
    pub(super) job: &'j Job<'j>,
    pub(super) stored: &'j Stored,
    pub(super) channels: Channels,
    data: Open,
    metadata: Open,
    /// Of data and of metadata.
    pub(super) new_chunks: [u64; 2],
    pub(super) new_bytes: [u64; 2],
    new_frames: u64,
    /// None if nobody looks for what is similar.
    pub(super) lanes: Option<Lanes<'j>>,
}

/// To and from the other threads.
pub(super) struct Channels {
    pub(super) work: Sender<Work>,
    pub(super) frames: Sender<FrameDue>,
    /// Where buffers that were read into go when they are done with.
    pub(super) spare: Sender<Vec<u8>>,
    pub(super) spares: Receiver<Vec<u8>>,
    pub(super) spare_frames: Receiver<FrameBuffers>,
    /// Where the slots of a large file's pieces go when all of them are done with.
    pub(super) slots: Sender<()>,
}

impl<'j> Gather<'j> {
    pub(super) fn new(
        job: &'j Job<'j>,
        stored: &'j Stored,
        channels: Channels,
        lanes: Option<Lanes<'j>>,
    ) -> Gather<'j> {
        Gather {
            job,
            stored,
            channels,
            data: Open::new(job, FrameBuffers::default()),
            metadata: Open::new(job, FrameBuffers::default()),
            new_chunks: [0; 2],
            new_bytes: [0; 2],
            new_frames: 0,
            lanes,
        }
    }

    /// Stores a chunk of metadata unless it is stored already.
    fn metadata(&mut self, id: &ChunkId, bytes: &[u8]) -> Result<()> {
        if self.job.loaded.index.get(id).is_some() {
            return Ok(());
        }
        push(self.job, &mut self.metadata, id, bytes)?;
        self.count(PackKind::Metadata, bytes)?;
        let full = self.job.repository.config.frame_size.min(METADATA_FRAME);
        if self.metadata.is_full(full) {
            self.send_metadata()?;
        }
        Ok(())
    }

    /// Stores a chunk of data unless it is stored already.
    pub(super) fn data(&mut self, span: &Span, data: &[u8], sketches: &Sketches) -> Result<()> {
        let job = self.job;
        if job.loaded.index.get(&span.id).is_some() {
            return Ok(());
        }
        let (bytes, sketch) = (span.of(data), sketches.of(span));
        let lane = match (&mut self.lanes, sketch) {
            (Some(lanes), Some(sketch)) => {
                let lane = lanes.find(job, sketch);
                job.gains.note(span.kind, bytes.len() as u64, lane.is_some());
                lane
            }
            _ => None,
        };
        match (lane, sketch) {
            (Some(lane), Some(sketch)) => self.similar(&span.id, bytes, sketch, lane)?,
            _ => self.unlike(&span.id, bytes, sketch)?,
        }
        self.count(PackKind::Data, bytes)
    }

    /// Gathers a chunk whose bases were found.
    fn similar(&mut self, id: &ChunkId, bytes: &[u8], sketch: &Sketch, lane: usize) -> Result<()> {
        let lanes = self.lanes.as_mut().expect("who found the bases");
        let lane = &mut lanes.lanes[lane];
        if lane.group.is_empty() {
            lane.since = lanes.clock;
        }
        let place = push(self.job, &mut lane.open, id, bytes)?;
        lane.group
            .push(place, sketch, &lanes.found, &lanes.similar, lanes.bases);
        self.tick()
    }

    /// Gathers a chunk for which there is no base.
    fn unlike(&mut self, id: &ChunkId, bytes: &[u8], sketch: Option<&Sketch>) -> Result<()> {
        let place = push(self.job, &mut self.data, id, bytes)?;
        if let Some(lanes) = &mut self.lanes {
            lanes.unlike.push((place, sketch.copied().unwrap_or_default()));
        }
        if self.data.is_full(self.job.repository.config.frame_size) {
            self.send_data()?;
        }
        self.tick()
    }

    /// Another chunk was stored: sends off what is due.
    fn tick(&mut self) -> Result<()> {
        if let Some(lanes) = &mut self.lanes {
            lanes.clock += 1;
        }
        let size = self.job.repository.config.frame_size;
        while let Some(lane) = self.lanes.as_ref().and_then(|lanes| lanes.due(size)) {
            self.send_lane(lane)?;
        }
        Ok(())
    }

    /// Counts a new chunk, and now and then looks after memory.
    fn count(&mut self, kind: PackKind, bytes: &[u8]) -> Result<()> {
        let of = usize::from(kind == PackKind::Metadata);
        self.new_chunks[of] += 1;
        self.new_bytes[of] += bytes.len() as u64;
        if !self.new_chunks.iter().sum::<u64>().is_multiple_of(CHECK_EVERY) {
            return Ok(());
        }
        if let Some(lanes) = &mut self.lanes
            && lanes.similar.unsaved() >= UNSAVED_MAX
        {
            if self.job.options.dry_run {
                lanes.similar.forget_unsaved();
            } else {
                let written = lanes.similar.save(&self.job.repository.files, &self.job.loaded)?;
                self.stored.written.fetch_add(written, Ordering::Relaxed);
            }
        }
        // It grows in steps, and goes on growing until the next check; and a small backup is to succeed
        // after this one has failed.
        self.check_memory(self.job.loaded.index.bytes() / 8)
    }

    fn send_metadata(&mut self) -> Result<()> {
        let next = self.fresh();
        let open = std::mem::replace(&mut self.metadata, next);
        self.send(PackKind::Metadata, open, None)
    }

    fn send_data(&mut self) -> Result<()> {
        let next = self.fresh();
        let open = std::mem::replace(&mut self.data, next);
        self.send(PackKind::Data, open, None)?;
        if let Some(lanes) = &mut self.lanes {
            for (place, sketch) in lanes.unlike.drain(..) {
                lanes.similar.add(place, 0, &sketch);
            }
        }
        Ok(())
    }

    fn send_lane(&mut self, lane: usize) -> Result<()> {
        let next = self.fresh();
        let lanes = self.lanes.as_mut().expect("it has the lane");
        let lane = &mut lanes.lanes[lane];
        let open = std::mem::replace(&mut lane.open, next);
        let against = lane.group.close(&mut lanes.similar);
        self.send(PackKind::Data, open, Some(against))
    }

    /// A frame to gather into, in memory that was used before if there is any.
    fn fresh(&mut self) -> Open {
        let mut buffers = self.channels.spare_frames.try_recv().unwrap_or_default();
        if buffers.body.capacity() == 0
            && let Some(lanes) = &self.lanes
        {
            buffers.body = lanes.bases.bodies.spare();
        }
        Open::new(self.job, buffers)
    }

    /// Sends a frame off to be compressed, and keeps it for those that are like it.
    fn send(&mut self, kind: PackKind, open: Open, against: Option<Against>) -> Result<()> {
        let Open { number, buffers } = open;
        if buffers.blobs.is_empty() {
            return Ok(());
        }
        self.new_frames += 1;
        let body = Arc::new(Body::gathered(buffers.body, &buffers.blobs));
        if let Some(lanes) = self.lanes.as_mut().filter(|_| kind == PackKind::Data) {
            lanes.made(number);
            lanes.bases.bodies.put(number, body.clone());
        }
        let frame = Complete {
            number,
            blobs: buffers.blobs,
            body,
            plaintext: buffers.plaintext,
            kind,
            against,
        };
        let (reply, encoded) = bounded(1);
        // Neither can fail but for a failure that `check` knows.
        let due = FrameDue { kind, number, encoded };
        let work = Work::Frame { frame, reply };
        let sent = self.channels.frames.send(due).is_ok() && self.channels.work.send(work).is_ok();
        if sent { Ok(()) } else { Err(Error::Interrupted) }
    }

    /// Whether the index, with all that is new and `more` bytes, leaves room for buffers: for those
    /// of this backup, and for the least that others do with, which must be able to read what
    /// this one stores.
    pub(super) fn check_memory(&self, more: u64) -> Result<()> {
        let Job {
            repository,
            loaded,
            limits,
            ..
        } = self.job;
        // While it is loaded, the list of frames takes up to twice its size.
        let frames = (loaded.index.frames.len() as u64 + self.new_frames) * size_of::<Frame>() as u64;
        let similar = self.lanes.as_ref().map_or(0, |lanes| lanes.similar.memory());
        let similar = similar.saturating_sub(limits.features);
        let index = loaded.index.bytes() + frames + similar + (1 << 20) + more;
        let buffers = limits.bytes(repository.config.frame_size);
        if let Some(lanes) = &self.lanes {
            let left = repository.memory.saturating_sub(index + buffers);
            lanes.bases.bodies.limit(limits.bases + limits.bases_lent.min(left));
        }
        budget::check(repository.memory, index, buffers)
    }

    /// Gives a buffer back to those who read. There may be nobody left who does.
    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        let _ = self.channels.spare.send(buffer);
    }

    /// Sends off what is not full.
    pub(super) fn flush(&mut self) -> Result<()> {
        for lane in 0..self.lanes.as_ref().map_or(0, |lanes| lanes.lanes.len()) {
            self.send_lane(lane)?;
        }
        self.send_data()?;
        self.send_metadata()
    }
}

impl MetadataSink for Gather<'_> {
    fn store(&mut self, chunk: &[u8]) -> Result<ChunkId> {
        let id = self.job.repository.files.keys.chunk_id(chunk);
        self.metadata(&id, chunk)?;
        Ok(id)
    }
}
