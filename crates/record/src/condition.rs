//! Conditions of a batch.

use std::fmt;

use crate::versions::Version;

/// The state that a key must be in for a [`Batch`](crate::Batch) to be done:
/// [`Batch::require`](crate::Batch::require).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// The key has no version: it was never stored, or was purged. In a namespace that does not keep
    /// versions, a deleted key has none, either.
    Absent,
    /// The latest version deletes the key. This never holds in a namespace that does not keep
    /// versions.
    Deleted,
    /// The latest version is this one, from 1, whether it has a body or deletes the key. After a
    /// purge the versions of a key begin at 1 again. A namespace that does not keep versions refuses
    /// it, because there each version is the first.
    Version(u32),
    /// The latest version is the record of this number, from 1. No number is given twice, so the key
    /// was not changed since.
    Number(u64),
}

impl Condition {
    /// Returns whether it holds for a key with this latest version.
    pub(crate) fn holds(self, latest: Option<Version>) -> bool {
        match (self, latest) {
            (Condition::Absent, latest) => latest.is_none(),
            (_, None) => false,
            (Condition::Deleted, Some(latest)) => latest.deleted,
            (Condition::Version(version), Some(latest)) => latest.version == version,
            (Condition::Number(number), Some(latest)) => latest.number == number,
        }
    }
}

/// Writes what is expected: `version 3`, `record 17`, `a deletion` or `no version`.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Absent => f.write_str("no version"),
            Condition::Deleted => f.write_str("a deletion"),
            Condition::Version(version) => write!(f, "version {version}"),
            Condition::Number(number) => write!(f, "record {number}"),
        }
    }
}
