//! Repositories that were written by earlier versions open, check clean, and give back what was put in.
//!
//! `fixtures/v1-encrypted` and `fixtures/v1-open` were written by version 0.1.0 with [`write`] (run it with
//! `cargo test -p ibid-repo --test fixture -- --ignored` into a new folder when the format gets a new version; never over an old one).

mod support;

use ibid_repo::{BackupOptions, Monitor, ReadData, Repository, RestoreOptions};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::{noise, quick};

const PASSWORD: &[u8] = b"a password for the fixture";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// What version `n` of the tree holds: names and bytes.
fn tree(n: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut dump = noise(5, 90_000);
    dump[40_000..40_100].copy_from_slice(&noise(n, 100));
    vec![
        ("dump", dump),
        ("empty", Vec::new()),
        ("letters/anna", format!("letter {n}\n").repeat(3000).into_bytes()),
        ("letters/bob", b"the same in both".to_vec()),
    ]
}

fn check(name: &str, password: Option<&[u8]>) {
    let storage = Arc::new(ibid_storage::Local::open(fixture(name)).unwrap());
    let repository = Repository::open(storage, password).unwrap();
    let report = repository.check(ReadData::All, &Monitor::silent()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let snapshots = repository.snapshots().unwrap();
    assert_eq!(snapshots.len(), 2);
    for (info, n) in snapshots.iter().zip(1..) {
        assert_eq!(
            (info.snapshot.host.as_str(), info.snapshot.tags.as_slice()),
            ("fixture", &[format!("v{n}")][..])
        );
        let out = tempfile::tempdir().unwrap();
        let inside = &info.snapshot.paths[0];
        repository
            .restore(info, inside, out.path(), &RestoreOptions::default(), &Monitor::silent())
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

#[test]
#[ignore = "writes new fixtures; only for a new version of the format"]
fn write() {
    for (name, password) in [("new-encrypted", Some(PASSWORD)), ("new-open", None)] {
        let storage = Arc::new(ibid_storage::Local::create(fixture(name)).unwrap());
        let mut init = quick();
        init.frame_size = 32 << 10;
        let repository = Repository::init(storage, password, &init, 1_790_000_000).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        for n in 1..=2 {
            std::fs::create_dir_all(path.join("letters")).unwrap();
            for (name, bytes) in tree(n) {
                std::fs::write(path.join(name), bytes).unwrap();
            }
            let options = BackupOptions {
                paths: vec![path.clone()],
                tags: vec![format!("v{n}")],
                host: Some("fixture".into()),
                program: "ibid 0.1.0".into(),
                force: true,
                ..BackupOptions::default()
            };
            repository.backup(options, &Monitor::silent()).unwrap();
        }
        assert!(path.as_os_str().as_bytes().len() < 100);
    }
}
