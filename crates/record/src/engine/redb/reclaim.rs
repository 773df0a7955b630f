//! Giving back what is not used of segments: what is left in one is written into the log again, and its file removed.

use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use ibid_format::record::{COMMIT_LOG_COMMITS_AT, StoredValue, ValuePlace};
use redb::ReadableDatabase;

use super::stored::each_stored;
use super::{Journal, Redb, Wait, definition, is_placed, segments, unless_it_panics};
use crate::engine::{Commit, Direction, EngineError, Pause, Table, Transaction};

/// Bytes that are moved in one commit, so that writers do not wait long.
const MOVED_BYTES: u64 = 1 << 20;
/// Places that are looked for at once, so that they take little memory.
const PLACES: usize = 1 << 16;

/// A file of redb that takes less of the disk is compacted by the way: that takes about 100 ms.
const SMALL_FILE_BYTES: u64 = 64 << 20;
/// What redb's file may take more than after it was compacted: a quarter and so many bytes.
const SLACK_BYTES: u64 = 1 << 20;

/// How often it is tried while snapshots are open, and the pause between.
const COMPACTING_TRIES: u32 = 20;
const COMPACTING_PAUSE: Duration = Duration::from_millis(5);

/// A value that is to be moved.
struct Found {
    table: Table,
    key: Vec<u8>,
    place: ValuePlace,
}

impl Journal {
    /// Returns the segment before `end` whose rest costs least to move, if too much of all segments is unused.
    fn worth_moving(&self, end: u64, thorough: bool) -> Option<u64> {
        let used: u64 = self.used.values().sum();
        let unused_max = match thorough {
            true => self.segment_bytes / 32 + used / 64,
            false => self.segment_bytes / 4 + used / 16,
        };
        let unused = |(&segment, &length): (&u64, &u64)| {
            let unused = length.saturating_sub(COMMIT_LOG_COMMITS_AT + self.used(segment));
            (segment, unused, length.max(1))
        };
        let all: u64 = self.lengths.iter().map(unused).map(|(_, unused, _)| unused).sum();
        if all <= unused_max {
            return None;
        }
        let others = self.lengths.iter().map(unused);
        let parts = if thorough { 32 } else { 8 };
        let is_worth_it = |&(segment, unused, length): &(u64, u64, u64)| {
            segment < end && unused > length / parts && !self.stuck.contains(&segment)
        };
        let others = others.filter(is_worth_it);
        let most = others.max_by_key(|&(_, unused, length)| u128::from(unused) * 1000 / u128::from(length));
        most.map(|(segment, _, _)| segment)
    }

    /// Returns the segments that are not used completely, but for the log's own.
    fn with_unused(&self) -> Vec<u64> {
        let is_unused = |(segment, length): &(&u64, &u64)| **length > COMMIT_LOG_COMMITS_AT + self.used(**segment);
        self.lengths
            .iter()
            .filter(is_unused)
            .map(|(segment, _)| *segment)
            .collect()
    }

    /// Whether much of the log's own segment is not used.
    fn is_worn(&self) -> bool {
        let length = self.log.end() - COMMIT_LOG_COMMITS_AT;
        let unused = length.saturating_sub(self.used(self.log.segment()));
        unused > self.segment_bytes / 32 && unused > length / 8
    }
}

impl Redb {
    /// Moves what is left in segments of which much is not used; if `thorough`, also from the log's own segment and
    /// those of which little is unused. Calls `pause` after each commit with the bytes that it moved; it may end the
    /// work.
    pub(super) fn reclaim_segments(&self, thorough: bool, pause: Pause<'_>) -> Result<(), EngineError> {
        if thorough && self.lock_journal().is_worn() {
            self.checkpoint(true, Wait::No)?;
        }
        // What is moved is not moved again.
        let end = self.lock_journal().log.segment();
        loop {
            let Some(segment) = self.lock_journal().worth_moving(end, thorough) else {
                break;
            };
            if self.move_segment(segment, pause)?.is_break() {
                return Ok(());
            }
        }
        let has_unused = self.lock_journal().unused().next().is_some();
        if has_unused {
            self.checkpoint(false, Wait::No)?;
            self.wait_for_checkpoint()?;
        }
        if thorough { self.compact_small_file() } else { Ok(()) }
    }

    /// Moves what is left in all segments of which anything is not used, and removes them. Returns whether it could:
    /// what is damaged cannot be moved.
    pub(super) fn reclaim_all(&self) -> Result<bool, EngineError> {
        self.checkpoint(true, Wait::AndGiveBack)?;
        // What is moved is in segments behind these.
        let worn: Vec<u64> = self.lock_journal().with_unused();
        for segment in worn {
            // It goes on to the end.
            let _ = self.move_segment(segment, &mut |_| ControlFlow::Continue(()))?;
        }
        self.checkpoint(false, Wait::AndGiveBack)?;
        Ok(self.lock_journal().stuck.is_empty())
    }

    /// Compacts redb's file if it has grown much since the last time, and is so small that no writer waits long.
    fn compact_small_file(&self) -> Result<(), EngineError> {
        let before = self.lock_journal().compacted_bytes;
        match self.occupied_bytes()? {
            ..SMALL_FILE_BYTES => self.compact_if_grown(before),
            _ => Ok(()),
        }
    }

    /// Compacts redb's file if it has grown much since it was opened, or since the last time.
    pub(super) fn compact_grown_file(&self) -> Result<(), EngineError> {
        let before = {
            let journal = self.lock_journal();
            match journal.compacted_bytes {
                0 => journal.opened_bytes,
                compacted => compacted,
            }
        };
        self.compact_if_grown(before)
    }

    /// Compacts redb's file if it takes much more of the disk than so many bytes.
    fn compact_if_grown(&self, before: u64) -> Result<(), EngineError> {
        if self.occupied_bytes()? < before + before / 4 + SLACK_BYTES {
            return Ok(());
        }
        if self.readers.as_ref().is_some_and(|readers| readers.are_there()) {
            return Ok(()); // those of other processes stay longer
        }
        // Readers come and go: some moment there is none.
        for _ in 0..COMPACTING_TRIES {
            if self.compact_redb()? {
                break;
            }
            std::thread::sleep(COMPACTING_PAUSE);
        }
        Ok(())
    }

    /// Writes what is left in a segment into the log again. Its file is removed once redb's file is synced.
    fn move_segment(&self, segment: u64, pause: Pause<'_>) -> Result<ControlFlow<()>, EngineError> {
        let moved = self.move_values(segment, pause)?;
        if moved.is_continue() {
            let journal = &mut *self.lock_journal();
            if journal.used(segment) > 0 {
                // What is missing or damaged can't be moved, and stays for whoever can mend it.
                journal.stuck.insert(segment);
            } else {
                journal.lengths.remove(&segment);
            }
        }
        Ok(moved)
    }

    /// Writes all values of a segment into the log again.
    fn move_values(&self, segment: u64, pause: Pause<'_>) -> Result<ControlFlow<()>, EngineError> {
        for table in Table::ALL.into_iter().filter(|table| is_placed(*table)) {
            let mut after = None;
            loop {
                let (found, last) = self.values_in(segment, table, after.as_deref())?;
                let mut rest = &found[..];
                while !rest.is_empty() {
                    let mut bytes = 0;
                    let mut fits = |found: &Found| {
                        let fits = bytes == 0 || bytes + found.place.length <= MOVED_BYTES;
                        bytes += found.place.length;
                        fits
                    };
                    let count = rest.iter().take_while(|found| fits(found)).count();
                    let (part, others) = rest.split_at(count);
                    rest = others;
                    self.move_part(part)?;
                    if pause(part.iter().map(|found| found.place.length).sum()).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                after = last;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns values of a table that are in a segment, in the order of their places, behind the key `after`; and the
    /// key to go on behind, if there may be more.
    fn values_in(
        &self,
        segment: u64,
        table: Table,
        after: Option<&[u8]>,
    ) -> Result<(Vec<Found>, Option<Vec<u8>>), EngineError> {
        let mut all = Vec::new();
        let mut last = None;
        unless_it_panics(&self.path, || {
            let read = self.with_database(redb::Database::begin_read);
            let read = read.map_err(|error| self.failed("read", error.into()))?;
            let opened = read.open_table(definition(table));
            let opened = opened.map_err(|error| self.failed("read", error.into()))?;
            let keys = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
            each_stored(&opened, &self.path, keys, Direction::Forward, &mut |key, stored| {
                if let Ok(StoredValue::Placed(place)) = StoredValue::decode(stored)
                    && place.segment == segment
                {
                    let key = key.to_vec();
                    all.push(Found { table, key, place });
                }
                if all.len() < PLACES {
                    return Ok(ControlFlow::Continue(()));
                }
                last = Some(key.to_vec());
                Ok(ControlFlow::Break(()))
            })
        })?;
        all.sort_unstable_by_key(|found| found.place.offset);
        Ok((all, last))
    }

    /// Moves values, unless they have changed since they were found.
    fn move_part(&self, part: &[Found]) -> Result<(), EngineError> {
        self.transact_redb(Commit::Unsynced, &mut |transaction| {
            for Found { table, key, place } in part {
                if transaction.place(*table, key)? != Some(*place) {
                    continue;
                }
                let mut value = Vec::new();
                segments::show(&transaction.segments, *place, transaction.path, &mut |bytes| {
                    value.extend_from_slice(bytes);
                })?;
                if value.len() as u64 == place.length {
                    transaction.put(*table, key, &value)?;
                }
            }
            Ok(())
        })
    }
}
