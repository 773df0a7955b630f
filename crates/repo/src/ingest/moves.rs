//! Moving frames between repositories that share chunk ids: a frame of which the copy needs every chunk, and the
//! destination has none, is opened in the source and sealed again here. It is not encoded anew.
//!
//! A worker decodes each frame once, as a reader of the source would, and names its chunks by their bytes. So nothing
//! can be stored here under an id that is not its own, whatever the source says. What can't be moved stays for the
//! walk over the tree, which reads it chunk by chunk.

use std::collections::VecDeque;
use std::sync::Arc;

use ibid_delta::Sketch;
use ibid_format::content::Item;
use ibid_format::frame::{self, Blob};
use ibid_format::pack::{PackKind, PackSummary};
use ibid_format::run::ShortId;
use ibid_format::tree::EntryKind;
use ibid_format::{ChunkId, ChunkPrefix, SEAL_OVERHEAD};

use super::compress::EncodedFrame;
use super::copied::CopySource;
use super::gather::Gather;
use super::job::Job;
use super::options::{Compression, Similarity};
use super::read::{Disconnected, Event, Outlets};
use super::store::{Due, FrameDue};
use super::work::Work;
use crate::files::Files;
use crate::index::{Frame, LoadedIndex, NumberSet, PairSorter, Pairs, Place, find_base};
use crate::read::{Body, FrameReader};
use crate::scratch::{Array, Bits, Scratch};
use crate::similar::DEPTH_MAX;
use crate::threads::{Receiver, Sender, bounded};
use crate::tree::{Items, changes};
use crate::{Error, Monitor, Repository, Result};

/// Bytes by which a frame may be longer in its pack than its chunks are: lists of lengths and bases.
const LONGER_MAX: u32 = 64 << 10;

/// Frames that are planned together, where the source is far. As many are planned beside them.
const PLANNED: usize = 256;

/// Chunks of files in the source that a copy needs and the destination lacks.
pub(crate) struct MissingChunks<'a> {
    there: &'a LoadedIndex,
    here: &'a LoadedIndex,
    scratch: &'a Scratch,
    /// Those that were met, by their ordinals.
    met: Bits,
    /// Bytes of them in each frame.
    bytes: Array<u32>,
    /// The frames that have some.
    pub(crate) frames: NumberSet,
    pub(crate) chunks: u64,
}

impl<'a> MissingChunks<'a> {
    pub(crate) fn new(
        scratch: &'a Scratch,
        there: &'a LoadedIndex,
        here: &'a LoadedIndex,
    ) -> Result<MissingChunks<'a>> {
        Ok(MissingChunks {
            there,
            here,
            scratch,
            met: Bits::new(scratch, there.index.ordinals())?,
            bytes: Array::zeros(scratch, there.index.stored_frames().into())?,
            frames: NumberSet::default(),
            chunks: 0,
        })
    }

    /// Adds a chunk, unless the destination has it.
    pub(crate) fn add(&mut self, id: &ChunkId, length: u32) -> Result<()> {
        if self.here.index.contains(id) {
            return Ok(());
        }
        if let Some(place) = self.there.index.get_stored(id)
            && self.met.insert(self.there.index.ordinal(place))?
        {
            let before = self.bytes.get(place.frame.into())?;
            self.bytes.set(place.frame.into(), before.saturating_add(length))?;
            self.frames.insert(place.frame);
            self.chunks += 1;
        }
        Ok(())
    }

    /// Returns the frames to move whose chunks are no longer together than `length_max`, bytes. A delta is moved if all
    /// its bases are in the destination, or in frames that are moved.
    pub(crate) fn plan(mut self, files: &Files, length_max: u64, monitor: &Monitor) -> Result<Moves> {
        let index = &self.there.index;
        let (mut whole, mut deltas) = (NumberSet::default(), NumberSet::default());
        for number in self.frames.iter() {
            let frame = index.frame(number);
            if self.bytes.get(number.into())? == frame.length && can_move(&frame, length_max) {
                let of_kind = if frame.depth == 0 { &mut whole } else { &mut deltas };
                of_kind.insert(number);
            }
        }
        let mut moves = Moves {
            by_depth: vec![whole],
            bases: NumberSet::default(),
        };
        let (mut pairs, lacking) = self.bases_to_move(files, &deltas, monitor)?;
        for depth in 1..=DEPTH_MAX {
            let mut of_depth = NumberSet::default();
            for number in deltas.iter().filter(|number| !lacking.contains(*number)) {
                if index.frame(number).depth != depth {
                    continue;
                }
                let (mut at, mut bases) = (pairs.start(number)?, Vec::new());
                while let Some(base) = pairs.second(at, number)? {
                    bases.push(base);
                    at += 1;
                }
                let is_moved = |base: &u32| moves.by_depth.iter().any(|moved| moved.contains(*base));
                if bases.iter().all(is_moved) {
                    of_depth.insert(number);
                    for base in bases {
                        moves.bases.insert(base);
                    }
                }
            }
            moves.by_depth.push(of_depth);
        }
        Ok(moves)
    }

    /// Returns pairs of a delta and a frame that must move before it, and the deltas that lack a base altogether.
    fn bases_to_move(&self, files: &Files, deltas: &NumberSet, monitor: &Monitor) -> Result<(Pairs, NumberSet)> {
        let index = &self.there.index;
        let (mut pairs, mut lacking) = (PairSorter::new(self.scratch), NumberSet::default());
        let mut directory: Option<(u32, PackSummary)> = None;
        for number in deltas.iter() {
            monitor.check_cancelled()?;
            let frame = index.frame(number);
            if directory.as_ref().is_none_or(|(pack, _)| *pack != frame.pack) {
                directory = match index.read_directory(files, frame.pack) {
                    Ok(read) => Some((frame.pack, read)),
                    Err(error) if error.is_fault() => None,
                    Err(error) => return Err(error),
                };
            }
            let frames = directory.iter().flat_map(|(_, directory)| &directory.frames);
            let mut listed = frames.filter(|listed| (listed.offset, listed.depth) == (frame.offset, frame.depth));
            let Some(listed) = listed.next() else {
                lacking.insert(number);
                continue;
            };
            for base in &listed.bases {
                if self.here.index.find(*base).is_some() {
                    continue;
                }
                match find_base(self.there, *base, listed.depth) {
                    Some(place) => pairs.push(number, place.frame)?,
                    None => drop(lacking.insert(number)),
                }
            }
        }
        Ok((pairs.finish()?, lacking))
    }
}

/// Returns whether a frame breaks no limit of the destination.
fn can_move(frame: &Frame, length_max: u64) -> bool {
    frame.depth <= DEPTH_MAX
        && u64::from(frame.length) <= length_max
        // A crafted frame could be of any size.
        && frame.sealed <= frame.length.saturating_add(LONGER_MAX)
}

/// Frames of the source that a copy moves.
pub(crate) struct Moves {
    /// The frames of each depth.
    by_depth: Vec<NumberSet>,
    /// Those of them that others are encoded against.
    bases: NumberSet,
}

impl Moves {
    /// Returns the numbers of all, bases before the frames that are encoded against them.
    pub(crate) fn frames(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_depth.iter().flat_map(NumberSet::iter)
    }
}

/// Returns the longest frame that is moved to a repository from one whose chunks have up to `chunk_max` bytes.
pub(crate) fn length_max(to: &Repository, chunk_max: usize) -> u64 {
    u64::from(to.config.frame_size) + to.chunker.size_max().max(chunk_max) as u64
}

/// Returns whether frames are moved at all: only if what they were encoded with is as good as any.
pub(crate) fn is_wanted(compression: Compression, similarity: Similarity) -> bool {
    (compression, similarity) == (Compression::Auto, Similarity::Auto)
}

/// A frame that a worker has read from the source.
pub(crate) struct ReadFrame {
    plaintext: Vec<u8>,
    blobs: Vec<Blob>,
    /// The chunks that it is encoded against, in order of first use.
    bases: Vec<(ChunkPrefix, Option<ShortId>)>,
}

/// A frame on its way to the builder.
pub(crate) struct Moved {
    frame: Receiver<Result<ReadFrame>>,
    /// The sketches of its chunks; none if the source has none.
    sketches: Vec<Sketch>,
    /// Told when the builder has taken it.
    taken: Sender<()>,
}

/// Sends the frames that are moved, and waits until the index knows their chunks.
pub(super) fn send(
    job: &Job<'_>,
    source: &CopySource<'_>,
    outlets: &Outlets,
) -> std::result::Result<Result<()>, Disconnected> {
    let moves = match plan(job, source) {
        Ok(moves) => moves,
        Err(error) => return Ok(Err(error)),
    };
    let mut on_the_way: VecDeque<Receiver<()>> = VecDeque::new();
    let (mut frames, mut planned) = (moves.frames(), VecDeque::new());
    loop {
        if planned.len() < PLANNED {
            let group: Vec<u32> = frames.by_ref().take(PLANNED).collect();
            source.reader.plan(&group);
            planned.extend(group);
        }
        let Some(number) = planned.pop_front() else {
            break;
        };
        if job.monitor.is_cancelled() {
            return Ok(Err(Error::Interrupted));
        }
        if on_the_way.len() >= job.limits.frames
            && let Some(first) = on_the_way.pop_front()
        {
            first.recv().map_err(|_| Disconnected)?;
        }
        let (reply, frame) = bounded(1);
        let (taken, is_taken) = bounded(1);
        let (is_base, sketches) = (moves.bases.contains(number), source.sketches_of(number));
        outlets.work.send(Work::Move { number, is_base, reply })?;
        outlets.events.send(Event::Moved(Moved { frame, sketches, taken }))?;
        on_the_way.push_back(is_taken);
    }
    on_the_way
        .into_iter()
        .try_for_each(|taken| taken.recv().map_err(|_| Disconnected))
        .map(Ok)
}

/// Plans what to move for the snapshot that is copied. What it shares with the one that was copied before is there.
fn plan(job: &Job<'_>, source: &CopySource<'_>) -> Result<Moves> {
    let (scratch, reader) = (job.repository.scratch(), source.reader);
    let mut missing = MissingChunks::new(&scratch, &reader.loaded, &job.loaded)?;
    let earlier = source.earlier.as_ref().map(|(there, _)| there);
    let done = changes(reader, job.monitor, earlier, &source.root, &mut |change| {
        let (Some(new), old) = (change.new, change.old) else {
            return Ok(());
        };
        let EntryKind::File(content) = &new.kind else {
            return Ok(());
        };
        if old.is_some_and(|old| old.kind == new.kind) {
            return Ok(());
        }
        Items::new(reader, content).try_for_each(|item| match item? {
            Item::Chunk { id, length } => missing.add(&id, length),
            Item::Hole { .. } => Ok(()),
        })
    });
    match done {
        // The walk that comes after this will name it.
        Err(error) if error.is_fault() => {}
        done => done?,
    }
    missing.plan(reader.files, length_max(job.repository, source.chunk_max), job.monitor)
}

/// Reads a frame of the source: decodes it, and names its chunks.
pub(super) fn read(job: &Job<'_>, frames: &mut FrameReader, number: u32, is_base: bool) -> Result<ReadFrame> {
    let read = read_named(job, frames, number, is_base);
    job.copy_source().reader.release(number);
    read
}

fn read_named(job: &Job<'_>, frames: &mut FrameReader, number: u32, is_base: bool) -> Result<ReadFrame> {
    let reader = job.copy_source().reader;
    let opened = frames.open_anew(reader, number, is_base)?;
    let mut blobs = Vec::new();
    for slot in 0..=u16::MAX {
        let Some(chunk) = opened.chunk(slot) else { break };
        let length = chunk.len() as u32;
        let id = opened.id(&job.repository.files.keys, slot);
        blobs.extend(id.map(|id| Blob { id, length }));
    }
    // It was these bytes that were decoded.
    let plain = frames.plaintext();
    let mut bases: Vec<(ChunkPrefix, Option<ShortId>)> = Vec::new();
    for piece in frame::pieces(plain).map_err(|source| reader.damaged(number, source))? {
        if !bases.iter().any(|(base, _)| *base == piece.base) {
            let found = reader.loaded.index.find(piece.base);
            bases.push((piece.base, found.map(|(id, _)| id)));
        }
    }
    Ok(ReadFrame {
        plaintext: plain.to_vec(),
        blobs,
        bases,
    })
}

impl Gather<'_> {
    /// Stores a frame of the source as it is, if its bases are here.
    pub(super) fn take(&mut self, moved: Moved) -> Result<()> {
        let Moved { frame, sketches, taken } = moved;
        match frame.recv().map_err(|_| Error::Interrupted)? {
            Ok(frame) => self.take_frame(frame, &sketches)?,
            // Its chunks are looked for one by one.
            Err(error) if error.is_fault() => {}
            Err(error) => return Err(error),
        }
        // At the end the receiver is gone.
        let _ = taken.send(());
        Ok(())
    }

    fn take_frame(&mut self, frame: ReadFrame, sketches: &[Sketch]) -> Result<()> {
        let ReadFrame {
            plaintext,
            blobs,
            bases,
        } = frame;
        let index = &self.job.loaded.index;
        let Some(depth) = self.depth_against(&bases) else {
            return Ok(());
        };
        let length: u64 = blobs.iter().map(|blob| u64::from(blob.length)).sum();
        let length_max = length_max(self.job.repository, self.job.copy_source().chunk_max);
        // A lost chunk is stored without bases, so that all deltas against it find it again.
        let is_lost = |blob: &Blob| depth > 0 && index.is_lost(&blob.id);
        if length == 0 || length > length_max || blobs.iter().any(is_lost) {
            return Ok(());
        }
        let number = index.add_frame()?;
        let at = (number - index.stored_frames()) as usize;
        self.moved_depths.resize(at, u8::MAX);
        self.moved_depths.push(depth);
        for (blob, slot) in blobs.iter().zip(0..) {
            if !index.contains(&blob.id) {
                self.count_healed(&blob.id, blob.length.into());
                index.insert(&blob.id, Place { frame: number, slot })?;
                self.count(PackKind::Data, blob.length.into())?;
            }
        }
        self.job.copy_source().go_ahead(&self.job.monitor.counters, length);
        self.tally.read_bytes += length;
        self.tally.moved_frames += 1;
        self.tally.moved.chunks += blobs.len() as u64;
        self.tally.moved.bytes += length;
        self.tally.moved.stored += (plaintext.len() + SEAL_OVERHEAD) as u64;
        if let Some(groups) = self.groups.as_mut().filter(|_| sketches.len() == blobs.len()) {
            let similar = groups.prepare(self.job, length)?;
            for (sketch, slot) in sketches.iter().zip(0..) {
                similar.add(Place { frame: number, slot }, depth, sketch);
            }
        }
        let (reply, encoded) = bounded(1);
        let frame = EncodedFrame {
            blobs,
            body: Arc::new(Body::gathered(Vec::new(), &[])),
            plaintext,
            depth,
            bases: bases.into_iter().map(|(base, _)| base).collect(),
            error: None,
        };
        reply.send(frame).map_err(|_| Error::Interrupted)?;
        let kind = PackKind::Data;
        let due = Due::Frame(FrameDue { kind, number, encoded });
        self.channels.frames.send(due).map_err(|_| Error::Interrupted)
    }

    /// Returns the depth of a frame that is encoded against these chunks; `None` if one of them is not here, or too
    /// deep.
    fn depth_against(&self, bases: &[(ChunkPrefix, Option<ShortId>)]) -> Option<u8> {
        let index = &self.job.loaded.index;
        let mut depth = 0;
        for (base, id) in bases {
            let (_, place) = index.find(*base).filter(|(found, _)| Some(*found) == *id)?;
            let of_base = match place.frame.checked_sub(index.stored_frames()) {
                None => index.frame(place.frame).depth,
                Some(at) => self.moved_depths.get(at as usize).copied()?,
            };
            depth = depth.max(of_base.checked_add(1).filter(|depth| *depth <= DEPTH_MAX)?);
        }
        Some(depth)
    }
}
