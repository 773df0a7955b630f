//! A snapshot with other tags is the same snapshot under another id.

use std::collections::BTreeMap;
use std::sync::Arc;

use ibid_repo::{BackupOptions, Error, ReadData, Repository, RestoreOptions, SnapshotFilter, SnapshotInfo};
use ibid_storage::{Memory, Name, Storage};

use crate::support::{Folder, backup, contents, options, quick, scratch};

fn stored(storage: &dyn Storage, folder: &str) -> BTreeMap<Name, u64> {
    let mut found = BTreeMap::new();
    let mut add = |name: Name, size| {
        found.insert(name, size);
    };
    storage.list(folder, &mut add).unwrap();
    found
}

fn tags(tags: &[&str]) -> Vec<String> {
    tags.iter().map(|tag| (*tag).to_owned()).collect()
}

fn new() -> (Arc<Memory>, Repository, Folder) {
    let storage = Arc::new(Memory::new());
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    folder.write("a", b"a");
    (storage, repository, folder)
}

fn all(repository: &Repository) -> Vec<SnapshotInfo> {
    repository.snapshots().unwrap()
}

#[test]
fn a_snapshot_with_other_tags_keeps_its_place_and_its_files() {
    let (storage, repository, folder) = new();
    let first = backup(&repository, folder.path()).id.unwrap();
    folder.write("b", b"b");
    let before = contents(folder.path());
    repository.backup(&options(folder.path()).tags(tags(&["x"]))).unwrap();
    folder.write("c", b"c");
    let last = backup(&repository, folder.path()).id.unwrap();
    let old = all(&repository).remove(1);
    let new = repository
        .set_tags(&old, &tags(&["z", "y", "z"]), "a test")
        .unwrap()
        .unwrap();
    let now = all(&repository);
    assert_eq!(now.iter().map(|info| info.id).collect::<Vec<_>>(), [first, new, last]);
    assert_eq!(now[1].snapshot.tags, ["y", "z"]);
    assert_eq!(now[1].snapshot.original, Some(old.id));
    assert_eq!(
        stored(storage.as_ref(), "sessions").len() + stored(storage.as_ref(), "forgotten").len(),
        0
    );
    let again = repository.set_tags(&now[1], &[], "a test").unwrap().unwrap();
    let now = all(&repository).remove(1);
    assert_eq!(
        (now.id, now.snapshot.original),
        (again, Some(old.id)),
        "the first one is the original"
    );
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    let target = scratch();
    let to = target.path().join("restored");
    repository
        .restore(now.at(folder.path()), &to, &RestoreOptions::default())
        .unwrap();
    assert_eq!(contents(&to), before);
    // What was compared with the old one is compared with the new one.
    repository.forget(&[last]).unwrap();
    let next = repository
        .backup(&BackupOptions::default().path(folder.path()))
        .unwrap();
    assert_eq!(next.parent, Some(again));
}

#[test]
fn tags_that_are_there_already_write_nothing() {
    let (storage, repository, folder) = new();
    repository
        .backup(&options(folder.path()).tags(tags(&["b", "a"])))
        .unwrap();
    let before = stored(storage.as_ref(), "");
    let info = repository.snapshot("latest").unwrap();
    assert_eq!(
        repository.set_tags(&info, &tags(&["b", "a", "b"]), "a test").unwrap(),
        None
    );
    assert_eq!(stored(storage.as_ref(), ""), before);
}

#[test]
fn who_was_cut_short_leaves_both_and_again_leaves_one() {
    let (storage, repository, folder) = new();
    backup(&repository, folder.path());
    let old = repository.snapshot("latest").unwrap();
    let (name, size) = stored(storage.as_ref(), "snapshots").pop_first().unwrap();
    let bytes = storage.get(&name, size).unwrap();
    let new = repository.set_tags(&old, &tags(&["x"]), "a test").unwrap();
    storage.put(&name, &[&bytes]).unwrap();
    assert_eq!(all(&repository).len(), 2);
    assert_eq!(repository.set_tags(&old, &tags(&["x"]), "a test").unwrap(), new);
    assert_eq!(
        all(&repository).iter().map(|info| info.id).collect::<Vec<_>>(),
        [new.unwrap()]
    );
}

#[test]
fn a_snapshot_with_missing_parts_stays_as_it_is() {
    let (storage, repository, folder) = new();
    backup(&repository, folder.path());
    let info = repository.snapshot("latest").unwrap();
    for name in stored(storage.as_ref(), "packs").keys() {
        storage.delete(name).unwrap();
    }
    let refused = repository.set_tags(&info, &tags(&["x"]), "a test").unwrap_err();
    assert!(
        matches!(refused, Error::SnapshotIncomplete { .. }) || refused.is_damage(),
        "{refused}"
    );
    let left = all(&repository);
    assert_eq!(left.iter().map(|info| info.id).collect::<Vec<_>>(), [info.id]);
    let filter = SnapshotFilter::default().tags(tags(&["x"]));
    assert!(!filter.matches(&left[0].snapshot));
}
