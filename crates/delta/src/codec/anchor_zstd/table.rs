//! Finds a window in the base.

use crate::window::{FOUND_BY, hash};

/// A hash table with one place in each slot, the last one entered. It takes 4 bytes for each slot,
/// and has two to four slots for each window.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Positions in the base plus one; 0 for none.
    slots: Vec<u32>,
}

impl Table {
    /// Replaces the content with the windows of `base` at `positions`, which ascend.
    pub(super) fn fill(&mut self, base: &[u8], positions: &[u32]) {
        self.slots.clear();
        self.slots.resize((2 * positions.len()).next_power_of_two().max(16), 0);
        let mask = self.slots.len() - 1;
        for &at in positions {
            let Some(window) = base[at as usize..].first_chunk() else {
                break;
            };
            self.slots[hash(window) as usize & mask] = at + 1;
        }
    }

    /// Returns a place in the base that may have the same bytes as the window.
    #[inline]
    pub(super) fn find(&self, window: &[u8; FOUND_BY]) -> Option<usize> {
        let slot = hash(window) as usize & (self.slots.len() - 1);
        self.slots[slot].checked_sub(1).map(|at| at as usize)
    }

    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }
}
