//! A cache that is bounded by the bytes of its values.

use std::collections::HashMap;
use std::hash::Hash;

/// About how many bytes an entry takes beside its value: the key twice, places, and what an allocation adds.
const ENTRY_BYTES: usize = 128;

/// The place of no entry.
const NONE: usize = usize::MAX;

/// A cache of values with sizes. Where room is short, the least recently used values are dropped.
#[derive(Debug)]
pub(crate) struct LruCache<K, V> {
    room: usize,
    bytes: usize,
    places: HashMap<K, usize>,
    entries: Vec<Entry<K, V>>,
    /// The first of the entries that are not used; each is followed by the next.
    free: usize,
    newest: usize,
    oldest: usize,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    /// [`None`] if it is not used.
    value: Option<V>,
    bytes: usize,
    newer: usize,
    older: usize,
}

impl<K: Copy + Eq + Hash, V: Clone> LruCache<K, V> {
    /// Returns an empty cache with room for `room` bytes.
    pub(crate) fn new(room: usize) -> Self {
        LruCache {
            room,
            bytes: 0,
            places: HashMap::new(),
            entries: Vec::new(),
            free: NONE,
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.places.contains_key(&key)
    }

    pub(crate) fn get(&mut self, key: K) -> Option<V> {
        let place = *self.places.get(&key)?;
        if self.newest != place {
            self.unlink(place);
            self.link(place);
        }
        self.entries[place].value.clone()
    }

    /// Adds a value that takes so many bytes.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        self.remove(key);
        if bytes > self.room {
            return;
        }
        self.bytes += bytes;
        let entry = Entry {
            key,
            value: Some(value),
            bytes,
            newer: NONE,
            older: NONE,
        };
        let place = match self.entries.get(self.free) {
            Some(free) => {
                let place = std::mem::replace(&mut self.free, free.older);
                self.entries[place] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.places.insert(key, place);
        self.link(place);
        while self.bytes > self.room {
            self.remove(self.entries[self.oldest].key);
        }
    }

    pub(crate) fn remove(&mut self, key: K) {
        if let Some(place) = self.places.remove(&key) {
            self.unlink(place);
            let entry = &mut self.entries[place];
            entry.value = None;
            entry.older = std::mem::replace(&mut self.free, place);
            self.bytes -= entry.bytes;
            if self.places.len() < self.entries.len() / 4 {
                self.shrink();
            }
        }
    }

    /// Gives back the memory of entries that are not used: of many short values, a few long ones may be left.
    fn shrink(&mut self) {
        let used = self.places.len();
        let (mut entries, mut places) = (Vec::with_capacity(used), HashMap::with_capacity(used));
        let mut next = self.newest;
        while let Some(entry) = self.entries.get_mut(next) {
            let place = entries.len();
            next = entry.older;
            places.insert(entry.key, place);
            entries.push(Entry {
                key: entry.key,
                value: entry.value.take(),
                bytes: entry.bytes,
                newer: place.checked_sub(1).unwrap_or(NONE),
                older: place + 1,
            });
        }
        if let Some(oldest) = entries.last_mut() {
            oldest.older = NONE;
        }
        (self.newest, self.oldest) = match entries.len().checked_sub(1) {
            Some(oldest) => (0, oldest),
            None => (NONE, NONE),
        };
        (self.entries, self.places, self.free) = (entries, places, NONE);
    }

    /// Makes an entry that is not linked the newest.
    fn link(&mut self, place: usize) {
        let older = std::mem::replace(&mut self.newest, place);
        (self.entries[place].newer, self.entries[place].older) = (NONE, older);
        match self.entries.get_mut(older) {
            Some(entry) => entry.newer = place,
            None => self.oldest = place,
        }
    }

    fn unlink(&mut self, place: usize) {
        let (newer, older) = (self.entries[place].newer, self.entries[place].older);
        match self.entries.get_mut(newer) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let bytes = |bytes| bytes - ENTRY_BYTES;
        let mut recent = LruCache::new(1000);
        recent.insert(1, 'a', bytes(400));
        recent.insert(2, 'b', bytes(400));
        assert_eq!(recent.get(1), Some('a'));
        recent.insert(3, 'c', bytes(400));
        assert!(recent.contains(1) && !recent.contains(2) && recent.contains(3));
        recent.insert(4, 'd', bytes(1001));
        assert!(
            !recent.contains(4) && recent.contains(1),
            "a value that can never fit must not evict others"
        );
        recent.insert(1, 'e', bytes(600));
        assert!(recent.get(1) == Some('e') && recent.contains(3));
        recent.remove(1);
        recent.remove(3);
        assert_eq!((recent.bytes, recent.places.len()), (0, 0));
    }

    #[test]
    fn short_values_count_with_what_their_entries_take() {
        let mut cache = LruCache::new(100 * ENTRY_BYTES);
        (0..1000).for_each(|key| cache.insert(key, (), 0));
        assert_eq!((cache.places.len(), cache.entries.len()), (100, 101));
        cache.insert(0, (), 99 * ENTRY_BYTES);
        assert_eq!(cache.places.len(), 1);
        assert!(
            cache.entries.capacity() < 8 && cache.places.capacity() < 8,
            "they take memory"
        );
    }

    /// Whatever is done, it has what a list has that is searched from its end.
    #[test]
    fn it_keeps_what_a_list_would() {
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let (mut cache, mut list) = (LruCache::new(2000), Vec::<(u64, u64, usize)>::new());
        for step in 0..20_000 {
            let key = next(12);
            let there = list.iter().position(|entry| entry.0 == key);
            let before = there.map(|place| list.remove(place));
            match next(4) {
                0 => cache.remove(key),
                1 => {
                    let bytes = next(900) as usize;
                    cache.insert(key, step, bytes);
                    list.push((key, step, bytes + ENTRY_BYTES));
                    while list.iter().map(|entry| entry.2).sum::<usize>() > 2000 {
                        list.remove(0);
                    }
                }
                _ => {
                    assert_eq!(cache.get(key), before.map(|entry| entry.1));
                    list.extend(before);
                }
            }
            let bytes: usize = list.iter().map(|entry| entry.2).sum();
            assert_eq!((cache.bytes, cache.places.len()), (bytes, list.len()));
            assert!(cache.entries.len() <= 4 * list.len() + 4);
        }
    }
}
