//! Reading chunks back: frame from storage, seal, bases, decompress, and the id compared before a byte goes anywhere.

use crate::bodies::{Bodies, Body, Claim, Reading};
use crate::check::is_fault;
use crate::error::BaseFault;
use crate::index::Frame;
use crate::load::{BUFFERS_MIN, Loaded};
use crate::repository::{folder, name_in};
use crate::{Error, Repository, Result};
use ibid_format::frame::{self, Decoder, Piece};
use ibid_format::pack;
use ibid_format::{ChunkId, Keys};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// So many frames are decoded for one at most. Nobody writes such chains; this is for repositories that were made to keep readers busy.
const FRAMES_MAX: u32 = 1 << 14;
/// Bodies that others are decoded against take at most this part of the budget while they are held.
const HELD_PART: u64 = 8;
/// Buffers that have grown beyond this are given back.
const BUFFER_BYTES_MAX: usize = 8 << 20;

/// Reads many frames one after the other, each once: those that others may be encoded against by way of a [`ChunkReader`], which keeps them,
/// and all others into memory of its own.
#[derive(Default)]
pub(crate) struct FrameReader {
    sealed: Vec<u8>,
    prefix: Vec<u8>,
    decoder: Decoder,
}

/// What a frame is decoded against.
#[derive(Default)]
struct Prefix {
    stretches: Vec<Stretch>,
    /// Bytes of those that were copied.
    copied: Vec<u8>,
    /// Bytes of the bodies that are held.
    held: u64,
}

/// A stretch of a chunk of another frame.
enum Stretch {
    /// In the frame's body, which is held as long.
    Held(Arc<Body>, Range<usize>),
    /// Among the bytes that were copied.
    Copied(Range<usize>),
}

impl Prefix {
    /// One that copies into this memory.
    fn with_memory(mut copied: Vec<u8>) -> Prefix {
        copied.clear();
        Prefix {
            copied,
            ..Prefix::default()
        }
    }

    /// Adds the bytes in a range of a body, which is held if `room` has room for it: else they are copied.
    fn push(&mut self, body: Arc<Body>, range: Range<usize>, room: &Room) {
        let last = self.stretches.last();
        let is_held = matches!(last, Some(Stretch::Held(last, _)) if Arc::ptr_eq(last, &body));
        let bytes = body.bytes().len() as u64;
        if is_held {
            self.stretches.push(Stretch::Held(body, range));
        } else if room.take(bytes) {
            self.held += bytes;
            self.stretches.push(Stretch::Held(body, range));
        } else {
            let start = self.copied.len();
            self.copied.extend_from_slice(&body.bytes()[range]);
            self.stretches.push(Stretch::Copied(start..self.copied.len()));
        }
    }

    fn slices(&self) -> Vec<&[u8]> {
        let stretches = self.stretches.iter();
        let slices = stretches.map(|stretch| match stretch {
            Stretch::Held(body, range) => &body.bytes()[range.clone()],
            Stretch::Copied(range) => &self.copied[range.clone()],
        });
        slices.collect()
    }

    /// Lets go of all that is held; gives the memory that was copied into.
    fn release(self, room: &Room) -> Vec<u8> {
        room.give_back(self.held);
        self.copied
    }
}

/// Room for bodies that are held while others are decoded against them, though the cache may have let go of them.
struct Room {
    taken: AtomicU64,
    most: u64,
}

impl Room {
    /// Takes so many bytes, unless there are too few.
    fn take(&self, bytes: u64) -> bool {
        let fits = |taken: u64| taken.checked_add(bytes).filter(|&taken| taken <= self.most);
        self.taken.fetch_update(Relaxed, Relaxed, fits).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.taken.fetch_sub(bytes, Relaxed);
    }
}

/// The chunks of a frame, *not* compared with their ids yet.
pub(crate) enum Opened<'r> {
    /// For now only.
    Passing(frame::Frame<'r>),
    /// Others may need it, too.
    Kept(Arc<Body>),
}

impl Opened<'_> {
    /// The chunk in a slot, if there is that slot and it was decoded.
    pub(crate) fn chunk(&self, slot: u16) -> Option<&[u8]> {
        match self {
            Opened::Passing(frame) => frame.chunk(slot).ok(),
            Opened::Kept(body) => body.chunk(slot),
        }
    }

    /// What the bytes in a slot are called.
    pub(crate) fn id(&self, keys: &Keys, slot: u16) -> Option<ChunkId> {
        match self {
            Opened::Passing(frame) => frame.chunk(slot).ok().map(|chunk| keys.chunk_id(chunk)),
            Opened::Kept(body) => body.id(keys, slot),
        }
    }
}

impl FrameReader {
    /// Reads and opens the frame with this number. With `upto`, slots after it need not be decompressed.
    pub(crate) fn open(&mut self, reader: &ChunkReader<'_>, number: u32, upto: Option<u16>) -> Result<Opened<'_>> {
        let loaded = &*reader.loaded;
        let frame = loaded.index.frame(number);
        if loaded.index.has_deltas() {
            let kept = reader.frame(number)?.expect("what an index was loaded with is stored");
            return Ok(Opened::Kept(kept));
        }
        self.pass(reader, &frame, upto)
    }

    /// The same for a frame that nobody needs after this: it is not kept.
    pub(crate) fn open_last(&mut self, reader: &ChunkReader<'_>, number: u32) -> Result<Opened<'_>> {
        let frame = reader.loaded.index.frame(number);
        self.pass(reader, &frame, None)
    }

    fn pass(&mut self, reader: &ChunkReader<'_>, frame: &Frame, upto: Option<u16>) -> Result<Opened<'_>> {
        let plain = unseal(reader.repository, &reader.loaded, frame, &mut self.sealed)?;
        let mut prefix = Prefix::with_memory(std::mem::take(&mut self.prefix));
        let gathered = reader.gather(frame, plain, &mut { FRAMES_MAX - 1 }, &mut prefix);
        let decoded = gathered.map(|()| self.decoder.decode(plain, &prefix.slices(), upto));
        self.prefix = prefix.release(&reader.room);
        decoded?
            .map(Opened::Passing)
            .map_err(|source| damaged(&reader.loaded, frame, source))
    }
}

/// Reads a frame and opens its seal.
fn unseal<'s>(repository: &Repository, loaded: &Loaded, frame: &Frame, sealed: &'s mut Vec<u8>) -> Result<&'s [u8]> {
    let pack = loaded.index.pack(frame.pack).id;
    sealed.resize(frame.sealed as usize, 0);
    repository
        .storage
        .read_at(&name_in(folder::PACKS, pack), u64::from(frame.offset), sealed)?;
    let plain = pack::open_frame(&repository.keys, pack, frame.offset, sealed);
    plain
        .map(|plain| &*plain)
        .map_err(|source| damaged(loaded, frame, source))
}

fn damaged(loaded: &Loaded, frame: &Frame, source: ibid_format::Error) -> Error {
    let object = describe(loaded, frame);
    Error::Damaged { object, source }
}

fn describe(loaded: &Loaded, frame: &Frame) -> String {
    format!("pack {} at offset {}", loaded.index.pack(frame.pack).id, frame.offset)
}

impl Repository {
    /// A reader of very many frames. What it keeps, since others may be encoded against it, takes most of the memory that index and buffers
    /// leave: the more, the less is decoded twice. (Of pages of databases in eight versions the last takes 3.5 times what it must with 128 MiB,
    /// and 1.7 times with 300; of source trees and dumps 32 MiB are enough.)
    pub(crate) fn body_reader(&self, loaded: &Arc<Loaded>) -> ChunkReader<'_> {
        const BUDGET_MIN: u64 = 16 << 20;
        let left = self.memory.saturating_sub(loaded.index.bytes() + BUFFERS_MIN);
        ChunkReader::new(self, loaded.clone(), (left / 4 * 3).max(BUDGET_MIN))
    }

    /// How many threads may read frames at once with what is left beside a [`body_reader`](Repository::body_reader). Each has a frame at hand,
    /// sealed, opened and decoded, and the same of those that this hangs on: measured, 4 to 5 times the largest frame, and some MiB of tables
    /// and of what the allocator keeps for a thread.
    pub(crate) fn readers_max(&self, loaded: &Loaded) -> usize {
        const TABLES: u64 = 6 << 20;
        let left = self.memory.saturating_sub(loaded.index.bytes() + BUFFERS_MIN);
        let largest = loaded.index.frames.iter().map(|frame| u64::from(frame.length)).max();
        let (room, frames) = if loaded.index.has_deltas() {
            (left / 4, 5)
        } else {
            (left, 2)
        };
        let each = TABLES + frames * largest.unwrap_or(0);
        ((BUFFERS_MIN / 2 + room) / each).max(1) as usize
    }
}

/// Reads chunks and frames of any depth, and keeps the frames they came in. Several threads may use one.
///
/// What frames hang on is read in the same way: so each is decoded once as long as there is room for it, and no lock is held while one is read.
pub(crate) struct ChunkReader<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) loaded: Arc<Loaded>,
    /// Frames that were read, and those that a backup has made.
    pub(crate) bodies: Bodies,
    room: Room,
    /// Whether what a frame is encoded against is compared with its id before it is decoded, or only what comes of it.
    compares_bases: bool,
    decoders: Mutex<Vec<Decoder>>,
    /// For sealed frames, and for prefixes.
    buffers: Mutex<Vec<Vec<u8>>>,
}

impl<'a> ChunkReader<'a> {
    /// A reader that keeps about `budget` bytes of frames.
    pub(crate) fn new(repository: &'a Repository, loaded: Arc<Loaded>, budget: u64) -> ChunkReader<'a> {
        ChunkReader {
            repository,
            loaded,
            bodies: Bodies::new(budget),
            room: Room {
                taken: AtomicU64::new(0),
                most: budget / HELD_PART,
            },
            compares_bases: true,
            decoders: Mutex::default(),
            buffers: Mutex::default(),
        }
    }

    /// One that does not compare with its id what lies between a frame and the chunks that are asked of it: for who compares these, and does without them
    /// if they are wrong, whosever damage that is. What lies between is sealed, so hardly anything but a wrong index makes it wrong; and then what is decoded
    /// against it is wrong, too.
    pub(crate) fn comparing_ends_only(self) -> ChunkReader<'a> {
        ChunkReader {
            compares_bases: false,
            ..self
        }
    }

    /// Appends the bytes of chunk `id`, which must be `length` long, to `out`.
    pub(crate) fn read(&self, id: &ChunkId, length: u32, out: &mut Vec<u8>) -> Result<()> {
        let (body, slot) = self.chunk(id)?;
        let chunk = body.chunk(slot).expect("`chunk` has seen it");
        if chunk.len() != length as usize {
            return Err(Error::BadRecipe {
                expected: u64::from(length),
                found: chunk.len() as u64,
            });
        }
        out.extend_from_slice(chunk);
        Ok(())
    }

    /// The frame that chunk `id` is in, and its slot, which has the bytes that the id stands for.
    pub(crate) fn chunk(&self, id: &ChunkId) -> Result<(Arc<Body>, u16)> {
        let place = self.loaded.index.get(id).ok_or(Error::ChunkMissing { id: *id })?;
        let body = self.frame(place.frame)?.ok_or(Error::ChunkMissing { id: *id })?;
        if body.id(&self.repository.keys, place.slot) != Some(*id) {
            let frame = self.loaded.index.frame(place.frame);
            let pack = self.loaded.index.pack(frame.pack).id;
            return Err(Error::ChunkDamaged { id: *id, pack });
        }
        Ok((body, place.slot))
    }

    /// The chunks of the frame with this number, *not* compared with their ids yet. None if it is neither stored nor here.
    pub(crate) fn frame(&self, number: u32) -> Result<Option<Arc<Body>>> {
        self.open(number, &mut { FRAMES_MAX })
    }

    /// Opens a frame, and for it no more than `left` others.
    fn open(&self, number: u32, left: &mut u32) -> Result<Option<Arc<Body>>> {
        let reading = match self.bodies.get_or_claim(number) {
            Claim::Here(body) => return Ok(Some(body)),
            Claim::Ours(reading) => reading,
        };
        let frame = self.loaded.index.frame(number);
        if !frame.is_stored() {
            return Ok(None);
        }
        *left = left.saturating_sub(1);
        let (mut sealed, mut prefix) = (self.buffer(), Prefix::with_memory(self.buffer()));
        let body = self.decode(&frame, &reading, left, &mut sealed, &mut prefix);
        self.give_back([sealed, prefix.release(&self.room)]);
        let body = Arc::new(body?);
        reading.done(body.clone());
        Ok(Some(body))
    }

    fn decode(
        &self,
        frame: &Frame,
        reading: &Reading<'_>,
        left: &mut u32,
        sealed: &mut Vec<u8>,
        prefix: &mut Prefix,
    ) -> Result<Body> {
        let plain = unseal(self.repository, &self.loaded, frame, sealed)?;
        self.gather(frame, plain, left, prefix)?;
        let mut decoder = self.decoders().pop().unwrap_or_default();
        let (mut bytes, mut ends) = reading.spare();
        let decoded = decoder.decode_into(plain, &prefix.slices(), &mut bytes, &mut ends);
        self.decoders().push(decoder);
        decoded.map_err(|source| damaged(&self.loaded, frame, source))?;
        Ok(Body::of(bytes, ends))
    }

    /// Puts into `prefix` the bytes that a frame is decoded against.
    fn gather(&self, frame: &Frame, plain: &[u8], left: &mut u32, prefix: &mut Prefix) -> Result<()> {
        for piece in frame::pieces(plain).map_err(|source| damaged(&self.loaded, frame, source))? {
            self.append(frame, &piece, left, prefix)?;
        }
        Ok(())
    }

    /// Appends the bytes that a piece of a frame's prefix stands for.
    fn append(&self, frame: &Frame, piece: &Piece, left: &mut u32, prefix: &mut Prefix) -> Result<()> {
        let index = &self.loaded.index;
        let unreadable = |fault| {
            Err(Error::BaseUnreadable {
                object: describe(&self.loaded, frame),
                base: piece.base,
                steps: 0,
                fault,
            })
        };
        let Some((id, place)) = index.find(piece.base) else {
            return unreadable(BaseFault::Missing);
        };
        let holder = index.frame(place.frame);
        // So there is an end to this, whatever frames say.
        if holder.depth >= frame.depth {
            return unreadable(BaseFault::TooDeep {
                depth: frame.depth,
                found: holder.depth,
            });
        }
        if *left == 0 {
            return unreadable(BaseFault::TooManyFrames { limit: FRAMES_MAX });
        }
        let (pack, offset) = (|| index.pack(holder.pack).id, holder.offset);
        let body = match self.open(place.frame, left) {
            Ok(Some(body)) => body,
            Ok(None) => return unreadable(BaseFault::Missing),
            Err(Error::BaseUnreadable { base, steps, fault, .. }) => {
                return Err(Error::BaseUnreadable {
                    object: describe(&self.loaded, frame),
                    base,
                    steps: steps + 1,
                    fault,
                });
            }
            Err(error) if is_fault(&error) => {
                let (pack, error) = (pack(), Box::new(error));
                return unreadable(BaseFault::Unreadable { pack, offset, error });
            }
            Err(error) => return Err(error),
        };
        let wrong = || unreadable(BaseFault::Damaged { pack: pack(), offset });
        if self.compares_bases && body.id(&self.repository.keys, place.slot) != Some(id) {
            return wrong();
        }
        let Some(chunk) = body.range(place.slot) else {
            return wrong();
        };
        let (start, end) = (piece.start as usize, piece.start as usize + piece.length as usize);
        if end > chunk.len() {
            return unreadable(BaseFault::TooShort {
                end: end as u64,
                length: chunk.len() as u32,
            });
        }
        prefix.push(body, chunk.start + start..chunk.start + end, &self.room);
        Ok(())
    }

    fn decoders(&self) -> std::sync::MutexGuard<'_, Vec<Decoder>> {
        self.decoders.lock().expect("no holder of this lock panics")
    }

    fn buffer(&self) -> Vec<u8> {
        let mut buffers = self.buffers.lock().expect("no holder of this lock panics");
        buffers.pop().unwrap_or_default()
    }

    fn give_back(&self, used: [Vec<u8>; 2]) {
        let kept = used.into_iter().filter(|buffer| buffer.capacity() <= BUFFER_BYTES_MAX);
        let mut buffers = self.buffers.lock().expect("no holder of this lock panics");
        buffers.extend(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InitOptions, Monitor};
    use ibid_delta::Method;
    use ibid_format::FileId;
    use ibid_format::frame::{Builder, Compression, DEPTH_MAX, Encoder};
    use ibid_format::pack::PackKind;
    use ibid_format::slot::Argon2Cost;
    use ibid_storage::fault::Flaky;
    use ibid_storage::{Memory, Storage};

    /// Two chunks of each depth, every one in a frame of its own and encoded against both of the depth below: to decode a deepest one, a reader
    /// that keeps nothing decodes twice as many frames for every step.
    fn doubling() -> (Arc<Flaky<Memory>>, Repository, ChunkId) {
        let init = InitOptions {
            cost: Argon2Cost {
                memory_kib: 64,
                passes: 1,
                lanes: 1,
            },
            ..InitOptions::default()
        };
        let storage = Arc::new(Flaky::new(Memory::new()));
        let repository = Repository::init(storage.clone(), Some(b"secret"), &init, 0).unwrap();
        let keys = &repository.keys;
        let (id, mut encoder) = (FileId::random(), Encoder::new());
        let mut pack = pack::Builder::new(keys, id, PackKind::Data);
        let mut below: Vec<[u8; 2]> = Vec::new();
        for depth in 0..=DEPTH_MAX {
            let chunks = [[depth, 0], [depth, 1]];
            for chunk in chunks {
                let mut gathered = Builder::new();
                gathered.push(keys.chunk_id(&chunk), &chunk);
                let piece = |base: &[u8; 2]| Piece {
                    base: keys.chunk_id(base).prefix(),
                    start: 0,
                    length: 2,
                };
                let pieces: Vec<Piece> = below.iter().map(piece).collect();
                let (blobs, mut plain) = (gathered.blobs(), Vec::new());
                match depth {
                    0 => encoder.encode(blobs, &chunk, Compression::Stored, &mut plain).unwrap(),
                    _ => {
                        let method = Method::ZstdPrefix { level: 1 };
                        encoder
                            .encode_delta(blobs, &chunk, &pieces, below.as_flattened(), method, &mut plain)
                            .unwrap();
                    }
                }
                let bases: Vec<_> = pieces.iter().map(|piece| piece.base).collect();
                pack.add(&plain, blobs, depth, &bases);
            }
            below = chunks.to_vec();
        }
        let deepest = keys.chunk_id(&below[0]);
        storage.put(&name_in(folder::PACKS, id), &[&pack.finish().0]).unwrap();
        (storage, repository, deepest)
    }

    #[test]
    fn a_repository_that_was_made_to_keep_readers_busy_ends_in_an_error() {
        let (storage, repository, deepest) = doubling();
        let loaded = repository.loaded(&Monitor::silent()).unwrap();
        let before = storage.counts().read_at;
        let patient = ChunkReader::new(&repository, loaded.clone(), 1 << 20);
        assert_eq!(patient.chunk(&deepest).unwrap().0.bytes(), [DEPTH_MAX, 0]);
        let frames = storage.counts().read_at - before;
        assert_eq!(
            frames,
            2 * u64::from(DEPTH_MAX) + 1,
            "there is room for all, so each is read once"
        );

        let keeps_nothing = ChunkReader::new(&repository, loaded.clone(), 0);
        let before = storage.counts().read_at;
        match keeps_nothing.chunk(&deepest).err() {
            Some(Error::BaseUnreadable { fault, .. }) => {
                assert!(
                    matches!(fault, BaseFault::TooManyFrames { limit: FRAMES_MAX }),
                    "{fault}"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(storage.counts().read_at - before, u64::from(FRAMES_MAX));
        // The same for one that is not kept.
        let place = loaded.index.get(&deepest).unwrap();
        let opened = FrameReader::default().open_last(&keeps_nothing, place.frame).map(drop);
        let error = opened.unwrap_err();
        assert!(error.to_string().contains("more than 16384 frames"), "{error}");
        assert_eq!(storage.counts().read_at - before, 2 * u64::from(FRAMES_MAX));
    }

    /// Three frames, each encoded against the one before, the second of which was given other bytes than its chunk is called by.
    #[test]
    fn a_wrong_chunk_between_is_noticed_at_the_end_if_not_before() {
        let (storage, repository, _) = doubling();
        let keys = &repository.keys;
        let noise = |seed: u64| -> Vec<u8> {
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            };
            (0..5000).map(|_| next()).collect()
        };
        let (first, mut second) = (noise(1), noise(1));
        second[100] ^= 1;
        let mut third = second.clone();
        third[4000] ^= 1;
        let mut wrong = second.clone();
        wrong[2000] ^= 1;
        let (id, mut encoder) = (FileId::random(), Encoder::new());
        let mut pack = pack::Builder::new(keys, id, PackKind::Data);
        // The chunk, what is stored as it, and what that is encoded against.
        type Link<'a> = (&'a [u8], &'a [u8], Option<&'a [u8]>);
        let frames: [Link<'_>; 3] = [
            (&first, &first, None),
            (&second, &wrong, Some(&first)),
            (&third, &third, Some(&second)),
        ];
        for (depth, (chunk, stored, base)) in (0..).zip(frames) {
            let mut gathered = Builder::new();
            gathered.push(keys.chunk_id(chunk), stored);
            let (blobs, mut plain, mut bases) = (gathered.blobs(), Vec::new(), Vec::new());
            match base {
                None => encoder.encode(blobs, stored, Compression::Stored, &mut plain).unwrap(),
                Some(base) => {
                    let piece = Piece {
                        base: keys.chunk_id(base).prefix(),
                        start: 0,
                        length: 5000,
                    };
                    bases.push(piece.base);
                    let method = Method::ZstdPrefix { level: 1 };
                    encoder
                        .encode_delta(blobs, stored, &[piece], base, method, &mut plain)
                        .map(drop)
                        .unwrap();
                }
            }
            pack.add(&plain, blobs, depth, &bases);
        }
        storage.put(&name_in(folder::PACKS, id), &[&pack.finish().0]).unwrap();

        let loaded = repository.loaded(&Monitor::silent()).unwrap();
        let reader = || ChunkReader::new(&repository, loaded.clone(), 1 << 20);
        for reader in [reader(), reader().comparing_ends_only()] {
            assert!(reader.chunk(&keys.chunk_id(&first)).unwrap().0.bytes() == first);
            let between = reader.chunk(&keys.chunk_id(&second)).err();
            assert!(matches!(between, Some(Error::ChunkDamaged { .. })), "{between:?}");
        }
        let end = |reader: ChunkReader<'_>| reader.chunk(&keys.chunk_id(&third)).err();
        let (compared, at_end) = (end(reader()), end(reader().comparing_ends_only()));
        assert!(matches!(compared, Some(Error::BaseUnreadable { .. })), "{compared:?}");
        assert!(matches!(at_end, Some(Error::ChunkDamaged { .. })), "{at_end:?}");
    }
}
