//! The records that became deltas of the records that are sent.

use std::sync::Arc;

use ibid_format::record::LogEntry;

use super::answering::{Answering, Similar};
use crate::engine::Snapshot;
use crate::error::Error;
use crate::log::entries::Entries;

/// Most log entries that are read ahead of the entries to send.
const ENTRIES: u64 = 1 << 20;

/// Bases, each with the record that later became its delta: the encoder found that the two are
/// similar. A replica has the record when it receives the base, so the base can be sent as a delta
/// of it.
pub(super) struct LaterDeltas {
    by_base: Similar,
    from: u64,
    until: u64,
}

impl LaterDeltas {
    pub(super) fn new(answering: Arc<Answering>) -> Self {
        LaterDeltas {
            by_base: Similar::new(answering),
            from: 0,
            until: 0,
        }
    }

    /// Returns the record that became a delta of `base`.
    pub(super) fn of(&self, base: u64) -> Option<u64> {
        self.by_base.later(base)
    }

    /// Looks for deltas of the records that the log names from a position on.
    pub(super) fn look(&mut self, read: &dyn Snapshot, from: u64) -> Result<(), Error> {
        if from < self.from || from > self.until {
            (self.from, self.until) = (from, from);
            self.by_base.change(|known| known.clear());
        }
        let mut entries = Entries::from(from);
        // Records that were sent are not needed any more, unless a replica asks for them again.
        if let Some((entry, _)) = entries.next(read)?
            && let LogEntry::Batch { record, .. } = LogEntry::decode(&entry)?
        {
            self.by_base.change(|known| *known = known.split_off(&record));
            self.from = from;
        }
        let mut entries = Entries::from(self.until);
        while self.by_base.has_room()
            && self.until < from + ENTRIES
            && let Some((entry, _)) = entries.next(read)?
        {
            self.until = entries.position();
            if let LogEntry::Rewrites { rewrites, .. } = LogEntry::decode(&entry)? {
                self.by_base.change(|known| {
                    // Others are stored whole.
                    for (number, base) in rewrites.into_iter().filter(|(number, base)| number != base) {
                        // The newest of several deltas: the others are further back in the chain.
                        let known = known.entry(base).or_default();
                        *known = (*known).max(number);
                    }
                });
            }
        }
        Ok(())
    }
}
