//! Storage that records reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ibid_storage::{Error, Memory, Name, Storage};

/// Counts the reads of each object by offset.
pub struct Reads {
    inner: Arc<Memory>,
    counts: Mutex<BTreeMap<(Name, u64), u32>>,
}

impl Reads {
    pub fn of(inner: Arc<Memory>) -> Reads {
        let counts = Mutex::default();
        Reads { inner, counts }
    }

    /// Returns the number of reads of each object by offset, since the last call.
    pub fn take(&self) -> BTreeMap<(Name, u64), u32> {
        std::mem::take(&mut self.counts.lock().unwrap())
    }
}

impl Storage for Reads {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.inner.put(name, parts)
    }
    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.inner.get(name, limit)
    }
    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        *self.counts.lock().unwrap().entry((name.clone(), offset)).or_default() += 1;
        self.inner.read_at(name, offset, buffer)
    }
    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.inner.size(name)
    }
    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.inner.list(folder, each)
    }
    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.inner.settle(name)
    }
    fn delete(&self, name: &Name) -> Result<(), Error> {
        self.inner.delete(name)
    }
    fn location(&self) -> String {
        self.inner.location()
    }
}
