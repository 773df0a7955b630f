//! Namespaces that are set to store latest versions whole although keys do not repeat.
//!
//! If each key has one version, every record is stored whole there, however much it resembles others.

use std::collections::HashSet;

use ibid_record::{Error, Latest, Namespace, NamespaceStatistics, Versions};

/// Fewest keys to judge by.
const KEYS_MIN: u64 = 1000;
/// With fewer than one further version for so many keys, practically no key has a second version.
const KEYS_PER_VERSION: u64 = 100;

/// Returns whether practically no key has a second version, given all versions of these keys.
fn judge(keys: u64, versions: u64) -> bool {
    let further = versions.saturating_sub(keys);
    keys >= KEYS_MIN && further * KEYS_PER_VERSION < keys
}

/// Returns whether a namespace keeps versions although practically no key has a second one.
pub(super) fn are_unique(found: &NamespaceStatistics) -> bool {
    found.versions == Versions::Kept && judge(found.keys + found.keys_deleted, found.records.count)
}

/// Returns whether records do not become deltas of those under other keys.
pub(super) fn are_kept_apart(latest: Latest) -> bool {
    matches!(latest, Latest::Whole | Latest::Shared)
}

/// The first keys that are loaded into a namespace. All keys would take too long to look up.
#[derive(Default)]
pub(super) struct FirstKeys(HashSet<Vec<u8>>);

impl FirstKeys {
    /// Notes a key, unless there are enough.
    pub(super) fn note(&mut self, namespace: &Namespace, key: &[u8]) {
        if namespace.keeps() == Versions::Kept && (self.0.len() as u64) < KEYS_MIN {
            self.0.insert(key.to_vec());
        }
    }

    /// Returns whether there are enough, and practically none of them has a second version now.
    pub(super) fn are_unique(&self, namespace: &Namespace) -> Result<bool, Error> {
        let mut versions = 0;
        for key in &self.0 {
            versions += namespace.latest(key)?.map_or(0, |latest| u64::from(latest.version));
        }
        Ok(judge(self.0.len() as u64, versions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_if_fewer_than_one_in_a_hundred_has_a_second_version() {
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
            assert_eq!(judge(keys, versions), expected, "{keys} keys, {versions} versions");
        }
    }
}
