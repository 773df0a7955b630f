//! Which chunks are encoded together, and against what.
//!
//! Similar chunks are gathered in [`Group`]s, by the depth of their bases: so a chunk whose bases lie deep draws hardly any other down with it. When a
//! group is complete, a worker reads the bases, looks which stretches of them the group has anchors of, and encodes it against these.

use crate::bodies::Body;
use crate::check::is_fault;
use crate::chunks::ChunkReader;
use crate::index::Place;
use crate::similar::{Base, Similar};
use crate::{Error, Result};
use ibid_delta::{Backend, Cover, CoverSettings, Interval, Sketch};
use ibid_format::ChunkPrefix;
use ibid_format::frame::{PIECES_MAX, PREFIX_BYTES_MAX, Piece};
use std::sync::Arc;

/// Frames that one group holds at most until they can be read back.
const HELD_MAX: usize = 48;
/// A level of depth counts against a base as much as this part of a chunk that wants it.
const DEPTH_PENALTY: f32 = 0.5;
/// How bases are looked through: one position in 128 finds pages in them, and takes a third less time than one in 64 (pg 39.5 instead of 39.1 MB). With four new anchors
/// instead of three, pg takes 0.7 % more.
const COVER: CoverSettings = CoverSettings {
    interval: Interval::I128,
    anchors_min: 3,
    margin: 3 << 10,
    gap_max: 6 << 10,
};

/// The body of a frame, and the frame's number.
pub(crate) type Held = (u32, Arc<Body>);

/// The bases of chunks that are to be encoded together.
#[derive(Default)]
pub(crate) struct Group {
    /// Where these come to lie, and what they are like.
    chunks: Vec<(Place, Sketch)>,
    /// The bases of all of them; one that several have comes several times.
    bases: Vec<Base>,
    /// Frames that are here, and might go before they can be read back.
    held: Vec<Held>,
}

/// A base of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    number: u32,
    place: Place,
    depth: u8,
}

/// What a group is encoded against.
pub(crate) struct Against {
    /// What may be of use, the most promising first.
    wanted: Vec<Wanted>,
    /// Frames that are here.
    held: Vec<Held>,
}

/// What was read of that.
pub(crate) struct Bases {
    pub(crate) pieces: Vec<Piece>,
    /// How deep what is encoded against them lies.
    pub(crate) depth: u8,
    /// Frames that were done without, and why. Whose damage that is, a check will tell.
    pub(crate) faults: Vec<(u32, Error)>,
}

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Adds a chunk with its bases. Those that can't be read back yet are held, as far as they are there.
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
                reader.loaded.index.frame(frame).is_stored() || self.held.iter().any(|(held, _)| *held == frame);
            if !is_readable {
                if self.held.len() == HELD_MAX {
                    continue;
                }
                match reader.bodies.get(frame) {
                    Some(body) => self.held.push((frame, body)),
                    None => continue,
                }
            }
            self.bases.push(base);
        }
    }

    /// What it is to be encoded against. Its chunks may be bases of others from now on.
    pub(crate) fn close(&mut self, similar: &mut Similar) -> Against {
        let deepest = self.bases.iter().map(|base| base.depth).max();
        for (place, sketch) in self.chunks.drain(..) {
            similar.add(place, deepest.map_or(0, |depth| depth + 1), &sketch);
        }
        self.bases.sort_unstable_by_key(|base| base.number);
        let mut ranked: Vec<(f32, Base)> = self
            .bases
            .chunk_by(|a, b| a.number == b.number)
            .map(|same| (same.len() as f32 - DEPTH_PENALTY * f32::from(same[0].depth), same[0]))
            .collect();
        ranked.sort_unstable_by(|(a, base), (b, other)| b.total_cmp(a).then(other.number.cmp(&base.number)));
        self.bases.clear();
        let wanted = ranked.into_iter().map(|(_, base)| Wanted {
            number: base.number,
            place: similar.known(base.number).place,
            depth: base.depth,
        });
        Against {
            wanted: wanted.collect(),
            held: std::mem::take(&mut self.held),
        }
    }
}

impl Against {
    /// Reads what is of use for `target`: puts it into `prefix`, and names the pieces. Every chunk is verified. `space` is memory for that.
    ///
    /// A base that is neither stored nor here any more is passed over, and so is one that can't be read.
    pub(crate) fn read(
        &self,
        reader: &ChunkReader<'_>,
        cover: &mut Cover,
        target: &[u8],
        space: &mut Vec<u8>,
        prefix: &mut Vec<u8>,
    ) -> Result<Bases> {
        let mut found: Vec<(u32, Piece, usize)> = Vec::new();
        let mut depth = 0;
        let mut faults: Vec<(u32, Error)> = Vec::new();
        let mut stretches = Vec::new();
        space.clear();
        cover.begin(target).map_err(too_long)?;
        for wanted in &self.wanted {
            let Place { frame, slot } = wanted.place;
            if faults.iter().any(|(faulty, _)| *faulty == frame) {
                continue;
            }
            let held = self.held.iter().find(|(held, _)| *held == frame);
            let body = match held {
                Some((_, body)) => body.clone(),
                None => match reader.frame(frame) {
                    Ok(Some(body)) => body,
                    Ok(None) => continue,
                    Err(error) if is_fault(&error) => {
                        faults.push((frame, error));
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            let Some(chunk) = body.chunk(slot) else {
                faults.push((frame, misplaced(reader, wanted.place)));
                continue;
            };
            let new = match body.anchors(slot) {
                Some(anchors) => cover.offer_anchors(anchors, &mut stretches),
                None => {
                    let anchors = cover.anchors(chunk).map_err(too_long)?;
                    let new = cover.offer_anchors(&anchors, &mut stretches);
                    body.note_anchors(slot, anchors);
                    reader.bodies.grew(frame);
                    new
                }
            };
            if new == 0 {
                continue;
            }
            let Some(base) = verified(reader, &body, wanted.place) else {
                faults.push((frame, misplaced(reader, wanted.place)));
                continue;
            };
            for stretch in &stretches {
                let (start, length) = (stretch.start, stretch.end - stretch.start);
                if found.len() < PIECES_MAX && space.len() + length as usize <= PREFIX_BYTES_MAX as usize {
                    found.push((wanted.number, Piece { base, start, length }, space.len()));
                    space.extend_from_slice(&chunk[start as usize..stretch.end as usize]);
                    depth = depth.max(wanted.depth + 1);
                }
            }
        }
        // What was beside each other in the data is so here: copies go on from one chunk to the next.
        found.sort_unstable_by_key(|(number, piece, _)| (*number, piece.start));
        prefix.clear();
        for (_, piece, at) in &found {
            prefix.extend_from_slice(&space[*at..*at + piece.length as usize]);
        }
        let pieces = found.into_iter().map(|(_, piece, _)| piece).collect();
        Ok(Bases { pieces, depth, faults })
    }
}

/// What looks which stretches of bases are of use.
pub(crate) fn cover() -> Cover {
    Cover::with_settings(Backend::best(), COVER)
}

fn too_long(source: ibid_delta::Error) -> Error {
    Error::damaged("a frame being compressed")(source.into())
}

/// The name of the chunk in a place. Its bytes are what they should be if they lead to where they came from.
fn verified(reader: &ChunkReader<'_>, body: &Body, place: Place) -> Option<ChunkPrefix> {
    let id = body.id(&reader.repository.keys, place.slot);
    let id = id.filter(|id| reader.loaded.index.find(id.prefix()) == Some((*id, place)))?;
    Some(id.prefix())
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
