//! Indexes, and what is found in them.

use std::borrow::Borrow;
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{
    INDEX_VALUE_BYTES_MAX, IndexEntry, IndexRow, after_index_value, index_prefix, index_value_prefix, key_of,
};

use super::lookup;
use super::pages::Pages;
use super::view::{Record, View, live};
use crate::engine::{Direction, KeyRange, Read, Table};
use crate::error::{Damage, Error};
use crate::index::{IndexedKey, IndexedRecord, Unique};
use crate::time::Time;

/// An index as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredIndex {
    pub(crate) number: u8,
    pub(crate) name: String,
    pub(crate) unique: Unique,
}

impl StoredIndex {
    /// Decodes a pair of the table `indexes` whose key is that of an index. Returns its namespace, too.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<(u32, Self), Error> {
        let damaged = |damage: Damage| Error::damaged(Table::Indexes, key, damage);
        let entry = IndexEntry::decode(key, value).map_err(|error| damaged(error.into()))?;
        let (namespace, name) = IndexEntry::split_key(key).ok_or_else(|| damaged(Damage::Misplaced))?;
        let (name, unique) = (name.to_owned(), Unique::from_unique(entry.unique));
        let number = entry.number;
        Ok((namespace, StoredIndex { number, name, unique }))
    }

    /// Refuses an index that was made with another setting.
    pub(crate) fn check(&self, namespace: &str, unique: Unique) -> Result<(), Error> {
        if self.unique == unique {
            return Ok(());
        }
        Err(Error::IndexDiffers {
            namespace: namespace.to_owned(),
            name: self.name.clone(),
            expected: unique,
            found: self.unique,
        })
    }
}

/// Returns the indexes of a namespace, in the order in which they were made.
pub(crate) fn all(read: &(impl Read + ?Sized), namespace: u32) -> Result<Vec<StoredIndex>, Error> {
    let mut all = Vec::new();
    let mut failed = Ok(());
    let mut each = |key: &[u8], value: &[u8]| match StoredIndex::decode(key, value) {
        Ok((_, index)) => {
            all.push(index);
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Err(error);
            ControlFlow::Break(())
        }
    };
    let (from, to) = (index_prefix(namespace, 0), index_prefix(namespace, 1));
    let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    read.range(Table::Indexes, range, Direction::Forward, &mut each)?;
    failed?;
    all.sort_unstable_by_key(|index| index.number);
    Ok(all)
}

/// Returns the first row of a value.
pub(crate) fn first_row(
    read: &(impl Read + ?Sized),
    namespace: u32,
    index: u8,
    value: &[u8],
) -> Result<Option<IndexRow>, Error> {
    Ok(rows_of(read, namespace, index, value, 1)?.pop())
}

/// Returns at most so many rows of a value.
fn rows_of(
    read: &(impl Read + ?Sized),
    namespace: u32,
    index: u8,
    value: &[u8],
    most: usize,
) -> Result<Vec<IndexRow>, Error> {
    let from = index_value_prefix(namespace, index, value);
    let to = after_index_value(namespace, index, value);
    let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    let mut rows = Vec::new();
    let mut each = |key: &[u8], value: &[u8]| {
        rows.push(row(key, value));
        match rows.len() < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    read.range(Table::Indexes, range, Direction::Forward, &mut each)?;
    rows.into_iter().collect()
}

fn row(key: &[u8], value: &[u8]) -> Result<IndexRow, Error> {
    IndexRow::decode(key, value).map_err(|error| Error::damaged(Table::Indexes, key, error))
}

/// Returns the first key that has a value.
pub(crate) fn key_of_value(
    read: &(impl Read + ?Sized),
    namespace: u32,
    (index, unique): (u8, Unique),
    value: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    if value.len() > INDEX_VALUE_BYTES_MAX {
        return Ok(None);
    }
    let most = if unique == Unique::Yes { 2 } else { 1 };
    let rows = rows_of(read, namespace, index, value, most)?;
    if let [_, second, ..] = &rows[..] {
        // Either of the two may be the right one.
        let stored = key_of_row(second);
        return Err(Error::damaged(Table::Indexes, &stored, Damage::Misplaced));
    }
    Ok(rows.into_iter().next().map(|row| row.key))
}

/// Returns the key of a row in its table.
fn key_of_row(row: &IndexRow) -> Vec<u8> {
    let prefix = index_value_prefix(row.namespace, row.index, &row.value);
    [&prefix, &row.key[..]].concat()
}

/// Returns the index values of a key, each with the name of its index, in the order in which the indexes were made.
pub(crate) fn values_of(
    read: &(impl Read + ?Sized),
    namespace: u32,
    key: &[u8],
) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let stored_key = key_of(namespace, key);
    let Some((_, values)) = lookup::key_entry_with_values(read, &stored_key)? else {
        return Ok(Vec::new());
    };
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let all = all(read, namespace)?;
    let named = |(number, value): (u8, Vec<u8>)| {
        let index = all.iter().find(|index| index.number == number);
        let missing = || Error::damaged(Table::Indexes, &IndexEntry::key(namespace, ""), Damage::Missing);
        Ok((index.ok_or_else(missing)?.name.clone(), value))
    };
    values.into_iter().map(named).collect()
}

/// The rows of an index whose values are in a range, by value and then by key.
pub(crate) struct IndexedKeys<V>(Pages<V, IndexRow>);

impl<V: Borrow<View>> IndexedKeys<V> {
    pub(crate) fn new(view: V, namespace: u32, index: u8, range: KeyRange<'_>, direction: Direction) -> Self {
        // No value is as long as that, so where a longer one is cut makes no difference.
        let cut = |value: &[u8]| value[..value.len().min(INDEX_VALUE_BYTES_MAX + 1)].to_vec();
        let first = |value: &[u8]| index_value_prefix(namespace, index, &cut(value));
        let after = |value: &[u8]| after_index_value(namespace, index, &cut(value));
        let from = match range.0 {
            Bound::Included(value) => first(value),
            Bound::Excluded(value) => after(value),
            Bound::Unbounded => index_prefix(namespace, index).to_vec(),
        };
        let to = match range.1 {
            Bound::Included(value) => after(value),
            Bound::Excluded(value) => first(value),
            Bound::Unbounded => index_prefix(namespace, index + 1).to_vec(),
        };
        let range = (Bound::Included(from), Bound::Excluded(to));
        IndexedKeys(Pages::new(view, Table::Indexes, range, direction))
    }

    fn next_row(&mut self) -> Result<Option<IndexRow>, Error> {
        self.0.next(|key, value| row(key, value).map(Some))
    }
}

impl<V: Borrow<View>> Iterator for IndexedKeys<V> {
    type Item = Result<IndexedKey, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_row();
        if next.is_err() {
            self.0.end();
        }
        let found = |IndexRow { value, key, .. }: IndexRow| IndexedKey { value, key };
        Some(next.transpose()?.map(found))
    }
}

/// The records of these keys.
pub(crate) struct IndexedRecords<V>(IndexedKeys<V>);

impl<V: Borrow<View>> IndexedRecords<V> {
    pub(crate) fn new(view: V, namespace: u32, index: u8, range: KeyRange<'_>, direction: Direction) -> Self {
        IndexedRecords(IndexedKeys::new(view, namespace, index, range, direction))
    }

    fn next_record(&mut self) -> Result<Option<IndexedRecord>, Error> {
        let Some(row) = self.0.next_row()? else {
            return Ok(None);
        };
        let View { engine, records, .. } = self.0.0.view();
        let stored_key = key_of(row.namespace, &row.key);
        let found = lookup::key_entry_with_values(&**engine, &stored_key)?;
        let (entry, values) = found.ok_or_else(|| Error::damaged(Table::Keys, &stored_key, Damage::Missing))?;
        let listed = (row.index, row.value);
        if !values.contains(&listed) {
            let row = IndexRow { value: listed.1, ..row };
            return Err(Error::damaged(Table::Indexes, &key_of_row(&row), Damage::Misplaced));
        }
        let (key, value) = (row.key, listed.1);
        let owner = (row.namespace, &key[..], entry.versions);
        // The cache is not used: a scan reads each record once.
        let body = records.body(&**engine, entry.latest, owner);
        let body = body.and_then(|body| live(entry.latest, body));
        let body = body.map_err(|error| error.of_key(&key))?;
        let record = Record {
            body,
            key,
            version: entry.versions,
            number: entry.latest,
            time: Time::stored(entry.time),
        };
        Ok(Some(IndexedRecord { value, record }))
    }
}

impl<V: Borrow<View>> Iterator for IndexedRecords<V> {
    type Item = Result<IndexedRecord, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_record();
        if next.as_ref().is_err_and(|error| !error.is_of_one_key()) {
            self.0.0.end();
        }
        next.transpose()
    }
}
