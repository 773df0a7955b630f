//! Moving records into blocks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ibid_format::record::{Place, Places};

use super::places;
use super::request::{MovedRecord, NewBlock, Origin};
use crate::engine::{Read, Table, Transaction};
use crate::error::Error;
use crate::read;

/// Writes a block, and moves into it those of its records that have not changed since it was made.
/// The others stay where they are.
pub(crate) fn add(transaction: &mut dyn Transaction, block: &NewBlock) -> Result<(), Error> {
    let mut groups: BTreeMap<u64, Places> = BTreeMap::new();
    let mut moved = false;
    for &MovedRecord { number, frame, origin } in &block.records {
        let (group, _) = Places::group_of(number);
        let places = match groups.entry(group) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(read::places::group(transaction, number)?),
        };
        let key = number.to_be_bytes();
        let mut single = None;
        transaction.get(Table::Records, &key, &mut |value| {
            single = Some(value.last_chunk().copied())
        })?;
        let unchanged = match origin {
            Origin::Single(check) => single == Some(Some(check)),
            Origin::Block(place) => single.is_none() && places.get(number) == Some(place),
        };
        if unchanged {
            moved = true;
            let block = block.number;
            places.set(number, Some(Place { block, frame }));
            transaction.delete(Table::Records, &key)?;
        }
    }
    if moved {
        transaction.put(Table::Blocks, &block.number.to_be_bytes(), &block.bytes)?;
    }
    for (group, places) in groups {
        places::put(transaction, group, &places)?;
    }
    Ok(())
}

/// Removes the blocks of a list that have no record any more.
pub(crate) fn remove_unused(transaction: &mut dyn Transaction, blocks: &[u64]) -> Result<(), Error> {
    let used = records_by_block(transaction)?;
    for block in blocks.iter().filter(|block| !used.contains_key(block)) {
        transaction.delete(Table::Blocks, &block.to_be_bytes())?;
    }
    Ok(())
}

/// Returns how many records are in each block.
pub(crate) fn records_by_block(read: &(impl Read + ?Sized)) -> Result<BTreeMap<u64, u64>, Error> {
    let mut records = BTreeMap::new();
    read::places::each(read, |_, place| *records.entry(place.block).or_default() += 1)?;
    Ok(records)
}
