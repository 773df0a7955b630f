//! The order in which records are compressed: similar records are next to each other.

use std::collections::{HashMap, HashSet};

use ibid_format::record::{Body, Record};

use crate::engine::Table;
use crate::error::Error;
use crate::write::request::Origin;

/// Bytes of records in the smallest window: with less, similar records would not be in the same.
const WINDOW_BYTES_MIN: usize = 1 << 20;
/// Of records that are ordered together there is at most one for so many bytes that there may be of them: the shorter
/// they are, the more memory the rest takes.
const BYTES_PER_RECORD: usize = 512;
/// Bytes of latest versions that resemble each other and are compressed together.
const SIMILAR_FRAME_BYTES: usize = 64 << 10;
/// Features that two latest versions share to count as similar.
const SIMILAR_FEATURES: usize = 2;

/// Records that are compressed together.
pub(super) struct Window {
    items: Vec<Item>,
    bytes: Vec<u8>,
    /// Bytes of records that are ordered together.
    bytes_max: usize,
}

/// A record of a window.
pub(super) struct Item {
    pub(super) number: u64,
    /// The record that it is a delta of; 0 if it is whole.
    base: u64,
    /// Whether it is the latest version of its key, and stored whole or as a copy of another.
    pub(super) is_latest: bool,
    pub(super) origin: Origin,
    /// The range of its bytes in the window.
    from: usize,
    to: usize,
}

impl Window {
    /// Returns an empty window for about so many bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Window {
            items: Vec::new(),
            bytes: Vec::new(),
            bytes_max: bytes_max.max(WINDOW_BYTES_MIN),
        }
    }

    /// Returns what is in it, and leaves it empty.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Window::new(self.bytes_max))
    }

    /// Adds a record. `is_latest` is for the latest version of a key that is stored whole or as a copy of another.
    pub(super) fn push(
        &mut self,
        number: u64,
        record: &Record<'_>,
        is_latest: bool,
        origin: Origin,
    ) -> Result<(), Error> {
        let base = match record.body {
            Body::Delta { base, .. } => base,
            Body::Deleted | Body::Whole(_) => 0,
        };
        let from = self.bytes.len();
        let encoded = record.encode_packed(number, &mut self.bytes);
        encoded.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))?;
        let to = self.bytes.len();
        self.items.push(Item {
            number,
            base,
            is_latest,
            origin,
            from,
            to,
        });
        Ok(())
    }

    /// Returns the only record of the window and its bytes, if it has only one.
    pub(super) fn into_only(mut self) -> Result<(Item, Vec<u8>), Self> {
        match self.items.pop() {
            Some(item) if self.items.is_empty() => Ok((item, self.bytes)),
            last => {
                self.items.extend(last);
                Err(self)
            }
        }
    }

    /// Returns a record of the window, and its bytes.
    pub(super) fn item(&self, place: usize) -> (&Item, &[u8]) {
        let item = &self.items[place];
        (item, &self.bytes[item.from..item.to])
    }

    /// Returns the bytes of all its records.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether it has as many records, or bytes of them, as are ordered together.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= self.bytes_max || self.items.len() > self.bytes_max / BYTES_PER_RECORD
    }

    /// Returns the places of the latest versions, in groups that resemble each other.
    pub(super) fn similar_latest(&self, mut features: impl FnMut(u64) -> Vec<u32>) -> Vec<Vec<usize>> {
        let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut by_feature: HashMap<u32, usize> = HashMap::new();
        for (place, item) in self.items.iter().enumerate().filter(|(_, item)| item.is_latest) {
            let features = features(item.number);
            let mut shared: HashMap<usize, usize> = HashMap::new();
            for group in features.iter().filter_map(|feature| by_feature.get(feature)) {
                *shared.entry(*group).or_default() += 1;
            }
            let room = SIMILAR_FRAME_BYTES.saturating_sub(item.to - item.from);
            let fits = |&(&group, &shared): &(&usize, &usize)| shared >= SIMILAR_FEATURES && groups[group].0 <= room;
            let best = shared
                .iter()
                .filter(fits)
                .max_by_key(|&(group, shared)| (shared, group));
            let group = match best {
                Some((&group, _)) => group,
                None => {
                    groups.push((0, Vec::new()));
                    groups.len() - 1
                }
            };
            groups[group].0 += item.to - item.from;
            groups[group].1.push(place);
            by_feature.extend(features.into_iter().map(|feature| (feature, group)));
        }
        groups.into_iter().map(|(_, places)| places).collect()
    }

    /// Returns the places of the other records, each after its base and the base's other deltas.
    pub(super) fn by_chain(&self) -> Vec<usize> {
        let others = |&place: &usize| !self.items[place].is_latest;
        let mut by_base: Vec<usize> = (0..self.items.len()).filter(others).collect();
        by_base.sort_unstable_by_key(|&item| (self.items[item].base, self.items[item].number));
        let of_base = |base: u64| {
            let from = by_base.partition_point(|&item| self.items[item].base < base);
            let to = by_base.partition_point(|&item| self.items[item].base <= base);
            &by_base[from..to]
        };
        let numbers: HashSet<u64> = by_base.iter().map(|&place| self.items[place].number).collect();
        let mut order = Vec::with_capacity(self.items.len());
        let mut stack = Vec::new();
        for (place, item) in self.items.iter().enumerate().filter(|(place, _)| others(place)) {
            if item.base != 0 && numbers.contains(&item.base) {
                continue;
            }
            stack.push(place);
            while let Some(place) = stack.pop() {
                order.push(place);
                stack.extend(of_base(self.items[place].number));
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes records with bodies of this length until the window is full. Returns how many they were.
    fn pushed(bytes_max: usize, length: usize) -> usize {
        let mut window = Window::new(bytes_max);
        let body = vec![7; length];
        let record = Record {
            in_pieces: false,
            namespace: 1,
            key: b"key",
            version: 1,
            body: Body::Whole(&body),
        };
        let mut count = 0;
        while !window.is_full() {
            window
                .push(count as u64 + 1, &record, true, Origin::Single([0; _]))
                .unwrap();
            count += 1;
        }
        assert!(window.take().is_full() && !window.is_full());
        count
    }

    #[test]
    fn it_is_full_when_it_takes_its_memory() {
        assert!((7..=8).contains(&pushed(4 << 20, 512 << 10)));
        assert_eq!(pushed(4 << 20, 10), (4 << 20) / 512 + 1);
        assert_eq!(pushed(0, 10), pushed(WINDOW_BYTES_MIN, 10));
    }
}
