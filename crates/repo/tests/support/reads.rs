//! Storage that records reads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ibid_storage::{Error, Memory, Name, Storage};

use super::hooked::{Hooked, Hooks};

/// Counts the reads of each object by offset.
pub struct Reads {
    inner: Arc<Memory>,
    counts: Mutex<BTreeMap<(Name, u64), u32>>,
}

impl Reads {
    pub fn of(inner: Arc<Memory>) -> Hooked<Reads> {
        let counts = Mutex::default();
        Hooked(Reads { inner, counts })
    }

    /// Returns the number of reads of each object by offset, since the last call.
    pub fn take(&self) -> BTreeMap<(Name, u64), u32> {
        std::mem::take(&mut self.counts.lock().unwrap())
    }
}

impl Hooks for Reads {
    fn inner(&self) -> &dyn Storage {
        self.inner.as_ref()
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        *self.counts.lock().unwrap().entry((name.clone(), offset)).or_default() += 1;
        self.inner.read_at(name, offset, buffer)
    }
}
