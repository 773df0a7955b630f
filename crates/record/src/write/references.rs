//! The number of deltas of each record, and the removal of records that no key has any more.
//!
//! A record that is the base of others is kept after its key is gone. It is obsolete then, and is
//! removed with the last record that needs it.

use ibid_format::record::{Body, PURGED_KEY, PurgedMark, Record, References};

use super::places;
use crate::engine::{Read, Table, Transaction};
use crate::error::Error;
use crate::log::state;
use crate::read::records::Records;

/// Returns the reference counts of all records in the group of `number`.
pub(crate) fn group(read: &(impl Read + ?Sized), number: u64) -> Result<References, Error> {
    let (group, key) = References::group_of(number);
    let mut references = Ok(References::default());
    read.get(Table::References, &key, &mut |value| {
        references = References::decode(group, value)
    })?;
    references.map_err(|error| Error::damaged(Table::References, &key, error))
}

/// Changes the reference count of a record, and whether it is obsolete.
fn set(transaction: &mut dyn Transaction, number: u64, change: impl Fn(u32, bool) -> (u32, bool)) -> Result<(), Error> {
    edit(transaction, number, |references| {
        let (count, obsolete) = change(references.count(number), references.is_obsolete(number));
        references.set(number, count, obsolete);
    })
}

/// Changes the group of reference counts that a record is in.
fn edit(transaction: &mut dyn Transaction, number: u64, change: impl FnOnce(&mut References)) -> Result<(), Error> {
    let mut references = group(transaction, number)?;
    change(&mut references);
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

/// Counts one more delta of each of these bases.
pub(crate) fn add(transaction: &mut dyn Transaction, mut bases: Vec<u64>) -> Result<(), Error> {
    bases.sort_unstable();
    let group_of = |base: &u64| References::group_of(*base).0;
    for bases in bases.chunk_by(|one, next| group_of(one) == group_of(next)) {
        edit(transaction, bases[0], |references| {
            for &base in bases {
                let count = references.count(base).saturating_add(1);
                references.set(base, count, references.is_obsolete(base));
            }
        })?;
    }
    Ok(())
}

/// Counts one delta of `base` less. Removes `base` if it is obsolete and that was the last.
pub(crate) fn subtract(transaction: &mut dyn Transaction, records: &Records, base: u64) -> Result<(), Error> {
    let mut base = Some(base);
    while let Some(number) = base.take() {
        let references = group(transaction, number)?;
        let last = references.count(number) <= 1;
        if last && references.is_purged(number) {
            mark_purge(transaction)?;
        }
        set(transaction, number, |count, obsolete| {
            (count.saturating_sub(1), obsolete)
        })?;
        if last && references.is_obsolete(number) {
            base = remove(transaction, records, number)?;
        }
    }
    Ok(())
}

/// Removes a record that no key has any more, or marks it as obsolete if it is the base of others
/// or named by the log. The log counts as one more reference, until the entry is removed.
pub(crate) fn release(transaction: &mut dyn Transaction, records: &Records, number: u64) -> Result<(), Error> {
    if number >= state::first_record(transaction)? {
        return set(transaction, number, |count, _| (count.saturating_add(1), true));
    }
    if group(transaction, number)?.count(number) > 0 {
        return set(transaction, number, |count, _| (count, true));
    }
    match remove(transaction, records, number)? {
        Some(base) => subtract(transaction, records, base),
        None => Ok(()),
    }
}

/// [Releases](release) a record so that nothing of it is left: what is a delta of it is to be stored anew.
pub(crate) fn purge(transaction: &mut dyn Transaction, records: &Records, number: u64) -> Result<(), Error> {
    mark_purge(transaction)?;
    release(transaction, records, number)?;
    if group(transaction, number)?.is_obsolete(number) {
        edit(transaction, number, |references| references.purge(number))?;
    }
    Ok(())
}

/// Notes that the engine's files have bytes that are to be overwritten.
pub(crate) fn mark_purge(transaction: &mut dyn Transaction) -> Result<(), Error> {
    let purges = purged_mark(transaction)?.map_or(0, |mark| mark.purges);
    let mark = PurgedMark { purges: purges + 1 };
    Ok(transaction.put(Table::Meta, PURGED_KEY, &mark.encode())?)
}

/// Returns how often something was purged since the last compaction; [`None`] if nothing was.
pub(crate) fn purged_mark(read: &(impl Read + ?Sized)) -> Result<Option<PurgedMark>, Error> {
    let mut mark = None;
    read.get(Table::Meta, PURGED_KEY, &mut |value| {
        mark = Some(PurgedMark::decode(value))
    })?;
    let damaged = |error| Error::damaged(Table::Meta, PURGED_KEY, error);
    mark.transpose().map_err(damaged)
}

/// Notes that all bytes are overwritten, unless something was purged since the mark was read.
pub(crate) fn forget_purges(transaction: &mut dyn Transaction, seen: PurgedMark) -> Result<(), Error> {
    if purged_mark(transaction)? == Some(seen) {
        transaction.delete(Table::Meta, PURGED_KEY)?;
    }
    Ok(())
}

/// Removes a record, and returns its base if it was a delta.
fn remove(transaction: &mut dyn Transaction, records: &Records, number: u64) -> Result<Option<u64>, Error> {
    let (mut base, mut bytes) = (None, 0);
    let mut found = |record: Record<'_>| {
        if let Body::Delta { base: found, .. } = record.body {
            base = Some(found);
        }
        bytes = record.body.stored().len();
    };
    records.visit(transaction, number, &mut found)?;
    let key = number.to_be_bytes();
    transaction.delete(Table::Records, &key)?;
    transaction.delete(Table::Chains, &key)?;
    places::remove(transaction, records, number, bytes)?;
    Ok(base)
}
