//! Making and changing namespaces.

use ibid_format::record::{LatestEntry, NAME_BYTES_MAX, NamespaceEntry, NextNumbers, PIECES_NAMESPACE, RetentionEntry};

use super::apply::Failure;
use super::request::Setting;
use crate::engine::{Table, Transaction};
use crate::error::{Damage, Error};
use crate::read::namespaces;
use crate::versions::Versions;

/// Returns the number of the namespace of this name, which is made if there is none.
pub(crate) fn find_or_make(
    transaction: &mut dyn Transaction,
    next: &mut NextNumbers,
    name: &str,
    versions: Versions,
) -> Result<u32, Failure> {
    let out_of_range = |field, min, max, found| Failure::Refused(Error::OutOfRange { field, min, max, found });
    check_name("name of a namespace", name)?;
    if let Some(number) = namespaces::number(transaction, name, versions).map_err(Failure::Refused)? {
        return Ok(number);
    }
    let number = next.namespace;
    let further = number.checked_add(1).ok_or_else(|| {
        let found = u64::from(number);
        out_of_range("number of a namespace", 1, found - 1, found)
    })?;
    let versions_kept = versions == Versions::Kept;
    let entry = NamespaceEntry {
        number,
        versions_kept,
        retention: RetentionEntry::default(),
        has_expiring: false,
        // Pieces of an old version resemble those of a new one, under another key.
        latest: match name {
            PIECES_NAMESPACE => LatestEntry::Deltas,
            _ => LatestEntry::Automatic,
        },
    };
    let value = entry.encode(name).expect("name and number are within their limits");
    let put = transaction.put(Table::Namespaces, name.as_bytes(), &value);
    put.map_err(|error| Failure::Undone(error.into()))?;
    next.namespace = further;
    Ok(number)
}

/// Refuses a name that is empty or too long.
pub(super) fn check_name(field: &'static str, name: &str) -> Result<(), Failure> {
    let (min, max, found) = (1, NAME_BYTES_MAX as u64, name.len() as u64);
    match (min..=max).contains(&found) {
        true => Ok(()),
        false => Err(Failure::Refused(Error::OutOfRange { field, min, max, found })),
    }
}

/// Changes a setting of a namespace. Returns whether it is another then.
pub(crate) fn set(transaction: &mut dyn Transaction, number: u32, setting: Setting) -> Result<bool, Error> {
    edit(transaction, number, |entry| match setting {
        Setting::Retention(retention) => entry.retention = retention,
        Setting::Latest(latest) => entry.latest = latest,
    })
}

/// Notes that a namespace has records with a time at which they expire.
pub(crate) fn note_expiring(transaction: &mut dyn Transaction, number: u32) -> Result<(), Error> {
    edit(transaction, number, |entry| entry.has_expiring = true).map(drop)
}

/// Changes the entry of a namespace. Returns whether it is another then.
fn edit(
    transaction: &mut dyn Transaction,
    number: u32,
    change: impl FnOnce(&mut NamespaceEntry),
) -> Result<bool, Error> {
    let found = namespaces::by_number(transaction, number)?;
    let missing = || Error::damaged(Table::Namespaces, &number.to_be_bytes(), Damage::Missing);
    let (name, before) = found.ok_or_else(missing)?;
    let mut entry = before;
    change(&mut entry);
    if entry == before {
        return Ok(false);
    }
    let value = entry.encode(&name);
    let value = value.map_err(|error| Error::damaged(Table::Namespaces, name.as_bytes(), error))?;
    transaction.put(Table::Namespaces, name.as_bytes(), &value)?;
    Ok(true)
}
