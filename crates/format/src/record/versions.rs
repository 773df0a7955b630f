//! The records of a key's versions after the first, and the times of all.

use super::entry::{Table, closed, opened};
use super::{NUMBER_MAX, TIME_MAX};
use crate::Error;
use crate::error::{equal, in_range};
use crate::wire;

/// The first byte of an entry with times. In one without, it would be a record with the number of the one before.
const WITH_TIMES: u8 = 0;

/// Versions that share an entry of the table `versions`: those whose numbers, divided by it, are
/// the same.
pub const VERSIONS_PER_GROUP: u32 = 64;

/// A version after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionEntry {
    /// Whether this version deletes the key.
    pub deleted: bool,
    /// Whether it was purged: its record is removed, and nothing leads to it.
    pub purged: bool,
    /// Number of its record.
    pub number: u64,
    /// When it was stored, milliseconds since 1970; 0 if that is unknown. At least the time of the version before.
    pub time: u64,
}

/// Returns the key of a group in the table `versions`.
pub fn version_group_key(lineage: u64, group: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&lineage.to_be_bytes());
    key[8..].copy_from_slice(&group.to_be_bytes());
    key
}

/// Consecutive versions of a key: an entry of the table `versions`.
///
/// ```
/// use ibid_format::record::{VersionEntry, VersionGroup};
///
/// let mut group = VersionGroup::new(3, 0);
/// group.first_time = 1_795_262_400_000; // of version 1
/// group.push(VersionEntry { deleted: false, purged: false, number: 7, time: 1_795_262_401_500 });
/// let bytes = group.encode()?;
/// assert_eq!(VersionGroup::decode(3, 0, &bytes)?.get(2).unwrap().number, 7); // version 1 is record 3
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionGroup {
    lineage: u64,
    group: u32,
    /// In group 0, the time of version 1, milliseconds since 1970; 0 if it is unknown, and in other groups.
    pub first_time: u64,
    entries: Vec<VersionEntry>,
}

impl VersionGroup {
    /// Returns a group without versions, of the key whose first record is `lineage`.
    pub fn new(lineage: u64, group: u32) -> Self {
        VersionGroup {
            lineage,
            group,
            first_time: 0,
            entries: Vec::new(),
        }
    }

    /// Returns the group of a version.
    pub fn of(version: u32) -> u32 {
        version / VERSIONS_PER_GROUP
    }

    /// Returns its first version. Version 1 has no entry.
    pub fn first(&self) -> u32 {
        (self.group * VERSIONS_PER_GROUP).max(2)
    }

    /// Returns the versions, from [`first`](Self::first) on.
    pub fn entries(&self) -> &[VersionEntry] {
        &self.entries
    }

    /// Returns the entry of a version, if the group has it.
    pub fn get(&self, version: u32) -> Option<VersionEntry> {
        let place = version.checked_sub(self.first())?;
        self.entries.get(place as usize).copied()
    }

    /// Adds the version after the last.
    pub fn push(&mut self, entry: VersionEntry) {
        self.entries.push(entry);
    }

    /// Marks a version as purged, if the group has it.
    pub fn purge(&mut self, version: u32) {
        let place = version.checked_sub(self.first()).map(|place| place as usize);
        if let Some(entry) = place.and_then(|place| self.entries.get_mut(place)) {
            entry.purged = true;
        }
    }

    /// Whether the entry has the form with times.
    fn has_times(&self) -> bool {
        self.first_time > 0 || self.entries.iter().any(|entry| entry.time > 0 || entry.purged)
    }

    fn validate(&self) -> Result<(), Error> {
        let last = u64::from(u32::MAX / VERSIONS_PER_GROUP);
        in_range("group of versions", self.group.into(), 0, last)?;
        let room = VERSIONS_PER_GROUP - self.first() % VERSIONS_PER_GROUP;
        in_range("versions of a group", self.entries.len() as u64, 1, room.into())?;
        let most = if self.group == 0 { TIME_MAX } else { 0 };
        in_range("time of a version", self.first_time, 0, most)?;
        let (mut above, mut since) = (self.lineage, self.first_time);
        for entry in &self.entries {
            in_range("record of a version", entry.number, above.saturating_add(1), NUMBER_MAX)?;
            in_range("time of a version", entry.time, since, TIME_MAX)?;
            (above, since) = (entry.number, entry.time);
        }
        Ok(())
    }

    /// Returns the entry as stored under [`version_group_key`].
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for no versions or more than a group has, numbers that do not ascend
    /// from that of the first version, or times that descend.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        self.validate()?;
        let mut out = Vec::new();
        let has_times = self.has_times();
        if has_times {
            out.push(WITH_TIMES);
            if self.group == 0 {
                wire::put_varint(&mut out, self.first_time);
            }
        }
        let (mut before, mut since) = (self.lineage, self.first_time);
        for entry in &self.entries {
            let value = (entry.number - before) << 1 | u64::from(entry.deleted);
            before = entry.number;
            if !has_times {
                wire::put_varint(&mut out, value);
                continue;
            }
            // The number is less than 2^63, but perhaps not a quarter of 2^64.
            in_range("record of a version", value, 0, u64::MAX >> 1)?;
            wire::put_varint(&mut out, value << 1 | u64::from(entry.purged));
            wire::put_varint(&mut out, entry.time - since);
            since = entry.time;
        }
        Ok(closed(
            Table::Versions,
            &version_group_key(self.lineage, self.group),
            out,
        ))
    }

    /// Reads the entry stored under [`version_group_key`].
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(lineage: u64, group: u32, bytes: &[u8]) -> Result<Self, Error> {
        let key = version_group_key(lineage, group);
        let mut reader = opened("versions", Table::Versions, &key, bytes)?;
        let mut versions = VersionGroup::new(lineage, group);
        let has_times = reader.remaining() > 0 && bytes.first() == Some(&WITH_TIMES);
        if has_times {
            reader.u8("versions")?;
            if group == 0 {
                versions.first_time = reader.varint("time of a version")?;
            }
        }
        let (mut before, mut since) = (lineage, versions.first_time);
        while reader.remaining() > 0 {
            let value = reader.varint("record of a version")?;
            let (value, purged) = if has_times {
                (value >> 1, value & 1 == 1)
            } else {
                (value, false)
            };
            let number = sum("record of a version", before, value >> 1)?;
            let time = if has_times {
                sum("time of a version", since, reader.varint("time of a version")?)?
            } else {
                0
            };
            versions.push(VersionEntry {
                deleted: value & 1 == 1,
                purged,
                number,
                time,
            });
            (before, since) = (number, time);
        }
        versions.validate()?;
        // Each group has one encoding.
        equal(
            "whether versions have times",
            versions.has_times().into(),
            has_times.into(),
        )?;
        Ok(versions)
    }
}

fn sum(field: &'static str, base: u64, distance: u64) -> Result<u64, Error> {
    base.checked_add(distance).ok_or(Error::OutOfRange {
        field,
        min: 0,
        max: u64::MAX - base,
        found: distance,
    })
}
