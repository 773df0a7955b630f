//! How often a far storage is asked, however large the repository is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ibid_repo::scale::SyntheticIndex;
use ibid_repo::{Error, KeyOptions, MemoryStorage, Monitor, PruneOptions, Repository, RestoreOptions, Storage};
use ibid_storage::fault::Flaky;
use ibid_storage::{Error as StorageError, Name};

use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, backup, noise, quick, scratch};

/// Names in a page of a list.
const PAGE: u64 = 1000;

/// Counts requests as a server of objects does, of a repository most of whose packs are only listed.
struct Counted {
    inner: Flaky<Arc<MemoryStorage>>,
    index: SyntheticIndex,
    /// Requests beside those that [`Flaky`] counts: pages of lists after the first.
    pages: AtomicU64,
    tells_absence: bool,
}

impl Counted {
    fn requests(&self) -> u64 {
        let counts = self.inner.counts();
        let calls = counts.put + counts.get + counts.read_at + counts.size + counts.list + counts.delete;
        calls + self.pages.load(Ordering::Relaxed)
    }

    fn each_listed_pack(&self, each: &mut dyn FnMut(Name, u64)) {
        for (id, size) in (0..self.index.packs()).map(|number| self.index.pack(number)) {
            let hex = id.to_string();
            each(Name::new(&format!("packs/{}/{hex}", &hex[..2])).unwrap(), size);
        }
    }
}

impl Hooks for Counted {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), StorageError> {
        let mut listed: u64 = 0;
        self.inner.list(folder, &mut |name, size| {
            listed += 1;
            each(name, size);
        })?;
        if folder == "packs" {
            listed += self.index.packs();
            self.each_listed_pack(each);
        }
        self.pages
            .fetch_add(listed.max(1).div_ceil(PAGE) - 1, Ordering::Relaxed);
        Ok(())
    }

    /// As a server does it: one page has several folders, and another what comes after one that does not fit.
    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, StorageError> {
        let mut listed = self.index.packs();
        let has_many = listed >= PAGE;
        for folder in folders.iter().filter(|folder| **folder != "packs" || !has_many) {
            let stored = self.inner.inner();
            stored.list(folder, &mut |name, size| {
                listed += 1;
                each(name, size);
            })?;
            if let Ok(size) = Name::new(folder).map_or(Ok(0), |name| stored.size(&name)) {
                each(Name::new(folder).unwrap(), size);
            }
        }
        let fits = listed < PAGE;
        if fits {
            self.each_listed_pack(each);
        }
        self.pages.fetch_add(if fits { 1 } else { 2 }, Ordering::Relaxed);
        Ok(folders.iter().map(|folder| fits || *folder != "packs").collect())
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn tells_absence(&self) -> bool {
        self.tells_absence
    }
}

impl Counted {
    /// Returns how many lists were asked for.
    fn lists(&self) -> u64 {
        self.inner.counts().list + self.pages.load(Ordering::Relaxed)
    }
}

/// Makes backups into a repository of so many chunks, and returns what each took: the first one, one of the same, one
/// with a changed file, and one without a cache.
fn requests_of_backups(chunks: u64) -> [u64; 4] {
    let index = SyntheticIndex { chunks };
    let memory = Arc::new(MemoryStorage::new());
    Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let storage = Arc::new(Hooked(Counted {
        inner: Flaky::new(memory),
        index,
        pages: AtomicU64::new(0),
        tells_absence: true,
    }));
    let cache = scratch();
    let open = || Repository::open(storage.clone(), Some(b"secret")).unwrap();
    index.write(&open().with_cache(cache.path()), |_| {}).unwrap();
    let folder = Folder::new();
    for number in 0..100 {
        folder.write(number.to_string(), &noise(number, 5000));
    }
    // Files whose times are settled are not read again.
    std::thread::sleep(Duration::from_millis(50));
    let of = |open: &dyn Fn() -> Repository| {
        let before = storage.0.requests();
        let options = ibid_repo::BackupOptions::default()
            .path(folder.path())
            .similarity(ibid_repo::Similarity::Off);
        let packs = open().backup(&options).unwrap().packs;
        (storage.0.requests() - before, packs)
    };
    let cached = || {
        let probe = Repository::probe_with_cache(storage.as_ref(), cache.path()).unwrap();
        let repository = probe.open_to_back_up(storage.clone(), Some(b"secret")).unwrap();
        repository.with_cache(cache.path())
    };
    let (first, _) = of(&cached);
    // Those after it may store times of folders that were too new for it.
    let nothing_new = std::iter::repeat_with(|| of(&cached)).find(|(_, packs)| *packs == 0);
    let (again, _) = nothing_new.unwrap();
    folder.write("7", &noise(1000, 5000));
    let (changed, _) = of(&cached);
    [first, again, changed, of(&open).0]
}

/// One list of all before anything else, from which is planned what goes. Then, for each of the three entries of its
/// log, what the entry is computed from, as `docs/prune.md` has it: snapshots and what an index is loaded from for the
/// first and the third, sessions for the second. The last is for what is left. Where it must be made durable that a
/// snapshot is gone, snapshots, what was forgotten, and the rest are listed one after the other before the plan.
#[test]
fn a_prune_lists_what_each_entry_of_its_log_is_computed_from_and_nothing_twice() {
    for (tells_absence, of_plan) in [(false, 0), (true, 3)] {
        prune_and_count_lists(tells_absence, of_plan);
    }
}

fn prune_and_count_lists(tells_absence: bool, of_plan: u64) {
    let memory = Arc::new(MemoryStorage::new());
    Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let storage = Arc::new(Hooked(Counted {
        inner: Flaky::new(memory),
        index: SyntheticIndex { chunks: 0 },
        pages: AtomicU64::new(0),
        tells_absence,
    }));
    let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
    let folder = Folder::new();
    let backups = [0, 1, 2].map(|version| {
        for number in 0..100 {
            folder.write(number.to_string(), &noise(version * number, 5000));
        }
        let options = ibid_repo::BackupOptions::default().path(folder.path());
        repository.backup(&options).unwrap().id.unwrap()
    });
    repository.forget(&backups[..2]).unwrap();
    let before = storage.0.lists();
    let pruned = repository.prune(&PruneOptions::default()).unwrap();
    assert!(pruned.packs_deleted > 1 && pruned.packs_written > 0, "{pruned:?}");
    assert!(pruned.encoded_anew > 0);
    assert_eq!(storage.0.lists() - before, 1 + of_plan + (1 + 1 + 1) + 1);
    let before = storage.0.lists();
    let pruned = repository.prune(&PruneOptions::default()).unwrap();
    assert_eq!(pruned.packs_deleted, 0);
    assert_eq!(storage.0.lists() - before, 1 + of_plan + 1, "nothing goes");
}

/// The cache goes with the prune.
#[test]
fn a_prune_without_a_cache_asks_as_often_as_one_with_an_empty_cache() {
    let tree = Folder::new();
    let memory = Arc::new(MemoryStorage::new());
    let repository = Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let mut text = noise(7, 400_000);
    let backups = [0, 1, 2, 3, 4, 5].map(|version| {
        for number in 0..20 {
            text[number * 20_000 + version * 100] ^= 1;
            tree.write(number.to_string(), &text[number * 20_000..][..20_000]);
        }
        backup(&repository, tree.path()).id.unwrap()
    });
    repository.forget(&backups[..4]).unwrap();
    let (cache, temporary) = (scratch(), scratch());
    let prune = |is_cached: bool| {
        let copy = Arc::new(MemoryStorage::new());
        memory
            .list("", &mut |name, _| {
                copy.put(&name, &[&memory.get(&name, u64::MAX).unwrap()]).unwrap()
            })
            .unwrap();
        let storage = far(&copy);
        let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
        let repository = match is_cached {
            true => repository.with_cache(cache.path()),
            false => repository.with_scratch(temporary.path()),
        };
        let (before, options) = (storage.0.requests(), PruneOptions::default());
        repository.prune_estimate(&options).unwrap();
        let of_estimate = storage.0.requests() - before;
        let pruned = repository.prune(&options).unwrap();
        assert!(pruned.packs_deleted > 1 && pruned.encoded_anew > 0, "{pruned:?}");
        (of_estimate, storage.0.requests() - before)
    };
    let (cached, without) = (prune(true), prune(false));
    assert_eq!(without.0, cached.0, "an estimate");
    // The estimate has filled the cache.
    assert!(without.1 <= cached.1 + cached.0, "{without:?} {cached:?}");
    let left = std::fs::read_dir(temporary.path()).unwrap().count();
    assert_eq!(left, 0, "files are left behind");
}

/// Answers what is read of a folder only once so much was asked for at once.
#[derive(Default)]
struct Together {
    inner: MemoryStorage,
    folder: &'static str,
    asked: AtomicU64,
    /// So many are answered at once.
    free: AtomicU64,
    awaited: AtomicU64,
}

impl Together {
    fn expect(&self, free: u64, awaited: u64) {
        self.asked.store(0, Ordering::SeqCst);
        self.free.store(free, Ordering::SeqCst);
        self.awaited.store(free + awaited, Ordering::SeqCst);
    }

    fn answer(&self, name: &Name) {
        if !name.is_in(self.folder) {
            return;
        }
        let since = Instant::now();
        let before = self.asked.fetch_add(1, Ordering::SeqCst);
        let awaited = self.awaited.load(Ordering::SeqCst);
        while before >= self.free.load(Ordering::SeqCst) && self.asked.load(Ordering::SeqCst) < awaited {
            let asked = self.asked.load(Ordering::SeqCst);
            assert!(
                since.elapsed() < Duration::from_secs(120),
                "{asked} of {awaited} were asked for"
            );
            std::thread::yield_now();
        }
    }

    /// Fails unless all that was expected was asked for since then.
    fn check(&self) {
        let (asked, awaited) = (
            self.asked.load(Ordering::SeqCst),
            self.awaited.swap(0, Ordering::SeqCst),
        );
        assert!(asked >= awaited, "{asked} of {awaited}");
    }
}

impl Hooks for Together {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, StorageError> {
        self.answer(name);
        self.inner.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), StorageError> {
        self.answer(name);
        self.inner.read_at(name, offset, buffer)
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// Returns a repository with ten backups. Before each, one of the folders of the tree gets another file.
fn ten_backups(folder: &'static str, tree: &Folder) -> Arc<Hooked<Together>> {
    let storage = Arc::new(Hooked(Together {
        folder,
        ..Together::default()
    }));
    Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
    let options = ibid_repo::BackupOptions::default().path(tree.path());
    for number in 0..10 {
        tree.write(format!("{number}/file"), &noise(number, 50_000));
        // Of files that have just changed, a backup stores less, and the next one the rest.
        std::thread::sleep(Duration::from_millis(50));
        repository.backup(&options).unwrap();
    }
    storage
}

/// Calls `work` with a repository whose cache is empty, and fails unless it asks for so much at once, after what it
/// asks for first.
fn asks_at_once(storage: &Arc<Hooked<Together>>, first: u64, at_once: u64, work: &dyn Fn(&Repository)) {
    let cache = scratch();
    let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
    storage.expect(first, at_once);
    work(&repository.with_cache(cache.path()));
    storage.check();
}

#[test]
fn a_prune_reads_files_of_sketches_at_once() {
    let tree = Folder::new();
    let storage = ten_backups("sketches", &tree);
    let files = || {
        let mut files = 0;
        storage.inner.list("sketches", &mut |_, _| files += 1).unwrap();
        files
    };
    let before = files();
    assert!((9..=16).contains(&before), "{before}");
    asks_at_once(&storage, 0, before, &|repository| {
        repository.prune(&PruneOptions::default()).unwrap();
    });
    assert_eq!(files(), 1);
}

/// Without them in the cache, a walk of ten trees would wait for ten requests, one after the other.
#[test]
fn what_the_roots_of_snapshots_are_in_is_fetched_at_once() {
    let tree = Folder::new();
    let storage = ten_backups("packs", &tree);
    let snapshots = Repository::open(storage.clone(), Some(b"secret")).unwrap().snapshots();
    let snapshots = snapshots.unwrap();
    let of = |work: &dyn Fn(&Repository)| asks_at_once(&storage, 0, 10, work);
    of(&|repository| {
        let patterns = ibid_repo::Patterns::new(&["file"], false).unwrap();
        let search = repository.search(&patterns).unwrap();
        search.prefetch(&snapshots).unwrap();
    });
    of(&|repository| assert_eq!(repository.stats(&snapshots).unwrap().snapshots, 10));
    of(&|repository| assert_eq!(repository.prune_estimate(&PruneOptions::default()).unwrap().unused, 0));
}

/// Each folder of the tree is as another backup has stored it. The last of them has stored the root, too.
#[test]
fn what_the_folders_of_a_tree_are_in_is_fetched_at_once() {
    let tree = Folder::new();
    let storage = ten_backups("packs", &tree);
    let of = |work: &dyn Fn(&Repository)| asks_at_once(&storage, 1, 9, work);
    let out = Folder::new();
    of(&|repository| {
        let latest = repository.snapshot("latest").unwrap();
        let restored = repository.restore(&latest, out.path().join("out"), &RestoreOptions::default());
        assert_eq!(restored.unwrap().files, 10);
    });
    of(&|repository| {
        let options = ibid_repo::BackupOptions::default().path(tree.path());
        let again = repository.backup(&options).unwrap();
        assert!(again.counters.new_bytes < 1000, "{}", again.counters.new_bytes);
    });
}

/// What a backup of a changed file asks more if it looks for similar data: a list of sketches, one of its own that it
/// stores, and frames that are not kept.
#[test]
fn a_backup_takes_as_many_requests_in_a_large_repository() {
    let [first, again, changed, _] = requests_of_backups(1000);
    let [first_of_many, again_of_many, changed_of_many, without_cache] = requests_of_backups(400_000);
    assert_eq!((again, changed), (4, 7));
    assert_eq!(
        (again_of_many, changed_of_many),
        (again + 1, changed + 1),
        "what comes after packs is listed, and packs are not"
    );
    // 3125 packs.
    assert_eq!(first_of_many, first + 1 + 4);
    assert!(without_cache >= changed + 3, "{without_cache}");
}

#[test]
#[ignore = "takes 180 MB of memory or disk"]
fn a_backup_among_ten_million_chunks_takes_five_requests_if_nothing_is_new() {
    let [first, again, changed, _] = requests_of_backups(10_000_000);
    // 78 125 packs are listed once a day.
    assert_eq!((first, again, changed), (87, 5, 8));
}

/// Shows folders together as a server may do it that stores something meanwhile: without the packs that came last.
struct ListedAtOnce {
    inner: Arc<MemoryStorage>,
    late: Mutex<Vec<Name>>,
}

impl Hooks for ListedAtOnce {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), StorageError> {
        if name.is_in("packs") {
            self.late.lock().unwrap().push(name.clone());
        }
        self.inner.put(name, parts)
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, StorageError> {
        let late = self.late.lock().unwrap().clone();
        for folder in folders {
            self.inner.list(folder, &mut |name, size| {
                if !late.contains(&name) {
                    each(name, size);
                }
            })?;
        }
        Ok(vec![true; folders.len()])
    }

    fn is_remote(&self) -> bool {
        true
    }
}

#[test]
fn a_pack_is_not_missing_because_it_came_while_folders_were_listed_together() {
    let storage = Arc::new(Hooked(ListedAtOnce {
        inner: Arc::default(),
        late: Mutex::default(),
    }));
    Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::new();
    folder.write("a", &noise(1, 300_000));
    let options = ibid_repo::BackupOptions::default().path(folder.path());
    let open = |warned: &Arc<Mutex<Vec<String>>>| {
        let warned = warned.clone();
        let monitor = Monitor::new(move |warning| warned.lock().unwrap().push(format!("{warning:?}")));
        let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
        repository.watched_by(&Arc::new(monitor))
    };
    let warned = Arc::default();
    open(&warned).backup(&options).unwrap();
    assert!(storage.late.lock().unwrap().len() >= 2, "packs of data and of trees");
    // Its index file and its snapshot are listed, and its packs are not.
    let again = open(&warned).backup(&options).unwrap();
    // At most a folder whose times were too new for the first one.
    assert!(again.counters.new_bytes < 10_000, "{}", again.counters.new_bytes);
    let snapshot = open(&warned).snapshot("latest").unwrap();
    let mut read = Vec::new();
    let at = folder.path().join("a");
    open(&warned).dump(snapshot.at(&at), &mut read).unwrap();
    assert!(read == noise(1, 300_000));
    assert_eq!(*warned.lock().unwrap(), Vec::<String>::new());
}

/// Shows folders together as a server may do it that stores a backup meanwhile: once, of what is stored last there is
/// the snapshot, and nothing else.
#[derive(Default)]
struct SnapshotFirst {
    inner: MemoryStorage,
    late: Mutex<Vec<Name>>,
    hides: AtomicBool,
    hidden: AtomicU64,
}

impl Hooks for SnapshotFirst {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), StorageError> {
        if !name.is_in("snapshots") {
            self.late.lock().unwrap().push(name.clone());
        }
        self.inner.put(name, parts)
    }

    fn list_together(&self, folders: &[&str], each: &mut dyn FnMut(Name, u64)) -> Result<Vec<bool>, StorageError> {
        let late = match self.hides.swap(false, Ordering::Relaxed) {
            true => std::mem::take(&mut *self.late.lock().unwrap()),
            false => Vec::new(),
        };
        for folder in folders {
            self.inner.list(folder, &mut |name, size| match late.contains(&name) {
                true => drop(self.hidden.fetch_add(1, Ordering::Relaxed)),
                false => each(name, size),
            })?;
        }
        Ok(vec![true; folders.len()])
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn tells_absence(&self) -> bool {
        false
    }
}

#[test]
fn a_prune_takes_no_snapshot_for_damaged_because_it_came_while_folders_were_listed_together() {
    let storage = Arc::new(Hooked(SnapshotFirst::default()));
    Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let warned: Arc<Mutex<Vec<String>>> = Arc::default();
    let monitor = Arc::new(Monitor::new({
        let warned = warned.clone();
        move |warning| warned.lock().unwrap().push(format!("{warning:?}"))
    }));
    let repository = Repository::open(storage.clone(), Some(b"secret"))
        .unwrap()
        .watched_by(&monitor);
    let folder = Folder::new();
    folder.write("a", &noise(1, 300_000));
    let gone = backup(&repository, folder.path()).id.unwrap();
    folder.write("a", &noise(2, 300_000));
    storage.late.lock().unwrap().clear();
    backup(&repository, folder.path());
    repository.forget(&[gone]).unwrap();
    storage.hides.store(true, Ordering::Relaxed);
    let pruned = repository.prune(&PruneOptions::default()).unwrap();
    assert!(storage.hidden.load(Ordering::Relaxed) > 2, "nothing was late");
    assert!(pruned.freed() > 250_000, "{pruned:?}");
    let snapshot = repository.snapshot("latest").unwrap();
    let (mut read, at) = (Vec::new(), folder.path().join("a"));
    repository.dump(snapshot.at(&at), &mut read).unwrap();
    assert!(read == noise(2, 300_000));
    assert_eq!(*warned.lock().unwrap(), Vec::<String>::new());
}

/// Returns a repository's storage as a server has it.
fn far(memory: &Arc<MemoryStorage>) -> Arc<Hooked<Counted>> {
    Arc::new(Hooked(Counted {
        inner: Flaky::new(memory.clone()),
        index: SyntheticIndex { chunks: 0 },
        pages: AtomicU64::new(0),
        tells_absence: true,
    }))
}

#[test]
fn a_cache_remembers_what_opened_a_repository_and_does_not_stand_in_for_it() {
    let memory = Arc::new(MemoryStorage::new());
    let cache = scratch();
    let open = |memory: &Arc<MemoryStorage>, password: &[u8]| {
        let storage = far(memory);
        let probe = Repository::probe_with_cache(storage.as_ref(), cache.path())?;
        let opened = probe.open(storage.clone(), Some(password))?;
        Ok::<_, Error>((opened.with_cache(cache.path()), storage.requests()))
    };
    Repository::init(memory.clone(), Some(b"first"), &quick()).unwrap();
    let (repository, requests) = open(&memory, b"first").unwrap();
    assert_eq!(requests, 3, "the config, a list of keys, and the key");
    assert_eq!(open(&memory, b"first").unwrap().1, 1, "the key");

    // Another password is found, and remembered in turn. A wrong one is refused.
    repository
        .add_key(b"second", &KeyOptions::default().cost(quick().cost))
        .unwrap();
    let (with_second, requests) = open(&memory, b"second").unwrap();
    assert!(requests <= 4, "{requests}");
    assert_eq!(open(&memory, b"second").unwrap().1, 1);
    let refused = open(&memory, b"third").unwrap_err();
    assert!(matches!(refused, Error::WrongPassword { slots: 2, .. }), "{refused}");

    // A key that was removed opens nothing any more.
    let first = repository.keys().unwrap().iter().find(|key| key.current).unwrap().id;
    with_second.remove_key(&first.to_string()).unwrap();
    assert_eq!(open(&memory, b"second").unwrap().1, 1);
    let refused = open(&memory, b"first").unwrap_err();
    assert!(matches!(refused, Error::WrongPassword { slots: 1, .. }), "{refused}");

    // Another repository is at the same address now.
    let other = Arc::new(MemoryStorage::new());
    assert!(matches!(
        open(&other, b"second").unwrap_err(),
        Error::NoRepository { .. }
    ));
    let made = Repository::init(other.clone(), Some(b"second"), &quick()).unwrap();
    assert_eq!(open(&other, b"second").unwrap().0.id(), made.id());
    assert_eq!(open(&other, b"second").unwrap().1, 1);
    assert_eq!(open(&memory, b"second").unwrap().0.id(), repository.id(), "and back");
    assert_eq!(open(&memory, b"second").unwrap().1, 1);

    // One without encryption is not taken for it, and not remembered.
    let plain = Arc::new(MemoryStorage::new());
    Repository::init(plain.clone(), None, &quick()).unwrap();
    assert!(matches!(
        open(&plain, b"second").unwrap_err(),
        Error::NotEncrypted { .. }
    ));
}

/// A backup is begun with the key in the cache. The list that it makes decides whether that still counts.
#[test]
fn a_remembered_key_opens_nothing_before_it_was_seen() {
    let memory = Arc::new(MemoryStorage::new());
    let names = |memory: &Arc<MemoryStorage>| {
        let mut names = Vec::new();
        memory.list("", &mut |name, _| names.push(name)).unwrap();
        names.sort_unstable();
        names
    };
    let cache = scratch();
    let folder = Folder::new();
    folder.write("a", &noise(1, 5000));
    let options = ibid_repo::BackupOptions::default().path(folder.path());
    let open = |memory: &Arc<MemoryStorage>, password: &[u8]| {
        let storage = far(memory);
        let probe = Repository::probe_with_cache(storage.as_ref(), cache.path())?;
        let opened = probe.open_to_back_up(storage.clone(), Some(password))?;
        Ok::<_, Error>((opened.with_cache(cache.path()), storage))
    };
    let is_gone = |error: Error| assert!(matches!(error, Error::KeyGone { .. }), "{error}");
    let refused = |memory: &Arc<MemoryStorage>, password: &[u8]| match open(memory, password) {
        Err(Error::WrongPassword { slots, .. }) => assert_eq!(slots, 1),
        other => panic!("{:?}", other.map(|(repository, _)| repository)),
    };
    Repository::init(memory.clone(), Some(b"first"), &quick()).unwrap();
    let (repository, storage) = open(&memory, b"first").unwrap();
    assert_eq!(storage.requests(), 3, "the config, a list of keys, and the key");
    repository.backup(&options).unwrap();
    let (repository, storage) = open(&memory, b"first").unwrap();
    assert_eq!(storage.requests(), 0);
    repository.backup(&options).unwrap();
    assert_eq!(storage.0.inner.counts().size, 0, "the list has shown the key");
    // What begins otherwise asks for the key.
    let (repository, storage) = open(&memory, b"first").unwrap();
    assert_eq!(repository.snapshots().unwrap().len(), 2);
    assert_eq!(storage.0.inner.counts().size, 1);

    // A wrong password is found to be wrong, and another one that is right opens another key.
    refused(&memory, b"second");
    let second = repository
        .add_key(b"second", &KeyOptions::default().cost(quick().cost))
        .unwrap();
    let (with_second, _) = open(&memory, b"second").unwrap();
    let (remembered, storage) = open(&memory, b"second").unwrap();
    assert_eq!(storage.requests(), 0);
    // It is the key with another password. With that of the cache, the first one opens as ever.
    assert_eq!(open(&memory, b"first").unwrap().0.id(), repository.id());
    let _ = with_second.snapshots().unwrap();

    // A key that is removed opens nothing, and its backup leaves nothing.
    drop(open(&memory, b"second").unwrap());
    repository.remove_key(&second.to_string()).unwrap();
    let before = names(&memory);
    is_gone(remembered.backup(&options).unwrap_err());
    assert_eq!(names(&memory), before);
    is_gone(remembered.snapshots().unwrap_err());
    is_gone(remembered.backup(&options.clone().dry_run(true)).unwrap_err());
    refused(&memory, b"second");

    // So does one that is read first.
    drop(open(&memory, b"first").unwrap());
    let (reads, _) = open(&memory, b"first").unwrap();
    let changed = KeyOptions::default().cost(quick().cost);
    repository.change_password(b"first", b"third", &changed).unwrap();
    is_gone(reads.snapshots().unwrap_err());
    is_gone(reads.prune(&PruneOptions::default()).unwrap_err());
    is_gone(open(&memory, b"first").unwrap().0.backup(&options).unwrap_err());
    refused(&memory, b"first");

    // Another repository is at the same address now, and nothing is stored there with the keys of the first.
    drop(open(&memory, b"third").unwrap());
    let other = Arc::new(MemoryStorage::new());
    Repository::init(other.clone(), Some(b"third"), &quick()).unwrap();
    let before = names(&other);
    is_gone(open(&other, b"third").unwrap().0.backup(&options).unwrap_err());
    assert_eq!(names(&other), before);
    let (opened, _) = open(&other, b"third").unwrap();
    assert_ne!(opened.id(), repository.id());
    opened.backup(&options).unwrap();
}

#[test]
fn a_remembered_key_that_was_changed_on_this_machine_is_read_from_the_repository() {
    let storage = Arc::new(MemoryStorage::new());
    let cache = scratch();
    let open = || {
        let probe = Repository::probe_with_cache(storage.as_ref(), cache.path()).unwrap();
        let opened = probe.open_to_back_up(storage.clone(), Some(b"secret"));
        opened.map(|repository| repository.with_cache(cache.path()))
    };
    let id = Repository::init(storage.clone(), Some(b"secret"), &quick())
        .unwrap()
        .id();
    open().unwrap();
    let path = cache.path().join(id.to_string()).join("opened");
    let whole = std::fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        std::fs::write(&path, changed).unwrap();
        assert_eq!(open().unwrap().snapshots().unwrap().len(), 0, "byte {at}");
        assert_eq!(std::fs::read(&path).unwrap(), whole, "byte {at}");
    }
}
