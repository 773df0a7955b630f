//! Extreme trees: very long paths, very deep, very wide, very large, and changing during the
//! backup. See `docs/durability.md`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ibid_chunk::{FixedSettings, Settings};
use ibid_repo::{Error, MEMORY_MIN, Monitor, Overwrite, ReadData, Repository, RestoreOptions, Warning};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, statat};

use crate::support::{Folder, backup, contents, difference, noise, options, quick, repository, same_tree, scratch};

fn restore(repository: &Repository, folder: &Folder, out: &Path) {
    repository.refresh();
    let snapshot = repository.snapshot("latest").unwrap();
    let options = RestoreOptions::default().verify(true);
    let summary = repository.restore(snapshot.at(folder.path()), out, &options).unwrap();
    assert_eq!((summary.failed, summary.verified), (0, summary.files));
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

fn down(from: &OwnedFd, name: &str, levels: usize) -> OwnedFd {
    let step = |at: OwnedFd| openat(&at, name, DIRECTORY, Mode::empty()).unwrap();
    (0..levels).fold(openat(from, ".", DIRECTORY, Mode::empty()).unwrap(), |at, _| step(at))
}

/// Nested directories, deeper than any path can name: 200 levels of the longest name are 51 200
/// bytes.
#[test]
fn paths_longer_than_the_system_takes_come_back() {
    let (name, levels) = ("n".repeat(255), 200);
    let folder = Folder::scratch();
    let mut at = openat(CWD, folder.path(), DIRECTORY, Mode::empty()).unwrap();
    for _ in 0..levels {
        mkdirat(&at, &*name, Mode::from_raw_mode(0o755)).unwrap();
        at = openat(&at, &*name, DIRECTORY, Mode::empty()).unwrap();
    }
    let file = openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o600)).unwrap();
    rustix::io::write(&file, b"at the bottom").unwrap();
    let repository = repository();
    let summary = backup(&repository, folder.path());
    assert!(summary.counters.directories >= levels as u64);
    let out = scratch();
    restore(&repository, &folder, out.path());
    let bottom = down(
        &openat(CWD, out.path(), DIRECTORY, Mode::empty()).unwrap(),
        &name,
        levels,
    );
    let file = openat(&bottom, "file", OFlags::RDONLY, Mode::empty()).unwrap();
    let mut bytes = [0; 100];
    let length = rustix::io::read(&file, &mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"at the bottom");
    assert!(repository.check(ReadData::All).unwrap().is_clean());
}

#[test]
fn every_byte_may_stand_in_a_name_and_names_may_be_as_long_as_they_get() {
    let folder = Folder::scratch();
    for byte in (1..=255).filter(|byte| *byte != b'/') {
        folder.write(OsStr::from_bytes(&[b'x', byte]), &[byte]);
        folder.write(OsStr::from_bytes(&[byte; 255]), &[byte, byte]);
    }
    folder.write("...", b"");
    folder.write("trailing ", b"");
    folder.write("new\nline\n", b"");
    let repository = repository();
    backup(&repository, folder.path());
    let out = scratch();
    restore(&repository, &folder, out.path());
    same_tree(folder.path(), out.path());
}

#[test]
fn empty_files_and_directories_come_back() {
    let folder = Folder::scratch();
    for n in 0..300 {
        folder.write(format!("empty/{n}"), b"");
        std::fs::create_dir_all(folder.path().join(format!("hollow/{n}/{n}"))).unwrap();
    }
    let repository = repository();
    let summary = backup(&repository, folder.path());
    assert_eq!((summary.counters.files, summary.counters.bytes), (300, 0));
    let out = scratch();
    restore(&repository, &folder, out.path());
    same_tree(folder.path(), out.path());
}

#[test]
fn a_directory_of_20_000_files_comes_back() {
    let folder = Folder::scratch();
    for n in 0..20_000 {
        std::fs::write(folder.path().join(format!("file {n}")), n.to_string()).unwrap();
    }
    let repository = repository();
    let summary = backup(&repository, folder.path());
    assert_eq!(summary.counters.files, 20_000);
    let out = scratch();
    restore(&repository, &folder, out.path());
    assert_eq!(difference(&contents(folder.path()), &contents(out.path())), None);
    // One more file costs a little, not the whole listing again.
    std::thread::sleep(Duration::from_millis(50));
    backup(&repository, folder.path());
    folder.write("file x", b"one more");
    let summary = backup(&repository, folder.path());
    assert!(summary.counters.new_bytes < 200_000, "{summary:?}");
}

/// Sets a flag on drop, also in a panic, so that the thread that polls it ends.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Changes a file continuously while it is backed up, until the backup has marked it.
fn backed_up_while(change: impl Fn(&std::fs::File, u64) + Sync) -> (Repository, Folder) {
    let folder = Folder::scratch();
    folder.write("busy", &noise(1, 40_000_000));
    folder.write("calm", b"nobody changes this");
    // A file made in the same clock tick as a backup is read again by the next one.
    std::thread::sleep(Duration::from_millis(50));
    let repository = repository();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(folder.path().join("busy"))
        .unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                change(&file, n);
            }
        });
        let _end = SetAtEnd(&done);
        for attempt in 0.. {
            assert!(attempt < 10, "no backup has noticed");
            let marked = Arc::new(AtomicU64::new(0));
            let monitor = Arc::new(Monitor::new({
                let marked = marked.clone();
                move |warning| {
                    if let Warning::ChangedWhileRead { path } = warning {
                        assert!(path.ends_with("busy"));
                        marked.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }));
            let summary = repository.watched_by(&monitor).backup(&options(folder.path())).unwrap();
            assert_eq!(summary.counters.changed_while_read, marked.load(Ordering::Relaxed));
            if summary.counters.changed_while_read == 1 {
                break;
            }
        }
    });
    (repository, folder)
}

#[test]
fn a_file_that_changes_while_it_is_read_is_marked_and_read_again_next_time() {
    let (repository, folder) = backed_up_while(|file, n| {
        file.write_all_at(&n.to_le_bytes(), n * 4096 % 40_000_000).unwrap();
    });
    // The file is quiet now, but its stored contents mix several states.
    let second = backup(&repository, folder.path());
    assert_eq!((second.counters.changed_while_read, second.unchanged_files), (0, 1));
    let out = scratch();
    restore(&repository, &folder, out.path());
    same_tree(folder.path(), out.path());
}

#[test]
fn a_file_that_grows_and_shrinks_while_it_is_read_is_marked_and_whole_next_time() {
    let whole = noise(2, 40_000_000);
    let (repository, folder) = backed_up_while(|file, n| match n % 40 {
        39 => file.set_len(1_000_000).unwrap(),
        part => file
            .write_all_at(&whole[part as usize * 1_000_000..][..1_000_000], part * 1_000_000)
            .unwrap(),
    });
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    backup(&repository, folder.path());
    let out = scratch();
    restore(&repository, &folder, out.path());
    same_tree(folder.path(), out.path());
}

/// Files are removed, or put in place of others, while the backup runs.
#[test]
fn a_tree_that_is_turned_upside_down_meanwhile_leaves_a_repository_that_is_clean() {
    let folder = Folder::scratch();
    let repository = repository();
    let done = AtomicBool::new(false);
    let path = |n: u64| folder.path().join(format!("d{}", n % 7)).join(format!("f{}", n % 13));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0u64.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                // Some of these fail because another file is in the way, as intended.
                let at = path(n.wrapping_mul(2_654_435_761));
                let _ = match n % 5 {
                    0 => std::fs::create_dir_all(&at),
                    1 => std::fs::remove_dir_all(at.parent().unwrap()),
                    2 => std::os::unix::fs::symlink("/etc", &at),
                    3 => std::fs::remove_file(&at),
                    _ => {
                        std::fs::create_dir_all(at.parent().unwrap()).and_then(|()| std::fs::write(&at, noise(n, 5000)))
                    }
                };
            }
        });
        let _end = SetAtEnd(&done);
        for _ in 0..30 {
            repository.backup(&options(folder.path())).unwrap();
        }
    });
    let report = repository.check(ReadData::All).unwrap();
    assert!(report.is_clean() && report.snapshots == 30, "{report:?}");
    for back in [0, 10, 29] {
        let snapshot = repository.snapshot(&format!("latest~{back}")).unwrap();
        let out = scratch();
        let options = RestoreOptions::default().verify(true);
        let summary = repository.restore(&snapshot, out.path(), &options).unwrap();
        assert_eq!(summary.failed, 0);
    }
}

#[test]
fn the_least_memory_is_enough_and_less_is_refused_with_the_number_that_is_needed() {
    let folder = Folder::scratch();
    for n in 0..4 {
        folder.write(format!("{n}"), &noise(n, 12_000_000));
    }
    let small = repository().with_memory(MEMORY_MIN).unwrap();
    backup(&small, folder.path());
    let out = scratch();
    restore(&small, &folder, out.path());
    same_tree(folder.path(), out.path());
    match repository().with_memory(MEMORY_MIN - 1) {
        Err(Error::MemoryBudget { needed, .. }) => assert_eq!(needed, MEMORY_MIN),
        other => panic!("{other:?}"),
    }
}

/// Chunks of 64 bytes: a MiB of input would take a MiB of memory in the index, which has a quarter of the least budget
/// at most.
#[test]
fn a_backup_of_more_chunks_than_fit_into_memory_is_complete() {
    let init = quick().chunker(Settings::Fixed(FixedSettings { size: 64 }));
    let repository = Repository::init(Arc::new(ibid_storage::Memory::new()), Some(b"secret"), &init)
        .and_then(|repository| repository.with_memory(MEMORY_MIN))
        .unwrap();
    let folder = Folder::scratch();
    folder.write("first", &noise(1, 1 << 20));
    backup(&repository, folder.path());
    let bytes = noise(2, 24 << 20);
    folder.write("more", &bytes);
    // The same once more, in another order: every chunk is known.
    let (left, right) = bytes.split_at(bytes.len() / 2);
    folder.write("turned", &[right, left].concat());
    let summary = repository.backup(&options(folder.path())).unwrap();
    assert_eq!(summary.whole.bytes + summary.deltas.bytes, 24 << 20, "{summary:?}");
    let again = repository.backup(&options(folder.path()).force(true)).unwrap();
    assert_eq!(again.whole.chunks + again.deltas.chunks, 0, "{again:?}");
    let out = scratch();
    let before = contents(folder.path());
    restore(&repository, &folder, out.path());
    assert_eq!(difference(&before, &contents(out.path())), None);
}

/// A stopped restore leaves nothing that misleads the next one: its files are right or, if it was
/// killed, are not taken for right.
#[test]
fn files_of_a_stopped_restore_are_whole_and_the_next_one_completes_it() {
    let folder = Folder::scratch();
    for n in 0..20 {
        folder.write(format!("{n}"), &noise(n, 1_000_000));
    }
    let repository = repository();
    backup(&repository, folder.path());
    let snapshot = repository.snapshot("latest").unwrap();
    for stop_after in [1_000_000, 5_000_000, 15_000_000] {
        let out = scratch();
        let monitor = Arc::new(Monitor::default());
        let options = |overwrite| RestoreOptions::default().overwrite(overwrite);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) && monitor.counters.bytes.load(Ordering::Relaxed) < stop_after {
                    std::hint::spin_loop();
                }
                monitor.cancel();
            });
            let result = repository.watched_by(&monitor).restore(
                snapshot.at(folder.path()),
                out.path(),
                &options(Overwrite::Refuse),
            );
            done.store(true, Ordering::Relaxed);
            assert!(matches!(result, Err(Error::Interrupted)) || monitor.counters.files.load(Ordering::Relaxed) == 20);
        });
        let left = contents(out.path());
        let expected = contents(folder.path()).into_iter();
        let expected = expected.filter(|(path, _)| left.contains_key(path)).collect();
        assert_eq!(difference(&expected, &left), None);
        // The state after a kill: the right length, and no contents.
        let file = std::fs::File::create(out.path().join("7")).unwrap();
        file.set_len(1_000_000).unwrap();
        let again = repository.restore(snapshot.at(folder.path()), out.path(), &options(Overwrite::IfChanged));
        assert_eq!(again.unwrap().failed, 0);
        same_tree(folder.path(), out.path());
    }
    assert!(statat(CWD, folder.path(), AtFlags::empty()).is_ok());
}
