//! Reading this machine's files, and leaving some out.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use ibid_format::tree::EntryKind;
use ibid_repo::{BackupOptions, Excludes, Monitor, Repository, RestoreOptions, Visit, Warning};

use crate::support;
use crate::support::{Folder, backup, noise, options, quick, repository};

/// Returns the names, from the folder's root on, in the latest snapshot.
fn names(repository: &Repository, folder: &Folder) -> Vec<String> {
    let mut found = Vec::new();
    let snapshot = repository.snapshot("latest").unwrap();
    repository
        .visit(snapshot.at(folder.path()), |path, _| {
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
    let options = options(folder.path()).excludes(excludes);
    repository.backup(&options).unwrap();
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
    let excludes = Excludes::default().patterns([patterns, vec![anchored]].concat());
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
    let excludes = Excludes::default().caches(true).larger_than(Some(1999));
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
fn a_folder_with_a_tag_is_kept_with_nothing_but_the_tag_and_what_was_named() {
    let folder = Folder::new();
    for name in [".nobackup", "inside", "deep/inside"] {
        folder.write(format!("by file/{name}"), b"x");
    }
    folder.write("by folder/.git/config", b"x");
    folder.write("by folder/inside", b"x");
    folder.write("other/nobackup", b"x");
    std::fs::create_dir(folder.path().join("by link")).unwrap();
    std::os::unix::fs::symlink("nowhere", folder.path().join("by link/.nobackup")).unwrap();
    folder.write("by link/inside", b"x");
    let tags = [".nobackup", ".git"].map(Into::into).to_vec();
    let excludes = Excludes::default().if_present(tags);
    let expected = [
        "by file",
        "by file/.nobackup",
        "by folder",
        "by folder/.git",
        "by link",
        "by link/.nobackup",
        "other",
        "other/nobackup",
    ];
    assert_eq!(backup_without(&folder, excludes.clone()), expected);
    let repository = repository();
    let inside = folder.path().join("by file/deep/inside");
    repository
        .backup(&options(folder.path()).path(inside).excludes(excludes))
        .unwrap();
    let found = names(&repository, &folder);
    assert!(found.contains(&"by file/deep/inside".to_owned()) && !found.contains(&"by file/inside".to_owned()));
    for name in ["", ".", "a/b"] {
        let excludes = Excludes::default().if_present(vec![name.into()]);
        let refused = repository
            .backup(&options(folder.path()).excludes(excludes))
            .unwrap_err();
        assert!(matches!(refused, ibid_repo::Error::BadTagName { .. }), "{refused}");
    }
}

#[test]
fn patterns_of_any_case_are_a_list_of_their_own() {
    let folder = Folder::new();
    for name in ["a.TMP", "B.tmp", "keep.tmp", "GRÜN", "c.o", "C.O"] {
        folder.write(name, b"x");
    }
    let excludes = Excludes::default()
        .patterns(["*.o", "!keep.tmp"].map(str::to_owned).to_vec())
        .any_case(["*.tmp", "grün"].map(str::to_owned).to_vec());
    assert_eq!(backup_without(&folder, excludes), ["C.O"]);
    let excludes = Excludes::default().any_case(["*.tmp", "!KEEP.*", "*.o"].map(str::to_owned).to_vec());
    assert_eq!(backup_without(&folder, excludes), ["GRÜN", "keep.tmp"]);
}

#[test]
fn a_repository_is_not_backed_up_into_itself() {
    let folder = Folder::new();
    folder.write("a", b"x");
    let storage = Arc::new(ibid_storage::Local::create(folder.path().join("the repository")).unwrap());
    let repository = Repository::init(storage, Some(b"secret"), &quick()).unwrap();
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let heard = warnings.clone();
    let monitor = Arc::new(Monitor::new(move |warning| heard.lock().unwrap().push(warning)));
    repository.watched_by(&monitor).backup(&options(folder.path())).unwrap();
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
    repository.dump(snapshot.at("proc/version"), &mut out).unwrap();
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
    let excludes = Excludes::default().patterns(vec!["outside".into()]);
    let repository = repository();
    let options = options(folder.path()).excludes(excludes);
    let summary = repository.backup(&options).unwrap();
    assert_eq!((summary.counters.files, summary.counters.unreadable), (5, 0));
    let snapshot = repository.snapshot("latest").unwrap();
    let mut contents = Vec::new();
    repository
        .visit(snapshot.at(folder.path()), |path, entry| {
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
    let options = BackupOptions::default().paths(paths);
    repository.backup(&options).unwrap();
    assert_eq!(names(&repository, &folder), ["in", "in/a", "in/b"]);
}

/// A file named by the user is stored even if everything around it is excluded.
#[test]
fn a_named_file_is_kept_whatever_leaves_out_the_folders_around_it() {
    let folder = Folder::new();
    for name in ["x.iso", "y.iso", "skip/deep/kept", "skip/deep/lost", "skip/lost"] {
        folder.write(name, b"x");
    }
    folder.write("cache/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55");
    for name in ["cache/sub/kept", "cache/sub/lost", "cache/lost"] {
        folder.write(name, b"x");
    }
    let named = ["", "x.iso", "skip/deep/kept", "cache/sub/kept"];
    let repository = repository();
    let options = BackupOptions::default()
        .paths(named.map(|name| folder.path().join(name)).to_vec())
        .excludes(
            Excludes::default()
                .patterns(["*.iso", "skip/"].map(str::to_owned).to_vec())
                .caches(true),
        );
    let summary = repository.backup(&options).unwrap();
    assert_eq!(summary.counters.unreadable, 0);
    let expected = [
        "cache",
        "cache/CACHEDIR.TAG",
        "cache/sub",
        "cache/sub/kept",
        "skip",
        "skip/deep",
        "skip/deep/kept",
        "x.iso",
    ];
    assert_eq!(names(&repository, &folder), expected);
}

/// `/proc` is never on the same file system as `/`.
#[test]
fn paths_named_on_another_file_system_are_kept_with_one_file_system_too() {
    let repository = repository();
    let options = BackupOptions::default()
        .paths(["/", "/proc/sys/kernel/ostype"].map(Into::into).to_vec())
        .excludes(
            Excludes::default()
                .patterns(["/*", "!/proc/"].map(str::to_owned).to_vec())
                .one_file_system(true),
        );
    repository.backup(&options).unwrap();
    let mut found = Vec::new();
    let snapshot = repository.snapshot("latest").unwrap();
    repository
        .visit(&snapshot, |path, _| {
            found.push(path.to_owned());
            Ok(Visit::Descend)
        })
        .unwrap();
    let expected = ["proc", "proc/sys", "proc/sys/kernel", "proc/sys/kernel/ostype"];
    assert_eq!(found, expected.map(std::path::PathBuf::from));
}

/// Backs up a folder that contains its own repository, "m", and calls `change` when the walk meets
/// that. Returns the files left out, with the reasons.
fn backup_with_a_change_half_way(
    folder: &Folder,
    change: impl Fn(&Monitor) + Send + Sync + 'static,
) -> (Repository, Vec<(String, String)>) {
    let storage = Arc::new(ibid_storage::Local::create(folder.path().join("m")).unwrap());
    let repository = Repository::init(storage, Some(b"secret"), &quick()).unwrap();
    let left_out = Arc::new(Mutex::new(Vec::new()));
    let itself: Arc<OnceLock<Arc<Monitor>>> = Arc::default();
    let monitor = Arc::new(Monitor::new({
        let (left_out, itself) = (left_out.clone(), itself.clone());
        move |warning| match warning {
            Warning::OwnFolder { .. } => change(itself.get().unwrap()),
            Warning::Skipped { path, error } => {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                left_out.lock().unwrap().push((name, error.to_string()));
            }
            _ => {}
        }
    }));
    itself.set(monitor.clone()).unwrap();
    let summary = repository.watched_by(&monitor).backup(&options(folder.path())).unwrap();
    let left_out = std::mem::take(&mut *left_out.lock().unwrap());
    assert_eq!(summary.counters.unreadable, left_out.len() as u64);
    (repository, left_out)
}

#[test]
fn a_file_that_vanishes_is_named_and_counted_whenever_it_does() {
    let folder = Folder::new();
    // When the walk meets the repository, one file was examined but not read yet, and another only
    // listed.
    folder.write("a", b"x");
    folder.write("z", b"x");
    folder.write("stays", b"x");
    let path = folder.path().to_owned();
    let (repository, left_out) = backup_with_a_change_half_way(&folder, move |_| {
        for name in ["a", "z"] {
            std::fs::remove_file(path.join(name)).unwrap();
        }
    });
    assert_eq!(names(&repository, &folder), ["stays"]);
    assert_eq!(left_out.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["a", "z"]);
    for (name, reason) in left_out {
        assert!(reason.contains("vanished during the backup"), "{name}: {reason}");
    }
}

/// Between two names of a file, its number got other contents: the file was changed, or it was
/// removed and its number reused.
#[test]
fn a_file_that_changes_between_two_of_its_names_is_read_by_both() {
    let folder = Folder::new();
    folder.write("a/first", b"as it was");
    // Small files go to the workers before a large one does.
    folder.write("b", &noise(1, 2 << 20));
    std::fs::create_dir(folder.path().join("z")).unwrap();
    for other in ["z/second", "z/third"] {
        std::fs::hard_link(folder.path().join("a/first"), folder.path().join(other)).unwrap();
    }
    // The walk is ahead of what is read, but not by so many directories.
    for n in 0..200 {
        std::fs::create_dir_all(folder.path().join(format!("y/{n:03}"))).unwrap();
    }
    let path = folder.path().to_owned();
    let (repository, left_out) = backup_with_a_change_half_way(&folder, move |monitor| {
        while monitor.counters.files.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        std::fs::write(path.join("a/first"), "as it is now").unwrap();
    });
    assert_eq!(left_out, []);
    let out = support::scratch();
    let snapshot = repository.snapshot("latest").unwrap();
    let options = RestoreOptions::default();
    repository
        .restore(snapshot.at(folder.path()), out.path(), &options)
        .unwrap();
    let restored = |name| std::fs::read_to_string(out.path().join(name)).unwrap();
    assert_eq!(restored("a/first"), "as it was");
    assert_eq!(restored("z/second"), "as it is now");
    assert_eq!(restored("z/third"), "as it is now");
}

/// More attributes than an entry can hold. Only XFS and, since Linux 6.6, tmpfs store so many:
/// elsewhere the test does nothing.
#[test]
fn a_file_or_folder_with_more_attributes_than_an_entry_holds_is_stored_without_those_and_they_are_named() {
    let folder = Folder::scratch();
    folder.write("file", b"contents");
    folder.write("folder/below", b"below");
    folder.write("other", b"other");
    let value = noise(1, 65_000);
    for name in ["file", "folder"] {
        for n in 10..27 {
            let flags = rustix::fs::XattrFlags::empty();
            let set = rustix::fs::setxattr(folder.path().join(name), format!("user.{n}"), &value, flags);
            if set.is_err() {
                return;
            }
        }
    }
    let lost = Arc::new(Mutex::new(Vec::new()));
    let monitor = Arc::new(Monitor::new({
        let lost = lost.clone();
        move |warning| match warning {
            Warning::Attributes { path, what, .. } => {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                lost.lock().unwrap().push((name, what));
            }
            other => panic!("{other:?}"),
        }
    }));
    let repository = repository();
    let summary = repository.watched_by(&monitor).backup(&options(folder.path())).unwrap();
    assert_eq!(names(&repository, &folder), ["file", "folder", "folder/below", "other"]);
    assert_eq!((summary.counters.unreadable, summary.attributes_lost), (0, 6));
    let mut lost = std::mem::take(&mut *lost.lock().unwrap());
    lost.sort();
    let expected =
        ["file", "folder"].map(|name| [24, 25, 26].map(|n| (name.to_owned(), format!("extended attribute user.{n}"))));
    assert_eq!(lost, expected.as_flattened());
    let snapshot = repository.snapshot("latest").unwrap();
    let mut kept = 0;
    repository
        .visit(snapshot.at(folder.path()), |_, entry| {
            kept += entry.xattrs.iter().filter(|(_, found)| *found == value).count();
            Ok(Visit::Descend)
        })
        .unwrap();
    assert_eq!(kept, 2 * 14);
}
