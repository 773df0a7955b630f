//! Indexes: keys by other values than the keys themselves. Each value of a key is in two places: in the
//! entry of the key, and as an entry of the table `indexes`, in whose key the value comes before the key.

use std::collections::BTreeSet;

use super::entry::{Table, closed, opened};
use super::{KEY_BYTES_MAX, NAME_BYTES_MAX};
use crate::Error;
use crate::error::in_range;
use crate::wire::{self, Reader};

/// Most indexes of a namespace.
pub const INDEXES_MAX: u8 = 64;
/// Most values of a key, in all indexes of its namespace.
pub const INDEX_VALUES_MAX: usize = 256;
/// Longest value, bytes.
pub const INDEX_VALUE_BYTES_MAX: usize = 4096;
/// Longest key of the table `indexes`, bytes: a value of zeros only, each of which takes two bytes.
pub(super) const INDEX_ROW_BYTES_MAX: usize = PREFIX_BYTES + 2 * INDEX_VALUE_BYTES_MAX + END.len() + KEY_BYTES_MAX;

/// Values of a key, each with the number of its index.
pub type IndexValues = BTreeSet<(u8, Vec<u8>)>;

/// Length of the numbers of a namespace and an index in front of a value, bytes.
const PREFIX_BYTES: usize = 5;
/// Stands for the byte 0 within a value.
const ZERO: [u8; 2] = [0, 1];
/// The end of a value. It is less than all that a longer value may have in its place.
const END: [u8; 2] = [0, 0];
const UNIQUE: u8 = 1;

/// An index of a namespace: an entry of the table `indexes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Its number among those of its namespace, from 1 to [`INDEXES_MAX`].
    pub number: u8,
    /// Whether each value is of one key at most.
    pub unique: bool,
}

impl IndexEntry {
    /// Returns its key: the namespace's number, big-endian, a zero, and the name.
    pub fn key(namespace: u32, name: &str) -> Vec<u8> {
        [&index_prefix(namespace, 0)[..], name.as_bytes()].concat()
    }

    /// Returns the namespace and the name of such a key; [`None`] for a key that is none.
    pub fn split_key(stored: &[u8]) -> Option<(u32, &str)> {
        let (prefix, name) = stored.split_first_chunk::<PREFIX_BYTES>()?;
        let [namespace @ .., 0] = *prefix else { return None };
        let name = std::str::from_utf8(name).ok()?;
        Some((u32::from_be_bytes(namespace), name))
    }

    /// Returns the entry as stored under [`key`](Self::key).
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for an empty or too long name, or a number beyond its range.
    pub fn encode(&self, namespace: u32, name: &str) -> Result<Vec<u8>, Error> {
        in_range("name of an index", name.len() as u64, 1, NAME_BYTES_MAX as u64)?;
        in_range("number of an index", self.number.into(), 1, INDEXES_MAX.into())?;
        let value = vec![self.number, if self.unique { UNIQUE } else { 0 }];
        Ok(closed(Table::Indexes, &Self::key(namespace, name), value))
    }

    /// Reads the entry stored under `key`.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(key: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("entry of an index", Table::Indexes, key, bytes)?;
        let number = reader.u8("number of an index")?;
        in_range("number of an index", number.into(), 1, INDEXES_MAX.into())?;
        let flags = reader.u8("flags of an index")?;
        in_range("flags of an index", flags.into(), 0, UNIQUE.into())?;
        reader.finish("entry of an index")?;
        let unique = flags & UNIQUE != 0;
        Ok(IndexEntry { number, unique })
    }
}

/// Returns how the keys of all rows of an index begin; with 0 for an index, those of a namespace's indexes
/// themselves.
pub fn index_prefix(namespace: u32, index: u8) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = namespace.to_be_bytes();
    [a, b, c, d, index]
}

/// Returns how the keys of the rows of a value begin. All of them are before [`after_index_value`], and those of larger
/// values are not.
pub fn index_value_prefix(namespace: u32, index: u8, value: &[u8]) -> Vec<u8> {
    ended(namespace, index, value, END)
}

/// Returns the end of the rows of a value: where those of the next larger value may begin.
pub fn after_index_value(namespace: u32, index: u8, value: &[u8]) -> Vec<u8> {
    ended(namespace, index, value, ZERO)
}

fn ended(namespace: u32, index: u8, value: &[u8], end: [u8; 2]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PREFIX_BYTES + value.len() + END.len());
    out.extend_from_slice(&index_prefix(namespace, index));
    for &byte in value {
        match byte {
            0 => out.extend_from_slice(&ZERO),
            byte => out.push(byte),
        }
    }
    out.extend_from_slice(&end);
    out
}

/// A key that has a value: an entry of the table `indexes`, all of it but a checksum in its key. Rows are in the order
/// of namespace, index, value and key.
///
/// ```
/// use ibid_format::record::IndexRow;
///
/// let row = IndexRow { namespace: 1, index: 2, value: b"anna".to_vec(), key: b"page".to_vec() };
/// let (key, value) = row.encode()?;
/// assert_eq!(IndexRow::decode(&key, &value)?, row);
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRow {
    /// Number of the namespace, from 1.
    pub namespace: u32,
    /// Number of the index, from 1.
    pub index: u8,
    /// The value, at most [`INDEX_VALUE_BYTES_MAX`] bytes.
    pub value: Vec<u8>,
    /// The key, at most [`KEY_BYTES_MAX`] bytes.
    pub key: Vec<u8>,
}

impl IndexRow {
    /// Returns its key and value.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if a number is 0 or too large, or value or key are too long.
    pub fn encode(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        self.validate()?;
        let mut key = index_value_prefix(self.namespace, self.index, &self.value);
        key.extend_from_slice(&self.key);
        let value = closed(Table::Indexes, &key, Vec::new());
        Ok((key, value))
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte of key or value changed; else the fault in the bytes.
    pub fn decode(stored: &[u8], bytes: &[u8]) -> Result<Self, Error> {
        opened("entry of an index", Table::Indexes, stored, bytes)?.finish("entry of an index")?;
        IndexRow::split(stored)
    }

    /// Reads the key that [`encode`](Self::encode) made, without its checksum.
    ///
    /// # Errors
    ///
    /// The fault in the bytes.
    pub fn split(stored: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(stored);
        let namespace = u32::from_be_bytes(reader.array("namespace of an index")?);
        let index = reader.u8("number of an index")?;
        let mut value = Vec::new();
        loop {
            match reader.u8("index value")? {
                0 => match [0, reader.u8("index value")?] {
                    ZERO => value.push(0),
                    END => break,
                    [_, found] => {
                        let (field, found) = ("index value", found.into());
                        return Err(Error::Unknown { field, found });
                    }
                },
                byte => value.push(byte),
            }
        }
        let key = reader.rest().to_vec();
        let row = IndexRow {
            namespace,
            index,
            value,
            key,
        };
        row.validate().map(|()| row)
    }

    fn validate(&self) -> Result<(), Error> {
        in_range("namespace of an index", self.namespace.into(), 1, u32::MAX.into())?;
        in_range("number of an index", self.index.into(), 1, INDEXES_MAX.into())?;
        check_value(&self.value)?;
        in_range("record key", self.key.len() as u64, 0, KEY_BYTES_MAX as u64).map(drop)
    }
}

fn check_value(value: &[u8]) -> Result<(), Error> {
    in_range("index value", value.len() as u64, 0, INDEX_VALUE_BYTES_MAX as u64).map(drop)
}

/// Appends values, at least one, as they are in the entry of a key and in the log.
pub(super) fn put_values(out: &mut Vec<u8>, values: &IndexValues) -> Result<(), Error> {
    in_range("index values of a key", values.len() as u64, 1, INDEX_VALUES_MAX as u64)?;
    wire::put_varint(out, values.len() as u64);
    for (index, value) in values {
        in_range("number of an index", (*index).into(), 1, INDEXES_MAX.into())?;
        check_value(value)?;
        out.push(*index);
        wire::put_bytes(out, value);
    }
    Ok(())
}

/// Shows the values that [`put_values`] wrote to `each`.
pub(super) fn read_values(reader: &mut Reader<'_>, mut each: impl FnMut(u8, &[u8])) -> Result<(), Error> {
    let count = reader.varint_in("index values of a key", 1, INDEX_VALUES_MAX as u64)?;
    let mut before: Option<(u8, &[u8])> = None;
    for _ in 0..count {
        let index = reader.u8("number of an index")?;
        in_range("number of an index", index.into(), 1, INDEXES_MAX.into())?;
        let value = reader.bytes("index value", INDEX_VALUE_BYTES_MAX)?;
        let is_ascending = before.is_none_or(|before| before < (index, value));
        in_range("order of index values", is_ascending.into(), 1, 1)?;
        before = Some((index, value));
        each(index, value);
    }
    Ok(())
}
