//! A backup that is interrupted keeps what it has finished: the next one does not read it again. What is left of
//! it is advice, and never makes a wrong snapshot.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_repo::{BackupSummary, CheckpointInfo, Checkpoints, Error, Monitor, PruneOptions, Repository};
use ibid_storage::fault::{Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Memory, Name, Operation, Storage};

use crate::support;
use crate::support::checkpoints::Interruptions;
use crate::support::crash::{End, restores};
use crate::support::{Folder, contents, noise, options, quick};

#[test]
fn files_before_the_last_checkpoint_are_not_read_again_after_a_crash_at_any_operation() {
    let tree = Interruptions::new();
    let mut most = 0;
    for at in (0..).step_by(3) {
        let end = if at % 2 == 0 { End::Power } else { End::Kill };
        let seen = tree.run(&[at], at, end);
        most = most.max(seen.bytes);
        if seen.crashes == 0 {
            assert!(
                at > 100 && most > tree.bytes * 9 / 10,
                "{at} operations, {most} bytes at most"
            );
            return;
        }
    }
}

#[test]
fn several_backups_that_are_interrupted_one_after_another_keep_what_each_has_finished() {
    let tree = Interruptions::new();
    let mut crashes = 0;
    for seed in 0..40 {
        let at = [60 + 3 * seed, 20 + 2 * seed, 50 + seed];
        let end = if seed % 2 == 0 { End::Power } else { End::Kill };
        crashes += tree.run(&at, seed, end).crashes;
    }
    assert!(crashes > 80, "{crashes}");
}

/// A tree of many files, and a repository whose storage can fail.
struct Scene {
    folder: Folder,
    storage: Arc<Flaky<Memory>>,
    repository: Repository,
    bytes: u64,
}

const FILES: u64 = 60;

impl Scene {
    fn new() -> Scene {
        let folder = Folder::scratch();
        for n in 0..FILES {
            folder.write(format!("{n:02}/file"), &noise(n, 100_000));
        }
        std::thread::sleep(Duration::from_millis(50));
        let storage = Arc::new(Flaky::new(Memory::new()));
        let repository = Repository::init(storage.clone(), Some(b"secret"), &quick().pack_size(1 << 20)).unwrap();
        Scene {
            folder,
            storage,
            repository,
            bytes: FILES * 100_000,
        }
    }

    /// Backs up until storing has worked so many times, the session included, and then has not.
    fn interrupted(&self, puts: u64) {
        self.interrupted_at(self.folder.path(), puts);
    }

    fn interrupted_at(&self, path: &Path, puts: u64) {
        // One of three in a row is a pack.
        for put in puts..puts + 3 {
            let fault = ObjectFault::Before(ErrorKind::NoSpace);
            self.storage.fail(Operation::Put, put, fault);
        }
        let often = options(path).checkpoints(Checkpoints::Every(300_000));
        self.repository.backup(&often).unwrap_err();
        self.storage.heal();
    }

    fn backup(&self) -> BackupSummary {
        self.repository.backup(&options(self.folder.path())).unwrap()
    }

    fn checkpoints(&self) -> Vec<CheckpointInfo> {
        self.repository.checkpoints(|_, error| panic!("{error}")).unwrap()
    }

    /// Returns the last checkpoint, which has something of use.
    fn checkpoint(&self) -> CheckpointInfo {
        let last = self.checkpoints().pop().expect("a checkpoint");
        assert!(last.checkpoint.files > 5 && last.checkpoint.files < FILES, "{last:?}");
        last
    }

    fn is_exact(&self, summary: &BackupSummary) {
        let (path, id) = (self.folder.path(), summary.id.unwrap().to_string());
        restores(&self.repository, &id, path, &contents(path), "");
    }

    fn names(&self, folder: &str) -> Vec<Name> {
        let mut names = Vec::new();
        self.storage.list(folder, &mut |name, _| names.push(name)).unwrap();
        names
    }
}

/// Cancels a backup once it has done so many eighths. Returns what it had done by then; nothing if it was faster than
/// the thread that cancels it.
fn cancelled_after(part: u64, scene: &Scene) -> Option<u64> {
    let monitor = Arc::new(Monitor::default());
    std::thread::scope(|scope| {
        let canceller = scope.spawn(|| {
            while monitor.counters.bytes.load(Ordering::Relaxed) < scene.bytes * part / 8 {
                std::thread::yield_now();
            }
            let done = monitor.counters.bytes.load(Ordering::Relaxed);
            monitor.cancel();
            done
        });
        let repository = scene.repository.watched_by(&monitor);
        // Without a checkpoint on the way.
        let result = repository.backup(&options(scene.folder.path()));
        let done = canceller.join().unwrap();
        match result {
            Err(Error::Interrupted) => Some(done),
            Ok(_) => None,
            Err(error) => panic!("{error}"),
        }
    })
}

#[test]
fn a_backup_that_is_cancelled_keeps_everything_that_it_has_finished() {
    for part in 0..8 {
        let in_time = (0..50).find_map(|_| {
            let scene = Scene::new();
            cancelled_after(part, &scene).map(|done| (scene, done))
        });
        let (scene, done) = in_time.expect("a backup that does not end before it is cancelled");
        let kept = scene.checkpoints().pop().map_or(0, |info| info.checkpoint.bytes);
        assert!(kept >= done, "{kept} bytes are kept, and {done} were done");
        let summary = scene.backup();
        assert_eq!(summary.resumed_bytes, kept);
        assert_eq!(summary.read_bytes, scene.bytes - kept);
        scene.is_exact(&summary);
    }
}

#[test]
fn a_file_that_has_changed_since_is_read_again() {
    let scene = Scene::new();
    scene.interrupted(9);
    let kept = scene.checkpoint();
    scene.folder.write("00/file", &noise(1000, 100_000));
    std::fs::remove_file(scene.folder.path().join("01/file")).unwrap();
    scene.folder.write("02/another", b"new");
    let summary = scene.backup();
    assert_eq!(summary.resumed_files, kept.checkpoint.files - 2);
    assert_eq!(summary.resumed_from, Some(kept.checkpoint.time));
    assert_eq!(summary.unchanged_files, 0);
    scene.is_exact(&summary);
}

#[test]
fn files_that_the_parent_has_are_taken_from_it_and_new_ones_from_the_checkpoint() {
    let scene = Scene::new();
    scene.backup();
    for n in 0..FILES {
        scene.folder.write(format!("{n:02}/new"), &noise(2000 + n, 50_000));
    }
    std::thread::sleep(Duration::from_millis(50));
    scene.interrupted(6);
    let kept = scene.checkpoint();
    let summary = scene.backup();
    assert_eq!(summary.unchanged_files, FILES);
    assert!(summary.resumed_files * 2 >= kept.checkpoint.files - 1, "{summary:?}");
    assert_eq!(summary.resumed_bytes + summary.read_bytes, FILES * 50_000);
    scene.is_exact(&summary);
}

#[test]
fn a_checkpoint_serves_only_its_own_host_and_paths_until_there_is_a_snapshot_of_them() {
    let scene = Scene::new();
    scene.interrupted(9);
    let kept = scene.checkpoint();
    let below = scene
        .repository
        .backup(&options(&scene.folder.path().join("00")))
        .unwrap();
    assert_eq!(below.resumed_files, 0);
    let elsewhere = options(scene.folder.path()).host(Some("elsewhere".into()));
    assert_eq!(scene.repository.backup(&elsewhere).unwrap().resumed_files, 0);
    let forced = options(scene.folder.path()).force(true).dry_run(true);
    assert_eq!(scene.repository.backup(&forced).unwrap().read_bytes, scene.bytes);
    scene.repository.prune(&PruneOptions::default()).unwrap();
    assert_eq!(
        scene.checkpoints().len(),
        1,
        "it is useful as long as there is no snapshot"
    );
    assert_eq!(scene.backup().resumed_files, kept.checkpoint.files);
    assert_eq!(scene.names("checkpoints"), [], "the snapshot has all that it had");
}

#[test]
fn a_prune_keeps_what_a_useful_checkpoint_needs_and_deletes_the_others() {
    let scene = Scene::new();
    scene.interrupted(9);
    let kept = scene.checkpoint();
    let impatient = PruneOptions::default()
        .patience(Duration::ZERO)
        .cache_age(Duration::ZERO);
    scene.repository.prune(&impatient).unwrap();
    let summary = scene.backup();
    assert_eq!(summary.resumed_files, kept.checkpoint.files);
    scene.is_exact(&summary);
    // One that a backup has not come to delete, and one that is damaged.
    let copy = Scene::new();
    copy.interrupted(9);
    let name = copy.names("checkpoints").pop().unwrap();
    let bytes = copy.storage.get(&name, 1 << 20).unwrap();
    copy.backup();
    copy.storage.put(&name, &[&bytes]).unwrap();
    let damaged = Name::new("checkpoints/0123456789abcdef0123456789abcdef").unwrap();
    copy.storage.put(&damaged, &[&bytes]).unwrap();
    copy.repository.prune(&impatient).unwrap();
    assert_eq!(copy.names("checkpoints"), []);
    assert_eq!(copy.names("sessions"), []);
}

#[test]
fn a_checkpoint_whose_chunks_are_gone_is_no_more_than_useless() {
    for lost in 0..2 {
        let scene = Scene::new();
        scene.interrupted(9);
        scene.checkpoint();
        // All packs, or those of the checkpoint's listings.
        for name in scene.names("packs") {
            let size = scene.storage.size(&name).unwrap();
            if lost == 0 || size < 100_000 {
                scene.storage.delete(&name).unwrap();
            }
        }
        let repository = Repository::open(scene.storage.clone(), Some(b"secret")).unwrap();
        let summary = repository.backup(&options(scene.folder.path())).unwrap();
        assert_eq!(summary.resumed_files, 0);
        scene.is_exact(&summary);
        repository
            .prune(
                &PruneOptions::default()
                    .patience(Duration::ZERO)
                    .cache_age(Duration::ZERO),
            )
            .unwrap();
    }
}

#[test]
fn a_damaged_checkpoint_is_named_and_not_used() {
    let scene = Scene::new();
    scene.interrupted(9);
    let name = scene.names("checkpoints").pop().unwrap();
    let mut bytes = scene.storage.get(&name, 1 << 20).unwrap();
    bytes[100] ^= 1;
    scene.storage.delete(&name).unwrap();
    scene.storage.put(&name, &[&bytes]).unwrap();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let seen = warnings.clone();
    let monitor = Arc::new(Monitor::new(move |warning| {
        seen.lock().unwrap().push(format!("{warning:?}"))
    }));
    let repository = scene.repository.watched_by(&monitor);
    let summary = repository.backup(&options(scene.folder.path())).unwrap();
    assert_eq!(summary.resumed_files, 0);
    scene.is_exact(&summary);
    let warnings = warnings.lock().unwrap();
    assert!(
        warnings.iter().any(|warning| warning.contains(name.as_str())),
        "{warnings:?}"
    );
    assert!(scene.repository.check(ibid_repo::ReadData::All).unwrap().is_clean());
}

#[test]
fn a_storage_that_takes_no_checkpoints_makes_no_difference_to_the_snapshot() {
    let scene = Scene::new();
    let mut made = 0;
    // Which of the first objects are checkpoints depends on threads.
    for put in (1..16).cycle().take(150) {
        // A pack that can't be stored fails the backup, and a checkpoint does not.
        let fault = || ObjectFault::Before(ErrorKind::PermissionDenied);
        scene.storage.fail(Operation::Put, put, fault());
        scene.storage.fail(Operation::Delete, put / 3, fault());
        let often = options(scene.folder.path())
            .checkpoints(Checkpoints::Every(300_000))
            .force(true);
        match scene.repository.backup(&often) {
            Ok(summary) => {
                made += 1;
                scene.is_exact(&summary);
            }
            Err(Error::Storage(error)) => assert!(!error.name().unwrap().as_str().starts_with("check"), "{error}"),
            Err(error) => panic!("{error}"),
        }
        scene.storage.heal();
        if made > 5 {
            break;
        }
    }
    assert!(made > 5, "{made}");
    scene.backup();
    scene.repository.prune(&PruneOptions::default()).unwrap();
    assert_eq!(scene.names("checkpoints"), []);
}

/// Each checkpoint writes only the end of the listing again.
#[test]
fn checkpoints_of_one_large_folder_do_not_write_its_listing_again_and_again() {
    let folder = Folder::scratch();
    for n in 0..20_000_u64 {
        folder.write(format!("{n:05} is the name of this file"), &n.to_le_bytes());
    }
    let metadata = |checkpoints| {
        let repository = support::repository();
        let options = options(folder.path()).checkpoints(checkpoints);
        repository.backup(&options).unwrap().new_metadata_bytes
    };
    let (without, with) = (
        metadata(Checkpoints::Off),
        metadata(Checkpoints::Every(20_000 * 8 / 40)),
    );
    assert!(without > 1_000_000, "{without}");
    assert!(
        with > without && with < without + 40 * (64 << 10),
        "{with}, and {without} without"
    );
}
