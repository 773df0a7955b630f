//! Gathers new chunks into frames, in the order of the tree, and sends complete frames to the
//! workers and the packer.

use std::sync::Arc;

use ibid_delta::Sketch;
use ibid_format::ChunkId;
use ibid_format::pack::PackKind;

use super::checkpoints::CheckpointDue;
use super::compress::{CompleteFrame, FrameBuffers};
use super::deltas::BaseCandidates;
use super::fingerprint::{Sketches, Span};
use super::groups::DeltaGroups;
use super::job::Job;
use super::open_frame::{OpenFrame, push};
use super::store::{Due, FrameDue, Stored};
use super::summary::BackupSummary;
use super::work::Work;
use crate::read::Body;
use crate::similar::{Similar, unsaved_max};
use crate::threads::{Receiver, Sender, bounded};
use crate::tree::MetadataSink;
use crate::{Error, Result};

/// Size of metadata frames, bytes. Trees are read a piece at a time, so their frames are smaller
/// than those of data.
const METADATA_FRAME: u32 = 256 << 10;
/// Number of new chunks between checks that all that grows stays within the budget.
const CHECK_EVERY: u64 = 4096;
/// Part of the budget for places and features beside the index of features.
const SKETCHES_SHARE: u64 = 16;

/// Gathers new chunks into frames and sends these off.
pub(super) struct Gather<'j> {
    pub(super) job: &'j Job<'j>,
    pub(super) stored: &'j Stored,
    pub(super) channels: Channels,
    data: OpenFrame,
    metadata: OpenFrame,
    /// What this thread has counted.
    pub(super) tally: BackupSummary,
    /// `None` if the backup does not look for similar chunks.
    pub(super) groups: Option<DeltaGroups<'j>>,
    /// Depths of the frames that were moved here, by their numbers from the first new frame on.
    pub(super) moved_depths: Vec<u8>,
}

/// Channels to and from the other threads.
pub(super) struct Channels {
    pub(super) work: Sender<Work>,
    pub(super) frames: Sender<Due>,
    /// Returns buffers to the threads that read.
    pub(super) spare: Sender<Vec<u8>>,
    pub(super) spares: Receiver<Vec<u8>>,
    pub(super) spare_frames: Receiver<FrameBuffers>,
    /// Returns the slots of a large file's pieces once all of them are processed.
    pub(super) slots: Sender<()>,
}

impl<'j> Gather<'j> {
    pub(super) fn new(
        job: &'j Job<'j>,
        stored: &'j Stored,
        channels: Channels,
        groups: Option<DeltaGroups<'j>>,
    ) -> Result<Gather<'j>> {
        Ok(Gather {
            job,
            stored,
            channels,
            data: OpenFrame::new(job, FrameBuffers::default())?,
            metadata: OpenFrame::new(job, FrameBuffers::default())?,
            tally: BackupSummary::default(),
            groups,
            moved_depths: Vec::new(),
        })
    }

    /// Stores a chunk of metadata unless it is stored already.
    fn metadata(&mut self, id: &ChunkId, bytes: &[u8]) -> Result<()> {
        if self.job.loaded.index.contains(id) {
            return Ok(());
        }
        self.count_healed(id, bytes.len() as u64);
        push(self.job, &mut self.metadata, id, bytes)?;
        self.count(PackKind::Metadata, bytes.len() as u64)?;
        let full = self.job.repository.config.frame_size.min(METADATA_FRAME);
        if self.metadata.is_full(full) {
            self.send_metadata()?;
        }
        Ok(())
    }

    /// Stores a chunk of data unless it is stored already.
    pub(super) fn data(&mut self, span: &Span, data: &[u8], sketches: &Sketches) -> Result<()> {
        let job = self.job;
        if job.loaded.index.contains(&span.id) {
            if let Some(groups) = &mut self.groups {
                groups.known(&span.id);
            }
            return Ok(());
        }
        let (bytes, sketch) = (span.of(data), sketches.of(span));
        let was_lost = self.count_healed(&span.id, bytes.len() as u64);
        if let Some(groups) = &mut self.groups {
            groups.prepare(job, bytes.len() as u64)?;
        }
        let group = match (&mut self.groups, sketch) {
            // A lost chunk is stored without bases, so that all deltas against it find it again.
            (Some(groups), Some(sketch)) if !was_lost => {
                let group = groups.find(job, sketch, span, &mut self.tally.search)?;
                job.learned
                    .sampling
                    .note(span.kind, bytes.len() as u64, group.is_some());
                group
            }
            _ => None,
        };
        match (group, sketch) {
            (Some(group), Some(sketch)) => self.add_similar(&span.id, bytes, sketch, group)?,
            _ => self.add_unlike(&span.id, bytes, sketch)?,
        }
        self.count(PackKind::Data, bytes.len() as u64)
    }

    /// Adds a chunk with bases to its group.
    fn add_similar(&mut self, id: &ChunkId, bytes: &[u8], sketch: &Sketch, group: usize) -> Result<()> {
        let groups = self.groups.as_mut().expect("they found the bases");
        let open = &mut groups.open[group];
        if open.group.is_empty() {
            open.since = groups.clock;
        }
        let place = push(self.job, &mut open.frame, id, bytes)?;
        open.group.push(place, sketch, &groups.found, groups.bases);
        self.tick()
    }

    /// Adds a chunk without bases.
    fn add_unlike(&mut self, id: &ChunkId, bytes: &[u8], sketch: Option<&Sketch>) -> Result<()> {
        let place = push(self.job, &mut self.data, id, bytes)?;
        if let Some(groups) = &mut self.groups {
            groups.unlike.push((place, sketch.copied().unwrap_or_default()));
        }
        if self.data.is_full(self.job.repository.config.frame_size) {
            self.send_data()?;
        }
        self.tick()
    }

    /// Advances the clock by one chunk and sends off the groups that are due.
    fn tick(&mut self) -> Result<()> {
        if let Some(groups) = &mut self.groups {
            groups.clock += 1;
        }
        let size = self.job.repository.config.frame_size;
        while let Some(group) = self.groups.as_ref().and_then(|groups| groups.due(size)) {
            self.send_group(group)?;
        }
        Ok(())
    }

    /// Counts a chunk that is about to be stored, if it was lost. Returns whether it was.
    pub(super) fn count_healed(&mut self, id: &ChunkId, bytes: u64) -> bool {
        let was_lost = !self.job.is_again() && self.job.loaded.index.is_lost(id);
        if was_lost {
            self.tally.healed_chunks += 1;
            self.tally.healed_bytes += bytes;
        }
        was_lost
    }

    /// Counts a new chunk, and checks memory now and then.
    pub(super) fn count(&mut self, kind: PackKind, bytes: u64) -> Result<()> {
        self.tally.counters.new_chunks += 1;
        self.tally.counters.new_bytes += bytes;
        if kind == PackKind::Metadata {
            self.tally.new_metadata_bytes += bytes;
        }
        if !self.tally.counters.new_chunks.is_multiple_of(CHECK_EVERY) {
            return Ok(());
        }
        let memory = self.job.repository.memory;
        if let Some(similar) = self.groups.as_mut().and_then(|groups| groups.similar.as_mut()) {
            similar.keep_within(memory / SKETCHES_SHARE);
            if similar.unsaved() >= unsaved_max(memory) {
                if self.job.options.dry_run {
                    similar.forget_unsaved();
                } else {
                    self.tally.written += similar.save(&self.job.repository.files, &self.job.loaded)?;
                }
            }
        }
        self.job.loaded.index.make_room()?;
        self.share_memory();
        Ok(())
    }

    fn send_metadata(&mut self) -> Result<()> {
        let next = self.fresh()?;
        let open = std::mem::replace(&mut self.metadata, next);
        self.send(PackKind::Metadata, open, None)
    }

    fn send_data(&mut self) -> Result<()> {
        let next = self.fresh()?;
        let open = std::mem::replace(&mut self.data, next);
        self.send(PackKind::Data, open, None)?;
        if let Some(groups) = &mut self.groups {
            for (place, sketch) in groups.unlike.drain(..) {
                let similar = groups.similar.as_mut().expect("prepared before");
                similar.add(place, 0, &sketch);
            }
        }
        Ok(())
    }

    fn send_group(&mut self, group: usize) -> Result<()> {
        let next = self.fresh()?;
        let groups = self.groups.as_mut().expect("it has the group");
        let open = &mut groups.open[group];
        let frame = std::mem::replace(&mut open.frame, next);
        let bases = match &mut groups.similar {
            Some(similar) => open.group.close(similar, groups.bases),
            // There was no new chunk.
            None => return Ok(()),
        };
        self.send(PackKind::Data, frame, Some(bases))
    }

    /// Returns an empty frame, in reused memory if available.
    fn fresh(&mut self) -> Result<OpenFrame> {
        let mut buffers = self.channels.spare_frames.try_recv().unwrap_or_default();
        if buffers.body.capacity() == 0
            && let Some(groups) = &self.groups
        {
            buffers.body = groups.bases.cache.spare();
        }
        OpenFrame::new(self.job, buffers)
    }

    /// Sends a frame off to be compressed, and keeps it as a base for similar chunks.
    fn send(&mut self, kind: PackKind, open: OpenFrame, against: Option<BaseCandidates>) -> Result<()> {
        let OpenFrame { number, buffers } = open;
        if buffers.blobs.is_empty() {
            return Ok(());
        }
        let body = Arc::new(Body::gathered(buffers.body, &buffers.blobs));
        if let Some(groups) = self.groups.as_mut().filter(|_| kind == PackKind::Data) {
            groups.made(number);
            groups.bases.cache.put(number, body.clone());
        }
        let frame = CompleteFrame {
            number,
            blobs: buffers.blobs,
            body,
            plaintext: buffers.plaintext,
            kind,
            against,
        };
        let (reply, encoded) = bounded(1);
        // Sending fails only after a failure that `check` reports.
        let due = Due::Frame(FrameDue { kind, number, encoded });
        let work = Work::Frame { frame, reply };
        let sent = self.channels.frames.send(due).is_ok() && self.channels.work.send(work).is_ok();
        if sent { Ok(()) } else { Err(Error::Interrupted) }
    }

    /// Lends the memory that the index does not need yet to the cache of bases.
    fn share_memory(&self) {
        let Job {
            repository,
            loaded,
            limits,
            ..
        } = self.job;
        if let Some(groups) = &self.groups {
            let similar = groups.similar.as_ref().map_or(0, Similar::memory);
            let similar = similar.saturating_sub(limits.features);
            let buffers = limits.bytes(repository.config.frame_size);
            let used = loaded.index.bytes() + similar + buffers + (1 << 20);
            let left = repository.memory.saturating_sub(used);
            groups.bases.cache.limit(limits.bases + limits.bases_lent.min(left));
        }
    }

    /// Returns a buffer to the threads that read; they may have ended.
    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        let _ = self.channels.spare.send(buffer);
    }

    /// Sends off all frames and groups that are not full.
    pub(super) fn flush(&mut self) -> Result<()> {
        for group in 0..self.groups.as_ref().map_or(0, |groups| groups.open.len()) {
            let has_chunks = |groups: &DeltaGroups<'_>| !groups.open[group].group.is_empty();
            if self.groups.as_ref().is_some_and(has_chunks) {
                self.send_group(group)?;
            }
        }
        self.send_data()?;
        self.send_metadata()
    }

    /// Sends off a checkpoint that needs all chunks so far.
    pub(super) fn checkpoint(&mut self, due: CheckpointDue) -> Result<()> {
        self.flush()?;
        let sent = self.channels.frames.send(Due::Checkpoint(due));
        sent.map_err(|_| Error::Interrupted)
    }
}

impl MetadataSink for Gather<'_> {
    fn store(&mut self, chunk: &[u8]) -> Result<ChunkId> {
        let id = self.job.repository.files.keys.chunk_id(chunk);
        self.metadata(&id, chunk)?;
        Ok(id)
    }
}
