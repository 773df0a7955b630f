//! Receiving all contents of a primary, in parts.

use std::ops::{Bound, ControlFlow};

use ibid_format::record::{Epoch, LogState, NEXT_KEY, NextNumbers, Role, WATERMARK_KEY};

use super::request::{TRANSFERRED_TABLES, TransferPart};
use super::{block, references};
use crate::engine::{Direction, Table, Transaction};
use crate::error::{Damage, Error};

/// Entries of a table that are removed at once.
const REMOVED_AT_ONCE: usize = 1 << 12;

/// Removes all contents, and marks the store as an incomplete copy of a store of this name and epoch.
pub(crate) fn begin(
    transaction: &mut dyn Transaction,
    state: &mut LogState,
    transfer: u64,
    (store, epoch): ([u8; 16], Epoch),
) -> Result<(), Error> {
    if !matches!(state.role, Role::Replica | Role::Incomplete { .. }) {
        return Ok(()); // the answer is late
    }
    block::note_last(transaction)?;
    for table in Table::ALL.into_iter().filter(|&table| table != Table::Meta) {
        loop {
            let mut keys = Vec::new();
            let mut each = |key: &[u8], _: &[u8]| {
                keys.push(key.to_vec());
                if keys.len() < REMOVED_AT_ONCE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            let everything = (Bound::Unbounded, Bound::Unbounded);
            transaction.range(table, everything, Direction::Forward, &mut each)?;
            for key in &keys {
                transaction.delete(table, key)?;
            }
            if keys.len() < REMOVED_AT_ONCE {
                break;
            }
        }
    }
    transaction.delete(Table::Meta, WATERMARK_KEY)?;
    // What is removed may have been purged in the primary since.
    references::mark_purge(transaction)?;
    (state.store, state.epoch) = (store, epoch);
    state.role = Role::Incomplete {
        transfer,
        table: 0,
        key: Vec::new(),
    };
    Ok(())
}

/// Stores a part. Its entries are checked when they are read.
pub(crate) fn store_part(
    transaction: &mut dyn Transaction,
    next: &mut NextNumbers,
    state: &mut LogState,
    part: &TransferPart,
) -> Result<(), Error> {
    let Role::Incomplete { transfer, table, key } = &mut state.role else {
        return Ok(()); // the answer is late
    };
    if (*transfer, *table, &*key) != (part.transfer, part.after.0, &part.after.1) {
        return Ok(());
    }
    for (number, key, value) in &part.pairs {
        let found = TRANSFERRED_TABLES.iter().find(|(sent, _)| sent == number);
        let (_, found) = found.ok_or_else(|| Error::damaged(Table::Meta, key, Damage::Misplaced))?;
        if *found != Table::Meta {
            transaction.put(*found, key, value)?;
        } else if key == NEXT_KEY {
            *next = NextNumbers::decode(value).map_err(|error| Error::damaged(Table::Meta, key, error))?;
        } else {
            return Err(Error::damaged(Table::Meta, key, Damage::Misplaced));
        }
    }
    if let Some((last, last_key, _)) = part.pairs.last() {
        *table = *last;
        key.clone_from(last_key);
    }
    if let Some(log) = &part.log {
        *state = LogState {
            role: Role::Replica,
            ..log.clone()
        };
    }
    Ok(())
}
