//! A search finds what a visit of every entry finds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_repo::{EntryKind, FileId, Patterns, Repository, SnapshotInfo, Visit};
use ibid_storage::Memory;
use ibid_storage::fault::Flaky;

use crate::support::{Folder, Random, backup, quick, repository};

type Matches = Vec<(FileId, PathBuf)>;

/// Looks at every entry.
fn slowly(repository: &Repository, snapshots: &[SnapshotInfo], below: &str, patterns: &Patterns) -> Matches {
    let mut found = Vec::new();
    for info in snapshots {
        let visited = repository.visit(info.at(below), |path, entry| {
            if patterns.matches(path, matches!(entry.kind, EntryKind::Directory(_))) {
                found.push((info.id, path.to_owned()));
            }
            Ok(Visit::Descend)
        });
        visited.unwrap();
    }
    found
}

fn search(repository: &Repository, snapshots: &[SnapshotInfo], below: &str, patterns: &Patterns) -> Matches {
    let mut found = Vec::new();
    let mut search = repository.search(patterns).unwrap();
    for info in snapshots {
        let each = |path: &Path, _: &_| {
            found.push((info.id, path.to_owned()));
            Ok(())
        };
        search.visit(info.at(below), each).unwrap();
    }
    found
}

/// Returns a repository of snapshots of a tree in which names come again in other folders, and the root of it.
fn history(seed: u64) -> (Repository, Folder) {
    let repository = repository();
    let folder = Folder::scratch();
    let mut random = Random(seed);
    for _ in 0..6 {
        for _ in 0..12 {
            let name = |random: &mut Random| ["a", "b", "C", "d.txt", "a.txt", "x y"][random.below(6) as usize];
            let depth = 1 + random.below(4);
            let mut path = folder.path().to_owned();
            for _ in 0..depth {
                path.push(name(&mut random));
            }
            // What stands in the way as a file or as a folder is left.
            if path
                .parent()
                .is_some_and(|parent| std::fs::create_dir_all(parent).is_ok())
            {
                let _ = match random.below(5) {
                    0 => std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path)),
                    // Equal files in several folders.
                    _ => std::fs::write(&path, [random.below(2) as u8]),
                };
            }
        }
        backup(&repository, folder.path());
    }
    (repository, folder)
}

/// Returns a pattern of names that are there, and of wildcards.
fn pattern(random: &mut Random, root: &str) -> String {
    let parts = [
        "a", "b", "C", "d.txt", "*", "?", "**", "{a,b}", "{a/b,C}", "[!a]", "*.txt", "c", "x y", "a/b",
    ];
    let names: Vec<&str> = (0..1 + random.below(3))
        .map(|_| parts[random.below(parts.len() as u64) as usize])
        .collect();
    let negates = if random.below(6) == 0 { "!" } else { "" };
    let end = if random.below(5) == 0 { "/" } else { "" };
    let start = match random.below(4) {
        0 => String::new(),
        1 => "/".to_owned(),
        _ => format!("{root}/"),
    };
    format!("{negates}{start}{}{end}", names.join("/"))
}

#[test]
fn a_search_finds_what_a_look_at_every_entry_finds() {
    let (mut found, mut nothing) = (0, 0);
    for seed in 1..=8 {
        let (repository, folder) = history(seed);
        let snapshots = repository.snapshots().unwrap();
        let root = folder.path().to_str().unwrap();
        let mut random = Random(seed * 77);
        for _ in 0..150 {
            let list: Vec<String> = (0..1 + random.below(2)).map(|_| pattern(&mut random, root)).collect();
            let patterns = Patterns::new(&list, random.below(2) == 0).unwrap();
            let below = if random.below(4) == 0 { root } else { "" };
            let expected = slowly(&repository, &snapshots, below, &patterns);
            assert_eq!(search(&repository, &snapshots, below, &patterns), expected, "{list:?}");
            match expected.is_empty() {
                true => nothing += 1,
                false => found += 1,
            }
        }
    }
    assert!(found > 200 && nothing > 200, "{found} {nothing}");
}

/// The same contents at another path are another place.
#[test]
fn a_folder_that_moved_is_searched_again() {
    let repository = repository();
    let folder = Folder::scratch();
    for place in ["one", "two"] {
        let below = folder.path().join(place).join("deep");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(below.join("file"), b"the same").unwrap();
    }
    backup(&repository, folder.path());
    let patterns = Patterns::new(&["two/deep/file"], false).unwrap();
    let snapshots = repository.snapshots().unwrap();
    assert_eq!(search(&repository, &snapshots, "", &patterns).len(), 1);
}

#[test]
fn folders_on_no_way_to_a_whole_path_are_not_read() {
    let storage = Arc::new(Flaky::new(Memory::new()));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    for place in 0..40 {
        let below = folder.path().join(format!("folder {place}"));
        std::fs::create_dir_all(&below).unwrap();
        let names = (0..100).map(|number| below.join(format!("a file of some length {number} {place}")));
        names.for_each(|name| std::fs::write(name, b"").unwrap());
        // In packs of their own.
        backup(&repository, folder.path());
    }
    let latest = [repository.snapshot("latest").unwrap()];
    let reads = |pattern: &str| {
        let repository = Repository::open(storage.clone(), Some(b"secret")).unwrap();
        let patterns = Patterns::new(&[pattern], false).unwrap();
        let before = storage.counts().read_at;
        let found = search(&repository, &latest, "", &patterns).len();
        (found, storage.counts().read_at - before)
    };
    let root = folder.path().display();
    let (found, few) = reads(&format!("{root}/folder 7/*"));
    let (all, many) = reads("folder 7/*");
    assert_eq!((found, all), (100, 100));
    assert!(few * 4 < many, "{few} reads, {many} of all folders");
}
