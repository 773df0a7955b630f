//! Stores that programs for earlier versions of the format wrote are read, verified and written to.
//!
//! `examples/write_store_fixtures.rs` of these programs wrote those in `fixtures`. `v2-open` is as a crash left it: all
//! is in its log.

use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use ibid_record::engine::EngineError;
use ibid_record::{Argon2Cost, Direction, Error, Options, Role, Store};

use crate::content::{PAGES, PASSWORD, SETTINGS, VERSIONS, page, pages, setting, settings};

const OF_VERSION_1: [&str; 2] = ["v1-open", "v1-encrypted"];
const OF_VERSION_2: [&str; 2] = ["v2-open", "v2-encrypted"];

/// Copies a fixture, because opening a store writes to it.
fn copy(name: &str, folder: &Path) {
    copy_all(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name),
        folder,
    );
}

fn copy_all(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&copy).unwrap();
            copy_all(&path, &copy);
        } else {
            fs::copy(&path, copy).unwrap();
        }
    }
}

/// Copies a fixture, and opens the copy.
fn open(name: &str, folder: &Path) -> Store {
    copy(name, folder);
    reopen(folder)
}

fn reopen(folder: &Path) -> Store {
    try_to_open(folder, Options::default()).unwrap()
}

fn try_to_open(folder: &Path, options: Options) -> Result<Store, Error> {
    if Store::is_encrypted(folder).unwrap() {
        return Store::open_encrypted(folder, options, PASSWORD, Argon2Cost::default());
    }
    Store::open(folder, options)
}

#[test]
fn those_of_version_2_can_be_read_only() {
    for name in OF_VERSION_2 {
        let folder = tempfile::tempdir().unwrap();
        copy(name, folder.path());
        let store = try_to_open(folder.path(), Options::default().with_read_only(true)).unwrap();
        let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_clean(), "{name}: {:?}", found.faults);
        let latest = pages(&store).unwrap().get(PAGES[0].as_bytes()).unwrap();
        assert_eq!(latest, Some(page(PAGES[0], VERSIONS)), "{name}");
    }
}

#[test]
fn those_of_version_1_can_be_read_only_after_they_were_opened_once() {
    for name in OF_VERSION_1 {
        let folder = tempfile::tempdir().unwrap();
        copy(name, folder.path());
        let to_read = Options::default().with_read_only(true);
        let error = try_to_open(folder.path(), to_read).err();
        let is_told = matches!(error, Some(Error::Engine(EngineError::NotReadOnly { .. })));
        assert!(is_told, "{error:?}");
        drop(reopen(folder.path()));
        let store = try_to_open(folder.path(), to_read).unwrap();
        let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_clean(), "{:?}", found.faults);
    }
}

fn each_fixture(test: impl Fn(Store, &Path)) {
    for name in OF_VERSION_1.into_iter().chain(OF_VERSION_2) {
        let folder = tempfile::tempdir().unwrap();
        test(open(name, folder.path()), folder.path());
    }
}

#[test]
fn every_version_is_read() {
    each_fixture(|store, _| {
        let (pages, settings) = (pages(&store).unwrap(), settings(&store).unwrap());
        for (place, key) in PAGES.into_iter().enumerate() {
            let is_deleted = place == PAGES.len() - 1;
            let versions = pages.versions(key.as_bytes()).unwrap();
            assert_eq!(versions.len(), VERSIONS as usize + usize::from(is_deleted));
            for version in 1..=VERSIONS {
                let found = pages.get_version(key.as_bytes(), version).unwrap();
                assert_eq!(found, Some(page(key, version)), "version {version} of {key}");
            }
            let latest = pages.get(key.as_bytes()).unwrap();
            assert_eq!(latest, (!is_deleted).then(|| page(key, VERSIONS)));
        }
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let found = settings.scan(everything, Direction::Forward).unwrap();
        let found: Vec<_> = found.map(|record| record.unwrap().body).collect();
        assert_eq!(found, SETTINGS.map(setting));
    });
}

#[test]
fn they_have_every_form_of_a_record_and_no_fault() {
    each_fixture(|store, _| {
        let verified = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(verified.is_clean(), "{:?}", verified.faults);
        let counted = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
        let pages = &counted.namespaces[0];
        assert!(pages.deltas.count > 50 && pages.whole.count > 0, "{pages:?}");
        let records = pages.records.count + pages.obsolete.count;
        assert!(
            pages.in_blocks.count > 0 && pages.in_blocks.count < records,
            "{pages:?}"
        );
        assert_eq!(store.log().unwrap().unwrap().role, Role::Primary);
    });
}

#[test]
fn new_versions_follow_the_old_ones() {
    each_fixture(|store, folder| {
        let key = PAGES[0].as_bytes();
        pages(&store).unwrap().put(key, b"a new version").unwrap();
        store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        drop(store);
        let store = reopen(folder);
        let pages = pages(&store).unwrap();
        assert_eq!(pages.get(key).unwrap().unwrap(), b"a new version");
        for version in 1..=VERSIONS {
            assert_eq!(pages.get_version(key, version).unwrap(), Some(page(PAGES[0], version)));
        }
        let verified = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(verified.is_clean(), "{:?}", verified.faults);
    });
}

#[test]
fn a_body_that_a_program_for_version_2_stored_is_stored_once() {
    for name in OF_VERSION_2 {
        let folder = tempfile::tempdir().unwrap();
        let store = open(name, folder.path());
        let whole = || {
            let counted = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
            counted.namespaces[0].whole.count
        };
        store.finish_encoding().unwrap();
        let before = whole();
        let (body, key) = (page(PAGES[0], VERSIONS), b"a page with the body of another");
        pages(&store).unwrap().put(key, &body).unwrap();
        store.finish_encoding().unwrap();
        assert_eq!(
            whole(),
            before,
            "{name}: the record before it is a delta of the new one"
        );
        for key in [&key[..], PAGES[0].as_bytes()] {
            assert_eq!(pages(&store).unwrap().get(key).unwrap().as_ref(), Some(&body), "{name}");
        }
    }
}
