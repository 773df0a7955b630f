//! Which bases, and which of their neighbours' bytes, a group of similar chunks is encoded against.

use crate::bodies::Body;
use crate::chunks::ChunkReader;
use crate::index::Place;
use crate::similar::{Base, DEPTH_MAX, Similar};
use crate::{Error, Result};
use ibid_format::frame::Piece;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most chunks in a group.
const GROUP_CHUNKS: usize = 16;
/// Bases of one group lie this deep at most beyond each other: the group comes to lie below the deepest.
const DEPTH_SLACK: u8 = 1;
/// Bytes of a base's neighbours that are taken with it.
const NEIGHBOUR: u32 = 32 << 10;

/// What is wanted of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    Whole,
    /// No more than its first bytes.
    Head,
    /// No more than its last bytes.
    Tail,
}

impl Share {
    /// Which bytes of a chunk of so many these are: first, and how many.
    fn of(self, length: u32) -> (u32, u32) {
        let part = length.min(NEIGHBOUR);
        match self {
            Share::Whole => (0, length),
            Share::Head => (0, part),
            Share::Tail => (length - part, part),
        }
    }
}

/// A chunk, or part of it, that stands in the prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) place: Place,
    pub(crate) share: Share,
}

/// The body of a frame, and the frame's number.
pub(crate) type Held = (u32, Arc<Body>);

/// The bases of consecutive chunks that are to be encoded together.
#[derive(Default)]
pub(crate) struct Group {
    bases: Vec<Base>,
    /// The numbers of the chunks themselves.
    numbers: Vec<u32>,
    /// Frames that are here, and might go before they can be read back.
    held: Vec<Held>,
}

/// What a group is encoded against.
#[derive(Default)]
pub(crate) struct Against {
    pub(crate) wanted: Vec<Wanted>,
    /// Frames that are here.
    pub(crate) held: Vec<Held>,
    /// How deep the group comes to lie.
    pub(crate) depth: u8,
}

/// The frames that were used last. What is among them depends on the data alone, and not on how fast it is worked on; so the same data has the same bases always.
pub(crate) struct Near {
    most: u64,
    /// With the time of last use.
    frames: HashMap<u32, u64>,
    uses: BTreeMap<u64, u32>,
    clock: u64,
}

impl Near {
    /// At most so many.
    pub(crate) fn new(most: u64) -> Near {
        Near {
            most,
            frames: HashMap::new(),
            uses: BTreeMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn has(&self, frame: u32) -> bool {
        self.frames.contains_key(&frame)
    }

    /// A frame is used.
    pub(crate) fn touch(&mut self, frame: u32) {
        self.clock += 1;
        if let Some(before) = self.frames.insert(frame, self.clock) {
            self.uses.remove(&before);
        }
        self.uses.insert(self.clock, frame);
        if self.frames.len() as u64 > self.most
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.frames.remove(&oldest);
        }
    }
}

impl Group {
    /// Whether a chunk with this base goes with those that are in the group.
    pub(crate) fn takes(&self, base: Base) -> bool {
        let near = |last: &Base| last.depth.abs_diff(base.depth) <= DEPTH_SLACK;
        self.bases.len() < GROUP_CHUNKS && self.bases.last().is_none_or(near)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bases.is_empty()
    }

    /// Adds the chunk with this number, and the body of its base if that can't be read back yet.
    pub(crate) fn push(&mut self, number: u32, base: Base, held: Option<Held>) {
        self.bases.push(base);
        self.numbers.push(number);
        self.held.extend(held);
    }

    /// What it is to be encoded against; its chunks may be bases of others from now on.
    pub(crate) fn close(&mut self, similar: &mut Similar, reader: &ChunkReader<'_>) -> Against {
        let mut against = Against {
            held: std::mem::take(&mut self.held),
            ..Against::default()
        };
        self.bases.sort_unstable_by_key(|base| base.number);
        self.bases.dedup_by_key(|base| base.number);
        let mut wanted: Vec<(u32, Share)> = Vec::new();
        let mut deepest = 0;
        for base in &self.bases {
            let mut neighbour = |number: Option<u32>| {
                let number = number?;
                let depth = similar.known(number).depth?;
                let near = depth <= base.depth + DEPTH_SLACK && depth < DEPTH_MAX;
                (near && against.hold(similar.known(number).place.frame, reader)).then_some((number, depth))
            };
            let before = neighbour(similar.before(base.number));
            let after = neighbour(similar.after(base.number));
            for (number, depth, share) in [
                before.map(|(number, depth)| (number, depth, Share::Tail)),
                Some((base.number, base.depth, Share::Whole)),
                after.map(|(number, depth)| (number, depth, Share::Head)),
            ]
            .into_iter()
            .flatten()
            {
                deepest = deepest.max(depth);
                // What is the neighbour of two bases, or a base and a neighbour, comes once. Head and tail of a chunk are about all of it.
                match wanted.iter_mut().rev().find(|(other, _)| *other == number) {
                    Some((_, shared)) if *shared == share => {}
                    Some((_, shared)) => *shared = Share::Whole,
                    None => wanted.push((number, share)),
                }
            }
        }
        against.depth = deepest + 1;
        against.wanted = wanted
            .into_iter()
            .map(|(number, share)| Wanted {
                place: similar.known(number).place,
                share,
            })
            .collect();
        for number in self.numbers.drain(..) {
            similar.complete(number, against.depth);
        }
        self.bases.clear();
        against
    }
}

impl Against {
    /// Whether the bytes of a frame are to be had; keeps them if they could go before it is stored.
    fn hold(&mut self, frame: u32, reader: &ChunkReader<'_>) -> bool {
        if reader.loaded.index.frame(frame).is_stored() || self.held.iter().any(|(held, _)| *held == frame) {
            return true;
        }
        match reader.bodies.get(frame) {
            Some(body) => {
                self.held.push((frame, body));
                true
            }
            None => false,
        }
    }

    /// Reads what is wanted: appends the pieces' bytes to `prefix`, and names the pieces. Every chunk is verified.
    pub(crate) fn read(&self, reader: &ChunkReader<'_>, prefix: &mut Vec<u8>) -> Result<Vec<Piece>> {
        let index = &reader.loaded.index;
        let mut pieces = Vec::with_capacity(self.wanted.len());
        for wanted in &self.wanted {
            let Place { frame, slot } = wanted.place;
            let held = self.held.iter().find(|(held, _)| *held == frame);
            let body = match held {
                Some((_, body)) => Some(body.clone()),
                None => reader.frame(frame)?,
            };
            // Bytes are what they should be if they lead to where they came from.
            let found = body.as_ref().and_then(|body| {
                let id = body.id(&reader.repository.keys, slot)?;
                Some((id, body.chunk(slot)?))
            });
            let found = found.filter(|(id, _)| index.find(id.prefix()) == Some((*id, wanted.place)));
            let Some((id, chunk)) = found else {
                let frame = index.frame(frame);
                let (pack, offset) = (index.pack(frame.pack).id, frame.offset);
                return Err(Error::Misplaced { pack, offset, slot });
            };
            let (start, length) = wanted.share.of(chunk.len() as u32);
            prefix.extend_from_slice(&chunk[start as usize..][..length as usize]);
            pieces.push(Piece {
                base: id.prefix(),
                start,
                length,
            });
        }
        Ok(pieces)
    }
}
