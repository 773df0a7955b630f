//! Restoring over existing files: they are replaced by complete ones, updated with verified chunks,
//! or left alone.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use ibid_repo::{Error, Monitor, Overwrite, Repository, RestoreOptions, RestoreSummary, Warning};
use ibid_storage::{Memory, Storage};
use rustix::fs::XattrFlags;

use crate::support::{Folder, backup, contents, difference, noise, quick, same_tree};

/// A folder, a snapshot of it, and a place to restore it to.
struct Scene {
    folder: Folder,
    storage: Arc<Memory>,
    repository: Repository,
    out: tempfile::TempDir,
    said: Arc<Mutex<Vec<Warning>>>,
}

impl Scene {
    fn of(folder: Folder) -> Scene {
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
        backup(&repository, folder.path());
        Scene {
            folder,
            storage,
            repository,
            out: tempfile::tempdir().unwrap(),
            said: Arc::default(),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.out.path().join(name)
    }

    fn restore(&self, overwrite: Overwrite) -> Result<RestoreSummary, Error> {
        self.restore_with(RestoreOptions::default().overwrite(overwrite))
    }

    fn restore_with(&self, options: RestoreOptions) -> Result<RestoreSummary, Error> {
        let said = self.said.clone();
        let monitor = Arc::new(Monitor::new(move |warning| said.lock().unwrap().push(warning)));
        // One thread: frame after frame.
        let options = options.threads(Some(1));
        let snapshot = self.repository.snapshot("latest").unwrap();
        let inside = self.folder.path();
        self.repository
            .watched_by(&monitor)
            .restore(snapshot.at(inside), self.out.path(), &options)
    }

    #[track_caller]
    fn restored(&self, overwrite: Overwrite) -> RestoreSummary {
        let summary = self.restore(overwrite).unwrap();
        assert_eq!(
            (summary.failed, self.said.lock().unwrap().len()),
            (0, 0),
            "{:?}",
            self.said
        );
        summary
    }

    /// Flips a bit in the middle of the pack that holds the files' contents.
    fn damage(&self) {
        let mut packs = Vec::new();
        self.storage
            .list("packs", &mut |name, size| packs.push((size, name)))
            .unwrap();
        packs.sort();
        let (_, largest) = packs.pop().unwrap();
        let mut bytes = self.storage.get(&largest, 1 << 30).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        self.storage.delete(&largest).unwrap();
        self.storage.put(&largest, &[&bytes]).unwrap();
    }
}

/// Returns a file of three frames with two names.
fn linked() -> Folder {
    let folder = Folder::new();
    folder.write("f", &noise(1, 3_000_000));
    std::fs::hard_link(folder.path().join("f"), folder.path().join("g")).unwrap();
    folder
}

fn inode(path: impl AsRef<Path>) -> u64 {
    path.as_ref().symlink_metadata().unwrap().ino()
}

#[test]
fn files_stay_under_all_their_names_when_what_should_replace_them_is_damaged() {
    for local in [noise(1, 3_000_000), noise(2, 4_000_000), Vec::new()] {
        let scene = Scene::of(linked());
        std::fs::write(scene.at("f"), &local).unwrap();
        std::fs::hard_link(scene.at("f"), scene.at("g")).unwrap();
        let before = contents(scene.out.path());
        scene.damage();
        let is_right = local == noise(1, 3_000_000);
        for overwrite in [Overwrite::Always, Overwrite::IfChanged] {
            let failed = scene.restore(overwrite).unwrap().failed;
            // A file with the right contents but the wrong time is made anew: its other name may be
            // outside the destination.
            assert_eq!(failed, 2, "{is_right}");
            assert_eq!(difference(&before, &contents(scene.out.path())), None);
            assert_eq!(inode(scene.at("f")), inode(scene.at("g")));
        }
    }
}

#[test]
fn a_restore_that_is_stopped_takes_nothing_away() {
    let scene = Scene::of(linked());
    for name in ["f", "g"] {
        std::fs::write(scene.at(name), b"all there is").unwrap();
    }
    let before = contents(scene.out.path());
    let snapshot = scene.repository.snapshot("latest").unwrap();
    let options = RestoreOptions::default().overwrite(Overwrite::Always);
    let monitor = Arc::new(Monitor::default());
    std::fs::remove_file(scene.at("g")).unwrap();
    std::fs::hard_link(scene.at("f"), scene.at("g")).unwrap();
    monitor.cancel();
    let result =
        scene
            .repository
            .watched_by(&monitor)
            .restore(snapshot.at(scene.folder.path()), scene.out.path(), &options);
    assert!(matches!(result, Err(Error::Interrupted)));
    assert_eq!(difference(&before, &contents(scene.out.path())), None);
}

#[test]
fn names_that_are_right_already_are_left_as_they_are() {
    let scene = Scene::of(linked());
    scene.restored(Overwrite::Refuse);
    let before = (
        inode(scene.at("f")),
        std::fs::metadata(scene.at("f")).unwrap().ctime_nsec(),
    );
    let always = scene.restored(Overwrite::Always);
    assert_eq!((always.files, always.bytes_written, always.kept), (2, 0, 0));
    let if_changed = scene.restored(Overwrite::IfChanged);
    assert_eq!((if_changed.files, if_changed.bytes, if_changed.kept), (0, 0, 2));
    let after = (
        inode(scene.at("f")),
        std::fs::metadata(scene.at("f")).unwrap().ctime_nsec(),
    );
    assert_eq!(before, after);
    same_tree(scene.folder.path(), scene.out.path());
}

#[test]
fn a_file_with_another_name_outside_is_left_if_it_is_right_and_parts_from_that_name_if_not() {
    let scene = Scene::of(linked());
    scene.restored(Overwrite::Refuse);
    let elsewhere = tempfile::tempdir().unwrap();
    let outside = elsewhere.path().join("outside");
    std::fs::hard_link(scene.at("f"), &outside).unwrap();
    scene.restored(Overwrite::Always);
    assert_eq!(inode(scene.at("f")), inode(&outside));
    // A mode belongs to all names of a file.
    std::fs::set_permissions(&outside, PermissionsExt::from_mode(0o777)).unwrap();
    for overwrite in [Overwrite::IfChanged, Overwrite::Always] {
        scene.restored(overwrite);
        assert_eq!(std::fs::metadata(&outside).unwrap().mode() & 0o777, 0o777);
        assert_ne!(inode(scene.at("f")), inode(&outside));
    }
    same_tree(scene.folder.path(), scene.out.path());
}

#[test]
fn a_file_that_can_only_be_mended_in_part_is_named_and_one_that_cannot_be_at_all_is_as_it_was() {
    let folder = Folder::new();
    folder.write("file", &noise(1, 3_000_000));
    let scene = Scene::of(folder);
    scene.damage();
    let mixed = |local: &[u8]| {
        std::fs::write(scene.at("file"), local).unwrap();
        assert_eq!(scene.restore(Overwrite::Always).unwrap().failed, 1);
        let said = std::mem::take(&mut *scene.said.lock().unwrap());
        let is_named = |warning: &Warning| matches!(warning, Warning::Mixed { path } if path.ends_with("file"));
        said.iter().any(is_named)
    };
    // The missing part is the damaged one: the file can't be completed.
    let mut local = noise(1, 3_000_000);
    local[1_200_000..1_800_000].fill(0);
    local.extend_from_slice(b"more");
    assert!(!mixed(&local));
    assert!(std::fs::read(scene.at("file")).unwrap() == local);
    // The undamaged part was updated, and the rest is unchanged.
    let other = noise(2, 4_000_000);
    assert!(mixed(&other));
    let found = std::fs::read(scene.at("file")).unwrap();
    assert!(found[..500_000] == noise(1, 3_000_000)[..500_000] && found[3_000_000..] == other[3_000_000..]);
}

#[test]
fn links_pipes_sockets_and_devices_that_are_right_are_not_made_anew() {
    let folder = Folder::with_everything();
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        folder.path().join("device"),
        rustix::fs::FileType::CharacterDevice,
        0o600.into(),
        rustix::fs::makedev(1, 3),
    );
    let mut names = vec!["link", "broken link", "fifo", "socket"];
    names.extend(made.is_ok().then_some("device"));
    let scene = Scene::of(folder);
    scene.restored(Overwrite::Refuse);
    let before: Vec<u64> = names.iter().map(|name| inode(scene.at(name))).collect();
    std::fs::set_permissions(scene.at("fifo"), PermissionsExt::from_mode(0o777)).unwrap();
    for overwrite in [Overwrite::Always, Overwrite::IfChanged] {
        scene.restored(overwrite);
        let after: Vec<u64> = names.iter().map(|name| inode(scene.at(name))).collect();
        assert_eq!(before, after);
        same_tree(scene.folder.path(), scene.out.path());
    }
    std::fs::remove_file(scene.at("link")).unwrap();
    symlink("elsewhere", scene.at("link")).unwrap();
    scene.restored(Overwrite::Always);
    same_tree(scene.folder.path(), scene.out.path());
}

/// Returns `u::rwx,u:12345:rwx,g::r-x,m::rwx,o::r-x` in the kernel's encoding.
fn acl() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 7, u32::MAX),
        (0x02, 7, 12345),
        (0x04, 5, u32::MAX),
        (0x10, 7, u32::MAX),
        (0x20, 5, u32::MAX),
    ];
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[test]
fn extended_attributes_that_the_snapshot_does_not_have_go_and_none_are_inherited() {
    let set = |path: &Path, name: &str, value: &[u8]| {
        rustix::fs::setxattr(path, name, value, XattrFlags::empty()).unwrap();
    };
    for inherits in [false, true] {
        let folder = Folder::new();
        folder.write("dir/file", b"private");
        folder.write("dir/other", b"private");
        std::fs::set_permissions(folder.path().join("dir/file"), PermissionsExt::from_mode(0o600)).unwrap();
        set(&folder.path().join("dir/other"), "system.posix_acl_access", &acl());
        set(&folder.path().join("dir/other"), "user.kept", b"yes");
        let scene = Scene::of(folder);
        if inherits {
            set(scene.out.path(), "system.posix_acl_default", &acl());
            scene.restored(Overwrite::Refuse);
            same_tree(scene.folder.path(), scene.out.path());
        } else {
            scene.restored(Overwrite::Refuse);
            for name in ["dir", "dir/file", "dir/other"] {
                set(&scene.at(name), "system.posix_acl_access", &acl());
                set(&scene.at(name), "user.extra", b"1");
                set(&scene.at(name), "user.kept", b"2");
            }
            set(&scene.at("dir"), "system.posix_acl_default", &acl());
            scene.restored(Overwrite::Always);
            same_tree(scene.folder.path(), scene.out.path());
        }
    }
}

#[test]
fn modes_owners_and_attributes_are_mended_where_the_contents_are_left() {
    let scene = Scene::of(Folder::with_everything());
    scene.restored(Overwrite::Refuse);
    let mend = |name: &str| {
        let path = scene.at(name);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12345), Some(12345)).unwrap();
        }
        let before = inode(&path);
        let summary = scene.restored(Overwrite::IfChanged);
        assert_eq!((summary.files, summary.bytes_written), (0, 0));
        assert_eq!(before, inode(&path));
        same_tree(scene.folder.path(), scene.out.path());
    };
    ["small", "empty", "deep/er", "fifo"].into_iter().for_each(mend);
}

#[test]
fn an_empty_folder_makes_room_for_a_file_and_one_that_is_not_empty_is_named() {
    let folder = Folder::new();
    folder.write("file", b"contents");
    symlink("file", folder.path().join("link")).unwrap();
    let scene = Scene::of(folder);
    for name in ["file", "link"] {
        std::fs::create_dir(scene.at(name)).unwrap();
    }
    scene.restored(Overwrite::Always);
    same_tree(scene.folder.path(), scene.out.path());
    for name in ["file", "link"] {
        std::fs::remove_file(scene.at(name)).unwrap();
        std::fs::create_dir_all(scene.at(name).join("mine")).unwrap();
    }
    assert_eq!(scene.restore(Overwrite::Always).unwrap().failed, 2);
    let said = scene.said.lock().unwrap();
    assert_eq!(said.len(), 2);
    for warning in said.iter() {
        let Warning::Skipped { error, .. } = warning else {
            panic!("{warning:?}")
        };
        assert!(error.to_string().contains("not empty"), "{error}");
    }
    assert!(scene.at("file/mine").is_dir() && scene.at("link/mine").is_dir());
}

#[test]
fn never_keeps_what_stands_where_a_folder_belongs_and_says_what_has_no_place() {
    let folder = Folder::new();
    folder.write("dir/a", b"a");
    folder.write("dir/sub/b", b"b");
    let scene = Scene::of(folder);
    std::fs::write(scene.at("dir"), b"mine").unwrap();
    let summary = scene.restore(Overwrite::Never).unwrap();
    assert_eq!((summary.failed, summary.kept, summary.files), (0, 4, 0));
    assert_eq!(std::fs::read(scene.at("dir")).unwrap(), b"mine");
    let said = scene.said.lock().unwrap();
    assert!(matches!(&said[..], [Warning::Kept { below: 3, .. }]), "{said:?}");
}

#[test]
fn a_new_destination_becomes_like_the_folder_that_is_restored_and_an_old_one_only_if_told() {
    let folder = Folder::new();
    folder.write("file", b"contents");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o2710)).unwrap();
    rustix::fs::setxattr(folder.path(), "user.of the folder", b"1", XattrFlags::empty()).unwrap();
    let old = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 5);
    let times = std::fs::FileTimes::new().set_modified(old);
    std::fs::File::open(folder.path()).unwrap().set_times(times).unwrap();
    let scene = Scene::of(folder);
    let snapshot = scene.repository.snapshot("latest").unwrap();
    let look = |path: &Path| {
        let meta = path.metadata().unwrap();
        let attribute = rustix::fs::getxattr(path, "user.of the folder", &mut [0u8; 9][..]).is_ok();
        (meta.mode(), meta.mtime(), meta.mtime_nsec(), attribute)
    };
    let restored = |inside: &Path, overwrite, exists: bool| {
        let out = scene.at(&format!("{} {overwrite:?} {exists}", inside.as_os_str().len()));
        if exists {
            std::fs::create_dir(&out).unwrap();
        }
        let options = RestoreOptions::default().overwrite(overwrite);
        scene.repository.restore(snapshot.at(inside), &out, &options).unwrap();
        look(&out) == look(scene.folder.path())
    };
    let inside = scene.folder.path();
    for overwrite in [
        Overwrite::Refuse,
        Overwrite::Never,
        Overwrite::IfChanged,
        Overwrite::Always,
    ] {
        assert!(restored(inside, overwrite, false), "{overwrite:?}");
        let told = matches!(overwrite, Overwrite::IfChanged | Overwrite::Always);
        assert_eq!(restored(inside, overwrite, true), told, "{overwrite:?}");
        // The root of a snapshot has no entry of its own.
        assert!(!restored(Path::new(""), overwrite, false), "{overwrite:?}");
    }
}

/// The same happens on a file system that treats `A` and `a` as one name.
#[test]
fn files_that_appear_during_a_restore_are_not_overwritten_unless_told() {
    let folder = Folder::new();
    for n in 0..5000 {
        folder.write(format!("{n:04}"), &noise(n, 100));
    }
    folder.write("z", b"of the snapshot");
    let scene = Scene::of(folder);
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !scene.at("0000").exists() && !done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            std::fs::write(scene.at("z"), b"somebody's").unwrap();
        });
        let result = scene.restore(Overwrite::Refuse);
        done.store(true, Ordering::Relaxed);
        result
    });
    assert_eq!(result.unwrap().failed, 1);
    assert_eq!(std::fs::read(scene.at("z")).unwrap(), b"somebody's");
}

#[test]
fn the_rest_of_a_damaged_file_is_kept_under_another_name_if_asked_for() {
    let folder = linked();
    let long = "n".repeat(255);
    folder.write(&long, &noise(1, 3_000_000));
    folder.write("whole", b"whole");
    let scene = Scene::of(folder);
    scene.damage();
    let whole = noise(1, 3_000_000);
    // In an empty destination, and beside an existing file, which stays.
    for (round, name) in ["f.damaged", "f.damaged-1"].into_iter().enumerate() {
        let summary = scene
            .restore_with(
                RestoreOptions::default()
                    .overwrite(Overwrite::Always)
                    .keep_damaged(true)
                    .verify(true),
            )
            .unwrap();
        assert_eq!((summary.failed, summary.damaged, summary.verified), (3, 2, 1));
        let kept = std::fs::read(scene.at(name)).unwrap();
        assert_eq!(kept.len(), whole.len());
        let is_lost = |at: &usize| kept[*at] != whole[*at];
        let (first, last) = (
            (0..kept.len()).find(is_lost).unwrap(),
            (0..kept.len()).rfind(is_lost).unwrap(),
        );
        assert!(first > 500_000 && last < 2_500_000);
        assert!(kept[first..=last].iter().all(|byte| *byte == 0));
        let said = std::mem::take(&mut *scene.said.lock().unwrap());
        let text = said.iter().find_map(|warning| match warning {
            Warning::Skipped { path, error } if path.ends_with("f") => Some(error.to_string()),
            _ => None,
        });
        let text = text.unwrap();
        assert!(
            text.contains(&format!("bytes {first}–{last}")) && text.contains(&format!("{name:?}")),
            "{text}"
        );
        match round {
            0 => {
                assert!(!scene.at("f").exists() && !scene.at("g").exists());
                assert!(scene.at(&format!("{}.damaged", &long[..247])).exists());
                std::fs::write(scene.at("f"), b"mine").unwrap();
            }
            _ => assert_eq!(std::fs::read(scene.at("f")).unwrap(), b"mine"),
        }
    }
    let left = contents(scene.out.path());
    assert!(
        left.keys().all(|path| !path.to_str().unwrap().starts_with('.')),
        "{:?}",
        left.keys()
    );
}

#[test]
fn how_much_there_is_to_do_is_known_and_reached() {
    let folder = Folder::with_everything();
    let scene = Scene::of(folder);
    let snapshot = scene.repository.snapshot("latest").unwrap();
    let (mut files, mut bytes) = (0, 0);
    let count = &mut |path: &Path, entry: &ibid_format::tree::TreeEntry| {
        if let ibid_format::tree::EntryKind::File(content) = &entry.kind
            && !path.ends_with("large")
        {
            (files, bytes) = (files + 1, bytes + content.length);
        }
        Ok(ibid_repo::Visit::Descend)
    };
    scene.repository.visit(snapshot.at(scene.folder.path()), count).unwrap();
    for (overwrite, verify) in [
        (Overwrite::Refuse, false),
        (Overwrite::Always, false),
        (Overwrite::IfChanged, true),
    ] {
        let monitor = Arc::new(Monitor::default());
        let options = RestoreOptions::default()
            .overwrite(overwrite)
            .verify(verify)
            .exclude(vec!["large".into()]);
        let inside = scene.folder.path();
        scene
            .repository
            .watched_by(&monitor)
            .restore(snapshot.at(inside), scene.out.path(), &options)
            .unwrap();
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &monitor.counters;
        assert!(counters.totals_final.load(Ordering::Relaxed));
        assert_eq!((of(&counters.files_total), of(&counters.bytes_total)), (files, bytes));
        assert_eq!(
            (of(&counters.files), of(&counters.bytes)),
            (files, bytes),
            "{overwrite:?}"
        );
        assert_eq!(counters.verifying.load(Ordering::Relaxed), verify);
    }
}
