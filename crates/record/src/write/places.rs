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
    let mut removal = Removal::default();
    removal.remove(transaction, records, number, bytes)?;
    removal.finish(transaction)
}

/// Removes places of many records. Of those that follow each other in a group, the entry is written once.
#[derive(Default)]
pub(crate) struct Removal {
    open: Option<OpenGroup>,
}

struct OpenGroup {
    group: u64,
    places: Places,
    is_changed: bool,
}

impl Removal {
    /// Removes the place of a record, as [`remove`] does. Until [`finish`](Self::finish), it may be read still.
    pub(crate) fn remove(
        &mut self,
        transaction: &mut dyn Transaction,
        records: &Records,
        number: u64,
        bytes: usize,
    ) -> Result<(), Error> {
        let (group, _) = Places::group_of(number);
        let open = match self.open.take_if(|open| open.group == group) {
            Some(open) => open,
            None => {
                self.finish(transaction)?;
                OpenGroup {
                    group,
                    places: places::group(transaction, number)?,
                    is_changed: false,
                }
            }
        };
        let open = self.open.insert(open);
        if open.places.get(number).is_some() {
            open.places.set(number, None);
            open.is_changed = true;
            records.note_moved_out(bytes);
        }
        Ok(())
    }

    /// Writes what has changed.
    pub(crate) fn finish(&mut self, transaction: &mut dyn Transaction) -> Result<(), Error> {
        match self.open.take() {
            Some(open) if open.is_changed => put(transaction, open.group, &open.places),
            _ => Ok(()),
        }
    }
}
