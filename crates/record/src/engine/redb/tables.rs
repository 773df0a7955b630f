//! Reading redb's tables below the commits that are in memory, and changing both, with values that are in segments.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ibid_format::record::{COMMIT_KEY_BYTES_MAX, StoredValue, ValuePlace};
use redb::{AccessGuard, ReadOnlyTable, ReadTransaction, StorageError, TableError};

use super::commit_log::Recording;
use super::file::{AsSynced, RedbFile};
use super::journal::Usage;
use super::layers::{Changes, Layers};
use super::segments::{self, SegmentSet};
use super::stored::{EachStored, FoundStored, Stored, each_stored, stored};
use super::{VALUE_BYTES_MAX, definition, failed, is_placed, unless_it_panics};
use crate::engine::{self, Direction, EngineError, KeyRange, Snapshot, Table, Transaction};

/// Values from this length on are placed in segments, bytes. Of shorter ones little more than the place would be saved.
const PLACED_BYTES_MIN: usize = 64;

/// How often a snapshot is read without redb: again if a page could not be read.
const TRIES_AS_SYNCED: usize = 2;

type Opened = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// redb's tables at one moment.
pub(super) struct Base {
    /// Opened when they are first read: most snapshots read two.
    tables: [OnceLock<Option<Opened>>; Table::ALL.len()],
    transaction: ReadTransaction,
}

impl Base {
    pub(super) fn new(transaction: ReadTransaction) -> Self {
        let tables = Default::default();
        Base { tables, transaction }
    }

    /// Returns a table; [`None`] if nothing was ever stored in it.
    fn table(&self, table: Table, path: &Path) -> Result<Option<&Opened>, EngineError> {
        let place = &self.tables[table as usize];
        if let Some(table) = place.get() {
            return Ok(table.as_ref());
        }
        let opened = match self.transaction.open_table(definition(table)) {
            Ok(opened) => Some(opened),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(failed("read", path, error.into())),
        };
        Ok(place.get_or_init(|| opened).as_ref())
    }
}

/// redb's tables below the commits that are in memory, and below what a transaction has changed since.
pub(super) struct View<'v> {
    pub(super) base: &'v Base,
    pub(super) layers: &'v Layers,
    pub(super) own: Option<&'v Changes>,
    pub(super) path: &'v Path,
}

impl View<'_> {
    pub(super) fn stored(&self, table: Table, key: &[u8], found: FoundStored<'_>) -> Result<bool, EngineError> {
        match self.layers.get(self.own, table, key) {
            Some(Some(changed)) => found(changed).map(|()| true),
            Some(None) => Ok(false),
            None => match self.base.table(table, self.path)? {
                Some(from) => stored(from, self.path, key, found),
                None => Ok(false),
            },
        }
    }

    pub(super) fn each_stored(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachStored<'_>,
    ) -> Result<(), EngineError> {
        let from = self.base.table(table, self.path)?;
        let mut below = |each: EachStored<'_>| match from {
            Some(from) => each_stored(from, self.path, keys, direction, each),
            None => Ok(()),
        };
        self.layers.range(self.own, (table, keys), direction, &mut below, each)
    }
}

/// What redb has below the commits in memory that a snapshot shows.
pub(super) struct Below {
    /// How often it was changed what that has to be: now, and when the snapshot was made.
    epoch: Arc<AtomicU64>,
    epoch_then: u64,
    file: Arc<RedbFile>,
    /// The transaction that was synced last by then.
    transaction_then: u64,
}

impl Below {
    pub(super) fn new(epoch: &Arc<AtomicU64>, file: &Arc<RedbFile>) -> Self {
        Below {
            epoch: epoch.clone(),
            epoch_then: epoch.load(Ordering::SeqCst),
            file: file.clone(),
            transaction_then: file.transaction(),
        }
    }

    pub(super) fn is_same_epoch(&self) -> bool {
        self.epoch.load(Ordering::SeqCst) == self.epoch_then
    }

    /// Returns what redb has synced last, other than `failed`, if it is still the same or as good. A snapshot that is
    /// older can't be read without redb.
    fn as_synced(&self, failed: Option<&Arc<AsSynced>>) -> Option<Arc<AsSynced>> {
        let synced = self.file.as_synced(failed)?;
        // In this order: what was synced while the epoch was the same is as good.
        let is_right = synced.transaction() == self.transaction_then || self.is_same_epoch();
        is_right.then_some(synced)
    }
}

pub(super) struct RedbSnapshot {
    pub(super) base: Base,
    pub(super) layers: Arc<Layers>,
    /// Those that it may have values in. They can be read even if they were removed since.
    pub(super) segments: Arc<SegmentSet>,
    pub(super) path: PathBuf,
    pub(super) below: Below,
}

impl RedbSnapshot {
    /// Runs a read. It is an error if it panics. If redb reads nothing more from its file, what was synced last is read
    /// without it.
    fn reading<T>(&self, mut read: impl FnMut(View<'_>) -> Result<T, EngineError>) -> Result<T, EngineError> {
        let mut read = |base: &Base| unless_it_panics(&self.path, || read(self.view(base)));
        let mut result = read(&self.base);
        let mut last: Option<Arc<AsSynced>> = None;
        for _ in 0..TRIES_AS_SYNCED {
            if matches!(result, Err(EngineError::Stopped { .. }))
                && let Some(next) = self.below.as_synced(last.as_ref())
            {
                result = read(&next.base);
                last = Some(next);
            }
        }
        result.map_err(|error| self.below.file.reason_of(error))
    }

    fn view<'v>(&'v self, base: &'v Base) -> View<'v> {
        View {
            base,
            layers: &self.layers,
            own: None,
            path: &self.path,
        }
    }
}

impl Snapshot for RedbSnapshot {}

impl Stored for RedbSnapshot {
    fn stored(&self, table: Table, key: &[u8], found: FoundStored<'_>) -> Result<bool, EngineError> {
        self.reading(|view| view.stored(table, key, found))
    }

    fn each_stored(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachStored<'_>,
    ) -> Result<(), EngineError> {
        let mut shown = 0_u64;
        self.reading(|view| {
            // What was shown before redb read nothing more is not shown again.
            let mut left = shown;
            view.each_stored(table, keys, direction, &mut |key, stored| {
                if left > 0 {
                    left -= 1;
                    return Ok(ControlFlow::Continue(()));
                }
                shown += 1;
                each(key, stored)
            })
        })
    }

    fn show(&self, place: ValuePlace, found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError> {
        segments::show(&self.segments, place, &self.path, found)
    }
}

pub(super) struct RedbTransaction<'t> {
    pub(super) base: Base,
    pub(super) layers: Arc<Layers>,
    pub(super) changes: Changes,
    /// Whether it has placed a value in the log's segment.
    pub(super) has_placed: bool,
    pub(super) recording: Recording<'t>,
    pub(super) segments: Arc<SegmentSet>,
    pub(super) path: &'t Path,
}

impl RedbTransaction<'_> {
    fn view(&self) -> View<'_> {
        View {
            base: &self.base,
            layers: &self.layers,
            own: Some(&self.changes),
            path: self.path,
        }
    }

    /// Returns where the value of a key is; [`None`] if it is not in a segment, or there is none.
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

    /// Returns the place of a value in the log's segment.
    fn place_at(&self, offset: u64, length: usize) -> ValuePlace {
        ValuePlace {
            segment: self.recording.segment(),
            offset,
            length: length as u64,
        }
    }

    fn put_place(&mut self, table: Table, key: &[u8], place: ValuePlace) {
        self.changes.set(table, key, Some(stored_place(place)));
        self.has_placed = true;
    }
}

impl Stored for RedbTransaction<'_> {
    fn stored(&self, table: Table, key: &[u8], found: FoundStored<'_>) -> Result<bool, EngineError> {
        self.view().stored(table, key, found)
    }

    fn each_stored(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachStored<'_>,
    ) -> Result<(), EngineError> {
        self.view().each_stored(table, keys, direction, each)
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
        match stored_here(table, value) {
            Some(stored) => self.changes.set(table, key, Some(stored)),
            None => self.put_place(table, key, self.place_at(offset, value.len())),
        }
        Ok(())
    }

    fn put_parts(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<(), EngineError> {
        engine::check_length("key", key, COMMIT_KEY_BYTES_MAX)?;
        let length = parts.iter().map(|part| part.len()).sum();
        if length < PLACED_BYTES_MIN || !is_placed(table) {
            return self.put(table, key, &parts.concat());
        }
        engine::check_bytes("value", length, VALUE_BYTES_MAX)?;
        let offset = self.recording.add_parts(table, key, parts)?;
        self.put_place(table, key, self.place_at(offset, length));
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), EngineError> {
        self.recording.add(table, key, None)?;
        self.changes.set(table, key, None);
        Ok(())
    }
}

/// Returns what redb stores of a value; [`None`] if that is its place.
fn stored_here(table: Table, value: &[u8]) -> Option<Vec<u8>> {
    let mut stored = Vec::new();
    match is_placed(table) {
        false => stored.extend_from_slice(value),
        true if value.len() >= PLACED_BYTES_MIN => return None,
        true => StoredValue::Here(value).encode(&mut stored),
    }
    Some(stored)
}

/// Returns what redb stores of a value, whose `place` is in the log.
pub(super) fn stored_form(table: Table, value: &[u8], place: ValuePlace) -> Vec<u8> {
    stored_here(table, value).unwrap_or_else(|| stored_place(place))
}

/// Returns what redb stores of a value that is at a place.
fn stored_place(place: ValuePlace) -> Vec<u8> {
    let mut stored = Vec::new();
    StoredValue::Placed(place).encode(&mut stored);
    stored
}

/// Stores in one of redb's tables what a commit has made of a key, and counts what that uses of segments, and what
/// not any more.
pub(super) fn store(
    tables: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    (table, key, stored): (Table, &[u8], Option<&[u8]>),
    usage: &mut Usage,
) -> Result<(), StorageError> {
    let before = match stored {
        Some(stored) => tables.insert(key, stored)?,
        None => tables.remove(key)?,
    };
    if is_placed(table) {
        release(before.as_ref(), usage);
        if let Some(Ok(StoredValue::Placed(place))) = stored.map(StoredValue::decode) {
            *usage.entry(place.segment).or_default() += place.length as i64;
        }
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
