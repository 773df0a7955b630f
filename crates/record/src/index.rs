//! What is found in an index.

use std::fmt;

use crate::read::view::Record;

/// Whether a value of an index may be of several keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unique {
    /// Any number of keys may have the same value.
    No,
    /// Each value is of one key at most. A batch after which two keys would have it is refused.
    Yes,
}

impl Unique {
    pub(crate) fn from_unique(unique: bool) -> Self {
        if unique { Unique::Yes } else { Unique::No }
    }
}

impl fmt::Display for Unique {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unique::No => "not unique",
            Unique::Yes => "unique",
        })
    }
}

/// A key that was found by a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedKey {
    /// The value.
    pub value: Vec<u8>,
    /// The key.
    pub key: Vec<u8>,
}

/// A record that was found by a value of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedRecord {
    /// The value.
    pub value: Vec<u8>,
    /// The latest record of the key.
    pub record: Record,
}
