//! Applying a batch of operations.
//!
//! A batch is planned against the tables first, and may be refused then; only a batch that is not
//! refused writes. So one refused batch does not undo others in the same transaction.

use std::collections::HashMap;

use ibid_format::record::{
    self, Body, KeyEntry, NextNumbers, Record, VersionEntry, VersionGroup, key_of, version_group_key,
};

use super::references;
use super::request::{Change, Operation, Prior, Requirement, Written};
use crate::condition::Condition;
use crate::engine::{Read, Table, Transaction};
use crate::error::Error;
use crate::read::lookup;
use crate::read::records::Records;
use crate::versions::Version;

/// Why a command was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing was written.
    Refused(Error),
    /// A part was written, so the transaction must not be committed.
    Undone(Error),
}

/// The entry of a key before and after an operation.
struct KeyChange {
    /// The key in the table `keys`.
    stored_key: Vec<u8>,
    before: Option<KeyEntry>,
    after: Option<KeyEntry>,
}

/// Applies all of `operations`, if all of `requirements` hold. Returns for each operation the record
/// that it wrote, if it wrote one.
pub(crate) fn apply_batch(
    transaction: &mut dyn Transaction,
    records: &Records,
    next: &mut NextNumbers,
    operations: &[Operation],
    requirements: &[Requirement],
) -> Result<Vec<Option<Written>>, Failure> {
    let mut numbers = *next;
    let changes = plan(transaction, &mut numbers, operations, requirements).map_err(Failure::Refused)?;
    let mut written = Vec::with_capacity(changes.len());
    for (change, operation) in changes.iter().zip(operations) {
        written.push(write(transaction, records, change, operation).map_err(Failure::Undone)?);
    }
    *next = numbers;
    Ok(written)
}

/// The entries of the keys of a batch, as they are after the operations that were planned.
struct Planned<'r> {
    read: &'r dyn Read,
    changed: HashMap<Vec<u8>, Option<KeyEntry>>,
}

impl Planned<'_> {
    fn entry(&self, stored_key: &[u8]) -> Result<Option<KeyEntry>, Error> {
        match self.changed.get(stored_key) {
            Some(entry) => Ok(*entry),
            None => lookup::key_entry(self.read, stored_key),
        }
    }
}

fn plan(
    read: &dyn Read,
    next: &mut NextNumbers,
    operations: &[Operation],
    requirements: &[Requirement],
) -> Result<Vec<KeyChange>, Error> {
    let mut planned = Planned {
        read,
        changed: HashMap::new(),
    };
    let mut requirements = requirements.iter().peekable();
    let mut changes = Vec::with_capacity(operations.len());
    for (done, operation) in operations.iter().enumerate() {
        while let Some(requirement) = requirements.next_if(|requirement| requirement.after <= done) {
            check(&planned, requirement)?;
        }
        check_length("record key", operation.key.len(), record::KEY_BYTES_MAX)?;
        check_length("record body", operation.body_bytes(), record::BODY_BYTES_MAX)?;
        let stored_key = key_of(operation.target.number, &operation.key);
        let before = planned.entry(&stored_key)?;
        let after = entry_after(operation, before, next)?;
        planned.changed.insert(stored_key.clone(), after);
        changes.push(KeyChange {
            stored_key,
            before,
            after,
        });
    }
    requirements.try_for_each(|requirement| check(&planned, requirement))?;
    Ok(changes)
}

/// Refuses a key that is in another state than is required.
fn check(planned: &Planned<'_>, requirement: &Requirement) -> Result<(), Error> {
    let Requirement {
        target, key, condition, ..
    } = requirement;
    let namespace = target.name.to_string();
    if matches!(condition, Condition::Version(_)) && !target.versions_kept {
        return Err(Error::VersionsNotKept { namespace });
    }
    check_length("record key", key.len(), record::KEY_BYTES_MAX)?;
    let found = planned.entry(&key_of(target.number, key))?;
    let found = found.as_ref().map(Version::latest_of);
    if condition.holds(found) {
        return Ok(());
    }
    let (key, expected) = (key.clone(), *condition);
    Err(Error::ConditionFailed {
        namespace,
        key,
        expected,
        found,
    })
}

/// Refuses a key or body that is too long.
fn check_length(field: &'static str, found: usize, max: usize) -> Result<(), Error> {
    let (min, max, found) = (0, max as u64, found as u64);
    if found > max {
        return Err(Error::OutOfRange { field, min, max, found });
    }
    Ok(())
}

/// Returns the entry of the key after the operation.
fn entry_after(
    operation: &Operation,
    before: Option<KeyEntry>,
    next: &mut NextNumbers,
) -> Result<Option<KeyEntry>, Error> {
    let (namespace, key) = (operation.target.name.to_string(), operation.key.clone());
    let live = before.is_some_and(|entry| !entry.deleted);
    match operation.change {
        Change::Insert(_) if live => return Err(Error::KeyExists { namespace, key }),
        Change::Update(_) | Change::Delete if !live => return Err(Error::NoSuchKey { namespace, key }),
        Change::Purge if before.is_none() => return Err(Error::NoSuchKey { namespace, key }),
        Change::Purge => return Ok(None),
        Change::Delete if !operation.target.versions_kept => return Ok(None),
        _ => {}
    }
    let number = next.record;
    let further = Some(number + 1).filter(|_| number <= record::NUMBER_MAX);
    next.record = further.ok_or(Error::OutOfRange {
        field: "record number",
        min: 1,
        max: record::NUMBER_MAX,
        found: number,
    })?;
    let first = KeyEntry {
        deleted: false,
        lineage: number,
        versions: 1,
        latest: number,
    };
    let Some(before) = before.filter(|_| operation.target.versions_kept) else {
        return Ok(Some(first));
    };
    let versions = before.versions.checked_add(1).ok_or(Error::OutOfRange {
        field: "versions of a key",
        min: 1,
        max: u32::MAX.into(),
        found: u64::from(u32::MAX) + 1,
    })?;
    Ok(Some(KeyEntry {
        deleted: operation.change.body().is_none(),
        lineage: before.lineage,
        versions,
        latest: number,
    }))
}

/// Writes one operation as it was planned.
fn write(
    transaction: &mut dyn Transaction,
    records: &Records,
    change: &KeyChange,
    operation: &Operation,
) -> Result<Option<Written>, Error> {
    if let Some(before) = &change.before
        && (change.after.is_none() || !operation.target.versions_kept)
    {
        remove_versions(transaction, records, before)?;
    }
    let Some(after) = &change.after else {
        transaction.delete(Table::Keys, &change.stored_key)?;
        return Ok(None);
    };
    let record = Record {
        namespace: operation.target.number,
        version: after.versions,
        key: &operation.key,
        body: operation.change.body().map_or(Body::Deleted, Body::Whole),
    };
    let valid = "the plan keeps to the limits of the format";
    let (head, check) = record.encode_around(after.latest).expect(valid);
    let parts = [&head, record.body.stored(), &check];
    transaction.put_parts(Table::Records, &after.latest.to_be_bytes(), &parts)?;
    if after.versions > 1 {
        add_version(transaction, after)?;
    }
    let entry = after.encode(&change.stored_key).expect(valid);
    transaction.put(Table::Keys, &change.stored_key, &entry)?;
    Ok(Some(Written {
        number: after.latest,
        prior: prior(transaction, change, operation, after.latest)?,
    }))
}

/// Removes all versions of a key.
fn remove_versions(transaction: &mut dyn Transaction, records: &Records, entry: &KeyEntry) -> Result<(), Error> {
    // The oldest first: it is a delta of newer ones, which can be removed once it is gone.
    for (_, version) in lookup::versions(transaction, entry)? {
        references::release(transaction, records, version.number)?;
    }
    for group in 0..=VersionGroup::of(entry.versions) {
        transaction.delete(Table::Versions, &version_group_key(entry.lineage, group))?;
    }
    Ok(())
}

/// Adds the latest version of a key to its group of versions.
fn add_version(transaction: &mut dyn Transaction, entry: &KeyEntry) -> Result<(), Error> {
    let (deleted, number) = (entry.deleted, entry.latest);
    let group = VersionGroup::of(entry.versions);
    let versions = lookup::version_group(transaction, entry.lineage, group)?;
    let mut versions = versions.unwrap_or_else(|| VersionGroup::new(entry.lineage, group));
    versions.push(VersionEntry { deleted, number });
    let key = version_group_key(entry.lineage, group);
    let value = versions.encode();
    let value = value.map_err(|error| Error::damaged(Table::Versions, &key, error))?;
    Ok(transaction.put(Table::Versions, &key, &value)?)
}

/// Returns the record that the new one probably resembles: the key's latest record until now, or
/// else the latest record of the key that the caller named as similar.
fn prior(read: &dyn Read, change: &KeyChange, operation: &Operation, new: u64) -> Result<Option<Prior>, Error> {
    let prior = |entry: Option<KeyEntry>, is_replaced| {
        let number = entry.filter(|entry| !entry.deleted)?.latest;
        Some(Prior { number, is_replaced })
    };
    if let Some(replaced) = prior(change.before, true) {
        return Ok(Some(replaced));
    }
    match &operation.like {
        Some(like) if like.len() <= record::KEY_BYTES_MAX => {
            let entry = lookup::key_entry(read, &key_of(operation.target.number, like))?;
            Ok(prior(entry, false).filter(|prior| prior.number != new))
        }
        Some(_) | None => Ok(None),
    }
}
