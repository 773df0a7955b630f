//! Concurrent backups into one repository need no locks. See `docs/durability.md`.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use ibid_format::FileId;
use ibid_repo::{BackupOptions, CheckReport, Limit, PruneOptions, ReadData, Repository, Stream};
use ibid_storage::fault::{FaultDisk, Flaky, ObjectFault};
use ibid_storage::{Error, ErrorKind, Local, Memory, Name, Operation, Storage};

use crate::support;
use crate::support::crash::{PLACE, restores};
use crate::support::damage::{Image, image, storage};
use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Contents, Folder, Random, contents, noise, options, quick};

/// Returns four trees that share half of their contents.
fn trees(bytes: usize) -> Vec<(Folder, Contents)> {
    let tree = |n: u64| {
        let folder = Folder::scratch();
        for file in 0..4 {
            folder.write(format!("shared/{file}"), &noise(file, bytes / 8));
            folder.write(format!("own/{file}"), &noise(100 * (n + 1) + file, bytes / 8));
        }
        let contents = contents(folder.path());
        (folder, contents)
    };
    (0..4).map(tree).collect()
}

fn init(storage: Arc<dyn Storage>) {
    let options = quick().frame_size(64 << 10).pack_size(1 << 20);
    Repository::init(storage, Some(b"secret"), &options).unwrap();
}

/// Backs up all trees at once, each through its own handle. Returns the acknowledged snapshots,
/// each with its tree.
fn back_up_all(trees: &[(Folder, Contents)], open: impl Fn() -> Option<Repository> + Sync) -> Vec<(String, usize)> {
    let start = std::sync::Barrier::new(trees.len());
    std::thread::scope(|scope| {
        let backups: Vec<_> = (0..trees.len())
            .map(|n| {
                let (open, start) = (&open, &start);
                scope.spawn(move || {
                    let repository = open();
                    start.wait();
                    let summary = repository?.backup(&options(trees[n].0.path())).ok()?;
                    Some((summary.id.unwrap().to_string(), n))
                })
            })
            .collect();
        backups
            .into_iter()
            .filter_map(|backup| backup.join().unwrap())
            .collect()
    })
}

fn all_are_intact(repository: &Repository, done: &[(String, usize)], trees: &[(Folder, Contents)], context: &str) {
    let report = repository.check(ReadData::All).unwrap();
    assert!(report.is_clean(), "{context}: {report:?}");
    for (id, n) in done {
        restores(repository, id, trees[*n].0.path(), &trees[*n].1, context);
    }
    // Unacknowledged snapshots exist completely or not at all: the check has read them too.
    assert!(report.snapshots >= done.len() as u64);
}

#[test]
fn four_backups_at_once_into_a_folder_all_succeed() {
    let trees = trees(4_000_000);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("repository");
    init(Arc::new(Local::create(&path).unwrap()));
    let open = || Repository::open(Arc::new(Local::open(&path).unwrap()), Some(b"secret")).ok();
    for round in 0..3 {
        let done = back_up_all(&trees, open);
        assert_eq!(done.len(), 4, "round {round}");
        all_are_intact(&open().unwrap(), &done, &trees, &format!("round {round}"));
    }
}

/// Several backups of one tree run through one handle, and the first object can't be stored: one of
/// them fails, and no other may rely on that object.
#[test]
fn a_backup_does_not_rely_on_what_another_of_the_same_process_has_not_stored_yet() {
    const BACKUPS: usize = 8;
    let (folder, _) = trees(100_000).remove(0);
    for round in 0..40 {
        let storage = Arc::new(Flaky::new(Memory::new()));
        init(storage.clone());
        let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
        storage.fail(Operation::Put, 0, ObjectFault::Before(ErrorKind::NoSpace));
        let start = std::sync::Barrier::new(BACKUPS);
        let done: usize = std::thread::scope(|scope| {
            let backup = || {
                start.wait();
                repository.backup(&options(folder.path())).is_ok()
            };
            let backups: Vec<_> = (0..BACKUPS).map(|_| scope.spawn(backup)).collect();
            backups
                .into_iter()
                .map(|backup| usize::from(backup.join().unwrap()))
                .sum()
        });
        assert_eq!(done, BACKUPS - 1, "round {round}");
        let report = repository.check(ReadData::All).unwrap();
        assert!(
            report.is_clean() && report.snapshots == done as u64,
            "round {round}: {report:?}"
        );
    }
}

/// The end of a stream, which first calls a function.
struct Then<F>(F);

impl<F: FnMut()> Read for Then<F> {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        (self.0)();
        Ok(0)
    }
}

/// While a backup is halfway, a snapshot that another backup made of the same data is restored
/// through its handle.
#[test]
fn chunks_that_a_backup_has_not_stored_yet_hide_nothing_from_users_of_the_same_handle() {
    let folder = Folder::scratch();
    folder.write("file", &noise(1, 12_000_000));
    let contents = contents(folder.path());
    let memory = Arc::new(Memory::new());
    init(memory.clone());
    let open = |storage| Arc::new(Repository::open(storage, Some(b"secret")).unwrap());
    let (repository, other) = (open(memory.clone()), open(memory.clone()));
    let file = std::fs::File::open(folder.path().join("file")).unwrap();
    let during = {
        let (repository, path) = (repository.clone(), folder.path().to_owned());
        move || {
            // Once part of it is stored, the backup knows all its chunks but the last.
            let mut packs = 0;
            while packs == 0 {
                memory.list("packs", &mut |_, _| packs += 1).unwrap();
            }
            let id = support::backup(&other, &path).id.unwrap().to_string();
            restores(&repository, &id, &path, &contents, "beside a backup");
        }
    };
    let stream = Stream::new("stream", file.chain(Then(during)));
    repository.backup_stream(stream, &BackupOptions::default()).unwrap();
}

#[test]
fn a_check_beside_backups_raises_no_alarm() {
    let trees = trees(1_000_000);
    let memory = Arc::new(Memory::new());
    init(memory.clone());
    let open = || Repository::open(memory.clone(), Some(b"secret")).ok();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let checks = scope.spawn(|| {
            let repository = open().unwrap();
            let mut checks = 0;
            while !done.load(Ordering::Relaxed) {
                let report = repository.check(ReadData::No).unwrap();
                assert!(report.is_clean(), "{report:?}");
                checks += 1;
            }
            checks
        });
        for _ in 0..6 {
            assert_eq!(back_up_all(&trees, open).len(), 4);
        }
        done.store(true, Ordering::Relaxed);
        assert!(checks.join().unwrap() > 2);
    });
}

/// Storage that calls a function right after the n-th listing.
struct Meddled {
    inner: Arc<Memory>,
    left: AtomicI64,
    meddle: Box<dyn Fn() + Send + Sync>,
}

impl Hooks for Meddled {
    fn inner(&self) -> &dyn Storage {
        self.inner.as_ref()
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.inner.list(folder, each)?;
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            (self.meddle)();
        }
        Ok(())
    }
}

/// The same, but deterministic: a whole backup runs between two steps of a check, and of another
/// backup.
#[test]
fn a_backup_between_any_two_steps_of_a_check_or_of_a_backup_is_no_trouble() {
    let mut meddled = 0;
    for step in 0..8 {
        let memory = Arc::new(Memory::new());
        init(memory.clone());
        let trees = Arc::new(trees(200_000));
        let open = |storage: Arc<dyn Storage>| Repository::open(storage, Some(b"secret")).unwrap();
        support::backup(&open(memory.clone()), trees[0].0.path());
        let place = Arc::new(Hooked(Meddled {
            inner: memory.clone(),
            left: AtomicI64::new(i64::MAX),
            meddle: Box::new({
                let (memory, trees) = (memory.clone(), trees.clone());
                move || {
                    support::backup(&open(memory.clone()), trees[1].0.path());
                }
            }),
        }));
        let repository = open(place.clone());
        place.left.store(step, Ordering::Relaxed);
        let report = repository.check(ReadData::All).unwrap();
        assert!(report.is_clean(), "step {step}: {report:?}");
        meddled += i64::from(place.left.load(Ordering::Relaxed) < 0);
        place.left.store(step, Ordering::Relaxed);
        let id = support::backup(&repository, trees[2].0.path()).id.unwrap().to_string();
        meddled += i64::from(place.left.load(Ordering::Relaxed) < 0);
        place.left.store(i64::MAX, Ordering::Relaxed);
        all_are_intact(&repository, &[(id, 2)], &trees, &format!("step {step}"));
    }
    assert!(meddled > 5, "{meddled}");
}

/// Storage that calls a function before the n-th call that reads or lists.
struct Preceded {
    inner: Arc<Memory>,
    left: AtomicI64,
    meddle: Box<dyn Fn() + Send + Sync>,
}

impl Preceded {
    fn count(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            (self.meddle)();
        }
    }
}

impl Hooks for Preceded {
    fn inner(&self) -> &dyn Storage {
        self.inner.as_ref()
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.count();
        self.inner.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.count();
        self.inner.read_at(name, offset, buffer)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.count();
        self.inner.list(folder, each)
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, Error> {
        self.count();
        self.inner.list_together(folders, each)
    }
}

/// Returns a repository with one snapshot, which is to be forgotten, and an empty folder to back up next.
fn with_a_file_that_goes() -> (Arc<Memory>, Repository, Folder, FileId) {
    let memory = Arc::new(Memory::new());
    init(memory.clone());
    let folder = Folder::scratch();
    let repository = Repository::open(memory.clone(), Some(b"secret")).unwrap();
    folder.write("gone", &noise(1, 300_000));
    let forgotten = support::backup(&repository, folder.path()).id.unwrap();
    std::fs::remove_file(folder.path().join("gone")).unwrap();
    (memory, repository, folder, forgotten)
}

/// Checks the repository in `image` once for each call that a check makes, with a prune before this call, and passes
/// on what it finds.
fn check_around_prunes(image: &Image, forgotten: FileId, each: impl Fn(i64, CheckReport)) {
    for step in 0.. {
        let copy = storage(image);
        let place = Arc::new(Hooked(Preceded {
            inner: copy.clone(),
            left: AtomicI64::new(i64::MAX),
            meddle: Box::new(move || {
                let repository = Repository::open(copy.clone(), Some(b"secret")).unwrap();
                repository.forget(&[forgotten]).unwrap();
                let options = PruneOptions::default().max_unused(Limit::Bytes(0));
                let summary = repository.prune(&options).unwrap();
                assert!(summary.packs_deleted > 0, "{summary:?}");
            }),
        }));
        let repository = Repository::open(place.clone(), Some(b"secret")).unwrap();
        place.left.store(step, Ordering::Relaxed);
        let report = repository.check(ReadData::All).unwrap();
        if place.left.load(Ordering::Relaxed) >= 0 {
            assert!(step > 20, "{step}");
            return;
        }
        each(step, report);
    }
}

#[test]
fn a_prune_between_any_two_steps_of_a_check_is_no_fault_and_has_nothing_read_twice() {
    let (memory, repository, folder, forgotten) = with_a_file_that_goes();
    folder.write("stays", &noise(2, 3_000_000));
    support::backup(&repository, folder.path());
    let whole = repository.check(ReadData::All).unwrap();
    check_around_prunes(&image(memory.as_ref()), forgotten, |step, report| {
        assert!(report.is_clean(), "step {step}: {report:?}");
        assert_eq!(report.packs_read, report.packs, "step {step}");
        // Beside what is there, only what the prune has moved is read: lists of folders.
        assert!(
            report.bytes_read < whole.bytes_read + 100_000,
            "step {step}: {report:?}"
        );
    });
}

#[test]
fn a_check_finds_damage_beside_a_prune() {
    let (memory, repository, folder, forgotten) = with_a_file_that_goes();
    let old = image(memory.as_ref());
    folder.write("stays", &noise(2, 500_000));
    support::backup(&repository, folder.path());
    let mut image = image(memory.as_ref());
    let is_new = |name: &&Name| name.is_in("packs") && !old.contains_key(*name);
    let pack = image
        .keys()
        .filter(is_new)
        .max_by_key(|name| image[*name].len())
        .unwrap()
        .clone();
    image.get_mut(&pack).unwrap()[200_000] ^= 1;
    check_around_prunes(&image, forgotten, |step, report| {
        let named = report.faults.iter().any(|fault| fault.object == pack.as_str());
        assert!(named && report.affected_total == 1, "step {step}: {report:?}");
    });
}

#[test]
fn four_backups_at_once_that_lose_power_together_lose_nothing_that_was_acknowledged() {
    let trees = trees(300_000);
    let mut random = Random(4);
    let mut outcomes = [0; 5];
    for seed in 0..60 {
        let disk = FaultDisk::new(seed);
        init(Arc::new(Local::create_on(disk.clone(), PLACE).unwrap()));
        disk.crash_at(disk.operations() + random.below(360));
        let handle = |disk: &FaultDisk| {
            let place = Local::open_on(disk.clone(), PLACE).ok()?;
            Repository::open(Arc::new(place), Some(b"secret")).ok()
        };
        let mut done = back_up_all(&trees, || handle(&disk));
        outcomes[done.len()] += 1;
        let context = format!("seed {seed}");
        let disk = if seed % 3 == 0 {
            disk.restart()
        } else {
            disk.crash(seed)
        };
        all_are_intact(&handle(&disk).unwrap(), &done, &trees, &context);
        // All four resume where they were stopped, adopt each other's packs, and lose power again
        // when they are done.
        let again = back_up_all(&trees, || handle(&disk));
        assert_eq!(again.len(), 4, "{context}");
        done.extend(again);
        let disk = disk.crash(seed + 1000);
        all_are_intact(&handle(&disk).unwrap(), &done, &trees, &context);
    }
    assert!(outcomes[0] > 0 && outcomes[4] > 0, "{outcomes:?}");
    assert!(
        outcomes[1..4].iter().sum::<u32>() > 3,
        "some done, some not: {outcomes:?}"
    );
}
