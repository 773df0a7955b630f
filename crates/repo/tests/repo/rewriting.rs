//! A snapshot without some files has all others as they were.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ibid_repo::{
    Error, Excludes, FileId, GroupBy, KeepPolicy, Monitor, PolicyGroup, PruneOptions, ReadData, RepairOptions,
    Repository, RestoreOptions, RewriteOptions, SnapshotInfo, Warning,
};
use ibid_storage::{Memory, Name, Storage};

use crate::support;
use crate::support::{Folder, backup, contents, noise, quick, same_tree, scratch};

fn without(patterns: &[&str]) -> RewriteOptions {
    let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    RewriteOptions::default().excludes(Excludes::default().patterns(patterns))
}

fn restore(repository: &Repository, info: &SnapshotInfo, folder: &Folder) -> tempfile::TempDir {
    let target = scratch();
    let to = target.path().join("restored");
    let summary = repository
        .restore(info.at(folder.path()), &to, &RestoreOptions::default())
        .unwrap();
    assert_eq!(summary.failed, 0);
    target
}

fn size(storage: &Memory, folder: &str) -> u64 {
    let mut bytes = 0;
    storage.list(folder, &mut |_: Name, size| bytes += size).unwrap();
    bytes
}

#[test]
fn what_is_left_out_is_gone_and_everything_else_is_as_it_was() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::with_everything();
    backup(&repository, folder.path());
    let old = repository.snapshot("latest").unwrap();
    let before = size(&storage, "packs");
    let summary = repository
        .rewrite(&old, &without(&["/**/tree/text/", "large"]))
        .unwrap();
    assert!(size(&storage, "packs") < before + 20_000, "only listings are written");
    let new = repository.snapshot(&summary.id.unwrap().to_string()).unwrap();
    assert_eq!(new.snapshot.original, Some(old.id));
    let (a, b) = (&old.snapshot, &new.snapshot);
    assert_eq!((a.sequence, a.time, &a.users), (b.sequence, b.time, &b.users));
    assert_eq!(
        (a.counters.files - 3, a.counters.directories - 1),
        (b.counters.files, b.counters.directories)
    );
    assert_eq!(repository.snapshots().unwrap().len(), 2, "the old one stays");
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    let (whole, part) = (restore(&repository, &old, &folder), restore(&repository, &new, &folder));
    let (whole, part) = (whole.path().join("restored"), part.path().join("restored"));
    std::fs::remove_dir_all(whole.join("text")).unwrap();
    std::fs::remove_file(whole.join("large")).unwrap();
    // The file that has two names has one left.
    std::fs::remove_file(whole.join("hard link")).unwrap();
    std::fs::remove_file(part.join("hard link")).unwrap();
    same_tree(&whole, &part);
}

#[test]
fn the_new_one_is_the_latest_and_rules_count_both_as_one() {
    let repository = support::repository();
    let folder = Folder::scratch();
    folder.write("keep", b"keep");
    for round in 0..8 {
        folder.write("secret", &noise(round, 1000));
        let old = backup(&repository, folder.path()).id.unwrap();
        let info = repository.snapshot("latest").unwrap();
        assert_eq!(info.id, old);
        let new = repository.rewrite(&info, &without(&["secret"])).unwrap().id.unwrap();
        assert_eq!(repository.snapshot("latest").unwrap().id, new);
        assert_eq!(repository.snapshot("latest~1").unwrap().id, old);
    }
    let all = repository.snapshots().unwrap();
    let groups = KeepPolicy::default().last(3).apply(all.clone(), GroupBy::default());
    let forgotten = PolicyGroup::ids_forgotten(&groups);
    let expected: Vec<FileId> = all[..10].iter().map(|info| info.id).collect();
    assert_eq!(forgotten.len(), 10);
    assert!(expected.iter().all(|id| forgotten.contains(id)), "three pairs stay");
}

#[test]
fn no_snapshot_is_made_if_nothing_is_left_out_or_for_a_dry_run() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::with_everything();
    backup(&repository, folder.path());
    let old = repository.snapshot("latest").unwrap();
    let before = size(&storage, "");
    let nothing = repository.rewrite(&old, &without(&["*.iso"])).unwrap();
    assert_eq!(
        (nothing.id, nothing.counters.files),
        (None, old.snapshot.counters.files)
    );
    let dry = repository.rewrite(&old, &without(&["large"]).dry_run(true)).unwrap();
    assert_eq!((dry.id, dry.counters.files), (None, old.snapshot.counters.files - 1));
    assert_eq!(size(&storage, ""), before);
}

#[test]
fn the_old_one_can_be_forgotten_and_brought_back() {
    let repository = support::repository();
    let folder = Folder::scratch();
    folder.write("keep", b"keep");
    folder.write("secret", &noise(1, 100_000));
    let old = backup(&repository, folder.path()).id.unwrap();
    let before = contents(folder.path());
    let info = repository.snapshot("latest").unwrap();
    let new = repository.rewrite(&info, &without(&["secret"]).forget(true)).unwrap();
    let all = repository.snapshots().unwrap();
    assert_eq!(all.iter().map(|info| Some(info.id)).collect::<Vec<_>>(), [new.id]);
    let back = repository.remember(old, "a test").unwrap();
    let back = repository.snapshot(&back.to_string()).unwrap();
    let target = restore(&repository, &back, &folder);
    assert_eq!(contents(&target.path().join("restored")), before);
}

/// A pattern that is wrong would otherwise put an empty snapshot in the place of a whole one.
#[test]
fn a_rewrite_that_would_leave_nothing_is_refused() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::with_everything();
    backup(&repository, folder.path());
    let old = repository.snapshot("latest").unwrap();
    for dry_run in [true, false] {
        let options = without(&["/**"]).forget(true).dry_run(dry_run);
        let refused = repository.rewrite(&old, &options);
        assert!(matches!(refused, Err(Error::NothingLeft { .. })), "{refused:?}");
    }
    let left: Vec<FileId> = repository.snapshots().unwrap().iter().map(|info| info.id).collect();
    assert_eq!(left, [old.id]);
    assert!(repository.sessions(|_, _| panic!("readable")).unwrap().is_empty());
}

/// Returns the packs, with their sizes.
fn packs(storage: &Memory) -> Vec<(Name, u64)> {
    let mut packs = Vec::new();
    storage
        .list("packs", &mut |name, size| packs.push((name, size)))
        .unwrap();
    packs
}

#[test]
fn what_is_lost_can_be_left_out_and_then_the_rest_is_whole_and_can_be_pruned() {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    std::fs::create_dir(folder.path().join("kept")).unwrap();
    std::fs::create_dir(folder.path().join("lost")).unwrap();
    folder.write("lost/file", b"in a folder whose listing is lost");
    // The listing of a file that has just changed would be stored again by the next backup.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let first = backup(&repository, folder.path()).id.unwrap();
    let of_first = packs(&storage);
    folder.write("kept/file", &noise(1, 5000));
    backup(&repository, folder.path());
    let before = packs(&storage);
    folder.write("kept/gone", &noise(2, 200_000));
    let second = backup(&repository, folder.path()).id.unwrap();
    let mut lost = of_first;
    lost.extend(
        packs(&storage)
            .into_iter()
            .filter(|pack| !before.contains(pack) && pack.1 > 100_000),
    );
    lost.iter().for_each(|(name, _)| storage.delete(name).unwrap());
    let open = || Repository::open(storage.clone(), Some(b"secret")).unwrap();
    let info = |id: FileId| open().snapshot(&id.to_string()).unwrap();
    assert!(matches!(
        open().rewrite(&info(second), &without(&["x"])),
        Err(Error::ChunkMissing { .. })
    ));
    let pruned = open().prune(&PruneOptions::default());
    assert!(matches!(pruned, Err(Error::NeedsUnknown { .. })), "{pruned:?}");

    let told = Arc::new(Mutex::new(Vec::new()));
    let monitor = Arc::new(Monitor::new({
        let told = told.clone();
        move |warning| match warning {
            Warning::LeftOut { path, is_directory } => told.lock().unwrap().push((path, is_directory)),
            other => assert!(matches!(other, Warning::LostPacks { .. }), "{other:?}"),
        }
    }));
    let exclude_lost = RewriteOptions::default().exclude_lost(true).forget(true);
    let repository = open().watched_by(&monitor);
    let summary = repository.rewrite(&info(second), &exclude_lost).unwrap();
    let mut told = std::mem::take(&mut *told.lock().unwrap());
    told.sort();
    let at = |path: &str| folder.path().join(path);
    assert_eq!(told, [(at("kept/gone"), false), (at("lost"), true)]);
    // Of the first one, even the listing of all the rest is gone.
    let refused = repository.rewrite(&info(first), &exclude_lost);
    assert!(matches!(refused, Err(Error::NothingLeft { .. })), "{refused:?}");
    let old: Vec<FileId> = open().snapshots().unwrap().iter().map(|info| info.id).collect();
    let old = old.into_iter().filter(|id| Some(*id) != summary.id);
    open().forget(&old.collect::<Vec<_>>()).unwrap();
    open().repair(&RepairOptions::default()).unwrap();
    open().prune(&PruneOptions::default()).unwrap();
    assert!(open().check(ReadData::All).unwrap().is_clean());
    let restored = restore(&open(), &info(summary.id.unwrap()), &folder);
    let found: Vec<PathBuf> = contents(&restored.path().join("restored")).into_keys().collect();
    assert_eq!(found, ["kept", "kept/file"].map(PathBuf::from));
}
