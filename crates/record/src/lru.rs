//! A cache that is bounded by the bytes of its values.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// About how many bytes an entry takes beside its value: two nodes of trees, and what an allocation adds.
const ENTRY_BYTES: usize = 128;

/// A cache of values with sizes. Where room is short, the least recently used values are dropped.
#[derive(Debug)]
pub(crate) struct LruCache<K, V> {
    room: usize,
    bytes: usize,
    values: HashMap<K, Cached<V>>,
    /// The keys, least recently used first.
    order: BTreeMap<u64, K>,
    clock: u64,
}

#[derive(Debug)]
struct Cached<V> {
    used: u64,
    bytes: usize,
    value: V,
}

impl<K: Copy + Eq + Hash, V: Clone> LruCache<K, V> {
    /// Returns an empty cache with room for `room` bytes.
    pub(crate) fn new(room: usize) -> Self {
        LruCache {
            room,
            bytes: 0,
            values: HashMap::new(),
            order: BTreeMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.values.contains_key(&key)
    }

    pub(crate) fn get(&mut self, key: K) -> Option<V> {
        let entry = self.values.get_mut(&key)?;
        self.order.remove(&entry.used);
        self.clock += 1;
        entry.used = self.clock;
        self.order.insert(self.clock, key);
        Some(entry.value.clone())
    }

    /// Adds a value that takes so many bytes.
    pub(crate) fn insert(&mut self, key: K, value: V, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        self.remove(key);
        if bytes > self.room {
            return;
        }
        self.bytes += bytes;
        self.clock += 1;
        let used = self.clock;
        self.order.insert(used, key);
        self.values.insert(key, Cached { used, bytes, value });
        while self.bytes > self.room {
            let Some((_, &oldest)) = self.order.first_key_value() else {
                break;
            };
            self.remove(oldest);
        }
    }

    pub(crate) fn remove(&mut self, key: K) {
        if let Some(entry) = self.values.remove(&key) {
            self.order.remove(&entry.used);
            self.bytes -= entry.bytes;
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
        assert_eq!((recent.bytes, recent.order.len()), (0, 0));
    }

    #[test]
    fn short_values_count_with_what_their_entries_take() {
        let mut cache = LruCache::new(100 * ENTRY_BYTES);
        (0..1000).for_each(|key| cache.insert(key, (), 0));
        assert_eq!(cache.values.len(), 100);
    }
}
