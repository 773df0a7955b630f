//! A storage that was not asked yet whether the key is there with which its repository was opened.
//!
//! The key is a copy in the local cache. A key that was removed from the repository must open it no more. So nothing is
//! read and nothing is stored before the storage has shown that it is there: by the first list of several folders, in
//! which `keys/` takes no request of its own, or else by its size. Its id is random, and drawn for one file: a file of
//! this name is that key. Only a session may be stored before, since a backup must list what there is after that.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use ibid_format::{FileId, slot};
use ibid_storage::{Archives, Error as StorageError, ErrorKind, Locks, Name, Operation, Storage};

use crate::layout::{folder, name_in};

type StorageResult<T> = std::result::Result<T, StorageError>;

/// What is known of the key.
const UNKNOWN: u8 = 0;
const THERE: u8 = 1;
const GONE: u8 = 2;

/// The source of an error that says that the key is gone.
#[derive(Debug)]
struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key was removed")
    }
}

impl std::error::Error for Gone {}

/// Returns whether an error says that the key is gone.
pub(crate) fn is_gone(error: &StorageError) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Gone>())
}

/// Such a storage.
pub(crate) struct Confirming {
    storage: Arc<dyn Storage>,
    key: Name,
    known: AtomicU8,
}

impl Confirming {
    pub(crate) fn new(storage: Arc<dyn Storage>, key: FileId) -> Confirming {
        Confirming {
            storage,
            key: name_in(folder::KEYS, key),
            known: AtomicU8::new(UNKNOWN),
        }
    }

    fn known(&self) -> u8 {
        self.known.load(Ordering::Acquire)
    }

    /// Notes whether a file of this size is there. What was known before stays.
    fn note(&self, size: Option<u64>) {
        let found = if size == Some(slot::LIMIT) { THERE } else { GONE };
        let _ = self
            .known
            .compare_exchange(UNKNOWN, found, Ordering::AcqRel, Ordering::Acquire);
    }

    fn gone(&self) -> StorageResult<()> {
        match self.known() {
            GONE => Err(
                StorageError::new(ErrorKind::NotFound, Operation::Get, Some(&self.key), self.location())
                    .with_source(Gone),
            ),
            _ => Ok(()),
        }
    }

    /// Asks for the key if nothing is known of it.
    ///
    /// # Errors
    /// If it is gone; those of the storage.
    fn confirm(&self) -> StorageResult<()> {
        if self.known() == UNKNOWN {
            match self.storage.size(&self.key) {
                Ok(size) => self.note(Some(size)),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotAnObject) => self.note(None),
                Err(error) => return Err(error),
            }
        }
        self.gone()
    }

    /// Returns the storage once the key was confirmed.
    fn confirmed(&self) -> StorageResult<&dyn Storage> {
        self.confirm()?;
        Ok(&*self.storage)
    }
}

impl Storage for Confirming {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> StorageResult<()> {
        self.put_noting_repeats(name, parts).map(drop)
    }

    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> StorageResult<bool> {
        match name.is_in(folder::SESSIONS) {
            true => self.gone()?,
            false => self.confirm()?,
        }
        self.storage.put_noting_repeats(name, parts)
    }

    fn put_data(&self, name: &Name, parts: &[&[u8]]) -> StorageResult<()> {
        self.confirmed()?.put_data(name, parts)
    }

    fn get(&self, name: &Name, limit: u64) -> StorageResult<Vec<u8>> {
        self.confirmed()?.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> StorageResult<()> {
        self.confirmed()?.read_at(name, offset, buffer)
    }

    fn size(&self, name: &Name) -> StorageResult<u64> {
        self.confirmed()?.size(name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> StorageResult<()> {
        self.confirmed()?.list(folder, each)
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> StorageResult<Vec<bool>> {
        if self.known() != UNKNOWN || folders.contains(&folder::KEYS) {
            return self.confirmed()?.list_together(folders, each);
        }
        let (mut found, mut size) = (Vec::new(), None);
        let with_keys = [folders, &[folder::KEYS]].concat();
        let mut whole = self.storage.list_together(&with_keys, &mut |name, bytes| {
            if name == self.key {
                size = Some(bytes);
            }
            if !name.is_in(folder::KEYS) {
                found.push((name, bytes));
            }
        })?;
        match whole.pop() {
            Some(true) => self.note(size),
            _ => self.confirm()?,
        }
        self.gone()?;
        found.into_iter().for_each(|(name, bytes)| each(name, bytes));
        Ok(whole)
    }

    fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> StorageResult<()> {
        self.confirmed()?.list_taken(folder, each)
    }

    fn settle(&self, name: &Name) -> StorageResult<()> {
        self.confirmed()?.settle(name)
    }

    /// Deletes a session in any case: the one that was stored before.
    fn delete(&self, name: &Name) -> StorageResult<()> {
        if !name.is_in(folder::SESSIONS) {
            self.confirm()?;
        }
        self.storage.delete(name)
    }

    fn delete_all(&self, names: &[Name]) -> StorageResult<()> {
        self.confirmed()?.delete_all(names)
    }

    fn tells_absence(&self) -> bool {
        self.storage.tells_absence()
    }

    fn is_append_only(&self) -> bool {
        self.storage.is_append_only()
    }

    fn locks(&self) -> Option<&dyn Locks> {
        self.storage.locks()
    }

    fn archives(&self) -> Option<&dyn Archives> {
        self.storage.archives()
    }

    fn location(&self) -> String {
        self.storage.location()
    }

    fn folder(&self) -> Option<PathBuf> {
        self.storage.folder()
    }

    fn is_remote(&self) -> bool {
        self.storage.is_remote()
    }
}
