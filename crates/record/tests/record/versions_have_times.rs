//! Any state of the past is read as it was, in long histories of which parts were purged, too; versions from before
//! there were times are never taken for something that they are not; and a store lets go of what it is told not to
//! keep, by itself, whatever its clock shows.

use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::time::Duration;

use ibid_record::engine::{Engine, Table};
use ibid_record::{Batch, Direction, Durability, Error, Options, Retention, Store, Time, Versions};
use proptest::prelude::*;

use crate::common::{Kind, Model, Op, assert_counted, assert_same, at, batch, folder, open_spaces, with_engine};
use crate::content::{PAGES, VERSIONS, page, pages};

fn options() -> Options {
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::None)
        .with_retention_interval(None)
}

/// What happens to a key with hundreds of versions.
#[derive(Debug, Clone)]
enum Step {
    /// So many versions are stored, each so much later than the one before; the last may be a deletion.
    Store(usize, u64, bool),
    /// Versions between two parts of all are purged, in thousandths.
    Purge(usize, usize),
    /// What is not kept is removed, at a part of the last time.
    Expire(u64),
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..150_usize, 0..3_u64, any::<bool>()).prop_map(|(count, later, ends)| Step::Store(count, later, ends)),
        3 => (0..1000_usize, 0..400_usize).prop_map(|(from, length)| Step::Purge(from, from + length)),
        2 => (0..1200_u64).prop_map(Step::Expire),
        1 => Just(Step::Compact),
    ]
}

fn long_life(steps: &[Step], retention: Retention) {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let spaces = open_spaces(&store);
    spaces[0].set_retention(retention).unwrap();
    let mut model = Model::default();
    model.retention[0] = retention;
    let (key, mut time) = (b"key".to_vec(), 1);
    let op = |kind, time: u64| Op {
        space: 0,
        key: key.clone(),
        kind,
        body: format!("at {time}").into_bytes(),
        time: Some(time),
        expires: 0,
        values: crate::common::Values::new(),
    };
    let purge = |from, to| Op {
        time: None,
        ..op(Kind::PurgeVersions(from, to), 1)
    };
    for step in steps {
        let length = model.spaces[0].get(&key).map_or(0, Vec::len);
        let mut ops = Vec::new();
        match step {
            Step::Store(count, later, deletes) => {
                for _ in 0..*count {
                    time += later;
                    ops.push(op(Kind::Put, time));
                }
                ops.extend(deletes.then(|| op(Kind::Delete, time)));
            }
            Step::Purge(from, to) if length > 1 => {
                let (from, to) = (1 + from * length / 1000, (1 + to * length / 1000).min(length - 1));
                ops.extend((from <= to).then(|| purge(from as u32, to as u32)));
            }
            Step::Purge(..) => {}
            Step::Expire(part) => {
                let at_part = (time * part / 1000).max(1);
                store.expire(at(at_part), &mut |_| ControlFlow::Continue(())).unwrap();
                model.expire(0, at_part);
            }
            Step::Compact => drop(store.compact(&mut |_| ControlFlow::Continue(())).unwrap()),
        }
        let written = store.commit(batch(&spaces, &ops)).unwrap();
        model = model.after(&ops).unwrap().numbered(&ops, &written);
    }
    assert_same(&store.snapshot().unwrap(), &spaces, &model);
    let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.is_clean(), "{found:?}");
    let purged = model.spaces[0]
        .values()
        .flatten()
        .filter(|version| version.purged)
        .count() as u64;
    assert_eq!(found.namespaces[0].purged, purged);
    let counted = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(counted.namespaces[0].purged, purged);
    drop((spaces, store));
    with_engine(folder.path(), |engine| assert_counted(engine));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_long_life_is_read_as_it_was(
        steps in prop::collection::vec(step(), 1..8),
        versions in prop::option::of(1..100_u32),
        within in prop::option::of(1..200_u64),
    ) {
        let retention = Retention::default().with_versions(versions).with_within(within.map(Duration::from_millis));
        long_life(&steps, retention);
    }
}

/// Opens a copy of a store that version 0.1.0 wrote, which kept no times.
fn old_store(folder: &Path) -> Store {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1-open");
    for entry in fs::read_dir(fixture).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    Store::open(folder, options()).unwrap()
}

fn format_of(folder: &Path) -> Vec<u8> {
    with_engine(folder, |engine| {
        let mut format = Vec::new();
        let snapshot = engine.snapshot().unwrap();
        snapshot
            .get(Table::Meta, b"format", &mut |value| format = value.to_vec())
            .unwrap();
        format
    })
}

#[test]
fn versions_without_a_time_are_not_taken_for_the_latest_of_any() {
    let folder = folder();
    let store = old_store(folder.path());
    let pages = pages(&store).unwrap();
    let key = PAGES[0].as_bytes();
    assert!(
        pages
            .versions(key)
            .unwrap()
            .iter()
            .all(|version| version.time.is_none())
    );
    let unknown = pages.get_as_of(key, Time::MAX).unwrap_err();
    assert!(
        matches!(unknown, Error::TimeUnknown { version: VERSIONS, .. }),
        "{unknown}"
    );
    drop((pages, store));
    assert_eq!(format_of(folder.path()), b"ibidrec\x01", "nothing was changed");

    let store = Store::open(folder.path(), options()).unwrap();
    let pages = crate::content::pages(&store).unwrap();
    let noon = at(1_795_262_400_000);
    store
        .commit({
            let mut batch = Batch::new();
            batch.put(&pages, key, b"a new version").at(noon);
            batch
        })
        .unwrap();
    let versions = pages.versions(key).unwrap();
    let (latest, old) = versions.split_last().unwrap();
    assert_eq!(latest.time, Some(noon));
    assert!(old.len() == VERSIONS as usize && old.iter().all(|version| version.time.is_none()));
    assert_eq!(pages.get_as_of(key, noon).unwrap().unwrap(), b"a new version");
    let before = at(noon.as_millis() - 1);
    assert!(matches!(
        pages.get_as_of(key, before),
        Err(Error::TimeUnknown { version: VERSIONS, .. })
    ));
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let found: Vec<_> = pages
        .scan_as_of(everything, Direction::Forward, noon)
        .unwrap()
        .collect();
    assert_eq!(found.iter().filter(|found| found.is_ok()).count(), 1);
    assert_eq!(
        found.len(),
        PAGES.len(),
        "it goes on after a key of which nothing is known"
    );

    // They were replaced before the version that has a time, so they go when that is old.
    pages
        .set_retention(Retention::default().with_within(Duration::from_secs(60)))
        .unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    store.expire(noon.after(Duration::from_secs(59)), go_on).unwrap();
    assert_eq!(pages.get_version(key, 1).unwrap(), Some(page(PAGES[0], 1)));
    store.expire(noon.after(Duration::from_secs(60)), go_on).unwrap();
    assert_eq!(pages.versions(key).unwrap(), [*latest]);
    let other = PAGES[1].as_bytes();
    assert_eq!(
        pages.versions(other).unwrap().len(),
        VERSIONS as usize,
        "nothing says how old they are"
    );
    assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    drop((pages, store));
    assert_eq!(format_of(folder.path()), b"ibidrec\x03");
}

#[test]
fn times_never_run_backward() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let spaces = [("kept", Versions::Kept), ("latest", Versions::Latest)];
    for (name, versions) in spaces {
        let pages = store.namespace(name, versions).unwrap();
        let put = |time: Option<Time>| {
            let mut batch = Batch::new();
            batch.put(&pages, b"a", b"");
            time.map(|time| batch.at(time));
            store.commit(batch)
        };
        put(None).unwrap();
        let first = pages.latest(b"a").unwrap().unwrap().time.unwrap();
        assert!(first <= Time::now());
        let refused = put(Some(at(first.as_millis() - 1))).unwrap_err();
        assert!(
            matches!(refused, Error::TimeRunsBackward { latest, .. } if latest == first),
            "{refused}"
        );
        // A version that is dated in the future holds the times of later ones back, and no other key's.
        let future = Time::now().after(Duration::from_secs(86_400));
        put(Some(future)).unwrap();
        put(None).unwrap();
        assert_eq!(pages.latest(b"a").unwrap().unwrap().time, Some(future));
        pages.put(b"b", b"").unwrap();
        assert!(pages.latest(b"b").unwrap().unwrap().time < Some(future));
    }
}

#[test]
fn a_store_lets_go_by_itself() {
    let folder = folder();
    let store = Store::open(
        folder.path(),
        options().with_retention_interval(Duration::from_millis(1)),
    )
    .unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let sessions = store.namespace("sessions", Versions::Latest).unwrap();
    let mut batch = Batch::new();
    for version in 0..300 {
        batch.put(&pages, b"a", format!("{version}").as_bytes());
    }
    batch.put(&sessions, b"short", b"").expire_at(Time::now());
    batch.put(&sessions, b"long", b"").expire_at(Time::MAX);
    batch.put(&sessions, b"for ever", b"");
    store.commit(batch).unwrap();
    pages.set_retention(Retention::default().with_versions(10)).unwrap();
    while pages.versions(b"a").unwrap().len() > 10 || sessions.get(b"short").unwrap().is_some() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(pages.versions(b"a").unwrap()[0].version, 291);
    assert!(sessions.get(b"long").unwrap().is_some() && sessions.get(b"for ever").unwrap().is_some());
    // It ends while it works.
    drop((pages, sessions, store));
    let store = Store::open(folder.path(), options()).unwrap();
    assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
}

#[test]
fn what_is_purged_while_a_store_is_written_and_compacted_is_gone_and_nothing_else() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let body = |version: u32| {
        let mut body = crate::common::noise(3000, 5);
        body[version as usize % 3000] ^= version as u8;
        body
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=600_u32 {
                pages.put(b"a", &body(version)).unwrap();
                if version % 3 == 0 {
                    pages.purge_versions(b"a", version - 2..=version - 2).unwrap();
                }
            }
        });
        for _ in 0..12 {
            store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        }
    });
    let done = store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(done.purged_for_log, 0);
    for version in 1..=600 {
        match pages.get_version(b"a", version) {
            Err(Error::Purged { .. }) => assert_eq!(version % 3, 1),
            found => assert_eq!(found.unwrap(), Some(body(version))),
        }
    }
    let counted = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(
        (counted.namespaces[0].purged, counted.namespaces[0].obsolete.count),
        (200, 0)
    );
    assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    drop((pages, store));
    with_engine(folder.path(), |engine| assert_counted(engine));
}

#[test]
fn a_retention_fits_its_namespace() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let latest = store.namespace("latest", Versions::Latest).unwrap();
    let day = Duration::from_secs(86_400);
    for retention in [
        Retention::default().with_versions(3),
        Retention::default().with_within(day),
    ] {
        assert!(matches!(
            latest.set_retention(retention),
            Err(Error::VersionsNotKept { .. })
        ));
    }
    latest.set_retention(Retention::default().with_lifetime(day)).unwrap();
    let kept = store.namespace("kept", Versions::Kept).unwrap();
    for retention in [
        Retention::default().with_versions(0),
        Retention::default().with_within(Duration::ZERO),
        Retention::default().with_lifetime(Duration::MAX),
    ] {
        assert!(matches!(kept.set_retention(retention), Err(Error::OutOfRange { .. })));
    }
    let retention = Retention::default().with_versions(3).with_within(day);
    kept.set_retention(retention).unwrap();
    drop((latest, kept, store));
    let store = Store::open(folder.path(), options()).unwrap();
    assert_eq!(
        store.find_namespace("kept").unwrap().unwrap().retention().unwrap(),
        retention
    );
}
