//! A snapshot without some files has all others as they were.

use std::sync::Arc;

use ibid_repo::{
    Error, Excludes, FileId, GroupBy, KeepPolicy, PolicyGroup, ReadData, Repository, RestoreOptions, RewriteOptions,
    SnapshotInfo,
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
