//! Making indexes, and keeping their rows the same as the values of the keys.

use std::collections::{BTreeMap, HashMap};

use ibid_format::record::{
    INDEX_VALUE_BYTES_MAX, INDEX_VALUES_MAX, INDEXES_MAX, IndexEntry, IndexRow, IndexValues, split_key,
};

use super::apply::Failure;
use super::namespace::check_name;
use super::request::{Change, Operation};
use crate::engine::{Read, Table, Transaction};
use crate::error::{Damage, Error};
use crate::index::Unique;
use crate::read::indexes::{self, StoredIndex};

/// An index that was found or made.
pub(crate) struct Found {
    pub(crate) number: u8,
    pub(crate) is_new: bool,
}

/// Finds the index of a namespace, or makes it if there is none. `namespace_name` is for messages.
pub(crate) fn find_or_make(
    transaction: &mut dyn Transaction,
    namespace: u32,
    namespace_name: &str,
    name: &str,
    unique: Unique,
) -> Result<Found, Failure> {
    check_name("name of an index", name)?;
    let all = indexes::all(transaction, namespace).map_err(Failure::Refused)?;
    if let Some(found) = all.iter().find(|index| index.name == name) {
        found.check(namespace_name, unique).map_err(Failure::Refused)?;
        let (number, is_new) = (found.number, false);
        return Ok(Found { number, is_new });
    }
    let number = all.iter().map(|index| index.number).max().unwrap_or(0) + 1;
    if number > INDEXES_MAX {
        let (field, min, max, found) = ("indexes of a namespace", 0, INDEXES_MAX.into(), number.into());
        return Err(Failure::Refused(Error::OutOfRange { field, min, max, found }));
    }
    let unique = unique == Unique::Yes;
    let value = IndexEntry { number, unique }.encode(namespace, name);
    let value = value.expect("name and number are within their limits");
    let put = transaction.put(Table::Indexes, &IndexEntry::key(namespace, name), &value);
    put.map_err(|error| Failure::Undone(error.into()))?;
    let is_new = true;
    Ok(Found { number, is_new })
}

/// Refuses index values that are too long or too many, or of an operation that gives a key none.
pub(super) fn check(operation: &Operation) -> Result<(), Error> {
    let in_range = |field, found: usize, max: usize| {
        let (min, max, found) = (0, max as u64, found as u64);
        match found > max {
            true => Err(Error::OutOfRange { field, min, max, found }),
            false => Ok(()),
        }
    };
    let count = operation.values.len();
    if operation.change.body().is_none() && !matches!(operation.change, Change::SetIndexValues) {
        return in_range("index values of a change that stores no body", count, 0);
    }
    in_range("index values of a key", count, INDEX_VALUES_MAX)?;
    let mut values = operation.values.iter();
    values.try_for_each(|(_, value)| in_range("index value", value.len(), INDEX_VALUE_BYTES_MAX))
}

/// The values of a key before and after a batch.
pub(super) struct ValuesChange<'c> {
    /// The key in the table `keys`.
    pub(super) stored_key: &'c [u8],
    pub(super) before: &'c IndexValues,
    pub(super) after: &'c IndexValues,
}

/// The rows that a batch removes and adds.
#[derive(Default)]
pub(super) struct RowChanges {
    removed: Vec<Vec<u8>>,
    added: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RowChanges {
    /// Returns what follows from the changes of keys.
    ///
    /// # Errors
    /// [`Error::ValueTaken`] if two keys would have the same value of a unique index.
    pub(super) fn of(read: &dyn Read, changes: &[ValuesChange<'_>]) -> Result<Self, Error> {
        let mut rows = RowChanges::default();
        let after: HashMap<&[u8], &IndexValues> =
            changes.iter().map(|change| (change.stored_key, change.after)).collect();
        let mut known: BTreeMap<u32, Vec<StoredIndex>> = BTreeMap::new();
        let mut given: HashMap<(u32, u8, &[u8]), &[u8]> = HashMap::new();
        for change in changes {
            let stored_key = change.stored_key;
            let damaged = |error| Error::damaged(Table::Keys, stored_key, Damage::Bytes(error));
            let (namespace, key) = split_key(stored_key).map_err(damaged)?;
            let row = |(index, value): &(u8, Vec<u8>)| {
                let (value, key) = (value.clone(), key.to_vec());
                let row = IndexRow {
                    namespace,
                    index: *index,
                    value,
                    key,
                };
                row.encode().map_err(damaged)
            };
            for gone in change.before.difference(change.after) {
                rows.removed.push(row(gone)?.0);
            }
            for new in change.after.difference(change.before) {
                let (number, value) = (new.0, &new.1[..]);
                let of_namespace = match known.entry(namespace) {
                    std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
                    std::collections::btree_map::Entry::Vacant(place) => place.insert(indexes::all(read, namespace)?),
                };
                let index = of_namespace.iter().find(|index| index.number == number);
                let missing = || Error::damaged(Table::Indexes, &IndexEntry::key(namespace, ""), Damage::Missing);
                let index = index.ok_or_else(missing)?;
                if index.unique == Unique::Yes {
                    let taken = |key: &[u8]| Error::ValueTaken {
                        index: index.name.clone(),
                        value: value.to_vec(),
                        key: key.to_vec(),
                    };
                    if let Some(other) = given.insert((namespace, number, value), key) {
                        return Err(taken(other));
                    }
                    if let Some(row) = indexes::first_row(read, namespace, number, value)?
                        && row.key != key
                    {
                        let other = ibid_format::record::key_of(namespace, &row.key);
                        // Another key of the batch may have lost it.
                        if after.get(&other[..]).is_none_or(|values| values.contains(new)) {
                            return Err(taken(&row.key));
                        }
                    }
                }
                rows.added.push(row(new)?);
            }
        }
        Ok(rows)
    }

    pub(super) fn write(&self, transaction: &mut dyn Transaction) -> Result<(), Error> {
        for key in &self.removed {
            transaction.delete(Table::Indexes, key)?;
        }
        for (key, value) in &self.added {
            transaction.put(Table::Indexes, key, value)?;
        }
        Ok(())
    }
}
