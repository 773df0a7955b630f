//! Reads chunks: fetches the frame, opens the seal, applies bases, decompresses, and compares the
//! id before any byte is used.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ibid_format::frame::{self, FrameDecoder};
use ibid_format::{ChunkId, Keys};

use super::ahead::{Ahead, FrameSource};
use super::cache::{Body, Claim, Claimed, Form, FrameCache};
use super::delta_body::{CopyLists, DeltaBody, Sources};
use super::moved::{Fresh, Since};
use super::verified::Verified;
use crate::files::Files;
use crate::index::{LoadedIndex, Place};
use crate::{Error, Monitor, Repository, Result};

/// Maximum number of frames decoded for one. Backups write no such chains; the limit stops
/// repositories crafted to keep readers busy.
pub(crate) const FRAMES_MAX: u32 = 1 << 14;
/// Larger buffers are freed after use, bytes.
const BUFFER_BYTES_MAX: usize = 8 << 20;

/// Reads many frames in sequence, each once. Frames that others may need go through a
/// [`ChunkReader`], which caches them; all others are decoded into the reader's own memory.
#[derive(Default)]
pub(crate) struct FrameReader {
    sealed: Vec<u8>,
    /// Where the plaintext is in there.
    plain: Range<usize>,
    prefix: Vec<u8>,
    decoder: FrameDecoder,
    /// Memory for assembled bodies.
    together: Vec<u8>,
}

/// Chunks of a frame, *not* compared with their ids yet.
pub(crate) enum Opened<'r> {
    /// In the reader's memory, until the next frame.
    Passing(frame::Frame<'r>),
    /// In the cache, for other frames. A delta body comes with its assembled bytes.
    Kept(Arc<Body>, Option<&'r [u8]>),
}

impl Opened<'_> {
    /// Returns the chunk in a slot, if the slot exists and was decoded.
    pub(crate) fn chunk(&self, slot: u16) -> Option<&[u8]> {
        match self {
            Opened::Passing(frame) => frame.chunk(slot).ok(),
            Opened::Kept(body, together) => {
                let bytes = together.unwrap_or_else(|| body.whole());
                bytes.get(body.range(slot)?)
            }
        }
    }

    /// Returns the id computed from the bytes in a slot.
    pub(crate) fn id(&self, keys: &Keys, slot: u16) -> Option<ChunkId> {
        let chunk = self.chunk(slot)?;
        Some(match self {
            Opened::Passing(_) => keys.chunk_id(chunk),
            Opened::Kept(body, _) => body.name(keys, slot, chunk),
        })
    }
}

impl FrameReader {
    /// Reads and opens the frame with this number. With `upto`, slots after it need not be
    /// decompressed.
    pub(crate) fn open(&mut self, reader: &ChunkReader<'_>, number: u32, upto: Option<u16>) -> Result<Opened<'_>> {
        // Nothing needs a frame again but a file that comes later. Decompressing it once more costs less than the
        // memory, and fetching it once more does not.
        if !reader.loaded.index.has_deltas() && !reader.fetches_ahead() {
            return self.pass(reader, number, upto);
        }
        let body = match reader.cache.get_or_claim(number) {
            Claim::Here(body) => {
                if let Form::Delta(_) = body.form() {
                    reader.bytes(&body, 0..body.len(), &mut self.together)?;
                }
                body
            }
            Claim::Ours(reading) => {
                let body = Arc::new(self.keep(reader, number, &reading)?);
                reading.done(body.clone());
                body
            }
        };
        Ok(self.kept(body))
    }

    /// Reads and opens a frame that is not needed afterwards, without caching it.
    pub(crate) fn open_last(&mut self, reader: &ChunkReader<'_>, number: u32) -> Result<Opened<'_>> {
        self.pass(reader, number, None)
    }

    /// Reads and opens a frame, even if the cache has it. If others need it afterwards, the cache keeps it.
    pub(crate) fn open_anew(&mut self, reader: &ChunkReader<'_>, number: u32, is_base: bool) -> Result<Opened<'_>> {
        if is_base && let Claim::Ours(reading) = reader.cache.get_or_claim(number) {
            let body = Arc::new(self.keep(reader, number, &reading)?);
            reading.done(body.clone());
            return Ok(self.kept(body));
        }
        self.pass(reader, number, None)
    }

    /// Returns the chunks of a body that is assembled if it is a delta.
    fn kept(&self, body: Arc<Body>) -> Opened<'_> {
        let together = match body.form() {
            Form::Whole(_) => None,
            Form::Delta(_) => Some(&self.together[..body.len()]),
        };
        Opened::Kept(body, together)
    }

    /// Returns the plaintext of the frame that was read last.
    pub(crate) fn plaintext(&self) -> &[u8] {
        &self.sealed[self.plain.clone()]
    }

    fn pass(&mut self, reader: &ChunkReader<'_>, number: u32, upto: Option<u16>) -> Result<Opened<'_>> {
        let mut left = FRAMES_MAX - 1;
        let plain = reader.unseal(number, &mut self.sealed, &mut self.plain)?;
        let sources = reader.sources(number, plain, &mut left)?;
        let prefix = reader.whole_prefix(&sources, &mut left, &mut self.prefix)?;
        let decoded = self.decoder.decode(plain, prefix, upto);
        decoded
            .map(Opened::Passing)
            .map_err(|source| reader.damaged(number, source))
    }

    /// Reads a frame for the cache. A delta is also assembled, so that its bases are read once for
    /// both.
    fn keep(&mut self, reader: &ChunkReader<'_>, number: u32, reading: &Claimed<'_>) -> Result<Body> {
        let mut left = FRAMES_MAX - 1;
        let plain = reader.unseal(number, &mut self.sealed, &mut self.plain)?;
        let sources = reader.sources(number, plain, &mut left)?;
        let prefix = reader.whole_prefix(&sources, &mut left, &mut self.prefix)?;
        let body = reader.own(plain, sources, &mut self.decoder, reading, |_, stretches, out| {
            for stretch in stretches {
                out.extend_from_slice(&prefix[stretch.start as usize..stretch.end as usize]);
            }
            Ok(())
        })?;
        if let Form::Delta(delta) = body.form() {
            self.together.clear();
            delta.outline.assemble(prefix, &mut self.together);
        }
        Ok(body)
    }
}

/// Reads chunks and frames of any depth, and caches frames. Threads can share one.
///
/// Bases are read the same way, so each frame is decoded once while there is room for it. No lock
/// is held during a read.
pub(crate) struct ChunkReader<'a> {
    pub(crate) files: &'a Files,
    pub(crate) loaded: Arc<LoadedIndex>,
    /// Frames that were read or made by a backup.
    pub(crate) cache: Arc<FrameCache>,
    /// Whether a base is compared with its id before it is used, rather than only the result.
    pub(crate) compares_bases: bool,
    /// Bases that were compared with their ids.
    pub(super) verified: Arc<Verified>,
    /// What is fetched before it is asked for.
    pub(super) ahead: Option<Ahead>,
    /// Whether this machine keeps what is fetched ahead.
    pub(super) keeps_fetched: bool,
    /// Bytes of sealed frames read from the storage so far.
    bytes_read: AtomicU64,
    decoders: Mutex<Vec<FrameDecoder>>,
    /// Buffers for sealed frames and for assembled chunks.
    buffers: Mutex<Vec<Vec<u8>>>,
    lists: Mutex<Vec<CopyLists>>,
    /// What a prune may have moved is looked for again in this repository, if any.
    pub(super) again: Option<&'a Repository>,
    /// What prunes have done since the index was loaded.
    pub(super) since: Mutex<Since>,
    /// Whether something was moved, or is gone. Usually nothing is, and no lock is taken.
    pub(super) has_changed: AtomicBool,
}

impl<'a> ChunkReader<'a> {
    /// Returns a reader that caches about `budget` bytes of frames.
    pub(crate) fn new(files: &'a Files, loaded: Arc<LoadedIndex>, budget: u64) -> ChunkReader<'a> {
        ChunkReader::of(files, Fresh::new(loaded, budget))
    }

    pub(super) fn of(files: &'a Files, fresh: Fresh) -> ChunkReader<'a> {
        ChunkReader {
            files,
            loaded: fresh.loaded,
            cache: fresh.cache,
            compares_bases: true,
            verified: fresh.verified,
            ahead: None,
            keeps_fetched: false,
            bytes_read: AtomicU64::new(0),
            decoders: Mutex::default(),
            buffers: Mutex::default(),
            lists: Mutex::default(),
            again: None,
            since: Mutex::default(),
            has_changed: AtomicBool::default(),
        }
    }

    /// Lets frames be fetched before they are asked for, with room for so many bytes.
    pub(crate) fn fetching_ahead(self, room: u64) -> ChunkReader<'a> {
        ChunkReader {
            ahead: Some(Ahead::new(room)),
            ..self
        }
    }

    /// Lets this machine keep what is fetched, because it may be needed again.
    pub(crate) fn keeping_fetched(self) -> ChunkReader<'a> {
        ChunkReader {
            keeps_fetched: true,
            ..self
        }
    }

    /// Calls `work` while threads fetch what it plans, if this reader fetches ahead.
    pub(crate) fn while_fetching<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match &self.ahead {
            Some(ahead) => ahead.while_fetching(self.frame_source(), work),
            None => work(),
        }
    }

    pub(crate) fn fetches_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Returns the frames that hold chunks, each once, in the order of these.
    pub(crate) fn frames_of<'i>(&self, chunks: impl Iterator<Item = &'i ChunkId>) -> Vec<u32> {
        let mut met = HashSet::new();
        chunks
            .filter_map(|id| self.loaded.index.get_stored(id))
            .map(|place| place.frame)
            .filter(|&frame| met.insert(frame))
            .collect()
    }

    /// Plans to fetch frames, if this reader fetches ahead. All must be [released](ChunkReader::release).
    pub(crate) fn plan(&self, frames: &[u32]) {
        if let Some(ahead) = &self.ahead {
            ahead.plan(self.frame_source(), frames);
        }
    }

    /// In a rehearsal, counts the requests for the bases of what was planned.
    pub(crate) fn rehearse_bases(&self, monitor: &Monitor) -> Result<()> {
        match &self.ahead {
            Some(ahead) => ahead.rehearse_bases(self.frame_source(), monitor),
            None => Ok(()),
        }
    }

    /// Notes that a frame that may have been planned is done with.
    pub(crate) fn release(&self, frame: u32) {
        if let Some(ahead) = &self.ahead {
            ahead.release(frame);
        }
    }

    fn frame_source(&self) -> FrameSource<'_> {
        FrameSource {
            files: self.files,
            loaded: &self.loaded,
            cache: Some(&self.cache),
            keeps: self.keeps_fetched,
        }
    }

    /// Makes the reader look again, if a chunk can't be read: a prune may have moved it since the index was
    /// loaded.
    pub(crate) fn looking_again(self, repository: &'a Repository) -> ChunkReader<'a> {
        ChunkReader {
            again: Some(repository),
            ..self
        }
    }

    /// Makes the reader compare only the requested chunks with their ids, not their bases. For
    /// callers that compare bases themselves and can go on without them. Frames are sealed, so
    /// hardly anything but a wrong index makes a base wrong, and then the chunk decoded against it
    /// is wrong too.
    pub(crate) fn comparing_ends_only(self) -> ChunkReader<'a> {
        ChunkReader {
            compares_bases: false,
            verified: Arc::new(Verified::new(0)),
            ..self
        }
    }

    /// Appends the bytes of chunk `id`, which must be `length` long, to `out`.
    pub(crate) fn read(&self, id: &ChunkId, length: u32, out: &mut Vec<u8>) -> Result<()> {
        let was_moved = self.was_moved(id);
        if was_moved && self.read_moved(id, length, out)? {
            return Ok(());
        }
        let start = out.len();
        match self.read_here(id, length, out) {
            Err(error) if error.is_fault() => {
                out.truncate(start);
                match !was_moved && self.read_moved(id, length, out)? {
                    true => Ok(()),
                    false => Err(error),
                }
            }
            read => read,
        }
    }

    pub(super) fn read_here(&self, id: &ChunkId, length: u32, out: &mut Vec<u8>) -> Result<()> {
        let place = self.loaded.index.get(id).ok_or(Error::ChunkMissing { id: *id })?;
        let body = self.frame(place.frame)?.ok_or(Error::ChunkMissing { id: *id })?;
        let mut space = self.buffer();
        let read = self.read_from(&body, place, id, length, &mut space, out);
        self.give_back(space);
        read
    }

    fn read_from(
        &self,
        body: &Body,
        place: Place,
        id: &ChunkId,
        length: u32,
        space: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let damaged = || {
            let frame = self.loaded.index.frame(place.frame);
            let pack = self.loaded.index.pack(frame.pack).id;
            Error::ChunkDamaged { id: *id, pack }
        };
        let range = body.range(place.slot).ok_or_else(damaged)?;
        let chunk = self.bytes(body, range, space)?;
        if body.name(&self.files.keys, place.slot, chunk) != *id {
            return Err(damaged());
        }
        if chunk.len() != length as usize {
            return Err(Error::BadRecipe {
                expected: u64::from(length),
                found: chunk.len() as u64,
            });
        }
        out.extend_from_slice(chunk);
        Ok(())
    }

    /// Returns the chunks of a frame, *not* compared with their ids yet. `None` if the frame is
    /// neither stored nor cached.
    pub(crate) fn frame(&self, number: u32) -> Result<Option<Arc<Body>>> {
        self.open(number, &mut { FRAMES_MAX })
    }

    /// Opens a frame, decoding at most `left` others for it.
    pub(crate) fn open(&self, number: u32, left: &mut u32) -> Result<Option<Arc<Body>>> {
        let reading = match self.cache.get_or_claim(number) {
            Claim::Here(body) => return Ok(Some(body)),
            Claim::Ours(reading) => reading,
        };
        if !self.loaded.index.frame(number).is_stored() {
            return Ok(None);
        }
        *left = left.saturating_sub(1);
        let mut sealed = self.buffer();
        let body = self.decode(number, &reading, left, &mut sealed);
        self.give_back(sealed);
        let body = Arc::new(body?);
        reading.done(body.clone());
        Ok(Some(body))
    }

    fn decode(&self, number: u32, reading: &Claimed<'_>, left: &mut u32, sealed: &mut Vec<u8>) -> Result<Body> {
        let plain = self.unseal(number, sealed, &mut Range::default())?;
        let sources = self.sources(number, plain, left)?;
        let mut decoder = self.decoders().pop().unwrap_or_default();
        let body = self.own(plain, sources, &mut decoder, reading, |sources, stretches, out| {
            self.read_prefix(sources, stretches, left, out)
        });
        self.decoders().push(decoder);
        body
    }

    /// Returns the bytes read from storage so far.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Reads a frame and opens its seal. Notes where the plaintext is.
    fn unseal<'s>(&self, number: u32, sealed: &'s mut Vec<u8>, at: &mut Range<usize>) -> Result<&'s [u8]> {
        let frame = self.loaded.index.frame(number);
        let pack = self.loaded.index.pack(frame.pack);
        if let Some(ahead) = &self.ahead
            && let Some(taken) = ahead.take(self.frame_source(), number, sealed)
        {
            if taken.is_fetched {
                self.bytes_read.fetch_add(frame.sealed.into(), Ordering::Relaxed);
            }
            *at = 0..taken.length;
            return Ok(&sealed[..taken.length]);
        }
        self.check_not_gone(frame.pack)?;
        sealed.resize(frame.sealed as usize, 0);
        let read = self.files.read_frame(&pack, frame.offset, sealed, self.keeps_fetched);
        let (plain, is_from_storage) = read.inspect_err(|error| self.note_gone(frame.pack, error))?;
        if is_from_storage {
            self.bytes_read.fetch_add(sealed.len() as u64, Ordering::Relaxed);
        }
        let plain = plain.map_err(|source| self.damaged(number, source))?;
        at.clone_from(&plain);
        Ok(&sealed[plain])
    }

    /// Decodes a frame's own bytes. `read` appends ranges of its prefix.
    fn own(
        &self,
        plain: &[u8],
        sources: Sources,
        decoder: &mut FrameDecoder,
        reading: &Claimed<'_>,
        read: impl FnOnce(&Sources, &[Range<u32>], &mut Vec<u8>) -> Result<()>,
    ) -> Result<Body> {
        let (mut bytes, mut ends) = if sources.is_empty() {
            reading.spare()
        } else {
            Default::default()
        };
        let read = |stretches: &[Range<u32>], out: &mut Vec<u8>| read(&sources, stretches, out).map_err(Unread::Base);
        let outline = decoder
            .decode_own(plain, read, &mut bytes, &mut ends)
            .map_err(|unread| match unread {
                Unread::Frame(source) => self.damaged(sources.of, source),
                Unread::Base(error) => error,
            })?;
        let content = match outline {
            None => Form::Whole(bytes),
            Some(outline) => Form::Delta(DeltaBody { outline, sources }),
        };
        Ok(Body::read(content, ends))
    }

    pub(crate) fn damaged(&self, number: u32, source: ibid_format::Error) -> Error {
        let object = self.describe(number);
        Error::Damaged { object, source }
    }

    /// Returns the name of a frame for messages.
    pub(crate) fn describe(&self, number: u32) -> String {
        let frame = self.loaded.index.frame(number);
        if frame.is_stored() {
            format!(
                "pack {} at offset {}",
                self.loaded.index.pack(frame.pack).id,
                frame.offset
            )
        } else {
            "a frame of this backup".to_owned()
        }
    }

    fn decoders(&self) -> std::sync::MutexGuard<'_, Vec<FrameDecoder>> {
        self.decoders.lock().expect("no holder of this lock panics")
    }

    pub(crate) fn buffer(&self) -> Vec<u8> {
        let mut buffers = self.buffers.lock().expect("no holder of this lock panics");
        buffers.pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER_BYTES_MAX {
            let mut buffers = self.buffers.lock().expect("no holder of this lock panics");
            buffers.push(buffer);
        }
    }

    pub(crate) fn lists(&self) -> CopyLists {
        let mut lists = self.lists.lock().expect("no holder of this lock panics");
        lists.pop().unwrap_or_default()
    }

    pub(crate) fn give_back_lists(&self, mut used: CopyLists) {
        used.clear();
        let mut lists = self.lists.lock().expect("no holder of this lock panics");
        lists.push(used);
    }
}

/// Reason why a frame can't be decoded.
enum Unread {
    /// The frame itself is damaged.
    Frame(ibid_format::Error),
    /// A base can't be read.
    Base(Error),
}

impl From<ibid_format::Error> for Unread {
    fn from(error: ibid_format::Error) -> Unread {
        Unread::Frame(error)
    }
}

#[cfg(test)]
mod tests {
    use ibid_delta::{Interval, Method};
    use ibid_format::FileId;
    use ibid_format::frame::{Compression, DEPTH_MAX, FrameBuilder, FrameEncoder, Piece};
    use ibid_format::pack::{self, PackKind};
    use ibid_storage::fault::Flaky;
    use ibid_storage::{Memory, Storage};

    use super::*;
    use crate::InitOptions;
    use crate::error::BaseFault;
    use crate::layout::{folder, name_in};

    /// Makes two chunks of each depth, each in its own frame and encoded against both of the depth
    /// below. A reader without a cache decodes twice as many frames for every level.
    fn doubling() -> (Arc<Flaky<Memory>>, Repository, ChunkId) {
        let storage = Arc::new(Flaky::new(Memory::new()));
        let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
        let keys = &repository.files.keys;
        let (id, mut encoder) = (FileId::random(), FrameEncoder::new());
        let mut pack = pack::PackBuilder::new(keys, id, PackKind::Data);
        let mut below: Vec<[u8; 2]> = Vec::new();
        for depth in 0..=DEPTH_MAX {
            let chunks = [[depth, 0], [depth, 1]];
            for chunk in chunks {
                let mut gathered = FrameBuilder::new();
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

    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    fn chunk(reader: &ChunkReader<'_>, id: &ChunkId, length: u32) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        reader.read(id, length, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn a_repository_that_was_made_to_keep_readers_busy_ends_in_an_error() {
        let (storage, repository, deepest) = doubling();
        let loaded = repository.loaded().unwrap();
        let before = storage.counts().read_at;
        let patient = ChunkReader::new(&repository.files, loaded.clone(), 1 << 20);
        assert_eq!(chunk(&patient, &deepest, 2).unwrap(), [DEPTH_MAX, 0]);
        let frames = storage.counts().read_at - before;
        assert_eq!(
            frames,
            2 * u64::from(DEPTH_MAX) + 1,
            "there is room for all, so each is read once"
        );

        let keeps_nothing = ChunkReader::new(&repository.files, loaded.clone(), 0);
        let before = storage.counts().read_at;
        match chunk(&keeps_nothing, &deepest, 2).err() {
            Some(Error::BaseUnreadable { fault, .. }) => {
                assert!(
                    matches!(fault, BaseFault::TooManyFrames { limit: FRAMES_MAX }),
                    "{fault}"
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(storage.counts().read_at - before, u64::from(FRAMES_MAX));
        // The same for a frame that is not cached.
        let place = loaded.index.get(&deepest).unwrap();
        let opened = FrameReader::default().open_last(&keeps_nothing, place.frame).map(drop);
        let error = opened.unwrap_err();
        assert!(error.to_string().contains("more than 16384 frames"), "{error}");
        assert_eq!(storage.counts().read_at - before, 2 * u64::from(FRAMES_MAX));
    }

    /// Three frames, each encoded against the one before. The second holds other bytes than its
    /// chunk's id says.
    #[test]
    fn a_wrong_chunk_between_is_noticed_at_the_end_if_not_before() {
        let (storage, repository, _) = doubling();
        let keys = &repository.files.keys;
        let (first, mut second) = (noise(1, 5000), noise(1, 5000));
        second[100] ^= 1;
        let mut third = second.clone();
        third[4000] ^= 1;
        let mut wrong = second.clone();
        wrong[2000] ^= 1;
        let (id, mut encoder) = (FileId::random(), FrameEncoder::new());
        let mut pack = pack::PackBuilder::new(keys, id, PackKind::Data);
        // A chunk, the bytes stored for it, and its base.
        type Link<'a> = (&'a [u8], &'a [u8], Option<&'a [u8]>);
        let frames: [Link<'_>; 3] = [
            (&first, &first, None),
            (&second, &wrong, Some(&first)),
            (&third, &third, Some(&second)),
        ];
        for (depth, (chunk, stored, base)) in (0..).zip(frames) {
            let mut gathered = FrameBuilder::new();
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

        let loaded = repository.loaded().unwrap();
        let reader = || ChunkReader::new(&repository.files, loaded.clone(), 1 << 20);
        for reader in [reader(), reader().comparing_ends_only()] {
            assert!(chunk(&reader, &keys.chunk_id(&first), 5000).unwrap() == first);
            let between = chunk(&reader, &keys.chunk_id(&second), 5000).err();
            assert!(matches!(between, Some(Error::ChunkDamaged { .. })), "{between:?}");
        }
        let end = |reader: ChunkReader<'_>| chunk(&reader, &keys.chunk_id(&third), 5000).err();
        let (compared, at_end) = (end(reader()), end(reader().comparing_ends_only()));
        assert!(matches!(compared, Some(Error::BaseUnreadable { .. })), "{compared:?}");
        assert!(matches!(at_end, Some(Error::ChunkDamaged { .. })), "{at_end:?}");
    }

    /// Makes frames of one chunk each, in layers: each is encoded against all frames of the layer
    /// below. Returns the chunk of the only frame at the top.
    fn pyramid(width: usize, layers: u8) -> (Arc<Flaky<Memory>>, Repository, Vec<u8>) {
        const LENGTH: usize = 4000;
        let storage = Arc::new(Flaky::new(Memory::new()));
        let repository = Repository::init(storage.clone(), Some(b"secret"), &InitOptions::quick()).unwrap();
        let keys = &repository.files.keys;
        let (id, mut encoder) = (FileId::random(), FrameEncoder::new());
        let mut pack = pack::PackBuilder::new(keys, id, PackKind::Data);
        let mut below: Vec<Vec<u8>> = Vec::new();
        for depth in 0..layers {
            let frames = if depth + 1 == layers { 1 } else { width };
            let made = (0..frames).map(|number| {
                let own = noise(1000 * u64::from(depth) + number as u64, LENGTH);
                let part = LENGTH / width;
                let mut chunk = own;
                for (base, to) in below.iter().zip((0..).step_by(part)) {
                    chunk[to + 8..to + part].copy_from_slice(&base[to + 8..to + part]);
                }
                let mut gathered = FrameBuilder::new();
                gathered.push(keys.chunk_id(&chunk), &chunk);
                let (blobs, mut plain) = (gathered.blobs(), Vec::new());
                let piece = |base: &Vec<u8>| Piece {
                    base: keys.chunk_id(base).prefix(),
                    start: 0,
                    length: LENGTH as u32,
                };
                let pieces: Vec<Piece> = below.iter().map(piece).collect();
                if depth == 0 {
                    encoder.encode(blobs, &chunk, Compression::Stored, &mut plain).unwrap();
                } else {
                    let (level, interval) = (1, Interval::I32);
                    let method = Method::AnchorZstd { level, interval };
                    encoder
                        .encode_delta(blobs, &chunk, &pieces, &below.concat(), method, &mut plain)
                        .unwrap();
                }
                let bases: Vec<_> = pieces.iter().map(|piece| piece.base).collect();
                pack.add(&plain, blobs, depth, &bases);
                chunk
            });
            below = made.collect();
        }
        storage.put(&name_in(folder::PACKS, id), &[&pack.finish().0]).unwrap();
        (storage, repository, below.remove(0))
    }

    /// There are 4096 ways from the top to the frames of the lowest layer, of which there are 16.
    #[test]
    fn bases_that_do_not_fit_in_the_cache_are_read_again_but_not_on_each_way_to_them() {
        let (storage, repository, top) = pyramid(16, 5);
        let loaded = repository.loaded().unwrap();
        // In this order: no room, room for a third and for two thirds of the lowest layer, and for all.
        for (budget, frames_max) in [(0, FRAMES_MAX.into()), (20_000, 2500), (40_000, 2500), (1 << 20, 65)] {
            let reader = ChunkReader::new(&repository.files, loaded.clone(), budget);
            let before = storage.counts().read_at;
            let id = repository.files.keys.chunk_id(&top);
            assert!(chunk(&reader, &id, top.len() as u32).unwrap() == top);
            let frames = storage.counts().read_at - before;
            assert!(frames <= frames_max, "{frames} frames read with {budget} bytes");
        }
    }
}
