//! What the encoder knows of namespaces.

use std::ops::{Bound, ControlFlow};

use ibid_format::record::{ENCODING_STOPPED_PREFIX, EncodingStopped, KeyEntry, LatestEntry, Stopped};

use super::super::governor::Savings;
use super::EncoderThread;
use crate::engine::{Direction, Snapshot, Table};
use crate::error::Error;
use crate::read::namespaces;
use crate::versions::{KEYS_MIN, Versions};
use crate::write::feed::NewRecord;

/// The state of a namespace.
#[derive(Debug, Default)]
pub(super) struct NamespaceState {
    /// Of records that were compared with those of other keys.
    pub(super) of_other_keys: Savings,
    /// Of versions, as deltas of the next ones of their keys.
    pub(super) of_versions: Savings,
    /// What was given up.
    pub(super) stopped: Option<Stopped>,
    /// How its latest versions are stored; [`None`] if that has to be looked up.
    latest: Option<LatestEntry>,
    /// New records that were the first under their keys, and others: of the first keys that were there, and since then.
    inserted: u64,
    updated: u64,
}

impl NamespaceState {
    /// Returns how latest versions are stored.
    fn latest(&self, versions_kept: bool) -> LatestEntry {
        let is_insert_only = Versions::are_rare(self.inserted, self.inserted.saturating_add(self.updated));
        match self.latest.unwrap_or_default() {
            LatestEntry::Automatic if !versions_kept || is_insert_only => LatestEntry::Deltas,
            LatestEntry::Automatic => LatestEntry::Shared,
            chosen => chosen,
        }
    }
}

impl EncoderThread {
    /// Forgets how namespaces store their latest versions if that has changed.
    pub(super) fn note_settings(&mut self) {
        let settings = self.feed.settings();
        if std::mem::replace(&mut self.settings, settings) != settings {
            self.namespaces.values_mut().for_each(|state| state.latest = None);
        }
    }

    /// Counts a new record, to find out whether its namespace gets any versions.
    pub(super) fn count_new(&mut self, new: &NewRecord) {
        let state = self.namespaces.entry(new.namespace).or_default();
        if new.prior.is_some_and(|prior| prior.is_replaced) {
            state.updated += 1;
        } else {
            state.inserted += 1;
        }
    }

    /// Returns how the latest versions of a namespace are stored.
    pub(super) fn latest(
        &mut self,
        read: &dyn Snapshot,
        namespace: u32,
        versions_kept: bool,
    ) -> Result<LatestEntry, Error> {
        let state = self.namespaces.entry(namespace).or_default();
        if state.latest.is_none() {
            let entry = match namespaces::by_number(read, namespace) {
                Ok(found) => found.map(|(_, entry)| entry.latest),
                // As if it had never been set.
                Err(Error::Damaged { .. }) => None,
                Err(error) => return Err(error),
            };
            state.latest = Some(entry.unwrap_or_default());
            if versions_kept && state.inserted + state.updated <= 1 {
                (state.inserted, state.updated) = sampled(read, namespace)?;
            }
        }
        Ok(state.latest(versions_kept))
    }
}

/// Returns how many of the first keys of a namespace there are, up to [`KEYS_MIN`], and how many versions after
/// their first these have.
fn sampled(read: &dyn Snapshot, namespace: u32) -> Result<(u64, u64), Error> {
    let (mut keys, mut further) = (0, 0);
    let mut each = |stored_key: &[u8], value: &[u8]| {
        if !stored_key.starts_with(&namespace.to_be_bytes()) {
            return ControlFlow::Break(());
        }
        keys += 1;
        // Verification reports damage.
        further += KeyEntry::decode(stored_key, value).map_or(0, |entry| u64::from(entry.versions) - 1);
        if keys < KEYS_MIN {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let from = namespace.to_be_bytes();
    let range = (Bound::Included(&from[..]), Bound::Unbounded);
    read.range(Table::Keys, range, Direction::Forward, &mut each)?;
    Ok((keys, further))
}

/// Returns the namespaces in which something was given up, some of them twice.
pub(super) fn given_up(read: &dyn Snapshot) -> Result<Vec<(u32, Stopped)>, Error> {
    let mut found = Vec::new();
    let mut each = |key: &[u8], _: &[u8]| match EncodingStopped::of_key(key) {
        Some(stopped) => {
            found.push(stopped);
            ControlFlow::Continue(())
        }
        None if key.starts_with(ENCODING_STOPPED_PREFIX) => ControlFlow::Continue(()),
        None => ControlFlow::Break(()),
    };
    let range = (Bound::Included(ENCODING_STOPPED_PREFIX), Bound::Unbounded);
    read.range(Table::Meta, range, Direction::Forward, &mut each)?;
    Ok(found)
}
