//! Several changes that are made together.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::body_writer::NewBody;
use super::index::Index;
use super::namespace::Namespace;
use super::pieces::Draft;
use super::shared::Shared;
use crate::condition::Condition;
use crate::error::Error;
use crate::time::Time;
use crate::write::request::{Change, Changes, Operation, Requirement};

/// Changes in any namespaces of one store, and conditions. [`Store::commit`](crate::Store::commit)
/// makes all changes if all conditions hold, or else none.
///
/// They take effect in order: a later change or condition sees the changes before it. A body that you own
/// (`Vec<u8>`) is not copied.
///
/// ```
/// use ibid_record::{Batch, Options, Store, Versions};
/// # let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path(), Options::default())?;
/// let (pages, authors) = (store.namespace("pages", Versions::Kept)?, store.namespace("authors", Versions::Latest)?);
///
/// let mut batch = Batch::new();
/// batch.insert(&pages, b"ibid", b"in the same place").insert(&authors, b"ibid", b"anonymous");
/// store.commit(batch)?;
///
/// let mut refused = Batch::new();
/// refused.update(&pages, b"ibid", b"where it was before").insert(&authors, b"ibid", b"twice");
/// assert!(store.commit(refused).is_err());
/// assert_eq!(pages.get(b"ibid")?.as_deref(), Some(&b"in the same place"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Batch {
    operations: Vec<(Namespace, Operation)>,
    requirements: Vec<(Namespace, Requirement)>,
    /// What holds the bodies in pieces until the batch is committed.
    drafts: Vec<Arc<Draft>>,
    /// The first value that was given for an index of another namespace.
    misplaced: Option<Index>,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Stores `body` under `key`, which must have none.
    pub fn insert<'b>(&mut self, namespace: &Namespace, key: &[u8], body: impl Into<NewBody<'b>>) -> &mut Self {
        self.store(namespace, key, body.into(), Change::Insert)
    }

    /// Stores `body` under `key`, which must have a body.
    pub fn update<'b>(&mut self, namespace: &Namespace, key: &[u8], body: impl Into<NewBody<'b>>) -> &mut Self {
        self.store(namespace, key, body.into(), Change::Update)
    }

    /// Stores `body` under `key`, whether it has a body or not.
    pub fn put<'b>(&mut self, namespace: &Namespace, key: &[u8], body: impl Into<NewBody<'b>>) -> &mut Self {
        self.store(namespace, key, body.into(), Change::Put)
    }

    /// Deletes `key`, which must have a body. In a namespace that keeps versions the deletion is
    /// also a version, and earlier versions stay.
    pub fn delete(&mut self, namespace: &Namespace, key: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Delete)
    }

    /// Removes `key` with all its versions. It must have at least one; a deletion counts.
    pub fn purge(&mut self, namespace: &Namespace, key: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Purge)
    }

    /// Removes some versions of `key`, before the latest: see [`Namespace::purge_versions`].
    pub fn purge_versions(&mut self, namespace: &Namespace, key: &[u8], versions: RangeInclusive<u32>) -> &mut Self {
        let (from, to) = versions.into_inner();
        self.push(namespace, key, Change::PurgeVersions { from, to })
    }

    /// Gives the version that the last change stores this time, instead of that of the commit. It must
    /// not be before the time of the key's version before it.
    ///
    /// A time in the future is not refused. The key's next version gets at least the same.
    pub fn at(&mut self, time: Time) -> &mut Self {
        if let Some((_, operation)) = self.operations.last_mut() {
            operation.time = time.as_millis();
        }
        self
    }

    /// Lets the body of the last change expire at a time: the key is removed then, with all its
    /// versions, as [`Retention::lifetime`](crate::Retention::lifetime) does. The next version of the
    /// key has its own time, or none. The store removes keys in the background: a key may be there for
    /// a few minutes longer.
    pub fn expire_at(&mut self, time: Time) -> &mut Self {
        if let Some((_, operation)) = self.operations.last_mut()
            && operation.change.body().is_some()
        {
            operation.expires = time.as_millis();
        }
        self
    }

    /// Sets the index values of `key`, which must have a body, without storing a version: to those that
    /// [`index`](Self::index) gives after this. So a new index learns of keys that are there.
    ///
    /// ```
    /// use ibid_record::{Batch, Options, Store, Unique, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let users = store.namespace("users", Versions::Kept)?;
    /// users.put(b"1", b"Anna")?;
    /// let by_name = users.index("name", Unique::No)?;
    /// let mut batch = Batch::new();
    /// batch.set_index_values(&users, b"1").index(&by_name, b"Anna");
    /// store.commit(batch)?;
    /// assert_eq!((by_name.get(b"Anna")?, users.versions(b"1")?.len()), (Some(b"1".to_vec()), 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_index_values(&mut self, namespace: &Namespace, key: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::SetIndexValues)
    }

    /// Lets the key of the last change be found by `value`, at most 4096 bytes, in an index of its namespace. A key may
    /// have several values in an index, at most 256 in all.
    ///
    /// A change that stores a body states all values of its key: the key loses those that it had before. So a body that
    /// is stored without values is not found by any. Deleting, purging and expiry remove them, too.
    ///
    /// In a [unique](crate::Unique::Yes) index the batch is refused if two keys would have the value after it. Two keys
    /// may exchange their values in one batch.
    ///
    /// [`Index`] has an example.
    pub fn index(&mut self, index: &Index, value: &[u8]) -> &mut Self {
        match self.operations.last_mut() {
            Some((namespace, operation)) if namespace.is_same(index.namespace()) => {
                operation.values.insert((index.number(), value.to_vec()));
            }
            Some(_) | None => {
                self.misplaced.get_or_insert_with(|| index.clone());
            }
        }
        self
    }

    /// Makes the batch depend on the state of a key: if it is in another one, the batch is refused
    /// with [`Error::ConditionFailed`], and nothing of it is done. The batch may change the key or
    /// not.
    ///
    /// No other change comes between the check and the changes of the batch. If you require the
    /// version that you have read, you overwrite no version that you have not seen:
    ///
    /// ```
    /// use ibid_record::{Batch, Condition, Error, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let (pages, titles) = (store.namespace("pages", Versions::Kept)?, store.namespace("titles", Versions::Latest)?);
    /// pages.put(b"ibid", b"in the same place")?;
    ///
    /// let edit = || {
    ///     let mut batch = Batch::new();
    ///     batch.require(&pages, b"ibid", Condition::Version(1)).put(&pages, b"ibid", b"in the very same place");
    ///     batch.require(&titles, b"Ibid.", Condition::Absent).put(&titles, b"Ibid.", b"ibid");
    ///     batch
    /// };
    /// store.commit(edit())?;
    /// let refused = store.commit(edit()).unwrap_err();
    /// let Error::ConditionFailed { key, found: Some(found), .. } = refused else { panic!("{refused}") };
    /// assert_eq!((&key[..], found.version), (&b"ibid"[..], 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn require(&mut self, namespace: &Namespace, key: &[u8], condition: Condition) -> &mut Self {
        let requirement = Requirement {
            target: namespace.target(),
            key: key.to_vec(),
            condition,
            after: self.operations.len(),
        };
        self.requirements.push((namespace.clone(), requirement));
        self
    }

    /// Marks the body of the last change as similar to the latest body of another key in the same
    /// namespace: a reply resembles the message that it quotes, a copy its original. The encoder
    /// then finds that record among many similar ones without a search. The hint may change how the
    /// record is stored, never the body that you read.
    ///
    /// ```
    /// use ibid_record::{Batch, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let requests = store.namespace("requests", Versions::Latest)?;
    /// let mut batch = Batch::new();
    /// batch.insert(&requests, b"conversation/1", b"What does ibid mean?");
    /// let reply = b"What does ibid mean? In the same place. And op. cit.?";
    /// batch.insert(&requests, b"conversation/2", reply).like(b"conversation/1");
    /// store.commit(batch)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn like(&mut self, key: &[u8]) -> &mut Self {
        if let Some((_, operation)) = self.operations.last_mut() {
            operation.like = Some(key.to_vec());
        }
        self
    }

    /// Returns the number of changes, without conditions.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether there are no changes. There may be conditions.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the changes and conditions.
    ///
    /// # Errors
    /// [`Error::ForeignNamespace`] for one in a namespace of another store; [`Error::ForeignIndex`].
    /// Returns the changes, and what must stay until they are committed.
    pub(super) fn into_changes(self, store: &Arc<Shared>) -> Result<(Changes, Vec<Arc<Draft>>), Error> {
        self.drafts.iter().try_for_each(|draft| draft.check_store(store))?;
        if let Some(misplaced) = self.misplaced {
            return Err(Error::ForeignIndex {
                index: misplaced.name().to_owned(),
                namespace: misplaced.namespace().name().to_owned(),
            });
        }
        let changes = Changes {
            operations: of_store(self.operations, store)?,
            requirements: of_store(self.requirements, store)?,
            ..Changes::default()
        };
        Ok((changes, self.drafts))
    }

    fn store(
        &mut self,
        namespace: &Namespace,
        key: &[u8],
        body: NewBody<'_>,
        change: impl FnOnce(Vec<u8>) -> Change,
    ) -> &mut Self {
        let (body, draft) = body.into_stored();
        let in_pieces = draft.is_some();
        self.drafts.extend(draft);
        let operation = Operation {
            in_pieces,
            ..namespace.operation(key, change(body))
        };
        self.operations.push((namespace.clone(), operation));
        self
    }

    fn push(&mut self, namespace: &Namespace, key: &[u8], change: Change) -> &mut Self {
        let operation = namespace.operation(key, change);
        self.operations.push((namespace.clone(), operation));
        self
    }
}

/// Refuses a namespace of another store.
fn of_store<T>(all: Vec<(Namespace, T)>, store: &Arc<Shared>) -> Result<Vec<T>, Error> {
    let of_store = |(namespace, one): (Namespace, T)| namespace.check_store(store).map(|()| one);
    all.into_iter().map(of_store).collect()
}
