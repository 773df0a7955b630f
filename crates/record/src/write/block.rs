//! Moving records into blocks.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{LAST_BLOCK_KEY, LastBlock, Place, Places};

use super::places;
use super::request::{FreedBlocks, MovedRecord, NewBlock, Origin};
use crate::engine::{Direction, Read, Table, Transaction};
use crate::error::Error;
use crate::read;
use crate::read::records::Records;

/// Writes a block, and moves into it those of its records that have not changed since it was made.
/// The others stay where they are, and what the block has of them is of no use.
pub(crate) fn add(transaction: &mut dyn Transaction, records: &Records, block: &NewBlock) -> Result<(), Error> {
    let mut groups: BTreeMap<u64, Places> = BTreeMap::new();
    let (mut moved, mut unused_bytes) = (false, 0);
    for &MovedRecord {
        number,
        frame,
        origin,
        bytes,
    } in &block.records
    {
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
        } else {
            unused_bytes += bytes as usize;
        }
    }
    if moved {
        records.note_moved_out(unused_bytes);
        transaction.put(Table::Blocks, &block.number.to_be_bytes(), &block.bytes)?;
    }
    for (group, places) in groups {
        places::put(transaction, group, &places)?;
    }
    Ok(())
}

/// Removes the blocks of a list that have no record any more.
pub(crate) fn remove_unused(transaction: &mut dyn Transaction, freed: &FreedBlocks) -> Result<(), Error> {
    let used: BTreeSet<u64> = match &freed.records {
        // No other record can have come into a block since: it gets all of its records when it is made.
        Some(records) => blocks_of(transaction, records)?,
        None => records_by_block(transaction)?.into_keys().collect(),
    };
    let unused = || freed.blocks.iter().filter(|block| !used.contains(block));
    let last = last_number(transaction)?;
    if unused().any(|block| *block == last) {
        note_last(transaction)?;
    }
    for block in unused() {
        transaction.delete(Table::Blocks, &block.to_be_bytes())?;
    }
    Ok(())
}

/// Returns the blocks that these records are in, which are ascending.
fn blocks_of(read: &(impl Read + ?Sized), records: &[u64]) -> Result<BTreeSet<u64>, Error> {
    let mut blocks = BTreeSet::new();
    let group_of = |number: &u64| Places::group_of(*number).0;
    for records in records.chunk_by(|one, next| group_of(one) == group_of(next)) {
        let places = read::places::group(read, records[0])?;
        blocks.extend(records.iter().filter_map(|number| Some(places.get(*number)?.block)));
    }
    Ok(blocks)
}

/// Returns the largest number that a block has or had; 0 if there never was one.
pub(crate) fn last_number(read: &(impl Read + ?Sized)) -> Result<u64, Error> {
    let mut last = 0;
    // Verification reports damage. It is in the way of no compaction.
    let mut removed = |value: &[u8]| last = LastBlock::decode(value).map_or(0, |removed| removed.number);
    read.get(Table::Meta, LAST_BLOCK_KEY, &mut removed)?;
    let mut each = |key: &[u8]| {
        last = last.max(key.try_into().map_or(0, u64::from_be_bytes));
        ControlFlow::Break(())
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    read.keys(Table::Blocks, everything, Direction::Backward, &mut each)?;
    Ok(last)
}

/// Notes the largest number that a block has, before this block is removed.
pub(crate) fn note_last(transaction: &mut dyn Transaction) -> Result<(), Error> {
    let number = last_number(transaction)?;
    if number > 0 {
        transaction.put(Table::Meta, LAST_BLOCK_KEY, &LastBlock { number }.encode())?;
    }
    Ok(())
}

/// Returns how many records are in each block.
pub(crate) fn records_by_block(read: &(impl Read + ?Sized)) -> Result<BTreeMap<u64, u64>, Error> {
    let mut records = BTreeMap::new();
    read::places::each(read, |_, place| *records.entry(place.block).or_default() += 1)?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Commit, Engine, Redb};

    /// Otherwise blocks would be full of what the encoder has replaced meanwhile, and never be compressed anew.
    #[test]
    fn what_changed_while_its_block_was_made_counts_as_unused() {
        let folder = tempfile::tempdir().unwrap();
        let engine = Redb::open(&folder.path().join("redb"), 1 << 20).unwrap();
        let records = Records::new(1 << 20, 1 << 20);
        let single = |number: u64, bytes: u32| MovedRecord {
            number,
            frame: 0,
            origin: Origin::Single(*b"as befor"),
            bytes,
        };
        let block = |number: u64, records: Vec<MovedRecord>| NewBlock {
            number,
            bytes: vec![0; 100],
            records,
        };
        let add = |value: &[u8], block: NewBlock| {
            let mut work = |transaction: &mut dyn Transaction| {
                transaction.put(Table::Records, &7_u64.to_be_bytes(), b"record as befor")?;
                transaction.put(Table::Records, &8_u64.to_be_bytes(), value)?;
                add(transaction, &records, &block).unwrap();
                Ok(())
            };
            engine.write(Commit::Unsynced, &mut work).unwrap();
            records.moved_out()
        };
        assert_eq!(add(b"record as befor", block(1, vec![single(7, 30), single(8, 50)])), 0);
        assert_eq!(add(b"another record", block(3, vec![single(7, 30), single(8, 50)])), 50);
        // A block that no record is in is not written.
        assert_eq!(add(b"another record", block(5, vec![single(8, 50)])), 50);
    }
}
