//! Chunks in memory, with their places.
//!
//! A chunk costs 38 bytes (its id, frame and slot) and between 4.4 and 6.7 bytes of hash table.
//! Entries are in segments that never move, so growing needs no second copy; only the table of
//! 4-byte slots of one shard is rebuilt at a time.
//!
//! A table slot holds eight bits of the id and the 24-bit number of an entry in its shard. A probe
//! reads an entry only when those eight bits match.

use std::sync::{Mutex, MutexGuard};

use ibid_format::{ChunkId, ChunkPrefix};

use super::Place;
use crate::{Error, Result};

/// Number of shards, selected by the first byte of an id.
const SHARDS: usize = 256;
/// Entries per segment of a shard.
const SEGMENT: usize = 128;
/// Maximum number of entries in a shard (24 bits; the last value means "empty").
const SHARD_ENTRIES_MAX: u32 = (1 << 24) - 1;
const EMPTY: u32 = u32::MAX;

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

    /// Adds an id. An existing id keeps its place unless `replaces`, called with that place, returns
    /// true.
    fn insert(&mut self, id: &ChunkId, place: Place, replaces: impl FnOnce(Place) -> bool) -> Result<()> {
        if (self.len as usize + 1) * 10 > self.table.len() * 9 {
            self.grow();
        }
        let (at, found) = self.probe(id.prefix(), |other| *other == id.0);
        if let Some(number) = found {
            let entry = &mut self.segments[number as usize / SEGMENT][number as usize % SEGMENT];
            if replaces(entry.place()) {
                *entry = IndexedChunk::new(id, place);
            }
            return Ok(());
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
        Ok(())
    }

    fn bytes(&self) -> u64 {
        let entries: usize = self.segments.iter().map(Vec::capacity).sum();
        let segments = entries * size_of::<IndexedChunk>() + self.segments.capacity() * size_of::<Vec<IndexedChunk>>();
        (segments + self.table.capacity() * 4) as u64
    }
}

/// Chunks and their places, in shards that several threads can use at once.
pub(super) struct MemoryIndex {
    shards: Vec<Mutex<Shard>>,
    /// Places of chunks that have another place above: backups that ran at once have stored them twice, or a
    /// prune has moved them. Sorted once all are known.
    copies: Mutex<Copies>,
}

#[derive(Default)]
struct Copies {
    places: Vec<IndexedChunk>,
    is_sorted: bool,
}

impl MemoryIndex {
    pub(super) fn new() -> MemoryIndex {
        MemoryIndex {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            copies: Mutex::default(),
        }
    }

    fn shard(&self, prefix: ChunkPrefix) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(prefix.0[0])]
            .lock()
            .expect("no holder of this lock panics")
    }

    /// Returns the place of a chunk.
    pub(super) fn get(&self, id: &ChunkId) -> Option<Place> {
        let found = self.shard(id.prefix()).find(id.prefix(), |other| *other == id.0);
        found.map(|(_, place)| place)
    }

    /// Returns a chunk whose id begins with this prefix.
    pub(super) fn find(&self, prefix: ChunkPrefix) -> Option<(ChunkId, Place)> {
        self.shard(prefix).find(prefix, |id| id.starts_with(&prefix.0))
    }

    /// Returns all other places of chunks whose ids begin with this prefix.
    pub(super) fn copies(&self, prefix: ChunkPrefix) -> Vec<(ChunkId, Place)> {
        let mut copies = self.copies.lock().expect("no holder of this lock panics");
        if !copies.is_sorted {
            copies.places.sort_unstable_by_key(|copy| copy.id);
            copies.is_sorted = true;
        }
        let start = copies.places.partition_point(|copy| copy.id[..] < prefix.0[..]);
        let found = copies.places[start..]
            .iter()
            .take_while(|copy| copy.id.starts_with(&prefix.0));
        found.map(|copy| (ChunkId(copy.id), copy.place())).collect()
    }

    /// Adds a chunk. If it was known, `replaces` decides whether this place replaces the one before.
    pub(super) fn insert(&self, id: &ChunkId, place: Place, replaces: impl FnOnce(Place) -> bool) -> Result<()> {
        self.shard(id.prefix()).insert(id, place, replaces)
    }

    /// Adds a stored chunk. If it was known, `is_better` decides whether this place is better than the
    /// one before; the other is kept as a copy.
    pub(super) fn insert_stored(
        &self,
        id: &ChunkId,
        place: Place,
        is_better: impl FnOnce(Place) -> bool,
    ) -> Result<()> {
        let mut copy = None;
        self.shard(id.prefix()).insert(id, place, |known| {
            let replaces = is_better(known);
            copy = (known != place).then_some(if replaces { known } else { place });
            replaces
        })?;
        if let Some(copy) = copy {
            let mut copies = self.copies.lock().expect("no holder of this lock panics");
            copies.places.push(IndexedChunk::new(id, copy));
            copies.is_sorted = false;
        }
        Ok(())
    }

    /// Returns the number of chunks.
    pub(super) fn len(&self) -> u64 {
        let len = |shard: &Mutex<Shard>| u64::from(shard.lock().expect("no holder of this lock panics").len);
        self.shards.iter().map(len).sum()
    }

    /// Returns the memory in use, bytes.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |shard: &Mutex<Shard>| shard.lock().expect("no holder of this lock panics").bytes();
        let copies = self
            .copies
            .lock()
            .expect("no holder of this lock panics")
            .places
            .capacity();
        self.shards.iter().map(bytes).sum::<u64>() + (copies * size_of::<IndexedChunk>()) as u64
    }

    /// Calls `each` with every chunk, in the order of their ids.
    pub(super) fn each_sorted(&self, mut each: impl FnMut(ChunkId, Place) -> Result<()>) -> Result<()> {
        let mut sorted: Vec<IndexedChunk> = Vec::new();
        for shard in &self.shards {
            sorted.clear();
            {
                let shard = shard.lock().expect("no holder of this lock panics");
                shard
                    .segments
                    .iter()
                    .for_each(|segment| sorted.extend_from_slice(segment));
            }
            sorted.sort_unstable_by_key(|entry| entry.id);
            for entry in &sorted {
                each(ChunkId(entry.id), entry.place())?;
            }
        }
        Ok(())
    }

    /// Forgets all chunks. Copies stay.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            *shard.lock().expect("no holder of this lock panics") = Shard::default();
        }
    }
}
