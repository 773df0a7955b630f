//! Storing chunks again that are stored, so that the frames which have them can go: a prune has chosen these, and
//! [hides](crate::index::Index::hide) them. Chunks come in the order in which the snapshots were made, as if these
//! were backed up one after another, and pass through everything that new chunks do.

use std::sync::Mutex;

use ibid_format::ChunkId;
use ibid_format::pack::PackKind;

use super::batches::Batches;
use super::build;
use super::fingerprint::Span;
use super::job::{Job, Source};
use super::limits::BATCH_BYTES;
use super::options::BackupOptions;
use super::read::{Baseline, Disconnected, Event, Input, Outlets};
use super::sampling::FileClass;
use super::work::{Batch, BatchItem, Part};
use crate::index::{LoadedIndex, Place};
use crate::read::ChunkReader;
use crate::scratch::Bits;
use crate::source::Filter;
use crate::tree::Reach;
use crate::{Error, ProgressCounters, Repository, Result, SnapshotInfo};

/// What is stored again.
pub(crate) struct Again<'a> {
    /// Reads chunks where they are.
    pub(crate) reader: ChunkReader<'a>,
    /// Chunks that no snapshot needs, by their ordinals: no others are encoded against them.
    pub(crate) unneeded: Mutex<Bits>,
    /// The snapshots that need the chunks, the oldest first.
    pub(crate) snapshots: &'a [SnapshotInfo],
    /// Memory that the reader and its index take, bytes.
    pub(crate) beside: u64,
}

/// What was stored again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoredAgain {
    /// Bytes of chunks.
    pub(crate) bytes: u64,
    /// Packs that have them, and their bytes.
    pub(crate) packs: u64,
    pub(crate) stored: u64,
}

/// A chunk to store again.
pub(crate) struct StoredChunk {
    id: ChunkId,
    length: u32,
}

impl Again<'_> {
    /// Returns the frames to fetch before these chunks are read.
    fn frames_of(&self, chunks: &[StoredChunk]) -> Vec<u32> {
        match self.reader.fetches_ahead() {
            true => self.reader.frames_of(chunks.iter().map(|chunk| &chunk.id)),
            false => Vec::new(),
        }
    }

    /// Returns whether chunks may be encoded against the stored chunk in this place.
    pub(crate) fn may_be_base(&self, loaded: &LoadedIndex, place: Place) -> Result<bool> {
        if place.frame >= loaded.index.stored_frames() {
            return Ok(true);
        }
        if loaded.index.is_doubted(place.frame) {
            return Ok(false);
        }
        let mut unneeded = self.unneeded.lock().expect("no holder of this lock panics");
        Ok(!unneeded.contains(loaded.index.ordinal(place))?)
    }
}

impl Repository {
    /// Stores the chunks of hidden frames again. They are durable, and listed, when this returns. Does nothing and
    /// returns `None` if the memory does not suffice to find what they resemble.
    pub(crate) fn store_again(&self, loaded: LoadedIndex, again: Again<'_>) -> Result<Option<StoredAgain>> {
        let options = BackupOptions::default();
        let filter = std::sync::Arc::new(Filter::new(&options.excludes)?);
        let job = Job::new(
            self,
            &options,
            loaded,
            filter,
            false,
            Some(Source::Again(Box::new(again))),
        );
        if job.bases.is_none() {
            return Ok(None);
        }
        let built = build::run(&job, Input::Again, Baseline::default(), None);
        self.refresh();
        let (_, mut lists) = built?;
        lists.write(&job)?;
        self.monitor.check_cancelled()?;
        let tally = job.into_tally();
        Ok(Some(StoredAgain {
            bytes: tally.counters.new_bytes,
            packs: tally.packs,
            stored: tally.counters.stored_bytes,
        }))
    }
}

/// Chunks on their way to the workers.
struct Sending<'j> {
    job: &'j Job<'j>,
    again: &'j Again<'j>,
    outlets: &'j Outlets,
    batches: Batches<'j>,
    chunks: Vec<StoredChunk>,
    bytes: u64,
    /// Chunks that were sent, by their ordinals.
    sent: Bits,
    is_disconnected: bool,
}

/// Sends all chunks that the index does not know.
pub(super) fn walk(job: &Job<'_>, outlets: &Outlets) -> std::result::Result<Result<()>, Disconnected> {
    let Some(again) = job.again() else {
        return Ok(Ok(()));
    };
    let sent = match Bits::new(&job.repository.scratch(), job.loaded.index.ordinals()) {
        Ok(sent) => sent,
        Err(error) => return Ok(Err(error)),
    };
    let mut sending = Sending {
        job,
        again,
        outlets,
        batches: Batches::new(job.limits.open_in_batch(), outlets),
        chunks: Vec::new(),
        bytes: 0,
        sent,
        is_disconnected: false,
    };
    let done = sending.all();
    match sending.is_disconnected {
        true => Err(Disconnected),
        false => Ok(done),
    }
}

impl Sending<'_> {
    fn all(&mut self) -> Result<()> {
        let again = self.again;
        let mut reach = Reach::new(self.job.repository, &again.reader);
        for info in again.snapshots {
            reach.visit(&info.snapshot.root, &mut |id, length, kind| {
                self.chunk(id, length, kind)
            })?;
        }
        let (repository, listed) = (self.job.repository, &self.job.loaded.listed);
        let each = &mut |id: &ChunkId, length, kind| self.chunk(id, length, kind);
        repository.visit_checkpoints(listed, &mut reach, again.snapshots, each)?;
        self.flush()?;
        let flushed = self.batches.flush();
        self.note(flushed)
    }

    /// Notes that the receivers are gone.
    fn note(&mut self, sent: std::result::Result<(), Disconnected>) -> Result<()> {
        sent.map_err(|Disconnected| {
            self.is_disconnected = true;
            Error::Interrupted
        })
    }

    /// Sends a chunk, unless the index knows it.
    fn chunk(&mut self, id: &ChunkId, length: u32, kind: PackKind) -> Result<()> {
        let index = &self.job.loaded.index;
        if index.contains(id) {
            return Ok(());
        }
        // What is not stored can't be stored again.
        let Some(place) = index.get_any(id).filter(|place| place.frame < index.stored_frames()) else {
            return Ok(());
        };
        if !self.sent.insert(index.ordinal(place))? {
            return Ok(());
        }
        if kind == PackKind::Metadata {
            let mut chunk = Vec::new();
            self.again.reader.read(id, length, &mut chunk)?;
            let sent = self.outlets.events.send(Event::Metadata(chunk));
            return self.note(sent.map_err(Disconnected::from));
        }
        self.chunks.push(StoredChunk { id: *id, length });
        self.bytes += u64::from(length);
        if self.bytes >= BATCH_BYTES as u64 {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        self.again.reader.plan(&self.again.frames_of(&self.chunks));
        let chunks = BatchItem::Again(std::mem::take(&mut self.chunks));
        let sent = self.batches.add(chunks, std::mem::take(&mut self.bytes));
        self.note(sent)
    }
}

/// Reads chunks into the batch. Returns its parts.
pub(super) fn read(job: &Job<'_>, batch: &mut Batch, chunks: &[StoredChunk]) -> Result<std::ops::Range<usize>> {
    let first = batch.parts.len();
    let Some(again) = job.again() else {
        return Ok(first..first);
    };
    let read = chunks.iter().try_for_each(|chunk| {
        let start = batch.data.len();
        again.reader.read(&chunk.id, chunk.length, &mut batch.data)?;
        ProgressCounters::add(&job.monitor.counters.bytes, chunk.length.into());
        batch.bytes_read += u64::from(chunk.length);
        let span = Span::new(start, chunk.length as usize, FileClass::NEW);
        batch.parts.push(Part::Chunk(span));
        Ok(())
    });
    let frames = again.frames_of(chunks);
    frames.into_iter().for_each(|frame| again.reader.release(frame));
    read.map(|()| first..batch.parts.len())
}
