//! Where in the base stands this window?

use crate::window::{FOUND_BY, hash};

/// A place for every window, one window for every slot: the last that was entered. Memory: 4 bytes
/// a slot, two to four slots a window.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Positions in the base plus one; 0: none.
    slots: Vec<u32>,
}

impl Table {
    /// Forgets what it held and takes the windows of `base` at `positions`, which ascend.
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

    /// A place in the base that may have the same bytes as the window.
    #[inline]
    pub(super) fn find(&self, window: &[u8; FOUND_BY]) -> Option<usize> {
        let slot = hash(window) as usize & (self.slots.len() - 1);
        self.slots[slot].checked_sub(1).map(|at| at as usize)
    }

    pub(super) fn memory(&self) -> usize {
        self.slots.capacity() * size_of::<u32>()
    }
}
