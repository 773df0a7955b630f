//! Deltas that are not written yet: the lossy write-back cache of dDedup §3.3.2.
//!
//! A record whose delta is not written stays whole, so any delta may be dropped. Those that save
//! most are written first, and those that save least are dropped first.

use std::collections::{BTreeMap, BTreeSet};

use ibid_format::record::{ChainEntry, Stopped};

use crate::write::request::{EncodedBatch, Rewrite};

/// About how many bytes a rewrite, or an entry of a chain, takes beside a delta.
const ENTRY_BYTES: usize = 200;

#[derive(Debug)]
pub(crate) struct Pending {
    room: usize,
    lossy: bool,
    bytes: usize,
    /// By record, with the bytes that each saves.
    rewrites: BTreeMap<u64, (u64, Rewrite)>,
    /// Saved bytes and record.
    order: BTreeSet<(u64, u64)>,
    /// New entries of the table `chains`; [`None`] removes an entry.
    chains: BTreeMap<u64, Option<ChainEntry>>,
    given_up: Vec<(u32, Stopped)>,
    /// Deltas that were dropped.
    pub(crate) dropped: u64,
}

impl Pending {
    /// Returns an empty cache with room for `room` bytes of deltas. If it is not lossy, the caller
    /// must write them when it is half full.
    pub(crate) fn new(room: usize, lossy: bool) -> Self {
        Pending {
            room,
            lossy,
            bytes: 0,
            rewrites: BTreeMap::new(),
            order: BTreeSet::new(),
            chains: BTreeMap::new(),
            given_up: Vec::new(),
            dropped: 0,
        }
    }

    /// Adds a rewrite that saves this many bytes, in place of another of the same record. Drops
    /// those that save least if there is no room.
    pub(crate) fn rewrite(&mut self, saves: u64, rewrite: Rewrite) {
        self.forget(rewrite.number);
        self.bytes += rewrite.delta.len();
        self.order.insert((saves, rewrite.number));
        self.rewrites.insert(rewrite.number, (saves, rewrite));
        while self.lossy && self.bytes > self.room {
            let Some(&(_, least)) = self.order.first() else { break };
            self.forget(least);
            self.dropped += 1;
        }
    }

    /// Drops the rewrite of a record, which stays as it is stored.
    pub(crate) fn forget(&mut self, number: u64) {
        if let Some((saves, rewrite)) = self.rewrites.remove(&number) {
            self.order.remove(&(saves, number));
            self.bytes -= rewrite.delta.len();
        }
    }

    /// Returns the rewrite of a record.
    pub(crate) fn get(&self, number: u64) -> Option<&Rewrite> {
        self.rewrites.get(&number).map(|(_, rewrite)| rewrite)
    }

    /// Returns the new entry of a record in the table `chains`; `Some(None)` if it is removed, and
    /// [`None`] if it does not change.
    pub(crate) fn chain(&self, number: u64) -> Option<Option<&ChainEntry>> {
        self.chains.get(&number).map(Option::as_ref)
    }

    /// Sets or removes the entry of a record in the table `chains`.
    pub(crate) fn set_chain(&mut self, number: u64, entry: Option<ChainEntry>) {
        self.chains.insert(number, entry);
    }

    /// Notes what was given up in a namespace.
    pub(crate) fn give_up(&mut self, namespace: u32, stopped: Stopped) {
        self.given_up.push((namespace, stopped));
    }

    /// Returns the new entries of the table `chains`.
    pub(crate) fn chains(&self) -> impl Iterator<Item = (u64, &ChainEntry)> {
        let chains = self.chains.iter();
        chains.filter_map(|(&number, entry)| Some((number, entry.as_ref()?)))
    }

    /// Returns whether rewrites take more than half of the room.
    pub(crate) fn is_half_full(&self) -> bool {
        self.bytes > self.room / 2
    }

    /// Returns whether all takes twice the room that there is for deltas: if records are short, most of it are entries.
    pub(crate) fn is_too_much(&self) -> bool {
        self.bytes + ENTRY_BYTES * (self.rewrites.len() + self.chains.len()) > 2 * self.room
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rewrites.is_empty() && self.chains.is_empty() && self.given_up.is_empty()
    }

    /// Takes everything out, to be written. `next` is the first record that was not looked at.
    pub(crate) fn take(&mut self, next: u64) -> EncodedBatch {
        let mut rewrites = std::mem::take(&mut self.rewrites);
        let order = std::mem::take(&mut self.order);
        let by_value = order.iter().rev();
        let chosen = by_value.filter_map(|(_, number)| rewrites.remove(number));
        let rewrites = chosen.map(|(_, rewrite)| rewrite).collect();
        self.bytes = 0;
        EncodedBatch {
            rewrites,
            chains: std::mem::take(&mut self.chains).into_iter().collect(),
            next,
            given_up: std::mem::take(&mut self.given_up),
        }
    }
}

#[cfg(test)]
mod tests {
    use ibid_format::record::BodyCheck;

    use super::*;

    fn rewrite(number: u64, length: usize) -> Rewrite {
        Rewrite {
            number,
            base: number + 1,
            check: BodyCheck::of(b""),
            delta: vec![0; length],
        }
    }

    #[test]
    fn the_rewrite_that_saves_least_is_dropped_first_and_the_one_that_saves_most_written_first() {
        let mut pending = Pending::new(100, true);
        pending.rewrite(500, rewrite(1, 40));
        pending.rewrite(20, rewrite(2, 40));
        pending.rewrite(900, rewrite(3, 40));
        assert!(pending.get(2).is_none() && pending.dropped == 1);
        pending.rewrite(600, rewrite(1, 10));
        assert!(!pending.is_half_full());
        let numbers: Vec<u64> = pending.take(9).rewrites.iter().map(|rewrite| rewrite.number).collect();
        assert_eq!(numbers, [3, 1]);
        assert!(pending.is_empty() && pending.bytes == 0);
    }

    #[test]
    fn many_short_entries_are_too_much() {
        let mut pending = Pending::new(10_000, true);
        (0..100).for_each(|number| pending.set_chain(number, None));
        assert!(!pending.is_too_much());
        pending.rewrite(1, rewrite(1, 1));
        assert!(pending.is_too_much() && !pending.is_half_full());
    }

    #[test]
    fn a_rewrite_without_room_is_dropped() {
        let mut pending = Pending::new(100, true);
        pending.rewrite(u64::MAX, rewrite(1, 101));
        assert!(pending.is_empty() && pending.bytes == 0);
    }
}
