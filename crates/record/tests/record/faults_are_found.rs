//! A verification names every fault in the tables, and counts the sound entries.

use std::ops::{Bound, ControlFlow};
use std::path::Path;

use ibid_format::record::{
    Body, BodyCheck, IndexEntry, IndexRow, KeyEntry, NamespaceEntry, NextNumbers, Record, References, RetentionEntry,
    VersionEntry, VersionGroup, key_of, version_group_key,
};
use ibid_record::engine::{Engine, Table};
use ibid_record::{
    Batch, Damage, Direction, Durability, FAULTS_MAX, Fault, KeyRange, Namespace, NamespaceCounts, Options, Problem,
    Store, Time, Unique, Verification, Versions,
};

use crate::common::{entries, folder, set, with_engine};

fn options() -> Options {
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::None)
}

/// Records: `a` 1, 2, 3 and `gone` 4, 5 in `pages`, `b` 7 in `settings`.
fn fill(path: &Path) {
    let store = Store::open(path, options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let settings = store.namespace("settings", Versions::Latest).unwrap();
    let mut batch = Batch::new();
    for body in ["one", "three", "seven"] {
        batch
            .put(&pages, b"a", body.as_bytes())
            .at(Time::from_millis(TIME).unwrap());
    }
    batch.put(&pages, b"gone", b"away").delete(&pages, b"gone");
    batch.put(&settings, b"b", b"green").put(&settings, b"b", b"blue");
    store.commit(batch).unwrap();
    store.finish_encoding().unwrap();
}

/// Fills a store, and gives keys of `settings` values: `b` 10 and 11 in the first index, 10 in the second.
fn fill_with_values(path: &Path) {
    fill(path);
    let store = Store::open(path, options()).unwrap();
    let settings = store.namespace("settings", Versions::Latest).unwrap();
    let (some, one) = (
        settings.index("some", Unique::No).unwrap(),
        settings.index("one", Unique::Yes).unwrap(),
    );
    let mut batch = Batch::new();
    let values = batch.set_index_values(&settings, b"b");
    values.index(&some, b"10").index(&some, b"11").index(&one, b"10");
    store.commit(batch).unwrap();
}

/// Returns a row of an index in the namespace `settings`.
fn row(index: u8, value: &[u8], key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (value, key) = (value.to_vec(), key.to_vec());
    let row = IndexRow {
        namespace: 2,
        index,
        value,
        key,
    };
    row.encode().unwrap()
}

#[test]
fn values_and_the_rows_of_indexes_must_agree() {
    let spoiled = |spoil: &dyn Fn(&ibid_record::engine::Redb)| {
        let folder = folder();
        fill_with_values(folder.path());
        assert!(verify(folder.path()).is_clean());
        with_engine(folder.path(), |engine| {
            spoil(engine);
            engine.sync().unwrap();
        });
        verify(folder.path())
    };
    let lost = row(1, b"11", b"b").0;
    let found = spoiled(&|engine| set(engine, Table::Indexes, &lost, None));
    let missing = Problem::Damaged(Damage::Missing);
    assert_faults(&found, &[(Table::Indexes, lost, missing)]);
    assert_eq!(
        found.faults[0].to_string(),
        "value \"11\" of key \"b\" in index number 1 of namespace number 2: it is missing"
    );

    let put = |engine: &ibid_record::engine::Redb, (key, value): &(Vec<u8>, Vec<u8>)| {
        set(engine, Table::Indexes, key, Some(value));
    };
    for stray in [row(1, b"12", b"b"), row(1, b"10", b"c")] {
        let found = spoiled(&|engine| put(engine, &stray));
        assert_faults(&found, &[(Table::Indexes, stray.0, Problem::Stray)]);
    }
    // A key whose entry was replaced by an older one.
    let found = spoiled(&|engine| {
        let stored_key = key_of(2, b"b");
        let mut entries = entries(engine, Table::Keys).into_iter();
        let (_, value) = entries.find(|(key, _)| *key == stored_key).unwrap();
        let entry = KeyEntry::decode(&stored_key, &value)
            .unwrap()
            .encode(&stored_key)
            .unwrap();
        set(engine, Table::Keys, &stored_key, Some(&entry));
    });
    let stray = [row(1, b"10", b"b"), row(1, b"11", b"b"), row(2, b"10", b"b")];
    let stray = stray.map(|(row, _)| (Table::Indexes, row, Problem::Stray));
    assert_faults(&found, &stray);

    let second = row(2, b"10", b"c");
    let found = spoiled(&|engine| put(engine, &second));
    let (field, expected) = ("keys that have the same value of a unique index", 1);
    let problem = Problem::Disagrees {
        field,
        expected,
        found: 2,
    };
    assert_faults(&found, &[(Table::Indexes, second.0, problem)]);

    let found = spoiled(&|engine| set(engine, Table::Indexes, &IndexEntry::key(2, "some"), None));
    assert_faults(&found, &[(Table::Indexes, row(1, b"10", b"b").0, Problem::NoIndex)]);
    let again = IndexEntry {
        number: 2,
        unique: true,
    }
    .encode(2, "two")
    .unwrap();
    let found = spoiled(&|engine| set(engine, Table::Indexes, &IndexEntry::key(2, "two"), Some(&again)));
    assert_faults(
        &found,
        &[(Table::Indexes, IndexEntry::key(2, "two"), Problem::Repeated)],
    );
    let elsewhere = IndexEntry {
        number: 1,
        unique: true,
    }
    .encode(9, "two")
    .unwrap();
    let found = spoiled(&|engine| set(engine, Table::Indexes, &IndexEntry::key(9, "two"), Some(&elsewhere)));
    assert_faults(
        &found,
        &[(Table::Indexes, IndexEntry::key(9, "two"), Problem::NoNamespace)],
    );
    let shown = found.faults[0].to_string();
    assert_eq!(shown, "index \"two\" of namespace number 9: there is no such namespace");
}

/// When the versions of `a` were stored.
const TIME: u64 = 1_795_262_400_000;

fn version(number: u64, deleted: bool) -> VersionEntry {
    VersionEntry {
        deleted,
        purged: false,
        number,
        time: TIME,
    }
}

fn verify(path: &Path) -> Verification {
    let store = Store::open(path, options()).unwrap();
    store.verify(&mut |_| ControlFlow::Continue(())).unwrap()
}

/// Verifies a store after `spoil` has changed its tables.
fn spoiled(spoil: impl FnOnce(&ibid_record::engine::Redb)) -> Verification {
    let folder = folder();
    fill(folder.path());
    with_engine(folder.path(), |engine| {
        spoil(engine);
        engine.sync().unwrap();
    });
    verify(folder.path())
}

fn record_key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

#[track_caller]
fn assert_faults(found: &Verification, expected: &[(Table, Vec<u8>, Problem)]) {
    let expected = expected
        .iter()
        .cloned()
        .map(|(table, key, problem)| Fault { table, key, problem });
    assert_eq!(found.faults, expected.collect::<Vec<_>>());
    assert_eq!(found.faults_total, found.faults.len() as u64);
    assert!(!found.is_clean());
}

#[test]
fn sound_entries_are_counted() {
    let folder = folder();
    fill(folder.path());
    let found = verify(folder.path());
    assert!(found.is_clean(), "{found:?}");
    let pages = NamespaceCounts {
        purged: 0,
        name: "pages".to_owned(),
        versions: Versions::Kept,
        keys: 1,
        keys_deleted: 1,
        records: 5,
        body_bytes: 17,
        latest_body_bytes: 5,
        stored_bytes: 17,
    };
    let settings = NamespaceCounts {
        purged: 0,
        name: "settings".to_owned(),
        versions: Versions::Latest,
        keys: 1,
        keys_deleted: 0,
        records: 1,
        body_bytes: 4,
        latest_body_bytes: 4,
        stored_bytes: 4,
    };
    assert_eq!(found.namespaces, [pages, settings]);
}

#[test]
fn a_namespace_is_found_with_what_it_keeps_or_not_at_all() {
    let folder = folder();
    fill(folder.path());
    let store = Store::open(folder.path(), options()).unwrap();
    for (name, versions) in [("pages", Versions::Kept), ("settings", Versions::Latest)] {
        assert_eq!(store.find_namespace(name).unwrap().unwrap().keeps(), versions);
    }
    for name in ["", "absent", &"n".repeat(256)] {
        assert!(store.find_namespace(name).unwrap().is_none());
    }
    assert_eq!(verify_open(&store).namespaces.len(), 2, "looking made none");
}

fn verify_open(store: &Store) -> Verification {
    store.verify(&mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn every_byte_of_every_entry_is_compared() {
    let folder = folder();
    fill_with_values(folder.path());
    // The table `meta` is left out: damage there keeps a store from being opened.
    for table in [
        Table::Namespaces,
        Table::Keys,
        Table::Versions,
        Table::Records,
        Table::Indexes,
    ] {
        for (key, value) in with_engine(folder.path(), |engine| entries(engine, table)) {
            let bad = |position: usize| {
                let mut bad = value.clone();
                bad[position] ^= 1 << (position % 8);
                bad
            };
            let cut = [vec![], value[..value.len() - 1].to_vec()];
            for bad in (0..value.len()).map(bad).chain(cut) {
                with_engine(folder.path(), |engine| {
                    set(engine, table, &key, Some(&bad));
                    engine.sync().unwrap();
                });
                let found = verify(folder.path());
                let named = |fault: &&Fault| (fault.table, &fault.key) == (table, &key);
                let fault = found.faults.iter().find(named);
                assert!(fault.is_some(), "{table:?} {key:02x?} {bad:02x?}: {found:?}");
                with_engine(folder.path(), |engine| {
                    set(engine, table, &key, Some(&value));
                    engine.sync().unwrap();
                });
            }
        }
    }
    assert!(verify(folder.path()).is_clean(), "all was put back");
}

#[test]
fn a_lost_entry_is_missing_and_the_entries_behind_it_are_stray() {
    let missing = Problem::Damaged(Damage::Missing);
    for (table, key) in [
        (Table::Records, record_key(1)),
        (Table::Records, record_key(3)),
        (Table::Records, record_key(5)),
        (Table::Versions, version_group_key(1, 0).to_vec()),
        (Table::Versions, version_group_key(4, 0).to_vec()),
    ] {
        let found = spoiled(|engine| set(engine, table, &key, None));
        let lost = (table, key.clone(), missing.clone());
        // A record with a body is also the newest of a chain, whose entry is then stray.
        let of_chain = (Table::Chains, key.clone(), Problem::Stray);
        let has_chain = table == Table::Records && key != record_key(5);
        let expected = [lost, of_chain];
        assert_faults(&found, &expected[..1 + usize::from(has_chain)]);
    }

    let found = spoiled(|engine| set(engine, Table::Keys, &key_of(1, b"a"), None));
    let stray = |table, key| (table, key, Problem::Stray);
    assert_faults(
        &found,
        &[
            stray(Table::Versions, version_group_key(1, 0).to_vec()),
            stray(Table::Records, record_key(1)),
            stray(Table::Records, record_key(2)),
            stray(Table::Records, record_key(3)),
        ],
    );

    let found = spoiled(|engine| set(engine, Table::Namespaces, b"pages", None));
    assert_faults(&found, &[(Table::Keys, key_of(1, b"a"), Problem::NoNamespace)]);
}

#[test]
fn entries_that_are_sound_and_contradict_each_other_are_named() {
    let key = |entry: KeyEntry, key: &[u8]| entry.encode(key).unwrap();
    let entry = KeyEntry {
        deleted: false,
        lineage: 1,
        versions: 3,
        latest: 3,
        time: TIME,
        oldest: 1,
        expires: 0,
        uses: 0,
        in_pieces: false,
    };
    let disagrees = |field, expected, found| Problem::Disagrees { field, expected, found };

    // A key lost its last version, so that version entry and record are stray.
    let (lost, shorter) = (
        key_of(1, b"a"),
        KeyEntry {
            versions: 2,
            latest: 2,
            ..entry
        },
    );
    let found = spoiled(|engine| set(engine, Table::Keys, &lost, Some(&key(shorter, &lost))));
    let (versions, record) = (version_group_key(1, 0).to_vec(), record_key(3));
    assert_faults(
        &found,
        &[
            (
                Table::Versions,
                versions.clone(),
                disagrees("versions of a group", 1, 2),
            ),
            (Table::Records, record, Problem::Stray),
        ],
    );

    // A second key leads to the records of another.
    let twin = key_of(1, b"twin");
    let found = spoiled(|engine| set(engine, Table::Keys, &twin, Some(&key(entry, &twin))));
    let misplaced = |number| (Table::Records, record_key(number), Problem::Damaged(Damage::Misplaced));
    assert_faults(&found, &[misplaced(1), misplaced(2), misplaced(3)]);

    // Versions lead to each other's records.
    let group = |numbers: [(u64, bool); 2]| {
        let mut group = VersionGroup::new(1, 0);
        group.first_time = TIME;
        numbers
            .into_iter()
            .for_each(|(number, deleted)| group.push(version(number, deleted)));
        group.encode().unwrap()
    };
    let found = spoiled(|engine| {
        set(
            engine,
            Table::Versions,
            &versions,
            Some(&group([(3, false), (5, false)])),
        )
    });
    let field = "record of the latest version";
    assert_faults(
        &found,
        &[
            misplaced(3),
            (Table::Versions, versions.clone(), disagrees(field, 3, 5)),
            misplaced(5),
            (Table::Records, record_key(2), Problem::Stray),
        ],
    );

    // A purged version still has its record; the latest is said to be purged, and to have another time.
    let marked = |purged: u32, time: u64| {
        let mut group = VersionGroup::new(1, 0);
        group.first_time = TIME;
        for number in [2, 3] {
            let time = if number == 3 { time } else { TIME };
            group.push(VersionEntry {
                time,
                ..version(number, false)
            });
        }
        group.purge(purged);
        group.encode().unwrap()
    };
    let found = spoiled(|engine| set(engine, Table::Versions, &versions, Some(&marked(2, TIME))));
    assert_faults(&found, &[(Table::Records, record_key(2), Problem::Stray)]);
    let found = spoiled(|engine| set(engine, Table::Versions, &versions, Some(&marked(3, TIME))));
    let field = "whether the latest version was purged, 1 if so";
    assert_faults(&found, &[(Table::Versions, versions.clone(), disagrees(field, 0, 1))]);
    let found = spoiled(|engine| set(engine, Table::Versions, &versions, Some(&marked(0, TIME + 1))));
    let field = "time of the latest version";
    assert_faults(
        &found,
        &[(Table::Versions, versions.clone(), disagrees(field, TIME, TIME + 1))],
    );
    let older = KeyEntry { oldest: 3, ..entry };
    let found = spoiled(|engine| set(engine, Table::Keys, &lost, Some(&key(older, &lost))));
    assert_faults(
        &found,
        &[
            (Table::Records, record_key(1), Problem::Stray),
            (Table::Records, record_key(2), Problem::Stray),
        ],
    );

    // The version entry says that the version is deleted, and the record does not.
    let found = spoiled(|engine| {
        set(
            engine,
            Table::Versions,
            &versions,
            Some(&group([(2, true), (3, false)])),
        )
    });
    let field = "whether its key was deleted with it, 1 if so";
    assert_faults(&found, &[(Table::Records, record_key(2), disagrees(field, 1, 0))]);

    // A namespace that keeps no versions has version entries.
    let found = spoiled(|engine| {
        let entry = NamespaceEntry {
            number: 1,
            versions_kept: false,
            retention: RetentionEntry::default(),
            has_expiring: false,
            latest: ibid_format::record::LatestEntry::Automatic,
        };
        set(
            engine,
            Table::Namespaces,
            b"pages",
            Some(&entry.encode("pages").unwrap()),
        );
    });
    let field = "versions of a key where one is kept";
    assert_faults(
        &found,
        &[
            (Table::Keys, key_of(1, b"a"), disagrees(field, 1, 3)),
            (Table::Keys, key_of(1, b"gone"), disagrees(field, 1, 2)),
        ],
    );

    // A namespace has the number of another.
    let found = spoiled(|engine| {
        let entry = NamespaceEntry {
            number: 2,
            versions_kept: false,
            retention: RetentionEntry::default(),
            has_expiring: false,
            latest: ibid_format::record::LatestEntry::Automatic,
        };
        set(engine, Table::Namespaces, b"twin", Some(&entry.encode("twin").unwrap()));
    });
    assert_faults(&found, &[(Table::Namespaces, b"twin".to_vec(), Problem::Repeated)]);

    // Numbers in use would be given again.
    let found = spoiled(|engine| {
        let next = NextNumbers {
            record: 5,
            namespace: 3,
        };
        set(engine, Table::Meta, b"next", Some(&next.encode()));
    });
    assert_faults(
        &found,
        &[(Table::Meta, b"next".to_vec(), disagrees("next record", 6, 5))],
    );

    // A record names a key that leads elsewhere.
    let found = spoiled(|engine| {
        let mut bytes = Vec::new();
        let record = Record {
            in_pieces: false,
            namespace: 1,
            version: 2,
            key: b"a",
            body: Body::Whole(b"another two"),
        };
        record.encode(6, &mut bytes).unwrap();
        set(engine, Table::Records, &record_key(6), Some(&bytes));
    });
    assert_faults(&found, &[(Table::Records, record_key(6), Problem::Stray)]);

    // A base without a reference count, and a record that is kept without need.
    let found = spoiled(|engine| {
        let record = Record {
            in_pieces: false,
            namespace: 1,
            version: 1,
            key: b"a",
            body: Body::Whole(b"one"),
        };
        let method = ibid_delta::Method::Anchor {
            interval: ibid_delta::Interval::I16,
        };
        let mut delta = Vec::new();
        ibid_delta::DeltaEncoder::new()
            .encode(method, b"blue", b"one", &mut delta)
            .unwrap();
        let body = Body::Delta {
            base: 7,
            check: BodyCheck::of(b"one"),
            delta: &delta,
        };
        let mut bytes = Vec::new();
        Record { body, ..record }.encode(1, &mut bytes).unwrap();
        set(engine, Table::Records, &record_key(1), Some(&bytes));
    });
    let references = record_key(0);
    let field = "records decoded from one";
    assert_faults(
        &found,
        &[(Table::References, references.clone(), disagrees(field, 1, 0))],
    );
    let found = spoiled(|engine| {
        let mut counts = References::default();
        counts.set(2, 1, true);
        set(engine, Table::References, &references, Some(&counts.encode(0).unwrap()));
    });
    assert_faults(&found, &[(Table::References, references, disagrees(field, 0, 1))]);

    // Entries that the format does not have.
    let found = spoiled(|engine| {
        set(engine, Table::Meta, b"colour", Some(b"green"));
        set(engine, Table::Versions, b"odd", Some(b""));
    });
    let unknown = |table, key: &[u8]| (table, key.to_vec(), Problem::Unknown);
    assert_faults(
        &found,
        &[unknown(Table::Meta, b"colour"), unknown(Table::Versions, b"odd")],
    );
}

#[test]
fn faults_are_counted_beyond_those_that_are_listed() {
    let folder = folder();
    let store = Store::open(folder.path(), options()).unwrap();
    let pages = store.namespace("pages", Versions::Latest).unwrap();
    let mut batch = Batch::new();
    for number in 0..FAULTS_MAX + 100 {
        batch.insert(&pages, format!("{number:05}").as_bytes(), b"");
    }
    store.commit(batch).unwrap();
    drop((pages, store));
    with_engine(folder.path(), |engine| {
        for (key, _) in entries(engine, Table::Keys) {
            set(engine, Table::Keys, &key, None);
        }
        engine.sync().unwrap();
    });
    let found = verify(folder.path());
    assert_eq!(
        (found.faults.len(), found.faults_total),
        (FAULTS_MAX, FAULTS_MAX as u64 + 100)
    );
}

#[test]
fn a_verification_can_be_stopped() {
    let folder = folder();
    fill(folder.path());
    let store = Store::open(folder.path(), options()).unwrap();
    let mut calls = 0;
    store
        .verify(&mut |_| {
            calls += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    for last in 1..=calls {
        let mut left = last;
        let found = store.verify(&mut |_| {
            left -= 1;
            if left == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        let found = found.unwrap();
        assert!(
            found.stopped && !found.is_clean() && found.faults.is_empty(),
            "{found:?}"
        );
        assert_eq!(left, 0, "it goes on after it was told to stop");
    }
}

#[test]
fn faults_say_where_they_are() {
    let found = spoiled(|engine| {
        set(engine, Table::Records, &record_key(5), None);
        set(engine, Table::Versions, &version_group_key(1, 0), None);
        set(engine, Table::Keys, &key_of(2, b"b"), Some(b"bad"));
        set(engine, Table::Namespaces, b"n\xff", Some(b"bad!"));
    });
    let said: Vec<String> = found.faults.iter().map(Fault::to_string).collect();
    for start in [
        "namespace \"n\\xff\": ",
        "entry of versions 2 and following of the key that began with record 1: it is missing",
        "record 5: it is missing",
        "key \"b\" in namespace number 2: ",
    ] {
        assert!(said.iter().any(|said| said.starts_with(start)), "{start} in {said:#?}");
    }
}

/// A changed byte in the engine's own structure may hide a key from every reader. The verification
/// must report every lost record.
#[test]
fn records_hidden_by_a_changed_byte_are_reported() {
    let folder = folder();
    fill(folder.path());
    let scan = |space: &Namespace, range: KeyRange<'_>| -> Result<Vec<_>, ibid_record::Error> {
        space.scan(range, Direction::Forward)?.collect()
    };
    let look = || -> Result<_, ibid_record::Error> {
        let store = Store::open(folder.path(), options())?;
        let mut seen = Vec::new();
        for name in ["pages", "settings"] {
            let Some(space) = store.find_namespace(name)? else {
                return Ok(None);
            };
            seen.extend(scan(&space, (Bound::Unbounded, Bound::Unbounded))?);
            for key in [&b"a"[..], b"b", b"gone"] {
                seen.extend(scan(&space, (Bound::Included(key), Bound::Included(key)))?);
                for version in space.versions(key)? {
                    space.get_version(key, version.version)?;
                }
            }
        }
        Ok(Some((seen, store.verify(&mut |_| ControlFlow::Continue(()))?)))
    };
    let (sound, _) = look().unwrap().unwrap();
    let file = folder.path().join("redb");
    let bytes = std::fs::read(&file).unwrap();
    for at in (0..bytes.len()).filter(|&at| bytes[at] != 0).step_by(41) {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&file, bad).unwrap();
        if let Ok(Some((seen, found))) = look()
            && seen != sound
        {
            assert!(!found.is_clean(), "byte {at} hides what nobody misses: {seen:?}");
        }
    }
}

#[test]
fn a_key_in_the_wrong_place_is_a_fault_and_ends_every_walk() {
    let folder = folder();
    {
        let store = Store::open(folder.path(), options()).unwrap();
        let pages = store.namespace("pages", Versions::Kept).unwrap();
        for version in 0..25 {
            pages.put(b"a", &[version; 30]).unwrap();
        }
    }
    let file = folder.path().join("redb");
    let bytes = std::fs::read(&file).unwrap();
    // The keys of the table `records`, as a page has them.
    let keys: Vec<u8> = (19..=21_u64).flat_map(u64::to_be_bytes).collect();
    let places: Vec<usize> = (0..bytes.len() - keys.len())
        .filter(|&at| bytes[at..].starts_with(&keys))
        .collect();
    assert!(!places.is_empty());
    let mut named = 0;
    for middle in [0, 19, 21, 28, 200] {
        let mut bad = bytes.clone();
        places.iter().for_each(|at| bad[at + 15] = middle);
        std::fs::write(&file, bad).unwrap();
        for read_only in [true, false] {
            let store = Store::open(folder.path(), options().with_read_only(read_only)).unwrap();
            let mut steps = 0;
            let found = store.verify(&mut |_| {
                steps += 1;
                if steps < 10_000 {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
            let found = found.unwrap();
            assert!(!found.stopped && !found.is_clean(), "{middle}: {found:?}");
            let is_named =
                |fault: &Fault| matches!(&fault.problem, Problem::Unreadable(why) if why.contains("not in its place"));
            named += usize::from(found.faults.iter().any(is_named));
            let pages = store.find_namespace("pages").unwrap().unwrap();
            assert!(pages.written_after(0).unwrap().take(100).count() < 100);
        }
    }
    // Of an entry that has another fault, too, that one is named.
    assert!(named > 0);
}

#[test]
fn no_changed_byte_ends_a_process_that_writes() {
    let folder = folder();
    fill(folder.path());
    let file = folder.path().join("redb");
    let segments = folder.path().join("redb.segments");
    let read_segments = || -> Vec<_> {
        let entries = std::fs::read_dir(&segments).unwrap().map(|entry| entry.unwrap().path());
        entries
            .map(|path| (path.clone(), std::fs::read(path).unwrap()))
            .collect()
    };
    let (bytes, log) = (std::fs::read(&file).unwrap(), read_segments());
    let mut refused = 0;
    // The pages that redb has for itself are among the first.
    for at in (4096..bytes.len().min(64 << 10))
        .filter(|&at| bytes[at] != 0)
        .step_by(3)
    {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        std::fs::write(&file, bad).unwrap();
        std::fs::remove_dir_all(&segments).unwrap();
        std::fs::create_dir(&segments).unwrap();
        log.iter()
            .for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
        let write = || -> Result<(), ibid_record::Error> {
            let store = Store::open(folder.path(), options())?;
            store.namespace("pages", Versions::Kept)?.put(b"a", b"another")?;
            store.sync()?;
            store.compact(&mut |_| ControlFlow::Continue(())).map(drop)
        };
        let own = "of what redb notes for itself";
        if let Err(error) = write()
            && error.to_string().contains(own)
        {
            refused += 1;
            // It can be read, and says so.
            let store = Store::open(folder.path(), options().with_read_only(true)).unwrap();
            let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
            let [fault] = &found.faults[..] else {
                panic!("{found:?}")
            };
            assert!(
                matches!(fault.problem, Problem::OfEngine(_)) && fault.to_string().contains(own),
                "{fault}"
            );
        }
    }
    assert!(refused > 10, "{refused}");
}
