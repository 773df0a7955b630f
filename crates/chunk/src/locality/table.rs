//! Fingerprints and hints in memory.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::packing::Packing;
use super::{Entered, Hint, Known, LIST_MOST};
use crate::Settings;

/// Shards of the fingerprints; the last bits of one say which.
const SHARDS: usize = 64;
/// Entries of a segment: what memory grows by.
const SEGMENT: usize = 1 << 14;
/// The most entries: one number is left over, for slots that are free.
const ENTRIES_MOST: usize = u32::MAX as usize;
/// A bit in a fingerprint: the chunk is known only from the end of its data.
const AT_END: u64 = 1;

/// The known chunks and the hints of each. Any number of threads can share it.
///
/// Chunks are numbered in the order in which they become known, so the entries of consecutive
/// chunks are neighbours. In a run of duplicates, the next chunk is usually the next number; the
/// table is searched at the start of a run. No lock is held while a thread cuts or hashes: a search
/// holds a shard's lock, and hints take none.
///
/// Each chunk takes 16 bytes of fingerprint, 4.4 to 6.7 of table, and 3 for each hint (4 if the
/// maximum size is 32 KiB or more above the minimum). Memory grows as chunks become known; chunks
/// beyond the given number stay unknown.
#[derive(Debug)]
pub struct Table {
    packing: Packing,
    list: usize,
    entries_most: usize,
    len: AtomicU32,
    /// 127 bits, and [`AT_END`].
    fingerprints: Segments<[AtomicU64; 2]>,
    /// The list of each entry, one hint after another.
    hints: Segments<AtomicU8>,
    shards: Box<[Mutex<Shard>]>,
}

impl Table {
    /// Returns a table for at most `chunks_most` chunks cut with these settings, rounded up to a
    /// multiple of 16384. It keeps `list` hints of each chunk, clamped to 1 to [`LIST_MOST`].
    #[must_use]
    pub fn new(settings: &Settings, list: usize, chunks_most: usize) -> Table {
        let (packing, list) = (Packing::new(settings), list.clamp(1, LIST_MOST));
        let segments = chunks_most.clamp(1, ENTRIES_MOST).div_ceil(SEGMENT);
        Table {
            packing,
            list,
            entries_most: (segments * SEGMENT).min(ENTRIES_MOST),
            len: AtomicU32::new(0),
            fingerprints: Segments::new(segments, 1),
            hints: Segments::new(segments, list * packing.width),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the number of known chunks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// Whether no chunk is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory that it takes, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let slots: usize = self.shards.iter().map(|shard| lock(shard).slots.capacity()).sum();
        slots * size_of::<u32>() + self.fingerprints.memory() + self.hints.memory()
    }

    /// Returns a handle for one thread. `fingerprint` maps a chunk to 16 bytes, 127 bits of which
    /// must be collision-resistant.
    pub fn with<F: FnMut(&[u8]) -> [u8; 16]>(&self, fingerprint: F) -> TableWith<'_, F> {
        TableWith {
            table: self,
            fingerprint,
            searches: 0,
            neighbours: 0,
        }
    }

    /// Returns the hint at this index of a chunk's list, or `None` past its end or if there is no
    /// such chunk.
    #[inline]
    #[must_use]
    pub fn hint(&self, chunk: TableEntry, place: usize) -> Option<Hint> {
        if place >= self.list {
            return None;
        }
        let list = self.hints.get(chunk.0)?;
        self.packing.unpack(self.load(list, place))
    }

    /// Puts a hint first in a chunk's list. Threads that do so for the same chunk at once may
    /// garble its list, which is only advice.
    pub fn note(&self, chunk: TableEntry, hint: Hint) {
        let (Some(packed), Some(list)) = (self.packing.pack(hint), self.hints.get_or_make(chunk.0)) else {
            return;
        };
        // The hints before its old place move down by one. If it is new, the last drops out.
        let mut moved = packed;
        for place in 0..self.list {
            let found = self.load(list, place);
            let bytes = &list[place * self.packing.width..][..self.packing.width];
            for (byte, value) in bytes.iter().zip(moved.to_le_bytes()) {
                byte.store(value, Ordering::Relaxed);
            }
            if found == packed || found == 0 {
                break;
            }
            moved = found;
        }
    }

    #[inline]
    fn load(&self, list: &[AtomicU8], place: usize) -> u32 {
        let bytes = &list[place * self.packing.width..][..self.packing.width];
        let byte = |packed, byte: &AtomicU8| packed << 8 | u32::from(byte.load(Ordering::Relaxed));
        bytes.iter().rev().fold(0, byte)
    }

    /// Returns the fingerprint of an entry, or zeros if there is no such entry.
    #[inline]
    fn fingerprint(&self, entry: u32) -> [u64; 2] {
        match self.fingerprints.get(entry) {
            Some([halves, ..]) => halves.each_ref().map(|half| half.load(Ordering::Relaxed)),
            _ => [0; 2],
        }
    }

    fn search(&self, fingerprint: Fingerprint) -> Option<u32> {
        lock(self.shard(fingerprint)).search(self, fingerprint).1
    }

    fn shard(&self, fingerprint: Fingerprint) -> &Mutex<Shard> {
        &self.shards[fingerprint.0[1] as usize >> 1 & (SHARDS - 1)]
    }

    /// Returns the entry of this fingerprint, and whether it was known before, or `None` if there
    /// is no room for a new one.
    fn enter(&self, fingerprint: Fingerprint, at_end: bool) -> Option<(u32, bool)> {
        let mut shard = lock(self.shard(fingerprint));
        shard.make_room(self);
        let (at, found) = shard.search(self, fingerprint);
        if let Some(entry) = found {
            return Some((entry, true));
        }
        let take = |len: u32| ((len as usize) < self.entries_most).then_some(len + 1);
        let entry = self.len.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let [first, second] = fingerprint.0;
        if let Some([halves, ..]) = self.fingerprints.get_or_make(entry) {
            halves[0].store(first, Ordering::Relaxed);
            halves[1].store(second | if at_end { AT_END } else { 0 }, Ordering::Relaxed);
        }
        shard.slots[at] = entry + 1;
        shard.used += 1;
        Some((entry, false))
    }

    /// Notes that a chunk was also cut off by its bytes.
    fn was_cut(&self, entry: u32) {
        if let Some([halves, ..]) = self.fingerprints.get(entry) {
            halves[1].fetch_and(!AT_END, Ordering::Relaxed);
        }
    }
}

/// The fingerprint of a chunk, as a [`Table`] keeps it: 127 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u64; 2]);

/// A chunk that a [`Table`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableEntry(u32);

/// A thread's handle of a [`Table`], with its fingerprint function.
#[derive(Debug)]
pub struct TableWith<'t, F> {
    table: &'t Table,
    fingerprint: F,
    searches: u64,
    neighbours: u64,
}

impl<F> TableWith<'_, F> {
    /// Returns how often the table was searched for a fingerprint.
    #[must_use]
    pub fn searches(&self) -> u64 {
        self.searches
    }

    /// Returns how often a fingerprint was found without a search, in the entry after the chunk
    /// before.
    #[must_use]
    pub fn neighbours(&self) -> u64 {
        self.neighbours
    }

    /// Returns the entry after `before` if its fingerprint equals this one, ignoring the bits
    /// `but_for`.
    #[inline]
    fn neighbour(&mut self, fingerprint: Fingerprint, before: Option<TableEntry>, but_for: u64) -> Option<u32> {
        let next = before?.0.checked_add(1)?;
        let [first, second] = self.table.fingerprint(next);
        let found = [first, second & !but_for] == fingerprint.0;
        self.neighbours += u64::from(found);
        found.then_some(next)
    }
}

impl<F: FnMut(&[u8]) -> [u8; 16]> Known for TableWith<'_, F> {
    type Fingerprint = Fingerprint;
    type Entry = TableEntry;

    #[inline]
    fn fingerprint(&mut self, chunk: &[u8]) -> Fingerprint {
        let bytes = u128::from_le_bytes((self.fingerprint)(chunk));
        // Zeros stand for no entry.
        Fingerprint([(bytes as u64).max(1), (bytes >> 64) as u64 & !AT_END])
    }

    #[inline]
    fn find_cut(&mut self, fingerprint: &Fingerprint, after: TableEntry) -> Option<TableEntry> {
        if let Some(entry) = self.neighbour(*fingerprint, Some(after), 0) {
            return Some(TableEntry(entry));
        }
        self.searches += 1;
        let entry = self.table.search(*fingerprint)?;
        (self.table.fingerprint(entry)[1] & AT_END == 0).then_some(TableEntry(entry))
    }

    #[inline]
    fn enter(&mut self, fingerprint: Fingerprint, after: Option<TableEntry>, at_end: bool) -> Entered<TableEntry> {
        let entered = match self.neighbour(fingerprint, after, AT_END) {
            Some(entry) => Some((entry, true)),
            None => {
                self.searches += 1;
                self.table.enter(fingerprint, at_end)
            }
        };
        if let Some((entry, true)) = entered
            && !at_end
        {
            self.table.was_cut(entry);
        }
        Entered {
            entry: entered.map(|(entry, _)| TableEntry(entry)),
            is_duplicate: entered.is_some_and(|(_, was_there)| was_there),
        }
    }

    #[inline]
    fn hint(&mut self, entry: TableEntry, place: usize) -> Option<Hint> {
        self.table.hint(entry, place)
    }

    #[inline]
    fn note(&mut self, entry: TableEntry, hint: Hint) {
        self.table.note(entry, hint);
    }
}

/// Entries by their fingerprints: open addressing with linear probing.
#[derive(Debug, Default)]
struct Shard {
    /// Numbers of entries plus one; 0 for a free slot.
    slots: Vec<u32>,
    used: usize,
}

impl Shard {
    /// Returns the slot where a fingerprint is or belongs, and its entry if it is there. Some slot
    /// is always free.
    fn search(&self, table: &Table, fingerprint: Fingerprint) -> (usize, Option<u32>) {
        if self.slots.is_empty() {
            return (0, None);
        }
        let mut at = self.start(fingerprint.0[0]);
        loop {
            let Some(entry) = self.slots[at].checked_sub(1) else {
                return (at, None);
            };
            let [first, second] = table.fingerprint(entry);
            if [first, second & !AT_END] == fingerprint.0 {
                return (at, Some(entry));
            }
            at = self.after(at);
        }
    }

    /// Returns the first slot of a fingerprint, proportional to it: fingerprints are uniform.
    fn start(&self, first: u64) -> usize {
        ((u128::from(first) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// Grows by half once nine tenths are used.
    fn make_room(&mut self, table: &Table) {
        if (self.used + 1) * 10 <= self.slots.len() * 9 {
            return;
        }
        let size = (self.slots.len() / 2 * 3).max(16);
        let old = std::mem::replace(&mut self.slots, vec![0; size]);
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let mut at = self.start(table.fingerprint(slot - 1)[0]);
            while self.slots[at] != 0 {
                at = self.after(at);
            }
            self.slots[at] = slot;
        }
    }
}

/// A list that grows by segments that never move, so readers need no lock.
#[derive(Debug)]
struct Segments<T> {
    segments: Box<[OnceLock<Box<[T]>>]>,
    /// Values of an entry.
    width: usize,
}

impl<T: Default> Segments<T> {
    fn new(segments: usize, width: usize) -> Segments<T> {
        Segments {
            segments: (0..segments).map(|_| OnceLock::new()).collect(),
            width,
        }
    }

    /// Returns the values of an entry, or `None` if its segment does not exist.
    #[inline]
    fn get(&self, entry: u32) -> Option<&[T]> {
        let segment = self.segments.get(entry as usize / SEGMENT)?.get()?;
        Some(&segment[entry as usize % SEGMENT * self.width..][..self.width])
    }

    fn get_or_make(&self, entry: u32) -> Option<&[T]> {
        let segment = self.segments.get(entry as usize / SEGMENT)?;
        segment.get_or_init(|| (0..SEGMENT * self.width).map(|_| T::default()).collect());
        self.get(entry)
    }

    fn memory(&self) -> usize {
        let made = self.segments.iter().filter(|segment| segment.get().is_some()).count();
        made * SEGMENT * self.width * size_of::<T>() + size_of_val(&*self.segments)
    }
}

/// Locks a shard. A shard is consistent between any two steps, so a panic of another thread does no
/// harm.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
