//! A limit of bytes that are in memory at once.

use std::sync::{Condvar, Mutex, PoisonError};

/// Bytes and pieces that are in use, and how many may be.
#[derive(Debug)]
pub(super) struct Budget {
    bytes_max: u64,
    count_max: usize,
    used: Mutex<Used>,
    freed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    bytes: u64,
    count: usize,
}

/// A part of a budget, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Share<'b> {
    budget: &'b Budget,
    bytes: u64,
}

impl Budget {
    /// Returns a budget of so many bytes in so many pieces.
    pub(super) fn new(bytes_max: u64, count_max: usize) -> Budget {
        Budget {
            bytes_max,
            count_max,
            used: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    fn has_room(&self, used: Used, bytes: u64) -> bool {
        let fits = used
            .bytes
            .checked_add(bytes)
            .is_some_and(|bytes| bytes <= self.bytes_max);
        // One that is larger than all of the budget takes it alone.
        used.count < self.count_max && (fits || used.bytes == 0)
    }

    /// Takes a share, once there is room for it.
    pub(super) fn take(&self, bytes: u64) -> Share<'_> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.has_room(*used, bytes) {
            used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        used.bytes += bytes;
        used.count += 1;
        Share { budget: self, bytes }
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

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}
