//! Records by their bodies, so that the same bytes are stored once.

use std::collections::HashMap;

use ibid_format::record::{BODY_CHECK_BYTES, BodyCheck, CheckHash};

/// About the most memory for an entry, bytes: of a table that has just grown.
const BYTES_PER_ENTRY: usize = 24;
/// Most entries, however little memory there is.
const ENTRIES_MIN: usize = 1 << 10;

/// By the checksum of the body, the last 32 bits of the record's number.
type Places = HashMap<[u8; BODY_CHECK_BYTES], u32>;

/// Finds the newest record that has a body. After a store was opened it knows those that are stored whole, which are
/// the newest of their chains; then also all new ones. When there is no more room, those that were added first are
/// dropped.
pub(crate) struct BodyIndex {
    places: Places,
    /// Those whose checksums are made as earlier programs made them.
    earlier: Places,
    entries_max: usize,
}

impl BodyIndex {
    /// Returns an empty index that takes at most about `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        BodyIndex {
            places: Places::new(),
            earlier: Places::new(),
            entries_max: ENTRIES_MIN.max(bytes_max / BYTES_PER_ENTRY),
        }
    }

    /// Makes a record the newest with this body. Returns the last 32 bits of the number of the one before.
    pub(crate) fn replace(&mut self, number: u64, check: BodyCheck) -> Option<u32> {
        if self.entries() >= self.entries_max as u64 {
            self.drop_half(number);
        }
        let places = match check.hash {
            CheckHash::Blake3 => &mut self.earlier,
            CheckHash::Xxh3 => &mut self.places,
        };
        places.insert(check.bytes, number as u32)
    }

    /// Removes the newest record with this body whose checksum is made as earlier programs made it. Returns the last
    /// 32 bits of its number.
    pub(crate) fn take_earlier(&mut self, body: &[u8]) -> Option<u32> {
        if self.earlier.is_empty() {
            return None;
        }
        self.earlier.remove(&BodyCheck::by(CheckHash::Blake3, body).bytes)
    }

    /// Returns how many entries it has.
    pub(crate) fn entries(&self) -> u64 {
        (self.places.len() + self.earlier.len()) as u64
    }

    /// Returns about how many bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        ((self.places.capacity() + self.earlier.capacity()) * BYTES_PER_ENTRY / 2) as u64
    }

    /// Drops the half that is farthest from the newest record.
    fn drop_half(&mut self, newest: u64) {
        let age = |place: u32| (newest as u32).wrapping_sub(place);
        let all = self.places.values().chain(self.earlier.values());
        let mut ages: Vec<u32> = all.map(|&place| age(place)).collect();
        let half = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(half);
        let median = *median;
        for places in [&mut self.places, &mut self.earlier] {
            places.retain(|_, place| age(*place) < median);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: u32) -> BodyCheck {
        BodyCheck {
            hash: CheckHash::Xxh3,
            bytes: bytes.to_le_bytes(),
        }
    }

    #[test]
    fn the_newest_record_with_a_body_is_found_until_there_is_no_more_room() {
        let mut index = BodyIndex::new(0);
        let first = u32::MAX;
        assert_eq!(index.replace(7, check(first)), None);
        assert_eq!(index.replace((1 << 32) + 9, check(first)), Some(7));
        for number in 0..4 * ENTRIES_MIN as u32 {
            let body = check(number);
            let number = u64::from(number) + (1 << 32) + 10;
            index.replace(number, body);
            assert!(index.entries() <= ENTRIES_MIN as u64);
            assert_eq!(index.replace(number, body), Some(number as u32));
        }
        assert!(index.entries() >= ENTRIES_MIN as u64 / 2);
        assert_eq!(index.replace(1 << 33, check(first)), None);
    }

    #[test]
    fn bodies_of_an_earlier_program_are_found_once_and_count() {
        let mut index = BodyIndex::new(0);
        for number in 1..=4 * ENTRIES_MIN as u64 {
            let body = number.to_le_bytes();
            assert_eq!(index.take_earlier(&body), None);
            index.replace(number, BodyCheck::by(CheckHash::Blake3, &body));
            index.replace(number, BodyCheck::of(&body));
            assert!(index.entries() <= ENTRIES_MIN as u64);
        }
        let newest = (4 * ENTRIES_MIN as u64).to_le_bytes();
        assert_eq!(index.take_earlier(&newest), Some(4 * ENTRIES_MIN as u32));
        assert_eq!(index.take_earlier(&newest), None);
    }
}
