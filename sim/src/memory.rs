//! Peak memory of a process that only backs up and restores, with the smallest budget.

use std::sync::Arc;

use ibid_repo::{MEMORY_MIN, Repository, RestoreOptions};
use ibid_storage::Local;

use crate::Flags;
use crate::support::{Folder, noise, options, quick};

/// Memory of the program beside the budget: code, stacks, the allocator's overhead.
const BESIDE: u64 = 64 << 20;

pub(crate) fn run(flags: &Flags) {
    let (files, mib) = (flags.number("files", 100_000), flags.number("mib", 512));
    let folder = Folder::new();
    for n in 0..files {
        std::fs::write(folder.path().join(format!("file {n}")), n.to_string()).expect("the disk has space");
    }
    for n in 0..mib / 64 {
        folder.write(format!("large {n}"), &noise(n, 64 << 20));
    }
    let place = tempfile::tempdir().expect("a temporary folder");
    let storage = Local::create(place.path().join("repository")).expect("a new folder");
    let repository = Repository::init(Arc::new(storage), Some(b"secret"), &quick())
        .and_then(|repository| repository.with_memory(MEMORY_MIN))
        .expect("a new repository");
    let before = peak();
    repository.backup(&options(folder.path())).expect("a backup");
    let backup = peak();
    let out = place.path().join("out");
    let snapshot = repository.snapshot("latest").expect("the snapshot");
    let summary = repository
        .restore(snapshot.at(folder.path()), &out, &RestoreOptions::default())
        .expect("a restore");
    assert_eq!(summary.failed, 0);
    let restore = peak();
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "{files} small files and {} MiB in large ones, budget {} MiB: \
         peak {} MiB before, {} MiB after the backup, {} MiB after the restore",
        mib_of(flags),
        mib(MEMORY_MIN),
        mib(before),
        mib(backup),
        mib(restore)
    );
    assert!(backup <= MEMORY_MIN + BESIDE, "the backup took more than its budget");
    assert!(restore <= MEMORY_MIN + BESIDE, "the restore took more than its budget");
}

fn mib_of(flags: &Flags) -> u64 {
    flags.number("mib", 512)
}

/// Returns the peak memory of this process, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .expect("Linux says so");
    let kib: u64 = line
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok())
        .expect("a number");
    kib << 10
}
