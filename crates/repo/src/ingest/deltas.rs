//! Groups of similar chunks, and the bases against which they are encoded.
//!
//! Similar chunks are gathered in [`DeltaGroup`]s by the depth of their deepest base, so that a
//! chunk with a deep base makes few others deeper. When a group is complete, a worker reads the
//! bases, finds the ranges that share anchors with the group, and encodes the group against these.

use std::ops::Range;
use std::sync::Arc;

use ibid_delta::advanced::{RangeSelector, RangeSettings};
use ibid_delta::{Interval, Sketch};
use ibid_format::frame::{PIECES_MAX, PREFIX_BYTES_MAX, Piece};
use ibid_format::run::ShortId;
use ibid_format::{ChunkId, ChunkPrefix};

use crate::index::Place;
use crate::read::{Body, ChunkReader};
use crate::similar::{Base, Similar};
use crate::{Error, Result};

/// Frames of bases that are fetched together, so that neighbours come with one request.
const FETCHED_TOGETHER: usize = 16;
/// Maximum number of frames that a group keeps in memory until they can be read back.
const PINNED_MAX: usize = 48;
/// Search for ranges in bases. Sampling one position in 128 is enough to find pages, and takes a
/// third less time than one in 64 (pg 39.5 instead of 39.1 MB). Requiring four new anchors instead
/// of three makes pg 0.7 % larger.
const RANGES: RangeSettings = RangeSettings::new()
    .with_interval(Interval::I128)
    .with_anchors_min(3)
    .with_margin(3 << 10)
    .with_gap_max(6 << 10);

/// Number of a frame, and its body.
pub(crate) type PinnedFrame = (u32, Arc<Body>);

/// Chunks to be encoded together, with their bases.
#[derive(Default)]
pub(crate) struct DeltaGroup {
    /// Future places of the chunks, and their sketches.
    chunks: Vec<(Place, Sketch)>,
    /// Bases of all chunks, with duplicates.
    bases: Vec<Base>,
    /// Frames in memory that might be dropped from the cache before they can be read back.
    pinned: Vec<PinnedFrame>,
    /// Frames of bases that are not fetched yet, where the storage is far.
    to_fetch: Vec<u32>,
}

/// A base of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    place: Place,
    depth: u8,
}

/// Candidate bases of a group.
pub(crate) struct BaseCandidates {
    /// Candidates in the order in which they were stored. The oldest have the smallest depth, and
    /// neighbours in the data are neighbours here, so that copies continue from one chunk to the
    /// next.
    candidates: Vec<Candidate>,
    /// Frames kept in memory.
    pinned: Vec<PinnedFrame>,
}

/// Bases that were read, and the pieces of them to encode against.
#[derive(Default)]
pub(crate) struct FoundBases {
    pub(crate) pieces: Vec<Piece>,
    /// Place of each base chunk.
    pub(crate) places: Vec<Place>,
    /// Depth of a frame encoded against these bases.
    pub(crate) depth: u8,
    /// Frames that could not be read, and why. The backup goes on without them; a check finds the
    /// damage.
    pub(crate) faults: Vec<(u32, Error)>,
}

impl DeltaGroup {
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Adds a chunk with its bases. Bases that can't be read back yet are pinned if they are still
    /// in the cache.
    pub(crate) fn push(&mut self, place: Place, sketch: &Sketch, bases: &[Base], reader: &ChunkReader<'_>) {
        self.chunks.push((place, *sketch));
        for &base in bases {
            let frame = base.place.frame;
            let is_readable =
                reader.loaded.index.is_stored(frame) || self.pinned.iter().any(|(pinned, _)| *pinned == frame);
            if !is_readable {
                if self.pinned.len() == PINNED_MAX {
                    continue;
                }
                match reader.cache.get(frame) {
                    Some(body) => self.pinned.push((frame, body)),
                    None => continue,
                }
            }
            self.bases.push(base);
            if is_readable && reader.fetches_ahead() && !self.to_fetch.contains(&frame) {
                self.to_fetch.push(frame);
            }
        }
        if self.to_fetch.len() >= FETCHED_TOGETHER {
            self.fetch(reader);
        }
    }

    /// Lets `reader` fetch bases before the group is complete, if it fetches ahead.
    fn fetch(&mut self, reader: &ChunkReader<'_>) {
        reader.plan(&self.to_fetch);
        self.to_fetch.clear();
    }

    /// Returns the candidate bases. From now on, the group's chunks can become bases of others.
    pub(crate) fn close(&mut self, similar: &mut Similar, reader: &ChunkReader<'_>) -> BaseCandidates {
        let deepest = self.bases.iter().map(|base| base.depth).max();
        for (place, sketch) in self.chunks.drain(..) {
            similar.add(place, deepest.map_or(0, |depth| depth + 1), &sketch);
        }
        self.bases.sort_unstable_by_key(|base| base.number);
        self.bases.dedup_by_key(|base| base.number);
        let candidates = self.bases.drain(..).map(|base| Candidate {
            place: base.place,
            depth: base.depth,
        });
        let candidates = BaseCandidates {
            candidates: candidates.collect(),
            pinned: std::mem::take(&mut self.pinned),
        };
        self.fetch(reader);
        candidates
    }
}

impl BaseCandidates {
    /// Returns the frames that hold the bases, each once.
    fn frames(&self) -> Vec<u32> {
        let mut frames: Vec<u32> = self.candidates.iter().map(|candidate| candidate.place.frame).collect();
        frames.sort_unstable();
        frames.dedup();
        frames
    }

    /// Reads the useful ranges of the bases for `target` into `prefix` and returns their pieces.
    /// Every chunk is verified.
    ///
    /// Skips bases that are neither stored nor in memory, and bases that can't be read.
    pub(crate) fn read(
        &self,
        reader: &ChunkReader<'_>,
        cover: &mut RangeSelector,
        target: &[u8],
        prefix: &mut Vec<u8>,
    ) -> Result<FoundBases> {
        let found = self.find(reader, cover, target, prefix);
        if reader.fetches_ahead() {
            self.frames().into_iter().for_each(|frame| reader.release(frame));
        }
        found
    }

    fn find(
        &self,
        reader: &ChunkReader<'_>,
        cover: &mut RangeSelector,
        target: &[u8],
        prefix: &mut Vec<u8>,
    ) -> Result<FoundBases> {
        let mut bases = FoundBases::default();
        let mut base_reader = BaseReader::new(reader, cover);
        prefix.clear();
        base_reader.cover.set_target(target).map_err(too_long)?;
        for candidate in &self.candidates {
            let Candidate { place, depth } = *candidate;
            if bases.faults.iter().any(|(faulty, _)| *faulty == place.frame) {
                continue;
            }
            let pinned = self.pinned.iter().find(|(pinned, _)| *pinned == place.frame);
            let before = prefix.len();
            let room = (PIECES_MAX - bases.pieces.len(), PREFIX_BYTES_MAX as usize - before);
            let base = match base_reader.take(place, pinned.map(|(_, body)| body), room, prefix) {
                Ok(Some(base)) => base,
                Ok(None) => {
                    prefix.truncate(before);
                    continue;
                }
                Err(error) if error.is_fault() => {
                    prefix.truncate(before);
                    bases.faults.push((place.frame, error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for stretch in &base_reader.stretches {
                let (start, length) = (stretch.start, stretch.end - stretch.start);
                bases.pieces.push(Piece { base, start, length });
                bases.places.push(place);
                bases.depth = bases.depth.max(depth + 1);
            }
        }
        base_reader.done();
        Ok(bases)
    }
}

/// Returns a selector of useful ranges in bases.
pub(crate) fn cover() -> RangeSelector {
    RangeSelector::new().with_settings(RANGES)
}

fn too_long(source: ibid_delta::Error) -> Error {
    Error::damaged("a frame being compressed")(source.into())
}

/// Reads bases one after another, and finds the useful ranges in each.
struct BaseReader<'l> {
    reader: &'l ChunkReader<'l>,
    cover: &'l mut RangeSelector,
    /// Ranges of the last base.
    stretches: Vec<Range<u32>>,
    /// Scratch memory for assembling a chunk.
    space: Vec<u8>,
}

impl<'l> BaseReader<'l> {
    fn new(reader: &'l ChunkReader<'l>, cover: &'l mut RangeSelector) -> BaseReader<'l> {
        BaseReader {
            reader,
            cover,
            stretches: Vec::new(),
            space: reader.buffer(),
        }
    }

    /// Appends to `out` the useful ranges of the chunk in a place, within the limits on pieces and
    /// bytes, and returns its name. Returns `None` if the chunk has no new range, is neither stored
    /// nor in memory, or has been stored again in another place.
    fn take(
        &mut self,
        place: Place,
        pinned: Option<&Arc<Body>>,
        (pieces, bytes): (usize, usize),
        out: &mut Vec<u8>,
    ) -> Result<Option<ChunkPrefix>> {
        let Some(body) = pinned
            .cloned()
            .map_or_else(|| self.reader.frame(place.frame), |body| Ok(Some(body)))?
        else {
            return Ok(None);
        };
        let slot = place.slot;
        let range = body.range(slot).ok_or_else(|| misplaced(self.reader, place))?;
        let (new, chunk) = match body.anchors(slot) {
            Some(anchors) => (self.cover.select_by_anchors(anchors, &mut self.stretches), None),
            None => {
                let chunk = self.reader.bytes(&body, range.clone(), &mut self.space)?;
                let anchors = self.cover.anchors_of(chunk).map_err(too_long)?;
                let new = self.cover.select_by_anchors(&anchors, &mut self.stretches);
                body.note_anchors(slot, anchors);
                self.reader.cache.grew(place.frame);
                if new > 0 {
                    body.name(&self.reader.files.keys, slot, chunk);
                }
                (new, Some(chunk))
            }
        };
        if new == 0 {
            return Ok(None);
        }
        let mut left = bytes;
        self.stretches.truncate(pieces);
        self.stretches.retain(|stretch| {
            let length = (stretch.end - stretch.start) as usize;
            let fits = length <= left;
            left -= if fits { length } else { 0 };
            fits
        });
        match chunk {
            Some(chunk) => {
                for stretch in &self.stretches {
                    out.extend_from_slice(&chunk[stretch.start as usize..stretch.end as usize]);
                }
            }
            None => self.reader.append(&body, range.start, &self.stretches, out)?,
        }
        // The chunk is verified if the computed id leads back to its place.
        let id = self.reader.id(&body, slot, &mut self.space)?;
        let index = &self.reader.loaded.index;
        let found = id.and_then(|id| {
            let found = index.find(id.prefix()).filter(|(found, _)| *found == ShortId::of(&id));
            found.map(|(_, stored)| (id, stored))
        });
        // Where it is hidden, it goes, and readers will find the other.
        let is_found = |id: &ChunkId, stored: Place| {
            stored == place || !index.can_be_base(stored.frame) && index.get(id) == Some(place)
        };
        match found {
            Some((id, stored)) if is_found(&id, stored) => Ok(Some(id.prefix())),
            // The chunk was stored again, since deltas that this copy needs were lost. Readers would find
            // the new copy, which may come after the frame that is being encoded.
            Some(_) => Ok(None),
            None => Err(misplaced(self.reader, place)),
        }
    }

    /// Returns borrowed buffers.
    fn done(self) {
        self.reader.give_back(self.space);
    }
}

fn misplaced(reader: &ChunkReader<'_>, place: Place) -> Error {
    let index = &reader.loaded.index;
    let frame = index.frame(place.frame);
    Error::Misplaced {
        pack: index.pack(frame.pack).id,
        offset: frame.offset,
        slot: place.slot,
    }
}
