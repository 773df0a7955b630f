//! Reading and changing redb's tables, with values that are in segments.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ibid_format::record::{COMMIT_KEY_BYTES_MAX, StoredValue, ValuePlace};
use redb::{AccessGuard, ReadOnlyTable, ReadTransaction, StorageError};

use super::commit_log::Recording;
use super::journal::Usage;
use super::segments::{self, SegmentSet};
use super::stored::{EachStored, FoundStored, Stored, each_stored, stored};
use super::{Tables, VALUE_BYTES_MAX, definition, failed, is_placed, unless_it_panics};
use crate::engine::{self, Direction, EngineError, KeyRange, Snapshot, Table, Transaction};

/// Values from this length on are placed in segments, bytes. Of shorter ones little more than the place would be saved.
const PLACED_BYTES_MIN: usize = 64;

pub(super) struct RedbSnapshot {
    /// Opened when they are first read: most snapshots read two.
    pub(super) tables: [OnceLock<ReadOnlyTable<&'static [u8], &'static [u8]>>; Table::ALL.len()],
    pub(super) transaction: ReadTransaction,
    /// Those that it may have values in. They can be read even if they were removed since.
    pub(super) segments: Arc<SegmentSet>,
    pub(super) path: PathBuf,
}

impl RedbSnapshot {
    fn table(&self, table: Table) -> Result<&ReadOnlyTable<&'static [u8], &'static [u8]>, EngineError> {
        let place = &self.tables[table as usize];
        if let Some(table) = place.get() {
            return Ok(table);
        }
        let opened = self.transaction.open_table(definition(table));
        let opened = opened.map_err(|error| failed("read", &self.path, error.into()))?;
        Ok(place.get_or_init(|| opened))
    }
}

impl Snapshot for RedbSnapshot {}

impl Stored for RedbSnapshot {
    fn stored(&self, table: Table, key: &[u8], found: FoundStored<'_>) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || stored(self.table(table)?, &self.path, key, found))
    }

    fn each_stored(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachStored<'_>,
    ) -> Result<(), EngineError> {
        unless_it_panics(&self.path, || {
            each_stored(self.table(table)?, &self.path, keys, direction, each)
        })
    }

    fn show(&self, place: ValuePlace, found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError> {
        segments::show(&self.segments, place, &self.path, found)
    }
}

pub(super) struct RedbTransaction<'t> {
    pub(super) tables: Tables<'t>,
    pub(super) recording: Recording<'t>,
    pub(super) segments: Arc<SegmentSet>,
    pub(super) usage: Usage,
    /// What redb stores of a value; kept so that no value allocates it.
    pub(super) stored: Vec<u8>,
    pub(super) path: &'t Path,
}

impl RedbTransaction<'_> {
    /// Returns where the value of a key is; [`None`] if it is in redb, or there is none.
    pub(super) fn place(&self, table: Table, key: &[u8]) -> Result<Option<ValuePlace>, EngineError> {
        let mut place = None;
        self.stored(table, key, &mut |stored| {
            if let Ok(StoredValue::Placed(found)) = StoredValue::decode(stored) {
                place = Some(found);
            }
            Ok(())
        })?;
        Ok(place)
    }
}

impl Stored for RedbTransaction<'_> {
    fn stored(&self, table: Table, key: &[u8], found: FoundStored<'_>) -> Result<bool, EngineError> {
        stored(&self.tables[table as usize], self.path, key, found)
    }

    fn each_stored(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachStored<'_>,
    ) -> Result<(), EngineError> {
        each_stored(&self.tables[table as usize], self.path, keys, direction, each)
    }

    fn show(&self, place: ValuePlace, found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError> {
        let is_here = place.segment == self.recording.segment();
        let shown = is_here.then(|| self.recording.show(place.offset, place.length, found));
        match shown.flatten() {
            Some(shown) => shown,
            None => segments::show(&self.segments, place, self.path, found),
        }
    }
}

impl Transaction for RedbTransaction<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        engine::check_length("key", key, COMMIT_KEY_BYTES_MAX)?;
        engine::check_length("value", value, VALUE_BYTES_MAX)?;
        let offset = self.recording.add(table, key, Some(value))?;
        let segment = self.recording.segment();
        let done = put(
            &mut self.tables[table as usize],
            (table, key, value),
            ValuePlace {
                segment,
                offset,
                length: value.len() as u64,
            },
            &mut self.stored,
            &mut self.usage,
        );
        done.map_err(|error| failed("write to", self.path, error.into()))
    }

    fn put_parts(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<(), EngineError> {
        engine::check_length("key", key, COMMIT_KEY_BYTES_MAX)?;
        let length = parts.iter().map(|part| part.len()).sum();
        if length < PLACED_BYTES_MIN || !is_placed(table) {
            return self.put(table, key, &parts.concat());
        }
        engine::check_bytes("value", length, VALUE_BYTES_MAX)?;
        let place = ValuePlace {
            segment: self.recording.segment(),
            offset: self.recording.add_parts(table, key, parts)?,
            length: length as u64,
        };
        let tables = &mut self.tables[table as usize];
        let done = put_place(tables, key, place, &mut self.stored, &mut self.usage);
        done.map_err(|error| failed("write to", self.path, error.into()))
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError> {
        self.recording.add(table, key, None)?;
        let deleted = delete(&mut self.tables[table as usize], table, key, &mut self.usage);
        deleted.map_err(|error| failed("write to", self.path, error.into()))
    }
}

/// Puts a value, whose `place` is in the log.
pub(super) fn put(
    tables: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    (table, key, value): (Table, &[u8], &[u8]),
    place: ValuePlace,
    stored: &mut Vec<u8>,
    usage: &mut Usage,
) -> Result<(), StorageError> {
    if !is_placed(table) {
        return tables.insert(key, value).map(drop);
    }
    if value.len() >= PLACED_BYTES_MIN {
        return put_place(tables, key, place, stored, usage);
    }
    stored.clear();
    StoredValue::Here(value).encode(stored);
    let before = tables.insert(key, stored.as_slice())?;
    release(before.as_ref(), usage);
    Ok(())
}

/// Puts the place of a value, which is in the log.
fn put_place(
    tables: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    key: &[u8],
    place: ValuePlace,
    stored: &mut Vec<u8>,
    usage: &mut Usage,
) -> Result<(), StorageError> {
    stored.clear();
    StoredValue::Placed(place).encode(stored);
    let before = tables.insert(key, stored.as_slice())?;
    release(before.as_ref(), usage);
    *usage.entry(place.segment).or_default() += place.length as i64;
    Ok(())
}

/// Deletes a key.
pub(super) fn delete(
    tables: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    table: Table,
    key: &[u8],
    usage: &mut Usage,
) -> Result<(), StorageError> {
    let before = tables.remove(key)?;
    if is_placed(table) {
        release(before.as_ref(), usage);
    }
    Ok(())
}

/// Counts that what redb had of a value is not used any more.
fn release(before: Option<&AccessGuard<'_, &'static [u8]>>, usage: &mut Usage) {
    // One that is damaged frees nothing: the segment stays.
    if let Some(Ok(StoredValue::Placed(place))) = before.map(|before| StoredValue::decode(before.value())) {
        let length = place.length.min(VALUE_BYTES_MAX as u64);
        *usage.entry(place.segment).or_default() -= length as i64;
    }
}

/// Returns what redb stores of a value, whose `place` is in the log.
pub(super) fn stored_form(table: Table, value: &[u8], place: ValuePlace) -> Vec<u8> {
    let mut stored = Vec::new();
    match is_placed(table) {
        false => stored.extend_from_slice(value),
        true if value.len() >= PLACED_BYTES_MIN => StoredValue::Placed(place).encode(&mut stored),
        true => StoredValue::Here(value).encode(&mut stored),
    }
    stored
}
