//! Reading all contents of a store, page by page.

use std::ops::{Bound, ControlFlow};

use ibid_format::record::{LOG_KEY, NEXT_KEY, PageRows, Record};

use crate::engine::{Direction, Snapshot, Table};
use crate::error::Error;
use crate::read::records::Records;

/// Entries of tables that are sent in one message.
pub(super) struct PageBuilder {
    rows: PageRows,
    room: usize,
    is_full: bool,
}

impl PageBuilder {
    /// Returns an empty page with room for `room` bytes. The first entry may be longer.
    pub(super) fn new(room: usize) -> Self {
        PageBuilder {
            rows: PageRows::default(),
            room,
            is_full: false,
        }
    }

    /// Returns the entries.
    pub(super) fn into_rows(self) -> PageRows {
        self.rows
    }

    /// Whether entries were left out, or could be.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds an entry, unless it is too long for what is left.
    fn push(&mut self, number: u8, key: &[u8], value: &[u8]) {
        let bytes = self.rows.bytes() + key.len() + value.len();
        if bytes < self.room || self.rows.bytes() == 0 {
            self.rows.push((number, key, value));
        }
        self.is_full = bytes >= self.room;
    }

    /// Adds entries of a table, from the one after a key on, until the page is full.
    pub(super) fn read(
        &mut self,
        read: &dyn Snapshot,
        records: &Records,
        number: u8,
        table: Table,
        after: &[u8],
    ) -> Result<(), Error> {
        match table {
            Table::Records => return self.read_records(read, records, number, after),
            Table::Meta => {
                let mut next = None;
                if after != NEXT_KEY {
                    read.get(Table::Meta, NEXT_KEY, &mut |value| next = Some(value.to_vec()))?;
                }
                debug_assert_ne!(after, LOG_KEY);
                if let Some(next) = next {
                    self.push(number, NEXT_KEY, &next);
                }
                return Ok(());
            }
            _ => {}
        }
        let from = if after.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(after)
        };
        let mut each = |key: &[u8], value: &[u8]| {
            self.push(number, key, value);
            if self.is_full() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        Ok(read.range(table, (from, Bound::Unbounded), Direction::Forward, &mut each)?)
    }

    /// Adds records in the form of the table `records`, including those in blocks.
    fn read_records(&mut self, read: &dyn Snapshot, records: &Records, number: u8, after: &[u8]) -> Result<(), Error> {
        const AT_ONCE: usize = 256;
        let mut after = after.try_into().map_or(0, u64::from_be_bytes);
        let mut encoded = Vec::new();
        while !self.is_full() {
            let numbers = records.numbers(read, after, AT_ONCE)?;
            if numbers.is_empty() {
                break;
            }
            for record in numbers {
                let key = record.to_be_bytes();
                encoded.clear();
                let mut written = Ok(());
                let mut found = |found: Record<'_>| written = found.encode(record, &mut encoded);
                records.visit(read, record, &mut found)?;
                written.map_err(|error| Error::damaged(Table::Records, &key, error))?;
                self.push(number, &key, &encoded);
                after = record;
                if self.is_full() {
                    break;
                }
            }
        }
        Ok(())
    }
}
