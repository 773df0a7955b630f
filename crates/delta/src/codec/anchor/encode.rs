//! Finds the copies that encode a target.

use super::instructions::{copy_cost, inserted, write};
use super::refine::Dense;
use super::table::{CHECKED, Table};
use crate::Backend;
use crate::codec::matches::{Match, common_ends};
use crate::codec::scan::for_each_anchor;
use crate::sample::{Interval, WINDOW, sample};

/// Targets with fewer bytes between common prefix and suffix are searched densely, without anchors.
const ANCHORED_MIN: usize = 64;

/// The shortest match worth copying beside an insert, bytes.
const SHORT_MIN: usize = 10;

/// A gap is searched for in so many bytes of the base, plus a multiple of its length.
const NEARBY: usize = 64;
const NEARBY_FACTOR: usize = 8;

/// Most anchors of a base that are remembered, of about as many bytes of memory as 22 times this number.
const ANCHORS_MAX: usize = 1 << 20;

/// Bytes of a base that are sampled at a time, if it may have more anchors than that.
const SAMPLED_AT_ONCE: usize = 1 << 20;

/// Most matches. Where there are more, the rest of the target is inserted: so many small copies save little.
const MATCHES_MAX: usize = 1 << 21;

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

    /// Appends the body of the delta. Returns whether it has at most `bytes_max` bytes; appends nothing if even the
    /// bytes without a copy are more.
    pub(crate) fn encode(
        &mut self,
        interval: Interval,
        base: &[u8],
        target: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        let (first, last) = common_ends(base, target, SHORT_MIN);
        self.long.clear();
        self.long.extend(first);
        let from = first.map_or(0, |found| found.length as usize);
        let end = last.map_or(target.len(), |found| found.target as usize);
        self.find_by_anchors(interval, base, target, from, end);
        self.long.extend(last);
        self.search_gaps(base, target);
        self.drop_costly();
        if inserted(&self.matches, target) > bytes_max {
            return false;
        }
        write(&self.matches, target, out);
        out.len() - start <= bytes_max
    }

    /// Adds the matches that the base's anchors find between two positions of the target.
    fn find_by_anchors(&mut self, interval: Interval, base: &[u8], target: &[u8], from: usize, until: usize) {
        if until - from < ANCHORED_MIN || base.len() < CHECKED {
            return;
        }
        self.sample_base(interval, base);
        self.table.fill(base, &self.positions);

        let (table, long) = (&self.table, &mut self.long);
        for_each_anchor(
            (self.backend, interval),
            target,
            from..until,
            &mut self.positions,
            |taken, anchor| {
                if long.len() >= MATCHES_MAX {
                    return None;
                }
                let found = table.longest(base, &target[..until], taken, anchor)?;
                long.push(found);
                Some(found)
            },
        );
    }

    /// Fills `positions` with the anchors of the base. If they are too many, every second of them is left out, again
    /// and again: a long base has longer matches, which are found by fewer.
    fn sample_base(&mut self, interval: Interval, base: &[u8]) {
        self.positions.clear();
        let (mut at, mut kept_of) = (0, 1);
        while at < base.len() {
            let end = base.len().min(at + SAMPLED_AT_ONCE);
            let before = self.positions.len();
            // Sample the windows that begin before the end.
            let part = &base[at..base.len().min(end + WINDOW - 1)];
            sample(self.backend, interval, part, at as u32, &mut self.positions);
            keep_one_of(kept_of, before, &mut self.positions);
            if self.positions.len() > ANCHORS_MAX {
                keep_one_of(2, 0, &mut self.positions);
                kept_of *= 2;
            }
            at = end;
        }
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
            if gap.len() >= SHORT_MIN && self.matches.len() < MATCHES_MAX {
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

/// Keeps every `of`th position from index `from` on.
fn keep_one_of(of: usize, from: usize, positions: &mut Vec<u32>) {
    let kept = from + (positions.len() - from).div_ceil(of);
    for at in from..kept {
        positions[at] = positions[from + (at - from) * of];
    }
    positions.truncate(kept);
}
