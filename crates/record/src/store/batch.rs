//! What is to be done, all or nothing.

use std::sync::Arc;

use super::Namespace;

/// Changes that are made together, in any namespaces of one store;
/// [`Store::commit`](crate::Store::commit) makes them.
///
/// They take effect in order: a later one sees those before it.
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
    pub(crate) operations: Vec<(Namespace, Operation)>,
}

impl Batch {
    /// Nothing to do yet.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Stores `body` under `key`, which has no record.
    pub fn insert(&mut self, namespace: &Namespace, key: &[u8], body: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Insert(body.into()))
    }

    /// Stores `body` under `key`, which has a record.
    pub fn update(&mut self, namespace: &Namespace, key: &[u8], body: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Update(body.into()))
    }

    /// Stores `body` under `key`, whether it has a record or not.
    pub fn put(&mut self, namespace: &Namespace, key: &[u8], body: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Put(body.into()))
    }

    /// Removes the record of `key`, which has one. Where versions are kept, this is a version too,
    /// and those before it stay.
    pub fn delete(&mut self, namespace: &Namespace, key: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Delete)
    }

    /// Removes `key` with all its versions. It has some, if only that of a deletion.
    pub fn purge(&mut self, namespace: &Namespace, key: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Purge)
    }

    /// Says that what the last change stores is like the latest record under another key of the
    /// same namespace, or was made of it: a reply of what it quotes, a copy of its
    /// original. That saves looking for it, and finds it where many records are alike. Advice: it
    /// changes what is stored, never what is read.
    ///
    /// ```
    /// use ibid_record::{Batch, Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let requests = store.namespace("requests", Versions::Latest)?;
    /// let mut batch = Batch::new();
    /// batch.insert(&requests, b"conversation/1", b"What does ibid mean?");
    /// batch.insert(&requests, b"conversation/2", b"What does ibid mean? In the same place. And op. cit.?").like(b"conversation/1");
    /// store.commit(batch)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn like(&mut self, key: &[u8]) -> &mut Self {
        if let Some((_, operation)) = self.operations.last_mut() {
            operation.like = Some(key.to_vec());
        }
        self
    }

    /// How many changes.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn push(&mut self, namespace: &Namespace, key: &[u8], change: Change) -> &mut Self {
        let target = Target {
            name: namespace.name_shared(),
            number: namespace.number(),
            versions_kept: namespace.keeps() == crate::Versions::Kept,
        };
        let operation = Operation {
            target,
            key: key.to_vec(),
            change,
            like: None,
        };
        self.operations.push((namespace.clone(), operation));
        self
    }
}

/// One change, without what would keep a store open.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) target: Target,
    pub(crate) key: Vec<u8>,
    pub(crate) change: Change,
    /// The key of what it is like, as the caller says.
    pub(crate) like: Option<Vec<u8>>,
}

/// A namespace, as the writer needs it.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) number: u32,
    pub(crate) versions_kept: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Insert(Vec<u8>),
    Update(Vec<u8>),
    Put(Vec<u8>),
    Delete,
    Purge,
}

impl Change {
    /// What is stored, or [`None`] for what removes.
    pub(crate) fn body(&self) -> Option<&[u8]> {
        match self {
            Change::Insert(body) | Change::Update(body) | Change::Put(body) => Some(body),
            Change::Delete | Change::Purge => None,
        }
    }
}
