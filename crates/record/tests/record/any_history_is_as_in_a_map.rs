//! Random histories give the same as a map in memory, also after the store was closed and opened
//! again, and whichever records became deltas. Reference counts are exact, and no unneeded record
//! is left.
//!
//! `IBID_RECORD_CASES=10000` runs more histories.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::time::Duration;

#[cfg(feature = "fjall")]
use ibid_record::engine::Fjall;
use ibid_record::engine::Redb;
use ibid_record::{
    Compacting, Direction, Durability, Encoding, EngineKind, Governor, Latest, Options, Retention, Retrieval, Store,
};
use proptest::prelude::*;

use crate::common::{INDEXES, Kind, Model, Op, Refusal, assert_counted, assert_same, batch, folder, open_spaces};

const KEYS: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"ab", b"b", b"\xff\xff"];

#[derive(Debug, Clone)]
enum Action {
    Commit(Vec<Op>),
    Scan {
        from: Bound<usize>,
        to: Bound<usize>,
        limit: usize,
    },
    /// Lets the keys of a namespace exchange their values of a unique index.
    Exchange(usize),
    /// Takes a snapshot, to compare with it later.
    Keep,
    /// Waits until everything is encoded.
    Encode,
    /// Compacts the store.
    Compact,
    Reopen,
    /// Removes this percentage of the log, if there is one.
    Truncate(u64),
    /// Sets what a namespace keeps.
    Retain(usize, Retention),
    /// Sets how a namespace stores latest versions.
    Latest(usize, Latest),
    /// Removes what is not kept at a time.
    Expire(u64),
}

/// Returns what a namespace may keep: the second one keeps no versions in any case.
fn retention() -> impl Strategy<Value = (usize, Retention)> {
    let millis = || prop::option::of((1..100_u64).prop_map(Duration::from_millis));
    let all = (0..2_usize, prop::option::of(1..4_u32), millis(), millis());
    all.prop_map(|(space, versions, within, lifetime)| {
        let retention = Retention::default().with_lifetime(lifetime);
        match space {
            0 => (0, retention.with_versions(versions).with_within(within)),
            _ => (1, retention),
        }
    })
}

fn latest() -> impl Strategy<Value = Latest> {
    prop_oneof![
        Just(Latest::Automatic),
        Just(Latest::Whole),
        Just(Latest::Shared),
        Just(Latest::Deltas),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        3 => Just(Kind::Insert),
        3 => Just(Kind::Update),
        2 => Just(Kind::Put),
        2 => Just(Kind::Delete),
        1 => Just(Kind::Purge),
        2 => Just(Kind::SetValues),
        2 => (0..5_u32, 0..4_u32).prop_map(|(from, more)| Kind::PurgeVersions(from, (from + more).saturating_sub(1))),
    ];
    let time = prop_oneof![2 => Just(None), 3 => (1..100_u64).prop_map(Some)];
    let expires = prop_oneof![5 => Just(0), 1 => 1..200_u64];
    let body = (0..9_usize, any::<u8>(), 0..300_usize).prop_map(|(way, byte, length)| match way {
        0 => Vec::new(),
        1 => vec![byte; length],
        2 => crate::common::noise(length * 20, byte.into()),
        // One of three bodies, with an edit, or as it is.
        way => {
            let mut body = crate::common::noise(3000, way as u32 % 3);
            body[length * 10] ^= if way < 6 { byte } else { 0 };
            body
        }
    });
    // Of a unique index mostly the one that has the name of the key, because few keys can have one.
    let value = prop_oneof![
        3 => (0..KEYS.len()).prop_map(|value| (0, Some(value))),
        2 => Just((1, None)),
        1 => (0..KEYS.len()).prop_map(|value| (1, Some(value))),
    ];
    let values = prop::collection::vec(value, 0..4);
    let all = (0..2_usize, 0..KEYS.len(), kind, body, time, expires, values);
    all.prop_map(|(space, key, kind, body, time, expires, values)| {
        let values = values.into_iter().filter(|_| kind.has_values());
        Op {
            space,
            key: KEYS[key].to_vec(),
            kind,
            body,
            time,
            expires,
            values: values
                .map(|(index, value)| (index, KEYS[value.unwrap_or(key)].to_vec()))
                .collect(),
        }
    })
}

/// Returns changes by which the keys of a namespace that have values of a unique index pass them on in a circle.
fn exchange(model: &Model, space: usize) -> Vec<Op> {
    let rows = model.rows(space, 1);
    let next = rows.iter().cycle().skip(1);
    let mut ops: Vec<Op> = Vec::new();
    for ((_, key), (value, _)) in rows.iter().zip(next) {
        let values = [(1, value.clone())].into();
        match ops.iter_mut().find(|op| op.key == *key) {
            Some(op) => op.values.extend::<crate::common::Values>(values),
            None => ops.push(Op {
                space,
                key: key.clone(),
                kind: Kind::SetValues,
                body: Vec::new(),
                time: None,
                expires: 0,
                values,
            }),
        }
    }
    ops
}

fn bound() -> impl Strategy<Value = Bound<usize>> {
    prop_oneof![
        Just(Bound::Unbounded),
        (0..KEYS.len()).prop_map(Bound::Included),
        (0..KEYS.len()).prop_map(Bound::Excluded),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        12 => prop::collection::vec(op(), 1..4).prop_map(Action::Commit),
        2 => (bound(), bound(), 0..9_usize).prop_map(|(from, to, limit)| Action::Scan { from, to, limit }),
        1 => (0..2_usize).prop_map(Action::Exchange),
        1 => Just(Action::Keep),
        3 => Just(Action::Encode),
        2 => Just(Action::Compact),
        1 => Just(Action::Reopen),
        2 => (0..=100_u64).prop_map(Action::Truncate),
        1 => retention().prop_map(|(space, retention)| Action::Retain(space, retention)),
        1 => (0..2_usize, latest()).prop_map(|(space, latest)| Action::Latest(space, latest)),
        2 => (1..300_u64).prop_map(Action::Expire),
    ]
}

/// Returns from which length on bodies are in pieces: some of those above, or none.
fn whole() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(500), 1 => Just(2999), 2 => Just(4 << 20)]
}

/// Returns encoder settings so small that short histories meet the limits of long ones.
fn encoding() -> impl Strategy<Value = Encoding> {
    let retrieval = prop_oneof![
        Just(Retrieval::Hop { distance: 2 }),
        Just(Retrieval::Hop { distance: 4 }),
        Just(Retrieval::Chain),
        Just(Retrieval::VersionJumping { distance: 3 }),
    ];
    let cache = prop_oneof![Just(0), Just(7000), Just(1 << 20)];
    let write_back = prop_oneof![Just(60), Just(1 << 20)];
    // Judged after so few records, a namespace is given up now and then, in both ways.
    let strict = (1..6_u64, 101..300_u32).prop_map(|(records, ratio_percent_min)| Governor {
        records,
        ratio_percent_min,
    });
    let governor = prop_oneof![2 => Just(Governor::default()), 1 => strict];
    (retrieval, cache, write_back, any::<bool>(), governor).prop_map(
        |(retrieval, source_cache_bytes, write_back_bytes, lossy, governor)| {
            Encoding::default()
                .with_governor(governor)
                .with_retrieval(retrieval)
                .with_source_cache_bytes(source_cache_bytes)
                .with_write_back_bytes(write_back_bytes)
                .with_lossy(lossy)
                .with_idle_after(Duration::ZERO)
        },
    )
}

fn run(engine: EngineKind, encoding: Encoding, whole_bytes_max: usize, oplog: bool, actions: &[Action]) {
    let folder = folder();
    let options = Options::default()
        .with_engine(engine)
        .with_cache_bytes(1 << 20)
        .with_frame_cache_bytes(10_000)
        .with_retention_interval(None)
        .with_whole_bytes_max(whole_bytes_max)
        .with_durability(Durability::None)
        .with_encoding(encoding)
        .with_compacting(
            Compacting::default()
                .with_recent_bytes(0)
                .with_idle_after(Duration::ZERO),
        )
        .with_oplog(oplog);
    let mut store = Store::open(folder.path(), options).unwrap();
    let mut spaces = open_spaces(&store);
    let mut model = Model::default();
    let mut kept = Vec::new();
    let mut highest = 0;
    for action in actions {
        match action {
            Action::Commit(ops) => {
                let done = store.commit(batch(&spaces, ops));
                match (model.after(ops), done) {
                    (Ok(after), Ok(written)) => {
                        for &number in written.iter().flatten() {
                            assert!(number > highest, "numbers ascend and are given once");
                            highest = number;
                        }
                        model = after.numbered(ops, &written);
                    }
                    (Err(expected), Err(error)) => assert_eq!(Refusal::of(&error), expected),
                    (expected, found) => panic!("{expected:?} expected, found {found:?}"),
                }
            }
            Action::Scan { from, to, limit } => {
                let range = (from.map(|i| KEYS[i]), to.map(|i| KEYS[i]));
                for (index, space) in spaces.iter().enumerate() {
                    let found = space
                        .scan(range, Direction::Forward)
                        .unwrap()
                        .take(*limit)
                        .map(Result::unwrap);
                    let found: Vec<_> = found.map(|record| (record.key, record.body)).collect();
                    assert_eq!(found, in_range(model.live(index), range, *limit));
                    for (number, (name, unique)) in INDEXES.into_iter().enumerate() {
                        let by_value = space.index(name, unique).unwrap();
                        let mut expected = in_range(model.rows(index, number), range, usize::MAX);
                        for direction in [Direction::Forward, Direction::Backward] {
                            let found = by_value
                                .keys(range, direction)
                                .unwrap()
                                .take(*limit)
                                .map(Result::unwrap);
                            let found: Vec<_> = found.map(|found| (found.value, found.key)).collect();
                            assert_eq!(found, expected[..expected.len().min(*limit)]);
                            expected.reverse();
                        }
                    }
                }
            }
            Action::Exchange(space) => {
                let ops = exchange(&model, *space);
                let written = store.commit(batch(&spaces, &ops)).unwrap();
                assert!(written.iter().all(Option::is_none), "no version is stored");
                model = model.after(&ops).unwrap();
            }
            Action::Keep => kept.push((store.snapshot().unwrap(), spaces.clone(), model.clone())),
            Action::Encode => store.finish_encoding().unwrap(),
            Action::Compact => drop(store.compact(&mut |_| ControlFlow::Continue(())).unwrap()),
            Action::Truncate(percent) => {
                if let Some(log) = store.log().unwrap() {
                    let first = log.first + (log.next - log.first) * percent / 100;
                    store.truncate_log(first).unwrap();
                }
            }
            Action::Retain(space, retention) => {
                spaces[*space].set_retention(*retention).unwrap();
                assert_eq!(spaces[*space].retention().unwrap(), *retention);
                model.retention[*space] = *retention;
            }
            Action::Latest(space, latest) => {
                spaces[*space].set_latest_as(*latest).unwrap();
                assert_eq!(spaces[*space].latest_as().unwrap(), *latest);
            }
            Action::Expire(time) => {
                let mut expected = Vec::new();
                let mut note = |expiring| {
                    expected.push(expiring);
                    ControlFlow::Continue(())
                };
                store.expiring(crate::common::at(*time), &mut note).unwrap();
                let mut removed = Vec::new();
                let mut note = |expiring| {
                    removed.push(expiring);
                    ControlFlow::Continue(())
                };
                store.expire(crate::common::at(*time), &mut note).unwrap();
                assert_eq!(removed, expected);
                (0..2).for_each(|space| model.expire(space, *time));
            }
            Action::Reopen => {
                check_kept(&mut kept);
                drop(spaces);
                drop(store);
                store = Store::open(folder.path(), options).unwrap();
                spaces = open_spaces(&store);
                assert_same(&store.snapshot().unwrap(), &spaces, &model);
            }
        }
    }
    check_kept(&mut kept);
    assert_same(&store.snapshot().unwrap(), &spaces, &model);
    let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.is_clean(), "{found:?}");
    drop((spaces, store));
    match engine {
        EngineKind::Redb => assert_counted(&Redb::open(&folder.path().join("redb"), 1 << 20).unwrap()),
        #[cfg(feature = "fjall")]
        EngineKind::Fjall => assert_counted(&Fjall::open(&folder.path().join("fjall"), 1 << 20).unwrap()),
        engine => panic!("no engine {engine:?}"),
    }
    // Each takes as long as the history itself.
    if actions.len().is_multiple_of(4) {
        assert_salvaged(folder.path(), options, model);
    }
}

/// Checks that a salvage of a store that is sound has the same in the new one.
fn assert_salvaged(path: &Path, options: Options, mut model: Model) {
    let folder = folder();
    let new = folder.path().join("new");
    let found = Store::salvage(path, &new, options, None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((found.losses, found.losses_total, found.undated), (vec![], 0, 0));
    let store = Store::open(&new, options).unwrap();
    let spaces = open_spaces(&store);
    for (space, retention) in spaces.iter().zip(model.retention) {
        assert_eq!(space.retention().unwrap(), retention);
    }
    let lives = model.spaces.iter_mut().flat_map(BTreeMap::values_mut);
    lives.flatten().for_each(|version| version.number = 0);
    assert_same(&store.snapshot().unwrap(), &spaces, &model);
    let verified = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(verified.is_clean(), "{verified:?}");
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

type Kept = (ibid_record::Snapshot, [ibid_record::Namespace; 2], Model);

fn check_kept(kept: &mut Vec<Kept>) {
    for (snapshot, spaces, model) in kept.drain(..) {
        assert_same(&snapshot, &spaces, &model);
    }
}

/// Returns the first of some pairs whose first parts are in a range.
fn in_range(pairs: Pairs, range: (Bound<&[u8]>, Bound<&[u8]>), limit: usize) -> Pairs {
    let within = |key: &[u8]| {
        let above = match range.0 {
            Bound::Included(from) => key >= from,
            Bound::Excluded(from) => key > from,
            Bound::Unbounded => true,
        };
        above
            && match range.1 {
                Bound::Included(to) => key <= to,
                Bound::Excluded(to) => key < to,
                Bound::Unbounded => true,
            }
    };
    let pairs = pairs.into_iter();
    pairs.filter(|(key, _)| within(key)).take(limit).collect()
}

fn cases(default: u32) -> ProptestConfig {
    let asked = std::env::var("IBID_RECORD_CASES").ok();
    let cases = asked.map_or(default, |cases| cases.parse().expect("a number of cases"));
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

#[test]
fn with_redb() {
    let actions = || prop::collection::vec(action(), 1..25);
    proptest!(cases(1000), |(encoding in encoding(), whole in whole(), oplog in any::<bool>(), actions in actions())| {
        run(EngineKind::Redb, encoding, whole, oplog, &actions);
    });
}

#[cfg(feature = "fjall")]
#[test]
fn with_fjall() {
    let actions = || prop::collection::vec(action(), 1..25);
    proptest!(cases(20), |(encoding in encoding(), whole in whole(), oplog in any::<bool>(), actions in actions())| {
        run(EngineKind::Fjall, encoding, whole, oplog, &actions);
    });
}
