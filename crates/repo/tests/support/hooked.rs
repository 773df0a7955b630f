//! Storage of which a test changes some calls.

use std::ops::Deref;
use std::path::PathBuf;

use ibid_storage::{Archives, Error, Name, Storage};

/// What a test does in the calls of a storage. Calls that it does not mention go on as they are.
pub trait Hooks: Send + Sync {
    /// Returns the storage that calls go on to.
    fn inner(&self) -> &dyn Storage;

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.inner().put(name, parts)
    }

    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
        self.put(name, parts).map(|()| false)
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.inner().get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.inner().read_at(name, offset, buffer)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.inner().list(folder, each)
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        self.inner().list_together(folders, each)
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.inner().settle(name)
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        self.inner().delete(name)
    }

    fn folder(&self) -> Option<PathBuf> {
        self.inner().folder()
    }

    fn is_remote(&self) -> bool {
        self.inner().is_remote()
    }

    fn tells_absence(&self) -> bool {
        self.inner().tells_absence()
    }

    fn archives(&self) -> Option<&dyn Archives> {
        self.inner().archives()
    }
}

/// A storage with hooks.
pub struct Hooked<H>(pub H);

impl<H> Deref for Hooked<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.0
    }
}

impl<H: Hooks> Storage for Hooked<H> {
    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, Error> {
        self.0.put_noting_repeats(name, parts)
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.0.put(name, parts)
    }
    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.0.get(name, limit)
    }
    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.0.read_at(name, offset, buffer)
    }
    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.0.inner().size(name)
    }
    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.0.list(folder, each)
    }
    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        self.0.list_together(folders, each)
    }
    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.0.settle(name)
    }
    fn delete(&self, name: &Name) -> Result<(), Error> {
        self.0.delete(name)
    }
    fn archives(&self) -> Option<&dyn Archives> {
        self.0.archives()
    }
    fn location(&self) -> String {
        self.0.inner().location()
    }
    fn folder(&self) -> Option<PathBuf> {
        self.0.folder()
    }
    fn is_remote(&self) -> bool {
        self.0.is_remote()
    }
    fn tells_absence(&self) -> bool {
        self.0.tells_absence()
    }
}
