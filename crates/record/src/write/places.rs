//! Writing the places of records in blocks.

use ibid_format::record::Places;

use crate::engine::{Table, Transaction};
use crate::error::Error;
use crate::read::places;
use crate::read::records::Records;

/// Writes the places of a group of records.
pub(crate) fn put(transaction: &mut dyn Transaction, group: u64, places: &Places) -> Result<(), Error> {
    let key = group.to_be_bytes();
    if places.is_empty() {
        return Ok(transaction.delete(Table::Places, &key)?);
    }
    let value = places.encode(group);
    let value = value.map_err(|error| Error::damaged(Table::Places, &key, error))?;
    Ok(transaction.put(Table::Places, &key, &value)?)
}

/// Removes the place of a record, which is in no block any more. Its body or delta there has so many bytes.
pub(crate) fn remove(
    transaction: &mut dyn Transaction,
    records: &Records,
    number: u64,
    bytes: usize,
) -> Result<(), Error> {
    let mut places = places::group(transaction, number)?;
    if places.get(number).is_some() {
        places.set(number, None);
        put(transaction, Places::group_of(number).0, &places)?;
        records.note_moved_out(bytes);
    }
    Ok(())
}
