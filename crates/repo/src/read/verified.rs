//! Which chunks were compared with their ids.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::index::Place;

/// A set of places of chunks, which forgets some of them: there is room for a fixed number, and each
/// has one place to be.
pub(super) struct Verified(Box<[AtomicU64]>);

impl Verified {
    /// Returns an empty set that takes `bytes` bytes.
    pub(super) fn new(bytes: u64) -> Verified {
        let room = (bytes as usize / size_of::<AtomicU64>()).max(1);
        Verified((0..room).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn contains(&self, place: Place) -> bool {
        let (key, at) = self.find(place);
        self.0[at].load(Ordering::Relaxed) == key
    }

    pub(super) fn insert(&self, place: Place) {
        let (key, at) = self.find(place);
        self.0[at].store(key, Ordering::Relaxed);
    }

    /// Returns what stands for a place, never 0, and where it would be.
    fn find(&self, place: Place) -> (u64, usize) {
        let key = u64::from(place.frame) << 16 | u64::from(place.slot);
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (u128::from(mixed) * self.0.len() as u128) >> 64;
        (key + 1, at as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_latest_places_and_no_others() {
        let verified = Verified::new(64);
        let places = (0..100).map(|frame| Place { frame, slot: 7 });
        assert!(places.clone().all(|place| !verified.contains(place)));
        for place in places.clone() {
            verified.insert(place);
            assert!(verified.contains(place));
        }
        assert!(places.filter(|&place| verified.contains(place)).count() <= 8);
        assert!(!verified.contains(Place { frame: 0, slot: 0 }));
    }
}
