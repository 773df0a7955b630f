//! The destination: made and entered one name at a time, never through a symlink.

use crate::{Error, Result};
use ibid_format::tree::{Entry, EntryKind, Time};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;

/// Attributes that could not be set: what, and why.
pub(crate) type AttributeFaults = Vec<(String, std::io::Error)>;

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens a directory by name, not through a symlink.
pub(crate) fn open_directory(parent: impl AsFd, name: &[u8]) -> std::result::Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

/// Opens a directory that was reached before, name by name from the destination.
pub(crate) fn open_beneath(root: &OwnedFd, path: &[Vec<u8>]) -> std::result::Result<OwnedFd, Errno> {
    let mut at = rustix::fs::openat(root, ".", DIRECTORY, Mode::empty())?;
    for name in path {
        at = open_directory(&at, name)?;
    }
    Ok(at)
}

/// Opens the destination itself, making it and what leads to it. The user named it: links on the way are the user's.
pub(crate) fn open_destination(path: &Path) -> Result<OwnedFd> {
    std::fs::create_dir_all(path).map_err(|source| Error::local("make directory", path, source))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| Error::local("open", path, error))
}

/// What stands at a name, if anything.
pub(crate) fn look(parent: impl AsFd, name: &[u8]) -> std::result::Result<Option<Stat>, Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(crate) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// Removes what is not a directory.
pub(crate) fn remove(parent: impl AsFd, name: &[u8]) -> std::result::Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Makes a new file, empty and private.
pub(crate) fn create_file(parent: impl AsFd, name: &[u8]) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))
}

/// Opens an existing regular file to bring it up to date. None if it must be replaced instead: it is something else, or it has other
/// names (which may lie outside the destination), or it can't be opened for writing.
pub(crate) fn open_existing(parent: impl AsFd, name: &[u8]) -> Option<(OwnedFd, Stat)> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink == 1;
    plain.then_some((file, stat))
}

/// Makes a symlink, FIFO, socket or device.
pub(crate) fn create_special(parent: impl AsFd, entry: &Entry) -> std::result::Result<(), Errno> {
    let node =
        |kind, device| rustix::fs::mknodat(&parent, entry.name.as_slice(), kind, Mode::from_raw_mode(0o600), device);
    match &entry.kind {
        EntryKind::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), &parent, entry.name.as_slice()),
        EntryKind::Fifo => node(FileType::Fifo, 0),
        EntryKind::Socket => node(FileType::Socket, 0),
        EntryKind::CharDevice { major, minor } => node(FileType::CharacterDevice, rustix::fs::makedev(*major, *minor)),
        EntryKind::BlockDevice { major, minor } => node(FileType::BlockDevice, rustix::fs::makedev(*major, *minor)),
        EntryKind::File(_) | EntryKind::Directory(_) => Err(Errno::INVAL),
    }
}

fn timestamps(mtime: Time) -> Timestamps {
    let time = Timespec {
        tv_sec: mtime.seconds,
        tv_nsec: mtime.nanos.into(),
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

/// Who gets the file; none if it can't be given away.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Sets owner, extended attributes, mode and times of an open file or directory. The order matters: a change of owner clears setuid and
/// capabilities, an ACL is narrowed by a later chmod, and everything changes the ctime.
pub(crate) fn set_attributes(file: impl AsFd, entry: &Entry, owner: Option<Owner>) -> AttributeFaults {
    let mut faults = Vec::new();
    let mut note = |what: &str, result: std::result::Result<(), Errno>| {
        if let Err(error) = result {
            faults.push((what.to_owned(), error.into()));
        }
    };
    if let Some(owner) = owner {
        note(
            "owner",
            rustix::fs::fchown(&file, Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid))),
        );
    }
    note("mode", rustix::fs::fchmod(&file, Mode::from_raw_mode(entry.mode)));
    for (name, value) in &entry.xattrs {
        let what = format!("extended attribute {}", String::from_utf8_lossy(name));
        note(
            &what,
            rustix::fs::fsetxattr(&file, name.as_slice(), value, XattrFlags::empty()),
        );
    }
    note("times", rustix::fs::futimens(&file, &timestamps(entry.mtime)));
    faults
}

/// The same for what can't be opened: a symlink, FIFO, socket or device.
pub(crate) fn set_attributes_at(parent: impl AsFd, entry: &Entry, owner: Option<Owner>) -> AttributeFaults {
    let mut faults = Vec::new();
    let name = entry.name.as_slice();
    let is_link = matches!(entry.kind, EntryKind::Symlink(_));
    let mut note = |what: &str, result: std::result::Result<(), Errno>| {
        if let Err(error) = result {
            faults.push((what.to_owned(), error.into()));
        }
    };
    if let Some(owner) = owner {
        let (uid, gid) = (Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)));
        note(
            "owner",
            rustix::fs::chownat(&parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW),
        );
    }
    if !is_link {
        // It was made just now, by us, in a directory of ours, and is no link.
        note(
            "mode",
            rustix::fs::chmodat(&parent, name, Mode::from_raw_mode(entry.mode), AtFlags::empty()),
        );
    }
    let path = crate::source::through_proc(parent.as_fd(), name);
    for (attribute, value) in &entry.xattrs {
        let what = format!("extended attribute {}", String::from_utf8_lossy(attribute));
        note(
            &what,
            rustix::fs::lsetxattr(&path, attribute.as_slice(), value, XattrFlags::empty()),
        );
    }
    note(
        "times",
        rustix::fs::utimensat(&parent, name, &timestamps(entry.mtime), AtFlags::SYMLINK_NOFOLLOW),
    );
    faults
}

/// One directory on the way from the destination to where we are.
struct Level {
    name: Vec<u8>,
    /// None until it is needed, and again while too many are open.
    directory: Option<Arc<OwnedFd>>,
}

/// Directories held open.
const OPEN_MAX: usize = 64;

/// The directories from the destination down to the current one.
pub(crate) struct Stack {
    root: Arc<OwnedFd>,
    levels: Vec<Level>,
}

impl Stack {
    pub(crate) fn new(root: Arc<OwnedFd>) -> Stack {
        Stack {
            root,
            levels: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, name: Vec<u8>) {
        self.levels.push(Level { name, directory: None });
    }

    pub(crate) fn pop(&mut self) {
        self.levels.pop();
    }

    /// The names from the destination to the current directory.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        self.levels.iter().map(|level| level.name.clone()).collect()
    }

    /// The current directory, which exists.
    pub(crate) fn current(&mut self) -> std::result::Result<Arc<OwnedFd>, Errno> {
        self.open(self.levels.len())
    }

    /// Opens the first `depth` levels, from the deepest that is open.
    pub(crate) fn open(&mut self, depth: usize) -> std::result::Result<Arc<OwnedFd>, Errno> {
        let from = self.levels[..depth]
            .iter()
            .rposition(|level| level.directory.is_some())
            .map_or(0, |at| at + 1);
        let mut at = if from == 0 {
            self.root.clone()
        } else {
            self.levels[from - 1].directory.clone().expect("found open")
        };
        for n in from..depth {
            at = Arc::new(open_directory(&at, &self.levels[n].name)?);
            self.levels[n].directory = Some(at.clone());
            if n >= OPEN_MAX {
                self.levels[n - OPEN_MAX].directory = None;
            }
        }
        Ok(at)
    }
}
