//! Reads of the store as it was at one moment.

use std::sync::Arc;

use super::body_reader::BodyReader;
use super::index::Index;
use super::namespace::Namespace;
use super::shared::{OpenView, Shared};
use crate::engine::{Direction, KeyRange};
use crate::error::Error;
use crate::index::{IndexedKey, IndexedRecord};
use crate::keys::{KeyFilter, KeyState};
use crate::read::indexes::{self, IndexedKeys, IndexedRecords};
use crate::read::view::{Keys, KeysAsOf, KeysWrittenAfter, Record, Scan, ScanAsOf, View, WrittenAfter};
use crate::time::Time;
use crate::versions::Version;

/// Everything that was committed at one moment; [`Store::snapshot`](crate::Store::snapshot) makes
/// it.
///
/// Later commits do not change its contents. The engine keeps these as long as the snapshot is
/// held, which costs disk space.
///
/// ```
/// use ibid_record::{Options, Store, Versions};
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path(), Options::default())?;
/// let pages = store.namespace("pages", Versions::Latest)?;
/// pages.insert(b"ibid", b"in the same place")?;
/// let before = store.snapshot()?;
/// pages.update(b"ibid", b"elsewhere")?;
/// assert_eq!(before.get(&pages, b"ibid")?.as_deref(), Some(&b"in the same place"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Snapshot {
    view: Arc<OpenView>,
}

impl Snapshot {
    pub(super) fn new(store: &Arc<Shared>) -> Result<Self, Error> {
        let view = Arc::new(store.view()?);
        Ok(Snapshot { view })
    }

    /// Returns the body under `key`; [`None`] if it has none.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the stored bytes are not those that were written;
    /// [`Error::ForeignNamespace`]; [`Error::BodyTooLong`]; [`Error::Engine`]. All methods return these errors.
    pub fn get(&self, namespace: &Namespace, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.view_of(namespace)?.get(namespace.number(), key)
    }

    /// Shows the body under `key` to `found`, and returns whether it has one. A body that is stored whole is not
    /// copied, so this takes less memory than [`get`](Self::get).
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use std::io::Write;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Latest)?;
    /// pages.put(b"ibid", b"in the same place")?;
    /// let (mut out, mut written) = (Vec::new(), Ok(()));
    /// assert!(store.snapshot()?.show(&pages, b"ibid", &mut |body| written = out.write_all(body))?);
    /// written?;
    /// assert_eq!(out, b"in the same place");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn show(&self, namespace: &Namespace, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, Error> {
        let view = self.view_of(namespace)?;
        view.show(namespace.number(), key, &mut |body| found(&body))
    }

    /// Opens the body under `key`, of any length: see [`Namespace::open`]. The reader keeps the snapshot.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn open(&self, namespace: &Namespace, key: &[u8]) -> Result<Option<BodyReader>, Error> {
        self.open_which(namespace, key, None)
    }

    /// Opens the body of a version, from 1; [`None`] if there is no such version, or if it deletes the key.
    ///
    /// # Errors
    /// [`Error::Purged`]; otherwise as [`get`](Self::get).
    pub fn open_version(&self, namespace: &Namespace, key: &[u8], version: u32) -> Result<Option<BodyReader>, Error> {
        self.open_which(namespace, key, Some(version))
    }

    fn open_which(&self, namespace: &Namespace, key: &[u8], version: Option<u32>) -> Result<Option<BodyReader>, Error> {
        let opened = self.view_of(namespace)?.open(namespace.number(), key, version)?;
        Ok(opened.map(|opened| BodyReader::new(self.view.clone(), opened)))
    }

    /// Shows the body of a version, from 1, to `found`, as [`show`](Self::show) does. Returns false if there is no such
    /// version, or if it deletes the key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn show_version(
        &self,
        namespace: &Namespace,
        key: &[u8],
        version: u32,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, Error> {
        let view = self.view_of(namespace)?;
        view.show_version(namespace.number(), key, version, &mut |body| found(&body))
    }

    /// Returns the latest records under several keys, in the order of `keys`: see
    /// [`Namespace::get_many`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many(&self, namespace: &Namespace, keys: &[&[u8]]) -> Result<Vec<Option<Record>>, Error> {
        self.view_of(namespace)?.get_many(namespace.number(), keys)
    }

    /// Returns the latest version of a key, which may be a deletion; [`None`] if it has none. Reads no
    /// record.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn latest(&self, namespace: &Namespace, key: &[u8]) -> Result<Option<Version>, Error> {
        self.view_of(namespace)?.latest(namespace.number(), key)
    }

    /// Returns the versions of a key that were not purged, oldest first; none if there is no such key. A key in a
    /// namespace that does not keep versions has at most one.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn versions(&self, namespace: &Namespace, key: &[u8]) -> Result<Vec<Version>, Error> {
        self.view_of(namespace)?.versions(namespace.number(), key)
    }

    /// Returns the body of a version, from 1; [`None`] if there is no such version, or if it
    /// deletes the key.
    ///
    /// # Errors
    /// [`Error::Purged`]; otherwise as [`get`](Self::get).
    pub fn get_version(&self, namespace: &Namespace, key: &[u8], version: u32) -> Result<Option<Vec<u8>>, Error> {
        self.view_of(namespace)?.get_version(namespace.number(), key, version)
    }

    /// Returns the body that `key` had at a time: see [`Namespace::get_as_of`]. A snapshot has no version
    /// that was stored later, whatever its time.
    ///
    /// # Errors
    /// As [`Namespace::get_as_of`].
    pub fn get_as_of(&self, namespace: &Namespace, key: &[u8], time: Time) -> Result<Option<Vec<u8>>, Error> {
        namespace.check_versions_kept()?;
        self.view_of(namespace)?.get_as_of(namespace.number(), key, time)
    }

    /// Returns the version of a key that was the latest at a time: see [`Namespace::version_as_of`].
    ///
    /// # Errors
    /// As [`Namespace::get_as_of`].
    pub fn version_as_of(&self, namespace: &Namespace, key: &[u8], time: Time) -> Result<Option<Version>, Error> {
        namespace.check_versions_kept()?;
        self.view_of(namespace)?.version_as_of(namespace.number(), key, time)
    }

    /// Returns an iterator over the records whose keys are in a range: see [`Namespace::scan`].
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each record.
    pub fn scan(
        &self,
        namespace: &Namespace,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Result<Record, Error>> + use<'_>, Error> {
        Ok(Scan::new(
            self.view_of(namespace)?,
            namespace.number(),
            range,
            direction,
        ))
    }

    /// Returns an iterator over the keys in a range with their latest versions: see
    /// [`Namespace::keys`].
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each key.
    pub fn keys(
        &self,
        namespace: &Namespace,
        range: KeyRange<'_>,
        direction: Direction,
        filter: KeyFilter,
    ) -> Result<impl Iterator<Item = Result<KeyState, Error>> + use<'_>, Error> {
        let (view, number) = (self.view_of(namespace)?, namespace.number());
        Ok(Keys::new(view, number, range, direction, filter))
    }

    /// Returns an iterator over the records that were the latest of their keys at a time: see
    /// [`Namespace::scan_as_of`].
    ///
    /// # Errors
    /// As [`Namespace::get_as_of`], for this call and for each record.
    pub fn scan_as_of(
        &self,
        namespace: &Namespace,
        range: KeyRange<'_>,
        direction: Direction,
        time: Time,
    ) -> Result<impl Iterator<Item = Result<Record, Error>> + use<'_>, Error> {
        namespace.check_versions_kept()?;
        let (view, number) = (self.view_of(namespace)?, namespace.number());
        Ok(ScanAsOf::new(view, number, range, direction, time))
    }

    /// Returns an iterator over the keys that had a body at a time: see [`Namespace::keys_as_of`].
    ///
    /// # Errors
    /// As [`Namespace::get_as_of`], for this call and for each key.
    pub fn keys_as_of(
        &self,
        namespace: &Namespace,
        range: KeyRange<'_>,
        direction: Direction,
        time: Time,
    ) -> Result<impl Iterator<Item = Result<KeyState, Error>> + use<'_>, Error> {
        namespace.check_versions_kept()?;
        let (view, number) = (self.view_of(namespace)?, namespace.number());
        Ok(KeysAsOf::new(view, number, range, direction, time))
    }

    /// Returns an iterator over the keys whose latest versions were written after the record
    /// `number`: see [`Namespace::keys_written_after`].
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each key.
    pub fn keys_written_after(
        &self,
        namespace: &Namespace,
        number: u64,
        filter: KeyFilter,
    ) -> Result<impl Iterator<Item = Result<KeyState, Error>> + use<'_>, Error> {
        let view = self.view_of(namespace)?;
        Ok(KeysWrittenAfter::new(view, namespace.number(), number, filter))
    }

    /// Returns an iterator over the records that were written after the record `number`: see
    /// [`Namespace::written_after`].
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each record.
    pub fn written_after(
        &self,
        namespace: &Namespace,
        number: u64,
    ) -> Result<impl Iterator<Item = Result<Record, Error>> + use<'_>, Error> {
        Ok(WrittenAfter::new(self.view_of(namespace)?, namespace.number(), number))
    }

    /// Returns the first key that has a value in an index: see [`Index::get`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn index_get(&self, index: &Index, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let view = self.view_of(index.namespace())?;
        indexes::key_of_value(view.engine(), index.namespace().number(), index.of(), value)
    }

    /// Returns an iterator over the keys whose values in an index are in a range: see [`Index::keys`].
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each key.
    pub fn index_keys(
        &self,
        index: &Index,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Result<IndexedKey, Error>> + use<'_>, Error> {
        let (view, namespace) = (self.view_of(index.namespace())?, index.namespace().number());
        Ok(IndexedKeys::new(view, namespace, index.number(), range, direction))
    }

    /// Returns an iterator over the latest records of the keys whose values in an index are in a range: see
    /// [`Index::scan`].
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each record.
    pub fn index_scan(
        &self,
        index: &Index,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Result<IndexedRecord, Error>> + use<'_>, Error> {
        let (view, namespace) = (self.view_of(index.namespace())?, index.namespace().number());
        Ok(IndexedRecords::new(view, namespace, index.number(), range, direction))
    }

    /// Returns the index values of a key: see [`Namespace::index_values`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn index_values(&self, namespace: &Namespace, key: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        indexes::values_of(self.view_of(namespace)?.engine(), namespace.number(), key)
    }

    /// Refuses a namespace of another store.
    fn view_of(&self, namespace: &Namespace) -> Result<&View, Error> {
        namespace.check_store(self.view.store())?;
        Ok(&self.view)
    }
}
