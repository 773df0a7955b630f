//! Repositories written by earlier versions open, check clean, and restore the original files.
//!
//! `fixtures/v1-encrypted` and `fixtures/v1-open` were written by version 0.1.0 with
//! `examples/write_fixtures.rs`.

#[path = "../support/versions.rs"]
mod versions;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_repo::{ReadData, Repository, RestoreOptions};
use versions::{PASSWORD, tree};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn check(name: &str, password: Option<&[u8]>) {
    let storage = Arc::new(ibid_storage::Local::open(fixture(name)).unwrap());
    let repository = Repository::open(storage, password).unwrap();
    let report = repository.check(ReadData::All).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let snapshots = repository.snapshots().unwrap();
    assert_eq!(snapshots.len(), 2);
    for (info, n) in snapshots.iter().zip(1..) {
        assert_eq!(
            (info.snapshot.host.as_str(), info.snapshot.tags.as_slice()),
            ("fixture", &[format!("v{n}")][..])
        );
        let out = tempfile::tempdir().unwrap();
        let inside = OsStr::from_bytes(&info.snapshot.paths[0]);
        repository
            .restore(info.at(inside), out.path(), &RestoreOptions::default())
            .unwrap();
        for (name, bytes) in tree(n) {
            assert!(
                std::fs::read(out.path().join(name)).unwrap() == bytes,
                "{name} of snapshot {n}"
            );
        }
    }
}

#[test]
fn an_encrypted_repository_of_version_1_opens() {
    check("v1-encrypted", Some(PASSWORD));
}

#[test]
fn an_open_repository_of_version_1_opens() {
    check("v1-open", None);
}
