//! How many records are decoded from a record, and what becomes of one that no key leads to any
//! more.
//!
//! A record that others are decoded from outlives its key: it is obsolete then, and goes with the
//! last of them.

use ibid_format::record::{Body, Record, References};

use super::replay;
use crate::engine::{Read, Table, Transaction};
use crate::error::Error;
use crate::read::bodies::Bodies;
use crate::read::frames;

/// The counts of the group of a record.
pub(crate) fn group(read: &(impl Read + ?Sized), number: u64) -> Result<References, Error> {
    let (group, key) = References::group_of(number);
    let mut references = Ok(References::default());
    read.get(Table::References, &key, &mut |value| {
        references = References::decode(group, value)
    })?;
    references.map_err(|error| Error::damaged(Table::References, &key, error))
}

/// Sets what is known of a record, given what is.
fn set(transaction: &mut dyn Transaction, number: u64, change: impl Fn(u32, bool) -> (u32, bool)) -> Result<(), Error> {
    let mut references = group(transaction, number)?;
    let (count, obsolete) = change(references.count(number), references.is_obsolete(number));
    references.set(number, count, obsolete);
    let (group, key) = References::group_of(number);
    if references.is_empty() {
        transaction.delete(Table::References, &key)?;
    } else {
        let value = references.encode(group);
        let value = value.map_err(|error| Error::damaged(Table::References, &key, error))?;
        transaction.put(Table::References, &key, &value)?;
    }
    Ok(())
}

/// Counts one more record that is decoded from `base`.
pub(crate) fn add(transaction: &mut dyn Transaction, base: u64) -> Result<(), Error> {
    set(transaction, base, |count, obsolete| (count.saturating_add(1), obsolete))
}

/// Counts one less, and removes `base` if it was kept for that one alone.
pub(crate) fn subtract(transaction: &mut dyn Transaction, bodies: &Bodies, base: u64) -> Result<(), Error> {
    let mut base = Some(base);
    while let Some(number) = base.take() {
        let references = group(transaction, number)?;
        let last = references.count(number) <= 1;
        set(transaction, number, |count, obsolete| {
            (count.saturating_sub(1), obsolete)
        })?;
        if last && references.is_obsolete(number) {
            base = remove(transaction, bodies, number)?;
        }
    }
    Ok(())
}

/// Says that no key leads to a record any more: it goes, unless others are decoded from it, or the
/// log names it. That counts as one more, until the log does not.
pub(crate) fn release(transaction: &mut dyn Transaction, bodies: &Bodies, number: u64) -> Result<(), Error> {
    if number >= replay::held_from(transaction)? {
        return set(transaction, number, |count, _| (count.saturating_add(1), true));
    }
    if group(transaction, number)?.count(number) > 0 {
        return set(transaction, number, |count, _| (count, true));
    }
    match remove(transaction, bodies, number)? {
        Some(base) => subtract(transaction, bodies, base),
        None => Ok(()),
    }
}

/// Removes a record, and gives the one that it was decoded from.
fn remove(transaction: &mut dyn Transaction, bodies: &Bodies, number: u64) -> Result<Option<u64>, Error> {
    let mut base = None;
    let mut found = |record: Record<'_>| {
        if let Body::Delta { base: found, .. } = record.body {
            base = Some(found);
        }
    };
    bodies.record(transaction, number, &mut found)?;
    let key = number.to_be_bytes();
    transaction.delete(Table::Records, &key)?;
    transaction.delete(Table::Chains, &key)?;
    frames::take_out(transaction, number)?;
    Ok(base)
}
