//! The log of commits, and how much of its segments redb has a place in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use super::checkpoint::Frozen;
use super::commit_log::CommitLog;
use super::segments::EARLIER_LOG;

/// A segment is followed by another from this length on, bytes, or from the share below of all segments.
const SEGMENT_BYTES: u64 = 16 << 20;
/// Of so many parts of the length of all segments, one makes a segment long: so there are few however large the store.
const SEGMENTS: u64 = 128;

/// The log, and the checkpoint that is being made of it.
pub(super) struct Journal {
    pub(super) log: CommitLog,
    /// From which length on a segment is followed by another, bytes.
    pub(super) segment_bytes: u64,
    /// Whether values have ever been placed in the log's segment: a snapshot may need one that nothing else does.
    pub(super) had_values: bool,
    /// Whether commits since the last checkpoint began have placed any there.
    pub(super) has_new_values: bool,
    /// When the first of these commits was made.
    pub(super) first_commit: Option<Instant>,
    /// Segments that the log has gone on from since the last checkpoint that redb has.
    pub(super) passed: BTreeSet<u64>,
    /// What is being stored in redb, or is to be.
    pub(super) frozen: Option<Arc<Frozen>>,
}

/// How much of the segments redb has a place in. It changes with each step of a checkpoint.
#[derive(Default)]
pub(super) struct Accounts {
    /// Length of all values that redb has a place of, by segment.
    pub(super) used: BTreeMap<u64, u64>,
    /// Length of the files of the segments before the one that the log is in.
    pub(super) lengths: BTreeMap<u64, u64>,
    /// Segments that were removed, and that redb still has an entry of.
    pub(super) removed: BTreeSet<u64>,
    /// Segments of which nothing can be moved, because something is damaged.
    pub(super) stuck: BTreeSet<u64>,
    /// What redb's file took of the disk when it was opened, bytes.
    pub(super) opened_bytes: u64,
    /// What it took after it was compacted last, bytes; 0 before the first time.
    pub(super) compacted_bytes: u64,
}

/// What a step of a checkpoint has added to the used bytes of segments, or taken from them.
pub(super) type Usage = BTreeMap<u64, i64>;

impl Journal {
    pub(super) fn new(log: CommitLog) -> Self {
        Journal {
            log,
            segment_bytes: SEGMENT_BYTES,
            had_values: false,
            has_new_values: false,
            first_commit: None,
            passed: BTreeSet::new(),
            frozen: None,
        }
    }

    /// Whether the log has to go on in another segment.
    pub(super) fn is_segment_full(&self, accounts: &Accounts) -> bool {
        let all = accounts.lengths.values().sum::<u64>() + self.log.end();
        self.log.segment() == EARLIER_LOG || self.log.end() >= self.segment_bytes.max(all / SEGMENTS)
    }

    /// Goes on in an empty segment.
    pub(super) fn continue_in(&mut self, next: CommitLog, accounts: &mut Accounts) {
        let before = self.log.segment();
        accounts.lengths.insert(before, self.log.end());
        self.passed.insert(before);
        self.log.continue_in(next);
        (self.had_values, self.has_new_values) = (false, false);
    }
}

impl Accounts {
    pub(super) fn used(&self, segment: u64) -> u64 {
        self.used.get(&segment).copied().unwrap_or(0)
    }

    /// Returns what is used of a segment after a step.
    pub(super) fn used_after(&self, segment: u64, usage: &Usage) -> u64 {
        let change = usage.get(&segment).copied().unwrap_or(0);
        self.used(segment).saturating_add_signed(change)
    }

    /// Returns the segments before `end` in which nothing is left, and whose files are still there.
    pub(super) fn unused_before(&self, end: u64) -> Vec<u64> {
        let unused = self.used.range(..end).filter(|&(_, &used)| used == 0);
        let unused = unused.map(|(&segment, _)| segment);
        unused.filter(|segment| !self.removed.contains(segment)).collect()
    }

    /// Takes over what a step has changed.
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
