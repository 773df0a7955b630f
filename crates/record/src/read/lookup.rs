//! From a key to the numbers of its records.

use ibid_format::record::{KeyEntry, NEXT_KEY, NextNumbers, VersionEntry, VersionGroup, version_group_key};

use crate::engine::{Read, Table};
use crate::error::{Damage, Error};

/// Returns the numbers that the next record and the next namespace get.
pub(crate) fn next(read: &(impl Read + ?Sized)) -> Result<NextNumbers, Error> {
    let mut next = Err(Damage::Missing);
    read.get(Table::Meta, NEXT_KEY, &mut |value| {
        next = NextNumbers::decode(value).map_err(Damage::Bytes)
    })?;
    next.map_err(|damage| Error::damaged(Table::Meta, NEXT_KEY, damage))
}

/// Returns the entry of a key, given as it is in the table `keys`.
pub(crate) fn key_entry(read: &(impl Read + ?Sized), stored_key: &[u8]) -> Result<Option<KeyEntry>, Error> {
    let mut entry = None;
    let mut found = |value: &[u8]| entry = Some(KeyEntry::decode(stored_key, value));
    read.get(Table::Keys, stored_key, &mut found)?;
    entry
        .transpose()
        .map_err(|error| Error::damaged(Table::Keys, stored_key, error))
}

/// Returns the entry of a version, from 1 to `entry.versions`.
pub(crate) fn version_entry(
    read: &(impl Read + ?Sized),
    entry: &KeyEntry,
    version: u32,
) -> Result<VersionEntry, Error> {
    if version == entry.versions {
        let (deleted, number) = (entry.deleted, entry.latest);
        return Ok(VersionEntry { deleted, number });
    }
    if version == 1 {
        let (deleted, number) = (false, entry.lineage);
        return Ok(VersionEntry { deleted, number });
    }
    let group = VersionGroup::of(version);
    let found = version_group(read, entry.lineage, group)?.and_then(|group| group.get(version));
    let key = version_group_key(entry.lineage, group);
    found.ok_or_else(|| Error::damaged(Table::Versions, &key, Damage::Missing))
}

/// Returns a group of versions of the key whose first record is `lineage`.
pub(crate) fn version_group(
    read: &(impl Read + ?Sized),
    lineage: u64,
    group: u32,
) -> Result<Option<VersionGroup>, Error> {
    let key = version_group_key(lineage, group);
    let mut decoded = None;
    let mut found = |value: &[u8]| decoded = Some(VersionGroup::decode(lineage, group, value));
    read.get(Table::Versions, &key, &mut found)?;
    decoded
        .transpose()
        .map_err(|error| Error::damaged(Table::Versions, &key, error))
}

/// Returns all versions of a key with their entries, oldest first.
pub(crate) fn versions(read: &(impl Read + ?Sized), entry: &KeyEntry) -> Result<Vec<(u32, VersionEntry)>, Error> {
    let first = VersionEntry {
        deleted: false,
        number: entry.lineage,
    };
    let mut versions = vec![(1, first)];
    if entry.versions > 1 {
        for group in 0..=VersionGroup::of(entry.versions) {
            let Some(group) = version_group(read, entry.lineage, group)? else {
                break;
            };
            versions.extend((group.first()..).zip(group.entries().iter().copied()));
        }
    }
    let latest = VersionEntry {
        deleted: entry.deleted,
        number: entry.latest,
    };
    if versions.last() == Some(&(entry.versions, latest)) {
        return Ok(versions);
    }
    let key = version_group_key(entry.lineage, VersionGroup::of(entry.versions));
    Err(Error::damaged(Table::Versions, &key, Damage::Missing))
}
