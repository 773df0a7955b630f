//! What was read last, as it is used: frames, records that are stored whole, places.

use std::sync::{Arc, Mutex, PoisonError};

use ibid_format::record::{Place, Places};

use super::frames::Frame;
use super::records::Generation;
use crate::lru::LruCache;

/// About how many bytes places take in memory beside their entry.
const PLACES_BYTES: usize = 6 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Frame(Place),
    Whole(Generation, u64),
    Places(u64),
}

#[derive(Debug, Clone)]
enum Kept {
    Frame(Arc<Frame>),
    Whole(Arc<[u8]>),
    /// With the entry that they were read from.
    Places(Arc<(Box<[u8]>, Places)>),
}

/// Keeps so many bytes of all of these together. None of it can be wrong for a snapshot: no block number is given
/// twice, a record that is whole never has another body, and places are used only if their entry is the same.
#[derive(Debug)]
pub(super) struct Cache(Mutex<LruCache<Key, Kept>>);

impl Cache {
    pub(super) fn new(bytes: usize) -> Self {
        Cache(Mutex::new(LruCache::new(bytes)))
    }

    fn get(&self, key: Key) -> Option<Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key)
    }

    fn keep(&self, key: Key, kept: Kept, bytes: usize) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.insert(key, kept, bytes);
    }

    pub(super) fn frame(&self, place: Place) -> Option<Arc<Frame>> {
        match self.get(Key::Frame(place)) {
            Some(Kept::Frame(frame)) => Some(frame),
            _ => None,
        }
    }

    pub(super) fn keep_frame(&self, place: Place, frame: &Arc<Frame>) {
        self.keep(Key::Frame(place), Kept::Frame(frame.clone()), frame.memory());
    }

    /// Returns a record that is stored whole, as it is in its frame.
    pub(super) fn whole(&self, generation: Generation, number: u64) -> Option<Arc<[u8]>> {
        match self.get(Key::Whole(generation, number)) {
            Some(Kept::Whole(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn keep_whole(&self, generation: Generation, number: u64, bytes: &[u8]) {
        let kept = Kept::Whole(bytes.into());
        self.keep(Key::Whole(generation, number), kept, bytes.len());
    }

    /// Returns what `of` finds in the places of a group that are stored so. They are read if others were read last.
    pub(super) fn places<T>(
        &self,
        group: u64,
        entry: &[u8],
        of: impl FnOnce(&Places) -> T,
    ) -> Result<T, ibid_format::Error> {
        if let Some(Kept::Places(kept)) = self.get(Key::Places(group))
            && *kept.0 == *entry
        {
            return Ok(of(&kept.1));
        }
        let places = Places::decode(group, entry)?;
        let found = of(&places);
        let kept = Kept::Places(Arc::new((entry.into(), places)));
        self.keep(Key::Places(group), kept, PLACES_BYTES + entry.len());
        Ok(found)
    }
}
