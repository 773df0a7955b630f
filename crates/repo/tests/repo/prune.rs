//! What is forgotten is freed, what is not stays, and who is interrupted goes on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, Once};

use ibid_repo::{
    BackupOptions, Error, FileId, InitOptions, Limit, Monitor, PruneOptions, PruneSummary, ReadData, RepairOptions,
    Repository, RestoreOptions, SessionState, Warning,
};
use ibid_storage::fault::{Damage, Flaky, ObjectFault};
use ibid_storage::{ErrorKind, Memory, Name, Operation, Storage};

use crate::support;
use crate::support::hooked::{Hooked, Hooks};
use crate::support::reads::Reads;
use crate::support::{Contents, Folder, Random, backup, contents, noise, options, quick, repository, scratch};

/// Returns options of a repository of small chunks, frames and packs.
fn small() -> InitOptions {
    quick()
        .chunker(ibid_repo::ChunkerSettings::for_average("argmin", 8 << 10).unwrap())
        .frame_size(32 << 10)
        .pack_size(1 << 20)
}

/// Prunes as thoroughly as can be.
fn prune(repository: &Repository) -> PruneSummary {
    let options = PruneOptions::default().max_unused(Limit::Bytes(0));
    repository.prune(&options).unwrap()
}

/// Makes snapshots of so many versions of a tree. Returns them with what was in them.
fn versions(repository: &Repository, count: u64, seed: u64) -> Vec<(FileId, Contents)> {
    let folder = Folder::scratch();
    let version = |n| {
        folder.evolve(&mut Random(seed * 1000 + n), 400_000);
        let id = backup(repository, folder.path()).id.unwrap();
        (id, contents(folder.path()))
    };
    (0..count).map(version).collect()
}

/// Restores every snapshot, and compares it with what was backed up.
fn restore_all<'a>(repository: &Repository, expected: impl IntoIterator<Item = &'a (FileId, Contents)>) {
    for (id, expected) in expected {
        let snapshot = repository.snapshot(&id.to_string()).unwrap();
        let target = scratch();
        let to = target.path().join("restored");
        let summary = repository.restore(&snapshot, &to, &RestoreOptions::default()).unwrap();
        assert_eq!(summary.failed, 0);
        let path = std::str::from_utf8(&snapshot.snapshot.paths[0]).unwrap();
        let restored = contents(&to.join(path.trim_start_matches('/')));
        assert_eq!(
            restored.keys().collect::<Vec<_>>(),
            expected.keys().collect::<Vec<_>>(),
            "snapshot {id}"
        );
        assert!(restored == *expected, "snapshot {id} differs");
    }
}

fn stored(storage: &dyn Storage, folder: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut add = |name: Name, size| {
        found.insert(name.as_str().to_owned(), size);
    };
    storage.list(folder, &mut add).unwrap();
    found
}

fn bytes(storage: &dyn Storage) -> u64 {
    stored(storage, "packs").values().sum()
}

#[test]
fn what_is_forgotten_is_freed_and_the_rest_restores() {
    for seed in 0..6 {
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
        let mut all = versions(&repository, 6, seed);
        let mut random = Random(seed);
        for _ in 0..3 {
            let (id, _) = all.remove(random.below(all.len() as u64) as usize);
            repository.forget(&[id]).unwrap();
            let before = bytes(storage.as_ref());
            let summary = prune(&repository);
            assert!(summary.waiting.is_empty(), "{summary:?}");
            let report = repository.check(ReadData::All).unwrap();
            assert!(
                report.is_clean() && report.unlisted_packs == 0,
                "seed {seed}: {report:#?}"
            );
            restore_all(&repository, &all);
            assert!(bytes(storage.as_ref()) <= before);
        }
        // As small as a repository that never had the rest.
        let fresh = Arc::new(Memory::new());
        let other = Repository::init(fresh.clone(), Some(b"secret"), &small()).unwrap();
        for (id, _) in &all {
            let snapshot = repository.snapshot(&id.to_string()).unwrap();
            let target = scratch();
            repository
                .restore(&snapshot, target.path(), &RestoreOptions::default())
                .unwrap();
            backup(&other, target.path());
        }
        let (left, least) = (bytes(storage.as_ref()), bytes(fresh.as_ref()));
        assert!(
            left * 100 <= least * 135,
            "seed {seed}: {left} bytes are left, {least} would do"
        );
    }
}

/// A file in which a few bytes change everywhere from day to day, so that its chunks are stored as deltas.
struct Changing(Vec<u8>);

impl Changing {
    fn new() -> Changing {
        Changing(noise(7, 600_000))
    }

    /// Backs up the next day. Returns the snapshot, with what is in it.
    fn back_up(&mut self, repository: &Repository, folder: &Folder, day: u64) -> (FileId, Contents) {
        let mut random = Random(day);
        for block in self.0.chunks_mut(3000) {
            let at = random.below(block.len() as u64) as usize;
            block[at] = block[at].wrapping_add(1);
        }
        folder.write("data", &self.0);
        let id = backup(repository, folder.path()).id.unwrap();
        (id, contents(folder.path()))
    }
}

/// Makes snapshots of so many days.
fn revisions(repository: &Repository, folder: &Folder, count: u64) -> Vec<(FileId, Contents)> {
    let mut file = Changing::new();
    (0..count).map(|day| file.back_up(repository, folder, day)).collect()
}

/// Returns the bytes of packs of a new repository with these snapshots alone.
fn bytes_of_fresh(repository: &Repository, all: &[(FileId, Contents)]) -> u64 {
    let fresh = Arc::new(Memory::new());
    let other = Repository::init(fresh.clone(), Some(b"secret"), &small()).unwrap();
    for (id, _) in all {
        let snapshot = repository.snapshot(&id.to_string()).unwrap();
        let target = scratch();
        repository
            .restore(&snapshot, target.path(), &RestoreOptions::default())
            .unwrap();
        backup(&other, target.path());
    }
    bytes(fresh.as_ref())
}

#[test]
fn bases_that_only_serve_others_go_and_what_needs_them_is_encoded_anew() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    let mut all = revisions(&repository, &folder, 9);
    let before = bytes(storage.as_ref());
    for (id, _) in all.drain(..6) {
        repository.forget(&[id]).unwrap();
    }
    let estimate = repository.prune_estimate(&PruneOptions::default()).unwrap();
    assert!(estimate.bases > estimate.needed, "{estimate:?}");
    assert!(estimate.encoded_anew > 600_000, "{estimate:?}");
    let summary = repository.prune(&PruneOptions::default()).unwrap();
    assert_eq!(summary.encoded_anew, estimate.encoded_anew);
    restore_all(&repository, &all);
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    let (left, least) = (bytes(storage.as_ref()), bytes_of_fresh(&repository, &all));
    assert!(
        left * 100 <= least * 103,
        "{left} of {before} bytes are left, {least} would do"
    );
    let estimate = repository.prune_estimate(&PruneOptions::default()).unwrap();
    assert_eq!((estimate.bases, estimate.encoded_anew), (0, 0), "{estimate:?}");
    let again = prune(&repository);
    assert_eq!(
        (again.encoded_anew, again.packs_written, again.packs_deleted),
        (0, 0, 0)
    );
}

#[test]
fn packs_are_fetched_with_few_requests_before_chunks_are_encoded_anew() {
    let pruned = |cached_data| {
        let memory = Arc::new(Memory::new());
        let here = Repository::init(memory.clone(), Some(b"secret"), &small()).unwrap();
        let folder = Folder::scratch();
        let mut all = revisions(&here, &folder, 9);
        for (id, _) in all.drain(..6) {
            here.forget(&[id]).unwrap();
        }
        let packs = stored(memory.as_ref(), "packs");
        let storage = Arc::new(Reads::of(memory, true));
        let cache = scratch();
        let far = Repository::open(storage.clone(), Some(b"secret")).unwrap();
        let far = far.with_cached_data(cached_data).with_cache(cache.path());
        let summary = far.prune(&PruneOptions::default()).unwrap();
        assert!(summary.encoded_anew > 600_000);
        restore_all(&here, &all);
        let mut read = storage.take();
        read.retain(|(name, _)| packs.contains_key(name.as_str()));
        let bytes: u64 = read.iter().map(|(_, range)| range.end - range.start).sum();
        (read.len(), bytes, packs)
    };
    let (often, much, _) = pruned(0);
    let (requests, bytes, packs) = pruned(64 << 20);
    // Each for its directory, and most for their frames, too.
    assert!(
        requests <= 2 * packs.len() + 2 && requests < often,
        "{requests} {often} {packs:?}"
    );
    // What was fetched is read from the cache, whenever it is needed.
    let total: u64 = packs.values().sum();
    assert!(
        bytes <= total + 100_000 && bytes <= much + 100_000,
        "{bytes} of {total}, {much}"
    );
}

/// The directories of packs say what depends on what, when a prune plans and when it looks once more, and the trees of
/// snapshots are read before. Without a cache on this machine, all of it has to be fetched, once.
#[test]
fn a_prune_fetches_no_part_of_a_pack_twice() {
    for forgotten in [0, 6] {
        let memory = Arc::new(Memory::new());
        let here = Repository::init(memory.clone(), Some(b"secret"), &small()).unwrap();
        let folder = Folder::scratch();
        for (id, _) in revisions(&here, &folder, 9).drain(..forgotten) {
            here.forget(&[id]).unwrap();
        }
        let storage = Arc::new(Reads::of(memory, true));
        let cache = scratch();
        let far = Repository::open(storage.clone(), Some(b"secret")).unwrap();
        let summary = far.with_cache(cache.path()).prune(&PruneOptions::default()).unwrap();
        assert!(summary.packs_written > 0 && summary.packs_deleted > 1, "{summary:?}");
        let mut read = storage.take();
        read.sort_by(|(a, at), (b, from)| (a.as_str(), at.start).cmp(&(b.as_str(), from.start)));
        assert!(read.len() > 9, "{read:?}");
        for pair in read.windows(2) {
            let ((name, before), (other, after)) = (&pair[0], &pair[1]);
            let is_twice = name == other && before.end > after.start;
            assert!(!is_twice, "{name}: {before:?} and {after:?}");
        }
    }
}

#[test]
fn a_prune_with_the_least_memory_stores_little_more_than_one_with_much() {
    let pruned = |memory| {
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
        let folder = Folder::scratch();
        let mut all = revisions(&repository, &folder, 9);
        for (id, _) in all.drain(..6) {
            repository.forget(&[id]).unwrap();
        }
        let repository = repository.with_memory(memory).unwrap();
        repository.prune(&PruneOptions::default()).unwrap();
        restore_all(&repository, &all);
        bytes(storage.as_ref())
    };
    let (much, least) = (pruned(ibid_repo::MEMORY_DEFAULT), pruned(ibid_repo::MEMORY_MIN));
    assert!(least * 100 <= much * 110, "{least} bytes instead of {much}");
}

#[test]
fn whichever_snapshots_go_the_others_take_little_more_than_in_a_new_repository() {
    // Snapshots go in any order, so that frames stay which are encoded against others that go.
    for seed in 0..8 {
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
        let folder = Folder::scratch();
        let mut all = revisions(&repository, &folder, 7);
        let mut random = Random(seed);
        while all.len() > 1 {
            let (id, _) = all.remove(random.below(all.len() as u64) as usize);
            repository.forget(&[id]).unwrap();
            let summary = prune(&repository);
            restore_all(&repository, &all);
            let report = repository.check(ReadData::All).unwrap();
            assert!(report.is_clean(), "seed {seed}: {report:#?}");
            let least = bytes_of_fresh(&repository, &all);
            let left = bytes(storage.as_ref());
            assert!(
                left * 100 <= least * 110,
                "seed {seed}: {left} bytes, {least} would do: {summary:?}"
            );
        }
    }
}

#[test]
fn after_months_of_days_a_repository_takes_little_more_than_a_new_one() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    let mut file = Changing::new();
    let mut all = Vec::new();
    for day in 0..60 {
        all.push((day, file.back_up(&repository, &folder, day)));
        // The last week, and a day of each of the four weeks before it.
        all.retain(|(of, (id, _))| {
            let stays = of + 7 > day || of % 7 == 0 && of + 35 > day;
            if !stays {
                repository.forget(&[*id]).unwrap();
            }
            stays
        });
        prune(&repository);
        if day % 15 == 14 {
            let kept: Vec<_> = all.iter().map(|(_, snapshot)| snapshot.clone()).collect();
            restore_all(&repository, &kept);
            let (left, least) = (bytes(storage.as_ref()), bytes_of_fresh(&repository, &kept));
            assert!(left * 100 <= least * 110, "day {day}: {left} bytes, {least} would do");
        }
    }
}

#[test]
fn a_chunk_that_can_not_be_read_does_not_keep_the_rest_from_being_freed() {
    let storage = Arc::new(Flaky::new(Arc::new(Memory::new())));
    let warnings = Arc::new(AtomicUsize::new(0));
    let counted = warnings.clone();
    let monitor = Arc::new(Monitor::new(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    }));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let repository = repository.watched_by(&monitor);
    let (folder, other) = (Folder::scratch(), Folder::scratch());
    let mut all = revisions(&repository, &folder, 6);
    let packs = stored(storage.as_ref(), "packs");
    let (base, _) = packs.iter().max_by_key(|(_, size)| **size).unwrap();
    other.write("noise", &noise(1, 2_000_000));
    let forgotten = backup(&repository, other.path()).id.unwrap();
    for (id, _) in all.drain(..4) {
        repository.forget(&[id]).unwrap();
    }
    repository.forget(&[forgotten]).unwrap();
    assert!(
        repository
            .prune_estimate(&PruneOptions::default())
            .unwrap()
            .encoded_anew
            > 0
    );
    // The first chunks, which all others are encoded against.
    storage.damage(&Name::new(base).unwrap(), Damage::FlipBit(8 * 1000));
    let summary = repository.prune(&PruneOptions::default()).unwrap();
    assert!(summary.freed() > 1_900_000, "{summary:?}");
    assert!(warnings.load(Ordering::Relaxed) > 0);
    storage.heal();
    restore_all(&repository, &all);
}

#[test]
fn deltas_against_a_lost_pack_stay_as_long_as_a_snapshot_needs_them() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    let mut all = revisions(&repository, &folder, 4);
    let packs = stored(storage.as_ref(), "packs");
    let (whole, &size) = packs.iter().max_by_key(|(_, size)| **size).unwrap();
    let name = Name::new(whole).unwrap();
    let bytes_of_pack = storage.get(&name, size).unwrap();
    storage.delete(&name).unwrap();
    let open = || Repository::open(storage.clone(), Some(b"secret")).unwrap();
    // The pack may come back.
    for (id, _) in all.drain(..2) {
        open().forget(&[id]).unwrap();
    }
    prune(&open());
    storage.put(&name, &[&bytes_of_pack]).unwrap();
    restore_all(&open(), &all);
    storage.delete(&name).unwrap();
    for (id, _) in all {
        open().forget(&[id]).unwrap();
    }
    open().prune(&PruneOptions::default()).unwrap();
    assert_eq!(stored(storage.as_ref(), "packs"), BTreeMap::new());
}

/// Takes a pack away; returns it.
fn take(storage: &Memory, pack: &str) -> (Name, Vec<u8>) {
    let name = Name::new(pack).unwrap();
    let bytes = storage.get(&name, u64::MAX).unwrap();
    storage.delete(&name).unwrap();
    (name, bytes)
}

#[test]
fn what_lost_deltas_may_need_stays_until_a_repair_gives_them_up() {
    let storage = Arc::new(Memory::new());
    let open = || Repository::open(storage.clone(), Some(b"secret")).unwrap();
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    let mut file = Changing::new();
    let (first, _) = file.back_up(&repository, &folder, 0);
    let before = stored(storage.as_ref(), "packs");
    let second = file.back_up(&repository, &folder, 1);
    let mut deltas = stored(storage.as_ref(), "packs");
    deltas.retain(|pack, _| !before.contains_key(pack));
    let lost: Vec<_> = deltas.keys().map(|pack| take(&storage, pack)).collect();
    open().forget(&[first]).unwrap();
    // Trees can't be read, either.
    let (tree, data): (Vec<_>, Vec<_>) = lost.iter().partition(|(_, bytes)| bytes.len() < 4000);
    assert!(!tree.is_empty() && !data.is_empty());
    tree.iter()
        .for_each(|(name, bytes)| storage.put(name, &[bytes]).unwrap());
    let pruned = prune(&open());
    assert!(
        pruned.estimate.held > 500_000 && pruned.estimate.lost_packs > 0,
        "{pruned:?}"
    );
    let repaired = open().repair(&RepairOptions::default()).unwrap();
    assert_eq!(repaired.lost_snapshots(), 0);
    data.iter()
        .for_each(|(name, bytes)| storage.put(name, &[bytes]).unwrap());
    restore_all(&open(), std::slice::from_ref(&second));
    // Once a repair has given them up, it goes.
    data.iter().for_each(|(name, _)| storage.delete(name).unwrap());
    let pruned = prune(&open());
    assert!(pruned.estimate.held == 0 && pruned.freed() > 500_000, "{pruned:?}");
    // What is there again after all lacks its bases. A backup does not rely on it.
    data.iter()
        .for_each(|(name, bytes)| storage.put(name, &[bytes]).unwrap());
    let again = backup(&open(), folder.path()).id.unwrap();
    restore_all(&open(), &[(again, contents(folder.path())), second]);
}

#[test]
fn deltas_that_can_not_be_read_now_keep_their_bases() {
    let storage = Arc::new(Memory::new());
    let open = || Repository::open(storage.clone(), Some(b"secret")).unwrap();
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    let mut file = Changing::new();
    let (first, _) = file.back_up(&repository, &folder, 0);
    let before = stored(storage.as_ref(), "packs");
    let second = file.back_up(&repository, &folder, 1);
    let deltas = stored(storage.as_ref(), "packs").into_iter();
    let deltas = deltas.filter(|(pack, size)| !before.contains_key(pack) && *size > 4000);
    let packs: Vec<_> = deltas.map(|(pack, _)| take(&storage, &pack)).collect();
    for (name, bytes) in &packs {
        storage.put(name, &[&vec![0; bytes.len()]]).unwrap();
    }
    open().forget(&[first]).unwrap();
    let found = prune(&open()).estimate;
    assert!(
        found.held > 500_000 && found.lost_packs == packs.len() as u64,
        "{found:?}"
    );
    for (name, bytes) in &packs {
        storage.delete(name).unwrap();
        storage.put(name, &[bytes]).unwrap();
    }
    restore_all(&open(), &[second]);
    assert_eq!(prune(&open()).estimate.held, 0);
}

#[test]
fn nothing_is_left_when_all_is_forgotten() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let all = versions(&repository, 3, 1);
    let ids: Vec<FileId> = all.iter().map(|(id, _)| *id).collect();
    repository.forget(&ids).unwrap();
    let summary = prune(&repository);
    assert_eq!(summary.packs_written, 0);
    for folder in [
        "packs",
        "index",
        "sketches",
        "snapshots",
        "sessions",
        "checkpoints",
        "forgotten",
    ] {
        let left = stored(storage.as_ref(), folder);
        assert!(left.is_empty(), "{left:?}");
    }
    let again = versions(&repository, 2, 2);
    restore_all(&repository, &again);
}

#[test]
fn a_prune_with_nothing_to_do_writes_nothing() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let all = versions(&repository, 2, 3);
    let before = stored(storage.as_ref(), "");
    let summary = prune(&repository);
    assert_eq!((summary.freed(), summary.packs_deleted, summary.written), (0, 0, 0));
    assert_eq!(stored(storage.as_ref(), ""), before);
    restore_all(&repository, &all);
}

#[test]
fn statistics_say_what_a_prune_would_free() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    folder.write("stays", &noise(1, 200_000));
    folder.write("goes", &noise(2, 500_000));
    let first = backup(&repository, folder.path()).id.unwrap();
    std::fs::remove_file(folder.path().join("goes")).unwrap();
    backup(&repository, folder.path());
    let stats = |repository: &Repository| {
        // Of one snapshot; what is needed is so by all of them.
        let latest = repository.snapshot("latest").unwrap();
        repository.stats(&[latest]).unwrap().prune
    };
    let whole = stats(&repository).unwrap();
    assert_eq!((whole.unused, whole.freed), (0, 0));
    repository.forget(&[first]).unwrap();
    let found = stats(&repository).unwrap();
    assert!((480_000..520_000).contains(&found.unused), "{found:?}");
    assert_eq!(found, repository.prune_estimate(&PruneOptions::default()).unwrap());
    let freed = repository.prune(&PruneOptions::default()).unwrap().freed();
    assert!(freed.abs_diff(found.freed) < 20_000, "{freed}, {found:?}");
    // Nothing is known of what a snapshot needs that can't be read.
    let name = Name::new(&format!("snapshots/{}", FileId::random())).unwrap();
    storage.put(&name, &[b"no snapshot"]).unwrap();
    assert_eq!(stats(&repository), None);
}

/// Hourly backups of little, for a while.
#[test]
fn small_packs_become_few() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    for n in 0..40 {
        folder.write(format!("file {n}"), &noise(n, 3000));
        backup(&repository, folder.path());
    }
    assert!(stored(storage.as_ref(), "packs").len() >= 80);
    let all: Vec<FileId> = repository.snapshots().unwrap().iter().map(|info| info.id).collect();
    repository.forget(&all[..20]).unwrap();
    prune(&repository);
    assert!(stored(storage.as_ref(), "packs").len() <= 3);
    assert!(stored(storage.as_ref(), "index").len() <= 8);
    assert!(stored(storage.as_ref(), "sketches").len() <= 1);
    assert_eq!(repository.snapshots().unwrap().len(), 20);
    assert!(repository.check(ReadData::All).unwrap().is_clean());
}

/// Two backups of the same data at once store it twice.
#[test]
fn what_two_backups_have_stored_twice_is_stored_once_after_a_prune() {
    let storage = Arc::new(Memory::new());
    let first = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    folder.write("data", &noise(1, 3_000_000));
    let second = Repository::open(storage.clone(), Some(b"secret")).unwrap();
    std::thread::scope(|scope| {
        for repository in [&first, &second] {
            scope.spawn(|| backup(repository, folder.path()));
        }
    });
    prune(&first);
    assert!(bytes(storage.as_ref()) < 3_300_000);
    assert_eq!(first.snapshots().unwrap().len(), 2);
    assert!(first.check(ReadData::All).unwrap().is_clean());
}

#[test]
fn a_prune_that_fails_at_any_call_of_the_storage_is_completed_by_the_next() {
    let mut failed = 0;
    for operation in [Operation::Put, Operation::Delete, Operation::List, Operation::Get] {
        for skip in 0..16 {
            let storage = Arc::new(Flaky::new(Memory::new()));
            let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
            let mut all = versions(&repository, 3, 7);
            let (id, _) = all.remove(1);
            repository.forget(&[id]).unwrap();
            storage.fail(operation, skip, ObjectFault::Before(ErrorKind::PermissionDenied));
            failed += u64::from(
                repository
                    .prune(&PruneOptions::default().max_unused(Limit::Bytes(0)))
                    .is_err(),
            );
            storage.heal();
            let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
            restore_all(&repository, &all);
            let folder = Folder::scratch();
            folder.evolve(&mut Random(skip), 100_000);
            all.push((backup(&repository, folder.path()).id.unwrap(), contents(folder.path())));
            let summary = prune(&repository);
            assert!(summary.waiting.is_empty(), "{operation:?} {skip}: {summary:?}");
            restore_all(&repository, &all);
            let report = repository.check(ReadData::All).unwrap();
            assert!(report.is_clean(), "{operation:?} {skip}: {report:#?}");
        }
    }
    assert!(failed > 20, "{failed}");
}

/// As on a full disk, where a prune is needed most.
#[test]
fn a_prune_without_space_to_move_frees_what_need_not_be_moved() {
    let storage = Arc::new(Flaky::new(Memory::new()));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    for n in 0..6 {
        folder.write(format!("part {n}"), &noise(n, 150_000));
    }
    let both = backup(&repository, folder.path()).id.unwrap();
    for n in 1..6 {
        std::fs::remove_file(folder.path().join(format!("part {n}"))).unwrap();
    }
    let kept = (backup(&repository, folder.path()).id.unwrap(), contents(folder.path()));
    let other = Folder::scratch();
    other.write("alone", &noise(9, 1_500_000));
    let alone = backup(&repository, other.path()).id.unwrap();
    repository.forget(&[both, alone]).unwrap();
    let warned = Arc::new(AtomicUsize::new(0));
    let monitor = Arc::new(Monitor::new({
        let warned = warned.clone();
        move |warning| {
            let is_expected = matches!(warning, Warning::MovesNothing);
            warned.fetch_add(usize::from(is_expected), Ordering::Relaxed);
        }
    }));
    storage.fail(Operation::Put, 0, ObjectFault::Before(ErrorKind::NoSpace));
    let first = prune(&repository.watched_by(&monitor));
    assert!(first.deleted > 1_400_000 && first.written == 0, "{first:?}");
    assert_eq!(warned.load(Ordering::Relaxed), 1);
    restore_all(&repository, [&kept]);
    let second = prune(&repository);
    assert!(second.written > 100_000 && second.freed() > 500_000, "{second:?}");
    restore_all(&repository, [&kept]);
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    // If there is nothing else to free, it fails.
    let full = ObjectFault::Before(ErrorKind::NoSpace);
    other.write("more", &noise(8, 300_000));
    let more = backup(&repository, other.path()).id.unwrap();
    std::fs::remove_file(other.path().join("more")).unwrap();
    backup(&repository, other.path());
    repository.forget(&[more]).unwrap();
    storage.fail(Operation::Put, 0, full);
    let options = PruneOptions::default().max_unused(Limit::Bytes(0));
    let failed = repository.prune(&options);
    assert!(failed.is_err(), "{failed:?}");
    restore_all(&repository, [&kept]);
}

/// Announces a backup as another machine does. Returns the id of its session.
fn session_elsewhere(storage: &Arc<Memory>) -> FileId {
    let keys = support::deltas::Writer::of(storage.clone()).keys;
    let session = ibid_repo::Session {
        time: ibid_repo::Time { seconds: 0, nanos: 0 },
        host: "elsewhere".into(),
        user: "ada".into(),
        program: "a test".into(),
        action: "backup".into(),
        paths: vec![],
        process: ibid_repo::Process::default(),
    };
    let id = FileId::random();
    let name = Name::new(&format!("sessions/{id}")).unwrap();
    storage.put(&name, &[&session.encode(&keys, id).unwrap()]).unwrap();
    id
}

#[test]
fn a_session_to_give_up_on_is_ended_though_there_is_nothing_to_free() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let all = versions(&repository, 1, 3);
    let (ended, open) = (session_elsewhere(&storage), session_elsewhere(&storage));
    prune(&repository);
    assert_eq!(stored(storage.as_ref(), "sessions").len(), 2);
    repository
        .prune(&PruneOptions::default().give_up_on(vec![ended]))
        .unwrap();
    let left = repository.sessions(|_, error| panic!("{error}")).unwrap();
    assert_eq!(left.iter().map(|info| info.id).collect::<Vec<_>>(), [open]);
    let snapshot = Name::new(&format!("snapshots/{ended}")).unwrap();
    assert!(storage.size(&snapshot).is_ok(), "its snapshot can't come any more");
    restore_all(&repository, &all);
}

/// A session of another machine, by the files that are there while its backup runs.
#[test]
fn a_prune_waits_for_sessions_that_are_open_until_it_is_told_not_to() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let mut all = versions(&repository, 3, 9);
    let id = session_elsewhere(&storage);
    let sessions = repository.sessions(|_, error| panic!("{error}")).unwrap();
    assert_eq!(
        sessions.iter().map(|info| (info.id, info.state)).collect::<Vec<_>>(),
        [(id, SessionState::Unknown)]
    );

    let before = bytes(storage.as_ref());
    repository.forget(&[all.remove(0).0, all.remove(0).0]).unwrap();
    let summary = prune(&repository);
    assert_eq!(
        summary.waiting.iter().map(|session| session.id).collect::<Vec<_>>(),
        [id]
    );
    assert!(bytes(storage.as_ref()) >= before, "nothing may be deleted yet");
    restore_all(&repository, &all);
    // A backup that begins now stores what it needs of the condemned packs again.
    all.extend(versions(&repository, 1, 9));
    let summary = repository
        .prune(&PruneOptions::default().max_unused(Limit::Bytes(0)).give_up_on(vec![id]))
        .unwrap();
    assert!(summary.waiting.is_empty() && summary.freed() > 0, "{summary:?}");
    assert!(stored(storage.as_ref(), "sessions").is_empty());
    restore_all(&repository, &all);
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    assert_eq!(repository.snapshots().unwrap().len(), 2, "the void file is no snapshot");
}

/// A storage that does the first call of a kind when the other side says so.
struct Gate {
    inner: Arc<Memory>,
    /// The operation, and the folder.
    at: (Operation, &'static str),
    arrived: Barrier,
    released: Barrier,
    is_open: AtomicBool,
}

impl Gate {
    fn new(inner: Arc<Memory>, operation: Operation, folder: &'static str) -> Arc<Hooked<Gate>> {
        Arc::new(Hooked(Gate {
            inner,
            at: (operation, folder),
            arrived: Barrier::new(2),
            released: Barrier::new(2),
            is_open: AtomicBool::new(false),
        }))
    }

    fn wait(&self, operation: Operation, is_in: impl Fn(&str) -> bool) {
        let (at, folder) = self.at;
        if operation == at && is_in(folder) && !self.is_open.swap(true, Ordering::Relaxed) {
            self.arrived.wait();
            self.released.wait();
        }
    }
}

impl Hooks for Gate {
    fn inner(&self) -> &dyn Storage {
        self.inner.as_ref()
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), ibid_storage::Error> {
        self.wait(Operation::Put, |folder| name.is_in(folder));
        self.inner.put(name, parts)
    }

    /// What is stored meanwhile is not listed, nor what is deleted.
    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), ibid_storage::Error> {
        let mut found = Vec::new();
        self.inner.list(folder, &mut |name, size| found.push((name, size)))?;
        self.wait(Operation::List, |wanted| wanted == folder);
        found.retain(|(name, _)| self.inner.size(name).is_ok());
        found.into_iter().for_each(|(name, size)| each(name, size));
        Ok(())
    }
}

#[test]
fn a_backup_that_a_prune_has_ended_begins_again() {
    let inner = Arc::new(Memory::new());
    let other = Repository::init(inner.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    folder.evolve(&mut Random(11_000), 400_000);
    let before = backup(&other, folder.path()).id.unwrap();
    folder.write("new", &noise(5, 200_000));
    let gate = Gate::new(inner, Operation::Put, "snapshots");
    let repository = Repository::open(gate.clone(), Some(b"secret")).unwrap();
    let (heard, monitor) = {
        let heard = Arc::new(AtomicBool::new(false));
        let hears = heard.clone();
        let monitor = Monitor::new(move |warning| {
            hears.fetch_or(matches!(warning, Warning::BackupBeginsAgain), Ordering::Relaxed);
        });
        (heard, Arc::new(monitor))
    };
    let summary = std::thread::scope(|scope| {
        let running = scope.spawn(|| repository.watched_by(&monitor).backup(&options(folder.path())).unwrap());
        gate.arrived.wait();
        // The backup relies on what the first one has stored.
        other.forget(&[before]).unwrap();
        let open: Vec<FileId> = other
            .sessions(|_, error| panic!("{error}"))
            .unwrap()
            .iter()
            .map(|s| s.id)
            .collect();
        assert_eq!(open.len(), 1);
        let waits = prune(&other);
        assert_eq!((waits.waiting.len(), waits.packs_deleted), (1, 0));
        let gives_up = PruneOptions::default().max_unused(Limit::Bytes(0)).give_up_on(open);
        let ended = other.prune(&gives_up).unwrap();
        assert!(ended.waiting.is_empty() && ended.packs_deleted > 0, "{ended:?}");
        gate.released.wait();
        running.join().unwrap()
    });
    assert!(heard.load(Ordering::Relaxed));
    let repository = Repository::open(gate, Some(b"secret")).unwrap();
    restore_all(&repository, &[(summary.id.unwrap(), contents(folder.path()))]);
    let report = repository.check(ReadData::All).unwrap();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn a_snapshot_from_the_future_does_not_stay_the_latest() {
    let repository = repository();
    let folder = Folder::scratch();
    folder.write("a", b"1");
    let time = |seconds| ibid_repo::Time { seconds, nanos: 0 };
    let at = |seconds| BackupOptions::default().path(folder.path()).time(Some(time(seconds)));
    let first = backup(&repository, folder.path());
    // The clock was wrong once: nothing else sets a time that a snapshot keeps as the last.
    let wrong = repository.backup(&at(2_100_000_000)).unwrap();
    let last = backup(&repository, folder.path());
    assert_eq!(repository.snapshot("latest").unwrap().id, last.id.unwrap());
    assert_eq!(last.parent, first.id, "no parent from the future");
    // A time that was set puts a snapshot among those of that time.
    let old = repository.backup(&at(1_000_000_000)).unwrap();
    let order: Vec<_> = repository
        .snapshots()
        .unwrap()
        .iter()
        .map(|info| Some(info.id))
        .collect();
    assert_eq!(order, [old.id, first.id, wrong.id, last.id]);
}

#[test]
fn a_reader_finds_bases_that_a_prune_has_moved() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    let mut base = noise(1, 200_000);
    folder.write("base", &base);
    folder.write("garbage", &noise(2, 600_000));
    let first = backup(&repository, folder.path()).id.unwrap();
    std::fs::remove_file(folder.path().join("garbage")).unwrap();
    // It needs the bases by themselves, so that they are moved and the deltas stay.
    backup(&repository, folder.path());
    for at in (0..base.len()).step_by(10_000) {
        base[at] ^= 1;
    }
    folder.write("base", &base);
    folder.write("other", &noise(3, 1_500_000));
    let last = backup(&repository, folder.path());
    assert!(last.deltas.chunks > 0, "{last:?}");
    let expected = [(last.id.unwrap(), contents(folder.path()))];
    let reader = Repository::open(storage, Some(b"secret")).unwrap();
    // Now it knows where everything is.
    restore_all(&reader, &expected);
    repository.forget(&[first]).unwrap();
    let summary = prune(&repository);
    // Those that shared a frame with garbage were stored again.
    let elsewhere = summary.estimate.moved + summary.encoded_anew;
    assert!(summary.packs_deleted > 0 && elsewhere > 200_000, "{summary:?}");
    restore_all(&reader, &expected);
}

/// Otherwise a restore beside a prune asks several times for each chunk, which takes hours with a server far away.
#[test]
fn each_frame_that_a_prune_has_moved_is_read_once() {
    let inner = Arc::new(Memory::new());
    let repository = Repository::init(inner.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    for number in 0..100 {
        folder.write(format!("{number:02}"), &noise(number, 20_000));
        folder.write(format!("{number:02}.garbage"), &noise(1000 + number, 20_000));
    }
    let first = backup(&repository, folder.path()).id.unwrap();
    for number in 0..100 {
        std::fs::remove_file(folder.path().join(format!("{number:02}.garbage"))).unwrap();
    }
    let last = backup(&repository, folder.path()).id.unwrap();
    let expected = [(last, contents(folder.path()))];
    let storage = Arc::new(Flaky::new(inner.clone()));
    let reader = Repository::open(storage.clone(), Some(b"secret")).unwrap();
    restore_all(&reader, &expected);
    let undisturbed = storage.counts();
    repository.forget(&[first]).unwrap();
    let summary = prune(&repository);
    assert!(summary.packs_deleted > 1, "{summary:?}");

    restore_all(&reader, &expected);
    let beside = storage.counts();
    // Each frame where it is now, and each pack where it was.
    let reads = beside.read_at - undisturbed.read_at;
    let frames = 100 * 20_000 / (32 << 10) + 1;
    assert!(reads <= frames + 10, "{reads} reads of {frames} frames");
    // The index and the log of prunes.
    let others = |counts: &ibid_storage::fault::Counts| counts.list + counts.get + counts.size;
    let looks = others(&beside) - others(&undisturbed);
    assert!(
        looks <= 2 * others(&undisturbed),
        "{looks} looks instead of {}",
        others(&undisturbed)
    );
}

#[test]
fn what_is_forgotten_and_pruned_while_it_is_read_is_not_called_damaged() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    folder.write("file", &noise(1, 300_000));
    let first = backup(&repository, folder.path()).id.unwrap();
    folder.write("file", &noise(2, 300_000));
    let last = backup(&repository, folder.path()).id.unwrap();
    let problems = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = problems.clone();
    let monitor = Monitor::new(move |warning| told.lock().unwrap().push(format!("{warning:?}")));
    let reader = Repository::open(storage, Some(b"secret"))
        .unwrap()
        .watched_by(&Arc::new(monitor));
    let snapshot = reader.snapshot(&first.to_string()).unwrap();
    restore_all(&reader, &[(last, contents(folder.path()))]);
    repository.forget(&[first]).unwrap();
    assert!(prune(&repository).packs_deleted > 0);

    let target = scratch();
    let restored = reader.restore(&snapshot, target.path().join("restored"), &RestoreOptions::default());
    match restored {
        Ok(summary) => assert!(summary.failed > 0, "{summary:?}"),
        Err(error) => assert!(matches!(error, Error::ChunkFreed { .. }), "{error}"),
    }
    let problems = problems.lock().unwrap();
    assert!(
        problems.iter().all(|problem| problem.contains("ChunkFreed")),
        "{problems:?}"
    );
    assert!(!reader.has_snapshot(first).unwrap() && reader.has_snapshot(last).unwrap());
}

/// A storage in which all reads of a pack wait until others have done something.
struct Before<F> {
    inner: Flaky<Arc<Memory>>,
    pack: Name,
    /// What they do.
    others: F,
    is_done: Once,
}

impl<F: Fn() + Send + Sync> Hooks for Before<F> {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), ibid_storage::Error> {
        if *name == self.pack {
            self.is_done.call_once(&self.others);
        }
        self.inner.read_at(name, offset, buffer)
    }
}

#[test]
fn what_a_prune_has_freed_is_not_looked_for_again() {
    let inner = Arc::new(Memory::new());
    let repository = Repository::init(inner.clone(), Some(b"secret"), &small().pack_size(16 << 20)).unwrap();
    let folder = Folder::scratch();
    // Most frames have some of both.
    for number in 0..100 {
        folder.write(format!("{number:02}"), &noise(number, 20_000));
        folder.write(format!("{number:02}.garbage"), &noise(1000 + number, 20_000));
    }
    let first = backup(&repository, folder.path()).id.unwrap();
    let mut packs = Vec::new();
    inner.list("packs", &mut |name, size| packs.push((size, name))).unwrap();
    let (_, pack) = packs.into_iter().max().unwrap();
    for number in 0..100 {
        std::fs::remove_file(folder.path().join(format!("{number:02}.garbage"))).unwrap();
    }
    backup(&repository, folder.path());
    let others = move || {
        repository.forget(&[first]).unwrap();
        assert!(prune(&repository).packs_deleted > 0);
    };
    let storage = Arc::new(Hooked(Before {
        inner: Flaky::new(inner),
        pack,
        others,
        is_done: Once::new(),
    }));
    let reader = Repository::open(storage.clone(), Some(b"secret")).unwrap();
    let snapshot = reader.snapshot(&first.to_string()).unwrap();
    let target = scratch();
    let summary = reader
        .restore(&snapshot, target.path().join("restored"), &RestoreOptions::default())
        .unwrap();
    // Some share frames with what the next snapshot needs, which were moved as they are.
    assert!((50..=100).contains(&summary.failed), "{summary:?}");
    let counts = storage.inner.counts();
    assert!(counts.list + counts.get + counts.size < 40, "{counts:?}");
}

#[test]
fn a_reader_loads_the_index_again_if_a_prune_has_deleted_packs_meanwhile() {
    let inner = Arc::new(Memory::new());
    let repository = Repository::init(inner.clone(), Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    folder.write("stays", &noise(1, 200_000));
    folder.write("garbage", &noise(2, 600_000));
    let first = backup(&repository, folder.path()).id.unwrap();
    std::fs::remove_file(folder.path().join("garbage")).unwrap();
    let last = backup(&repository, folder.path()).id.unwrap();
    let expected = [(last, contents(folder.path()))];
    repository.forget(&[first]).unwrap();
    // It has read the log and the index files, and lists the packs.
    let gate = Gate::new(inner, Operation::List, "packs");
    let reader = Repository::open(gate.clone(), Some(b"secret")).unwrap();
    std::thread::scope(|scope| {
        let restoring = scope.spawn(|| restore_all(&reader, &expected));
        gate.arrived.wait();
        assert!(prune(&repository).packs_deleted > 0);
        gate.released.wait();
        restoring.join().unwrap();
    });
}

/// Loses the answer to the first put of a snapshot, and sends it again when others have done their work.
struct AnswerLost {
    inner: Arc<Memory>,
    others: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Hooks for AnswerLost {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn put_noting_repeats(&self, name: &Name, parts: &[&[u8]]) -> Result<bool, ibid_storage::Error> {
        let others = match name.is_in("snapshots") {
            true => self.others.lock().unwrap().take(),
            false => None,
        };
        self.inner.put(name, parts)?;
        let Some(others) = others else { return Ok(false) };
        others();
        match self.inner.put(name, parts) {
            // Nothing was lost but the answer.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            put => put.map(|()| true),
        }
    }
}

#[test]
fn a_snapshot_that_was_seen_and_forgotten_before_its_backup_knew_of_it_does_not_come_back_without_its_data() {
    for forgets in [false, true] {
        let memory = Arc::new(Memory::new());
        Repository::init(memory.clone(), Some(b"secret"), &small()).unwrap();
        let seen = Arc::new(Mutex::new(None));
        let others = {
            let (memory, seen) = (memory.clone(), seen.clone());
            move || {
                let repository = Repository::open(memory.clone(), Some(b"secret")).unwrap();
                let snapshot = repository.snapshot("latest").unwrap();
                prune(&repository);
                assert!(
                    stored(memory.as_ref(), "sessions").is_empty(),
                    "its snapshot has ended it"
                );
                if forgets {
                    repository.forget(&[snapshot.id]).unwrap();
                    assert!(prune(&repository).freed() > 100_000);
                }
                *seen.lock().unwrap() = Some(snapshot.id);
            }
        };
        let storage = Arc::new(Hooked(AnswerLost {
            inner: memory.clone(),
            others: Mutex::new(Some(Box::new(others))),
        }));
        let heard = Arc::new(AtomicUsize::new(0));
        let monitor = Monitor::new({
            let heard = heard.clone();
            move |warning| {
                assert!(matches!(warning, Warning::BackupBeginsAgain), "{warning:?}");
                heard.fetch_add(1, Ordering::Relaxed);
            }
        });
        let repository = Repository::open(storage, Some(b"secret")).unwrap();
        let all = versions(&repository.watched_by(&Arc::new(monitor)), 1, 5);
        assert_eq!(heard.load(Ordering::Relaxed), usize::from(forgets));
        let seen = seen.lock().unwrap().take().unwrap();
        assert_eq!(all[0].0 != seen, forgets, "another session, and another snapshot");
        assert_eq!(repository.snapshots().unwrap().len(), 1);
        restore_all(&repository, &all);
        assert!(repository.check(ReadData::All).unwrap().is_clean());
        assert!(stored(memory.as_ref(), "sessions").is_empty());
    }
}
