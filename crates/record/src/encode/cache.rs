//! Bodies of the newest records of chains, which the next ones will be compared with (paper 004, section 3.3.1).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The least recently used go where there is no room. Those that have found a successor are taken out by who gives it.
#[derive(Debug)]
pub(crate) struct SourceCache {
    room: usize,
    bytes: usize,
    bodies: HashMap<u64, (u64, Arc<Vec<u8>>)>,
    /// By when they were used last.
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl SourceCache {
    /// With room for so many bytes of bodies.
    pub(crate) fn new(room: usize) -> Self {
        SourceCache {
            room,
            bytes: 0,
            bodies: HashMap::new(),
            order: BTreeMap::new(),
            clock: 0,
        }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.bodies.contains_key(&number)
    }

    pub(crate) fn get(&mut self, number: u64) -> Option<Arc<Vec<u8>>> {
        let (used, body) = self.bodies.get_mut(&number)?;
        self.order.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.order.insert(self.clock, number);
        Some(body.clone())
    }

    pub(crate) fn insert(&mut self, number: u64, body: Arc<Vec<u8>>) {
        self.remove(number);
        if body.len() > self.room {
            return;
        }
        self.bytes += body.len();
        self.clock += 1;
        self.order.insert(self.clock, number);
        self.bodies.insert(number, (self.clock, body));
        while self.bytes > self.room {
            let Some((_, oldest)) = self.order.first_key_value() else {
                break;
            };
            self.remove(*oldest);
        }
    }

    pub(crate) fn remove(&mut self, number: u64) {
        if let Some((used, body)) = self.bodies.remove(&number) {
            self.order.remove(&used);
            self.bytes -= body.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = SourceCache::new(100);
        let body = |length| Arc::new(vec![0; length]);
        cache.insert(1, body(40));
        cache.insert(2, body(40));
        assert!(cache.get(1).is_some());
        cache.insert(3, body(40));
        assert!(cache.contains(1) && !cache.contains(2) && cache.contains(3));
        cache.insert(4, body(101));
        assert!(
            !cache.contains(4) && cache.contains(1),
            "what has no room at all pushes nothing out"
        );
        cache.insert(1, body(60));
        assert!(cache.contains(1) && cache.contains(3));
        cache.remove(1);
        cache.remove(3);
        assert_eq!((cache.bytes, cache.order.len()), (0, 0));
    }
}
