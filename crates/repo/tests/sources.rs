//! What is read from this machine, and what is left out.

mod support;

use ibid_format::tree::EntryKind;
use ibid_repo::{BackupOptions, Excludes, Monitor, Repository, Visit, Warning};
use std::path::Path;
use std::sync::{Arc, Mutex};
use support::{Folder, backup, noise, options, quick, repository};

/// Names (from the folder's root on) that the latest snapshot holds.
fn names(repository: &Repository, folder: &Folder) -> Vec<String> {
    let mut found = Vec::new();
    let snapshot = repository.snapshot("latest").unwrap();
    repository
        .visit(&snapshot, folder.inside(), &Monitor::silent(), &mut |path, _| {
            let path = Path::new("/").join(path);
            let inside = path.strip_prefix(folder.path()).unwrap();
            found.push(inside.to_str().unwrap().to_owned());
            Ok(Visit::Descend)
        })
        .unwrap();
    found.retain(|name| !name.is_empty());
    found
}

fn backup_without(folder: &Folder, excludes: Excludes) -> Vec<String> {
    let repository = repository();
    let options = BackupOptions {
        excludes,
        ..options(folder.path())
    };
    repository.backup(options, &Monitor::silent()).unwrap();
    names(&repository, folder)
}

#[test]
fn patterns_work_as_in_gitignore() {
    let folder = Folder::new();
    for name in [
        "a.o",
        "keep.o",
        "src/b.o",
        "src/b.c",
        "target/x",
        "src/target/y",
        "sub/only/z",
    ] {
        folder.write(name, b"x");
    }
    let patterns = ["*.o", "!keep.o", "target/"].map(str::to_owned).to_vec();
    let anchored = format!("{}/sub/only", folder.path().display());
    let excludes = Excludes {
        patterns: [patterns, vec![anchored]].concat(),
        ..Excludes::default()
    };
    assert_eq!(backup_without(&folder, excludes), ["keep.o", "src", "src/b.c", "sub"]);
}

#[test]
fn caches_and_large_files_can_be_left_out() {
    let folder = Folder::new();
    folder.write(
        "cache/CACHEDIR.TAG",
        b"Signature: 8a477f597d28d172789f06886806bc55\n# more",
    );
    folder.write("cache/inside", b"x");
    folder.write("no cache/CACHEDIR.TAG", b"something else");
    folder.write("no cache/inside", b"x");
    folder.write("large", &noise(1, 2000));
    let excludes = Excludes {
        caches: true,
        larger_than: Some(1999),
        ..Excludes::default()
    };
    let expected = [
        "cache",
        "cache/CACHEDIR.TAG",
        "no cache",
        "no cache/CACHEDIR.TAG",
        "no cache/inside",
    ];
    assert_eq!(backup_without(&folder, excludes), expected);
}

#[test]
fn a_repository_is_not_backed_up_into_itself() {
    let folder = Folder::new();
    folder.write("a", b"x");
    let storage = Arc::new(ibid_storage::Local::create(folder.path().join("the repository")).unwrap());
    let repository = Repository::init(storage, Some(b"secret"), &quick(), 0).unwrap();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let heard = warnings.clone();
    let monitor = Monitor::new(move |warning| heard.lock().unwrap().push(warning));
    repository.backup(options(folder.path()), &monitor).unwrap();
    assert_eq!(names(&repository, &folder), ["a"]);
    assert!(matches!(&warnings.lock().unwrap()[..], [Warning::OwnFolder { path }] if path.ends_with("the repository")));
}

#[test]
fn a_file_with_contents_but_no_size_is_read() {
    let repository = repository();
    let path = Path::new("/proc/version");
    backup(&repository, path);
    let snapshot = repository.snapshot("latest").unwrap();
    let mut out = Vec::new();
    repository
        .dump(&snapshot, b"proc/version", &Monitor::silent(), &mut out)
        .unwrap();
    assert_eq!(out, std::fs::read(path).unwrap());
}

#[test]
fn every_name_of_a_file_is_kept_with_its_contents() {
    let folder = Folder::new();
    folder.write("a/first", &noise(1, 3_000_000));
    folder.write("b", &noise(2, 1000));
    for (old, new) in [("a/first", "a/second"), ("a/first", "z"), ("b", "c"), ("b", "outside")] {
        std::fs::hard_link(folder.path().join(old), folder.path().join(new)).unwrap();
    }
    let excludes = Excludes {
        patterns: vec!["outside".into()],
        ..Excludes::default()
    };
    let repository = repository();
    let options = BackupOptions {
        excludes,
        ..options(folder.path())
    };
    let summary = repository.backup(options, &Monitor::silent()).unwrap();
    assert_eq!((summary.counters.files, summary.counters.unreadable), (5, 0));
    let snapshot = repository.snapshot("latest").unwrap();
    let mut contents = Vec::new();
    repository
        .visit(&snapshot, folder.inside(), &Monitor::silent(), &mut |path, entry| {
            if let EntryKind::File(content) = &entry.kind {
                contents.push((
                    path.to_owned(),
                    content.length,
                    entry.inode,
                    entry.hard_link_device.is_some(),
                ));
            }
            Ok(Visit::Descend)
        })
        .unwrap();
    assert!(contents.iter().all(|(_, _, _, linked)| *linked));
    let of = |length| {
        contents
            .iter()
            .filter(|(_, l, _, _)| *l == length)
            .map(|(_, _, inode, _)| *inode)
            .collect::<Vec<_>>()
    };
    assert_eq!((of(3_000_000).len(), of(1000).len()), (3, 2));
    assert!(of(3_000_000).windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn two_paths_one_inside_the_other_and_one_twice_are_kept_once() {
    let folder = Folder::new();
    folder.write("in/a", b"1");
    folder.write("in/b", b"2");
    folder.write("beside", b"3");
    let repository = repository();
    let paths = ["in", "in/a", "in"].map(|name| folder.path().join(name)).to_vec();
    let options = BackupOptions {
        paths,
        ..BackupOptions::default()
    };
    repository.backup(options, &Monitor::silent()).unwrap();
    assert_eq!(names(&repository, &folder), ["in", "in/a", "in/b"]);
}
