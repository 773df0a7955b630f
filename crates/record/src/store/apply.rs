//! What a batch does to the tables.
//!
//! First all of it is planned against what is there, which may refuse it; then it is written, which only the engine can
//! refuse. So batches that share a transaction do not share their refusals.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{self, Body, KeyEntry, Next, Record, VersionEntry, key_of, version_key};

use super::batch::{Change, Operation};
use super::error::Error;
use super::lookup;
use crate::engine::{Direction, EngineError, Read, Table, Transaction};

/// What an operation makes of its key.
struct Step {
    /// The key in the table `keys`.
    stored_key: Vec<u8>,
    before: Option<KeyEntry>,
    after: Option<KeyEntry>,
}

/// Does all of `operations`, or nothing if one is refused. Gives the number of the record that each wrote, if it wrote one.
pub(crate) fn batch(
    transaction: &mut dyn Transaction,
    next: &mut Next,
    operations: &[Operation],
) -> Result<Result<Vec<Option<u64>>, Error>, EngineError> {
    let mut numbers = *next;
    let steps = match plan(transaction, &mut numbers, operations) {
        Ok(steps) => steps,
        Err(Error::Engine(error)) => return Err(error),
        Err(refusal) => return Ok(Err(refusal)),
    };
    for step in steps.iter().filter(|step| step.after.is_none()) {
        match records_of(transaction, step) {
            Ok(_) => {}
            Err(Error::Engine(error)) => return Err(error),
            Err(refusal) => return Ok(Err(refusal)),
        }
    }
    let mut encoded = Vec::new();
    let mut written = Vec::with_capacity(steps.len());
    for (step, operation) in steps.iter().zip(operations) {
        written.push(carry_out(transaction, step, operation, &mut encoded)?);
    }
    *next = numbers;
    Ok(Ok(written))
}

fn plan(read: &dyn Read, next: &mut Next, operations: &[Operation]) -> Result<Vec<Step>, Error> {
    let mut changed: HashMap<Vec<u8>, Option<KeyEntry>> = HashMap::new();
    let mut steps = Vec::with_capacity(operations.len());
    for operation in operations {
        within("record key", operation.key.len(), record::KEY_BYTES_MAX)?;
        let length = operation.change.body().map_or(0, <[u8]>::len);
        within("record body", length, record::BODY_BYTES_MAX)?;
        let stored_key = key_of(operation.target.number, &operation.key);
        let before = match changed.get(&stored_key) {
            Some(entry) => *entry,
            None => lookup::key_entry(read, &stored_key)?,
        };
        let after = planned(operation, before, next)?;
        changed.insert(stored_key.clone(), after);
        steps.push(Step {
            stored_key,
            before,
            after,
        });
    }
    Ok(steps)
}

fn within(field: &'static str, found: usize, max: usize) -> Result<(), Error> {
    let (min, max, found) = (0, max as u64, found as u64);
    if found > max {
        return Err(Error::OutOfRange { field, min, max, found });
    }
    Ok(())
}

/// The entry of the key after the operation.
fn planned(operation: &Operation, before: Option<KeyEntry>, next: &mut Next) -> Result<Option<KeyEntry>, Error> {
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
    let further = |after: u64| after.checked_add(1);
    next.record = further(number).ok_or(Error::OutOfRange {
        field: "record number",
        min: 1,
        max: u64::MAX - 1,
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

/// Versions and numbers of the records that go with a key.
fn records_of(read: &dyn Read, step: &Step) -> Result<Vec<(u32, u64)>, Error> {
    let Some(before) = step.before else {
        return Ok(Vec::new());
    };
    let mut records = vec![(1, before.lineage)];
    let (from, to) = (version_key(before.lineage, 2), version_key(before.lineage, u32::MAX));
    let mut damage = None;
    let mut each = |key: &[u8], value: &[u8]| {
        let version = key.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        match VersionEntry::decode(before.lineage, version, value) {
            Ok(entry) => records.push((version, entry.number)),
            Err(error) => {
                damage = Some(Error::damaged(Table::Versions, key, error));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    };
    let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
    read.range(Table::Versions, range, Direction::Forward, &mut each)?;
    match damage {
        Some(error) => Err(error),
        None => Ok(records),
    }
}

/// Writes one step.
fn carry_out(
    transaction: &mut dyn Transaction,
    step: &Step,
    operation: &Operation,
    encoded: &mut Vec<u8>,
) -> Result<Option<u64>, EngineError> {
    if let Some(before) = step.before
        && (step.after.is_none() || !operation.target.versions_kept)
    {
        let obsolete = match records_of(transaction, step) {
            Ok(records) => records,
            Err(Error::Engine(error)) => return Err(error),
            // Not so: they were read when the batch was planned, and what it wrote since is sound.
            Err(_) => Vec::new(),
        };
        for (version, number) in obsolete {
            transaction.delete(Table::Versions, &version_key(before.lineage, version))?;
            transaction.delete(Table::Records, &number.to_be_bytes())?;
        }
    }
    let Some(after) = step.after else {
        transaction.delete(Table::Keys, &step.stored_key)?;
        return Ok(None);
    };
    let record = Record {
        namespace: operation.target.number,
        version: after.versions,
        key: &operation.key,
        body: operation.change.body().map_or(Body::Deleted, Body::Whole),
    };
    encoded.clear();
    let valid = "the plan keeps to the limits of the format";
    record.encode(after.latest, encoded).expect(valid);
    transaction.put(Table::Records, &after.latest.to_be_bytes(), encoded)?;
    if after.versions > 1 {
        let (deleted, number) = (after.deleted, after.latest);
        let entry = VersionEntry { deleted, number };
        let value = entry.encode(after.lineage, after.versions).expect(valid);
        transaction.put(Table::Versions, &version_key(after.lineage, after.versions), &value)?;
    }
    let entry = after.encode(&step.stored_key).expect(valid);
    transaction.put(Table::Keys, &step.stored_key, &entry)?;
    Ok(Some(after.latest))
}
