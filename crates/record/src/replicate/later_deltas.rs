//! The records that became deltas of the records that are sent.

use std::collections::BTreeMap;

use ibid_format::record::LogEntry;

use crate::engine::Snapshot;
use crate::error::Error;
use crate::log::entries::Entries;

/// Most rewrites that are read ahead of the entries to send.
const REWRITES: usize = 1 << 18;
/// Most log entries that are read for that.
const ENTRIES: u64 = 1 << 20;

/// Bases, each with the record that later became its delta: the encoder found that the two are
/// similar. A replica has the record when it receives the base, so the base can be sent as a delta
/// of it.
#[derive(Default)]
pub(super) struct LaterDeltas {
    by_base: BTreeMap<u64, u64>,
    from: u64,
    until: u64,
}

impl LaterDeltas {
    /// Returns the record that became a delta of `base`.
    pub(super) fn of(&self, base: u64) -> Option<u64> {
        self.by_base.get(&base).copied()
    }

    /// Looks for deltas of the records that the log names from a position on.
    pub(super) fn look(&mut self, read: &dyn Snapshot, from: u64) -> Result<(), Error> {
        if from < self.from || from > self.until {
            *self = LaterDeltas {
                from,
                until: from,
                ..LaterDeltas::default()
            };
        }
        let mut entries = Entries::from(from);
        // Records that were sent are not needed any more, unless a replica asks for them again.
        if let Some((entry, _)) = entries.next(read)?
            && let LogEntry::Batch { record, .. } = LogEntry::decode(&entry)?
        {
            self.by_base = self.by_base.split_off(&record);
            self.from = from;
        }
        let mut entries = Entries::from(self.until);
        while self.by_base.len() < REWRITES
            && self.until < from + ENTRIES
            && let Some((entry, _)) = entries.next(read)?
        {
            self.until = entries.position();
            if let LogEntry::Rewrites { rewrites, .. } = LogEntry::decode(&entry)? {
                // Others are stored whole.
                for (number, base) in rewrites.into_iter().filter(|(number, base)| number != base) {
                    // The newest of several deltas: the others are further back in the chain.
                    let known = self.by_base.entry(base).or_default();
                    *known = (*known).max(number);
                }
            }
        }
        Ok(())
    }
}
