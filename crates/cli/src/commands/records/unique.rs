//! Namespaces that are set to store latest versions whole although keys do not repeat.
//!
//! If each key has one version, every record is stored whole there, however much it resembles others.

use std::collections::HashSet;

use ibid_record::{Error, Latest, Namespace, NamespaceStatistics, Versions};

/// Keys to judge by.
const KEYS: usize = 1000;
/// Returns whether a namespace keeps versions although practically no key has a second one.
pub(super) fn are_unique(found: &NamespaceStatistics) -> bool {
    found.versions == Versions::Kept && Versions::are_rare(found.keys + found.keys_deleted, found.records.count)
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
        if namespace.keeps() == Versions::Kept && self.0.len() < KEYS {
            self.0.insert(key.to_vec());
        }
    }

    /// Returns whether there are enough, and practically none of them has a second version now.
    pub(super) fn are_unique(&self, namespace: &Namespace) -> Result<bool, Error> {
        let mut versions = 0;
        for key in &self.0 {
            versions += namespace.latest(key)?.map_or(0, |latest| u64::from(latest.version));
        }
        Ok(Versions::are_rare(self.0.len() as u64, versions))
    }
}
