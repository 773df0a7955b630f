//! Finds the copies that encode a target.

use super::instructions::{copy_cost, write};
use super::refine::Dense;
use super::table::{CHECKED, Table};
use crate::Backend;
use crate::codec::matches::{Match, common_ends};
use crate::codec::scan::for_each_anchor;
use crate::sample::{Interval, sample};

/// Targets with fewer bytes between common prefix and suffix are searched densely, without anchors.
const ANCHORED_MIN: usize = 64;

/// The shortest match worth copying beside an insert, bytes.
const SHORT_MIN: usize = 10;

/// A gap is searched for in so many bytes of the base, plus a multiple of its length.
const NEARBY: usize = 64;
const NEARBY_FACTOR: usize = 8;

/// Buffers and tables for finding copies.
#[derive(Debug)]
pub(crate) struct AnchorEncoder {
    backend: Backend,
    positions: Vec<u32>,
    table: Table,
    dense: Dense,
    /// Matches by position in the target: first the long ones, then also the short ones between.
    long: Vec<Match>,
    pub(super) matches: Vec<Match>,
}

impl AnchorEncoder {
    pub(crate) fn new(backend: Backend) -> AnchorEncoder {
        AnchorEncoder {
            backend,
            positions: Vec::new(),
            table: Table::default(),
            dense: Dense::default(),
            long: Vec::new(),
            matches: Vec::new(),
        }
    }

    /// Appends the body of the delta.
    pub(crate) fn encode(&mut self, interval: Interval, base: &[u8], target: &[u8], out: &mut Vec<u8>) {
        let (first, last) = common_ends(base, target, SHORT_MIN);
        self.long.clear();
        self.long.extend(first);
        let from = first.map_or(0, |found| found.length as usize);
        let end = last.map_or(target.len(), |found| found.target as usize);
        self.find_by_anchors(interval, base, target, from, end);
        self.long.extend(last);
        self.search_gaps(base, target);
        self.drop_costly();
        write(&self.matches, target, out);
    }

    /// Adds the matches that the base's anchors find between two positions of the target.
    fn find_by_anchors(&mut self, interval: Interval, base: &[u8], target: &[u8], from: usize, until: usize) {
        if until - from < ANCHORED_MIN || base.len() < CHECKED {
            return;
        }
        self.positions.clear();
        sample(self.backend, interval, base, 0, &mut self.positions);
        self.table.fill(base, &self.positions);

        let (table, long) = (&self.table, &mut self.long);
        for_each_anchor(
            (self.backend, interval),
            target,
            from..until,
            &mut self.positions,
            |taken, anchor| {
                let found = table.longest(base, &target[..until], taken, anchor)?;
                long.push(found);
                Some(found)
            },
        );
    }

    /// Fills `matches` with `long` and the matches that a dense search finds between.
    fn search_gaps(&mut self, base: &[u8], target: &[u8]) {
        self.matches.clear();
        let mut last = Match {
            base: 0,
            target: 0,
            length: 0,
        };
        let end = Match {
            base: base.len() as u32,
            target: target.len() as u32,
            length: 0,
        };
        for &next in self.long.iter().chain([&end]) {
            let gap = &target[last.target_end() as usize..next.target as usize];
            if gap.len() >= SHORT_MIN {
                // Search the base between the same two neighbours, or after the first if they are
                // not in order there. Search not much more than the gap's length, so that many
                // small gaps take no more time than a large one.
                let from = last.base_end() as usize;
                let most = base.len().min(from + NEARBY + NEARBY_FACTOR * gap.len());
                let until = if next.base as usize >= from {
                    most.min(next.base as usize)
                } else {
                    most
                };
                self.dense.search(
                    &base[from..until],
                    gap,
                    (from as u32, last.target_end()),
                    SHORT_MIN,
                    &mut self.matches,
                );
            }
            if next.length > 0 {
                self.matches.push(next);
            }
            last = next;
        }
    }

    /// Joins matches that continue each other, and drops those that take more bytes to write than
    /// to insert.
    pub(super) fn drop_costly(&mut self) {
        let mut read = 0;
        let mut kept = 0_usize;
        for at in 0..self.matches.len() {
            let found = self.matches[at];
            if let Some(before) = kept.checked_sub(1).map(|before| self.matches[before])
                && before.target_end() == found.target
                && before.base_end() == found.base
            {
                self.matches[kept - 1].length += found.length;
                read = i64::from(found.base_end());
                continue;
            }
            let cost = copy_cost(i64::from(found.base) - read, found.length);
            if found.length as usize > cost {
                self.matches[kept] = found;
                kept += 1;
                read = i64::from(found.base_end());
            }
        }
        self.matches.truncate(kept);
    }

    pub(crate) fn memory(&self) -> usize {
        self.positions.capacity() * size_of::<u32>()
            + (self.long.capacity() + self.matches.capacity()) * size_of::<Match>()
            + self.table.memory()
            + self.dense.memory()
    }
}
