//! How long it takes to repeat the changes of the log, which decides when there is a checkpoint.

use crate::engine::Table;

/// How many times as long it takes to repeat a change far from the one before: in a large store, each is in pages of
/// its own.
const FAR: u64 = 3;
/// Keys that differ only in so many bytes at their end are neighbours, mostly on one page.
const NEAR_BYTES: usize = 2;

/// What it takes to repeat changes.
#[derive(Default)]
pub(super) struct Effort {
    /// In changes of neighbours.
    pub(super) units: u64,
    /// The key of each table's last change, without its end.
    last: [Vec<u8>; Table::ALL.len()],
}

impl Effort {
    /// Returns what it takes to repeat a change that follows the last one.
    pub(super) fn units_of(&mut self, table: Table, key: &[u8]) -> u64 {
        let kept = &key[..key.len().saturating_sub(NEAR_BYTES)];
        let last = &mut self.last[table as usize];
        if last == kept {
            return 1;
        }
        last.clear();
        last.extend_from_slice(kept);
        FAR
    }
}
