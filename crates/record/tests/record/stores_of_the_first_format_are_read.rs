//! Stores that an earlier version wrote are read, verified and written to.
//!
//! `fixtures/v1-open` and `fixtures/v1-encrypted` were written by version 0.1.0 with
//! `examples/write_store_fixtures.rs`.

use std::fs;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use ibid_record::engine::EngineError;
use ibid_record::{Argon2Cost, Direction, Error, Options, Role, Store};

use crate::content::{PAGES, PASSWORD, SETTINGS, VERSIONS, page, pages, setting, settings};

/// Copies a fixture, because opening a store writes to it.
fn copy(name: &str, folder: &Path) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    for entry in fs::read_dir(fixture).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
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
fn they_are_read_only_after_they_were_opened_once() {
    for name in ["v1-open", "v1-encrypted"] {
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
    for name in ["v1-open", "v1-encrypted"] {
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
