//! Trees to back up, repositories to back up into, and the comparison of trees.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod actors;
pub mod checkpoints;
pub mod crash;
pub mod damage;
pub mod deltas;
pub mod hooked;
pub mod inode_flags;
pub mod losses;
pub mod place;
pub mod pruning;
pub mod reads;
pub mod repair;
pub mod seam;
pub mod turns;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_format::slot::Argon2Cost;
use ibid_repo::{BackupOptions, BackupSummary, InitOptions, Repository, TreeEntry, Visit};

/// Returns options of a repository that opens quickly.
pub fn quick() -> InitOptions {
    InitOptions::default().cost(Argon2Cost {
        memory_kib: 64,
        passes: 1,
        lanes: 1,
    })
}

pub fn repository() -> Repository {
    Repository::init(Arc::new(ibid_storage::Memory::new()), Some(b"secret"), &quick()).unwrap()
}

pub fn options(path: &Path) -> BackupOptions {
    BackupOptions::default().path(path)
}

pub fn backup(repository: &Repository, path: &Path) -> BackupSummary {
    let summary = repository.backup(&options(path)).unwrap();
    assert_eq!(summary.counters.unreadable, 0);
    summary
}

/// Returns the entry at a path of the latest snapshot.
pub fn entry(repository: &Repository, path: &Path) -> TreeEntry {
    let snapshot = repository.snapshot("latest").unwrap();
    let mut found = None;
    repository
        .visit(snapshot.at(path), |_, entry| {
            found = Some(entry.clone());
            Ok(Visit::Skip)
        })
        .unwrap();
    found.unwrap()
}

/// Returns bytes without repetitions: SplitMix64.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31).to_le_bytes()
    };
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&next());
    }
    bytes.truncate(length);
    bytes
}

/// A folder to back up.
pub struct Folder {
    folder: tempfile::TempDir,
    path: PathBuf,
}

/// Creates a temporary folder, in memory if possible: tests that restore a thousand times should
/// not wait for a disk.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

impl Folder {
    pub fn new() -> Folder {
        Folder::within(tempfile::tempdir().unwrap())
    }

    /// Creates a folder in memory, if possible: see [`scratch`].
    pub fn scratch() -> Folder {
        Folder::within(scratch())
    }

    fn within(folder: tempfile::TempDir) -> Folder {
        let path = folder.path().canonicalize().unwrap().join("tree");
        std::fs::create_dir(&path).unwrap();
        Folder { folder, path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn write(&self, name: impl AsRef<OsStr>, bytes: &[u8]) {
        let path = self.path.join(Path::new(name.as_ref()));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Creates a tree with every type of file and attribute.
    pub fn with_everything() -> Folder {
        let this = Folder::new();
        let at = |name: &str| this.path.join(name);
        this.write("empty", b"");
        this.write("small", b"a few bytes");
        this.write("large", &noise(1, 5_000_000));
        this.write(
            "text/readable",
            "the same line again and again\n".repeat(50_000).as_bytes(),
        );
        this.write("text/same", "the same line again and again\n".repeat(50_000).as_bytes());
        this.write(OsStr::from_bytes(b"not utf-8 \xFF\xFE"), b"1");
        this.write("new\nline", b"2");
        this.write("n".repeat(255), b"3");
        this.write("deep/er/and/deeper/file", b"4");
        std::fs::create_dir(at("an empty directory")).unwrap();
        symlink("small", at("link")).unwrap();
        symlink("/nowhere/at/all", at("broken link")).unwrap();
        std::fs::hard_link(at("text/same"), at("hard link")).unwrap();
        let fifo = rustix::fs::CWD;
        rustix::fs::mknodat(fifo, at("fifo"), rustix::fs::FileType::Fifo, 0o640.into(), 0).unwrap();
        std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let sparse = std::fs::File::create(at("sparse")).unwrap();
        sparse.set_len(50 << 20).unwrap();
        sparse.write_all_at(b"in the middle", 20 << 20).unwrap();
        let small_sparse = std::fs::File::create(at("small sparse")).unwrap();
        small_sparse.set_len(600 << 10).unwrap();
        std::fs::set_permissions(at("small"), PermissionsExt::from_mode(0o4751)).unwrap();
        std::fs::set_permissions(at("deep/er"), PermissionsExt::from_mode(0o500)).unwrap();
        let old = std::fs::FileTimes::new()
            .set_modified(std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789));
        std::fs::File::open(at("small")).unwrap().set_times(old).unwrap();
        std::fs::File::open(at("text")).unwrap().set_times(old).unwrap();
        rustix::fs::setxattr(
            at("small"),
            "user.comment",
            b"an attribute\0with a zero",
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
        this
    }
}

/// All attributes of a file that must be restored.
#[derive(Debug, PartialEq)]
struct Look {
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    size: u64,
    target: Option<PathBuf>,
    names: u64,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    content: Option<Vec<u8>>,
    sparse: bool,
}

fn look(path: &Path) -> Look {
    let meta = std::fs::symlink_metadata(path).unwrap();
    let file = meta.is_file();
    let mut list = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut list[..]).unwrap();
    let mut xattrs = Vec::new();
    for name in list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        xattrs.push((name.to_vec(), value[..length].to_vec()));
    }
    xattrs.sort();
    Look {
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        mtime: (meta.mtime(), meta.mtime_nsec()),
        size: if meta.is_dir() { 0 } else { meta.size() },
        target: std::fs::read_link(path).ok(),
        names: if meta.is_dir() { 0 } else { meta.nlink() },
        xattrs,
        content: file.then(|| std::fs::read(path).unwrap()),
        sparse: file && meta.blocks() * 512 + (64 << 10) < meta.size(),
    }
}

fn walk(root: &Path) -> BTreeMap<PathBuf, Look> {
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        if path.symlink_metadata().unwrap().is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        if path != root {
            found.insert(path.strip_prefix(root).unwrap().to_owned(), look(&path));
        }
    }
    found
}

/// Compares two trees in everything that is restored.
pub fn same_tree(a: &Path, b: &Path) {
    let (a, b) = (walk(a), walk(b));
    assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>());
    for (path, look) in a {
        let other = &b[&path];
        assert!(look.content == other.content, "{path:?}: contents differ");
        let plain = |look: &Look| {
            format!(
                "{:?}",
                Look {
                    content: None,
                    ..clone(look)
                }
            )
        };
        assert_eq!(plain(&look), plain(other), "{path:?}");
    }
}

fn clone(look: &Look) -> Look {
    Look {
        target: look.target.clone(),
        xattrs: look.xattrs.clone(),
        content: None,
        ..*look
    }
}

/// Pseudorandom numbers from a seed: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Contents of a tree, to compare restores with after the tree has changed.
pub type Contents = BTreeMap<PathBuf, Node>;

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Directory,
    File(Vec<u8>),
    Link(PathBuf),
    Other,
}

/// Returns everything below `root`, by paths relative to it.
pub fn contents(root: &Path) -> Contents {
    let mut found = Contents::new();
    let mut todo = vec![root.to_owned()];
    while let Some(path) = todo.pop() {
        let kind = path.symlink_metadata().unwrap().file_type();
        let node = if kind.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Node::Directory
        } else if kind.is_file() {
            Node::File(std::fs::read(&path).unwrap())
        } else if kind.is_symlink() {
            Node::Link(std::fs::read_link(&path).unwrap())
        } else {
            Node::Other
        };
        if path != root {
            found.insert(path.strip_prefix(root).unwrap().to_owned(), node);
        }
    }
    found
}

/// Returns the difference between two trees in words; `None` if they are equal.
pub fn difference(expected: &Contents, found: &Contents) -> Option<String> {
    for (path, node) in expected {
        match found.get(path) {
            None => return Some(format!("{path:?} is missing")),
            Some(other) if other != node => return Some(format!("{path:?} has other contents")),
            Some(_) => {}
        }
    }
    let more = found.keys().find(|path| !expected.contains_key(*path))?;
    Some(format!("{more:?} should not be there"))
}

impl Folder {
    /// Changes, adds and removes random files, with about `bytes` of new data.
    pub fn evolve(&self, random: &mut Random, bytes: u64) {
        let files = 3 + random.below(5);
        for _ in 0..files {
            let name = format!("d{}/f{}", random.below(3), random.below(6));
            match random.below(5) {
                0 => drop(std::fs::remove_file(self.path().join(&name))),
                // Append, so that most chunks stay.
                1 => {
                    let mut old = std::fs::read(self.path().join(&name)).unwrap_or_default();
                    let length = random.below(bytes / files + 1) as usize;
                    old.extend(noise(random.next(), length));
                    self.write(&name, &old);
                }
                2 => self.write(
                    &name,
                    "text that compresses\n".repeat(random.below(2000) as usize).as_bytes(),
                ),
                _ => {
                    let length = random.below(2 * bytes / files + 1) as usize;
                    self.write(&name, &noise(random.next(), length));
                }
            }
        }
    }
}
