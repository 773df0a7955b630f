//! Whatever a snapshot contains and whatever an attacker plants in the destination, a restore
//! touches nothing outside of it. See `docs/durability.md`.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_format::content::{Content, Item};
use ibid_format::frame::{self, Compression, FrameEncoder};
use ibid_format::pack::{self, PackKind};
use ibid_format::slot::Slot;
use ibid_format::snapshot::{Snapshot, SnapshotTotals};
use ibid_format::tree::{EntryKind, InodeFlags, Time, TreeEntry};
use ibid_format::{ChunkId, FileId, Keys};
use ibid_repo::{Error, Overwrite, Repository, RestoreOptions, RestoreSummary};
use ibid_storage::{Memory, Name, Storage};

use crate::support;
use crate::support::inode_flags::{Unlocks, flags_in};
use crate::support::{Random, quick, scratch};

/// An attacker who has the password and makes snapshots by hand.
struct Forger {
    storage: Arc<Memory>,
    keys: Keys,
    chunks: Vec<(PackKind, Vec<u8>)>,
    /// Bytes to store instead of a chunk's own.
    lie: Option<(ChunkId, Vec<u8>)>,
}

impl Forger {
    fn new() -> Forger {
        let storage = Arc::new(Memory::new());
        let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
        let mut slot = None;
        storage.list("keys", &mut |name, _| slot = Some(name)).unwrap();
        let slot = slot.unwrap();
        let id = FileId::parse(slot.as_str().rsplit('/').next().unwrap()).unwrap();
        let slot = Slot::parse(id, &storage.get(&slot, 1 << 20).unwrap()).unwrap();
        let master = slot.unlock(b"secret", 1 << 20).unwrap();
        Forger {
            storage,
            keys: Keys::encrypted(repository.id(), &master),
            chunks: Vec::new(),
            lie: None,
        }
    }

    fn chunk(&mut self, kind: PackKind, bytes: Vec<u8>) -> Content {
        let item = Item::Chunk {
            id: self.keys.chunk_id(&bytes),
            length: bytes.len() as u32,
        };
        let length = bytes.len() as u64;
        self.chunks.push((kind, bytes));
        let (depth, items) = (0, vec![item]);
        Content { depth, length, items }
    }

    fn file(&mut self, text: &str) -> EntryKind {
        EntryKind::File(self.chunk(PackKind::Data, text.as_bytes().to_vec()))
    }

    /// Makes a directory of these entries, in this order, whatever their names.
    fn directory(&mut self, entries: &[TreeEntry]) -> EntryKind {
        EntryKind::Directory(self.listing(entries))
    }

    fn listing(&mut self, entries: &[TreeEntry]) -> Content {
        let bytes = entries.iter().flat_map(encode).collect();
        self.chunk(PackKind::Metadata, bytes)
    }

    /// Stores everything, and a snapshot with this root; opens the repository.
    fn finish(mut self, root: &[TreeEntry]) -> (Repository, Arc<Memory>) {
        let root = self.listing(root);
        for kind in [PackKind::Data, PackKind::Metadata] {
            let mut gathered = frame::FrameBuilder::new();
            let mut seen = std::collections::BTreeSet::<ChunkId>::new();
            for (_, bytes) in self.chunks.iter().filter(|(of, _)| *of == kind) {
                let id = self.keys.chunk_id(bytes);
                let lie = self.lie.as_ref().filter(|(of, _)| *of == id);
                if seen.insert(id) {
                    gathered.push(id, lie.map_or(bytes, |(_, bytes)| bytes));
                }
            }
            if gathered.is_empty() {
                continue;
            }
            let mut plaintext = Vec::new();
            let (blobs, body) = (gathered.blobs(), gathered.body());
            FrameEncoder::new()
                .encode(blobs, body, Compression::Stored, &mut plaintext)
                .unwrap();
            let id = FileId::random();
            let mut pack = pack::PackBuilder::new(&self.keys, id, kind);
            pack.add(&plaintext, blobs, 0, &[]);
            let hex = id.to_string();
            self.put(&format!("packs/{}/{hex}", &hex[..2]), &pack.finish().0);
        }
        let snapshot = Snapshot {
            time: Time::default(),
            sequence: 1,
            duration_ms: 0,
            host: "host".into(),
            user: "user".into(),
            program: "forger".into(),
            paths: vec![b"/".to_vec()],
            tags: vec![],
            parent: None,
            original: None,
            root,
            users: vec![],
            groups: vec![],
            counters: SnapshotTotals::default(),
        };
        let id = FileId::random();
        self.put(&format!("snapshots/{id}"), &snapshot.encode(&self.keys, id).unwrap());
        let repository = Repository::open(self.storage.clone(), Some(b"secret")).unwrap();
        (repository, self.storage)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        self.storage.put(&Name::new(name).unwrap(), &[bytes]).unwrap();
    }
}

/// Encodes an entry. A name that the format refuses is written over a harmless one of the same
/// length.
fn encode(entry: &TreeEntry) -> Vec<u8> {
    let mut bytes = Vec::new();
    if entry.encode(&mut bytes).is_ok() {
        return bytes;
    }
    assert!(!entry.name.is_empty(), "an empty name can't be put over another");
    let harmless = TreeEntry {
        name: vec![b'~'; entry.name.len()],
        ..entry.clone()
    };
    harmless.encode(&mut bytes).unwrap();
    let at = bytes
        .windows(harmless.name.len())
        .position(|window| window == harmless.name)
        .unwrap();
    bytes[at..at + entry.name.len()].copy_from_slice(&entry.name);
    bytes
}

fn entry(name: &[u8], kind: EntryKind) -> TreeEntry {
    let mode = if matches!(kind, EntryKind::Directory(_)) {
        0o777
    } else {
        0o4777
    };
    TreeEntry {
        name: name.to_vec(),
        kind,
        mode,
        uid: 12345,
        gid: 12345,
        mtime: Time { seconds: 1, nanos: 2 },
        ctime: Time::default(),
        inode: 7,
        changed_while_read: false,
        hard_link_device: None,
        inode_flags: Default::default(),
        xattrs: vec![(b"user.hostile".to_vec(), b"1".to_vec())],
    }
}

/// Files beside the destination that must not be touched.
struct Outside {
    folder: tempfile::TempDir,
}

/// All attributes of a file that a restore could change.
type State = BTreeMap<PathBuf, (u32, u32, i64, i64, Option<Vec<u8>>, bool)>;

impl Outside {
    fn new() -> Outside {
        let folder = scratch();
        std::fs::write(folder.path().join("victim"), b"precious").unwrap();
        std::fs::create_dir(folder.path().join("victims")).unwrap();
        std::fs::write(folder.path().join("victims/inner"), b"precious too").unwrap();
        std::fs::create_dir(folder.path().join("dest")).unwrap();
        Outside { folder }
    }

    fn dest(&self) -> PathBuf {
        self.folder.path().join("dest")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the state of everything except the destination.
    fn state(&self) -> State {
        let mut state = State::new();
        let mut todo = vec![self.folder.path().to_owned()];
        while let Some(path) = todo.pop() {
            let meta = path.symlink_metadata().unwrap();
            if path == self.dest() {
                continue;
            }
            if meta.is_dir() {
                todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let content = meta.is_file().then(|| std::fs::read(&path).unwrap());
            let mut list = vec![0; 1000];
            let attributes = rustix::fs::llistxattr(&path, &mut list[..]).unwrap_or(0) > 0;
            let look = (
                meta.mode(),
                meta.uid(),
                meta.mtime(),
                meta.mtime_nsec(),
                content,
                attributes,
            );
            state.insert(path, look);
        }
        state
    }

    fn restore(&self, repository: &Repository, overwrite: Overwrite) -> Result<RestoreSummary, Error> {
        let before = self.state();
        let snapshot = repository.snapshot("latest").unwrap();
        let options = RestoreOptions::default().overwrite(overwrite).verify(true);
        let result = repository.restore(&snapshot, self.dest(), &options);
        assert_eq!(
            before,
            self.state(),
            "something outside the destination has changed ({overwrite:?}): {result:?}"
        );
        result
    }
}

const ALL: [Overwrite; 4] = [
    Overwrite::Refuse,
    Overwrite::Always,
    Overwrite::IfChanged,
    Overwrite::Never,
];

#[test]
fn names_that_lead_out_are_refused_and_what_came_before_them_is_restored() {
    let outside = Outside::new();
    let absolute = outside.at("victim").into_os_string().into_encoded_bytes();
    let names: [&[u8]; 12] = [
        b"..",
        b".",
        b"../victim",
        b"../../victim",
        b"x/../../victim",
        b"/etc/hostile",
        &absolute,
        b"./victim",
        b"a/b",
        b"/",
        b"x\0y",
        b"dest/../victim",
    ];
    for name in names {
        for below in [false, true] {
            for overwrite in ALL {
                let outside = Outside::new();
                let mut forger = Forger::new();
                let hostile = entry(name, forger.file("hostile"));
                let hostile_directory = {
                    let inner = entry(b"victim", forger.file("hostile"));
                    entry(name, forger.directory(&[inner]))
                };
                for hostile in [hostile, hostile_directory, entry(name, EntryKind::Fifo)] {
                    let mut forger = Forger {
                        chunks: forger.chunks.clone(),
                        lie: None,
                        storage: forger.storage.clone(),
                        keys: forger.keys.clone(),
                    };
                    let good = entry(b"!good", forger.file("good"));
                    let entries = [good, hostile];
                    let (repository, storage) = if below {
                        let deep = entry(b"deep", forger.directory(&entries));
                        forger.finish(&[deep])
                    } else {
                        forger.finish(&entries)
                    };
                    let result = outside.restore(&repository, overwrite).unwrap();
                    assert_eq!(result.failed, 1, "{name:?}");
                    let good = outside.dest().join(if below { "deep/!good" } else { "!good" });
                    assert_eq!(std::fs::read(good).unwrap(), b"good");
                    // Start the next round with an empty destination.
                    std::fs::remove_dir_all(outside.dest()).unwrap();
                    std::fs::create_dir(outside.dest()).unwrap();
                    for folder in ["snapshots", "packs"] {
                        let mut names = Vec::new();
                        storage.list(folder, &mut |name, _| names.push(name)).unwrap();
                        names.iter().for_each(|name| storage.delete(name).unwrap());
                    }
                }
            }
        }
    }
    assert!(!Path::new("/etc/hostile").exists());
}

#[test]
fn a_link_followed_by_a_directory_of_the_same_name_is_refused() {
    for overwrite in ALL {
        let outside = Outside::new();
        let mut forger = Forger::new();
        let link = entry(
            b"a",
            EntryKind::Symlink(outside.at("victims").into_os_string().into_encoded_bytes()),
        );
        let inner = entry(b"inner", forger.file("hostile"));
        let directory = entry(b"a", forger.directory(&[inner]));
        let (repository, _) = forger.finish(&[link, directory]);
        assert_eq!(outside.restore(&repository, overwrite).unwrap().failed, 1);
        assert!(outside.dest().join("a").is_symlink());
    }
}

/// The case above in two snapshots: the first leaves the link, the second has files below it.
#[test]
fn a_directory_takes_the_place_of_a_link_that_an_earlier_restore_left() {
    for overwrite in ALL {
        let outside = Outside::new();
        let mut forger = Forger::new();
        let target = outside.at("victims").into_os_string().into_encoded_bytes();
        let inner = entry(b"a", EntryKind::Symlink(target));
        let root = entry(b"root", forger.directory(&[inner]));
        let (first, _) = forger.finish(&[root]);
        assert_eq!(outside.restore(&first, overwrite).unwrap().failed, 0);
        let mut forger = Forger::new();
        let inner = entry(b"inner", forger.file("new"));
        let directory = entry(b"a", forger.directory(&[inner]));
        let root = entry(b"root", forger.directory(&[directory]));
        let (second, _) = forger.finish(&[root]);
        let result = outside.restore(&second, overwrite);
        match overwrite {
            Overwrite::Refuse => assert!(matches!(result, Err(Error::WouldOverwrite { .. }))),
            Overwrite::Never => {
                // The link, and the entry in its place.
                let summary = result.unwrap();
                assert_eq!((summary.failed, summary.kept), (0, 2));
                assert!(outside.dest().join("root/a").is_symlink());
            }
            _ => {
                assert_eq!(result.unwrap().failed, 0);
                assert_eq!(std::fs::read(outside.dest().join("root/a/inner")).unwrap(), b"new");
                assert!(!outside.dest().join("root/a").is_symlink());
            }
        }
    }
}

/// Returns an ordinary snapshot, to restore over planted files.
fn ordinary() -> Repository {
    let mut forger = Forger::new();
    let deep = entry(b"file", forger.file("deep contents"));
    let sub = entry(b"sub", forger.directory(&[deep]));
    let file = entry(b"file", forger.file("contents"));
    let link = entry(b"link", EntryKind::Symlink(b"file".to_vec()));
    let pipe = entry(b"pipe", EntryKind::Fifo);
    let directory = entry(b"dir", forger.directory(&[file, link, pipe, sub]));
    let one = TreeEntry {
        hard_link_device: Some(1),
        ..entry(b"one", forger.file("linked"))
    };
    let two = TreeEntry {
        name: b"two".to_vec(),
        ..one.clone()
    };
    forger.finish(&[directory, one, two]).0
}

const PLACES: [&str; 8] = [
    "dir",
    "dir/file",
    "dir/link",
    "dir/pipe",
    "dir/sub",
    "dir/sub/file",
    "one",
    "two",
];

/// Plants a file at `place`, restores in every mode, and passes the result to `look`.
fn planted(place: &str, plant: impl Fn(&Outside, &Path), look: impl Fn(Overwrite, &Outside, &Path)) {
    let repository = ordinary();
    for overwrite in ALL {
        let outside = Outside::new();
        let path = outside.dest().join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        plant(&outside, &path);
        let result = outside.restore(&repository, overwrite);
        if overwrite == Overwrite::Refuse {
            assert!(
                matches!(result, Err(Error::WouldOverwrite { .. })),
                "{place}: {result:?}"
            );
        } else {
            let summary = result.unwrap();
            // A file left in place differs, and its verification reports that.
            assert!(
                summary.failed == 0 || overwrite == Overwrite::Never,
                "{place}: {summary:?}"
            );
        }
        look(overwrite, &outside, &path);
    }
}

fn is_as_in_the_snapshot(overwrite: Overwrite, outside: &Outside, path: &Path) {
    if matches!(overwrite, Overwrite::Always | Overwrite::IfChanged) {
        let read = |name: &str| std::fs::read(outside.dest().join(name)).unwrap();
        assert_eq!(read("dir/file"), b"contents", "{path:?}");
        assert_eq!(read("dir/sub/file"), b"deep contents");
        assert_eq!((read("one"), read("two")), (b"linked".to_vec(), b"linked".to_vec()));
        let link = outside.dest().join("dir/link");
        assert_eq!(std::fs::read_link(link).unwrap(), Path::new("file"));
        for name in ["dir", "dir/file", "dir/sub", "dir/sub/file", "one", "two"] {
            assert!(!outside.dest().join(name).is_symlink(), "{name}");
        }
    }
}

#[test]
fn links_that_are_planted_in_the_destination_are_replaced_and_never_followed() {
    for place in PLACES {
        for target in ["victim", "victims", "nothing", "victims/inner", "dest/dir"] {
            planted(
                place,
                |outside, path| symlink(outside.at(target), path).unwrap(),
                is_as_in_the_snapshot,
            );
        }
    }
}

#[test]
fn names_of_outside_files_in_the_destination_are_replaced_and_the_files_stay() {
    for place in PLACES {
        planted(
            place,
            |outside, path| std::fs::hard_link(outside.at("victim"), path).unwrap(),
            |overwrite, outside, path| {
                is_as_in_the_snapshot(overwrite, outside, path);
                let names = std::fs::metadata(outside.at("victim")).unwrap().nlink();
                let kept = matches!(overwrite, Overwrite::Refuse | Overwrite::Never);
                assert_eq!(names, if kept { 2 } else { 1 });
            },
        );
    }
}

/// A file with the same name, size and contents has another name outside: updating it in place
/// would change that one too.
#[test]
fn a_file_with_another_name_outside_is_not_brought_up_to_date_in_place() {
    let repository = ordinary();
    let outside = Outside::new();
    std::fs::write(outside.at("victim"), b"contentz").unwrap();
    std::fs::create_dir(outside.dest().join("dir")).unwrap();
    std::fs::hard_link(outside.at("victim"), outside.dest().join("dir/file")).unwrap();
    assert_eq!(outside.restore(&repository, Overwrite::Always).unwrap().failed, 0);
    is_as_in_the_snapshot(Overwrite::Always, &outside, Path::new("dir/file"));
}

#[test]
fn pipes_in_the_way_are_replaced_without_waiting_for_their_other_end() {
    let (done, waits) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for place in PLACES {
            planted(
                place,
                |_, path| {
                    let kind = rustix::fs::FileType::Fifo;
                    rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o666.into(), 0).unwrap();
                },
                is_as_in_the_snapshot,
            );
        }
        done.send(()).unwrap();
    });
    waits
        .recv_timeout(std::time::Duration::from_secs(60))
        .expect("a restore waits for the other end of a pipe, or failed");
}

#[test]
fn a_directory_in_the_place_of_a_file_stays_with_all_that_is_in_it() {
    for place in ["dir/file", "dir/link", "dir/pipe", "one"] {
        let repository = ordinary();
        for overwrite in [Overwrite::Always, Overwrite::IfChanged] {
            let outside = Outside::new();
            let path = outside.dest().join(place);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("inside"), b"precious").unwrap();
            assert!(outside.restore(&repository, overwrite).unwrap().failed > 0);
            assert_eq!(std::fs::read(path.join("inside")).unwrap(), b"precious");
        }
    }
}

/// Entries that claim to be one file but have different types: a link to outside and a file.
#[test]
fn a_file_that_says_it_is_another_name_of_a_link_writes_nothing_through_it() {
    let linked = |entry: TreeEntry| TreeEntry {
        hard_link_device: Some(9),
        ..entry
    };
    for overwrite in ALL {
        let outside = Outside::new();
        let mut forger = Forger::new();
        let target = outside.at("victim").into_os_string().into_encoded_bytes();
        let link = linked(entry(b"a", EntryKind::Symlink(target)));
        let file = linked(entry(b"b", forger.file("hostile")));
        let pipe = linked(entry(b"c", EntryKind::Fifo));
        let (repository, _) = forger.finish(&[link, file, pipe]);
        outside.restore(&repository, overwrite).unwrap();
    }
}

/// A file's length and its chunks may contradict each other.
#[test]
fn a_file_whose_chunks_contradict_its_length_is_not_restored() {
    let mut random = Random(3);
    for _ in 0..20 {
        let outside = Outside::new();
        let mut forger = Forger::new();
        let EntryKind::File(mut content) = forger.file("twelve bytes") else {
            unreachable!()
        };
        let lie = 13 + random.below(1000);
        content.length = lie;
        let Item::Chunk { id, .. } = content.items[0] else {
            unreachable!()
        };
        content.items = vec![Item::Chunk { id, length: lie as u32 }];
        let (repository, _) = forger.finish(&[entry(b"lie", EntryKind::File(content))]);
        assert!(outside.restore(&repository, Overwrite::Refuse).unwrap().failed > 0);
        assert!(!outside.dest().join("lie").exists());
    }
}

/// A pack's directory gives a chunk's id to other bytes: every seal opens, and still no wrong bytes
/// are restored.
#[test]
fn a_pack_that_lies_about_its_chunks_is_found_out() {
    let outside = Outside::new();
    let mut forger = Forger::new();
    let file = forger.file("the right bytes");
    let id = forger.keys.chunk_id(b"the right bytes");
    forger.lie = Some((id, b"the wrong bytes".to_vec()));
    let (repository, _) = forger.finish(&[entry(b"file", file)]);
    assert!(outside.restore(&repository, Overwrite::Refuse).unwrap().failed > 0);
    assert!(!outside.dest().join("file").exists());
    let snapshot = repository.snapshot("latest").unwrap();
    let mut out = Vec::new();
    repository.dump(snapshot.at("file"), &mut out).unwrap_err();
    assert_eq!(out, b"");
    let report = repository.check(ibid_repo::ReadData::All).unwrap();
    assert_eq!((report.faults.len(), report.affected_total), (1, 1), "{report:?}");
}

/// A folder of the destination becomes a link, and a folder again, while the restore works in it.
#[test]
fn a_folder_that_becomes_a_link_under_way_is_not_followed() {
    let outside = Outside::new();
    let repository = ordinary();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (dir, aside) = (outside.dest().join("dir"), outside.dest().join("aside"));
    std::fs::create_dir(&dir).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                // The restore replaces each link that it finds with a folder, so put links there
                // again and again.
                if !aside.is_symlink() && !dir.is_symlink() {
                    let _ = std::fs::remove_dir_all(&aside);
                    let _ = symlink(outside.at("victims"), &aside);
                }
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                let _ = rustix::fs::renameat_with(rustix::fs::CWD, &dir, rustix::fs::CWD, &aside, swap);
            }
        });
        let snapshot = repository.snapshot("latest").unwrap();
        let before = outside.state();
        let options = RestoreOptions::default().overwrite(Overwrite::Always);
        let started = std::time::Instant::now();
        let mut after = before.clone();
        while after == before && started.elapsed().as_millis() < 1500 {
            let _ = repository.restore(&snapshot, outside.dest(), &options);
            after = outside.state();
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(before, after, "something outside the destination has changed");
    });
}

/// Flags that forbid changes are set once there is nothing left to change, wherever the file system has them.
#[test]
fn folders_that_say_they_are_immutable_are_restored_with_all_that_is_in_them() {
    let locks = [
        InodeFlags::IMMUTABLE,
        InodeFlags::APPEND_ONLY,
        InodeFlags::LOCKS,
        InodeFlags::ALL,
    ];
    for (flags, overwrite) in locks.into_iter().zip(ALL) {
        let outside = Outside::new();
        let _unlocks = Unlocks(outside.folder.path().to_owned());
        let mut forger = Forger::new();
        let flagged = |entry: TreeEntry| TreeEntry {
            inode_flags: flags,
            ..entry
        };
        let linked = |name: &[u8], forger: &mut Forger| TreeEntry {
            hard_link_device: Some(1),
            ..entry(name, forger.file("linked"))
        };
        let one = flagged(entry(b"one", forger.file("one")));
        let first = flagged(linked(b"two", &mut forger));
        let deepest = flagged(entry(b"deepest", forger.directory(&[one, first])));
        let second = flagged(linked(b"second", &mut forger));
        let link = entry(b"symlink", EntryKind::Symlink(b"deepest/one".to_vec()));
        let deep = flagged(entry(b"deep", forger.directory(&[deepest, second, link])));
        let last = flagged(linked(b"last", &mut forger));
        let (repository, _) = forger.finish(&[deep, last]);
        let summary = outside.restore(&repository, overwrite).unwrap();
        assert_eq!((summary.failed, summary.files, summary.verified), (0, 4, 4), "{flags}");
        let at = |name: &str| outside.dest().join(name);
        assert_eq!(std::fs::read(at("deep/deepest/one")).unwrap(), b"one");
        for name in ["deep/deepest/two", "deep/second", "last"] {
            assert_eq!(std::fs::read(at(name)).unwrap(), b"linked");
            assert_eq!(at(name).metadata().unwrap().nlink(), 3, "{flags}");
        }
        assert_eq!(std::fs::read(at("deep/symlink")).unwrap(), b"one");
        let can = flags_in(outside.folder.path()).and(flags).and(InodeFlags::LOCKS);
        for name in ["deep", "deep/deepest", "deep/deepest/one", "last"] {
            assert_eq!(
                support::inode_flags::flags(&at(name)).and(InodeFlags::LOCKS),
                can,
                "{name}: {flags}"
            );
        }
    }
}
