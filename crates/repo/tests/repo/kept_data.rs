//! If the storage is reached over a network, the local cache keeps data that backups stored or needed. It saves
//! reading, and never decides.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ibid_repo::{
    BackupSummary, CACHED_DATA_DEFAULT, MemoryStorage, Monitor, PruneOptions, ReadData, Repository, RestoreOptions,
    Storage, Warning,
};
use ibid_storage::fault::{Counts, Damage, Flaky};

use crate::support::{Folder, Random, backup, contents, difference, noise, quick, scratch};

const FILES: u64 = 12;
const LENGTH: usize = 300_000;

/// Files that change a little from version to version, and the repository of these versions.
struct Scene {
    storage: Arc<Flaky<MemoryStorage>>,
    folder: Folder,
    random: Random,
    cache: tempfile::TempDir,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new() -> Scene {
        let storage = Arc::new(Flaky::new(MemoryStorage::new()));
        let init = quick().frame_size(256 << 10).pack_size(1 << 20);
        Repository::init(storage.clone(), Some(b"secret"), &init).unwrap();
        let folder = Folder::scratch();
        for n in 0..FILES {
            folder.write(n.to_string(), &noise(n, LENGTH));
        }
        Scene {
            storage,
            folder,
            random: Random(1),
            cache: scratch(),
            heard: Arc::default(),
        }
    }

    fn open_with(&self, cache: &Path, data: u64) -> Repository {
        let repository = Repository::open(self.storage.clone(), Some(b"secret")).unwrap();
        let heard = self.heard.clone();
        let monitor = Monitor::new(move |warning| {
            heard.lock().unwrap().push(match warning {
                Warning::Cache { error } => format!("cache: {error}"),
                other => format!("{other:?}"),
            });
        });
        let repository = repository.with_cached_data(data).with_cache(cache);
        repository.watched_by(&Arc::new(monitor))
    }

    fn open(&self) -> Repository {
        self.open_with(self.cache.path(), CACHED_DATA_DEFAULT)
    }

    /// Changes all files a little.
    fn change(&mut self) {
        for n in 0..FILES {
            let mut bytes = std::fs::read(self.folder.path().join(n.to_string())).unwrap();
            for _ in 0..20 {
                let at = self.random.below(LENGTH as u64) as usize;
                bytes[at] ^= 0x55;
            }
            self.folder.write(n.to_string(), &bytes);
        }
    }

    /// Changes all files a little, and makes a backup. Returns it, and what it took of the storage.
    fn next(&mut self, repository: &Repository) -> (BackupSummary, Counts) {
        self.change();
        let before = self.storage.counts();
        let summary = backup(repository, self.folder.path());
        let after = self.storage.counts();
        let read = Counts {
            read_at: after.read_at - before.read_at,
            bytes_read: after.bytes_read - before.bytes_read,
            ..Counts::default()
        };
        (summary, read)
    }

    /// Returns the files with data in a cache.
    fn kept(&self, cache: &Path) -> Vec<PathBuf> {
        let repository = self.open_with(cache, CACHED_DATA_DEFAULT);
        let folder = repository.cache_stats().unwrap().unwrap().folder.join("data");
        let Ok(files) = std::fs::read_dir(folder) else {
            return Vec::new();
        };
        let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Restores the latest snapshot and compares it with the folder. Returns how often the storage was read.
    #[track_caller]
    fn restores(&self, repository: &Repository) -> u64 {
        let out = scratch();
        let before = self.storage.counts().read_at;
        let snapshot = repository.snapshot("latest").unwrap();
        let restored = repository.restore(snapshot.at(self.folder.path()), out.path(), &RestoreOptions::default());
        assert_eq!(restored.unwrap().failed, 0);
        assert_eq!(difference(&contents(self.folder.path()), &contents(out.path())), None);
        self.storage.counts().read_at - before
    }

    #[track_caller]
    fn is_clean(&self) {
        let report = self.open().check(ReadData::All).unwrap();
        assert!(report.is_clean() && report.notes.is_empty(), "{report:?}");
        assert_eq!(*self.heard.lock().unwrap(), [""; 0]);
    }
}

#[test]
fn the_machine_that_made_backups_reads_no_data_from_the_storage() {
    let mut scene = Scene::new();
    scene.next(&scene.open());
    for _ in 0..4 {
        let (summary, read) = scene.next(&scene.open());
        assert!(summary.deltas.chunks >= FILES, "{summary:?}");
        assert_eq!(read.read_at, 0);
    }
    assert_eq!(scene.restores(&scene.open()), 0);
    let stats = scene.open().cache_stats().unwrap().unwrap();
    let data = FILES * LENGTH as u64;
    assert!(stats.data_bytes >= data && stats.data_bytes < 2 * data, "{stats:?}");
    scene.is_clean();
}

#[test]
fn what_a_backup_has_read_is_not_read_again_by_the_next_one() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.next(&scene.open());
    }
    let other = scratch();
    let open = |scene: &Scene| scene.open_with(other.path(), CACHED_DATA_DEFAULT);
    let (first, read) = scene.next(&open(&scene));
    assert!(
        first.deltas.chunks >= FILES && read.bytes_read > FILES * LENGTH as u64,
        "{read:?}"
    );
    for _ in 0..2 {
        let (next, read) = scene.next(&open(&scene));
        assert!(next.deltas.chunks >= FILES, "{next:?}");
        assert_eq!(read.read_at, 0);
    }
    assert_eq!(scene.restores(&open(&scene)), 0);

    // A restore alone keeps nothing: it would push out what backups need.
    let restores_only = scratch();
    assert!(scene.restores(&scene.open_with(restores_only.path(), CACHED_DATA_DEFAULT)) > 0);
    assert_eq!(scene.kept(restores_only.path()), [""; 0].map(PathBuf::from));
    scene.is_clean();
}

#[test]
fn a_part_that_is_damaged_cut_short_or_of_another_pack_is_noticed_and_the_storage_is_read() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.next(&scene.open());
    }
    type Harm = fn(&mut Vec<u8>);
    let harms: [Harm; 4] = [
        |bytes| bytes.iter_mut().step_by(1000).for_each(|byte| *byte ^= 1),
        |bytes| bytes.truncate(bytes.len() / 2),
        Vec::clear,
        |bytes| bytes.reverse(),
    ];
    for harm in harms {
        scene.next(&scene.open());
        let files = scene.kept(scene.cache.path());
        assert!(!files.is_empty());
        for path in &files {
            let mut bytes = std::fs::read(path).unwrap();
            harm(&mut bytes);
            std::fs::write(path, bytes).unwrap();
        }
        assert!(scene.restores(&scene.open()) > 0);
        let (next, read) = scene.next(&scene.open());
        assert!(next.deltas.chunks >= FILES && read.read_at > 0, "{next:?} {read:?}");
        scene.restores(&scene.open());
    }
    scene.is_clean();
}

/// A machine that keeps data can restore what the repository has lost, which must not hide the loss.
#[test]
fn a_check_finds_damage_of_packs_whose_data_is_kept() {
    let mut scene = Scene::new();
    scene.next(&scene.open());
    let mut names = Vec::new();
    scene
        .storage
        .list("packs", &mut |name, size| names.push((size, name)))
        .unwrap();
    let (_, name) = names.into_iter().max().unwrap();
    scene.storage.damage(&name, Damage::FlipBit(8 * 5000));
    assert_eq!(scene.restores(&scene.open()), 0);
    let report = scene.open().check(ReadData::All).unwrap();
    assert!(
        report.faults.iter().any(|fault| fault.object == name.as_str()),
        "{report:?}"
    );
}

#[test]
fn no_more_is_kept_than_is_allowed_and_what_was_not_used_for_longest_goes_first() {
    let mut scene = Scene::new();
    let limit = 4 << 20;
    let open = |scene: &Scene| scene.open_with(scene.cache.path(), limit);
    for _ in 0..3 {
        scene.next(&open(&scene));
    }
    for large in 0..3 {
        scene.folder.write("large", &noise(100 + large, 8 << 20));
        scene.next(&open(&scene));
        let stats = scene.open().cache_stats().unwrap().unwrap();
        assert!(stats.data_bytes > 0 && stats.data_bytes <= limit, "{stats:?}");
        scene.restores(&open(&scene));
    }
    let none = scene.open_with(scene.cache.path(), 0);
    scene.next(&none);
    assert_eq!(scene.open().cache_stats().unwrap().unwrap().data_bytes, 0);
    scene.is_clean();
}

#[test]
fn the_data_of_packs_that_were_pruned_goes() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        scene.next(&scene.open());
    }
    let before = scene.kept(scene.cache.path());
    let another = scratch();
    let repository = scene.open_with(another.path(), CACHED_DATA_DEFAULT);
    let all: Vec<_> = repository.snapshots().unwrap().iter().map(|info| info.id).collect();
    repository.forget(&all).unwrap();
    repository.prune(&PruneOptions::default()).unwrap();
    assert_eq!(scene.kept(scene.cache.path()), before, "this machine does not know yet");
    for n in 0..FILES {
        scene.folder.write(n.to_string(), &noise(1000 + n, LENGTH));
    }
    backup(&scene.open(), scene.folder.path());
    let after = scene.kept(scene.cache.path());
    assert!(
        !after.is_empty() && after.iter().all(|path| !before.contains(path)),
        "{after:?}"
    );
    scene.is_clean();

    // The machine that prunes deletes them itself.
    let repository = scene.open();
    let all: Vec<_> = repository.snapshots().unwrap().iter().map(|info| info.id).collect();
    repository.forget(&all).unwrap();
    repository.prune(&PruneOptions::default()).unwrap();
    assert_eq!(scene.kept(scene.cache.path()), [""; 0].map(PathBuf::from));
}

#[test]
fn where_nothing_can_be_kept_one_warning_says_so() {
    let mut scene = Scene::new();
    let cache = scene.open().cache_stats().unwrap().unwrap().folder;
    std::fs::create_dir_all(&cache).unwrap();
    // A file is in the way of the folder.
    std::fs::write(cache.join("data"), b"").unwrap();
    scene.next(&scene.open());
    let heard = std::mem::take(&mut *scene.heard.lock().unwrap());
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with("cache: "), "{heard:?}");
    scene.restores(&scene.open());
}

#[test]
fn on_a_disk_of_this_machine_no_data_is_kept() {
    let (folder, place, cache) = (Folder::scratch(), scratch(), scratch());
    folder.write("file", &noise(1, LENGTH));
    let storage = Arc::new(ibid_storage::Local::create(place.path().join("repository")).unwrap());
    let repository = Repository::init(storage, Some(b"secret"), &quick())
        .unwrap()
        .with_cache(cache.path());
    backup(&repository, folder.path());
    assert_eq!(repository.cache_stats().unwrap().unwrap().data_bytes, 0);
}
