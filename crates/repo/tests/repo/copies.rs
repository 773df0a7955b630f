//! If the storage is reached over a network, the local cache has copies of trees and snapshots. They save
//! reading, and never decide.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ibid_repo::{MemoryStorage, Monitor, ReadData, Repository, RestoreOptions, Storage, Visit, Warning};
use ibid_storage::fault::{Counts, Damage, Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Operation};

use crate::support::{Folder, backup, contents, difference, noise, quick, scratch};

/// A tree of several packs of metadata, its repository, and one machine's cache.
struct Scene {
    storage: Arc<Flaky<MemoryStorage>>,
    folder: Folder,
    cache: tempfile::TempDir,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new() -> Scene {
        let storage = Arc::new(Flaky::new(MemoryStorage::new()));
        let init = quick().frame_size(16 << 10).pack_size(1 << 20);
        Repository::init(storage.clone(), Some(b"secret"), &init).unwrap();
        let folder = Folder::scratch();
        for n in 0..3000 {
            folder.write(format!("{}/{n}", n % 40), &noise(n, 50));
        }
        let scene = Scene {
            storage,
            folder,
            cache: scratch(),
            heard: Arc::default(),
        };
        // Files whose times are settled are not read again.
        std::thread::sleep(std::time::Duration::from_millis(50));
        for version in 0..4 {
            scene.folder.write("0/changed", &noise(version, 1000));
            backup(&scene.open(), scene.folder.path());
        }
        scene
    }

    fn open_with(&self, cache: &Path) -> Repository {
        let repository = Repository::open(self.storage.clone(), Some(b"secret")).unwrap();
        let heard = self.heard.clone();
        let monitor = Monitor::new(move |warning| {
            heard.lock().unwrap().push(match warning {
                Warning::Cache { error } => format!("cache: {error}"),
                other => format!("{other:?}"),
            });
        });
        repository.with_cache(cache).watched_by(&Arc::new(monitor))
    }

    fn open(&self) -> Repository {
        self.open_with(self.cache.path())
    }

    fn copies(&self, folder: &str) -> Vec<PathBuf> {
        let cache = self.open().cache_stats().unwrap().unwrap().folder;
        let files = std::fs::read_dir(cache.join(folder)).unwrap();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Does all that reads trees and snapshots; returns what it took of the storage.
    fn read_all(&self, repository: &Repository) -> Counts {
        let before = self.storage.counts();
        let snapshots = repository.snapshots().unwrap();
        assert_eq!(snapshots.len(), 4);
        let mut entries = 0;
        for snapshot in &snapshots {
            let visited = repository.visit(snapshot.at(Path::new("/")), |_, _| {
                entries += 1;
                Ok(Visit::Descend)
            });
            visited.unwrap();
        }
        assert!(entries > 4 * 3040, "{entries}");
        repository.stats(&snapshots).unwrap();
        let after = self.storage.counts();
        Counts {
            get: after.get - before.get,
            read_at: after.read_at - before.read_at,
            bytes_read: after.bytes_read - before.bytes_read,
            ..Counts::default()
        }
    }

    #[track_caller]
    fn is_right(&self) {
        let out = scratch();
        let repository = self.open();
        let snapshot = repository.snapshot("latest").unwrap();
        let restored = repository.restore(snapshot.at(self.folder.path()), out.path(), &RestoreOptions::default());
        assert_eq!(restored.unwrap().failed, 0);
        assert_eq!(difference(&contents(self.folder.path()), &contents(out.path())), None);
        let report = repository.check(ReadData::All).unwrap();
        assert!(report.is_clean() && report.notes.is_empty(), "{report:?}");
    }
}

#[test]
fn the_machine_that_made_backups_reads_no_tree_and_no_snapshot_from_the_storage() {
    let scene = Scene::new();
    assert_eq!((scene.copies("snapshots").len(), scene.copies("packs").len()), (4, 4));
    let stats = scene.open().cache_stats().unwrap().unwrap();
    assert!(
        stats.copy_bytes > 100_000 && stats.copy_bytes < stats.bytes,
        "{stats:?}"
    );
    let repository = scene.open();
    repository
        .visit(repository.snapshot("latest").unwrap().at(Path::new("/")), |_, _| {
            Ok(Visit::Skip)
        })
        .unwrap();
    let read = scene.read_all(&repository);
    assert_eq!((read.get, read.read_at), (0, 0));
    let before = scene.storage.counts();
    let again = backup(&scene.open(), scene.folder.path());
    let after = scene.storage.counts();
    assert!(again.unchanged_files + 1 >= again.counters.files, "{again:?}");
    assert!(
        after.read_at == before.read_at && after.get - before.get <= 8,
        "{before:?} {after:?}"
    );
    scene.is_right();
}

#[test]
fn another_machine_reads_each_pack_of_trees_once() {
    let scene = Scene::new();
    let other = scratch();
    let first = scene.read_all(&scene.open_with(other.path()));
    assert_eq!(first.read_at, 4 + 4, "four packs, four snapshots");
    let second = scene.open_with(other.path());
    second.snapshot("latest").unwrap();
    assert_eq!(scene.read_all(&second).read_at, 0);

    let restored_by_many = scratch();
    let repository = scene.open_with(restored_by_many.path());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| scene.open_with(restored_by_many.path()).snapshots().unwrap());
        }
    });
    assert_eq!(repository.snapshots().unwrap().len(), 4);
    scene.is_right();
}

#[test]
fn a_copy_that_is_damaged_cut_short_or_of_another_file_is_noticed_and_made_again() {
    let scene = Scene::new();
    let other = Scene::new();
    type Harm = fn(&mut Vec<u8>, &[u8], usize);
    let harms: [Harm; 4] = [
        |bytes, _, at| bytes[at] ^= 1,
        |bytes, _, at| bytes.truncate(at),
        |bytes, _, _| bytes.clear(),
        |bytes, another, _| *bytes = another.to_vec(),
    ];
    for folder in ["packs", "snapshots"] {
        let (files, others) = (scene.copies(folder), other.copies(folder));
        for (number, path) in files.iter().enumerate() {
            let whole = std::fs::read(path).unwrap();
            let another = std::fs::read(&others[number]).unwrap();
            for (which, harm) in harms.iter().enumerate() {
                let mut bytes = whole.clone();
                harm(&mut bytes, &another, whole.len() / 2 + number);
                std::fs::write(path, &bytes).unwrap();
                scene.read_all(&scene.open());
                // What nothing reads is left.
                scene.read_all(&scene.open());
                let now = std::fs::read(path).unwrap();
                assert!(now == whole || (which == 0 && now == bytes), "harm {which} of {folder}");
                std::fs::write(path, &whole).unwrap();
            }
        }
    }
    assert_eq!(*scene.heard.lock().unwrap(), [""; 0]);
    scene.is_right();
}

#[test]
fn what_the_storage_does_not_list_is_not_believed_and_its_copy_is_deleted() {
    let scene = Scene::new();
    let oldest = scene.open().snapshots().unwrap().remove(0);
    let mut names = Vec::new();
    scene
        .storage
        .list("snapshots", &mut |name, _| names.push(name))
        .unwrap();
    let name = names
        .into_iter()
        .find(|name| name.as_str().ends_with(&oldest.id.to_string()));
    scene.storage.delete(&name.unwrap()).unwrap();
    assert_eq!(scene.open().snapshots().unwrap().len(), 3);
    assert!(scene.open().snapshot(&oldest.id.to_string()).is_err());
    backup(&scene.open(), scene.folder.path());
    assert!(
        scene
            .copies("snapshots")
            .iter()
            .all(|path| !path.ends_with(oldest.id.to_string()))
    );

    let lost = scene.copies("packs").remove(0);
    let lost = lost.file_name().unwrap().to_str().unwrap();
    let mut names = Vec::new();
    scene.storage.list("packs", &mut |name, _| names.push(name)).unwrap();
    let name = names.into_iter().find(|name| name.as_str().ends_with(lost)).unwrap();
    scene.storage.delete(&name).unwrap();
    assert!(!scene.open().check(ReadData::No).unwrap().is_clean());
    backup(&scene.open(), scene.folder.path());
    assert!(scene.copies("packs").iter().all(|path| !path.ends_with(lost)));
    let repository = scene.open();
    let out = scratch();
    let latest = repository.snapshot("latest").unwrap();
    let restored = repository.restore(latest.at(scene.folder.path()), out.path(), &RestoreOptions::default());
    assert_eq!(restored.unwrap().failed, 0);
    assert_eq!(difference(&contents(scene.folder.path()), &contents(out.path())), None);
}

#[test]
fn where_no_copy_can_be_made_one_warning_says_so_and_all_is_read_from_the_storage() {
    let scene = Scene::new();
    let other = scratch();
    let cache = scene.open_with(other.path()).cache_stats().unwrap().unwrap().folder;
    std::fs::create_dir_all(&cache).unwrap();
    // A file is in the way of the folder.
    std::fs::write(cache.join("packs"), b"").unwrap();
    let read = scene.read_all(&scene.open_with(other.path()));
    assert!(read.read_at > 8, "{read:?}");
    let heard = std::mem::take(&mut *scene.heard.lock().unwrap());
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with("cache: "), "{heard:?}");
    backup(&scene.open_with(other.path()), scene.folder.path());
    scene.is_right();
}

#[test]
fn a_fetch_that_fails_leaves_nothing_and_is_an_error_of_the_storage() {
    let scene = Scene::new();
    let other = scratch();
    let repository = scene.open_with(other.path());
    scene
        .storage
        .fail(Operation::ReadAt, 2, ObjectFault::Before(ErrorKind::Io));
    assert!(repository.snapshots().is_err());
    let cache = repository.cache_stats().unwrap().unwrap().folder;
    let left: Vec<_> = std::fs::read_dir(cache.join("snapshots")).unwrap().collect();
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!(repository.snapshots().unwrap().len(), 4);
}

/// A machine with copies can still restore what the repository has lost, which must not hide the loss.
#[test]
fn a_check_finds_damage_of_files_that_have_copies() {
    let scene = Scene::new();
    for folder in ["snapshots", "packs"] {
        for path in scene.copies(folder) {
            let id = path.file_name().unwrap().to_str().unwrap().to_owned();
            let mut names = Vec::new();
            scene.storage.list(folder, &mut |name, _| names.push(name)).unwrap();
            let name = names.into_iter().find(|name| name.as_str().ends_with(&id)).unwrap();
            scene.storage.damage(&name, Damage::FlipBit(8 * 100));
            let report = scene.open().check(ReadData::All).unwrap();
            assert!(
                report.faults.iter().any(|fault| fault.object == name.as_str()),
                "{name}: {report:?}"
            );
            scene.storage.heal();
        }
    }
    scene.is_right();
}
