//! Namespaces by name and by number.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{LatestEntry, NamespaceEntry, RetentionEntry};

use crate::engine::{Direction, Read, Table};
use crate::error::Error;
use crate::versions::Versions;

/// A namespace as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredNamespace {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) versions: Versions,
    pub(crate) retention: RetentionEntry,
    pub(crate) has_expiring: bool,
    pub(crate) latest: LatestEntry,
}

impl StoredNamespace {
    /// Decodes a pair of the table `namespaces`.
    pub(crate) fn decode(name: &[u8], value: &[u8]) -> Result<Self, Error> {
        let entry = NamespaceEntry::decode(name, value);
        let entry = entry.map_err(|error| Error::damaged(Table::Namespaces, name, error))?;
        Ok(StoredNamespace {
            number: entry.number,
            // Names are stored from text.
            name: String::from_utf8_lossy(name).into_owned(),
            versions: Versions::from_kept(entry.versions_kept),
            retention: entry.retention,
            has_expiring: entry.has_expiring,
            latest: entry.latest,
        })
    }
}

/// Returns the namespace of this name, which has at least one byte.
pub(crate) fn find(read: &(impl Read + ?Sized), name: &str) -> Result<Option<StoredNamespace>, Error> {
    let mut namespace = None;
    let mut found = |value: &[u8]| namespace = Some(StoredNamespace::decode(name.as_bytes(), value));
    read.get(Table::Namespaces, name.as_bytes(), &mut found)?;
    namespace.transpose()
}

/// Returns the number of the namespace of this name.
///
/// # Errors
/// [`Error::NamespaceDiffers`] if it was made with other `versions`.
pub(crate) fn number(read: &(impl Read + ?Sized), name: &str, versions: Versions) -> Result<Option<u32>, Error> {
    match find(read, name)? {
        Some(found) if found.versions != versions => Err(Error::NamespaceDiffers {
            name: name.to_owned(),
            expected: versions,
            found: found.versions,
        }),
        found => Ok(found.map(|found| found.number)),
    }
}

/// Returns all namespaces by their numbers.
pub(crate) fn all(read: &(impl Read + ?Sized)) -> Result<BTreeMap<u32, StoredNamespace>, Error> {
    let mut all = BTreeMap::new();
    let mut failed = Ok(());
    let mut each = |name: &[u8], value: &[u8]| match StoredNamespace::decode(name, value) {
        Ok(namespace) => {
            all.insert(namespace.number, namespace);
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

/// Returns the name and the entry of the namespace of this number.
pub(crate) fn by_number(read: &(impl Read + ?Sized), number: u32) -> Result<Option<(String, NamespaceEntry)>, Error> {
    let mut found = None;
    let mut each = |name: &[u8], value: &[u8]| match NamespaceEntry::decode(name, value) {
        Ok(entry) if entry.number != number => ControlFlow::Continue(()),
        Ok(entry) => {
            found = Some(Ok((String::from_utf8_lossy(name).into_owned(), entry)));
            ControlFlow::Break(())
        }
        Err(error) => {
            found = Some(Err(Error::damaged(Table::Namespaces, name, error)));
            ControlFlow::Break(())
        }
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    read.range(Table::Namespaces, everything, Direction::Forward, &mut each)?;
    found.transpose()
}

/// Returns whether the namespace of this number keeps versions; false if there is none.
pub(crate) fn keeps_versions(read: &(impl Read + ?Sized), number: u32) -> Result<bool, Error> {
    Ok(by_number(read, number)?.is_some_and(|(_, entry)| entry.versions_kept))
}
