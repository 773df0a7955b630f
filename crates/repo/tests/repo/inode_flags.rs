//! Inode flags (`chattr`) are stored and come back, and those that are in the way are named.

use std::path::Path;
use std::sync::{Arc, Mutex};

use ibid_format::tree::InodeFlags;
use ibid_repo::{Change, Monitor, Overwrite, Repository, RestoreOptions, RestoreSummary, Warning};

use crate::support::inode_flags::{Unlocks, flags, flags_in, set_flags};
use crate::support::{Folder, backup, contents, entry, repository, same_tree};

const NO_DUMP: InodeFlags = InodeFlags::of(0x40);
const IMMUTABLE: InodeFlags = InodeFlags::IMMUTABLE;
const APPEND_ONLY: InodeFlags = InodeFlags::APPEND_ONLY;

/// A tree of which some have flags, as far as they can here.
struct Tree {
    folder: Folder,
    given: Vec<(&'static str, InodeFlags)>,
    _unlocks: Unlocks,
}

impl Tree {
    fn new(folder: Folder) -> Tree {
        let _unlocks = Unlocks(folder.path().parent().unwrap().to_owned());
        let can = flags_in(folder.path());
        for name in [
            "plain",
            "fixed",
            "log",
            "odd",
            "vault/one",
            "vault/deep/two",
            "journal/old",
        ] {
            folder.write(name, name.repeat(1000).as_bytes());
        }
        for name in ["other name", "vault/third name"] {
            std::fs::hard_link(folder.path().join("fixed"), folder.path().join(name)).unwrap();
        }
        let given = [
            ("fixed", IMMUTABLE.or(NO_DUMP)),
            ("log", APPEND_ONLY),
            ("odd", can.without(InodeFlags::LOCKS).without(InodeFlags::BEFORE_DATA)),
            ("vault/one", NO_DUMP),
            ("vault/deep", APPEND_ONLY.or(IMMUTABLE)),
            ("vault", IMMUTABLE),
            ("journal", APPEND_ONLY),
        ];
        let give = |(name, wanted): (&'static str, InodeFlags)| {
            set_flags(&folder.path().join(name), wanted.and(can));
            // Some flags are for folders alone.
            (name, flags(&folder.path().join(name)))
        };
        let given = given.map(give).to_vec();
        Tree {
            folder,
            given,
            _unlocks,
        }
    }

    fn assert_same(&self, to: &Path) {
        same_tree(self.folder.path(), to);
        for (name, wanted) in &self.given {
            assert_eq!(flags(&to.join(name)), *wanted, "{name}");
        }
        assert!(flags(&to.join("plain")).without(NO_DUMP).is_empty());
    }
}

/// Restores the tree. Returns the summary and what was told.
fn restore(repository: &Repository, tree: &Tree, to: &Path, overwrite: Overwrite) -> (RestoreSummary, Vec<Warning>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let monitor = Arc::new(Monitor::new({
        let heard = heard.clone();
        move |warning| heard.lock().unwrap().push(warning)
    }));
    let snapshot = repository.snapshot("latest").unwrap();
    let options = RestoreOptions::default().overwrite(overwrite).verify(true);
    let summary = repository
        .watched_by(&monitor)
        .restore(snapshot.at(tree.folder.path()), to, &options)
        .unwrap();
    let heard = std::mem::take(&mut *heard.lock().unwrap());
    (summary, heard)
}

#[test]
fn files_and_folders_come_back_with_their_flags_and_again_over_themselves() {
    // On the file system of temporary files, and on one in memory.
    for folder in [Folder::new(), Folder::scratch()] {
        let tree = Tree::new(folder);
        let repository = repository();
        backup(&repository, tree.folder.path());
        for (name, wanted) in &tree.given {
            assert_eq!(entry(&repository, &tree.folder.path().join(name)).inode_flags, *wanted);
        }
        let to = tree.folder.path().with_file_name("back");
        for overwrite in [Overwrite::Refuse, Overwrite::Always, Overwrite::IfChanged] {
            let (summary, heard) = restore(&repository, &tree, &to, overwrite);
            assert_eq!(
                (summary.failed, summary.inode_flags_lost),
                (0, 0),
                "{overwrite:?}: {heard:?}"
            );
            assert!(heard.is_empty(), "{overwrite:?}: {heard:?}");
            tree.assert_same(&to);
        }
    }
}

#[test]
fn a_changed_flag_is_noticed_and_what_has_none_is_stored_as_before() {
    let folder = Folder::new();
    let _unlocks = Unlocks(folder.path().to_owned());
    folder.write("file", b"contents");
    let repository = repository();
    backup(&repository, folder.path());
    let path = folder.path().join("file");
    let bytes = |path: &Path| {
        let mut bytes = Vec::new();
        entry(&repository, path).encode(&mut bytes).unwrap();
        bytes.len()
    };
    let before = bytes(&path);
    assert!(entry(&repository, &path).inode_flags.is_empty());
    let wanted = flags_in(folder.path()).and(NO_DUMP.or(IMMUTABLE));
    std::thread::sleep(std::time::Duration::from_millis(50));
    set_flags(&path, wanted);
    std::thread::sleep(std::time::Duration::from_millis(50));
    // The second finds it unchanged, and keeps what it has.
    for unchanged in [0, 1] {
        let summary = backup(&repository, folder.path());
        assert!(wanted.is_empty() || summary.unchanged_files == unchanged);
        assert_eq!(entry(&repository, &path).inode_flags, wanted);
        assert!(bytes(&path) <= before + 10);
    }
    let (old, new) = (
        repository.snapshot("latest~2").unwrap(),
        repository.snapshot("latest").unwrap(),
    );
    let mut changes = Vec::new();
    repository
        .diff(old.at(&path), new.at(&path), |difference| {
            changes.push(difference.change);
            Ok(())
        })
        .unwrap();
    assert!(wanted.is_empty() || changes == [Change::Attributes], "{changes:?}");
}

#[test]
#[allow(clippy::print_stderr, reason = "says what could not be tried here")]
fn what_is_locked_is_left_alone_and_named_and_the_rest_is_restored() {
    let tree = Tree::new(Folder::new());
    let can_lock = InodeFlags::LOCKS.without(flags_in(tree.folder.path())).is_empty();
    if !can_lock {
        eprintln!("not tried: files can't be locked here");
        return;
    }
    let repository = repository();
    backup(&repository, tree.folder.path());
    let to = tree.folder.path().with_file_name("back");
    std::fs::create_dir_all(to.join("vault")).unwrap();
    std::fs::create_dir(to.join("log")).unwrap();
    for name in ["plain", "odd", "vault/one"] {
        std::fs::write(to.join(name), "what was there").unwrap();
    }
    set_flags(&to.join("plain"), IMMUTABLE);
    set_flags(&to.join("odd"), APPEND_ONLY);
    // `deep` and `third name` are not there, and can't be made.
    // Made within one tick of the clock, it could have the right time already.
    let vault = std::fs::File::open(to.join("vault")).unwrap();
    vault.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    set_flags(&to.join("vault"), IMMUTABLE);
    let (summary, heard) = restore(&repository, &tree, &to, Overwrite::Always);
    let says = |name: &str, text: &str| {
        let path = to.join(name);
        let is_it = |warning: &&Warning| match warning {
            Warning::Skipped { path: found, error } => *found == path && format!("{error:?}").contains(text),
            Warning::Attributes {
                path: found, source, ..
            } => *found == path && source.to_string().contains(text),
            _ => false,
        };
        assert_eq!(heard.iter().filter(is_it).count(), 1, "{name}: {heard:?}");
    };
    says("plain", "it is immutable; `chattr -i` as root makes it writable");
    says("odd", "it is append-only; `chattr -a` as root makes it writable");
    says("vault", "it is immutable");
    says("vault/deep", "its folder is immutable");
    says("vault/third name", "its folder is immutable");
    assert_eq!(summary.failed, 5, "with the file below `deep`: {heard:?}");
    let found = contents(&to);
    for name in ["plain", "odd"] {
        assert_eq!(std::fs::read(to.join(name)).unwrap(), b"what was there");
    }
    assert_eq!(
        std::fs::read(to.join("vault/one")).unwrap(),
        "vault/one".repeat(1000).as_bytes()
    );
    assert_eq!(flags(&to.join("other name")), flags(&tree.folder.path().join("fixed")));
    assert!(
        !found.keys().any(|path| path.to_string_lossy().contains(".ibid-")),
        "nothing is left over: {:?}",
        found.keys()
    );
    // As the message says.
    for name in ["plain", "odd", "vault"] {
        set_flags(&to.join(name), InodeFlags::default());
    }
    let (summary, heard) = restore(&repository, &tree, &to, Overwrite::Always);
    assert_eq!(summary.failed, 0, "{heard:?}");
    tree.assert_same(&to);
}
