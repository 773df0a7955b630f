//! What a batch does to the tables.
//!
//! First all of it is planned against what is there, which may refuse it; then it is written. So
//! batches that share a transaction do not share their refusals.

use std::collections::HashMap;

use ibid_format::record::{
    self, Body, KeyEntry, NextNumbers, Record, VersionEntry, VersionGroup, key_of, version_group_key,
};

use super::references;
use crate::engine::{Read, Table, Transaction};
use crate::error::Error;
use crate::read::bodies::Bodies;
use crate::read::lookup;
use crate::store::batch::{Change, Operation};

/// Why a batch is not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nothing was written.
    Refused(Error),
    /// A part was written: the transaction must not be committed.
    Undone(Error),
}

/// What an operation makes of its key.
struct Step {
    /// The key in the table `keys`.
    stored_key: Vec<u8>,
    before: Option<KeyEntry>,
    after: Option<KeyEntry>,
}

/// What was written of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Number of the record.
    pub(crate) number: u64,
    /// The record that was the key's latest until then, or else the latest of the key that it is
    /// like, as the caller says.
    pub(crate) prior: Option<Prior>,
}

/// An older record that a new one is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prior {
    pub(crate) number: u64,
    /// Whether no key leads to it as its latest any more.
    pub(crate) is_replaced: bool,
}

/// Does all of `operations`. Gives for each the record that it wrote, if it wrote one.
pub(crate) fn batch(
    transaction: &mut dyn Transaction,
    bodies: &Bodies,
    next: &mut NextNumbers,
    operations: &[Operation],
) -> Result<Vec<Option<Written>>, Failure> {
    let mut numbers = *next;
    let steps = plan(transaction, &mut numbers, operations).map_err(Failure::Refused)?;
    let mut encoded = Vec::new();
    let mut written = Vec::with_capacity(steps.len());
    for (step, operation) in steps.iter().zip(operations) {
        written.push(carry_out(transaction, bodies, step, operation, &mut encoded).map_err(Failure::Undone)?);
    }
    *next = numbers;
    Ok(written)
}

fn plan(read: &dyn Read, next: &mut NextNumbers, operations: &[Operation]) -> Result<Vec<Step>, Error> {
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
fn planned(operation: &Operation, before: Option<KeyEntry>, next: &mut NextNumbers) -> Result<Option<KeyEntry>, Error> {
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

/// Writes one step.
fn carry_out(
    transaction: &mut dyn Transaction,
    bodies: &Bodies,
    step: &Step,
    operation: &Operation,
    encoded: &mut Vec<u8>,
) -> Result<Option<Written>, Error> {
    if let Some(before) = step.before
        && (step.after.is_none() || !operation.target.versions_kept)
    {
        // The oldest first: it is decoded from the newer ones, which then go, too.
        for (_, version) in lookup::versions(transaction, &before)? {
            references::release(transaction, bodies, version.number)?;
        }
        for group in 0..=VersionGroup::of(before.versions) {
            transaction.delete(Table::Versions, &version_group_key(before.lineage, group))?;
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
        let group = VersionGroup::of(after.versions);
        let mut versions = lookup::version_group(transaction, after.lineage, group)?
            .unwrap_or_else(|| VersionGroup::new(after.lineage, group));
        versions.push(VersionEntry { deleted, number });
        let key = version_group_key(after.lineage, group);
        let value = versions.encode();
        let value = value.map_err(|error| Error::damaged(Table::Versions, &key, error))?;
        transaction.put(Table::Versions, &key, &value)?;
    }
    let entry = after.encode(&step.stored_key).expect(valid);
    transaction.put(Table::Keys, &step.stored_key, &entry)?;
    let prior = |entry: Option<KeyEntry>, is_replaced| {
        let number = entry.filter(|entry| !entry.deleted)?.latest;
        Some(Prior { number, is_replaced })
    };
    let mut older = prior(step.before, true);
    if older.is_none()
        && let Some(like) = operation
            .like
            .as_ref()
            .filter(|like| like.len() <= record::KEY_BYTES_MAX)
    {
        let stored_key = key_of(operation.target.number, like);
        let entry = lookup::key_entry(transaction, &stored_key)?;
        older = prior(entry, false).filter(|prior| prior.number != after.latest);
    }
    Ok(Some(Written {
        number: after.latest,
        prior: older,
    }))
}
