//! Records by their bodies, so that the same bytes are stored once.

use std::collections::HashMap;

use ibid_format::record::BODY_CHECK_BYTES;

/// About the most memory for an entry, bytes: of a table that has just grown.
const BYTES_PER_ENTRY: usize = 24;
/// Most entries, however little memory there is.
const ENTRIES_MIN: usize = 1 << 10;

/// First bytes of the hash of a body.
pub(crate) type BodyCheck = [u8; BODY_CHECK_BYTES];

/// Finds the newest record that has a body. After a store was opened it knows those that are stored whole, which are
/// the newest of their chains; then also all new ones. When there is no more room, those that were added first are
/// dropped.
pub(crate) struct BodyIndex {
    /// The last 32 bits of the record's number.
    places: HashMap<BodyCheck, u32>,
    entries_max: usize,
}

impl BodyIndex {
    /// Returns an empty index that takes at most about `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        BodyIndex {
            places: HashMap::new(),
            entries_max: ENTRIES_MIN.max(bytes_max / BYTES_PER_ENTRY),
        }
    }

    /// Makes a record the newest with this body. Returns the last 32 bits of the number of the one before.
    pub(crate) fn replace(&mut self, number: u64, check: BodyCheck) -> Option<u32> {
        if self.places.len() >= self.entries_max {
            self.drop_half(number);
        }
        self.places.insert(check, number as u32)
    }

    /// Returns how many entries it has.
    pub(crate) fn entries(&self) -> u64 {
        self.places.len() as u64
    }

    /// Returns about how many bytes it takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.places.capacity() * BYTES_PER_ENTRY / 2) as u64
    }

    /// Drops the half that is farthest from the newest record.
    fn drop_half(&mut self, newest: u64) {
        let age = |place: u32| (newest as u32).wrapping_sub(place);
        let mut ages: Vec<u32> = self.places.values().map(|&place| age(place)).collect();
        let half = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(half);
        let median = *median;
        self.places.retain(|_, place| age(*place) < median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_record_with_a_body_is_found_until_there_is_no_more_room() {
        let mut index = BodyIndex::new(0);
        assert_eq!(index.replace(7, [1; 4]), None);
        assert_eq!(index.replace((1 << 32) + 9, [1; 4]), Some(7));
        for number in 0..4 * ENTRIES_MIN as u32 {
            let number = u64::from(number) + (1 << 32) + 10;
            index.replace(number, (number as u32).to_le_bytes());
            assert!(index.entries() <= ENTRIES_MIN as u64);
            assert_eq!(
                index.replace(number, (number as u32).to_le_bytes()),
                Some(number as u32)
            );
        }
        assert!(index.entries() >= ENTRIES_MIN as u64 / 2);
        assert_eq!(index.replace(1 << 33, [1; 4]), None);
    }
}
