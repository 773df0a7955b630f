//! Writing to the new store.

use std::collections::{BTreeMap, HashMap};

use ibid_format::record::{IndexValues, KeyEntry};

use crate::error::Error;
use crate::store::{Batch, Index, Namespace, NewBody, Store};
use crate::time::Time;
use crate::versions::{Version, Versions};

/// Changes that are committed together.
const CHANGES: usize = 1024;
/// Bytes of bodies that are committed together, beyond the last one.
const BYTES: usize = 1 << 20;

/// A namespace of the new store.
pub(super) struct Space {
    pub(super) namespace: Namespace,
    /// By the numbers that they have in the damaged store.
    pub(super) indexes: BTreeMap<u8, Index>,
}

impl Space {
    pub(super) fn keeps_versions(&self) -> bool {
        self.namespace.keeps() == Versions::Kept
    }
}

/// A version as it is to be stored.
pub(super) enum Content {
    /// With its length, as far as that is not in the store already.
    Body(NewBody<'static>, usize),
    Deletion,
    /// Nothing is known of it but its number, or it was purged: it becomes one that was purged.
    Gone,
}

/// What a key has in the new store.
#[derive(Clone, Copy, Default)]
pub(super) struct KeyState {
    /// How many versions.
    pub(super) versions: u32,
    pub(super) is_live: bool,
}

/// A new store, and what is to be committed to it next.
pub(super) struct Target<'s> {
    store: &'s Store,
    batch: Batch,
    bytes: usize,
    /// The keys of the batch, by the numbers of their namespaces.
    pending: HashMap<(u32, Vec<u8>), KeyState>,
}

impl<'s> Target<'s> {
    pub(super) fn new(store: &'s Store) -> Self {
        Target {
            store,
            batch: Batch::new(),
            bytes: 0,
            pending: HashMap::new(),
        }
    }

    pub(super) fn store(&self) -> &'s Store {
        self.store
    }

    /// Returns what a key has.
    pub(super) fn state(&self, space: &Space, key: &[u8]) -> Result<KeyState, Error> {
        let of_batch = self.pending.get(&(space.namespace.number(), key.to_vec()));
        if let Some(state) = of_batch {
            return Ok(*state);
        }
        let latest = space.namespace.latest(key)?;
        Ok(
            latest.map_or(KeyState::default(), |Version { version, deleted, .. }| KeyState {
                versions: version,
                is_live: !deleted,
            }),
        )
    }

    /// Whether the batch has changes of a key.
    pub(super) fn is_pending(&self, space: &Space, key: &[u8]) -> bool {
        self.pending.contains_key(&(space.namespace.number(), key.to_vec()))
    }

    /// Adds the next version of a key, with its time, milliseconds since 1970, or 0 if it is unknown; in a namespace
    /// that does not keep versions, in place of the one before. [`Content::Gone`] has to be
    /// [purged](Self::purge) once there is a version after it.
    pub(super) fn add(&mut self, space: &Space, key: &[u8], content: Content, time: u64) -> Result<(), Error> {
        let before = self.state(space, key)?;
        let namespace = &space.namespace;
        let is_live = match content {
            Content::Body(body, length) => {
                self.bytes += length;
                self.batch.put(namespace, key, body);
                true
            }
            Content::Gone => {
                self.batch.put(namespace, key, b"");
                true
            }
            Content::Deletion if before.is_live => {
                self.batch.delete(namespace, key);
                false
            }
            // Two deletions one after the other are none that a store makes.
            Content::Deletion => return Ok(()),
        };
        if let Some(time) = Time::stored(time) {
            self.batch.at(time);
        }
        let versions = match space.keeps_versions() {
            true => before.versions + 1,
            false => is_live.into(),
        };
        self.bytes += key.len();
        self.pending
            .insert((namespace.number(), key.to_vec()), KeyState { versions, is_live });
        Ok(())
    }

    /// Gives the version that was added last what the key's entry says: when it expires, and its index values. Returns
    /// how many values are of indexes that are lost.
    pub(super) fn describe(&mut self, space: &Space, entry: &KeyEntry, values: &IndexValues) -> u64 {
        if let Some(expires) = Time::stored(entry.expires) {
            self.batch.expire_at(expires);
        }
        let mut lost = 0;
        for (index, value) in values {
            match space.indexes.get(index) {
                Some(index) => drop(self.batch.index(index, value)),
                None => lost += 1,
            }
            self.bytes += value.len();
        }
        lost
    }

    /// Sets the index values of a key whose latest version was added before they were known.
    pub(super) fn describe_again(&mut self, space: &Space, key: &[u8], values: &IndexValues) {
        self.batch.set_index_values(&space.namespace, key);
        for (index, value) in values {
            if let Some(index) = space.indexes.get(index) {
                self.batch.index(index, value);
            }
        }
    }

    /// Purges versions of a key, before its latest.
    pub(super) fn purge(&mut self, space: &Space, key: &[u8], first: u32, last: u32) {
        self.batch.purge_versions(&space.namespace, key, first..=last);
    }

    /// Commits the batch if it is large enough.
    pub(super) fn commit_if_full(&mut self) -> Result<(), Error> {
        match self.batch.len() >= CHANGES || self.bytes >= BYTES {
            true => self.commit(),
            false => Ok(()),
        }
    }

    pub(super) fn commit(&mut self) -> Result<(), Error> {
        self.bytes = 0;
        self.pending.clear();
        match std::mem::take(&mut self.batch) {
            batch if batch.is_empty() => Ok(()),
            batch => self.store.commit_undated(batch),
        }
    }
}
