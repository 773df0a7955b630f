//! Reading and changing redb's tables, with values that are in segments.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ibid_format::record::{COMMIT_KEY_BYTES_MAX, StoredValue, ValuePlace};
use redb::{AccessGuard, ReadOnlyTable, ReadTransaction, ReadableTable, StorageError};

use super::commit_log::Recording;
use super::journal::Usage;
use super::segments::{self, SegmentSet};
use super::{Tables, VALUE_BYTES_MAX, definition, failed, is_placed, unless_it_panics};
use crate::engine::{
    self, Direction, EachKey, EachPair, EngineError, KeyRange, Read, Snapshot, Table, Transaction, is_void, part_of,
};

/// Values from this length on are placed in segments, bytes. Of shorter ones little more than the place would be saved.
const PLACED_BYTES_MIN: usize = 64;

/// Is called with each key of a range, and what redb stores of its value, until it breaks.
pub(super) type EachStored<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, EngineError>;

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

    fn show(&self, place: ValuePlace, found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError> {
        segments::show(&self.segments, place, &self.path, found)
    }
}

impl Snapshot for RedbSnapshot {}

impl Read for RedbSnapshot {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || {
            let from = self.table(table)?;
            get_value(
                from,
                &self.path,
                (table, key),
                &|place, found| self.show(place, found),
                found,
            )
        })
    }

    fn get_part(
        &self,
        table: Table,
        key: &[u8],
        at: u64,
        length: usize,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || {
            let Some(stored) = get(self.table(table)?, &self.path, key)? else {
                return Ok(false);
            };
            let show: Show<'_> = &|place, found| self.show(place, found);
            part_of_value(table, stored.value(), (at, length), show, found)?;
            Ok(true)
        })
    }

    fn reads_parts(&self) -> bool {
        true
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        unless_it_panics(&self.path, || Ok(get(self.table(table)?, &self.path, key)?.is_some()))
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        unless_it_panics(&self.path, || {
            let from = self.table(table)?;
            let show: Show<'_> = &|place, found| self.show(place, found);
            range_of_values(from, &self.path, (table, keys), direction, show, each)
        })
    }

    fn keys(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        unless_it_panics(&self.path, || {
            range(self.table(table)?, &self.path, keys, direction, &mut |key, _| {
                Ok(each(key))
            })
        })
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
        let stored = get(&self.tables[table as usize], self.path, key)?;
        Ok(stored.and_then(|stored| match StoredValue::decode(stored.value()) {
            Ok(StoredValue::Placed(place)) => Some(place),
            Ok(StoredValue::Here(_)) | Err(_) => None,
        }))
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

impl Read for RedbTransaction<'_> {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let from = &self.tables[table as usize];
        get_value(
            from,
            self.path,
            (table, key),
            &|place, found| self.show(place, found),
            found,
        )
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        Ok(get(&self.tables[table as usize], self.path, key)?.is_some())
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        let from = &self.tables[table as usize];
        let show: Show<'_> = &|place, found| self.show(place, found);
        range_of_values(from, self.path, (table, keys), direction, show, each)
    }

    fn keys(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        let tables = &self.tables[table as usize];
        range(tables, self.path, keys, direction, &mut |key, _| Ok(each(key)))
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

/// Shows the value at a place.
pub(super) type Show<'a> = &'a dyn Fn(ValuePlace, &mut dyn FnMut(&[u8])) -> Result<(), EngineError>;

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

/// Shows a part of a value of which redb has this: so many bytes from a place on.
pub(super) fn part_of_value(
    table: Table,
    stored: &[u8],
    (at, length): (u64, usize),
    show: Show<'_>,
    found: &mut dyn FnMut(&[u8]),
) -> Result<(), EngineError> {
    match StoredValue::decode(stored) {
        Ok(StoredValue::Placed(place)) if is_placed(table) => {
            let from = at.min(place.length);
            let place = ValuePlace {
                offset: place.offset.saturating_add(from),
                length: (place.length - from).min(length as u64),
                ..place
            };
            show(place, found)
        }
        Ok(_) | Err(_) => value(table, stored, show, &mut |value| found(part_of(value, at, length))),
    }
}

/// Shows a value of which redb has this.
pub(super) fn value(
    table: Table,
    stored: &[u8],
    show: Show<'_>,
    found: &mut dyn FnMut(&[u8]),
) -> Result<(), EngineError> {
    if !is_placed(table) {
        found(stored);
        return Ok(());
    }
    match StoredValue::decode(stored) {
        Ok(StoredValue::Here(value)) => found(value),
        Ok(StoredValue::Placed(place)) => show(place, found)?,
        // The store's checksums find that it is damaged.
        Err(_) => found(&[]),
    }
    Ok(())
}

/// Shows the value of a key, and returns whether there is one.
fn get_value(
    from: &impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    (table, key): (Table, &[u8]),
    show: Show<'_>,
    found: &mut dyn FnMut(&[u8]),
) -> Result<bool, EngineError> {
    match get(from, path, key)? {
        Some(stored) => value(table, stored.value(), show, found).map(|()| true),
        None => Ok(false),
    }
}

/// Shows the keys and values of a range.
fn range_of_values(
    from: &impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    (table, keys): (Table, KeyRange<'_>),
    direction: Direction,
    show: Show<'_>,
    each: EachPair<'_>,
) -> Result<(), EngineError> {
    range(from, path, keys, direction, &mut |key, stored| {
        let mut flow = ControlFlow::Continue(());
        value(table, stored, show, &mut |value| flow = each(key, value))?;
        Ok(flow)
    })
}

pub(super) fn get<'t>(
    table: &'t impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    key: &[u8],
) -> Result<Option<AccessGuard<'t, &'static [u8]>>, EngineError> {
    table.get(key).map_err(|error| failed("read", path, error.into()))
}

pub(super) fn range(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    keys: KeyRange<'_>,
    direction: Direction,
    each: EachStored<'_>,
) -> Result<(), EngineError> {
    if is_void(&keys) {
        return Ok(());
    }
    let failed = |error: StorageError| failed("read", path, error.into());
    let mut pairs = table.range::<&[u8]>(keys).map_err(failed)?;
    while let Some(pair) = match direction {
        Direction::Forward => pairs.next(),
        Direction::Backward => pairs.next_back(),
    } {
        let (key, stored) = pair.map_err(failed)?;
        if each(key.value(), stored.value())?.is_break() {
            break;
        }
    }
    Ok(())
}
