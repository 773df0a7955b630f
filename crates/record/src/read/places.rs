//! The block and the frame that a record is in.

use std::ops::{Bound, ControlFlow};

use ibid_format::record::{Place, Places};

use crate::engine::{Direction, Read, Table};
use crate::error::Error;

/// Returns the places of all records in the group of `number`.
pub(crate) fn group(read: &(impl Read + ?Sized), number: u64) -> Result<Places, Error> {
    let (group, key) = Places::group_of(number);
    let mut places = Ok(Places::default());
    read.get(Table::Places, &key, &mut |value| places = Places::decode(group, value))?;
    places.map_err(|error| Error::damaged(Table::Places, &key, error))
}

/// Adds the numbers of records in frames after `after` to `numbers`, ascending. Stops after the
/// group with which there are at least `limit` more.
pub(crate) fn numbers(
    read: &(impl Read + ?Sized),
    after: u64,
    limit: usize,
    numbers: &mut Vec<u64>,
) -> Result<(), Error> {
    let before = numbers.len();
    let mut damage = None;
    let mut each = |key: &[u8], value: &[u8]| {
        let group = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
        match Places::decode(group, value) {
            Ok(places) => {
                let found = places.iter(group).map(|(number, _)| number);
                numbers.extend(found.filter(|&number| number > after));
            }
            Err(error) => damage = Some(Error::damaged(Table::Places, key, error)),
        }
        if damage.is_some() || numbers.len() - before >= limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let (_, from) = Places::group_of(after);
    let range = (Bound::Included(&from[..]), Bound::Unbounded);
    read.range(Table::Places, range, Direction::Forward, &mut each)?;
    damage.map_or(Ok(()), Err)
}

/// Shows every record that is in a block, ascending.
pub(crate) fn each(read: &(impl Read + ?Sized), mut each: impl FnMut(u64, Place)) -> Result<(), Error> {
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
