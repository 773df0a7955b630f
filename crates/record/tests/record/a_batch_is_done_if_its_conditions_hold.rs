//! A batch with conditions is done completely if each condition holds where it stands, and else
//! nothing of it is done.
//!
//! `IBID_RECORD_CASES=10000` runs more histories.

use std::cell::Cell;

use ibid_record::{Batch, Condition, Durability, Error, Namespace, Options, Store, Version, Versions};
use proptest::prelude::*;

use crate::common::{Kind, Model, Op, Refusal, assert_same, folder, open_spaces};

const KEYS: [&[u8]; 3] = [b"", b"a", b"b"];

#[derive(Debug, Clone)]
enum Step {
    Change(Op),
    Require {
        space: usize,
        key: &'static [u8],
        wish: Wish,
    },
}

/// A condition that depends on the state of its key.
#[derive(Debug, Clone, Copy)]
enum Wish {
    /// That the key is as it is: absent, deleted, or at its version.
    Version,
    /// The same by the number of its record.
    Number,
    /// This, which may hold or not.
    Any(Condition),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        1 => Just(Kind::Insert),
        1 => Just(Kind::Update),
        4 => Just(Kind::Put),
        2 => Just(Kind::Delete),
        1 => Just(Kind::Purge),
        1 => Just(Kind::SetValues),
    ];
    let change = (0..2_usize, 0..KEYS.len(), kind, 0..3_u8).prop_map(|(space, key, kind, byte)| {
        Step::Change(Op {
            space,
            key: KEYS[key].to_vec(),
            kind,
            body: vec![byte; 3],
            time: None,
            expires: 0,
            // What the last step leaves counts, so a unique index would need a model of its own.
            values: match kind {
                _ if kind.has_values() => [(0, vec![byte]), (0, KEYS[key].to_vec())].into(),
                _ => crate::common::Values::new(),
            },
        })
    });
    let any = prop_oneof![
        Just(Condition::Absent),
        Just(Condition::Deleted),
        (0..4_u32).prop_map(Condition::Version),
        (0..20_u64).prop_map(Condition::Number),
    ];
    let wish = prop_oneof![
        4 => Just(Wish::Version),
        4 => Just(Wish::Number),
        1 => any.prop_map(Wish::Any),
    ];
    let require = (0..2_usize, 0..KEYS.len(), wish).prop_map(|(space, key, wish)| Step::Require {
        space,
        key: KEYS[key],
        wish,
    });
    prop_oneof![1 => change, 1 => require]
}

/// Why a batch is refused.
#[derive(Debug, PartialEq)]
enum Why {
    Change(Refusal),
    Condition {
        namespace: String,
        key: Vec<u8>,
        expected: Condition,
        found: Option<Version>,
    },
    NotKept,
}

impl Why {
    fn of(error: &Error) -> Why {
        match error {
            Error::ConditionFailed {
                namespace,
                key,
                expected,
                found,
            } => Why::Condition {
                namespace: namespace.clone(),
                key: key.clone(),
                expected: *expected,
                found: untimed(*found),
            },
            Error::VersionsNotKept { .. } => Why::NotKept,
            error => Why::Change(Refusal::of(error)),
        }
    }
}

fn latest(model: &Model, space: usize, key: &[u8]) -> Option<Version> {
    let life = model.spaces[space].get(key)?;
    let latest = life.last()?;
    Some(Version {
        version: life.len() as u32,
        number: latest.number,
        deleted: latest.body.is_none(),
        time: None,
    })
}

/// Returns a version without its time, which the model does not know.
fn untimed(version: Option<Version>) -> Option<Version> {
    version.map(|version| Version { time: None, ..version })
}

/// Returns what is true of a key.
fn truth(wish: Wish, space: usize, latest: Option<Version>) -> Condition {
    match (wish, latest) {
        (Wish::Any(condition), _) => condition,
        (_, None) => Condition::Absent,
        (Wish::Version, Some(latest)) if latest.deleted => Condition::Deleted,
        (Wish::Version, Some(latest)) if space == 0 => Condition::Version(latest.version),
        (_, Some(latest)) => Condition::Number(latest.number),
    }
}

/// Puts the steps into a batch, and makes them in the model. Returns the model after them, or why
/// they are refused.
fn plan(model: &Model, next: &mut u64, spaces: &[Namespace; 2], steps: &[Step]) -> (Batch, Result<Model, Why>) {
    let mut batch = Batch::new();
    let mut after = Ok(model.clone());
    for step in steps {
        match step {
            Step::Change(op) => {
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
                crate::common::add_values(&mut batch, space, op);
                after = after.and_then(|model| {
                    let ops = std::slice::from_ref(op);
                    let changed = model.after(ops).map_err(Why::Change)?;
                    let is_body = op.kind != Kind::Purge && op.kind != Kind::SetValues;
                    let writes = is_body && (op.kind != Kind::Delete || op.space == 0);
                    *next += u64::from(writes);
                    Ok(changed.numbered(ops, &[writes.then_some(*next - 1)]))
                });
            }
            Step::Require { space, key, wish } => {
                // After a step that is refused, it does not matter.
                let found = after.as_ref().ok().and_then(|model| latest(model, *space, key));
                let condition = truth(*wish, *space, found);
                batch.require(&spaces[*space], key, condition);
                let holds = match condition {
                    Condition::Absent => found.is_none(),
                    Condition::Deleted => found.is_some_and(|found| found.deleted),
                    Condition::Version(version) => found.is_some_and(|found| found.version == version),
                    Condition::Number(number) => found.is_some_and(|found| found.number == number),
                    other => panic!("no condition {other}"),
                };
                after = after.and_then(|model| match condition {
                    Condition::Version(_) if *space == 1 => Err(Why::NotKept),
                    _ if holds => Ok(model),
                    expected => Err(Why::Condition {
                        namespace: spaces[*space].name().to_owned(),
                        key: key.to_vec(),
                        expected,
                        found,
                    }),
                });
            }
        }
    }
    (batch, after)
}

fn run(batches: &[Vec<Step>]) -> (u32, u32) {
    let folder = folder();
    let options = Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::None)
        .with_oplog(true);
    let store = Store::open(folder.path(), options).unwrap();
    let spaces = open_spaces(&store);
    let (mut model, mut next) = (Model::default(), 1);
    let (mut done, mut refused) = (0, 0);
    for steps in batches {
        let mut numbers = next;
        let (batch, expected) = plan(&model, &mut numbers, &spaces, steps);
        let (changes, log) = (batch.len(), store.log().unwrap().unwrap());
        match (expected, store.commit(batch)) {
            (Ok(after), Ok(written)) => {
                assert_eq!(written.len(), changes, "one for each change");
                assert!(written.into_iter().flatten().eq(next..numbers));
                (model, next) = (after, numbers);
                done += 1;
                let entries = u64::from(changes > 0);
                assert_eq!(store.log().unwrap().unwrap().next, log.next + entries, "{steps:?}");
            }
            (Err(expected), Err(error)) => {
                assert_eq!(Why::of(&error), expected, "{error}");
                assert_eq!(store.log().unwrap().unwrap(), log, "replicas hear nothing of it");
                refused += 1;
            }
            (expected, found) => panic!("{expected:?} expected, found {found:?} for {steps:?}"),
        }
        let snapshot = store.snapshot().unwrap();
        assert_same(&snapshot, &spaces, &model);
        for (index, space) in spaces.iter().enumerate() {
            for key in KEYS {
                assert_eq!(untimed(space.latest(key).unwrap()), latest(&model, index, key));
                assert_eq!(
                    untimed(snapshot.latest(space, key).unwrap()),
                    latest(&model, index, key)
                );
            }
        }
    }
    (done, refused)
}

#[test]
fn as_in_a_map() {
    let asked = std::env::var("IBID_RECORD_CASES").ok();
    let config = ProptestConfig {
        cases: asked.map_or(300, |cases| cases.parse().expect("a number of cases")),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let batches = || prop::collection::vec(prop::collection::vec(step(), 0..5), 1..20);
    let (done, refused) = (Cell::new(0), Cell::new(0));
    proptest!(config, |(batches in batches())| {
        let (more_done, more_refused) = run(&batches);
        done.set(done.get() + more_done);
        refused.set(refused.get() + more_refused);
    });
    assert!(
        done.get() > 0 && refused.get() > 0,
        "{done:?} done, {refused:?} refused"
    );
}

fn with_pages() -> (tempfile::TempDir, Store, Namespace) {
    let folder = folder();
    let store = Store::open(folder.path(), Options::default().with_durability(Durability::None)).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    (folder, store, pages)
}

/// Threads read a counter and store the next value if no other thread has stored one meanwhile.
#[test]
fn no_change_of_another_is_overwritten() {
    const THREADS: u64 = 4;
    const ADDED: u64 = 100;
    let (_folder, store, pages) = with_pages();
    pages.put(b"counter", &0_u64.to_be_bytes()).unwrap();
    let try_to_add_one = |by_number: bool| {
        let snapshot = store.snapshot().unwrap();
        let read = snapshot.latest(&pages, b"counter").unwrap().unwrap();
        let value = snapshot.get(&pages, b"counter").unwrap().unwrap();
        let value = u64::from_be_bytes(value.try_into().unwrap()) + 1;
        let condition = match by_number {
            true => Condition::Number(read.number),
            false => Condition::Version(read.version),
        };
        let mut batch = Batch::new();
        batch.require(&pages, b"counter", condition);
        batch.put(&pages, b"counter", &value.to_be_bytes());
        match store.commit(batch) {
            Ok(_) => true,
            Err(Error::ConditionFailed { found, .. }) => {
                assert!(found.unwrap().version > read.version);
                false
            }
            Err(error) => panic!("{error}"),
        }
    };
    let add_one = |by_number| {
        // Each refusal is for a change of another thread.
        let is_done = (0..THREADS * ADDED).any(|_| try_to_add_one(by_number));
        assert!(is_done, "refused more often than others have changed it");
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let add_one = &add_one;
            scope.spawn(move || (0..ADDED).for_each(|turn| add_one((thread + turn) % 2 == 0)));
        }
    });
    let value = pages.get(b"counter").unwrap().unwrap();
    assert_eq!(u64::from_be_bytes(value.try_into().unwrap()), THREADS * ADDED);
    assert_eq!(
        u64::from(pages.latest(b"counter").unwrap().unwrap().version),
        THREADS * ADDED + 1
    );
}

#[test]
fn a_refusal_names_the_key_what_was_expected_and_what_was_found() {
    let (_folder, store, pages) = with_pages();
    let log = store.namespace("log", Versions::Latest).unwrap();
    pages.put("Zürich\n".as_bytes(), b"a town").unwrap();
    pages.put(b"gone", b"").unwrap();
    pages.delete(b"gone").unwrap();
    let refused = |space: &Namespace, key: &[u8], condition| {
        let mut batch = Batch::new();
        batch.put(&pages, b"other", b"").require(space, key, condition);
        let error = store.commit(batch).unwrap_err().to_string();
        assert_eq!(pages.latest(b"other").unwrap(), None, "nothing of the batch is done");
        error
    };
    for (key, condition, expected) in [
        (
            "Zürich\n",
            Condition::Version(3),
            "\"Zürich\\n\" in namespace pages: expected version 3, found version 1 (record 1)",
        ),
        (
            "Zürich\n",
            Condition::Absent,
            "\"Zürich\\n\" in namespace pages: expected no version, found version 1 (record 1)",
        ),
        (
            "Zürich\n",
            Condition::Deleted,
            "\"Zürich\\n\" in namespace pages: expected a deletion, found version 1 (record 1)",
        ),
        (
            "gone",
            Condition::Number(2),
            "\"gone\" in namespace pages: expected record 2, found version 2 (record 3), a deletion",
        ),
        (
            "absent",
            Condition::Number(2),
            "\"absent\" in namespace pages: expected record 2, found no version",
        ),
    ] {
        let found = refused(&pages, key.as_bytes(), condition);
        assert_eq!(found, format!("the latest version of {expected}"));
    }
    // Every version there is the first, so it would say nothing.
    let found = refused(&log, b"a", Condition::Version(1));
    assert_eq!(found, "namespace log keeps only the latest versions");
    assert!(refused(&pages, &[0; 4097], Condition::Absent).contains("4097"));
}

#[test]
fn a_condition_in_another_store_is_refused() {
    let (_folder, store, _) = with_pages();
    let (_other_folder, _other, pages) = with_pages();
    let mut batch = Batch::new();
    batch.require(&pages, b"a", Condition::Absent);
    assert!(matches!(store.commit(batch), Err(Error::ForeignNamespace { .. })));
}
