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

/// Fewest keys by which it is judged whether keys get further versions.
pub(crate) const KEYS_MIN: u64 = 1000;
/// With fewer than one further version for so many keys, practically no key has a second version.
const KEYS_PER_VERSION: u64 = 100;

impl Versions {
    /// Returns whether practically no key has a second version: there are at least 1000, and fewer than one further
    /// version for 100 of them. `versions` counts all versions of these keys.
    ///
    /// ```
    /// use ibid_record::Versions;
    /// assert!(Versions::are_rare(1000, 1009));
    /// assert!(!Versions::are_rare(1000, 1010) && !Versions::are_rare(999, 999));
    /// ```
    pub fn are_rare(keys: u64, versions: u64) -> bool {
        let further = versions.saturating_sub(keys);
        keys >= KEYS_MIN && further.saturating_mul(KEYS_PER_VERSION) < keys
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_rare_if_fewer_than_one_key_in_a_hundred_has_a_second_one() {
        for (keys, versions, expected) in [
            (0, 0, false),
            (999, 999, false),
            (1000, 1000, true),
            (1000, 1009, true),
            (1000, 1010, false),
            (1000, 5000, false),
            (1_000_000, 1_009_999, true),
            (1_000_000, 1_010_000, false),
        ] {
            assert_eq!(
                Versions::are_rare(keys, versions),
                expected,
                "{keys} keys, {versions} versions"
            );
        }
    }
}
