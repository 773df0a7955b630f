//! The log of commits, and how much of its segments is in use.

use std::collections::{BTreeMap, BTreeSet};

use redb::ReadTransaction;

use super::commit_log::CommitLog;
use super::segments::EARLIER_LOG;

/// A segment is followed by another from this length on, bytes, or from the share below of all segments.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Of so many parts of the length of all segments, one makes a segment long: so there are few however large the store.
const SEGMENTS: u64 = 128;

/// The log, and how much of its segments is in use.
pub(super) struct Journal {
    pub(super) log: CommitLog,
    /// Length of all values that redb has a place of, by segment.
    pub(super) used: BTreeMap<u64, u64>,
    /// Length of the files of the segments before the one that the log is in.
    pub(super) lengths: BTreeMap<u64, u64>,
    /// Segments that were removed, and that redb still has an entry of.
    pub(super) removed: BTreeSet<u64>,
    /// Segments of which nothing can be moved, because something is damaged.
    pub(super) stuck: BTreeSet<u64>,
    /// From which length on a segment is followed by another, bytes.
    pub(super) segment_bytes: u64,
    /// What redb's file took of the disk when it was opened, bytes.
    pub(super) opened_bytes: u64,
    /// What it took after it was compacted last, bytes; 0 before the first time.
    pub(super) compacted_bytes: u64,
    /// Whether values have ever been placed in the log's segment: a snapshot may need one that nothing else does.
    pub(super) had_values: bool,
    /// The checkpoint that is being synced.
    pub(super) checkpoint: Option<Checkpoint>,
    /// How many have been begun so.
    pub(super) checkpoints: u64,
}

/// A checkpoint that redb has made, and whose file is being synced. After a crash there is still the one before it.
pub(super) struct Checkpoint {
    /// Which one it is of those since the engine was opened.
    pub(super) number: u64,
    /// What makes redb keep its pages for readers.
    pub(super) pages: Option<ReadTransaction>,
    /// Segments that are not needed once it is on disk.
    pub(super) unused: Vec<u64>,
}

/// What a transaction has added to the used bytes of segments, or taken from them.
pub(super) type Usage = BTreeMap<u64, i64>;

impl Journal {
    pub(super) fn new(log: CommitLog) -> Self {
        Journal {
            log,
            used: BTreeMap::new(),
            lengths: BTreeMap::new(),
            removed: BTreeSet::new(),
            stuck: BTreeSet::new(),
            segment_bytes: SEGMENT_BYTES,
            opened_bytes: 0,
            compacted_bytes: 0,
            had_values: false,
            checkpoint: None,
            checkpoints: 0,
        }
    }

    pub(super) fn used(&self, segment: u64) -> u64 {
        self.used.get(&segment).copied().unwrap_or(0)
    }

    /// Returns what is used of a segment after a transaction.
    pub(super) fn used_after(&self, segment: u64, usage: &Usage) -> u64 {
        let change = usage.get(&segment).copied().unwrap_or(0);
        self.used(segment).saturating_add_signed(change)
    }

    /// Whether the log has to go on in another segment.
    pub(super) fn is_segment_full(&self) -> bool {
        let all = self.lengths.values().sum::<u64>() + self.log.end();
        self.log.segment() == EARLIER_LOG || self.log.end() >= self.segment_bytes.max(all / SEGMENTS)
    }

    /// Returns the segments in which nothing is left, and whose files are still there.
    pub(super) fn unused(&self) -> impl Iterator<Item = u64> {
        let unused = self.used.iter().filter(|&(_, &used)| used == 0);
        let unused = unused.map(|(&segment, _)| segment);
        unused.filter(|segment| *segment != self.log.segment() && !self.removed.contains(segment))
    }

    /// Returns the length of these segments, bytes. They are removed at the next checkpoint.
    pub(super) fn unused_bytes(&self) -> u64 {
        self.unused().filter_map(|segment| self.lengths.get(&segment)).sum()
    }

    /// Takes over what a committed transaction has changed.
    pub(super) fn commit(&mut self, usage: &Usage) {
        for segment in std::mem::take(&mut self.removed) {
            self.used.remove(&segment);
        }
        for &segment in usage.keys() {
            let used = self.used_after(segment, usage);
            self.used.insert(segment, used);
        }
    }
}
