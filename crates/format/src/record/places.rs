//! Which frame contains a record.

use super::block::FRAMES_MAX;
use super::entry::{Table, closed, opened};
use crate::Error;
use crate::error::in_range;
use crate::wire;

/// Records whose places share an entry of the table `places`: those whose numbers, divided by it,
/// are the same.
pub const PLACES_PER_GROUP: u64 = 256;

/// Largest number of a block: together with a frame's index it fits into 63 bits.
pub(super) const BLOCK_MAX: u64 = (1 << 55) - 1;

/// A frame of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// Number of the block, from 1.
    pub block: u64,
    /// Index of the frame in the block, from 0.
    pub frame: u8,
}

/// Where the records of a group are: an entry of the table `places`. A group without any has none.
///
/// ```
/// use ibid_format::record::{Place, Places};
///
/// let mut places = Places::default();
/// places.set(300, Some(Place { block: 7, frame: 2 }));
/// let bytes = places.encode(1)?;
/// let places = Places::decode(1, &bytes)?;
/// assert_eq!((places.get(300), places.get(301)), (Some(Place { block: 7, frame: 2 }), None));
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    places: Vec<Option<Place>>,
}

impl Default for Places {
    fn default() -> Self {
        Places {
            places: vec![None; PLACES_PER_GROUP as usize],
        }
    }
}

impl Places {
    /// Returns the group of a record, and the key of the group's entry.
    pub fn group_of(number: u64) -> (u64, [u8; 8]) {
        let group = number / PLACES_PER_GROUP;
        (group, group.to_be_bytes())
    }

    /// Returns the place of a record of this group, if it is in a block.
    pub fn get(&self, number: u64) -> Option<Place> {
        self.places[(number % PLACES_PER_GROUP) as usize]
    }

    /// Sets the place of a record; `None` if it is in no block.
    pub fn set(&mut self, number: u64, place: Option<Place>) {
        self.places[(number % PLACES_PER_GROUP) as usize] = place;
    }

    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    /// Returns the records of `group` that are in blocks, ascending.
    pub fn iter(&self, group: u64) -> impl Iterator<Item = (u64, Place)> + '_ {
        let numbers = (group * PLACES_PER_GROUP..).zip(&self.places);
        numbers.filter_map(|(number, place)| Some((number, (*place)?)))
    }

    /// Returns the entry of the group.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a block whose number is 0 or too large.
    pub fn encode(&self, group: u64) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let mut before = 0_i64;
        let last = self.places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        for place in &self.places[..last] {
            let Some(place) = place else {
                out.push(0);
                continue;
            };
            in_range("number of a block", place.block, 1, BLOCK_MAX)?;
            let at = (place.block << 8 | u64::from(place.frame)) as i64;
            let step = at - before;
            wire::put_varint(&mut out, (((step << 1) ^ (step >> 63)) as u64) + 1);
            before = at;
        }
        Ok(closed(Table::Places, &group.to_be_bytes(), out))
    }

    /// Reads the entry of the group.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(group: u64, bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("places", Table::Places, &group.to_be_bytes(), bytes)?;
        let mut places = Places::default();
        let mut before = 0_i64;
        let mut count = 0;
        while reader.remaining() > 0 {
            in_range("places of a group", count + 1, 1, PLACES_PER_GROUP)?;
            let value = reader.varint("place of a record")?;
            if let Some(step) = value.checked_sub(1) {
                let step = (step >> 1) as i64 ^ -((step & 1) as i64);
                let at = before.wrapping_add(step);
                let block = in_range("number of a block", (at >> 8) as u64, 1, BLOCK_MAX)?;
                let frame = in_range("frame of a block", (at & 0xff) as u64, 0, FRAMES_MAX as u64 - 1)? as u8;
                places.set(count, Some(Place { block, frame }));
                before = at;
            }
            count += 1;
        }
        // The last place must be present, so that each group has one encoding.
        let last = places
            .places
            .iter()
            .rposition(Option::is_some)
            .map_or(0, |last| last as u64 + 1);
        in_range("places of a group", count, last.max(1), last.max(1))?;
        Ok(places)
    }
}
