//! Memory of a process that only backs up and restores. There is one test, so that nothing else
//! runs beside it.

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ibid_repo::{MEMORY_DEFAULT, MEMORY_MIN, Monitor, ReadData, Repository, RestoreOptions, Similarity, Warning};
use ibid_storage::fault::Flaky;
use ibid_storage::{Error, Local, Memory, Name, Operation, Storage};
use support::hooked::{Hooked, Hooks};
use support::{Folder, noise, options, quick};

/// Memory of the program beside the budget: code, stacks, the allocator's overhead.
const BESIDE: u64 = 20 << 20;
/// Setting of glibc with which it gives back every large buffer that is freed, as documented for
/// `Repository::with_memory`; other allocators ignore it. It is read when a process starts.
const GIVE_BACK: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "131072");

/// Returns the most memory that this process had during `work`, bytes.
fn peak(work: impl FnOnce()) -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    work();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

#[track_caller]
fn is_within(peak: u64, budget: u64) {
    assert!(peak <= budget + BESIDE, "{} MiB of {} MiB", peak >> 20, budget >> 20);
}

/// Storage that drops packs, slowly.
struct Slow(Flaky<Memory>);

impl Hooks for Slow {
    fn inner(&self) -> &dyn Storage {
        &self.0
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        match name.as_str().starts_with("packs/") {
            true => self.0.put(name, &[]),
            false => self.0.put(name, parts),
        }
    }
}

/// Many threads, and large files that are each read completely long before they can be stored.
fn large_files_that_wait_for_a_slow_place() {
    let folder = Folder::new();
    for n in 0..40 {
        folder.write(n.to_string(), &noise(n, 15 << 20));
    }
    let slow = Flaky::new(Memory::new());
    slow.delay(Operation::Put, Duration::from_millis(300));
    let repository = Repository::init(Arc::new(Hooked(Slow(slow))), Some(b"secret"), &quick()).unwrap();
    let options = options(folder.path()).threads(Some(16));
    let peak = peak(|| {
        repository.backup(&options).unwrap();
    });
    is_within(peak, MEMORY_DEFAULT);
}

/// Small files are replaced by larger ones after the walk has met them: one very large, and many as
/// large as small files can be.
fn files_that_have_grown_between_being_met_and_being_read() {
    const MIB: usize = 1 << 20;
    let folder = Folder::scratch();
    let bytes = noise(1, MIB);
    for n in 0..254 {
        folder.write(format!("a/{n}"), b"");
    }
    folder.write("a/large", b"");
    let aside = support::scratch();
    std::fs::write(aside.path().join("large"), bytes.repeat(300)).unwrap();
    for n in 0..254 {
        std::fs::write(aside.path().join(n.to_string()), &bytes).unwrap();
    }
    drop(bytes);
    // The walk meets the repository's own folder after them, and before they are read.
    let storage = Arc::new(Local::create(folder.path().join("a/own")).unwrap());
    let repository = Repository::init(storage, Some(b"secret"), &quick())
        .and_then(|repository| repository.with_memory(MEMORY_MIN))
        .unwrap();
    let (from, to) = (aside.path().to_owned(), folder.path().join("a"));
    let monitor = Arc::new(Monitor::new(move |warning| match warning {
        Warning::OwnFolder { .. } => {
            for file in std::fs::read_dir(&from).unwrap() {
                let name = file.unwrap().file_name();
                std::fs::rename(from.join(&name), to.join(&name)).unwrap();
            }
        }
        other => panic!("{other:?}"),
    }));
    let backup = peak(|| {
        let summary = repository.watched_by(&monitor).backup(&options(folder.path())).unwrap();
        let counters = summary.counters;
        assert_eq!((counters.files, counters.bytes), (255, 554 << 20));
        assert_eq!(counters.changed_while_read, 0);
        assert!(counters.new_bytes < 8 << 20, "{summary:?}");
    });
    is_within(backup, MEMORY_MIN);

    let out = support::scratch();
    let snapshot = repository.snapshot("latest").unwrap();
    let restore = peak(|| {
        let options = RestoreOptions::default();
        let summary = repository
            .restore(snapshot.at(folder.path()), out.path(), &options)
            .unwrap();
        assert_eq!((summary.files, summary.failed), (255, 0));
    });
    is_within(restore, MEMORY_MIN);
    let bytes = noise(1, MIB);
    let expected = |name: &str| bytes.repeat(if name == "large" { 300 } else { 1 });
    for name in ["0", "253", "large"] {
        let found = std::fs::read(out.path().join("a").join(name)).unwrap();
        assert!(found == expected(name), "{name}");
    }
}

/// Environment variables that make this test the process that backs up, from the first folder into
/// the second.
const BACK_UP: [&str; 2] = ["BACK_UP_FROM", "BACK_UP_INTO"];

/// Backs up versions of a file that are stored as a chain of deltas, much larger than the cache.
fn back_up_versions(from: &Path, into: &Path) {
    let storage = Arc::new(Local::create(into).unwrap());
    let repository = Repository::init(storage, Some(b"secret"), &quick()).unwrap();
    let mut bytes = noise(1, 64 << 20);
    for version in 0..3 {
        // Change bytes in every chunk.
        for at in (0..bytes.len()).step_by(16 << 10) {
            bytes[at..at + 8].copy_from_slice(&noise(version * 1_000_000 + at as u64, 8));
        }
        std::fs::write(from.join("dump"), &bytes).unwrap();
        // Noise does not compress, so most of it is not searched for similar chunks unless that is
        // requested.
        let options = options(from).similarity(Similarity::Max);
        let summary = repository.backup(&options).unwrap();
        assert_eq!(summary.deltas.bytes > 60 << 20, version > 0, "{summary:?}");
    }
}

fn a_file_that_is_a_delta_against_many_others() {
    let folder = Folder::scratch();
    let place = support::scratch();
    let repository = place.path().join("repository");
    // Memory that backups leave in the allocator would count against later operations, so they run
    // in their own process.
    let backups = Command::new(std::env::current_exe().unwrap())
        .envs(BACK_UP.into_iter().zip([folder.path(), &repository]))
        .status();
    assert!(backups.unwrap().success());
    let storage = Arc::new(Local::open(&repository).unwrap());
    let repository = Repository::open(storage, Some(b"secret")).unwrap();
    let repository = repository.with_memory(MEMORY_MIN).unwrap();
    let out = support::scratch();
    let snapshot = repository.snapshot("latest").unwrap();
    let options = RestoreOptions::default().threads(Some(16));
    let restore = peak(|| {
        let summary = repository.restore(snapshot.at(folder.path()), out.path(), &options);
        assert_eq!(summary.unwrap().failed, 0);
    });
    is_within(restore, MEMORY_MIN);
    assert!(std::fs::read(out.path().join("dump")).unwrap() == std::fs::read(folder.path().join("dump")).unwrap());
    let check = peak(|| {
        let report = repository.check(ReadData::All).unwrap();
        assert!(report.is_clean(), "{report:?}");
    });
    is_within(check, MEMORY_MIN);
}

#[test]
fn memory_stays_within_the_budget() {
    if let [Some(from), Some(into)] = BACK_UP.map(std::env::var_os) {
        return back_up_versions(from.as_ref(), into.as_ref());
    }
    let (name, value) = GIVE_BACK;
    if std::env::var_os(name).is_none() {
        let mut itself = Command::new(std::env::current_exe().unwrap());
        assert!(itself.arg("--nocapture").env(name, value).status().unwrap().success());
        return;
    }
    a_file_that_is_a_delta_against_many_others();
    files_that_have_grown_between_being_met_and_being_read();
    large_files_that_wait_for_a_slow_place();
}
