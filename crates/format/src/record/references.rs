//! Counts of the records that have a record as their base.

use super::entry::{Table, closed, opened};
use crate::Error;
use crate::error::in_range;
use crate::wire;

/// Records whose counts share an entry of the table `references`: those whose numbers, divided by
/// it, are the same.
pub const REFERENCES_PER_GROUP: u64 = 64;

/// Most records that can have one record as their base.
const COUNT_MAX: u32 = u32::MAX >> 1;

/// The counts of a group: an entry of the table `references`. A group without any has none.
///
/// ```
/// use ibid_format::record::References;
///
/// let mut references = References::default();
/// references.set(130, 2, true);
/// let bytes = references.encode(2)?;
/// let references = References::decode(2, &bytes)?;
/// assert_eq!((references.count(130), references.is_obsolete(130)), (2, true));
/// assert_eq!(references.count(131), 0);
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct References {
    counts: [u32; REFERENCES_PER_GROUP as usize],
    obsolete: u64,
    purged: u64,
}

impl Default for References {
    fn default() -> Self {
        References {
            counts: [0; REFERENCES_PER_GROUP as usize],
            obsolete: 0,
            purged: 0,
        }
    }
}

impl References {
    /// Returns the group of a record, and the key of the group's entry.
    pub fn group_of(number: u64) -> (u64, [u8; 8]) {
        let group = number / REFERENCES_PER_GROUP;
        (group, group.to_be_bytes())
    }

    fn place(number: u64) -> usize {
        (number % REFERENCES_PER_GROUP) as usize
    }

    /// Returns how many records have record `number` of this group as their base.
    pub fn count(&self, number: u64) -> u32 {
        self.counts[Self::place(number)]
    }

    /// Whether no key refers to the record any more. It is deleted with the last record that has it
    /// as its base.
    pub fn is_obsolete(&self, number: u64) -> bool {
        self.obsolete >> Self::place(number) & 1 == 1
    }

    /// Whether the record is obsolete because it was purged. What needs it is to be stored without it.
    pub fn is_purged(&self, number: u64) -> bool {
        self.purged >> Self::place(number) & 1 == 1
    }

    /// Sets the count and whether the record is obsolete. A record that is no base is not kept as
    /// obsolete.
    pub fn set(&mut self, number: u64, count: u32, obsolete: bool) {
        let place = Self::place(number);
        self.counts[place] = count;
        self.obsolete &= !(1 << place);
        self.obsolete |= u64::from(obsolete && count > 0) << place;
        self.purged &= self.obsolete;
    }

    /// Marks an obsolete record as purged.
    pub fn purge(&mut self, number: u64) {
        self.purged |= self.obsolete & 1 << Self::place(number);
    }

    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|&count| count == 0)
    }

    /// Returns the records of `group` that are bases: number, count, and whether it is obsolete.
    pub fn iter(&self, group: u64) -> impl Iterator<Item = (u64, u32, bool)> + '_ {
        let numbers = (0..REFERENCES_PER_GROUP).map(move |place| group * REFERENCES_PER_GROUP + place);
        numbers
            .map(|number| (number, self.count(number), self.is_obsolete(number)))
            .filter(|&(_, count, _)| count > 0)
    }

    /// Returns the entry of the group.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a count over 2^31 − 1.
    pub fn encode(&self, group: u64) -> Result<Vec<u8>, Error> {
        let mut there = 0_u64;
        for (place, &count) in self.counts.iter().enumerate() {
            there |= u64::from(count > 0) << place;
        }
        let mut out = there.to_le_bytes().to_vec();
        for (place, &count) in self.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            in_range("records decoded from one", count.into(), 1, COUNT_MAX.into())?;
            wire::put_varint(&mut out, u64::from(count) << 1 | (self.obsolete >> place & 1));
        }
        if self.purged != 0 {
            out.extend_from_slice(&self.purged.to_le_bytes());
        }
        Ok(closed(Table::References, &group.to_be_bytes(), out))
    }

    /// Reads the entry of the group.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(group: u64, bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("references", Table::References, &group.to_be_bytes(), bytes)?;
        let there = u64::from_le_bytes(reader.array("references")?);
        in_range("references", there, 1, u64::MAX)?;
        let mut references = References::default();
        for place in (0..REFERENCES_PER_GROUP).filter(|place| there >> place & 1 == 1) {
            let most = u64::from(COUNT_MAX) << 1 | 1;
            let value = reader.varint_in("records decoded from one", 2, most)?;
            references.set(place, (value >> 1) as u32, value & 1 == 1);
        }
        if reader.remaining() > 0 {
            let purged = u64::from_le_bytes(reader.array("purged records")?);
            in_range("purged records", purged, 1, u64::MAX)?;
            in_range(
                "purged records that are not obsolete",
                purged & !references.obsolete,
                0,
                0,
            )?;
            references.purged = purged;
        }
        reader.finish("references")?;
        Ok(references)
    }
}
