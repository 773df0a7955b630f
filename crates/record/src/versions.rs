//! The versions of a key, and whether a namespace keeps them.

use std::fmt;

use ibid_format::record::{KeyEntry, VersionEntry};

use crate::time::Time;

/// Whether a namespace keeps earlier versions of its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    /// Only the latest version of each key is kept.
    Latest,
    /// All versions are kept, also those of deleted keys, until they are purged, or the namespace's
    /// [`Retention`](crate::Retention) lets them go.
    Kept,
}

impl Versions {
    pub(crate) fn from_kept(kept: bool) -> Self {
        if kept { Versions::Kept } else { Versions::Latest }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Versions::Latest => "not kept",
            Versions::Kept => "kept",
        })
    }
}

/// One version of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Its place among the versions of the key, from 1.
    pub version: u32,
    /// The number of its record.
    pub number: u64,
    /// Whether this version deletes the key.
    pub deleted: bool,
    /// When it was stored, by the clock of the primary, or the time that it was given. At least the
    /// time of the version before. [`None`] for versions that were stored before stores had times.
    pub time: Option<Time>,
}

impl Version {
    /// Returns the latest version of a key.
    pub(crate) fn latest_of(entry: &KeyEntry) -> Self {
        Version {
            version: entry.versions,
            number: entry.latest,
            deleted: entry.deleted,
            time: Time::stored(entry.time),
        }
    }

    /// Returns a version, given its entry.
    pub(crate) fn of(version: u32, entry: &VersionEntry) -> Self {
        Version {
            version,
            number: entry.number,
            deleted: entry.deleted,
            time: Time::stored(entry.time),
        }
    }
}
