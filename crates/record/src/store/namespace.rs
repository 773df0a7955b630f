//! A namespace of a store.

use std::fmt;
use std::io::Read;
use std::ops::RangeInclusive;
use std::sync::Arc;

use super::batch::Batch;
use super::body_reader::BodyReader;
use super::body_writer::BodyWriter;
use super::index::Index;
use super::shared::{OpenView, Shared};
use super::snapshot::Snapshot;
use crate::engine::{Direction, KeyRange};
use crate::error::Error;
use crate::index::Unique;
use crate::keys::{KeyFilter, KeyState};
use crate::latest::Latest;
use crate::read::view::{Keys, KeysAsOf, KeysWrittenAfter, Record, Scan, ScanAsOf, WrittenAfter};
use crate::read::{indexes, namespaces};
use crate::retention::Retention;
use crate::time::Time;
use crate::versions::{Version, Versions};
use crate::write::request::{Change, Changes, Command, Durability, Operation, Outcome, Setting, Target};

/// A namespace of a store, opened by [`Store::namespace`](crate::Store::namespace). It keeps the
/// store open, and is cheap to clone.
///
/// Keys are any bytes, up to 4096; bodies are any bytes, up to 1 TiB. Each method that changes
/// something is a batch of its own, with the durability of the store's options. Each method that
/// reads has a snapshot of its own.
#[derive(Clone)]
pub struct Namespace {
    store: Arc<Shared>,
    name: Arc<str>,
    number: u32,
    versions: Versions,
}

impl Namespace {
    pub(super) fn new(store: Arc<Shared>, name: Arc<str>, number: u32, versions: Versions) -> Self {
        Namespace {
            store,
            name,
            number,
            versions,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns which versions are kept.
    pub fn keeps(&self) -> Versions {
        self.versions
    }

    /// Stores `body` under `key`, which must have none yet, and returns the record's number.
    ///
    /// # Errors
    /// [`Error::KeyExists`] and [`Error::OutOfRange`], after which nothing was changed. After
    /// [`Error::Engine`] and [`Error::WriterEnded`] the store must be opened again to see whether
    /// it was.
    pub fn insert(&self, key: &[u8], body: &[u8]) -> Result<u64, Error> {
        self.write(key, Change::Insert(body.into()))
    }

    /// Stores `body` under `key`, which must have a body, and returns the new record's number.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`]; otherwise as [`insert`](Self::insert).
    pub fn update(&self, key: &[u8], body: &[u8]) -> Result<u64, Error> {
        self.write(key, Change::Update(body.into()))
    }

    /// Stores `body` under `key`, whether it has a body or not, and returns the new record's
    /// number.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), without [`Error::KeyExists`].
    pub fn put(&self, key: &[u8], body: &[u8]) -> Result<u64, Error> {
        self.write(key, Change::Put(body.into()))
    }

    /// Stores what is read, up to its end, under `key`, whether it has a body or not, and returns the new record's
    /// number. A body of any length takes a few MiB of memory: see [`BodyWriter`], and [`open`](Self::open) to read it.
    ///
    /// # Errors
    /// [`Error::Engine`] if reading fails; otherwise as [`insert`](Self::insert).
    pub fn put_from(&self, key: &[u8], body: &mut (impl Read + ?Sized)) -> Result<u64, Error> {
        let body = BodyWriter::new(self.store.clone())?.read_all(body)?;
        let mut batch = Batch::new();
        batch.put(self, key, body);
        let (changes, _held) = batch.into_changes(&self.store)?;
        let written = self.store.commit(changes, self.store.durability)?;
        let number = written.into_iter().flatten().next();
        Ok(number.expect("an operation that stores a body writes a record"))
    }

    /// Deletes `key`, which must have a body. In a namespace that keeps versions the deletion is
    /// also a version, and earlier versions stay.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`]; otherwise as [`insert`](Self::insert).
    pub fn delete(&self, key: &[u8]) -> Result<(), Error> {
        self.commit(key, Change::Delete).map(drop)
    }

    /// Removes `key` with all its versions.
    ///
    /// # Errors
    /// [`Error::NoSuchKey`] if it has no version; otherwise as [`insert`](Self::insert).
    pub fn purge(&self, key: &[u8]) -> Result<(), Error> {
        self.commit(key, Change::Purge).map(drop)
    }

    /// Removes some versions of `key`, before the latest, from the first to the last. The numbers of
    /// the others do not change. Versions that were purged before count as removed. Nothing leads to a
    /// removed version any more; what it had in the store's files is overwritten by the next
    /// [`Store::compact`](crate::Store::compact).
    ///
    /// If the store has a log, that still names the version, and keeps its bytes for replicas until
    /// [`Store::truncate_log`](crate::Store::truncate_log) removes what it says.
    ///
    /// # Errors
    /// [`Error::LatestStays`], [`Error::VersionsNotKept`], [`Error::NoSuchKey`], [`Error::OutOfRange`] for
    /// an empty range; otherwise as [`insert`](Self::insert).
    ///
    /// ```
    /// use ibid_record::{Error, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// for body in ["in the same place", "a secret", "in the very same place"] {
    ///     pages.put(b"ibid", body.as_bytes())?;
    /// }
    /// pages.purge_versions(b"ibid", 2..=2)?;
    /// let left: Vec<u32> = pages.versions(b"ibid")?.iter().map(|version| version.version).collect();
    /// assert_eq!(left, [1, 3]);
    /// assert!(matches!(pages.get_version(b"ibid", 2), Err(Error::Purged { version: 2, .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn purge_versions(&self, key: &[u8], versions: RangeInclusive<u32>) -> Result<(), Error> {
        let (from, to) = versions.into_inner();
        self.commit(key, Change::PurgeVersions { from, to }).map(drop)
    }

    /// Sets what the namespace keeps, for good. What it no longer keeps is removed in the background,
    /// while the store is open, or by [`Store::expire`](crate::Store::expire).
    ///
    /// # Errors
    /// [`Error::VersionsNotKept`] if it is about versions, in a namespace that does not keep them;
    /// [`Error::OutOfRange`] for zeros; otherwise as [`insert`](Self::insert).
    ///
    /// ```
    /// use ibid_record::{Options, Retention, Store, Time, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// for version in 1..=5 {
    ///     pages.put(b"ibid", format!("version {version}").as_bytes())?;
    /// }
    /// pages.set_retention(Retention::default().with_versions(2))?;
    /// store.expire(Time::now(), &mut |_| std::ops::ControlFlow::Continue(()))?;
    /// assert_eq!(pages.versions(b"ibid")?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_retention(&self, retention: Retention) -> Result<(), Error> {
        let entry = retention.entry(&self.name, self.versions)?;
        let command = Command::Set(self.target(), Setting::Retention(entry));
        self.store.ask(command, Durability::Sync).map(drop)
    }

    /// Returns what the namespace keeps.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn retention(&self) -> Result<Retention, Error> {
        let found = namespaces::by_number(&*self.store.complete_snapshot()?.0, self.number)?;
        Ok(found.map_or(Retention::default(), |(_, entry)| Retention::of(entry.retention)))
    }

    /// Sets how the latest versions of keys are stored, for good.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    ///
    /// ```
    /// use ibid_record::{Latest, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// pages.set_latest_as(Latest::Deltas)?;
    /// assert_eq!(pages.latest_as()?, Latest::Deltas);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_latest_as(&self, latest: Latest) -> Result<(), Error> {
        let command = Command::Set(self.target(), Setting::Latest(latest.entry()));
        self.store.ask(command, Durability::Sync).map(drop)
    }

    /// Returns how the latest versions of keys are stored.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn latest_as(&self) -> Result<Latest, Error> {
        let found = namespaces::by_number(&*self.store.complete_snapshot()?.0, self.number)?;
        Ok(found.map_or(Latest::default(), |(_, entry)| Latest::of(entry.latest)))
    }

    /// Returns the index of this name, 1 to 255 bytes; makes it if there is none. A namespace has at most 64 indexes,
    /// and keeps them.
    ///
    /// A new index knows no keys. [`Batch::set_index_values`](crate::Batch::set_index_values) adds those that are
    /// there.
    ///
    /// # Errors
    /// [`Error::IndexDiffers`] if it was made with the other setting; [`Error::OutOfRange`] for its name, or if there
    /// are too many.
    pub fn index(&self, name: &str, unique: Unique) -> Result<Index, Error> {
        let name: Arc<str> = name.into();
        let index = |number| Index::new(self.clone(), name.clone(), number, unique);
        let all = indexes::all(self.view()?.engine(), self.number)?;
        if let Some(found) = all.iter().find(|found| *found.name == *name) {
            found.check(&self.name, unique)?;
            return Ok(index(found.number));
        }
        // Always synced, so that none of its values can be on disk before it.
        let command = Command::Index(self.target(), name.clone(), unique);
        match self.store.ask(command, Durability::Sync)? {
            Outcome::Index(number) => Ok(index(number)),
            Outcome::Written(_) | Outcome::Namespace(_) | Outcome::Fenced(_) | Outcome::Done => {
                unreachable!("the outcome is of the kind that was asked for")
            }
        }
    }

    /// Returns the indexes, in the order in which they were made.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// # use ibid_record::{Options, Store, Unique, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let users = store.namespace("users", Versions::Kept)?;
    /// users.index("email", Unique::Yes)?;
    /// let found = users.indexes()?;
    /// assert_eq!((found[0].name(), found[0].unique(), found.len()), ("email", Unique::Yes, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn indexes(&self) -> Result<Vec<Index>, Error> {
        let all = indexes::all(self.view()?.engine(), self.number)?.into_iter();
        Ok(all
            .map(|found| Index::new(self.clone(), found.name.into(), found.number, found.unique))
            .collect())
    }

    /// Returns the index values of a key, each with the name of its index, in the order in which the indexes were made;
    /// none if it has no body.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn index_values(&self, key: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        indexes::values_of(self.view()?.engine(), self.number, key)
    }

    /// Returns the body under `key`; [`None`] if it has none.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the stored bytes are not those that were written;
    /// [`Error::BodyTooLong`]; [`Error::Incomplete`] in a replica that is receiving all contents;
    /// [`Error::Engine`]. All methods that read return these errors.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.view()?.get(self.number, key)
    }

    /// Opens the body under `key`, of any length; [`None`] if it has none. One that is stored in pieces
    /// ([`Options::whole_bytes_max`](crate::Options::whole_bytes_max)) takes memory for one piece.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let images = store.namespace("images", Versions::Kept)?;
    /// images.put_from(b"disk", &mut std::io::repeat(7).take(10 << 20))?;
    /// let mut copied = Vec::new();
    /// std::io::copy(&mut images.open(b"disk")?.expect("it was stored"), &mut copied)?;
    /// assert_eq!(copied, [7; 10 << 20]);
    /// # use std::io::Read;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(&self, key: &[u8]) -> Result<Option<BodyReader>, Error> {
        Snapshot::new(&self.store)?.open(self, key)
    }

    /// Opens the body of a version, from 1, of any length; [`None`] if there is no such version, or if it deletes the
    /// key.
    ///
    /// # Errors
    /// [`Error::Purged`]; otherwise as [`get`](Self::get).
    pub fn open_version(&self, key: &[u8], version: u32) -> Result<Option<BodyReader>, Error> {
        Snapshot::new(&self.store)?.open_version(self, key, version)
    }

    /// Returns the latest records under several keys at one moment, in the order of `keys`; [`None`]
    /// for a key that has no body. Records that were compressed together are decompressed once.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// ```
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// pages.put(b"ibid", b"in the same place")?;
    /// let [Some(ibid), None] = &pages.get_many(&[b"ibid", b"op. cit."])?[..] else { panic!() };
    /// assert_eq!((&ibid.body[..], ibid.version), (&b"in the same place"[..], 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Record>>, Error> {
        self.view()?.get_many(self.number, keys)
    }

    /// Returns the latest version of a key, which may be a deletion; [`None`] if it has none. Reads no
    /// record.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn latest(&self, key: &[u8]) -> Result<Option<Version>, Error> {
        self.view()?.latest(self.number, key)
    }

    /// Returns the versions of a key that were not purged, oldest first; none if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn versions(&self, key: &[u8]) -> Result<Vec<Version>, Error> {
        self.view()?.versions(self.number, key)
    }

    /// Returns the body of a version, from 1; [`None`] if there is no such version, or if it
    /// deletes the key.
    ///
    /// # Errors
    /// [`Error::Purged`]; otherwise as [`get`](Self::get).
    pub fn get_version(&self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>, Error> {
        self.view()?.get_version(self.number, key, version)
    }

    /// Returns the body that `key` had at a time: that of the last version stored then or before.
    /// [`None`] if it had none.
    ///
    /// # Errors
    /// [`Error::Purged`] if that version was purged; [`Error::TimeUnknown`] if it may be one without a
    /// time; [`Error::VersionsNotKept`] in a namespace that keeps only the latest versions; otherwise as
    /// [`get`](Self::get).
    ///
    /// ```
    /// use ibid_record::{Batch, Options, Store, Time, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// let (noon, one) = (Time::from_millis(1_795_262_400_000)?, Time::from_millis(1_795_266_000_000)?);
    /// let mut batch = Batch::new();
    /// batch.put(&pages, b"ibid", b"in the same place").at(noon);
    /// batch.put(&pages, b"ibid", b"in the very same place").at(one);
    /// store.commit(batch)?;
    /// let body = pages.get_as_of(b"ibid", Time::from_millis(one.as_millis() - 1)?)?;
    /// assert_eq!(body.as_deref(), Some(&b"in the same place"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_as_of(&self, key: &[u8], time: Time) -> Result<Option<Vec<u8>>, Error> {
        self.check_versions_kept()?;
        self.view()?.get_as_of(self.number, key, time)
    }

    /// Returns the version of a key that was the latest at a time, which may be a deletion; [`None`] if
    /// it had none yet. Reads no record.
    ///
    /// # Errors
    /// As [`get_as_of`](Self::get_as_of).
    pub fn version_as_of(&self, key: &[u8], time: Time) -> Result<Option<Version>, Error> {
        self.check_versions_kept()?;
        self.view()?.version_as_of(self.number, key, time)
    }

    /// Returns an iterator over the records whose keys are in a range, in the order of the keys'
    /// bytes or its reverse. It shows the records that were committed at the call, and reads some
    /// of them ahead.
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each record.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use ibid_record::{Direction, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Latest)?;
    /// for key in ["b/2", "a/1", "b/1"] {
    ///     pages.insert(key.as_bytes(), b"")?;
    /// }
    /// let range = (Bound::Included(&b"b/"[..]), Bound::Excluded(&b"b0"[..]));
    /// let found: Vec<_> = pages.scan(range, Direction::Forward)?.collect::<Result<_, _>>()?;
    /// assert_eq!(found.iter().map(|record| &record.key[..]).collect::<Vec<_>>(), [b"b/1", b"b/2"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Result<Record, Error>> + use<>, Error> {
        Ok(Scan::new(self.view()?, self.number, range, direction))
    }

    /// Returns an iterator over the keys in a range with their latest versions, in the order of the
    /// keys' bytes or its reverse. It shows the keys that were there at the call, and reads some of
    /// them ahead. It reads no record, so it is faster than [`scan`](Self::scan).
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each key.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use ibid_record::{Direction, KeyFilter, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// pages.put(b"ibid", b"in the same place")?;
    /// pages.put(b"op. cit.", b"in the work cited")?;
    /// pages.delete(b"ibid")?;
    /// let all = (Bound::Unbounded, Bound::Unbounded);
    /// let deleted: Vec<_> = pages.keys(all, Direction::Forward, KeyFilter::Deleted)?.collect::<Result<_, _>>()?;
    /// assert_eq!((&deleted[0].key[..], deleted[0].latest.version, deleted.len()), (&b"ibid"[..], 2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keys(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        filter: KeyFilter,
    ) -> Result<impl Iterator<Item = Result<KeyState, Error>> + use<>, Error> {
        Ok(Keys::new(self.view()?, self.number, range, direction, filter))
    }

    /// Returns an iterator over the records that were the latest of their keys at a time, as
    /// [`scan`](Self::scan) would have shown them then. After [`Error::Purged`] and
    /// [`Error::TimeUnknown`], which say that nothing can be shown of one key, it goes on with the next.
    ///
    /// # Errors
    /// As [`get_as_of`](Self::get_as_of), for this call and for each record.
    pub fn scan_as_of(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        time: Time,
    ) -> Result<impl Iterator<Item = Result<Record, Error>> + use<>, Error> {
        self.check_versions_kept()?;
        Ok(ScanAsOf::new(self.view()?, self.number, range, direction, time))
    }

    /// Returns an iterator over the keys that had a body at a time, with the versions that were the
    /// latest then: see [`scan_as_of`](Self::scan_as_of). It reads no record.
    ///
    /// # Errors
    /// As [`get_as_of`](Self::get_as_of), for this call and for each key.
    pub fn keys_as_of(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        time: Time,
    ) -> Result<impl Iterator<Item = Result<KeyState, Error>> + use<>, Error> {
        self.check_versions_kept()?;
        Ok(KeysAsOf::new(self.view()?, self.number, range, direction, time))
    }

    /// Returns an iterator over the keys whose latest versions were written after the record
    /// `number`, in the order in which they were written; 0 selects all. It shows the keys that were
    /// there at the call, and reads some of them ahead. It reads the records, which name their keys,
    /// and decodes none.
    ///
    /// # Errors
    /// As [`written_after`](Self::written_after).
    pub fn keys_written_after(
        &self,
        number: u64,
        filter: KeyFilter,
    ) -> Result<impl Iterator<Item = Result<KeyState, Error>> + use<>, Error> {
        Ok(KeysWrittenAfter::new(self.view()?, self.number, number, filter))
    }

    /// Returns an iterator over the records that were written after the record `number`, in the
    /// order in which they were written; 0 selects all. It shows the latest version of each key,
    /// unless the key is deleted. It shows the records that were committed at the call, and reads
    /// some of them ahead.
    ///
    /// # Errors
    /// As [`get`](Self::get), for this call and for each record. A record that the engine lost
    /// without a trace is missing here; [`scan`](Self::scan) notices it.
    pub fn written_after(&self, number: u64) -> Result<impl Iterator<Item = Result<Record, Error>> + use<>, Error> {
        Ok(WrittenAfter::new(self.view()?, self.number, number))
    }

    pub(super) fn view(&self) -> Result<OpenView, Error> {
        self.store.view()
    }

    fn write(&self, key: &[u8], change: Change) -> Result<u64, Error> {
        let number = self.commit(key, change)?;
        Ok(number.expect("an operation that stores a body writes a record"))
    }

    fn commit(&self, key: &[u8], change: Change) -> Result<Option<u64>, Error> {
        let operations = vec![self.operation(key, change)];
        let changes = Changes {
            operations,
            ..Changes::default()
        };
        let written = self.store.commit(changes, self.store.durability)?;
        Ok(written.into_iter().flatten().next())
    }

    /// Returns the namespace for an operation. It does not keep the store open: as the last holder of
    /// a store, the writer would wait for its own end.
    pub(super) fn target(&self) -> Target {
        Target {
            name: self.name.clone(),
            number: self.number,
            versions_kept: self.versions == Versions::Kept,
        }
    }

    /// Returns an operation of this namespace.
    pub(super) fn operation(&self, key: &[u8], change: Change) -> Operation {
        Operation::new(self.target(), key.to_vec(), change)
    }

    /// Refuses a namespace of which nothing says what it was before.
    pub(super) fn check_versions_kept(&self) -> Result<(), Error> {
        match self.versions {
            Versions::Kept => Ok(()),
            Versions::Latest => {
                let namespace = self.name.to_string();
                Err(Error::VersionsNotKept { namespace })
            }
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether two are the same namespace of the same store.
    pub(super) fn is_same(&self, other: &Namespace) -> bool {
        Arc::ptr_eq(&self.store, &other.store) && self.number == other.number
    }

    /// Refuses a namespace of another store.
    pub(super) fn check_store(&self, store: &Arc<Shared>) -> Result<(), Error> {
        if Arc::ptr_eq(&self.store, store) {
            return Ok(());
        }
        let name = self.name.to_string();
        Err(Error::ForeignNamespace { name })
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
