//! A limit of bytes that are in memory at once.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes and pieces that are in use, and how many may be.
#[derive(Debug)]
pub(super) struct Budget {
    count_max: usize,
    used: Mutex<Used>,
    freed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    bytes_max: u64,
    bytes: u64,
    count: usize,
}

/// A part of a budget, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Share<B: Deref<Target = Budget>> {
    budget: B,
    bytes: u64,
}

impl Budget {
    /// Returns a budget of so many bytes in so many pieces.
    pub(super) fn new(bytes_max: u64, count_max: usize) -> Budget {
        Budget {
            count_max,
            used: Mutex::new(Used {
                bytes_max,
                ..Used::default()
            }),
            freed: Condvar::new(),
        }
    }

    /// Sets how many bytes may be in use from now on.
    pub(super) fn limit(&self, bytes_max: u64) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).bytes_max = bytes_max;
        self.freed.notify_all();
    }

    fn has_room(&self, used: Used, bytes: u64) -> bool {
        let fits = used
            .bytes
            .checked_add(bytes)
            .is_some_and(|bytes| bytes <= used.bytes_max);
        // One that is larger than all of the budget takes it alone.
        used.count < self.count_max && (fits || used.bytes == 0)
    }

    /// Takes a share, once there is room for it.
    pub(super) fn take(&self, bytes: u64) -> Share<&Budget> {
        self.wait(bytes);
        Share { budget: self, bytes }
    }

    /// Takes a share for as long as the holder likes, once there is room for it.
    pub(super) fn take_shared(self: &Arc<Budget>, bytes: u64) -> Share<Arc<Budget>> {
        self.wait(bytes);
        let budget = self.clone();
        Share { budget, bytes }
    }

    fn wait(&self, bytes: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.has_room(*used, bytes) {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        used.bytes += bytes;
        used.count += 1;
    }

    /// Takes a share if there is room for it now. It is given back with [`give`](Budget::give).
    pub(super) fn try_take(&self, bytes: u64) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.has_room(*used, bytes) {
            return false;
        }
        used.bytes += bytes;
        used.count += 1;
        true
    }

    /// Gives back a share.
    pub(super) fn give(&self, bytes: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.bytes -= bytes;
        used.count -= 1;
        self.freed.notify_all();
    }
}

impl<B: Deref<Target = Budget>> Drop for Share<B> {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}
