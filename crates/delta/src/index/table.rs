//! A partition of the index: places by feature, in a cuckoo table of a fixed size.
//!
//! A slot has four entries. An entry is a check of two bytes from the feature's hash, a place of
//! four bytes, and a byte for the time of its last use. A feature may be in any of four slots: `s`,
//! `s ^ a`, `s ^ b` and `s ^ a ^ b`, where `a` and `b` follow from the check. From each of the
//! four, the same rule leads to the other three, so an entry can be moved without knowing its
//! feature.

use std::fmt;

use super::{Inserted, POSTING_MAX};

/// Entries in a slot.
pub(super) const SLOT: usize = 4;
/// Slots that a feature may be in: the number of hash functions.
const CHOICES: usize = 4;

/// Steps that the clock advances while as many entries are inserted as the table has room for.
const STEPS_PER_FILL: usize = 64;
/// The clock is set back to this when it overflows.
const CLOCK_BASE: u8 = u8::MAX / 2;

/// A slot in memory: two words with two checks each, four places, and a word with one byte for each
/// entry's time of use.
///
/// It is an array of integers so that `vec!` takes zeroed pages from the system, which provides
/// them on first use.
type Words = [u32; 7];

/// See the module's description. It takes 7 bytes for each entry that it has room for.
#[derive(Clone)]
pub(super) struct Table {
    slots: Vec<Words>,
    pub(super) clock: u8,
    /// Entries inserted since the clock last advanced.
    ticks: usize,
    pub(super) len: usize,
}

/// A feature's check and slots.
#[derive(Clone, Copy)]
struct Key {
    check: u16,
    slots: [usize; CHOICES],
}

impl Key {
    /// Returns each slot once, even if it comes up twice.
    fn distinct_slots(self) -> impl Iterator<Item = usize> {
        let is_first = move |&at: &usize| !self.slots[..at].contains(&self.slots[at]);
        (0..CHOICES).filter(is_first).map(move |at| self.slots[at])
    }
}

impl Table {
    /// Returns an empty table of 2^`slots_log` slots.
    pub(super) fn new(slots_log: u32) -> Table {
        Table {
            slots: vec![[0; 7]; 1 << slots_log],
            clock: 0,
            ticks: 0,
            len: 0,
        }
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of entries that it has room for.
    pub(super) fn room(&self) -> usize {
        self.slots.len() * SLOT
    }

    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<Words>()
    }

    /// Returns an entry's check, which is never 0, or 0 if the entry is free.
    pub(super) fn check(&self, entry: usize) -> u16 {
        (self.slots[entry / SLOT][entry % SLOT / 2] >> (entry % 2 * 16)) as u16
    }

    pub(super) fn place(&self, entry: usize) -> u32 {
        self.slots[entry / SLOT][2 + entry % SLOT]
    }

    /// Returns the clock's value when an entry was last used.
    pub(super) fn used(&self, entry: usize) -> u8 {
        (self.slots[entry / SLOT][6] >> (entry % SLOT * 8)) as u8
    }

    fn set_check(&mut self, entry: usize, check: u16) {
        let (word, shift) = (&mut self.slots[entry / SLOT][entry % SLOT / 2], entry % 2 * 16);
        *word = *word & !(0xffff << shift) | u32::from(check) << shift;
    }

    fn set_used(&mut self, entry: usize, used: u8) {
        let (word, shift) = (&mut self.slots[entry / SLOT][6], entry % SLOT * 8);
        *word = *word & !(0xff << shift) | u32::from(used) << shift;
    }

    pub(super) fn set(&mut self, entry: usize, check: u16, place: u32, used: u8) {
        self.set_check(entry, check);
        self.slots[entry / SLOT][2 + entry % SLOT] = place;
        self.set_used(entry, used);
    }

    fn key(&self, feature: u64) -> Key {
        // A feature is the largest of many hashes, so its top bits are all ones. Hash it again.
        let hash = feature.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = hash ^ hash >> 32;
        let check = (hash as u16).max(1);
        let slot = (hash >> 16) as usize & (self.slots() - 1);
        Key {
            check,
            slots: self.choices(slot, check),
        }
    }

    /// Returns the slots that an entry with this check may be in, given one of them.
    fn choices(&self, slot: usize, check: u16) -> [usize; CHOICES] {
        let mixed = u64::from(check).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mask = self.slots() - 1;
        let a = (mixed >> 32) as usize & mask;
        let b = (mixed >> 16 ^ mixed >> 48) as usize & mask;
        [slot, slot ^ a, slot ^ b, slot ^ a ^ b]
    }

    /// Returns the entries of a slot, occupied or free.
    fn entries(slot: usize) -> std::ops::Range<usize> {
        slot * SLOT..slot * SLOT + SLOT
    }

    /// Returns the entries of a slot with this check, comparing all four at once. A check of 0
    /// finds free entries.
    #[inline(always)]
    fn with_check(&self, slot: usize, check: u16) -> impl Iterator<Item = usize> + use<> {
        const ONE_EACH: u64 = 0x0001_0001_0001_0001;
        const LOW_BITS: u64 = 0x7fff * ONE_EACH;
        let words = &self.slots[slot];
        let checks = u64::from(words[0]) | u64::from(words[1]) << 32;
        let differing = checks ^ (u64::from(check) * ONE_EACH);
        // The highest of each sixteen bits is set where all sixteen are equal.
        let mut equal = !(((differing & LOW_BITS) + LOW_BITS) | differing | LOW_BITS);
        std::iter::from_fn(move || {
            let lane = equal.trailing_zeros() as usize / 16;
            equal &= equal.wrapping_sub(1);
            (lane < SLOT).then_some(slot * SLOT + lane)
        })
    }

    /// Returns the entries in the feature's slots that have its check.
    fn matching(&self, key: Key) -> impl Iterator<Item = usize> + '_ {
        key.distinct_slots()
            .flat_map(move |slot| self.with_check(slot, key.check))
    }

    /// Reads all slots that these features may be in, so that the loads overlap. Without it, each
    /// search mostly waits for memory.
    pub(super) fn fetch(&self, features: &[u64]) {
        let slots = features.iter().flat_map(|&feature| self.key(feature).slots);
        let looked_at = slots.fold(0, |seen, slot| seen ^ self.slots[slot][0]);
        std::hint::black_box(looked_at);
    }

    /// Calls `found` with the places of a feature, and of others with the same check and slot.
    /// Returns how many there are.
    pub(super) fn find(&self, feature: u64, mut found: impl FnMut(u32)) -> usize {
        self.matching(self.key(feature))
            .map(|entry| found(self.place(entry)))
            .count()
    }

    pub(super) fn insert(&mut self, feature: u64, place: u32) -> Inserted {
        self.tick();
        let key = self.key(feature);
        let (mut posting, mut stalest, mut free) = (0, None, None);
        for slot in key.distinct_slots() {
            free = free.or_else(|| self.with_check(slot, 0).next());
            for entry in self.with_check(slot, key.check) {
                if self.place(entry) == place {
                    self.set_used(entry, self.clock);
                    return Inserted::Known;
                }
                posting += 1;
                stalest = self.staler(stalest, entry);
            }
        }
        if let Some(entry) = stalest
            && posting >= POSTING_MAX
        {
            return Inserted::Evicted(self.replace(entry, key.check, place));
        }
        if let Some(entry) = free.or_else(|| self.make_room(key.slots)) {
            self.len += 1;
            self.replace(entry, key.check, place);
            return Inserted::New;
        }
        let entries = key.slots.into_iter().flat_map(Table::entries);
        let stalest = entries.fold(None, |stalest, entry| self.staler(stalest, entry));
        // The slots have up to sixteen entries, so one was found.
        let entry = stalest.unwrap_or(key.slots[0] * SLOT);
        Inserted::Evicted(self.replace(entry, key.check, place))
    }

    /// Removes the entry of `feature` with this place. Returns whether there was one.
    pub(super) fn remove(&mut self, feature: u64, place: u32) -> bool {
        let found = self
            .matching(self.key(feature))
            .find(|&entry| self.place(entry) == place);
        if let Some(entry) = found {
            self.set_check(entry, 0);
            self.len -= 1;
        }
        found.is_some()
    }

    /// Marks the entry of `feature` with this place as just used.
    pub(super) fn touch(&mut self, feature: u64, place: u32) {
        let found = self
            .matching(self.key(feature))
            .find(|&entry| self.place(entry) == place);
        if let Some(entry) = found {
            self.set_used(entry, self.clock);
        }
    }

    /// Writes an entry, and returns the place that it had before.
    fn replace(&mut self, entry: usize, check: u16, place: u32) -> u32 {
        let before = self.place(entry);
        self.set(entry, check, place, self.clock);
        before
    }

    /// Returns the entry that was used earlier. The clock is coarse: of two entries used within one
    /// step, it returns the one with the smaller place, which usually came first.
    fn staler(&self, before: Option<usize>, entry: usize) -> Option<usize> {
        let age = |entry: usize| (self.used(entry), self.place(entry));
        match before {
            Some(before) if age(before) <= age(entry) => Some(before),
            _ => Some(entry),
        }
    }

    fn free(&self, slots: [usize; CHOICES]) -> Option<usize> {
        slots.into_iter().find_map(|slot| self.with_check(slot, 0).next())
    }

    /// Moves some entry of these slots to another of its own slots, and returns the entry that
    /// became free. The sixteen entries of a feature's slots lead to 48 more slots, so one move is
    /// enough until the table is nearly full.
    fn make_room(&mut self, slots: [usize; CHOICES]) -> Option<usize> {
        for slot in slots {
            for entry in Table::entries(slot) {
                let choices = self.choices(slot, self.check(entry));
                if let Some(room) = self.free(choices) {
                    self.set(room, self.check(entry), self.place(entry), self.used(entry));
                    return Some(entry);
                }
            }
        }
        None
    }

    /// Advances the clock with the entries inserted. When it overflows, all times are halved:
    /// earlier times stay earlier or become equal.
    fn tick(&mut self) {
        self.ticks += 1;
        if self.ticks <= self.room() / STEPS_PER_FILL {
            return;
        }
        self.ticks = 0;
        if self.clock == u8::MAX {
            for slot in &mut self.slots {
                // Halve each of the four bytes.
                slot[6] = slot[6] >> 1 & 0x7f7f_7f7f;
            }
            self.clock = CLOCK_BASE;
        }
        self.clock += 1;
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("len", &self.len)
            .field("room", &self.room())
            .finish_non_exhaustive()
    }
}
