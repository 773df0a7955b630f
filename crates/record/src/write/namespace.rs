//! Making namespaces.

use ibid_format::record::{NAME_BYTES_MAX, NamespaceEntry, NextNumbers};

use super::apply::Failure;
use crate::engine::{Table, Transaction};
use crate::error::Error;
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
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        let (max, found) = (NAME_BYTES_MAX as u64, name.len() as u64);
        return Err(out_of_range("name of a namespace", 1, max, found));
    }
    if let Some(number) = namespaces::number(transaction, name, versions).map_err(Failure::Refused)? {
        return Ok(number);
    }
    let number = next.namespace;
    let further = number.checked_add(1).ok_or_else(|| {
        let found = u64::from(number);
        out_of_range("number of a namespace", 1, found - 1, found)
    })?;
    let versions_kept = versions == Versions::Kept;
    let entry = NamespaceEntry { number, versions_kept };
    let value = entry.encode(name).expect("name and number are within their limits");
    let put = transaction.put(Table::Namespaces, name.as_bytes(), &value);
    put.map_err(|error| Failure::Undone(error.into()))?;
    next.namespace = further;
    Ok(number)
}
