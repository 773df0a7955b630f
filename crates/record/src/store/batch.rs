//! Several changes that are made together.

use std::sync::Arc;

use super::namespace::Namespace;
use super::shared::Shared;
use crate::error::Error;
use crate::write::request::{Change, Operation};

/// Changes in any namespaces of one store. [`Store::commit`](crate::Store::commit) makes all of
/// them, or none.
///
/// They take effect in order: a later change sees those before it.
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
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Stores `body` under `key`, which must have none.
    pub fn insert(&mut self, namespace: &Namespace, key: &[u8], body: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Insert(body.into()))
    }

    /// Stores `body` under `key`, which must have a body.
    pub fn update(&mut self, namespace: &Namespace, key: &[u8], body: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Update(body.into()))
    }

    /// Stores `body` under `key`, whether it has a body or not.
    pub fn put(&mut self, namespace: &Namespace, key: &[u8], body: &[u8]) -> &mut Self {
        self.push(namespace, key, Change::Put(body.into()))
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

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the operations.
    ///
    /// # Errors
    /// [`Error::ForeignNamespace`] for an operation in a namespace of another store.
    pub(super) fn into_operations(self, store: &Arc<Shared>) -> Result<Vec<Operation>, Error> {
        let mut operations = Vec::with_capacity(self.operations.len());
        for (namespace, operation) in self.operations {
            namespace.check_store(store)?;
            operations.push(operation);
        }
        Ok(operations)
    }

    fn push(&mut self, namespace: &Namespace, key: &[u8], change: Change) -> &mut Self {
        let operation = namespace.operation(key, change);
        self.operations.push((namespace.clone(), operation));
        self
    }
}
