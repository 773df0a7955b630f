//! Reading values from what redb stores of them: the values themselves, or their places in segments.

use std::ops::{ControlFlow, RangeBounds};
use std::path::Path;

use ibid_format::record::{StoredValue, ValuePlace};
use redb::{ReadableTable, StorageError};

use super::{ENGINE, failed, is_placed};
use crate::engine::{Direction, EachKey, EachPair, EngineError, KeyRange, Read, Table, is_void, part_of};

/// Is called with what redb stores of a value.
pub(super) type FoundStored<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), EngineError>;

/// Is called with each key of a range, and what redb stores of its value, until it breaks.
pub(super) type EachStored<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, EngineError>;

/// Reads what redb stores, and what is at the places that this names.
pub(super) trait Stored {
    /// Shows what is stored of a key, and returns whether there is anything.
    fn stored(&self, table: Table, key: &[u8], found: FoundStored<'_>) -> Result<bool, EngineError>;

    /// Shows the keys of a range, and what is stored of each.
    fn each_stored(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachStored<'_>,
    ) -> Result<(), EngineError>;

    /// Shows the bytes at a place.
    fn show(&self, place: ValuePlace, found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError>;

    /// Shows a value of which this is stored.
    fn value(&self, table: Table, stored: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError> {
        if !is_placed(table) {
            found(stored);
            return Ok(());
        }
        match StoredValue::decode(stored) {
            Ok(StoredValue::Here(value)) => found(value),
            Ok(StoredValue::Placed(place)) => self.show(place, found)?,
            // The store's checksums find that it is damaged.
            Err(_) => found(&[]),
        }
        Ok(())
    }
}

impl<S: Stored> Read for S {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        self.stored(table, key, &mut |stored| self.value(table, stored, found))
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        self.stored(table, key, &mut |_| Ok(()))
    }

    fn get_part(
        &self,
        table: Table,
        key: &[u8],
        at: u64,
        length: usize,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, EngineError> {
        self.stored(table, key, &mut |stored| match StoredValue::decode(stored) {
            Ok(StoredValue::Placed(place)) if is_placed(table) => {
                let from = at.min(place.length);
                let place = ValuePlace {
                    offset: place.offset.saturating_add(from),
                    length: (place.length - from).min(length as u64),
                    ..place
                };
                self.show(place, found)
            }
            Ok(_) | Err(_) => self.value(table, stored, &mut |value| found(part_of(value, at, length))),
        })
    }

    fn reads_parts(&self) -> bool {
        true
    }

    fn keys(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        self.each_stored(table, keys, direction, &mut |key, _| Ok(each(key)))
    }

    fn range(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        self.each_stored(table, keys, direction, &mut |key, stored| {
            let mut flow = ControlFlow::Continue(());
            self.value(table, stored, &mut |value| flow = each(key, value))?;
            Ok(flow)
        })
    }
}

/// Shows what one of redb's tables has of a key, and returns whether there is anything.
pub(super) fn stored(
    from: &impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    key: &[u8],
    found: FoundStored<'_>,
) -> Result<bool, EngineError> {
    match from.get(key).map_err(|error| failed("read", path, error.into()))? {
        Some(stored) => found(stored.value()).map(|()| true),
        None => Ok(false),
    }
}

/// Shows the keys of a range in one of redb's tables, and what it has of each.
pub(super) fn each_stored(
    from: &impl ReadableTable<&'static [u8], &'static [u8]>,
    path: &Path,
    keys: KeyRange<'_>,
    direction: Direction,
    each: EachStored<'_>,
) -> Result<(), EngineError> {
    if is_void(&keys) {
        return Ok(());
    }
    let failed = |error: StorageError| failed("read", path, error.into());
    let mut pairs = from.range::<&[u8]>(keys).map_err(failed)?;
    let mut order = Order::of(keys, direction);
    while let Some(pair) = match direction {
        Direction::Forward => pairs.next(),
        Direction::Backward => pairs.next_back(),
    } {
        let (key, stored) = pair.map_err(failed)?;
        order.check(key.value(), path)?;
        if each(key.value(), stored.value())?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Finds that redb shows keys in the wrong order or out of their range, which it does where bytes of its file have
/// changed. Without that, keys could be taken for those of another namespace, and a caller that goes on from the last
/// key of a page would read the same page for ever.
struct Order<'k> {
    range: KeyRange<'k>,
    direction: Direction,
    /// The key before.
    last: Vec<u8>,
    is_first: bool,
}

impl<'k> Order<'k> {
    fn of(range: KeyRange<'k>, direction: Direction) -> Self {
        Order {
            range,
            direction,
            last: Vec::new(),
            is_first: true,
        }
    }

    fn check(&mut self, key: &[u8], path: &Path) -> Result<(), EngineError> {
        let is_after = self.is_first
            || match self.direction {
                Direction::Forward => key > &self.last[..],
                Direction::Backward => key < &self.last[..],
            };
        if !is_after || !(self.range.0, self.range.1).contains(key) {
            return Err(EngineError::Damaged {
                engine: ENGINE,
                path: path.to_owned(),
                found: format!("the key \"{}\" is not in its place", key.escape_ascii()),
            });
        }
        self.is_first = false;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }
}
