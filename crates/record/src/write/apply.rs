//! Applying a batch of operations.
//!
//! A batch is planned against the tables first, and may be refused then; only a batch that is not
//! refused writes. So one refused batch does not undo others in the same transaction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use ibid_format::record::{
    self, Body, IndexValues, KeyEntry, NextNumbers, Record, VersionEntry, VersionGroup, key_of, version_group_key,
};

use super::index::{self, RowChanges, ValuesChange};
use super::pieces::Released;
use super::request::{Change, Operation, Prior, Requirement, Written};
use super::{namespace, pieces, references};
use crate::condition::Condition;
use crate::engine::{Read, Table, Transaction};
use crate::error::{Damage, Error};
use crate::read::lookup;
use crate::read::records::Records;
use crate::time::Time;
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
    /// The index values after it.
    values: IndexValues,
}

/// Applies all of `operations`, if all of `requirements` hold. Records without a time of their own get `now`,
/// milliseconds since 1970, or 0 if it is unknown. Returns for each operation the record that it wrote, if it wrote
/// one.
pub(crate) fn apply_batch(
    transaction: &mut dyn Transaction,
    records: &Records,
    next: &mut NextNumbers,
    now: u64,
    operations: &[Operation],
    requirements: &[Requirement],
) -> Result<Vec<Option<Written>>, Failure> {
    let mut numbers = *next;
    let plan = plan(transaction, &mut numbers, now, operations, requirements).map_err(Failure::Refused)?;
    let Plan { changes, rows } = plan;
    let mut written = Vec::with_capacity(changes.len());
    let mut released = Released::default();
    for (change, operation) in changes.iter().zip(operations) {
        written.push(write(transaction, records, &mut released, change, operation).map_err(Failure::Undone)?);
    }
    released.settle(transaction, records).map_err(Failure::Undone)?;
    rows.write(transaction).map_err(Failure::Undone)?;
    *next = numbers;
    Ok(written)
}

/// What a batch does.
struct Plan {
    /// For each operation.
    changes: Vec<KeyChange>,
    /// Of indexes, for all operations together.
    rows: RowChanges,
}

/// The entries of the keys of a batch, as they are after the operations that were planned.
struct Planned<'r> {
    read: &'r dyn Read,
    changed: HashMap<Vec<u8>, PlannedKey>,
}

struct PlannedKey {
    entry: Option<KeyEntry>,
    values: IndexValues,
    /// The index values before the batch.
    values_before: IndexValues,
}

impl Planned<'_> {
    fn entry(&self, stored_key: &[u8]) -> Result<Option<KeyEntry>, Error> {
        match self.changed.get(stored_key) {
            Some(planned) => Ok(planned.entry),
            None => lookup::key_entry(self.read, stored_key),
        }
    }

    /// Returns a key that an operation is about.
    fn key(&mut self, stored_key: &[u8]) -> Result<&mut PlannedKey, Error> {
        match self.changed.entry(stored_key.to_vec()) {
            Entry::Occupied(planned) => Ok(planned.into_mut()),
            Entry::Vacant(place) => {
                let found = lookup::key_entry_with_values(self.read, stored_key)?;
                let (entry, values) = found.map_or((None, IndexValues::new()), |(entry, values)| (Some(entry), values));
                Ok(place.insert(PlannedKey {
                    entry,
                    values_before: values.clone(),
                    values,
                }))
            }
        }
    }

    /// Returns the changes of indexes that follow.
    fn rows(&self) -> Result<RowChanges, Error> {
        let mut changes = Vec::new();
        for (
            stored_key,
            PlannedKey {
                values, values_before, ..
            },
        ) in &self.changed
        {
            if values != values_before {
                changes.push(ValuesChange {
                    stored_key,
                    before: values_before,
                    after: values,
                });
            }
        }
        // So that of several values that are taken, it is always the same that is told.
        changes.sort_unstable_by_key(|change| change.stored_key);
        RowChanges::of(self.read, &changes)
    }
}

fn plan(
    read: &dyn Read,
    next: &mut NextNumbers,
    now: u64,
    operations: &[Operation],
    requirements: &[Requirement],
) -> Result<Plan, Error> {
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
        index::check(operation)?;
        let stored_key = key_of(operation.target.number, &operation.key);
        let key = planned.key(&stored_key)?;
        let before = key.entry;
        let after = entry_after(operation, before, next, now)?;
        key.entry = after;
        if !matches!(operation.change, Change::PurgeVersions { .. }) {
            // What an operation does not state is gone: it may be of a body that is replaced.
            key.values.clone_from(&operation.values);
        }
        let values = key.values.clone();
        changes.push(KeyChange {
            stored_key,
            before,
            after,
            values,
        });
    }
    requirements.try_for_each(|requirement| check(&planned, requirement))?;
    let rows = planned.rows()?;
    Ok(Plan { changes, rows })
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
    now: u64,
) -> Result<Option<KeyEntry>, Error> {
    let (namespace, key) = (operation.target.name.to_string(), operation.key.clone());
    let live = before.is_some_and(|entry| !entry.deleted);
    match operation.change {
        Change::Insert(_) if live => return Err(Error::KeyExists { namespace, key }),
        Change::Update(_) | Change::Delete | Change::SetIndexValues if !live => {
            return Err(Error::NoSuchKey { namespace, key });
        }
        Change::Purge if before.is_none() => return Err(Error::NoSuchKey { namespace, key }),
        Change::Purge => return Ok(None),
        Change::PutIfAbsent(_) if live => return Ok(before),
        Change::SetIndexValues => return Ok(before),
        Change::PurgeVersions { from, to } => {
            let before = before.ok_or(Error::NoSuchKey { namespace, key })?;
            return after_purge(operation, before, from, to).map(Some);
        }
        Change::Delete if !operation.target.versions_kept => return Ok(None),
        _ => {}
    }
    let time = time_of(operation, before, now)?;
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
        time,
        oldest: 1,
        expires: operation.expires,
        uses: 0,
        in_pieces: operation.in_pieces,
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
        oldest: before.oldest,
        in_pieces: before.in_pieces || operation.in_pieces,
        ..first
    }))
}

/// Returns the time of the record that an operation writes: never before that of the key's latest.
fn time_of(operation: &Operation, before: Option<KeyEntry>, now: u64) -> Result<u64, Error> {
    let latest = before.map_or(0, |entry| entry.time);
    match (Time::stored(operation.time), Time::stored(latest)) {
        (None, _) => Ok(latest.max(now)),
        (Some(given), Some(latest)) if given < latest => Err(Error::TimeRunsBackward {
            namespace: operation.target.name.to_string(),
            key: operation.key.clone(),
            given,
            latest,
        }),
        (Some(given), _) => Ok(given.as_millis()),
    }
}

/// Returns the entry of a key after versions were purged.
fn after_purge(operation: &Operation, before: KeyEntry, from: u32, to: u32) -> Result<KeyEntry, Error> {
    let namespace = operation.target.name.to_string();
    if !operation.target.versions_kept {
        return Err(Error::VersionsNotKept { namespace });
    }
    if from == 0 || to < from {
        let (field, min, max) = ("first of the versions to purge", 1, to.into());
        let found = from.into();
        return Err(Error::OutOfRange { field, min, max, found });
    }
    if to >= before.versions {
        return Err(Error::LatestStays {
            namespace,
            key: operation.key.clone(),
            version: to,
            latest: before.versions,
        });
    }
    let is_oldest = from <= before.oldest;
    let oldest = if is_oldest {
        before.oldest.max(to + 1)
    } else {
        before.oldest
    };
    Ok(KeyEntry { oldest, ..before })
}

/// Writes one operation as it was planned.
fn write(
    transaction: &mut dyn Transaction,
    records: &Records,
    released: &mut Released,
    change: &KeyChange,
    operation: &Operation,
) -> Result<Option<Written>, Error> {
    if let (Change::SetIndexValues, Some(entry)) = (&operation.change, &change.after) {
        put_entry(transaction, &change.stored_key, entry, &change.values)?;
        return Ok(None);
    }
    if matches!(operation.change, Change::PutIfAbsent(_)) && change.before.is_some() {
        return Ok(None);
    }
    if operation.in_pieces
        && let Some(list) = operation.change.body()
    {
        pieces::count(transaction, list)?;
    }
    if let Some(before) = &change.before
        && (change.after.is_none() || !operation.target.versions_kept)
    {
        let is_purge = matches!(operation.change, Change::Purge);
        remove_versions(transaction, records, released, before, is_purge)?;
    }
    let Some(after) = &change.after else {
        transaction.delete(Table::Keys, &change.stored_key)?;
        return Ok(None);
    };
    if let (Change::PurgeVersions { from, to }, Some(before)) = (&operation.change, &change.before) {
        purge_versions(transaction, records, released, (before, after), (*from, *to))?;
        put_entry(transaction, &change.stored_key, after, &change.values)?;
        return Ok(None);
    }
    if operation.expires > 0 {
        namespace::note_expiring(transaction, operation.target.number)?;
    }
    let record = Record {
        namespace: operation.target.number,
        version: after.versions,
        key: &operation.key,
        in_pieces: operation.in_pieces,
        body: operation.change.body().map_or(Body::Deleted, Body::Whole),
    };
    let valid = "the plan keeps to the limits of the format";
    let (head, check) = record.encode_around(after.latest).expect(valid);
    let parts = [&head, record.body.stored(), &check];
    transaction.put_parts(Table::Records, &after.latest.to_be_bytes(), &parts)?;
    if after.versions > 1 {
        add_version(transaction, after, change.before.as_ref())?;
    }
    put_entry(transaction, &change.stored_key, after, &change.values)?;
    Ok(Some(Written {
        number: after.latest,
        prior: prior(transaction, change, operation, after.latest)?,
    }))
}

/// Writes the entry of a key with its index values.
pub(super) fn put_entry(
    transaction: &mut dyn Transaction,
    stored_key: &[u8],
    entry: &KeyEntry,
    values: &IndexValues,
) -> Result<(), Error> {
    let value = entry.encode_with_values(stored_key, values);
    let value = value.map_err(|error| Error::damaged(Table::Keys, stored_key, error))?;
    Ok(transaction.put(Table::Keys, stored_key, &value)?)
}

/// Removes all versions of a key.
fn remove_versions(
    transaction: &mut dyn Transaction,
    records: &Records,
    released: &mut Released,
    entry: &KeyEntry,
    is_purge: bool,
) -> Result<(), Error> {
    // The oldest first: it is a delta of newer ones, which can be removed once it is gone.
    for (_, version) in lookup::versions(transaction, entry)? {
        if entry.in_pieces {
            released.note(transaction, records, version.number, is_purge)?;
        }
        if is_purge {
            references::purge(transaction, records, version.number)?;
        } else {
            references::release(transaction, records, version.number)?;
        }
    }
    for group in VersionGroup::of(entry.oldest)..=VersionGroup::of(entry.versions) {
        transaction.delete(Table::Versions, &version_group_key(entry.lineage, group))?;
    }
    Ok(())
}

/// Removes the records of the versions in a range, and marks these versions as purged. Removes the groups before the
/// oldest version that is left.
fn purge_versions(
    transaction: &mut dyn Transaction,
    records: &Records,
    released: &mut Released,
    (before, after): (&KeyEntry, &KeyEntry),
    (from, to): (u32, u32),
) -> Result<(), Error> {
    let mut purge = |transaction: &mut dyn Transaction, number| {
        if before.in_pieces {
            released.note(transaction, records, number, true)?;
        }
        references::purge(transaction, records, number)
    };
    let first = from.max(before.oldest);
    if first == 1 {
        purge(transaction, before.lineage)?;
    }
    if first <= to {
        for group in VersionGroup::of(first)..=VersionGroup::of(to) {
            let key = version_group_key(before.lineage, group);
            let versions = lookup::version_group(transaction, before.lineage, group)?;
            let mut versions = versions.ok_or_else(|| Error::damaged(Table::Versions, &key, Damage::Missing))?;
            for version in first.max(versions.first())..=to {
                match versions.get(version) {
                    Some(entry) if !entry.purged => purge(transaction, entry.number)?,
                    Some(_) => {}
                    None => break,
                }
                versions.purge(version);
            }
            let value = versions.encode();
            let value = value.map_err(|error| Error::damaged(Table::Versions, &key, error))?;
            transaction.put(Table::Versions, &key, &value)?;
        }
    }
    for group in VersionGroup::of(before.oldest)..VersionGroup::of(after.oldest) {
        transaction.delete(Table::Versions, &version_group_key(before.lineage, group))?;
    }
    Ok(())
}

/// Adds the latest version of a key to its group of versions.
fn add_version(transaction: &mut dyn Transaction, entry: &KeyEntry, before: Option<&KeyEntry>) -> Result<(), Error> {
    let group = VersionGroup::of(entry.versions);
    let versions = lookup::version_group(transaction, entry.lineage, group)?;
    let mut versions = versions.unwrap_or_else(|| VersionGroup::new(entry.lineage, group));
    if entry.versions == 2 {
        versions.first_time = before.map_or(0, |before| before.time);
    }
    versions.push(VersionEntry {
        deleted: entry.deleted,
        purged: false,
        number: entry.latest,
        time: entry.time,
    });
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
