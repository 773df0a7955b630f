//! How many records need each piece of a long body, and the removal of pieces that none needs.

use std::collections::BTreeMap;

use ibid_format::record::{IndexValues, KeyEntry, PieceList};

use super::apply::put_entry;
use super::references;
use crate::engine::{Table, Transaction};
use crate::error::{Damage, Error};
use crate::read::lookup;
use crate::read::records::Records;

/// Counts one more record that needs the parts of a list.
pub(crate) fn count(transaction: &mut dyn Transaction, list: &[u8]) -> Result<(), Error> {
    let list = PieceList::decode(list).map_err(|error| Error::damaged(Table::Records, b"", error))?;
    for stored_key in list.stored_keys() {
        let entry = lookup::key_entry(transaction, &stored_key)?;
        let entry = entry.ok_or_else(|| Error::damaged(Table::Keys, &stored_key, Damage::Missing))?;
        set_uses(transaction, &stored_key, entry.uses + 1, entry)?;
    }
    Ok(())
}

/// Sets how many records need a part, which has no index values.
fn set_uses(transaction: &mut dyn Transaction, stored_key: &[u8], uses: u64, entry: KeyEntry) -> Result<(), Error> {
    put_entry(
        transaction,
        stored_key,
        &KeyEntry { uses, ..entry },
        &IndexValues::new(),
    )
}

/// Parts that records of a batch no longer need. They are removed at its end: another record of the batch may need
/// them.
#[derive(Default)]
pub(crate) struct Released {
    /// By their keys in the table `keys`: how many records need them less, and whether one of these was purged.
    parts: BTreeMap<Vec<u8>, (u64, bool)>,
}

impl Released {
    /// Notes that a record is about to be removed, if its body is in pieces.
    pub(crate) fn note(
        &mut self,
        transaction: &mut dyn Transaction,
        records: &Records,
        number: u64,
        is_purge: bool,
    ) -> Result<(), Error> {
        let Some(list) = records.list(transaction, number)? else {
            return Ok(());
        };
        for stored_key in list.stored_keys() {
            let (count, purges) = self.parts.entry(stored_key).or_default();
            *count += 1;
            *purges |= is_purge;
        }
        Ok(())
    }

    /// Removes the parts that no record needs any more.
    pub(crate) fn settle(mut self, transaction: &mut dyn Transaction, records: &Records) -> Result<(), Error> {
        // Pieces come before lists, so those of one list are done before the next list names more.
        while let Some((stored_key, (count, is_purge))) = self.parts.pop_first() {
            // One that is missing is damage, which does not keep others from being removed.
            let Some(entry) = lookup::key_entry(transaction, &stored_key)? else {
                continue;
            };
            let uses = entry.uses.saturating_sub(count);
            if uses > 0 {
                set_uses(transaction, &stored_key, uses, entry)?;
                continue;
            }
            if entry.in_pieces {
                self.note(transaction, records, entry.latest, is_purge)?;
            }
            if is_purge {
                references::purge(transaction, records, entry.latest)?;
            } else {
                references::release(transaction, records, entry.latest)?;
            }
            transaction.delete(Table::Keys, &stored_key)?;
        }
        Ok(())
    }
}
