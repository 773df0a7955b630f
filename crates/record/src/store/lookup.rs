//! From a key to its record: reads that check what they find.

use ibid_format::record::{Body, KeyEntry, NamespaceEntry, Record, VersionEntry, version_key};

use super::Versions;
use super::error::{Damage, Error};
use crate::engine::{Read, Table};

/// The number of a namespace, if it is there; an error if it was made with other `versions`.
pub(crate) fn namespace(read: &(impl Read + ?Sized), name: &str, versions: Versions) -> Result<Option<u32>, Error> {
    let mut entry = None;
    let mut found = |value: &[u8]| entry = Some(NamespaceEntry::decode(name.as_bytes(), value));
    read.get(Table::Namespaces, name.as_bytes(), &mut found)?;
    let Some(entry) = entry else { return Ok(None) };
    let entry = entry.map_err(|error| Error::damaged(Table::Namespaces, name.as_bytes(), error))?;
    let found = if entry.versions_kept {
        Versions::Kept
    } else {
        Versions::Latest
    };
    let expected = versions;
    if expected == found {
        return Ok(Some(entry.number));
    }
    let name = name.to_owned();
    Err(Error::NamespaceDiffers { name, expected, found })
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
    let key = version_key(entry.lineage, version);
    let mut decoded = None;
    let mut found = |value: &[u8]| decoded = Some(VersionEntry::decode(entry.lineage, version, value));
    read.get(Table::Versions, &key, &mut found)?;
    match decoded {
        Some(Ok(entry)) => Ok(entry),
        Some(Err(error)) => Err(Error::damaged(Table::Versions, &key, error)),
        None => Err(Error::damaged(Table::Versions, &key, Damage::Missing)),
    }
}

/// The body of a record, [`None`] if it says that its key was deleted.
pub(crate) fn body(
    read: &(impl Read + ?Sized),
    number: u64,
    (namespace, key, version): (u32, &[u8], u32),
) -> Result<Option<Vec<u8>>, Error> {
    let stored_key = number.to_be_bytes();
    let mut body = Err(Damage::Missing);
    let mut found = |value: &[u8]| {
        body = match Record::decode(number, value) {
            Err(error) => Err(Damage::Bytes(error)),
            Ok(record) if (record.namespace, record.key, record.version) != (namespace, key, version) => {
                Err(Damage::Misplaced)
            }
            Ok(record) => match record.body {
                Body::Deleted => Ok(None),
                Body::Whole(body) => Ok(Some(body.to_vec())),
            },
        }
    };
    read.get(Table::Records, &stored_key, &mut found)?;
    body.map_err(|damage| Error::damaged(Table::Records, &stored_key, damage))
}
