//! Of a damaged store everything that can be read is in the new one, as it was, and what can't be is named.

use std::collections::BTreeMap;
use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use ibid_format::record::NUMBER_MAX;
use ibid_record::engine::{Engine, Table};
use ibid_record::{
    Argon2Cost, Batch, Direction, Durability, Error, KeyFilter, Loss, Options, Retention, Salvaged, Store, Time,
    Unique, Versions,
};

use crate::common::{at, entries, folder, noise, set, with_engine};

fn options() -> Options {
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_whole_bytes_max(20_000)
        .with_retention_interval(None)
        .with_durability(Durability::None)
}

/// What a version has: when it was stored, and its body, unless it deletes the key.
type Stored = (Option<Time>, Option<Vec<u8>>);

/// All versions of all keys that are there, by namespace, key and version.
type Contents = BTreeMap<(String, Vec<u8>, u32), Stored>;

/// Namespace 1 keeps versions: of `a` 70, of which three are purged, of `long` two in pieces, of `gone` a deletion.
/// Namespace 2 does not, and has values in an index. A part of both is in blocks.
fn fill(path: &Path) -> Contents {
    let store = Store::open(path, options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let settings = store.namespace("settings", Versions::Latest).unwrap();
    let by_color = settings.index("color", Unique::No).unwrap();
    pages.set_retention(Retention::default().with_versions(100)).unwrap();
    let mut batch = Batch::new();
    for version in 1..=70_u64 {
        let mut body = noise(900, 1);
        body[version as usize * 10] ^= 0xff;
        batch.put(&pages, b"a", body).at(at(1000 + version));
    }
    batch.purge_versions(&pages, b"a", 3..=5);
    batch
        .put(&pages, b"b", b"there")
        .at(at(7))
        .put(&pages, b"gone", b"away")
        .delete(&pages, b"gone");
    for color in [b"red", b"tan"] {
        batch
            .put(&settings, color, noise(500, color[0].into()))
            .index(&by_color, color);
    }
    store.commit(batch).unwrap();
    for seed in 10..12 {
        pages.put(b"long", &noise(60_000, seed)).unwrap();
    }
    store.finish_encoding().unwrap();
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    settings.put(b"late", b"not in a block").unwrap();
    pages.put(b"b", b"elsewhere").unwrap();
    contents(&store)
}

fn contents(store: &Store) -> Contents {
    let mut contents = Contents::new();
    for (name, _) in store.namespaces().unwrap() {
        let space = store.find_namespace(&name).unwrap().unwrap();
        let everything = (Bound::Unbounded, Bound::Unbounded);
        for state in space.keys(everything, Direction::Forward, KeyFilter::All).unwrap() {
            let key = state.unwrap().key;
            for version in space.versions(&key).unwrap() {
                let body = space.get_version(&key, version.version).unwrap();
                contents.insert((name.clone(), key.clone(), version.version), (version.time, body));
            }
        }
    }
    contents
}

/// Salvages the store, and returns what was found, and what is in the new store, which is sound.
fn salvage(path: &Path) -> (Salvaged, Contents) {
    let folder = folder();
    let new = folder.path().join("new");
    let found = Store::salvage(path, &new, options(), None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing is left beside the new store"
    );
    let store = Store::open(&new, options()).unwrap();
    let verified = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(verified.is_clean(), "{verified:?}");
    let by_color = store.find_namespace("settings").unwrap();
    if let Some(by_color) = by_color.and_then(|settings| settings.indexes().unwrap().into_iter().next()) {
        let colors = by_color
            .keys((Bound::Unbounded, Bound::Unbounded), Direction::Forward)
            .unwrap();
        for found in colors.map(Result::unwrap) {
            assert_eq!(found.key, found.value);
        }
    }
    (found, contents(&store))
}

/// Returns the versions that are not in the new store, or differ there in their bodies.
fn missing<'c>(before: &'c Contents, after: &Contents) -> Vec<&'c (String, Vec<u8>, u32)> {
    let is_there =
        |(of, (_, body)): (&(String, Vec<u8>, u32), &Stored)| after.get(of).is_some_and(|(_, now)| now == body);
    before
        .iter()
        .filter(|found| !is_there(*found))
        .map(|(of, _)| of)
        .collect()
}

/// Copies the files of a store.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match from.is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(from, to).unwrap()),
        }
    }
}

#[test]
fn of_a_sound_store_everything_is_brought() {
    let folder = folder();
    let before = fill(folder.path());
    let (found, after) = salvage(folder.path());
    assert_eq!((found.losses_total, found.undated), (0, 0));
    assert_eq!(after, before);
    assert_eq!(found.versions as usize, before.len());
}

/// Versions that were purged have their times still: before the first there is none, and else it is said which is gone.
#[test]
fn every_moment_is_as_it_was() {
    let folder = folder();
    let (path, new) = (folder.path().join("store"), folder.path().join("new"));
    let store = Store::open(&path, options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for version in 1..=9 {
        let mut batch = Batch::new();
        batch
            .put(&pages, b"a", noise(100, version))
            .at(at(10 * u64::from(version)));
        store.commit(batch).unwrap();
    }
    for purged in [1..=2, 4..=4, 6..=7] {
        pages.purge_versions(b"a", purged).unwrap();
    }
    let moments = |store: &Store| -> Vec<String> {
        let pages = store.find_namespace("pages").unwrap().unwrap();
        let moment = |time| format!("{:?}", pages.get_as_of(b"a", at(time)));
        (1..100).map(moment).collect()
    };
    let before = moments(&store);
    drop((pages, store));
    Store::salvage(&path, &new, options(), None, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(moments(&Store::open(&new, options()).unwrap()), before);
}

#[test]
fn a_damaged_entry_costs_nothing_but_what_only_it_has() {
    let folder = folder();
    let before = fill(folder.path());
    let tables = with_engine(folder.path(), |engine| {
        Table::ALL.map(|table| (table, entries(engine, table)))
    });
    for (table, all) in tables {
        for (key, value) in all {
            // Changed in its middle, cut, and gone.
            let mut changed = value.clone();
            changed[value.len() / 2] ^= 1;
            for (is_gone, spoiled) in [
                (false, Some(&changed[..])),
                (false, Some(&value[..value.len() / 2])),
                (true, None),
            ] {
                let damaged = crate::common::folder();
                copy(folder.path(), damaged.path());
                with_engine(damaged.path(), |engine| {
                    set(engine, table, &key, spoiled);
                    engine.sync().unwrap();
                });
                let (found, after) = salvage(damaged.path());
                let what = format!("{}: {}, gone: {is_gone}", table.name(), key.escape_ascii());
                for (of, (_, now)) in &after {
                    let (mut name, key, version) = of.clone();
                    name = name.replace("recovered-1", "pages").replace("recovered-2", "settings");
                    if let Some((_, body)) = before.get(&(name, key, version)) {
                        assert_eq!(now, body, "{what}: nothing wrong is brought");
                    } else {
                        assert!(now.is_none() && found.losses_total > 0, "{what}: {of:?} is new");
                    }
                }
                let lost = missing(&before, &after);
                match table {
                    Table::Records | Table::Blocks => {
                        assert!(lost.is_empty() || found.losses_total > 0, "{what}: {lost:?}");
                    }
                    // Its name is not known any more.
                    Table::Namespaces if is_gone && after.keys().any(|(name, ..)| name.starts_with("recovered")) => {
                        assert!(
                            found
                                .losses
                                .iter()
                                .any(|loss| matches!(loss, Loss::NamespaceName { .. })),
                            "{what}"
                        );
                    }
                    Table::Keys if is_of_piece(&key) => {
                        assert!(lost.iter().all(|(_, key, _)| key == b"long"), "{what}: {lost:?}");
                        assert!(found.losses_total > 0, "{what}");
                    }
                    _ => assert_eq!(lost, Vec::<&(String, Vec<u8>, u32)>::new(), "{what}"),
                }
                let is_dated = before
                    .iter()
                    .all(|(of, (time, _))| after.get(of).is_none_or(|(now, _)| now == time));
                assert!(is_dated || found.undated > 0, "{what}");
            }
        }
    }
}

/// Whether a key is that of a piece, or of a list of pieces. Their namespace has number 3.
fn is_of_piece(key: &[u8]) -> bool {
    key.starts_with(&[0, 0, 0, 3]) && key.len() > 30
}

#[test]
fn a_key_whose_latest_version_is_lost_is_deleted() {
    let folder = folder();
    let before = fill(folder.path());
    // `b` was stored last, by itself.
    with_engine(folder.path(), |engine| {
        let (last, _) = entries(engine, Table::Records).pop().unwrap();
        set(engine, Table::Records, &last, Some(b"damaged"));
        engine.sync().unwrap();
    });
    let (found, after) = salvage(folder.path());
    let [
        Loss::Version {
            namespace,
            key,
            version,
            is_latest,
            ..
        },
    ] = &found.losses[..]
    else {
        panic!("{:?}", found.losses);
    };
    assert_eq!(
        (&namespace[..], &key[..], *version, *is_latest),
        ("pages", &b"b"[..], 2, true)
    );
    let of = |version| ("pages".to_owned(), b"b".to_vec(), version);
    assert_eq!(after[&of(1)], before[&of(1)]);
    assert!(!after.contains_key(&of(2)), "its number is not given again");
    assert_eq!(after[&of(3)].1, None, "the version before it is not taken for it");
}

#[test]
fn a_number_that_no_record_has_makes_no_endless_search() {
    let folder = folder();
    let before = fill(folder.path());
    with_engine(folder.path(), |engine| {
        set(engine, Table::Records, &NUMBER_MAX.to_be_bytes(), Some(b"none"));
        set(engine, Table::Meta, b"next", None);
        for (key, _) in entries(engine, Table::Places) {
            set(engine, Table::Places, &key, Some(b"damaged"));
        }
        engine.sync().unwrap();
    });
    let (found, after) = salvage(folder.path());
    assert_eq!(after, before);
    let [Loss::Record { number: NUMBER_MAX, .. }] = &found.losses[..] else {
        panic!("{:?}", found.losses);
    };
}

#[test]
fn without_the_file_of_the_engine_every_body_comes_from_the_segments() {
    let folder = folder();
    let before = fill(folder.path());
    for is_gone in [true, false] {
        let damaged = crate::common::folder();
        copy(folder.path(), damaged.path());
        let redb = damaged.path().join("redb");
        match is_gone {
            true => fs::remove_file(redb).unwrap(),
            false => fs::write(redb, b"something else").unwrap(),
        }
        let (found, after) = salvage(damaged.path());
        assert!(found.of_segments && !found.is_all());
        let bodies: Vec<_> = after
            .iter()
            .map(|((_, key, version), (_, body))| (key, *version, body))
            .collect();
        for ((_, key, version), (_, body)) in before.iter().filter(|((_, key, _), _)| key != b"long") {
            assert!(
                bodies.contains(&(key, *version, body)),
                "{}, {version}",
                key.escape_ascii()
            );
        }
    }
}

#[test]
fn damage_anywhere_in_the_files_is_survived() {
    let folder = folder();
    let before = fill(folder.path());
    let damaged = crate::common::folder();
    copy(folder.path(), damaged.path());
    let mut files = vec![damaged.path().join("redb")];
    files.extend(
        fs::read_dir(damaged.path().join("redb.segments"))
            .unwrap()
            .map(|entry| entry.unwrap().path()),
    );
    let mut brought = 0;
    for file in files {
        let sound = fs::read(&file).unwrap();
        // A sector at a time is lost, of those that have something in them.
        for from in (0..sound.len()).step_by(512) {
            let to = (from + 512).min(sound.len());
            if sound[from..to].iter().all(|byte| *byte == 0) {
                continue;
            }
            let mut spoiled = sound.clone();
            spoiled[from..to].fill(0xa5);
            fs::write(&file, &spoiled).unwrap();
            let elsewhere = crate::common::folder();
            let new = elsewhere.path().join("new");
            let done = Store::salvage(
                damaged.path(),
                &new,
                options(),
                None,
                &mut |_| ControlFlow::Continue(()),
            );
            match done {
                Ok(found) => {
                    brought += 1;
                    let store = Store::open(&new, options()).unwrap();
                    assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
                    let after = contents(&store);
                    for (of, (_, now)) in &after {
                        let is_as_before = before.get(of).is_some_and(|(_, body)| body == now);
                        let is_named = of.0.starts_with("recovered");
                        assert!(is_as_before || is_named || now.is_none(), "{from}: {of:?}");
                    }
                    assert!(missing(&before, &after).is_empty() || found.losses_total > 0, "{from}");
                }
                // Nothing of the engine can be read, or commits of the log are lost, which are to be given up first.
                Err(Error::Engine(_) | Error::Damaged { .. } | Error::NotAStore { .. }) => assert!(!new.exists()),
                Err(error) => panic!("{from}: {error}"),
            }
        }
        fs::write(&file, &sound).unwrap();
    }
    assert!(brought > 100, "{brought}");
}

#[test]
fn nothing_is_made_where_something_is_nor_left_by_one_that_was_stopped() {
    let folder = folder();
    let (damaged, new) = (folder.path().join("damaged"), folder.path().join("new"));
    fill(&damaged);
    for taken in ["new", "new.salvage"] {
        let file = folder.path().join(taken).join("file");
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, b"something else").unwrap();
        let refused = Store::salvage(&damaged, &new, options(), None, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(refused, Err(Error::NotEmpty { .. })), "{refused:?}");
        assert_eq!(fs::read(&file).unwrap(), b"something else");
        fs::remove_dir_all(file.parent().unwrap()).unwrap();
    }
    for within in [damaged.join("new"), damaged.join("redb.segments/new")] {
        let refused = Store::salvage(&damaged, within, options(), None, &mut |_| ControlFlow::Continue(()));
        assert!(refused.unwrap_err().to_string().contains("it is in the damaged one"));
    }
    for steps in [0, 3, 40] {
        let mut left = steps;
        let stopped = Store::salvage(&damaged, &new, options(), None, &mut |_| match left {
            0 => ControlFlow::Break(()),
            _ => {
                left -= 1;
                ControlFlow::Continue(())
            }
        });
        assert!(stopped.unwrap().stopped);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "only the damaged one is there"
        );
    }
    // It stays stopped, also if only one call says so, and in the work on segments.
    fs::remove_file(damaged.join("redb")).unwrap();
    for stop in [1, 4, 100] {
        let mut calls = 0;
        let stopped = Store::salvage(&damaged, &new, options(), None, &mut |_| {
            calls += 1;
            match calls == stop {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        assert!(stopped.unwrap().stopped && fs::read_dir(folder.path()).unwrap().count() == 1);
    }
}

#[test]
fn an_encrypted_store_keeps_its_password() {
    let folder = folder();
    let (damaged, new) = (folder.path().join("damaged"), folder.path().join("new"));
    let cost = Argon2Cost::default();
    {
        let options = options().with_oplog(true);
        let store = Store::open_encrypted(&damaged, options, b"password", cost).unwrap();
        let pages = store.namespace("pages", Versions::Kept).unwrap();
        pages.put(b"ibid", b"in the same place").unwrap();
        pages.put(b"ibid", b"in the very same place").unwrap();
    }
    let salvage = |password| Store::salvage(&damaged, &new, options(), password, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(salvage(None), Err(Error::Encrypted { .. })));
    assert!(matches!(salvage(Some((b"other", cost))), Err(Error::Key { .. })));
    assert_eq!(salvage(Some((b"password", cost))).unwrap().versions, 2);
    let store = Store::open_encrypted(&new, options(), b"password", cost).unwrap();
    let pages = store.find_namespace("pages").unwrap().unwrap();
    assert_eq!(pages.get_version(b"ibid", 1).unwrap().unwrap(), b"in the same place");
    drop((pages, store));
    // Replicas can follow it.
    let store = Store::open_encrypted(&new, options().with_oplog(true), b"password", cost).unwrap();
    assert!(store.log().unwrap().is_some());
}
