//! The records of a key's versions after the first.

use super::NUMBER_MAX;
use super::entry::{Table, closed, opened};
use crate::Error;
use crate::error::in_range;
use crate::wire;

/// Versions that share an entry of the table `versions`: those whose numbers, divided by it, are
/// the same.
pub const VERSIONS_PER_GROUP: u32 = 64;

/// A version after the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionEntry {
    /// Whether this version deletes the key.
    pub deleted: bool,
    /// Number of its record.
    pub number: u64,
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
/// group.push(VersionEntry { deleted: false, number: 7 });
/// let bytes = group.encode()?;
/// assert_eq!(VersionGroup::decode(3, 0, &bytes)?.get(2).unwrap().number, 7); // version 1 is record 3
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionGroup {
    lineage: u64,
    group: u32,
    entries: Vec<VersionEntry>,
}

impl VersionGroup {
    /// Returns a group without versions, of the key whose first record is `lineage`.
    pub fn new(lineage: u64, group: u32) -> Self {
        VersionGroup {
            lineage,
            group,
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

    fn validate(&self) -> Result<(), Error> {
        let last = u64::from(u32::MAX / VERSIONS_PER_GROUP);
        in_range("group of versions", self.group.into(), 0, last)?;
        let room = VERSIONS_PER_GROUP - self.first() % VERSIONS_PER_GROUP;
        in_range("versions of a group", self.entries.len() as u64, 1, room.into())?;
        let mut above = self.lineage;
        for entry in &self.entries {
            in_range("record of a version", entry.number, above.saturating_add(1), NUMBER_MAX)?;
            above = entry.number;
        }
        Ok(())
    }

    /// Returns the entry as stored under [`version_group_key`].
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for no versions or more than a group has, or numbers that do not
    /// ascend from that of the first version.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        self.validate()?;
        let mut out = Vec::new();
        let mut before = self.lineage;
        for entry in &self.entries {
            wire::put_varint(&mut out, (entry.number - before) << 1 | u64::from(entry.deleted));
            before = entry.number;
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
        let mut before = lineage;
        while reader.remaining() > 0 {
            let value = reader.varint("record of a version")?;
            let number = before.checked_add(value >> 1).ok_or(Error::OutOfRange {
                field: "record of a version",
                min: 0,
                max: u64::MAX - before,
                found: value >> 1,
            })?;
            let deleted = value & 1 == 1;
            versions.push(VersionEntry { deleted, number });
            before = number;
        }
        versions.validate()?;
        Ok(versions)
    }
}
