//! Records move into blocks.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{Place, Places};

use crate::engine::{Direction, Read, Table, Transaction};
use crate::error::Error;
use crate::read::frames;

/// Last bytes of a record's entry: its checksum.
pub(crate) type Check = [u8; 8];

/// Where a record was when it was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// By itself, with this checksum.
    Single(Check),
    /// In another block.
    Packed(Place),
}

/// A block, and what it is to hold.
#[derive(Debug)]
pub(crate) struct Pack {
    pub(crate) block: u64,
    pub(crate) bytes: Vec<u8>,
    /// Number, frame, and where it was.
    pub(crate) records: Vec<(u64, u8, Origin)>,
}

/// Writes a block. A record that is not any more as it was packed stays where it is, and what the
/// block has of it is of no use.
pub(crate) fn carry_out(transaction: &mut dyn Transaction, pack: &Pack) -> Result<(), Error> {
    let mut groups: BTreeMap<u64, Places> = BTreeMap::new();
    let mut moved = false;
    for &(number, frame, origin) in &pack.records {
        let (group, _) = Places::group_of(number);
        let places = match groups.entry(group) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => entry.insert(frames::places(transaction, number)?),
        };
        let key = number.to_be_bytes();
        let mut single = None;
        transaction.get(Table::Records, &key, &mut |value| {
            single = Some(value.last_chunk().copied())
        })?;
        let unchanged = match origin {
            Origin::Single(check) => single == Some(Some(check)),
            Origin::Packed(place) => single.is_none() && places.get(number) == Some(place),
        };
        if unchanged {
            moved = true;
            let block = pack.block;
            places.set(number, Some(Place { block, frame }));
            transaction.delete(Table::Records, &key)?;
        }
    }
    if moved {
        transaction.put(Table::Blocks, &pack.block.to_be_bytes(), &pack.bytes)?;
    }
    for (group, places) in groups {
        frames::put_places(transaction, group, &places)?;
    }
    Ok(())
}

/// Removes blocks that no record lies in any more.
pub(crate) fn free(transaction: &mut dyn Transaction, blocks: &[u64]) -> Result<(), Error> {
    let live = live(transaction)?;
    for block in blocks.iter().filter(|block| !live.contains_key(block)) {
        transaction.delete(Table::Blocks, &block.to_be_bytes())?;
    }
    Ok(())
}

/// How many records lie in each block.
pub(crate) fn live(read: &(impl Read + ?Sized)) -> Result<BTreeMap<u64, u64>, Error> {
    let mut live = BTreeMap::new();
    each_placed(read, |_, place| *live.entry(place.block).or_default() += 1)?;
    Ok(live)
}

/// Shows every record that lies in a block, ascending.
pub(crate) fn each_placed(read: &(impl Read + ?Sized), mut each: impl FnMut(u64, Place)) -> Result<(), Error> {
    let mut damage = None;
    let mut group = |key: &[u8], value: &[u8]| {
        let group = key.try_into().map_or(0, u64::from_be_bytes);
        match Places::decode(group, value) {
            Ok(places) => {
                places.iter(group).for_each(|(number, place)| each(number, place));
                ControlFlow::Continue(())
            }
            Err(error) => {
                damage = Some(Error::damaged(Table::Places, key, error));
                ControlFlow::Break(())
            }
        }
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    read.range(Table::Places, everything, Direction::Forward, &mut group)?;
    damage.map_or(Ok(()), Err)
}
