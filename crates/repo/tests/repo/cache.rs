//! The local cache saves time and never decides: with it, without it, and whatever happens to it, the
//! same is stored, restored and reported.
//!
//! All tests use an index so small that a few files take every way that very large ones take.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ibid_repo::{BackupSummary, MemoryStorage, Monitor, ReadData, Repository, RestoreOptions, Storage, Warning};

use crate::support::{Folder, Random, backup, contents, difference, noise, options, quick, scratch};

/// Opens the repository with a cache in this folder. What it warns of is added to the list.
fn open(storage: &Arc<MemoryStorage>, cache: Option<&Path>, heard: &Arc<Mutex<Vec<String>>>) -> Repository {
    let repository = Repository::open(storage.clone(), Some(b"secret"))
        .unwrap()
        .with_tiny_index();
    let repository = match cache {
        Some(folder) => repository.with_cache(folder),
        None => repository,
    };
    let heard = heard.clone();
    repository.watched_by(&Arc::new(Monitor::new(move |warning| {
        heard.lock().unwrap().push(match warning {
            Warning::Cache { error } => format!("cache: {error}"),
            other => format!("{other:?}"),
        });
    })))
}

/// Returns the number of chunks of data that a backup stored. (Times of entries are stored late if the
/// file is new, so metadata may change once more.)
fn new_chunks(summary: &BackupSummary) -> u64 {
    summary.whole.chunks + summary.deltas.chunks
}

/// A folder whose contents change, and the repository of its versions.
struct Scene {
    storage: Arc<MemoryStorage>,
    folder: Folder,
    random: Random,
    cache: tempfile::TempDir,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new() -> Scene {
        let storage = Arc::new(MemoryStorage::new());
        let init = quick().frame_size(16 << 10).pack_size(1 << 20);
        Repository::init(storage.clone(), Some(b"secret"), &init).unwrap();
        let folder = Folder::scratch();
        for n in 0..2000 {
            folder.write(format!("{n}"), &noise(n, 100 + n as usize % 50));
        }
        Scene {
            storage,
            folder,
            random: Random(1),
            cache: scratch(),
            heard: Arc::default(),
        }
    }

    fn cached(&self) -> Repository {
        open(&self.storage, Some(self.cache.path()), &self.heard)
    }

    fn uncached(&self) -> Repository {
        open(&self.storage, None, &self.heard)
    }

    /// Changes some files.
    fn change(&mut self) {
        for _ in 0..100 {
            let (name, seed) = (self.random.below(2200), self.random.next());
            self.folder.write(name.to_string(), &noise(seed, 100));
        }
    }

    /// Returns the files of the cache.
    fn files(&self) -> Vec<PathBuf> {
        let stats = self.cached().cache_stats().unwrap().unwrap();
        let entries = std::fs::read_dir(stats.folder.join("index")).unwrap();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    /// Asserts that the latest snapshot is what is in the folder, and that nothing is wrong.
    #[track_caller]
    fn is_right(&self, repository: &Repository) {
        let out = scratch();
        let snapshot = repository.snapshot("latest").unwrap();
        let restored = repository.restore(snapshot.at(self.folder.path()), out.path(), &RestoreOptions::default());
        assert_eq!(restored.unwrap().failed, 0);
        let (expected, found) = (contents(self.folder.path()), contents(out.path()));
        assert_eq!(difference(&expected, &found), None);
        let report = repository.check(ReadData::All).unwrap();
        assert!(report.is_clean() && report.notes.is_empty(), "{report:?}");
    }

    fn take_heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }
}

#[test]
fn with_a_cache_and_without_the_same_is_stored_and_read() {
    let mut scene = Scene::new();
    for version in 0..12 {
        let repository = scene.cached();
        let summary = backup(&repository, scene.folder.path());
        assert_eq!(summary.counters.files as usize, contents(scene.folder.path()).len());
        let again = backup(&scene.cached(), scene.folder.path());
        assert_eq!(new_chunks(&again), 0, "all is known: {again:?}");
        assert_eq!(new_chunks(&backup(&scene.uncached(), scene.folder.path())), 0);
        if version % 4 == 0 {
            scene.is_right(&scene.cached());
            scene.is_right(&scene.uncached());
        }
        let stats = |repository: Repository| {
            let all = repository.snapshots().unwrap();
            let mut stats = repository.stats(&all).unwrap();
            stats.index_memory = 0;
            stats
        };
        assert_eq!(stats(scene.cached()), stats(scene.uncached()));
        scene.change();
    }
    assert_eq!(scene.take_heard(), [""; 0]);
    let mut listed = 0;
    scene.storage.list("index", &mut |_, _| listed += 1).unwrap();
    assert!(listed <= 6, "{listed} index files after 36 backups");
    let stats = scene.cached().cache_stats().unwrap().unwrap();
    let sketches = std::fs::read_dir(stats.folder.join("sketches")).unwrap().count();
    assert!((1..8).contains(&stats.runs), "{stats:?}");
    assert!((1..8).contains(&sketches), "{sketches} runs of sketches");
    let (files, bytes) = scene.cached().clear_cache().unwrap();
    assert_eq!((files, bytes), (stats.files, stats.bytes));
    assert!(!stats.folder.exists());
    backup(&scene.cached(), scene.folder.path());
    scene.is_right(&scene.cached());
}

#[test]
fn a_byte_changed_anywhere_in_the_cache_is_noticed_and_does_no_harm() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        backup(&scene.cached(), scene.folder.path());
        scene.change();
    }
    backup(&scene.cached(), scene.folder.path());
    scene.is_right(&scene.cached());
    let files = scene.files();
    let images: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    assert!(images.iter().map(Vec::len).sum::<usize>() > 10 * 4096);
    let mut noticed = 0;
    for (which, image) in images.iter().enumerate() {
        for page in 0..image.len().div_ceil(4096) {
            for file in scene.files() {
                std::fs::remove_file(file).unwrap();
            }
            for (path, image) in files.iter().zip(&images) {
                std::fs::write(path, image).unwrap();
            }
            let mut image = image.clone();
            let last = image.len() - 1;
            image[(page * 4096 + scene.random.below(4096) as usize).min(last)] ^= 1;
            std::fs::write(&files[which], &image).unwrap();
            // The next backup finds that all is stored, and what it makes can be read.
            let repository = scene.cached();
            let summary = repository.backup(&options(scene.folder.path()).force(true)).unwrap();
            assert_eq!(new_chunks(&summary), 0, "page {page}: {summary:?}");
            if page % 5 == 0 {
                scene.is_right(&repository);
            }
            let heard = scene.take_heard();
            assert!(heard.iter().all(|text| text.starts_with("cache: ")), "{heard:?}");
            noticed += usize::from(!heard.is_empty());
        }
    }
    // Bytes of the empty part of the first page, of filters and of some pages are not needed.
    assert!(noticed > 10, "{noticed}");
}

#[test]
fn files_that_are_cut_short_foreign_or_gone_are_made_again() {
    let mut scene = Scene::new();
    backup(&scene.cached(), scene.folder.path());
    scene.change();
    backup(&scene.cached(), scene.folder.path());
    let another = Scene::new();
    backup(&another.cached(), another.folder.path());
    backup(&another.cached(), another.folder.path());
    backup(&scene.cached(), scene.folder.path());
    let foreign = std::fs::read(&another.files()[0]).unwrap();
    type Harm<'a> = &'a dyn Fn(&Path);
    let harms: [(&str, bool, Harm<'_>); 6] = [
        ("cut short", true, &|path| {
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(5000).unwrap();
        }),
        ("empty", true, &|path| std::fs::write(path, b"").unwrap()),
        ("of another repository", true, &|path| {
            std::fs::write(path, &foreign).unwrap()
        }),
        ("of another program", true, &|path| {
            std::fs::write(path, [7; 10_000]).unwrap()
        }),
        ("gone", false, &|path| std::fs::remove_file(path).unwrap()),
        ("all gone", false, &|path| {
            let _ = std::fs::remove_dir_all(path.parent().unwrap().parent().unwrap());
        }),
    ];
    for (harm, is_heard, work) in harms {
        backup(&scene.cached(), scene.folder.path());
        scene.files().iter().for_each(|path| work(path));
        let repository = scene.cached();
        assert_eq!(new_chunks(&backup(&repository, scene.folder.path())), 0, "{harm}");
        scene.is_right(&repository);
        let heard = scene.take_heard();
        assert_eq!(!heard.is_empty(), is_heard, "{harm}: {heard:?}");
        assert!(!scene.files().is_empty(), "{harm}");
    }
}

#[test]
fn a_cache_from_long_ago_is_no_harm_and_neither_is_one_that_vanishes_meanwhile() {
    let mut scene = Scene::new();
    backup(&scene.cached(), scene.folder.path());
    backup(&scene.cached(), scene.folder.path());
    let old: Vec<(PathBuf, Vec<u8>)> = scene
        .files()
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    for _ in 0..5 {
        scene.change();
        backup(&scene.cached(), scene.folder.path());
    }
    // The old files beside the new ones, then alone.
    for _ in 0..2 {
        for (path, bytes) in &old {
            std::fs::write(path, bytes).unwrap();
        }
        let repository = scene.cached();
        assert_eq!(new_chunks(&backup(&repository, scene.folder.path())), 0);
        scene.is_right(&repository);
        scene
            .files()
            .into_iter()
            .for_each(|path| std::fs::remove_file(path).unwrap());
    }
    backup(&scene.cached(), scene.folder.path());
    // Runs that are open stay readable when their files are deleted.
    let repository = scene.cached();
    let snapshot = repository.snapshot("latest").unwrap();
    repository
        .dump(snapshot.at(&scene.folder.path().join("7")), Vec::new())
        .unwrap();
    let folder = repository.cache_stats().unwrap().unwrap().folder;
    std::fs::remove_dir_all(&folder).unwrap();
    scene.is_right(&repository);
    scene.change();
    backup(&repository, scene.folder.path());
    scene.is_right(&scene.uncached());
}

#[test]
fn chunks_of_a_pack_that_is_lost_are_stored_again_though_the_cache_knows_them() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        backup(&scene.cached(), scene.folder.path());
        scene.change();
    }
    backup(&scene.cached(), scene.folder.path());
    let mut packs = Vec::new();
    scene.storage.list("packs", &mut |name, _| packs.push(name)).unwrap();
    for pack in packs {
        scene.storage.delete(&pack).unwrap();
        let report = scene.cached().check(ReadData::No).unwrap();
        let without = scene.uncached().check(ReadData::No).unwrap();
        assert_eq!(report.faults, without.faults);
        assert_eq!(report.affected, without.affected);
        assert!(!report.faults.is_empty() || !report.notes.is_empty(), "{report:?}");
        let repository = scene.cached();
        repository.backup(&options(scene.folder.path())).unwrap();
        let out = scratch();
        let snapshot = repository.snapshot("latest").unwrap();
        let restored = repository.restore(snapshot.at(scene.folder.path()), out.path(), &RestoreOptions::default());
        assert_eq!(restored.unwrap().failed, 0);
        let (expected, found) = (contents(scene.folder.path()), contents(out.path()));
        assert_eq!(difference(&expected, &found), None);
    }
}

#[test]
fn several_processes_use_one_cache() {
    let scene = Scene::new();
    let folders: Vec<Folder> = (0..4)
        .map(|n| {
            let folder = Folder::scratch();
            for file in 0..300 {
                folder.write(file.to_string(), &noise(file * (n % 2 + 1), 200));
            }
            folder
        })
        .collect();
    std::thread::scope(|scope| {
        for folder in &folders {
            scope.spawn(|| {
                for version in 0..15 {
                    folder.write("changes", &noise(version, 5000));
                    // A new handle is what a new process has.
                    backup(&scene.cached(), folder.path());
                }
            });
        }
    });
    let heard = scene.take_heard();
    assert_eq!(heard, [""; 0]);
    let repository = scene.cached();
    for folder in &folders {
        let again = backup(&repository, folder.path());
        assert_eq!(new_chunks(&again), 0, "{again:?}");
        let out = scratch();
        let snapshot = repository.snapshot("latest").unwrap();
        let restored = repository.restore(snapshot.at(folder.path()), out.path(), &RestoreOptions::default());
        assert_eq!(restored.unwrap().failed, 0);
        assert_eq!(difference(&contents(folder.path()), &contents(out.path())), None);
    }
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    let stats = repository.cache_stats().unwrap().unwrap();
    assert!(stats.runs < 12, "{stats:?}");
}

#[test]
fn a_pack_that_is_lost_with_all_index_files_is_missed_though_the_parent_was_complete() {
    let mut scene = Scene::new();
    for _ in 0..2 {
        backup(&scene.cached(), scene.folder.path());
        scene.change();
    }
    // Files whose times are settled are not read again.
    std::thread::sleep(std::time::Duration::from_millis(50));
    backup(&scene.cached(), scene.folder.path());
    let again = backup(&scene.cached(), scene.folder.path());
    assert_eq!(again.unchanged_files, again.counters.files, "{again:?}");
    let names = |folder| {
        let mut names = Vec::new();
        scene
            .storage
            .list(folder, &mut |name, size| names.push((name, size)))
            .unwrap();
        names
    };
    let (largest, _) = names("packs").into_iter().max_by_key(|(_, size)| *size).unwrap();
    scene.storage.delete(&largest).unwrap();
    names("index")
        .iter()
        .for_each(|(name, _)| scene.storage.delete(name).unwrap());
    let repository = scene.cached();
    let healed = backup(&repository, scene.folder.path());
    assert!(healed.unchanged_files < healed.counters.files, "{healed:?}");
    let out = scratch();
    let snapshot = repository.snapshot("latest").unwrap();
    let restored = repository.restore(snapshot.at(scene.folder.path()), out.path(), &RestoreOptions::default());
    assert_eq!(restored.unwrap().failed, 0);
    assert_eq!(difference(&contents(scene.folder.path()), &contents(out.path())), None);
}

#[test]
fn a_check_finds_damage_of_files_that_the_cache_stands_for() {
    let mut scene = Scene::new();
    for _ in 0..3 {
        backup(&scene.cached(), scene.folder.path());
        scene.change();
    }
    backup(&scene.cached(), scene.folder.path());
    assert!(scene.cached().check(ReadData::No).unwrap().is_clean());
    let mut names = Vec::new();
    scene.storage.list("index", &mut |name, _| names.push(name)).unwrap();
    for name in names {
        let mut bytes = scene.storage.get(&name, u64::MAX).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        scene.storage.delete(&name).unwrap();
        scene.storage.put(&name, &[&bytes]).unwrap();
        let report = scene.cached().check(ReadData::No).unwrap();
        assert!(
            report.faults.iter().any(|fault| fault.object == name.as_str()),
            "{report:?}"
        );
    }
    // The cache still knows what these files listed.
    let out = scratch();
    let repository = scene.cached();
    let snapshot = repository.snapshot("latest").unwrap();
    let restored = repository.restore(snapshot.at(scene.folder.path()), out.path(), &RestoreOptions::default());
    assert_eq!(restored.unwrap().failed, 0);
}
