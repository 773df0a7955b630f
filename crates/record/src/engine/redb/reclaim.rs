//! Giving back what is not used of segments: what is left in one is written into the log again, and its file removed.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::time::Duration;

use ibid_format::record::{COMMIT_LOG_COMMITS_AT, StoredValue, ValuePlace};

use super::journal::Accounts;
use super::stored::Stored;
use super::{Shared, is_placed, segments};
use crate::engine::{Commit, Direction, EngineError, Pause, Table, Transaction, Unused};

/// Bytes that are moved in one commit, so that writers do not wait long.
const MOVED_BYTES: u64 = 1 << 20;
/// Places that are looked for at once, so that they take little memory.
const PLACES: usize = 1 << 16;
/// Segments whose values are looked for at once: all keys are read for that.
const SEGMENTS_AT_ONCE: usize = 64;

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

impl Accounts {
    /// Returns the segments before `end` whose rest costs least to move, so many that not too much of all segments is
    /// unused any more; none if it is not.
    pub(super) fn worth_moving(&self, end: u64, segment_bytes: u64, worth: Unused) -> BTreeSet<u64> {
        let used: u64 = self.used.values().sum();
        let (unused_max, parts) = match worth {
            Unused::VeryMuch => (4 * segment_bytes + used / 16, 8),
            Unused::Much => (segment_bytes / 4 + used / 16, 8),
            Unused::Any => (segment_bytes / 32 + used / 64, 32),
        };
        let unused = |(&segment, &length): (&u64, &u64)| {
            let unused = length.saturating_sub(COMMIT_LOG_COMMITS_AT + self.used(segment));
            (segment, unused, length.max(1))
        };
        let mut all: u64 = self.lengths.iter().map(unused).map(|(_, unused, _)| unused).sum();
        let is_worth_it = |&(segment, unused, length): &(u64, u64, u64)| {
            segment < end && unused > length / parts && !self.stuck.contains(&segment)
        };
        let mut worn: Vec<_> = self.lengths.iter().map(unused).filter(is_worth_it).collect();
        worn.sort_by_key(|&(_, unused, length)| std::cmp::Reverse(u128::from(unused) * 1000 / u128::from(length)));
        let is_needed = |&(_, unused, _): &(u64, u64, u64)| {
            let is_too_much = all > unused_max;
            all = all.saturating_sub(unused);
            is_too_much
        };
        // What is moved is there twice until the end.
        let mut moved = 0;
        let is_little = |&(_, unused, length): &(u64, u64, u64)| {
            let is_first = moved == 0;
            moved += length - unused;
            is_first || moved <= 4 * segment_bytes
        };
        let chosen = worn.into_iter().take(SEGMENTS_AT_ONCE).take_while(is_needed);
        chosen.take_while(is_little).map(|(segment, _, _)| segment).collect()
    }

    /// Returns the segments before `end` that are not used completely.
    fn with_unused(&self, end: u64) -> BTreeSet<u64> {
        let lengths = self.lengths.range(..end);
        let worn = lengths.filter(|&(segment, length)| *length > COMMIT_LOG_COMMITS_AT + self.used(*segment));
        worn.map(|(segment, _)| *segment).collect()
    }
}

impl Shared {
    /// Moves what is left in segments of which much is not used, if so much is in all; with [`Unused::Any`] also from
    /// the log's own segment and those of which little is unused. Calls `pause` after each commit with the bytes that
    /// it moved; it may end the work.
    pub(super) fn reclaim_segments(&self, worth: Unused, pause: Pause<'_>) -> Result<(), EngineError> {
        if worth == Unused::Any {
            // What is used is known of the commits that redb has.
            if !self.layers().is_empty() {
                self.checkpoint(false)?;
            }
            if self.is_worn() {
                self.checkpoint(true)?;
            }
        }
        let (end, segment_bytes) = self.first_of_log();
        loop {
            let worn = self.accounts().worth_moving(end, segment_bytes, worth);
            if worn.is_empty() {
                break;
            }
            if self.move_segments(&worn, pause)?.is_break() {
                return Ok(());
            }
        }
        match worth {
            Unused::Any => self.compact_small_file(),
            Unused::VeryMuch | Unused::Much => Ok(()),
        }
    }

    /// Returns the first segment in which the log may have commits that redb does not have, and from which length on
    /// one is followed by another. What is moved is behind it, so it is not moved again.
    fn first_of_log(&self) -> (u64, u64) {
        let journal = self.lock_journal();
        let first = journal.passed.first().copied().unwrap_or(journal.log.segment());
        (first, journal.segment_bytes)
    }

    /// Whether much of the log's own segment is not used.
    fn is_worn(&self) -> bool {
        let journal = self.lock_journal();
        let length = journal.log.end() - COMMIT_LOG_COMMITS_AT;
        let unused = length.saturating_sub(self.accounts().used(journal.log.segment()));
        unused > journal.segment_bytes / 32 && unused > length / 8
    }

    /// Moves what is left in all segments of which anything is not used, and removes them. Returns whether it could:
    /// what is damaged cannot be moved.
    pub(super) fn reclaim_all(&self) -> Result<bool, EngineError> {
        self.checkpoint_and_give_back(true)?;
        // What is moved is in segments behind these.
        let (end, _) = self.first_of_log();
        let worn = self.accounts().with_unused(end);
        // It goes on to the end.
        let _ = self.move_segments(&worn, &mut |_| ControlFlow::Continue(()))?;
        self.checkpoint_and_give_back(false)?;
        Ok(self.accounts().stuck.is_empty())
    }

    /// Compacts redb's file if it has grown much since the last time, and is so small that no writer waits long.
    fn compact_small_file(&self) -> Result<(), EngineError> {
        let before = self.accounts().compacted_bytes;
        match self.occupied_bytes()? {
            ..SMALL_FILE_BYTES => self.compact_if_grown(before),
            _ => Ok(()),
        }
    }

    /// Compacts redb's file if it has grown much since it was opened, or since the last time.
    pub(super) fn compact_grown_file(&self) -> Result<(), EngineError> {
        let before = {
            let accounts = self.accounts();
            match accounts.compacted_bytes {
                0 => accounts.opened_bytes,
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

    /// Writes what is left in segments into the log again. Then redb gets the new places, and the files are removed.
    fn move_segments(&self, worn: &BTreeSet<u64>, pause: Pause<'_>) -> Result<ControlFlow<()>, EngineError> {
        let moved = self.move_values(worn, pause)?;
        if moved.is_continue() {
            self.checkpoint(false)?;
            let accounts = &mut *self.accounts();
            let stuck = worn
                .iter()
                .filter(|segment| accounts.used.get(segment).is_some_and(|used| *used > 0));
            // What is missing or damaged can't be moved, and stays for whoever can mend it.
            accounts.stuck.extend(stuck);
        }
        Ok(moved)
    }

    /// Writes all values of segments into the log again.
    fn move_values(&self, worn: &BTreeSet<u64>, pause: Pause<'_>) -> Result<ControlFlow<()>, EngineError> {
        for table in Table::ALL.into_iter().filter(|table| is_placed(*table)) {
            let mut after = None;
            loop {
                let (found, last) = self.values_in(worn, table, after.as_deref())?;
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

    /// Returns values of a table that are in segments, in the order of their places, behind the key `after`; and the
    /// key to go on behind, if there may be more.
    fn values_in(
        &self,
        worn: &BTreeSet<u64>,
        table: Table,
        after: Option<&[u8]>,
    ) -> Result<(Vec<Found>, Option<Vec<u8>>), EngineError> {
        let mut all = Vec::new();
        let mut last = None;
        let keys = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.snapshot()?
            .each_stored(table, keys, Direction::Forward, &mut |key, stored| {
                if let Ok(StoredValue::Placed(place)) = StoredValue::decode(stored)
                    && worn.contains(&place.segment)
                {
                    let key = key.to_vec();
                    all.push(Found { table, key, place });
                }
                if all.len() < PLACES {
                    return Ok(ControlFlow::Continue(()));
                }
                last = Some(key.to_vec());
                Ok(ControlFlow::Break(()))
            })?;
        all.sort_unstable_by_key(|found| (found.place.segment, found.place.offset));
        Ok((all, last))
    }

    /// Moves values, unless they have changed since they were found.
    fn move_part(&self, part: &[Found]) -> Result<(), EngineError> {
        self.transact(Commit::Unsynced, &mut |transaction| {
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
