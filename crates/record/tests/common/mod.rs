//! A model of a store, as simple as possible.

#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use ibid_format::record::{self, BlockFrameDecoder, Body, KeyEntry, LogState, Places, References, VersionGroup};
use ibid_record::engine::{Commit, Direction, Engine, Redb, Table, Transaction};
use ibid_record::{Batch, Error, KeyFilter, KeyState, Namespace, Snapshot, Store, Versions};

/// The history of one key: number and body of each version, without a body where the key was
/// deleted.
pub(crate) type Life = Vec<(u64, Option<Vec<u8>>)>;

/// Two namespaces: the first keeps versions, the second does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) spaces: [BTreeMap<Vec<u8>, Life>; 2],
}

#[derive(Debug, Clone)]
pub(crate) struct Op {
    pub(crate) space: usize,
    pub(crate) key: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Insert,
    Update,
    Put,
    Delete,
    Purge,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    KeyExists,
    NoSuchKey,
}

impl Refusal {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::KeyExists { .. } => Refusal::KeyExists,
            Error::NoSuchKey { .. } => Refusal::NoSuchKey,
            error => panic!("{error}"),
        }
    }
}

impl Model {
    /// Returns the model after `ops`. Each new record has the number 0, which `numbered` replaces.
    pub(crate) fn after(&self, ops: &[Op]) -> Result<Model, Refusal> {
        let mut model = self.clone();
        for op in ops {
            let keeps = op.space == 0;
            let space = &mut model.spaces[op.space];
            let life = space.get(&op.key);
            let live = life.is_some_and(|life| life.last().is_some_and(|(_, body)| body.is_some()));
            match op.kind {
                Kind::Insert if live => return Err(Refusal::KeyExists),
                Kind::Update | Kind::Delete if !live => return Err(Refusal::NoSuchKey),
                Kind::Purge if life.is_none() => return Err(Refusal::NoSuchKey),
                _ => {}
            }
            let removes = op.kind == Kind::Purge || op.kind == Kind::Delete && !keeps;
            if removes || !keeps {
                space.remove(&op.key);
            }
            if !removes {
                let body = (op.kind != Kind::Delete).then(|| op.body.clone());
                space.entry(op.key.clone()).or_default().push((0, body));
            }
        }
        Ok(model)
    }

    /// Gives numbers to the records of `ops` that are still there. Each key has as many versions
    /// without a number as the ops have left.
    pub(crate) fn numbered(mut self, ops: &[Op], written: &[Option<u64>]) -> Model {
        assert_eq!(ops.len(), written.len());
        for (op, number) in ops.iter().zip(written).rev() {
            let Some(number) = number else { continue };
            if let Some(life) = self.spaces[op.space].get_mut(&op.key)
                && let Some(unnumbered) = life.iter_mut().rev().find(|(number, _)| *number == 0)
            {
                unnumbered.0 = *number;
            }
        }
        self
    }

    /// Returns the keys and bodies of a namespace, in order.
    pub(crate) fn live(&self, space: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let lives = self.spaces[space].iter();
        lives
            .filter_map(|(key, life)| Some((key.clone(), life.last()?.1.clone()?)))
            .collect()
    }
}

pub(crate) fn open_spaces(store: &Store) -> [Namespace; 2] {
    [
        store.namespace("kept", Versions::Kept).unwrap(),
        store.namespace("latest", Versions::Latest).unwrap(),
    ]
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
        };
    }
    batch
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
            assert_eq!(versions.len(), life.len(), "versions of {key:?}");
            for (version, (found, (number, body))) in versions.iter().zip(life).enumerate() {
                let version = version as u32 + 1;
                assert_eq!((found.version, found.deleted), (version, body.is_none()));
                assert!(*number == 0 || found.number == *number);
                assert_eq!(snapshot.get_version(space, key, version).unwrap(), *body);
            }
            let latest = life.last().and_then(|(_, body)| body.clone());
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

        let is_deleted = |key: &[u8]| model.spaces[index][key].last().is_some_and(|(_, body)| body.is_none());
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

        let in_order: Vec<_> = snapshot.written_after(space, 0).unwrap().map(Result::unwrap).collect();
        assert!(in_order.is_sorted_by_key(|record| record.number));
        let mut by_key: Vec<_> = in_order.into_iter().map(|record| (record.key, record.body)).collect();
        by_key.sort();
        live.reverse();
        assert_eq!(by_key, live);
    }
}

/// Returns pseudo-random bytes that differ for every `seed`.
pub(crate) fn noise(length: usize, seed: u32) -> Vec<u8> {
    (0..length as u32)
        .map(|i| ((i ^ seed.wrapping_mul(0x9e37_79b9)).wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
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
    for (key, value) in entries(engine, Table::Keys) {
        let entry = KeyEntry::decode(&key, &value).unwrap();
        led_to.extend([entry.lineage, entry.latest]);
    }
    for (key, value) in entries(engine, Table::Versions) {
        let group = u32::from_be_bytes(key[8..].try_into().unwrap());
        let group = VersionGroup::decode(number(&key), group, &value).unwrap();
        led_to.extend(group.entries().iter().map(|entry| entry.number));
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
const SAME: [Table; 6] = [
    Table::Namespaces,
    Table::Keys,
    Table::Versions,
    Table::References,
    Table::Oplog,
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
