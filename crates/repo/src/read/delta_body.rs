//! Bodies of delta frames: their own bytes, and references to ranges of their bases.
//!
//! Such a frame has few bytes of its own. The rest are pieces of chunks in other frames, copied
//! only on request. So a cache has room for many bodies, and pages that are not needed are not
//! assembled.

use std::ops::Range;
use std::sync::Arc;

use ibid_delta::advanced::{Outline, Segment};
use ibid_format::frame::{self, Piece};
use ibid_format::run::ShortId;
use ibid_format::{ChunkId, ChunkPrefix, FileId};

use super::cache::{Body, Form};
use super::reader::{ChunkReader, FRAMES_MAX};
use crate::error::BaseFault;
use crate::index::Place;
use crate::{Error, Result};

/// The chunks of a delta frame, not assembled.
pub(crate) struct DeltaBody {
    pub(crate) outline: Outline,
    pub(crate) sources: Sources,
}

/// Parts of a frame's prefix, and their places.
pub(crate) struct Sources {
    /// Number of the frame.
    pub(crate) of: u32,
    list: Vec<Source>,
}

/// Part of a prefix: a range of a chunk.
struct Source {
    base: ChunkPrefix,
    place: Place,
    /// Start in the chunk.
    start: u32,
    /// End in the prefix.
    end: u32,
}

/// A range of a source, and its destination.
#[derive(Clone, Copy)]
struct CopyPart {
    /// Frame of the source.
    frame: u32,
    source: u32,
    /// Start in the source's chunk.
    start: u32,
    length: u32,
    to: u32,
}

/// A range of a body, and its destination.
#[derive(Clone, Copy)]
struct CopyRange {
    from: u32,
    length: u32,
    to: u32,
}

/// Scratch memory to plan copies.
#[derive(Default)]
pub(crate) struct CopyLists {
    parts: Vec<CopyPart>,
    wanted: Vec<CopyRange>,
}

impl CopyLists {
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.wanted.clear();
    }
}

impl DeltaBody {
    /// Returns the memory in use, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.outline.memory() + self.sources.list.capacity() * size_of::<Source>()
    }
}

impl Sources {
    /// Returns the sources of a frame that was just encoded against these pieces, in these places.
    pub(crate) fn new(of: u32, pieces: &[Piece], places: &[Place]) -> Sources {
        let mut sources = Sources {
            of,
            list: Vec::with_capacity(pieces.len()),
        };
        for (piece, &place) in pieces.iter().zip(places) {
            sources.push(piece, place);
        }
        sources
    }

    fn push(&mut self, piece: &Piece, place: Place) {
        self.list.push(Source {
            base: piece.base,
            place,
            start: piece.start,
            end: self.end() + piece.length,
        });
    }

    /// Returns the length of the prefix, bytes.
    fn end(&self) -> u32 {
        self.list.last().map_or(0, |source| source.end)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds to `parts` those that make up a range of the prefix; its first byte goes to `to`.
    fn divide(&self, range: Range<u32>, mut to: u32, parts: &mut Vec<CopyPart>) {
        let mut at = range.start;
        let first = self.list.partition_point(|source| source.end <= at);
        let mut begin = first.checked_sub(1).map_or(0, |before| self.list[before].end);
        for (number, source) in (first as u32..).zip(&self.list[first..]) {
            if at >= range.end {
                return;
            }
            let length = source.end.min(range.end) - at;
            parts.push(CopyPart {
                frame: source.place.frame,
                source: number,
                start: source.start + (at - begin),
                length,
                to,
            });
            at += length;
            to += length;
            begin = source.end;
        }
    }
}

impl ChunkReader<'_> {
    /// Returns a range of a body, borrowed if possible, or assembled in `space`, which only ever
    /// grows.
    pub(crate) fn bytes<'b>(&self, body: &'b Body, range: Range<usize>, space: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        self.bytes_by(body, range, &mut { FRAMES_MAX }, space)
    }

    fn bytes_by<'b>(
        &self,
        body: &'b Body,
        range: Range<usize>,
        left: &mut u32,
        space: &'b mut Vec<u8>,
    ) -> Result<&'b [u8]> {
        match body.form() {
            Form::Whole(bytes) => Ok(&bytes[range]),
            Form::Delta(delta) => {
                let wanted = CopyRange {
                    from: range.start as u32,
                    length: range.len() as u32,
                    to: 0,
                };
                let out = room(space, range.len());
                self.assemble(delta, std::iter::once(wanted), left, out)?;
                Ok(out)
            }
        }
    }

    /// Appends ranges of a body, relative to `start`.
    pub(crate) fn append(&self, body: &Body, start: usize, ranges: &[Range<u32>], out: &mut Vec<u8>) -> Result<()> {
        let delta = match body.form() {
            Form::Whole(bytes) => {
                for range in ranges {
                    out.extend_from_slice(&bytes[start + range.start as usize..start + range.end as usize]);
                }
                return Ok(());
            }
            Form::Delta(delta) => delta,
        };
        let mut to = 0;
        let wanted = ranges.iter().map(|range| {
            let length = range.end - range.start;
            to += length;
            CopyRange {
                from: start as u32 + range.start,
                length,
                to: to - length,
            }
        });
        let before = out.len();
        let length: u32 = ranges.iter().map(|range| range.end - range.start).sum();
        out.resize(before + length as usize, 0);
        self.assemble(delta, wanted, &mut { FRAMES_MAX }, &mut out[before..])
    }

    /// Returns the id of the chunk in a slot, if the slot exists. The chunk is read only if its id
    /// was not computed before.
    pub(crate) fn id(&self, body: &Body, slot: u16, space: &mut Vec<u8>) -> Result<Option<ChunkId>> {
        self.id_by(body, slot, &mut { FRAMES_MAX }, space)
    }

    fn id_by(&self, body: &Body, slot: u16, left: &mut u32, space: &mut Vec<u8>) -> Result<Option<ChunkId>> {
        if let Some(id) = body.known_id(slot) {
            return Ok(Some(id));
        }
        let Some(range) = body.range(slot) else {
            return Ok(None);
        };
        let chunk = self.bytes_by(body, range, left, space)?;
        Ok(Some(body.name(&self.files.keys, slot, chunk)))
    }

    /// Finds the sources of a frame. Reads the bases if they must be compared with their ids.
    pub(crate) fn sources(&self, of: u32, plain: &[u8], left: &mut u32) -> Result<Sources> {
        let pieces = frame::pieces(plain).map_err(|source| self.damaged(of, source))?;
        let mut sources = Sources {
            of,
            list: Vec::with_capacity(pieces.len()),
        };
        for piece in pieces {
            let (id, place) = self.locate(of, &piece)?;
            sources.push(&piece, place);
            if self.compares_bases {
                self.compare(&sources, id, piece.length, left)?;
            }
        }
        Ok(sources)
    }

    /// Returns the place of a piece's chunk. It must be less deep than the frame, so recursion ends
    /// whatever frames contain.
    fn locate(&self, of: u32, piece: &Piece) -> Result<(ShortId, Place)> {
        let index = &self.loaded.index;
        let depth = index.frame(of).depth;
        let Some((id, place)) = index.find_for(piece.base, depth) else {
            return Err(self.unreadable(of, piece.base, BaseFault::Missing));
        };
        let found = index.frame(place.frame).depth;
        if found >= depth {
            return Err(self.unreadable(of, piece.base, BaseFault::TooDeep { depth, found }));
        }
        Ok((id, place))
    }

    /// Compares the chunk of the last source with its id, unless that was done before: a frame that
    /// left the cache is the same when it is read again, because it is sealed.
    fn compare(&self, sources: &Sources, id: ShortId, length: u32, left: &mut u32) -> Result<()> {
        let source = sources.list.last().expect("just pushed");
        if self.verified.contains(source.place) {
            return Ok(());
        }
        let body = self.source(sources, source, left)?;
        let mut space = self.buffer();
        let found = self.id_by(&body, source.place.slot, left, &mut space);
        self.give_back(space);
        let found = found.map_err(|error| self.as_base_error(sources, source, error))?;
        if found.is_none_or(|found| ShortId::of(&found) != id) {
            return Err(self.misplaced(sources, source));
        }
        self.verified.insert(source.place);
        self.range(sources, source, &body, source.start, length).map(drop)
    }

    /// Returns the body that contains a source.
    fn source(&self, sources: &Sources, source: &Source, left: &mut u32) -> Result<Arc<Body>> {
        if *left == 0 {
            let fault = BaseFault::TooManyFrames { limit: FRAMES_MAX };
            return Err(self.unreadable(sources.of, source.base, fault));
        }
        match self.open(source.place.frame, left) {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(self.unreadable(sources.of, source.base, BaseFault::Missing)),
            Err(error) => Err(self.as_base_error(sources, source, error)),
        }
    }

    /// Returns the position in a body of a range of a source's chunk.
    fn range(&self, sources: &Sources, source: &Source, body: &Body, start: u32, length: u32) -> Result<Range<usize>> {
        let Some(chunk) = body.range(source.place.slot) else {
            return Err(self.misplaced(sources, source));
        };
        let (start, end) = (start as usize, start as usize + length as usize);
        if end > chunk.len() {
            let (end, length) = (end as u64, chunk.len() as u32);
            return Err(self.unreadable(sources.of, source.base, BaseFault::TooShort { end, length }));
        }
        Ok(chunk.start + start..chunk.start + end)
    }

    /// Copies the requested ranges of a body to their destinations in `out`.
    fn assemble(
        &self,
        delta: &DeltaBody,
        wanted: impl Iterator<Item = CopyRange>,
        left: &mut u32,
        out: &mut [u8],
    ) -> Result<()> {
        let mut lists = self.lists();
        for wanted in wanted {
            let mut to = wanted.to as usize;
            let from = wanted.from as usize;
            for stretch in delta.outline.segments(from..from + wanted.length as usize) {
                match &stretch {
                    Segment::Inserted(bytes) => out[to..to + bytes.len()].copy_from_slice(bytes),
                    Segment::Base(range) => {
                        let range = range.start as u32..range.end as u32;
                        delta.sources.divide(range, to as u32, &mut lists.parts);
                    }
                }
                to += stretch.len();
            }
        }
        let done = self.copy_parts(&delta.sources, &mut lists, left, out);
        self.give_back_lists(lists);
        done
    }

    /// Reads a whole prefix into `space`, which only ever grows.
    pub(crate) fn whole_prefix<'s>(
        &self,
        sources: &Sources,
        left: &mut u32,
        space: &'s mut Vec<u8>,
    ) -> Result<&'s [u8]> {
        let mut lists = self.lists();
        let out = room(space, sources.end() as usize);
        sources.divide(0..sources.end(), 0, &mut lists.parts);
        let done = self.copy_parts(sources, &mut lists, left, out);
        self.give_back_lists(lists);
        done.map(|()| &*out)
    }

    /// Appends ranges of a prefix.
    pub(crate) fn read_prefix(
        &self,
        sources: &Sources,
        stretches: &[Range<u32>],
        left: &mut u32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut lists = self.lists();
        let mut to = 0;
        for stretch in stretches {
            sources.divide(stretch.clone(), to, &mut lists.parts);
            to += stretch.end - stretch.start;
        }
        let start = out.len();
        out.resize(start + to as usize, 0);
        let done = self.copy_parts(sources, &mut lists, left, &mut out[start..]);
        self.give_back_lists(lists);
        done
    }

    /// Copies parts of sources frame by frame, opening each frame once.
    fn copy_parts(&self, sources: &Sources, lists: &mut CopyLists, left: &mut u32, out: &mut [u8]) -> Result<()> {
        let CopyLists { parts, wanted } = lists;
        parts.sort_unstable_by_key(|part| (part.frame, part.to));
        for same in parts.chunk_by(|a, b| a.frame == b.frame) {
            let first = &sources.list[same[0].source as usize];
            let body = self.source(sources, first, left)?;
            wanted.clear();
            for part in same {
                let source = &sources.list[part.source as usize];
                let range = self.range(sources, source, &body, part.start, part.length)?;
                match body.form() {
                    Form::Whole(bytes) => {
                        out[part.to as usize..][..range.len()].copy_from_slice(&bytes[range]);
                    }
                    Form::Delta(_) => wanted.push(CopyRange {
                        from: range.start as u32,
                        length: part.length,
                        to: part.to,
                    }),
                }
            }
            if let Form::Delta(delta) = body.form() {
                self.assemble(delta, wanted.iter().copied(), left, out)
                    .map_err(|error| self.as_base_error(sources, first, error))?;
            }
        }
        Ok(())
    }

    fn unreadable(&self, of: u32, base: ChunkPrefix, fault: BaseFault) -> Error {
        Error::BaseUnreadable {
            object: self.describe(of),
            base,
            steps: 0,
            fault,
        }
    }

    /// Returns the pack of a source, and its frame's offset there.
    fn holder(&self, source: &Source) -> (FileId, u32) {
        let frame = self.loaded.index.frame(source.place.frame);
        (self.loaded.index.pack(frame.pack).id, frame.offset)
    }

    /// Returns the error for a source whose place holds other bytes.
    fn misplaced(&self, sources: &Sources, source: &Source) -> Error {
        let (pack, offset) = self.holder(source);
        self.unreadable(sources.of, source.base, BaseFault::Damaged { pack, offset })
    }

    /// Converts an error in reading a source into one about the frame that needs it.
    fn as_base_error(&self, sources: &Sources, source: &Source, error: Error) -> Error {
        match error {
            Error::BaseUnreadable { base, steps, fault, .. } => Error::BaseUnreadable {
                object: self.describe(sources.of),
                base,
                steps: steps + 1,
                fault,
            },
            error if error.is_fault() => {
                let (pack, offset) = self.holder(source);
                let error = Box::new(error);
                let fault = BaseFault::Unreadable { pack, offset, error };
                self.unreadable(sources.of, source.base, fault)
            }
            error => error,
        }
    }
}

/// Returns `length` bytes of memory, grown if needed. Their contents are unspecified.
fn room(space: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if space.len() < length {
        space.clear();
        space.reserve_exact(length);
        space.resize(length, 0);
    }
    &mut space[..length]
}

#[cfg(test)]
mod tests {
    use ibid_delta::{Interval, Method};
    use ibid_format::FileId;
    use ibid_format::frame::{Compression, FrameBuilder, FrameEncoder};
    use ibid_format::pack::{self, PackKind};
    use ibid_storage::{Memory, Storage};
    use proptest::prelude::*;

    use super::super::reader::FrameReader;
    use super::*;
    use crate::layout::{folder, name_in};
    use crate::{InitOptions, Repository};

    const CHUNK: usize = 3000;

    fn place(frame: u32) -> Place {
        Place { frame, slot: 0 }
    }

    proptest! {
        #[test]
        fn a_range_of_a_prefix_is_made_of_the_bytes_that_its_pieces_stand_for(
            pieces in prop::collection::vec((0u32..50, 1u32..20), 1..9),
            bounds in any::<[prop::sample::Index; 2]>(),
        ) {
            let mut sources = Sources { of: 9, list: Vec::new() };
            let mut all = Vec::new();
            for (number, &(start, length)) in (0..).zip(&pieces) {
                sources.push(&Piece { base: ChunkPrefix([0; 12]), start, length }, place(number));
                all.extend((start..start + length).map(|at| (number, at)));
            }
            let mut bounds = bounds.map(|bound| bound.index(all.len() + 1));
            bounds.sort_unstable();
            let mut parts = Vec::new();
            sources.divide(bounds[0] as u32..bounds[1] as u32, 7, &mut parts);
            let mut to = 7;
            let mut found = Vec::new();
            for part in parts {
                prop_assert_eq!((part.to, part.source), (to, part.frame));
                prop_assert!(part.length > 0);
                found.extend((part.start..part.start + part.length).map(|at| (part.frame, at)));
                to += part.length;
            }
            prop_assert_eq!(&found, &all[bounds[0]..bounds[1]]);
        }
    }

    /// Makes a frame of noise chunks, then layers of frames of two chunks each. Every layer
    /// consists of pieces of two chunks of a frame below, with bytes of its own between, and is
    /// encoded against these.
    fn layers() -> (Repository, Vec<Vec<Vec<u8>>>) {
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
        let keys = &repository.files.keys;
        let mut state = 1u64;
        let mut noise = |length: usize| -> Vec<u8> {
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            (0..length).map(|_| next()).collect()
        };
        let (id, mut encoder) = (FileId::random(), FrameEncoder::new());
        let mut pack = pack::PackBuilder::new(keys, id, PackKind::Data);
        let mut layers: Vec<Vec<Vec<u8>>> = Vec::new();
        for depth in 0..4u8 {
            let below = layers.last();
            let chunks: Vec<Vec<u8>> = match below {
                None => vec![noise(CHUNK), noise(CHUNK)],
                Some(below) => {
                    let (first, second) = (&below[0], &below[1]);
                    vec![
                        [&first[..1000], &noise(100), &second[500..2400]].concat(),
                        [&second[..1500], &noise(3), &first[1500..2997]].concat(),
                    ]
                }
            };
            let mut gathered = FrameBuilder::new();
            for chunk in &chunks {
                gathered.push(keys.chunk_id(chunk), chunk);
            }
            let (blobs, body, mut plain) = (gathered.blobs(), gathered.body(), Vec::new());
            let mut bases = Vec::new();
            match below {
                None => encoder.encode(blobs, body, Compression::Stored, &mut plain).unwrap(),
                Some(below) => {
                    let piece = |base: &Vec<u8>, start: u32| Piece {
                        base: keys.chunk_id(base).prefix(),
                        start,
                        length: base.len() as u32 - start,
                    };
                    let pieces = [piece(&below[0], 0), piece(&below[1], 10), piece(&below[0], 900)];
                    let prefix = [&below[0][..], &below[1][10..], &below[0][900..]].concat();
                    let (level, interval) = (1, Interval::I32);
                    let method = Method::AnchorZstd { level, interval };
                    encoder
                        .encode_delta(blobs, body, &pieces, &prefix, method, &mut plain)
                        .unwrap();
                    bases.extend([pieces[0].base, pieces[1].base]);
                }
            }
            pack.add(&plain, blobs, depth, &bases);
            layers.push(chunks);
        }
        storage.put(&name_in(folder::PACKS, id), &[&pack.finish().0]).unwrap();
        (repository, layers)
    }

    #[test]
    fn any_part_of_a_body_is_put_together_whatever_is_kept_of_those_below() {
        let (repository, layers) = layers();
        let loaded = repository.loaded().unwrap();
        for budget in [0, 10_000, 1 << 20] {
            let compares = ChunkReader::new(&repository.files, loaded.clone(), budget);
            let not = ChunkReader::new(&repository.files, loaded.clone(), budget).comparing_ends_only();
            for reader in [compares, not] {
                let mut space = Vec::new();
                for chunks in &layers {
                    let place = loaded.index.get(&repository.files.keys.chunk_id(&chunks[0])).unwrap();
                    let body = reader.frame(place.frame).unwrap().unwrap();
                    let all = chunks.concat();
                    assert_eq!(body.len(), all.len());
                    for start in (0..all.len()).step_by(700) {
                        for end in [start, start + 1, start + 699, all.len()].map(|end| end.min(all.len())) {
                            assert!(reader.bytes(&body, start..end, &mut space).unwrap() == &all[start..end]);
                        }
                    }
                    let mut out = b"before".to_vec();
                    reader
                        .append(&body, 100, &[5..5, 0..900, 2000..2001], &mut out)
                        .unwrap();
                    assert!(out == [b"before", &all[100..1000], &all[2100..2101]].concat());
                    for (chunk, slot) in chunks.iter().zip(0..) {
                        let id = reader.id(&body, slot, &mut space).unwrap();
                        assert_eq!(id, Some(repository.files.keys.chunk_id(chunk)));
                    }
                    assert_eq!(reader.id(&body, 2, &mut space).unwrap(), None);

                    let mut frames = FrameReader::default();
                    let opened = frames.open(&reader, place.frame, None).unwrap();
                    assert!(opened.chunk(1) == Some(&chunks[1]) && opened.chunk(2).is_none());
                    let opened = frames.open_last(&reader, place.frame).unwrap();
                    assert!(opened.chunk(1) == Some(&chunks[1]) && opened.chunk(2).is_none());
                }
            }
        }
    }

    #[test]
    fn a_delta_body_takes_memory_only_for_its_own_bytes() {
        let (repository, layers) = layers();
        let loaded = repository.loaded().unwrap();
        let reader = ChunkReader::new(&repository.files, loaded.clone(), 1 << 20).comparing_ends_only();
        for chunks in &layers[1..] {
            let place = loaded.index.get(&repository.files.keys.chunk_id(&chunks[0])).unwrap();
            let body = reader.frame(place.frame).unwrap().unwrap();
            let Form::Delta(delta) = body.form() else {
                panic!("a delta is not put together unless somebody asks")
            };
            assert!(delta.memory() < 400, "{} of {} bytes", delta.memory(), body.len());
        }
    }
}
