//! Commits that are in the log and not in redb's file, in memory.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::{Bound, ControlFlow};

use super::stored::EachStored;
use crate::engine::{Direction, EngineError, KeyRange, Table, is_void};

/// What commits have made of keys: what redb would store of each; [`None`] if it was removed.
#[derive(Clone, Default)]
pub(super) struct Overlay {
    tables: [BTreeMap<Vec<u8>, Option<Vec<u8>>>; Table::ALL.len()],
}

impl Overlay {
    /// Notes a change.
    pub(super) fn set(&mut self, table: Table, key: &[u8], stored: Option<Vec<u8>>) {
        self.tables[table as usize].insert(key.to_vec(), stored);
    }

    /// Returns what the commits have made of a key; [`None`] if they have not changed it.
    pub(super) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        self.tables[table as usize].get(key).map(Option::as_deref)
    }

    /// Shows the keys of a range to `each` as they are after the commits. `below` shows those of redb.
    pub(super) fn range(
        &self,
        (table, keys): (Table, KeyRange<'_>),
        direction: Direction,
        below: &mut dyn FnMut(EachStored<'_>) -> Result<(), EngineError>,
        each: EachStored<'_>,
    ) -> Result<(), EngineError> {
        if is_void(&keys) {
            return Ok(());
        }
        let mut changed = Changed {
            rest: self.tables[table as usize].range::<[u8], (Bound<&[u8]>, Bound<&[u8]>)>(keys),
            direction,
            next: None,
        };
        changed.advance();
        let mut flow = ControlFlow::Continue(());
        below(&mut |key, stored| {
            flow = changed.show_before(Some(key), each)?;
            if flow.is_continue() && !changed.take(key, each, &mut flow)? {
                flow = each(key, stored)?;
            }
            Ok(flow)
        })?;
        if flow.is_continue() {
            // It is the last.
            let _ = changed.show_before(None, each)?;
        }
        Ok(())
    }
}

/// The changed keys of a range that are still to be shown.
struct Changed<'o> {
    rest: Range<'o, Vec<u8>, Option<Vec<u8>>>,
    direction: Direction,
    next: Option<(&'o [u8], Option<&'o [u8]>)>,
}

impl Changed<'_> {
    fn advance(&mut self) {
        let next = match self.direction {
            Direction::Forward => self.rest.next(),
            Direction::Backward => self.rest.next_back(),
        };
        self.next = next.map(|(key, stored)| (key.as_slice(), stored.as_deref()));
    }

    /// Whether the next changed key comes before `key`.
    fn is_before(&self, next: &[u8], key: &[u8]) -> bool {
        let order = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        };
        next.cmp(key) == order
    }

    /// Shows the changed keys before `key`, or all if it is [`None`].
    fn show_before(&mut self, key: Option<&[u8]>, each: EachStored<'_>) -> Result<ControlFlow<()>, EngineError> {
        while let Some((next, stored)) = self.next
            && key.is_none_or(|key| self.is_before(next, key))
        {
            self.advance();
            if let Some(stored) = stored
                && each(next, stored)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Shows the next changed key if it is `key`, and returns whether it is.
    fn take(&mut self, key: &[u8], each: EachStored<'_>, flow: &mut ControlFlow<()>) -> Result<bool, EngineError> {
        let Some((next, stored)) = self.next.filter(|(next, _)| *next == key) else {
            return Ok(false);
        };
        self.advance();
        if let Some(stored) = stored {
            *flow = each(next, stored)?;
        }
        Ok(true)
    }
}
