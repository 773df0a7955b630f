//! Storage that records reads.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use ibid_storage::{Error, Memory, Name, Storage};

use super::hooked::{Hooked, Hooks};

/// Records which bytes of which objects are read.
pub struct Reads {
    inner: Arc<Memory>,
    is_remote: bool,
    ranges: Mutex<Vec<(Name, Range<u64>)>>,
}

impl Reads {
    /// Returns a storage that is reached over a network, or not.
    pub fn of(inner: Arc<Memory>, is_remote: bool) -> Hooked<Reads> {
        Hooked(Reads {
            inner,
            is_remote,
            ranges: Mutex::default(),
        })
    }

    /// Returns what was read since the last call.
    pub fn take(&self) -> Vec<(Name, Range<u64>)> {
        std::mem::take(&mut self.ranges.lock().unwrap())
    }
}

impl Hooks for Reads {
    fn inner(&self) -> &dyn Storage {
        self.inner.as_ref()
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let range = offset..offset + buffer.len() as u64;
        self.ranges.lock().unwrap().push((name.clone(), range));
        self.inner.read_at(name, offset, buffer)
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }
}
