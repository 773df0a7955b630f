//! Reading all contents of a store, page by page.

use std::ops::{Bound, ControlFlow};

use ibid_format::record::{LOG_KEY, NEXT_KEY, Record};

use crate::engine::{Direction, Snapshot, Table};
use crate::error::Error;
use crate::read::records::Records;

/// Entries of tables that are sent in one message.
pub(super) struct PageBuilder {
    /// Number of the table, key and value.
    rows: Vec<(u8, Vec<u8>, Vec<u8>)>,
    bytes: usize,
    room: usize,
}

impl PageBuilder {
    /// Returns an empty page with room for about `room` bytes.
    pub(super) fn new(room: usize) -> Self {
        PageBuilder {
            rows: Vec::new(),
            bytes: 0,
            room,
        }
    }

    /// Returns the entries: number of the table, key and value.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u8, &[u8], &[u8])> {
        self.rows
            .iter()
            .map(|(table, key, value)| (*table, &key[..], &value[..]))
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= self.room
    }

    fn push(&mut self, number: u8, key: &[u8], value: &[u8]) {
        self.bytes += key.len() + value.len() + 8;
        self.rows.push((number, key.to_vec(), value.to_vec()));
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
        while !self.is_full() {
            let numbers = records.numbers(read, after, AT_ONCE)?;
            if numbers.is_empty() {
                break;
            }
            for record in numbers {
                let key = record.to_be_bytes();
                let mut encoded = Vec::new();
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
