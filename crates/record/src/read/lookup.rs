//! From a key to the numbers of its records.

use ibid_format::record::{
    IndexValues, KeyEntry, NEXT_KEY, NextNumbers, VERSIONS_PER_GROUP, VersionEntry, VersionGroup, version_group_key,
};

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

/// Returns the entry of a key, given as it is in the table `keys`, and its index values.
pub(crate) fn key_entry_with_values(
    read: &(impl Read + ?Sized),
    stored_key: &[u8],
) -> Result<Option<(KeyEntry, IndexValues)>, Error> {
    let mut entry = None;
    let mut found = |value: &[u8]| entry = Some(KeyEntry::decode_with_values(stored_key, value));
    read.get(Table::Keys, stored_key, &mut found)?;
    entry
        .transpose()
        .map_err(|error| Error::damaged(Table::Keys, stored_key, error))
}

/// Returns whether a record is the latest of a key, given as it is in the table `keys`, and no deletion.
pub(crate) fn is_latest(read: &(impl Read + ?Sized), stored_key: &[u8], number: u64) -> Result<bool, Error> {
    let entry = key_entry(read, stored_key)?;
    Ok(entry.is_some_and(|entry| entry.latest == number && !entry.deleted))
}

/// Returns the entry of a version, from 1 to `entry.versions`; [`None`] if it was purged. That of version 1 has no
/// time, if there are others.
pub(crate) fn version_entry(
    read: &(impl Read + ?Sized),
    entry: &KeyEntry,
    version: u32,
) -> Result<Option<VersionEntry>, Error> {
    if version < entry.oldest {
        return Ok(None);
    }
    if version == entry.versions {
        return Ok(Some(latest_entry(entry)));
    }
    if version == 1 {
        return Ok(Some(first_entry(entry, 0)));
    }
    let group = VersionGroup::of(version);
    let found = needed_group(read, entry, group)?.get(version);
    let key = version_group_key(entry.lineage, group);
    let found = found.ok_or_else(|| Error::damaged(Table::Versions, &key, Damage::Missing))?;
    Ok(Some(found).filter(|found| !found.purged))
}

/// Returns the entry of version 1 of a key, given its time.
fn first_entry(entry: &KeyEntry, time: u64) -> VersionEntry {
    VersionEntry {
        deleted: false,
        purged: entry.oldest > 1,
        number: entry.lineage,
        time,
    }
}

/// Returns the entry of the latest version of a key.
fn latest_entry(entry: &KeyEntry) -> VersionEntry {
    VersionEntry {
        deleted: entry.deleted,
        purged: false,
        number: entry.latest,
        time: entry.time,
    }
}

/// The version of a key that was the latest at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// This one.
    Version(u32, VersionEntry),
    /// This one or one before it; all of them were purged, and nothing is known of their times.
    Purged(u32),
    /// This one, or one before it, or none: it has no time.
    Unknown(u32),
    /// None: the key had no version yet.
    None,
}

/// Returns the version of a key that was the latest at a time, given in milliseconds since 1970: the last of those that
/// were stored at this time or before.
pub(crate) fn version_at(read: &(impl Read + ?Sized), entry: &KeyEntry, time: u64) -> Result<At, Error> {
    if (1..=time).contains(&entry.time) {
        return Ok(At::Version(entry.versions, latest_entry(entry)));
    }
    if entry.versions == 1 {
        return Ok(if entry.time == 0 { At::Unknown(1) } else { At::None });
    }
    // The last group whose first version is not too late.
    let (oldest, last) = (VersionGroup::of(entry.oldest), VersionGroup::of(entry.versions));
    let (mut from, mut to) = (oldest, last + 1);
    while from < to {
        let middle = from + (to - from) / 2;
        let group = needed_group(read, entry, middle)?;
        let first = if middle == 0 {
            group.first_time
        } else {
            group.entries()[0].time
        };
        if first <= time {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    if from == oldest {
        return Ok(if oldest == 0 {
            At::None
        } else {
            At::Purged(oldest * VERSIONS_PER_GROUP - 1)
        });
    }
    let group = needed_group(read, entry, from - 1)?;
    let later = group.entries().partition_point(|version| version.time <= time);
    let (version, found) = match later.checked_sub(1) {
        Some(place) => (group.first() + place as u32, group.entries()[place]),
        None => (1, first_entry(entry, group.first_time)),
    };
    let purged = found.purged || version < entry.oldest;
    Ok(match found.time {
        0 if purged => At::Purged(version),
        0 => At::Unknown(version),
        _ => At::Version(version, VersionEntry { purged, ..found }),
    })
}

/// Returns a group of versions that a key must have.
fn needed_group(read: &(impl Read + ?Sized), entry: &KeyEntry, group: u32) -> Result<VersionGroup, Error> {
    let key = version_group_key(entry.lineage, group);
    let found = version_group(read, entry.lineage, group)?;
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

/// Returns the versions of a key that were not purged, with their entries, oldest first.
pub(crate) fn versions(read: &(impl Read + ?Sized), entry: &KeyEntry) -> Result<Vec<(u32, VersionEntry)>, Error> {
    if entry.versions == 1 {
        return Ok(vec![(1, latest_entry(entry))]);
    }
    let mut versions = Vec::new();
    for group in VersionGroup::of(entry.oldest)..=VersionGroup::of(entry.versions) {
        let Some(group) = version_group(read, entry.lineage, group)? else {
            break;
        };
        if entry.oldest == 1 && versions.is_empty() {
            versions.push((1, first_entry(entry, group.first_time)));
        }
        versions.extend((group.first()..).zip(group.entries().iter().copied()));
    }
    if versions.last() == Some(&(entry.versions, latest_entry(entry))) {
        versions.retain(|(version, found)| *version >= entry.oldest && !found.purged);
        return Ok(versions);
    }
    let key = version_group_key(entry.lineage, VersionGroup::of(entry.versions));
    Err(Error::damaged(Table::Versions, &key, Damage::Missing))
}
