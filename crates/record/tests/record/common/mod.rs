//! A model of a store, as simple as possible.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod disk;
pub(crate) mod histories;
pub(crate) mod node;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::time::Duration;

use ibid_format::record::{self, BlockFrameDecoder, Body, KeyEntry, LogState, Places, References, VersionGroup};
use ibid_record::engine::{Commit, Direction, Engine, Redb, Table, Transaction};
use ibid_record::{Batch, Error, KeyFilter, KeyState, Namespace, Retention, Snapshot, Store, Time, Unique, Versions};

/// The history of one key: its versions.
pub(crate) type Life = Vec<Stored>;

/// A version of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) number: u64,
    /// [`None`] if the key was deleted.
    pub(crate) body: Option<Vec<u8>>,
    /// [`None`] if it has that of the commit.
    pub(crate) time: Option<u64>,
    /// 0 if it does not expire.
    pub(crate) expires: u64,
    pub(crate) purged: bool,
    /// The index values of the key, if it is the latest version: each with the place of its index.
    pub(crate) values: Values,
}

/// Index values, each with the place of its index in [`INDEXES`].
pub(crate) type Values = BTreeSet<(usize, Vec<u8>)>;

/// The indexes of each namespace.
pub(crate) const INDEXES: [(&str, Unique); 2] = [("some", Unique::No), ("one", Unique::Yes)];

/// Two namespaces: the first keeps versions, the second does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) spaces: [BTreeMap<Vec<u8>, Life>; 2],
    pub(crate) retention: [Retention; 2],
}

#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) space: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) body: Vec<u8>,
    /// The time that the version is given, if it is given one.
    pub(crate) time: Option<u64>,
    /// When it expires; 0 if it does not.
    pub(crate) expires: u64,
    /// The index values that it gives the key.
    pub(crate) values: Values,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Update,
    Put,
    Delete,
    Purge,
    /// Purges versions.
    PurgeVersions(u32, u32),
    /// Sets the index values.
    SetValues,
}

impl Kind {
    /// Returns whether it gives the key index values.
    pub(crate) fn has_values(self) -> bool {
        matches!(self, Kind::Insert | Kind::Update | Kind::Put | Kind::SetValues)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    KeyExists,
    NoSuchKey,
    VersionsNotKept,
    OutOfRange,
    LatestStays,
    TimeRunsBackward,
    ValueTaken,
}

impl Refusal {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::KeyExists { .. } => Refusal::KeyExists,
            Error::NoSuchKey { .. } => Refusal::NoSuchKey,
            Error::VersionsNotKept { .. } => Refusal::VersionsNotKept,
            Error::OutOfRange { .. } => Refusal::OutOfRange,
            Error::LatestStays { .. } => Refusal::LatestStays,
            Error::TimeRunsBackward { .. } => Refusal::TimeRunsBackward,
            Error::ValueTaken { .. } => Refusal::ValueTaken,
            error => panic!("{error}"),
        }
    }
}

/// The version that was the latest of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Then {
    None,
    Purged(u32),
    /// Its body; [`None`] for a deletion.
    Version(u32, Option<Vec<u8>>),
}

impl Model {
    /// Returns the model after `ops`. Each new record has the number 0, which `numbered` replaces.
    pub(crate) fn after(&self, ops: &[Op]) -> Result<Model, Refusal> {
        let mut model = self.clone();
        for op in ops {
            let keeps = op.space == 0;
            let space = &mut model.spaces[op.space];
            let life = space.get_mut(&op.key);
            let live = life
                .as_ref()
                .is_some_and(|life| life.last().is_some_and(|latest| latest.body.is_some()));
            match op.kind {
                Kind::Insert if live => return Err(Refusal::KeyExists),
                Kind::Update | Kind::Delete | Kind::SetValues if !live => return Err(Refusal::NoSuchKey),
                Kind::Purge | Kind::PurgeVersions(..) if life.is_none() => return Err(Refusal::NoSuchKey),
                Kind::PurgeVersions(..) if !keeps => return Err(Refusal::VersionsNotKept),
                Kind::PurgeVersions(from, to) if from == 0 || to < from => return Err(Refusal::OutOfRange),
                _ => {}
            }
            if let (Kind::PurgeVersions(from, to), Some(life)) = (op.kind, life) {
                if to as usize >= life.len() {
                    return Err(Refusal::LatestStays);
                }
                let purged = &mut life[from as usize - 1..to as usize];
                purged.iter_mut().for_each(|version| version.purged = true);
                continue;
            }
            if op.kind == Kind::SetValues {
                let life = space.get_mut(&op.key).unwrap();
                life.last_mut().unwrap().values.clone_from(&op.values);
                continue;
            }
            let removes = op.kind == Kind::Purge || op.kind == Kind::Delete && !keeps;
            // The clock is later than any time that is given.
            let latest = space.get(&op.key).and_then(|life| life.last());
            let last = latest.map_or(0, |latest| latest.time.unwrap_or(u64::MAX));
            if !removes && op.time.is_some_and(|given| given < last) {
                return Err(Refusal::TimeRunsBackward);
            }
            if removes || !keeps {
                space.remove(&op.key);
            }
            if !removes {
                let body = (op.kind != Kind::Delete).then(|| op.body.clone());
                space.entry(op.key.clone()).or_default().push(Stored {
                    expires: if body.is_some() { op.expires } else { 0 },
                    values: if body.is_some() {
                        op.values.clone()
                    } else {
                        Values::new()
                    },
                    body,
                    time: op.time,
                    ..Stored::default()
                });
            }
        }
        for space in 0..2 {
            let rows = model.rows(space, 1);
            if rows.windows(2).any(|rows| rows[0].0 == rows[1].0) {
                return Err(Refusal::ValueTaken);
            }
        }
        Ok(model)
    }

    /// Returns the values in an index of a namespace, each with its key.
    pub(crate) fn rows(&self, space: usize, index: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        for (key, life) in &self.spaces[space] {
            let latest = life.last().unwrap();
            let of_index = latest.values.iter().filter(|(of, _)| *of == index);
            rows.extend(of_index.map(|(_, value)| (value.clone(), key.clone())));
        }
        rows.sort();
        rows
    }

    /// Gives numbers to the records of `ops` that are still there. Each key has as many versions
    /// without a number as the ops have left.
    pub(crate) fn numbered(mut self, ops: &[Op], written: &[Option<u64>]) -> Model {
        assert_eq!(ops.len(), written.len());
        for (op, number) in ops.iter().zip(written).rev() {
            let Some(number) = number else { continue };
            if let Some(life) = self.spaces[op.space].get_mut(&op.key)
                && let Some(unnumbered) = life.iter_mut().rev().find(|version| version.number == 0)
            {
                unnumbered.number = *number;
            }
        }
        self
    }

    /// Returns the keys and bodies of a namespace, in order.
    pub(crate) fn live(&self, space: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let lives = self.spaces[space].iter();
        lives
            .filter_map(|(key, life)| Some((key.clone(), life.last()?.body.clone()?)))
            .collect()
    }

    /// Returns what a key had at a time, by a look at each version.
    pub(crate) fn then(life: &Life, time: u64) -> Then {
        let is_stored = |(_, version): &(usize, &Stored)| version.time.is_some_and(|stored| stored <= time);
        match life.iter().enumerate().rfind(is_stored) {
            None => Then::None,
            Some((place, version)) if version.purged => {
                // Of groups of 64 that have no version any more nothing is known but that they were purged.
                Then::Purged(place as u32 + 1)
            }
            Some((place, version)) => Then::Version(place as u32 + 1, version.body.clone()),
        }
    }

    /// Removes what a namespace does not keep at a time.
    pub(crate) fn expire(&mut self, space: usize, at: u64) {
        let (space, retention) = (&mut self.spaces[space], self.retention[space]);
        let millis = |duration: Duration| duration.as_millis() as u64;
        space.retain(|_, life| {
            let latest = life.last().unwrap();
            let is_over = |end: u64| end <= at;
            let age = retention.lifetime.zip(latest.time);
            let is_too_old = age.is_some_and(|(lifetime, time)| is_over(time + millis(lifetime)));
            !(is_too_old || latest.expires > 0 && is_over(latest.expires))
        });
        for life in space.values_mut() {
            for place in 0..life.len() - 1 {
                let of_last = retention
                    .versions
                    .is_some_and(|kept| place + kept as usize >= life.len());
                let replaced = life[place + 1].time.unwrap_or(u64::MAX);
                let is_recent = retention
                    .within
                    .is_some_and(|within| replaced.saturating_add(millis(within)) > at);
                let keeps_all = retention.versions.is_none() && retention.within.is_none();
                life[place].purged |= !(keeps_all || of_last || is_recent);
            }
        }
    }
}

pub(crate) fn open_spaces(store: &Store) -> [Namespace; 2] {
    let spaces = [
        store.namespace("kept", Versions::Kept).unwrap(),
        store.namespace("latest", Versions::Latest).unwrap(),
    ];
    for space in &spaces {
        for (name, unique) in INDEXES {
            space.index(name, unique).unwrap();
        }
    }
    spaces
}

pub(crate) fn batch(spaces: &[Namespace; 2], ops: &[Op]) -> Batch {
    let mut batch = Batch::new();
    for op in ops {
        let space = &spaces[op.space];
        match op.kind {
            Kind::Insert => batch.insert(space, &op.key, &op.body),
            Kind::Update => batch.update(space, &op.key, &op.body),
            Kind::Put => batch.put(space, &op.key, &op.body),
            Kind::Delete => batch.delete(space, &op.key),
            Kind::Purge => batch.purge(space, &op.key),
            Kind::PurgeVersions(from, to) => batch.purge_versions(space, &op.key, from..=to),
            Kind::SetValues => batch.set_index_values(space, &op.key),
        };
        add_values(&mut batch, space, op);
        if let Some(time) = op.time {
            batch.at(at(time));
        }
        if op.expires > 0 {
            batch.expire_at(at(op.expires));
        }
    }
    batch
}

/// Gives the last change the values of an operation.
pub(crate) fn add_values(batch: &mut Batch, space: &Namespace, op: &Op) {
    for (index, value) in &op.values {
        let (name, unique) = INDEXES[*index];
        batch.index(&space.index(name, unique).unwrap(), value);
    }
}

pub(crate) fn at(millis: u64) -> Time {
    Time::from_millis(millis).unwrap()
}

/// Checks that a snapshot reads the same as the model. Numbers are compared where the model knows
/// them.
pub(crate) fn assert_same(snapshot: &Snapshot, spaces: &[Namespace; 2], model: &Model) {
    for (index, space) in spaces.iter().enumerate() {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let scan = |direction| {
            let records = snapshot.scan(space, everything, direction).unwrap();
            let records = records.map(|record| record.map(|record| (record.key, record.body)));
            records.collect::<Result<Vec<_>, _>>().unwrap()
        };
        let mut live = model.live(index);
        assert_eq!(scan(Direction::Forward), live);
        live.reverse();
        assert_eq!(scan(Direction::Backward), live);

        for (key, life) in &model.spaces[index] {
            let versions = snapshot.versions(space, key).unwrap();
            let left = life.iter().filter(|version| !version.purged).count();
            assert_eq!(versions.len(), left, "versions of {key:?}");
            let mut found = versions.iter();
            let mut before = None;
            for (version, stored) in (1..).zip(life) {
                if stored.purged {
                    let purged = snapshot.get_version(space, key, version);
                    assert!(matches!(purged, Err(Error::Purged { version: found, .. }) if found == version));
                    continue;
                }
                let found = found.next().unwrap();
                assert_eq!((found.version, found.deleted), (version, stored.body.is_none()));
                assert!(stored.number == 0 || found.number == stored.number);
                assert!(stored.time.is_none_or(|time| found.time == Some(at(time))));
                assert!(
                    found.time.is_some() && found.time >= before,
                    "times do not run backward"
                );
                before = found.time;
                assert_eq!(snapshot.get_version(space, key, version).unwrap(), stored.body);
            }
            let latest = life.last().and_then(|version| version.body.clone());
            assert_eq!(snapshot.get(space, key).unwrap(), latest);
            for absent in [0, life.len() as u32 + 1, u32::MAX] {
                assert_eq!(snapshot.get_version(space, key, absent).unwrap(), None);
            }
        }

        // All keys, the last first, some twice, and some that are not there.
        let mut asked: Vec<&[u8]> = model.spaces[index].keys().rev().map(Vec::as_slice).collect();
        asked.extend(asked.clone().into_iter().step_by(2).chain([&b"absent"[..], &[0; 5000]]));
        let many = snapshot.get_many(space, &asked).unwrap();
        assert_eq!(many.len(), asked.len());
        for (key, found) in asked.iter().zip(many) {
            assert_eq!(
                found.as_ref().map(|record| record.body.clone()),
                snapshot.get(space, key).unwrap()
            );
            if let Some(found) = found {
                let latest = snapshot.latest(space, key).unwrap().unwrap();
                assert_eq!(
                    (&found.key[..], found.version, found.number),
                    (*key, latest.version, latest.number)
                );
            }
        }

        if index == 0 {
            assert_same_as_of(snapshot, space, &model.spaces[0]);
        } else {
            let refused = snapshot.get_as_of(space, b"a", at(1));
            assert!(matches!(refused, Err(Error::VersionsNotKept { .. })));
        }

        let is_deleted = |key: &[u8]| {
            let latest = model.spaces[index][key].last();
            latest.is_some_and(|version| version.body.is_none())
        };
        for filter in [KeyFilter::Live, KeyFilter::Deleted, KeyFilter::All] {
            let list = |direction| -> Vec<KeyState> {
                let keys = snapshot.keys(space, everything, direction, filter).unwrap();
                keys.map(Result::unwrap).collect()
            };
            let mut found = list(Direction::Forward);
            let expected = model.spaces[index].keys().filter(|key| match filter {
                KeyFilter::Live => !is_deleted(key),
                KeyFilter::Deleted => is_deleted(key),
                KeyFilter::All => true,
            });
            assert!(found.iter().map(|state| &state.key).eq(expected));
            for state in &found {
                let versions = snapshot.versions(space, &state.key).unwrap();
                assert_eq!(versions.last(), Some(&state.latest));
            }
            let mut backward = list(Direction::Backward);
            backward.reverse();
            assert_eq!(backward, found);
            found.sort_by_key(|state| state.latest.number);
            let middle = found.get(found.len() / 2).map_or(0, |state| state.latest.number);
            for after in [0, middle] {
                let in_order = snapshot.keys_written_after(space, after, filter).unwrap();
                let in_order: Vec<_> = in_order.map(Result::unwrap).collect();
                let later = found.iter().filter(|state| state.latest.number > after);
                assert!(in_order.iter().eq(later));
            }
        }

        assert_same_indexes(snapshot, space, model, index);

        let in_order: Vec<_> = snapshot.written_after(space, 0).unwrap().map(Result::unwrap).collect();
        assert!(in_order.is_sorted_by_key(|record| record.number));
        let mut by_key: Vec<_> = in_order.into_iter().map(|record| (record.key, record.body)).collect();
        by_key.sort();
        live.reverse();
        assert_eq!(by_key, live);
    }
}

/// Checks that a snapshot finds keys by their values as the model does.
fn assert_same_indexes(snapshot: &Snapshot, space: &Namespace, model: &Model, place: usize) {
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let indexes = space.indexes().unwrap();
    for (number, (name, unique)) in INDEXES.into_iter().enumerate() {
        let mut rows = model.rows(place, number);
        let Some(index) = indexes.iter().find(|index| index.name() == name) else {
            assert_eq!(rows, []);
            continue;
        };
        assert_eq!(index.unique(), unique);
        for direction in [Direction::Forward, Direction::Backward] {
            let keys = snapshot.index_keys(index, everything, direction).unwrap();
            let keys: Vec<_> = keys
                .map(|found| found.map(|found| (found.value, found.key)).unwrap())
                .collect();
            assert_eq!(keys, rows, "{name}");
            let records = snapshot
                .index_scan(index, everything, direction)
                .unwrap()
                .map(Result::unwrap);
            for (found, (value, key)) in records.zip(&rows) {
                let body = snapshot.get(space, key).unwrap().unwrap();
                assert_eq!(
                    (&found.value, &found.record.key, &found.record.body),
                    (value, key, &body)
                );
                assert_eq!(
                    snapshot.latest(space, key).unwrap().unwrap().number,
                    found.record.number
                );
            }
            assert_eq!(
                snapshot.index_scan(index, everything, direction).unwrap().count(),
                rows.len()
            );
            rows.reverse();
        }
        for (value, _) in &rows {
            let expected = rows.iter().find(|(of, _)| of == value).map(|(_, key)| key.clone());
            assert_eq!(snapshot.index_get(index, value).unwrap(), expected);
        }
        assert_eq!(snapshot.index_get(index, b"absent").unwrap(), None);
    }
    for (key, life) in &model.spaces[place] {
        let values = life.last().unwrap().values.iter();
        let values = values.map(|(index, value)| (INDEXES[*index].0.to_owned(), value.clone()));
        assert_eq!(snapshot.index_values(space, key).unwrap(), values.collect::<Vec<_>>());
    }
}

/// Checks that a snapshot shows what was at any time that versions have, and just before.
fn assert_same_as_of(snapshot: &Snapshot, space: &Namespace, lives: &BTreeMap<Vec<u8>, Life>) {
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let given: BTreeSet<u64> = lives.values().flatten().filter_map(|version| version.time).collect();
    let around = given.into_iter().flat_map(|time| [time.max(2) - 1, time]);
    let times: BTreeSet<u64> = around.chain([1, 1 << 40]).collect();
    for time in times {
        let mut records = Vec::new();
        let mut purged = Vec::new();
        for (key, life) in lives {
            let then = Model::then(life, time);
            let (body, version) = (
                snapshot.get_as_of(space, key, at(time)),
                snapshot.version_as_of(space, key, at(time)),
            );
            match then {
                Then::None if matches!(body, Err(Error::Purged { .. })) => {
                    // The versions that are known to have been purged reach back to the first.
                    assert!(life[0].purged && life.iter().take_while(|version| version.purged).count() >= 63);
                    purged.push(key.clone());
                }
                Then::None => assert_eq!((body.unwrap(), version.unwrap()), (None, None)),
                Then::Purged(expected) => {
                    let is_so = |error: &Error| matches!(error, Error::Purged { version, .. } if *version >= expected);
                    assert!(body.is_err_and(|error| is_so(&error)) && version.is_err_and(|error| is_so(&error)));
                    purged.push(key.clone());
                }
                Then::Version(expected, expected_body) => {
                    assert_eq!(version.unwrap().unwrap().version, expected);
                    assert_eq!(body.unwrap(), expected_body);
                    records.extend(expected_body.map(|body| (key.clone(), expected, body)));
                }
            }
        }
        assert_eq!(snapshot.get_as_of(space, b"absent", at(time)).unwrap(), None);
        let (mut found, mut passed_over) = (Vec::new(), Vec::new());
        for record in snapshot
            .scan_as_of(space, everything, Direction::Forward, at(time))
            .unwrap()
        {
            match record {
                Ok(record) => found.push((record.key, record.version, record.body)),
                Err(Error::Purged { key, .. }) => passed_over.push(key),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((&found, passed_over), (&records, purged));
        let keys = snapshot
            .keys_as_of(space, everything, Direction::Backward, at(time))
            .unwrap();
        let keys: Vec<_> = keys
            .filter_map(Result::ok)
            .map(|state| (state.key, state.latest.version))
            .collect();
        assert!(
            keys.into_iter()
                .rev()
                .eq(records.into_iter().map(|(key, version, _)| (key, version)))
        );
    }
}

/// Returns pseudo-random bytes that differ for every `seed`.
pub(crate) fn noise(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32)
        .map(|i| ((i ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Returns random bytes, in which nothing comes again.
pub(crate) fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8
    };
    (0..length + 16).map(|_| next()).skip(16).collect()
}

/// Returns a folder whose syncs cost nothing, for tests that are not about syncs.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Opens the tables of a closed store for `work`.
pub(crate) fn with_engine<T>(path: &Path, work: impl FnOnce(&Redb) -> T) -> T {
    work(&Redb::open(&path.join("redb"), 1 << 20).unwrap())
}

/// Returns all pairs of a table.
pub(crate) fn entries(engine: &dyn Engine, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let mut each = |key: &[u8], value: &[u8]| {
        pairs.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let snapshot = engine.snapshot().unwrap();
    snapshot
        .range(table, everything, Direction::Forward, &mut each)
        .unwrap();
    pairs
}

/// Replaces the value of an entry, or removes the entry.
pub(crate) fn set(engine: &Redb, table: Table, key: &[u8], value: Option<&[u8]>) {
    let mut work = |transaction: &mut dyn Transaction| match value {
        Some(value) => transaction.put(table, key, value),
        None => transaction.delete(table, key),
    };
    engine.write(Commit::Unsynced, &mut work).unwrap();
}

fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[..8].try_into().unwrap())
}

/// Checks that reference counts are exact: every base exists and has the count of its deltas, and a
/// record without a key is the base of others.
pub(crate) fn assert_counted(engine: &dyn Engine) {
    let mut led_to = BTreeSet::new();
    let mut oldest = BTreeMap::new();
    for (key, value) in entries(engine, Table::Keys) {
        let entry = KeyEntry::decode(&key, &value).unwrap();
        led_to.insert(entry.latest);
        if entry.oldest == 1 {
            led_to.insert(entry.lineage);
        }
        oldest.insert(entry.lineage, entry.oldest);
    }
    for (key, value) in entries(engine, Table::Versions) {
        let group = u32::from_be_bytes(key[8..].try_into().unwrap());
        let group = VersionGroup::decode(number(&key), group, &value).unwrap();
        let versions = (group.first()..).zip(group.entries());
        let there = versions.filter(|(version, entry)| *version >= oldest[&number(&key)] && !entry.purged);
        led_to.extend(there.map(|(_, entry)| entry.number));
    }
    let mut there = BTreeSet::new();
    let mut expected: BTreeMap<u64, u32> = BTreeMap::new();
    let mut record = |number: u64, record: record::Record<'_>| {
        assert!(there.insert(number), "record {number} lies in two places");
        if let Body::Delta { base, .. } = record.body {
            *expected.entry(base).or_default() += 1;
        }
    };
    for (key, value) in entries(engine, Table::Records) {
        record(number(&key), record::Record::decode(number(&key), &value).unwrap());
    }
    let blocks: BTreeMap<Vec<u8>, Vec<u8>> = entries(engine, Table::Blocks).into_iter().collect();
    for (key, value) in entries(engine, Table::Places) {
        for (packed, place) in Places::decode(number(&key), &value).unwrap().iter(number(&key)) {
            let block = &blocks[&place.block.to_be_bytes()[..]];
            let mut frame = Vec::new();
            let found = record::frame_of_block(place.block, block, place.frame).unwrap();
            BlockFrameDecoder::default().decode(&found, &mut frame).unwrap();
            let mut records = record::records_of_frame(&frame, found.records()).unwrap().into_iter();
            let (_, bytes) = records
                .find(|(number, _)| *number == packed)
                .expect("it is where it should be");
            record(packed, record::Record::decode_packed(packed, bytes).unwrap());
        }
    }
    // A record that the log names is also kept.
    let meta: BTreeMap<Vec<u8>, Vec<u8>> = entries(engine, Table::Meta).into_iter().collect();
    let log = meta.get(record::LOG_KEY);
    let logged = log.map_or(u64::MAX, |log| LogState::decode(log).unwrap().record);
    let mut counted = BTreeMap::new();
    for (key, value) in entries(engine, Table::References) {
        for (record, count, obsolete) in References::decode(number(&key), &value).unwrap().iter(number(&key)) {
            assert!(there.contains(&record), "record {record} is needed, and gone");
            assert_eq!(obsolete, !led_to.contains(&record), "record {record}");
            if obsolete && record >= logged {
                *expected.entry(record).or_default() += 1;
            }
            counted.insert(record, count);
        }
    }
    assert_eq!(counted, expected);
    for record in &there {
        assert!(
            led_to.contains(record) || counted.contains_key(record),
            "record {record} is of no use"
        );
    }
    for (key, _) in entries(engine, Table::Chains) {
        assert!(
            there.contains(&number(&key)),
            "a chain of record {}, which is gone",
            number(&key)
        );
    }
}

/// Tables that are the same byte for byte in replicas of a store, where nothing is compressed.
const SAME: [Table; 7] = [
    Table::Namespaces,
    Table::Keys,
    Table::Versions,
    Table::References,
    Table::Oplog,
    Table::Indexes,
    Table::Records,
];

/// The pairs of each of these tables.
type Pairs = [Vec<(Vec<u8>, Vec<u8>)>; SAME.len()];

/// Checks that all of these closed stores have the contents of the first. A compacted store has its
/// records in other tables.
pub(crate) fn assert_same_tables(folders: &[&Path], compacted: bool) {
    let tables = |folder: &&Path| with_engine(folder, |engine| tables(engine, compacted));
    assert_same_as_first(folders.iter().map(tables));
}

/// Returns all pairs of the tables that are the same in replicas.
pub(crate) fn tables(engine: &dyn Engine, compacted: bool) -> Pairs {
    assert_counted(engine);
    SAME.map(|table| match table {
        Table::Records if compacted => Vec::new(),
        _ => entries(engine, table),
    })
}

/// Checks that all stores have the tables of the first.
pub(crate) fn assert_same_as_first(mut stores: impl Iterator<Item = Pairs>) {
    let expected = stores.next().expect("there is a store");
    for (store, found) in stores.enumerate() {
        for ((table, expected), found) in SAME.iter().zip(&expected).zip(found) {
            assert!(
                *expected == found,
                "table {} of store {} differs",
                table.name(),
                store + 1
            );
        }
    }
}
