//! The index in memory: which chunks are stored, and where.
//!
//! A chunk costs 38 bytes (its id, frame and slot) and between 4.4 and 6.7 bytes of hash table; a
//! frame costs 20 bytes. With frames of 16 chunks or more, that is at most 47 bytes a chunk.
//! Entries are in segments that never move, so growing needs no second copy; only the table of
//! 4-byte slots of one shard is rebuilt at a time.
//!
//! A table slot holds eight bits of the id and the 24-bit number of an entry in its shard. A probe
//! reads an entry only when those eight bits match.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, RwLock, RwLockReadGuard};

use ibid_format::pack::{PackKind, PackSummary};
use ibid_format::{ChunkId, ChunkPrefix, FileId};

use crate::{Error, Result};

/// Number of shards, selected by the first byte of an id.
const SHARDS: usize = 256;
/// Entries per segment of a shard.
const SEGMENT: usize = 128;
/// Maximum number of entries in a shard (24 bits; the last value means "empty").
const SHARD_ENTRIES_MAX: u32 = (1 << 24) - 1;
const EMPTY: u32 = u32::MAX;

/// Location of a chunk: a frame, and its slot in that frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    /// Number of the frame: see [`Index::frame`].
    pub(crate) frame: u32,
    pub(crate) slot: u16,
}

/// An entry, unaligned so that it takes only 38 bytes.
#[derive(Clone, Copy)]
#[repr(C)]
struct IndexedChunk {
    id: [u8; 32],
    frame: [u8; 4],
    slot: [u8; 2],
}

impl IndexedChunk {
    fn new(id: &ChunkId, place: Place) -> IndexedChunk {
        IndexedChunk {
            id: id.0,
            frame: place.frame.to_le_bytes(),
            slot: place.slot.to_le_bytes(),
        }
    }

    fn place(&self) -> Place {
        Place {
            frame: u32::from_le_bytes(self.frame),
            slot: u16::from_le_bytes(self.slot),
        }
    }
}

#[derive(Default)]
struct Shard {
    segments: Vec<Vec<IndexedChunk>>,
    len: u32,
    /// `tag << 24 | number`, or [`EMPTY`].
    table: Vec<u32>,
}

impl Shard {
    fn entry(&self, number: u32) -> &IndexedChunk {
        &self.segments[number as usize / SEGMENT][number as usize % SEGMENT]
    }

    /// Returns where probing for an id starts. Multiplication maps 32 uniform bits onto any table
    /// length.
    fn start(&self, prefix: ChunkPrefix) -> usize {
        let bits = u32::from_le_bytes([prefix.0[4], prefix.0[5], prefix.0[6], prefix.0[7]]);
        ((u64::from(bits) * self.table.len() as u64) >> 32) as usize
    }

    /// Finds the id that begins with `prefix` and satisfies `is_it`. Returns its table position and
    /// number, or the empty position where it belongs.
    fn probe(&self, prefix: ChunkPrefix, is_it: impl Fn(&[u8; 32]) -> bool) -> (usize, Option<u32>) {
        let tag = u32::from(prefix.0[1]);
        let mut at = self.start(prefix);
        loop {
            let slot = self.table[at];
            if slot == EMPTY {
                return (at, None);
            }
            if slot >> 24 == tag && is_it(&self.entry(slot & SHARD_ENTRIES_MAX).id) {
                return (at, Some(slot & SHARD_ENTRIES_MAX));
            }
            at = if at + 1 == self.table.len() { 0 } else { at + 1 };
        }
    }

    /// Returns the id that begins with `prefix` and satisfies `is_it`, with its place.
    fn find(&self, prefix: ChunkPrefix, is_it: impl Fn(&[u8; 32]) -> bool) -> Option<(ChunkId, Place)> {
        if self.table.is_empty() {
            return None;
        }
        let entry = self.entry(self.probe(prefix, is_it).1?);
        Some((ChunkId(entry.id), entry.place()))
    }

    /// Grows the table by half when it is nine tenths full, which keeps its load between 0.6 and
    /// 0.9.
    fn grow(&mut self) {
        let size = (self.table.len() + self.table.len() / 2).max(4);
        self.table.clear();
        self.table.shrink_to_fit();
        self.table.resize(size, EMPTY);
        for number in 0..self.len {
            let id = ChunkId(self.entry(number).id);
            let mut at = self.start(id.prefix());
            while self.table[at] != EMPTY {
                at = if at + 1 == size { 0 } else { at + 1 };
            }
            self.table[at] = u32::from(id.0[1]) << 24 | number;
        }
    }

    /// Adds an id; returns false if it exists. An existing id keeps its place unless `replaces`,
    /// called with that place, returns true.
    fn insert(&mut self, id: &ChunkId, place: Place, replaces: impl FnOnce(Place) -> bool) -> Result<bool> {
        if (self.len as usize + 1) * 10 > self.table.len() * 9 {
            self.grow();
        }
        let (at, found) = self.probe(id.prefix(), |other| *other == id.0);
        if let Some(number) = found {
            let entry = &mut self.segments[number as usize / SEGMENT][number as usize % SEGMENT];
            if replaces(entry.place()) {
                *entry = IndexedChunk::new(id, place);
            }
            return Ok(false);
        }
        // The tag 0xFF with all ones in the number would read as EMPTY, so the last number is never
        // used.
        if self.len >= SHARD_ENTRIES_MAX {
            return Err(Error::TooMuch {
                what: "the number of chunks in the index",
                limit: u64::from(SHARD_ENTRIES_MAX) * SHARDS as u64,
            });
        }
        if self.len as usize / SEGMENT == self.segments.len() {
            // The first segment doubles until it has full size: a small index has many shards with
            // few entries.
            let first = self.segments.is_empty();
            self.segments.push(Vec::with_capacity(if first { 1 } else { SEGMENT }));
        }
        let entry = IndexedChunk::new(id, place);
        let segment = &mut self.segments[self.len as usize / SEGMENT];
        if segment.len() == segment.capacity() {
            segment.reserve_exact(segment.len());
        }
        segment.push(entry);
        self.table[at] = u32::from(id.0[1]) << 24 | self.len;
        self.len += 1;
        Ok(true)
    }

    fn bytes(&self) -> u64 {
        let entries: usize = self.segments.iter().map(Vec::capacity).sum();
        let segments = entries * size_of::<IndexedChunk>() + self.segments.capacity() * size_of::<Vec<IndexedChunk>>();
        (segments + self.table.capacity() * 4) as u64
    }
}

/// A frame of a pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) pack: u32,
    pub(crate) offset: u32,
    pub(crate) sealed: u32,
    /// Sum of its chunks' lengths, bytes.
    pub(crate) length: u32,
    pub(crate) blobs: u16,
    /// Maximum length of the chain of frames that must be decoded before it.
    pub(crate) depth: u8,
}

impl Frame {
    /// A frame that a backup is gathering: its chunks are known but can't be read yet.
    const UNSTORED: Frame = Frame {
        pack: u32::MAX,
        offset: 0,
        sealed: 0,
        length: 0,
        blobs: 0,
        depth: 0,
    };

    /// Returns a frame from an index file; its pack has this number.
    pub(crate) fn of(pack: u32, listed: &ibid_format::index::IndexedFrame) -> Frame {
        Frame {
            pack,
            offset: listed.offset,
            sealed: listed.sealed,
            length: listed.length,
            blobs: listed.blobs,
            depth: listed.depth,
        }
    }

    /// Returns whether its pack is durable.
    pub(crate) fn is_stored(&self) -> bool {
        self.pack != Frame::UNSTORED.pack
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pack {
    pub(crate) id: FileId,
    pub(crate) kind: PackKind,
    pub(crate) size: u64,
}

/// Index of chunk ids to frames, and of frames to packs.
pub(crate) struct Index {
    shards: Vec<Mutex<Shard>>,
    /// Frames loaded from storage.
    pub(crate) frames: Vec<Frame>,
    pub(crate) packs: Vec<Pack>,
    /// Frames added by a backup since; their numbers follow those above.
    added: RwLock<Added>,
    /// See [`Index::has_deltas`].
    deltas: AtomicBool,
}

#[derive(Default)]
struct Added {
    frames: Vec<Frame>,
    packs: Vec<Pack>,
}

impl Index {
    pub(crate) fn new() -> Index {
        Index {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            frames: Vec::new(),
            packs: Vec::new(),
            added: RwLock::default(),
            deltas: AtomicBool::new(false),
        }
    }

    /// Adds a stored pack; returns the number of its first frame.
    pub(crate) fn add_pack(&mut self, pack: Pack, frames: &[ibid_format::index::IndexedFrame]) -> u32 {
        let (number, start) = (self.packs.len() as u32, self.frames.len() as u32);
        self.packs.push(pack);
        self.frames.extend(frames.iter().map(|frame| Frame::of(number, frame)));
        self.deltas
            .fetch_or(frames.iter().any(|frame| frame.depth > 0), Ordering::Relaxed);
        start
    }

    /// Returns whether any stored frame needs others to be decoded.
    pub(crate) fn has_deltas(&self) -> bool {
        self.deltas.load(Ordering::Relaxed)
    }

    /// Returns the frame with this number; see [`Frame::is_stored`] for frames not stored yet.
    pub(crate) fn frame(&self, number: u32) -> Frame {
        let number = number as usize;
        match self.frames.get(number) {
            Some(frame) => *frame,
            None => self.added().frames[number - self.frames.len()],
        }
    }

    /// Returns the pack with this number.
    pub(crate) fn pack(&self, number: u32) -> Pack {
        let number = number as usize;
        match self.packs.get(number) {
            Some(pack) => *pack,
            None => self.added().packs[number - self.packs.len()],
        }
    }

    /// Adds a frame that is not stored yet; returns its number.
    pub(crate) fn add_frame(&self) -> u32 {
        let mut added = self.added.write().expect("no holder of this lock panics");
        added.frames.push(Frame::UNSTORED);
        (self.frames.len() + added.frames.len() - 1) as u32
    }

    /// Marks added frames as stored in this pack. `numbers` are theirs, in the pack's order.
    pub(crate) fn frames_stored(&self, pack: &PackSummary, numbers: &[u32]) {
        let mut added = self.added.write().expect("no holder of this lock panics");
        let number = (self.packs.len() + added.packs.len()) as u32;
        added.packs.push(Pack {
            id: pack.id,
            kind: pack.kind,
            size: pack.size,
        });
        for (frame, at) in pack.frames.iter().zip(numbers) {
            self.deltas.fetch_or(frame.depth > 0, Ordering::Relaxed);
            let frame = ibid_format::index::IndexedFrame::from(frame);
            added.frames[*at as usize - self.frames.len()] = Frame::of(number, &frame);
        }
    }

    fn added(&self) -> RwLockReadGuard<'_, Added> {
        self.added.read().expect("no holder of this lock panics")
    }

    fn shard(&self, prefix: ChunkPrefix) -> std::sync::MutexGuard<'_, Shard> {
        self.shards[usize::from(prefix.0[0])]
            .lock()
            .expect("no holder of this lock panics")
    }

    /// Returns the place of a chunk, if it is known.
    pub(crate) fn get(&self, id: &ChunkId) -> Option<Place> {
        let found = self.shard(id.prefix()).find(id.prefix(), |other| *other == id.0);
        found.map(|(_, place)| place)
    }

    /// Returns the place of a chunk, if it can be read.
    pub(crate) fn get_stored(&self, id: &ChunkId) -> Option<Place> {
        self.get(id).filter(|place| self.frame(place.frame).is_stored())
    }

    /// Returns the known chunk whose id begins with this prefix, if any.
    pub(crate) fn find(&self, prefix: ChunkPrefix) -> Option<(ChunkId, Place)> {
        self.shard(prefix).find(prefix, |id| id.starts_with(&prefix.0))
    }

    /// Adds a chunk; returns false if it was known (its first place stays).
    pub(crate) fn insert(&self, id: &ChunkId, place: Place) -> Result<bool> {
        self.shard(id.prefix()).insert(id, place, |_| false)
    }

    /// Adds a stored chunk. If it was known, the place in the frame of smaller depth wins.
    pub(crate) fn insert_stored(&self, id: &ChunkId, place: Place) -> Result<bool> {
        let is_less_deep = |known: Place| self.frame(place.frame).depth < self.frame(known.frame).depth;
        self.shard(id.prefix()).insert(id, place, is_less_deep)
    }

    /// Returns the number of known chunks.
    pub(crate) fn len(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| u64::from(shard.lock().expect("no holder of this lock panics").len))
            .sum()
    }

    /// Returns the memory in use, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let shards: u64 = self
            .shards
            .iter()
            .map(|shard| shard.lock().expect("no holder of this lock panics").bytes())
            .sum();
        let added = self.added();
        let frames = self.frames.capacity() + added.frames.capacity();
        let packs = self.packs.capacity() + added.packs.capacity();
        shards + (frames * size_of::<Frame>() + packs * size_of::<Pack>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> ChunkId {
        // SplitMix64 stands in for the hash: ids are uniform.
        let mut bytes = [0; 32];
        for (part, chunk) in bytes.chunks_mut(8).enumerate() {
            let mut z = (n * 4 + part as u64)
                .wrapping_add(1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            chunk.copy_from_slice(&(z ^ z >> 31).to_le_bytes());
        }
        ChunkId(bytes)
    }

    #[test]
    fn exactly_the_inserted_entries_are_found() {
        let index = Index::new();
        for n in 0..50_000 {
            assert!(index.get(&id(n)).is_none());
            assert!(
                index
                    .insert(
                        &id(n),
                        Place {
                            frame: n as u32,
                            slot: (n % 60_000) as u16
                        }
                    )
                    .unwrap()
            );
            assert!(!index.insert(&id(n), Place { frame: 0, slot: 0 }).unwrap());
        }
        for n in 0..50_000 {
            assert_eq!(
                index.get(&id(n)),
                Some(Place {
                    frame: n as u32,
                    slot: (n % 60_000) as u16
                })
            );
        }
        assert!((50_000..60_000).all(|n| index.get(&id(n)).is_none()));
        assert_eq!(index.len(), 50_000);
    }

    /// The design limit: at most 48 bytes of memory a chunk, frames included, at every size from a
    /// million chunks on.
    #[test]
    fn a_chunk_costs_at_most_48_bytes() {
        let mut index = Index::new();
        let mut worst: f64 = 0.0;
        for n in 0..3_000_000u64 {
            index
                .insert(
                    &id(n),
                    Place {
                        frame: (n / 16) as u32,
                        slot: (n % 16) as u16,
                    },
                )
                .unwrap();
            if n % 16 == 0 {
                index.frames.push(Frame {
                    pack: 0,
                    offset: 0,
                    sealed: 0,
                    length: 0,
                    blobs: 16,
                    depth: 0,
                });
            }
            if n >= 1_000_000 && n % 50_000 == 0 {
                index.frames.shrink_to_fit();
                worst = worst.max(index.bytes() as f64 / (n + 1) as f64);
            }
        }
        assert!(worst <= 48.0, "{worst} bytes a chunk");
    }

    /// A few chunks take little memory in spite of 256 shards.
    #[test]
    fn a_small_index_is_small() {
        let index = Index::new();
        let place = Place { frame: 0, slot: 0 };
        for n in 0..2000 {
            index.insert(&id(n), place).unwrap();
            assert!(
                index.bytes() <= 200 * (n + 1),
                "{} bytes for {} chunks",
                index.bytes(),
                n + 1
            );
        }
        assert!(index.bytes() <= 90 * 2000, "{}", index.bytes());
    }

    /// Adds a pack with a frame of each of these depths.
    fn add_pack(index: &mut Index, depths: &[u8]) -> u32 {
        let frames: Vec<_> = depths
            .iter()
            .map(|&depth| ibid_format::index::IndexedFrame {
                offset: 8,
                sealed: 50,
                blobs: 1,
                depth,
                length: 1,
            })
            .collect();
        let pack = Pack {
            id: FileId([0; 16]),
            kind: PackKind::Data,
            size: 0,
        };
        index.add_pack(pack, &frames)
    }

    #[test]
    fn of_two_copies_of_a_chunk_that_is_kept_whose_frame_is_less_deep() {
        let mut index = Index::new();
        assert!(!index.has_deltas());
        add_pack(&mut index, &[0, 0]);
        assert!(!index.has_deltas());
        let second = add_pack(&mut index, &[3, 1]);
        assert_eq!(second, 2);
        assert!(index.has_deltas());
        let place = |frame| Place { frame, slot: 7 };
        for (frame, kept) in [(2, 2), (3, 3), (2, 3), (1, 1), (0, 1), (3, 1)] {
            index.insert_stored(&id(1), place(frame)).unwrap();
            assert_eq!(index.get(&id(1)), Some(place(kept)));
        }
        index.insert_stored(&id(2), place(2)).unwrap();
        assert!(!index.insert(&id(2), place(0)).unwrap());
        assert_eq!(
            index.get(&id(2)),
            Some(place(2)),
            "what is not stored yet replaces nothing"
        );
    }

    #[test]
    fn chunks_are_found_by_the_first_bytes_of_their_ids() {
        let index = Index::new();
        assert_eq!(index.find(id(0).prefix()), None);
        for n in 0..5000 {
            let place = Place {
                frame: n as u32,
                slot: 0,
            };
            index.insert(&id(n), place).unwrap();
        }
        for n in 0..5000 {
            let (found, place) = index.find(id(n).prefix()).unwrap();
            assert_eq!((found, place.frame), (id(n), n as u32));
            let mut other = id(n).prefix();
            other.0[11] ^= 1;
            assert_eq!(index.find(other), None);
        }
        // Two ids share the prefix: one is found, both are stored.
        let mut twin = id(7);
        twin.0[31] ^= 1;
        assert!(index.insert(&twin, Place { frame: 9, slot: 9 }).unwrap());
        assert_eq!(index.get(&twin), Some(Place { frame: 9, slot: 9 }));
        assert_eq!(index.get(&id(7)), Some(Place { frame: 7, slot: 0 }));
        assert!(index.find(twin.prefix()).is_some());
    }

    #[test]
    fn ids_that_share_all_that_places_them_are_told_apart() {
        let index = Index::new();
        for n in 0..1000u16 {
            let mut bytes = [0xFF; 32];
            bytes[30..].copy_from_slice(&n.to_le_bytes());
            assert!(
                index
                    .insert(
                        &ChunkId(bytes),
                        Place {
                            frame: u32::from(n),
                            slot: n
                        }
                    )
                    .unwrap()
            );
        }
        let mut bytes = [0xFF; 32];
        bytes[30..].copy_from_slice(&999u16.to_le_bytes());
        assert_eq!(index.get(&ChunkId(bytes)), Some(Place { frame: 999, slot: 999 }));
    }
}
