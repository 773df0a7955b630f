//! From a key to its record: reads that check what they find.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{
    KeyEntry, NEXT_KEY, NamespaceEntry, NextNumbers, VersionEntry, VersionGroup, version_group_key,
};

use super::bodies::{Bodies, Owner, Stored};
use crate::engine::{Direction, Read, Table};
use crate::error::{Damage, Error};
use crate::store::Versions;

/// Number and name of a namespace, and what it keeps, given its entry.
pub(crate) fn namespace_of(name: &[u8], value: &[u8]) -> Result<(u32, String, Versions), Error> {
    let entry = NamespaceEntry::decode(name, value);
    let entry = entry.map_err(|error| Error::damaged(Table::Namespaces, name, error))?;
    let versions = if entry.versions_kept {
        Versions::Kept
    } else {
        Versions::Latest
    };
    // Whoever stored it had text.
    Ok((entry.number, String::from_utf8_lossy(name).into_owned(), versions))
}

/// Number of the namespace of a name, and what it keeps, if it is there.
pub(crate) fn find_namespace(read: &(impl Read + ?Sized), name: &str) -> Result<Option<(u32, Versions)>, Error> {
    let mut entry = None;
    let mut found = |value: &[u8]| entry = Some(namespace_of(name.as_bytes(), value));
    read.get(Table::Namespaces, name.as_bytes(), &mut found)?;
    let entry = entry.transpose()?;
    Ok(entry.map(|(number, _, versions)| (number, versions)))
}

/// All namespaces, by their numbers.
pub(crate) fn namespaces(read: &(impl Read + ?Sized)) -> Result<BTreeMap<u32, (String, Versions)>, Error> {
    let mut all = BTreeMap::new();
    let mut failed = Ok(());
    let mut each = |name: &[u8], value: &[u8]| match namespace_of(name, value) {
        Ok((number, name, versions)) => {
            all.insert(number, (name, versions));
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Err(error);
            ControlFlow::Break(())
        }
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    read.range(Table::Namespaces, everything, Direction::Forward, &mut each)?;
    failed.map(|()| all)
}

/// The number of a namespace, if it is there; an error if it was made with other `versions`.
pub(crate) fn namespace(read: &(impl Read + ?Sized), name: &str, versions: Versions) -> Result<Option<u32>, Error> {
    let expected = versions;
    match find_namespace(read, name)? {
        Some((_, found)) if found != expected => {
            let name = name.to_owned();
            Err(Error::NamespaceDiffers { name, expected, found })
        }
        found => Ok(found.map(|(number, _)| number)),
    }
}

/// What numbers come next.
pub(crate) fn next(read: &(impl Read + ?Sized)) -> Result<NextNumbers, Error> {
    let mut next = Err(Damage::Missing);
    read.get(Table::Meta, NEXT_KEY, &mut |value| {
        next = NextNumbers::decode(value).map_err(Damage::Bytes)
    })?;
    next.map_err(|damage| Error::damaged(Table::Meta, NEXT_KEY, damage))
}

/// Whether the namespace of this number keeps versions.
pub(crate) fn keeps_versions(read: &(impl Read + ?Sized), number: u32) -> Result<bool, Error> {
    let mut found = None;
    let mut each = |name: &[u8], value: &[u8]| match NamespaceEntry::decode(name, value) {
        Ok(entry) if entry.number != number => ControlFlow::Continue(()),
        Ok(entry) => {
            found = Some(Ok(entry.versions_kept));
            ControlFlow::Break(())
        }
        Err(error) => {
            found = Some(Err(Error::damaged(Table::Namespaces, name, error)));
            ControlFlow::Break(())
        }
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    read.range(Table::Namespaces, everything, Direction::Forward, &mut each)?;
    found.unwrap_or(Ok(false))
}

/// The entry of a key, which is one of the table `keys`.
pub(crate) fn key_entry(read: &(impl Read + ?Sized), stored_key: &[u8]) -> Result<Option<KeyEntry>, Error> {
    let mut entry = None;
    let mut found = |value: &[u8]| entry = Some(KeyEntry::decode(stored_key, value));
    read.get(Table::Keys, stored_key, &mut found)?;
    entry
        .transpose()
        .map_err(|error| Error::damaged(Table::Keys, stored_key, error))
}

/// The entry of a version of a key, from 1 to the last.
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

/// A group of versions of a key.
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

/// Version and record of everything stored under a key, the first version first.
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

/// The body of a record, [`None`] if it says that its key was deleted.
pub(crate) fn body(
    read: &(impl Read + ?Sized),
    bodies: &Bodies,
    number: u64,
    owner: Owner<'_>,
) -> Result<Option<Vec<u8>>, Error> {
    let stored = bodies.stored(read, number, Some(owner))?;
    decoded(read, bodies, number, stored)
}

/// The body of a record that was read.
pub(crate) fn decoded(
    read: &(impl Read + ?Sized),
    bodies: &Bodies,
    number: u64,
    stored: Option<Stored>,
) -> Result<Option<Vec<u8>>, Error> {
    let stored = stored.ok_or_else(|| Error::damaged(Table::Records, &number.to_be_bytes(), Damage::Missing))?;
    let (body, _) = bodies.decode(number, stored, |base| bodies.stored(read, base, None))?;
    Ok(body)
}
