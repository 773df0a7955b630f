//! Which chunks are encoded together, and against what.
//!
//! Similar chunks are gathered in [`DeltaGroup`]s, by the depth of their bases: so a chunk whose bases
//! lie deep draws hardly any other down with it. When a group is complete, a worker reads the
//! bases, looks which stretches of them the group has anchors of, and encodes it against these.

use std::ops::Range;
use std::sync::Arc;

use ibid_delta::advanced::{RangeSelector, RangeSettings};
use ibid_delta::{Interval, Sketch};
use ibid_format::ChunkPrefix;
use ibid_format::frame::{PIECES_MAX, PREFIX_BYTES_MAX, Piece};

use crate::index::Place;
use crate::read::{Body, ChunkReader};
use crate::similar::{Base, Similar};
use crate::{Error, Result};

/// Frames that one group holds at most until they can be read back.
const PINNED_MAX: usize = 48;
/// How bases are looked through: one position in 128 finds pages in them, and takes a third less
/// time than one in 64 (pg 39.5 instead of 39.1 MB). With four new anchors instead of three, pg
/// takes 0.7 % more.
const RANGES: RangeSettings = RangeSettings::new()
    .with_interval(Interval::I128)
    .with_anchors_min(3)
    .with_margin(3 << 10)
    .with_gap_max(6 << 10);

/// The body of a frame, and the frame's number.
pub(crate) type PinnedFrame = (u32, Arc<Body>);

/// The bases of chunks that are to be encoded together.
#[derive(Default)]
pub(crate) struct DeltaGroup {
    /// Where these come to lie, and what they are like.
    chunks: Vec<(Place, Sketch)>,
    /// The bases of all of them; one that several have comes several times.
    bases: Vec<Base>,
    /// Frames that are here, and might go before they can be read back.
    pinned: Vec<PinnedFrame>,
}

/// A base of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    place: Place,
    depth: u8,
}

/// The bases against which a group may be encoded.
pub(crate) struct BaseCandidates {
    /// What may be of use, in the order in which it came into the repository: the oldest lie least
    /// deep, and what was beside each other in the data is so here, where copies go on from one
    /// chunk to the next.
    candidates: Vec<Candidate>,
    /// Frames that are here.
    pinned: Vec<PinnedFrame>,
}

/// The bases that were read, and the pieces of them that are of use.
#[derive(Default)]
pub(crate) struct FoundBases {
    pub(crate) pieces: Vec<Piece>,
    /// Where the chunk of each is.
    pub(crate) places: Vec<Place>,
    /// The depth of a frame that is encoded against them.
    pub(crate) depth: u8,
    /// Frames that were done without, and why. Whose damage that is, a check will tell.
    pub(crate) faults: Vec<(u32, Error)>,
}

impl DeltaGroup {
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Adds a chunk with its bases. Those that can't be read back yet are pinned, as far as they are
    /// there.
    pub(crate) fn push(
        &mut self,
        place: Place,
        sketch: &Sketch,
        bases: &[Base],
        similar: &Similar,
        reader: &ChunkReader<'_>,
    ) {
        self.chunks.push((place, *sketch));
        for &base in bases {
            let frame = similar.known(base.number).place.frame;
            let is_readable =
                reader.loaded.index.frame(frame).is_stored() || self.pinned.iter().any(|(pinned, _)| *pinned == frame);
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
        }
    }

    /// What it is to be encoded against. Its chunks may be bases of others from now on.
    pub(crate) fn close(&mut self, similar: &mut Similar) -> BaseCandidates {
        let deepest = self.bases.iter().map(|base| base.depth).max();
        for (place, sketch) in self.chunks.drain(..) {
            similar.add(place, deepest.map_or(0, |depth| depth + 1), &sketch);
        }
        self.bases.sort_unstable_by_key(|base| base.number);
        self.bases.dedup_by_key(|base| base.number);
        let candidates = self.bases.drain(..).map(|base| Candidate {
            place: similar.known(base.number).place,
            depth: base.depth,
        });
        BaseCandidates {
            candidates: candidates.collect(),
            pinned: std::mem::take(&mut self.pinned),
        }
    }
}

impl BaseCandidates {
    /// Reads what is of use for `target`: puts it into `prefix`, and names the pieces. Every chunk
    /// is verified.
    ///
    /// A base that is neither stored nor here any more is passed over, and so is one that can't be
    /// read.
    pub(crate) fn read(
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
                Ok(None) => continue,
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

/// Makes the cover that finds which stretches of bases are of use.
pub(crate) fn cover() -> RangeSelector {
    RangeSelector::new().with_settings(RANGES)
}

fn too_long(source: ibid_delta::Error) -> Error {
    Error::damaged("a frame being compressed")(source.into())
}

/// Reads one base after the other, and finds which stretches of it are of use.
struct BaseReader<'l> {
    reader: &'l ChunkReader<'l>,
    cover: &'l mut RangeSelector,
    /// Those of the last base.
    stretches: Vec<Range<u32>>,
    /// For the chunk at hand, if it must be put together.
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

    /// Appends to `out` the stretches of the chunk in a place that are of use, as many as there is
    /// room for (pieces, bytes), and gives its name. None if it has nothing that is new, or is
    /// neither stored nor here.
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
        // Its bytes are what they should be if they lead to where they came from.
        let id = self.reader.id(&body, slot, &mut self.space)?;
        let id = id.filter(|id| self.reader.loaded.index.find(id.prefix()) == Some((*id, place)));
        match id {
            Some(id) => Ok(Some(id.prefix())),
            None => Err(misplaced(self.reader, place)),
        }
    }

    /// Gives back what was borrowed.
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
