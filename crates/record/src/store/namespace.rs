//! Keys of one kind, in a store.

use std::fmt;
use std::sync::Arc;

use super::snapshot::{Record, Snapshot, Version};
use super::{Batch, Inner, Versions};
use crate::engine::{Direction, KeyRange};
use crate::error::Error;

/// A namespace of a store; [`Store::namespace`](crate::Store::namespace) opens it. Keeps the store
/// open. Cheap to clone.
///
/// Keys are any bytes, up to 4096; bodies too, up to 256 MiB. Each method that changes is a batch
/// of its own, with the durability of the store's options; each that reads looks at a snapshot of
/// its own.
#[derive(Clone)]
pub struct Namespace {
    store: Arc<Inner>,
    name: Arc<str>,
    number: u32,
    versions: Versions,
}

impl Namespace {
    pub(crate) fn new(store: Arc<Inner>, name: Arc<str>, number: u32, versions: Versions) -> Self {
        Namespace {
            store,
            name,
            number,
            versions,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which versions it keeps.
    pub fn keeps(&self) -> Versions {
        self.versions
    }

    /// Stores `body` under `key`, which has no record yet, and gives the record's number.
    ///
    /// # Errors
    /// [`Error::KeyExists`] if it has one, [`Error::OutOfRange`]; nothing was done.
    /// [`Error::Engine`], [`Error::WriterEnded`]: whether it was done is known after opening the store again.
    pub fn insert(&self, key: &[u8], body: &[u8]) -> Result<u64, Error> {
        let mut batch = Batch::new();
        batch.insert(self, key, body);
        self.commit(batch)
    }

    /// Stores `body` under `key`, which has a record, and gives the new record's number.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`] if it has none; else as [`insert`](Self::insert).
    pub fn update(&self, key: &[u8], body: &[u8]) -> Result<u64, Error> {
        let mut batch = Batch::new();
        batch.update(self, key, body);
        self.commit(batch)
    }

    /// Stores `body` under `key`, whether it has a record or not, and gives the new record's
    /// number.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), but for a key that exists.
    pub fn put(&self, key: &[u8], body: &[u8]) -> Result<u64, Error> {
        let mut batch = Batch::new();
        batch.put(self, key, body);
        self.commit(batch)
    }

    /// Removes the record of `key`. Where versions are kept, this is a version too, and those
    /// before it stay.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`] if it has none; else as [`insert`](Self::insert).
    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        let mut batch = Batch::new();
        batch.delete(self, key);
        self.store.commit(batch, self.store.durability).map(drop)
    }

    /// Removes `key` with all its versions.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`] if there is nothing of it; else as [`insert`](Self::insert).
    pub fn purge(&self, key: &[u8]) -> Result<(), Error> {
        let mut batch = Batch::new();
        batch.purge(self, key);
        self.store.commit(batch, self.store.durability).map(drop)
    }

    /// The body under `key`; [`None`] if there is no such key.
    ///
    /// # Errors
    /// [`Error::Damaged`] if what is stored is not what was written; [`Error::Engine`]. So for all
    /// that read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.snapshot()?.get(self, key)
    }

    /// The bodies under several keys at one moment, in the order of `keys`.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        self.snapshot()?.get_many(self, keys)
    }

    /// All versions of a key, the oldest first; none if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn versions(&self, key: &[u8]) -> Result<Vec<Version>, Error> {
        self.snapshot()?.versions(self, key)
    }

    /// The body of one version, from 1; [`None`] if there is no such version, or the key was
    /// deleted with it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_version(&self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>, Error> {
        self.snapshot()?.get_version(self, key, version)
    }

    /// The first records, `limit` at most, whose keys are in a range, in the order of the keys'
    /// bytes.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use std::ops::Bound;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Latest)?;
    /// for key in ["b/2", "a/1", "b/1"] {
    ///     pages.insert(key.as_bytes(), b"")?;
    /// }
    /// let found = pages.scan((Bound::Included(b"b/"), Bound::Excluded(b"b0")), 10)?;
    /// assert_eq!(found.iter().map(|record| &record.key[..]).collect::<Vec<_>>(), [b"b/1", b"b/2"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan(&self, range: KeyRange<'_>, limit: usize) -> Result<Vec<Record>, Error> {
        let snapshot = self.snapshot()?;
        let records = snapshot.scan(self, range, Direction::Forward);
        records.take(limit).collect()
    }

    /// The records written after number `after`, 0 for all, `limit` at most, in the order in which
    /// they were written. Only what is under a key now: of each key its latest version.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn in_order(&self, after: u64, limit: usize) -> Result<Vec<Record>, Error> {
        let snapshot = self.snapshot()?;
        let records = snapshot.in_order(self, after);
        records.take(limit).collect()
    }

    fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::new(&self.store)
    }

    fn commit(&self, batch: Batch) -> Result<u64, Error> {
        let written = self.store.commit(batch, self.store.durability)?;
        Ok(written
            .into_iter()
            .flatten()
            .next()
            .expect("what stores a body writes a record"))
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn name_shared(&self) -> Arc<str> {
        self.name.clone()
    }

    pub(crate) fn is_of(&self, store: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.store, store)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespace")
            .field("name", &self.name)
            .field("versions", &self.versions)
            .finish_non_exhaustive()
    }
}
