//! An index of a namespace.

use std::fmt;
use std::sync::Arc;

use super::namespace::Namespace;
use crate::engine::{Direction, KeyRange};
use crate::error::Error;
use crate::index::{IndexedKey, IndexedRecord, Unique};
use crate::read::indexes::{self, IndexedKeys, IndexedRecords};

/// An index of a namespace, opened by [`Namespace::index`]: finds keys by other values. It keeps the store open, and is
/// cheap to clone.
///
/// Values are any bytes, up to 4096, and are in the order of their bytes. The store does not take them from bodies:
/// [`Batch::index`](crate::Batch::index) gives them with each write. A key has at most 256 in all indexes of its
/// namespace together. An index is about what is there now: it does not know which values a key had before. Each method
/// has a snapshot of its own; [`Snapshot`](crate::Snapshot) has the same methods.
///
/// ```
/// use ibid_record::{Batch, Direction, Error, Options, Prefix, Store, Unique, Versions};
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path(), Options::default())?;
/// let users = store.namespace("users", Versions::Kept)?;
/// let (by_email, by_city) = (users.index("email", Unique::Yes)?, users.index("city", Unique::No)?);
///
/// let mut batch = Batch::new();
/// batch.put(&users, b"1", br#"{"name": "Anna"}"#).index(&by_email, b"anna@example.org").index(&by_city, b"Bern");
/// batch.put(&users, b"2", br#"{"name": "Ben"}"#).index(&by_email, b"ben@example.org").index(&by_city, b"Bern");
/// store.commit(batch)?;
/// assert_eq!(by_email.get(b"ben@example.org")?.as_deref(), Some(&b"2"[..]));
/// let found = by_city.keys(Prefix::new(b"Be").range(), Direction::Backward)?;
/// let keys: Vec<_> = found.map(|found| found.map(|found| found.key)).collect::<Result<_, _>>()?;
/// assert_eq!(keys, [b"2", b"1"]);
///
/// let mut taken = Batch::new();
/// taken.put(&users, b"3", br#"{"name": "Anna"}"#).index(&by_email, b"anna@example.org");
/// assert!(matches!(store.commit(taken), Err(Error::ValueTaken { key, .. }) if key == b"1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Index {
    namespace: Namespace,
    name: Arc<str>,
    number: u8,
    unique: Unique,
}

impl Index {
    pub(super) fn new(namespace: Namespace, name: Arc<str>, number: u8, unique: Unique) -> Self {
        Index {
            namespace,
            name,
            number,
            unique,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the namespace whose keys it finds.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Returns whether each value is of one key at most.
    pub fn unique(&self) -> Unique {
        self.unique
    }

    /// Returns the first key that has a value, in the order of keys; [`None`] if no key has it. In a unique index it is
    /// the only one.
    ///
    /// # Errors
    /// As [`Namespace::get`].
    pub fn get(&self, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let view = self.namespace.view()?;
        indexes::key_of_value(view.engine(), self.namespace.number(), self.of(), value)
    }

    /// Returns an iterator over the keys whose values are in a range, by value and then by key, or the reverse. A key
    /// with several values in the range comes several times. It shows what was there at the call, and reads some of it
    /// ahead. It reads no record.
    ///
    /// # Errors
    /// As [`Namespace::get`], for this call and for each key.
    pub fn keys(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Result<IndexedKey, Error>> + use<>, Error> {
        let (view, namespace) = (self.namespace.view()?, self.namespace.number());
        Ok(IndexedKeys::new(view, namespace, self.number, range, direction))
    }

    /// Returns an iterator over the latest records of the keys whose values are in a range, in the same order as
    /// [`keys`](Self::keys).
    ///
    /// # Errors
    /// As [`Namespace::get`], for this call and for each record.
    ///
    /// ```
    /// use std::ops::Bound;
    /// use ibid_record::{Batch, Direction, Options, Store, Unique, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let users = store.namespace("users", Versions::Kept)?;
    /// let by_city = users.index("city", Unique::No)?;
    /// let mut batch = Batch::new();
    /// batch.put(&users, b"1", b"Anna").index(&by_city, b"Bern");
    /// batch.put(&users, b"2", b"Ben").index(&by_city, b"Zug");
    /// store.commit(batch)?;
    /// let range = (Bound::Included(&b"C"[..]), Bound::Unbounded);
    /// let found: Vec<_> = by_city.scan(range, Direction::Forward)?.collect::<Result<_, _>>()?;
    /// assert_eq!((&found[0].value[..], &found[0].record.body[..], found.len()), (&b"Zug"[..], &b"Ben"[..], 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Result<IndexedRecord, Error>> + use<>, Error> {
        let (view, namespace) = (self.namespace.view()?, self.namespace.number());
        Ok(IndexedRecords::new(view, namespace, self.number, range, direction))
    }

    pub(super) fn number(&self) -> u8 {
        self.number
    }

    /// Returns what a lookup needs to know of it.
    pub(super) fn of(&self) -> (u8, Unique) {
        (self.number, self.unique)
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("namespace", &self.namespace.name())
            .field("name", &self.name)
            .field("unique", &self.unique)
            .finish_non_exhaustive()
    }
}
