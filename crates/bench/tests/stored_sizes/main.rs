//! Stored sizes are exact, unlike times: what one machine stores, every machine stores.
//!
//! Three generated corpora are stored by the libraries as they are by default, and each size must
//! be within 1 % of the figure in `expected.txt`. A failure means that a change moved what users
//! store: chunk boundaries, the order of chunks, the choice of bases, deltas, compression levels
//! or formats, or that another version of zstd came in. If the change is meant to do that,
//! write the new figures and give the reason in the commit; if not, the change is wrong:
//!
//! ```sh
//! IBID_RENEW=1 cargo test -p ibid-bench --test stored_sizes
//! ```
//!
//! For a repository, the compressed and sealed frames count. Files are padded to round sizes
//! (`docs/format/README.md`), which would hide a small change and double another. Backups run on
//! one thread: with more, the similar data that is found depends on which thread comes first, and
//! sizes vary by up to 2 %.

mod corpus;

use std::fs::{self, File, FileTimes};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ibid_record::{Durability, Options, Store, Versions};
use ibid_repo::{BackupOptions, InitOptions, Repository};
use ibid_storage::Memory;

const EXPECTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stored_sizes/expected.txt");

#[test]
fn stored_sizes_are_as_they_were() {
    let expected = fs::read_to_string(EXPECTED).expect("the file of expected sizes");
    let found = [
        ("files", stored_files()),
        ("versions", stored_versions()),
        ("records", stored_records()),
    ];
    if std::env::var_os("IBID_RENEW").is_some() {
        let comments = expected.lines().filter(|line| line.starts_with('#'));
        let figures = found.iter().map(|(name, bytes)| format!("{name} {bytes}"));
        let lines: Vec<String> = comments.map(str::to_owned).chain(figures).collect();
        fs::write(EXPECTED, lines.join("\n") + "\n").expect("writing the file of expected sizes");
        return;
    }
    for (name, bytes) in found {
        let line = expected.lines().find_map(|line| line.strip_prefix(name));
        let figure: u64 = line
            .and_then(|figure| figure.trim().parse().ok())
            .unwrap_or_else(|| panic!("{EXPECTED} has no figure for {name}"));
        assert!(
            bytes.abs_diff(figure) * 100 <= figure,
            "{name}: {bytes} bytes are stored, {figure} were; the head of this test says what that means"
        );
    }
}

fn repository() -> Repository {
    Repository::init(Arc::new(Memory::new()), None, &InitOptions::default()).expect("a new repository")
}

/// Sets a fixed time, which takes as many bytes on every day.
fn set_time(path: &Path) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let times = FileTimes::new().set_modified(time).set_accessed(time);
    File::open(path)
        .and_then(|file| file.set_times(times))
        .expect("the time of a file");
}

fn back_up(repository: &Repository, path: &Path) {
    let options = BackupOptions::default()
        .path(path)
        .host(Some("host".to_owned()))
        .force(true)
        .threads(Some(1));
    let summary = repository.backup(&options).expect("a backup");
    assert_eq!(summary.counters.unreadable, 0);
}

/// Returns the bytes of all frames.
fn frames(repository: &Repository) -> u64 {
    let snapshots = repository.snapshots().expect("the snapshots");
    let stats = repository.stats(&snapshots).expect("statistics");
    stats.packed + stats.metadata_packed
}

fn stored_files() -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    corpus::write_files(folder.path()).expect("writing the files");
    let repository = repository();
    back_up(&repository, folder.path());
    frames(&repository)
}

fn stored_versions() -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    let repository = repository();
    for version in corpus::versions() {
        fs::write(&path, version).expect("writing a version");
        set_time(&path);
        back_up(&repository, &path);
    }
    frames(&repository)
}

/// Returns the bytes of blocks and of all entries outside blocks.
fn stored_records() -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::default().with_durability(Durability::None);
    let store = Store::open(folder.path(), options).expect("a new store");
    let documents = store.namespace("documents", Versions::Kept).expect("a namespace");
    for round in corpus::records() {
        for (key, body) in round {
            documents.put(key.as_bytes(), &body).expect("storing a record");
        }
        // Otherwise the bases to choose from would depend on when the encoder runs.
        store.finish_encoding().expect("encoding");
    }
    let mut on = |_| ControlFlow::Continue(());
    store.compact(&mut on).expect("compacting");
    let statistics = store.statistics(&mut on).expect("statistics");
    let namespace = &statistics.namespaces[0];
    namespace.stored_bytes() - namespace.in_blocks.bytes + statistics.blocks.bytes
}
