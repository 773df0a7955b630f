//! The destination: created and entered one name at a time, never through a symlink.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use ibid_format::tree::{EntryKind, NAME_BYTES_MAX};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use super::attributes::Held;
use crate::layout::new_id;
use crate::{Error, Result};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Flags to open a directory named by the user.
const NAMED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory by name, not through a symlink.
pub(crate) fn open_directory(parent: impl AsFd, name: &[u8]) -> std::result::Result<OwnedFd, Errno> {
    rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
}

/// Opens a directory that was entered before, name by name from the destination.
pub(crate) fn open_beneath(root: &OwnedFd, path: &[&[u8]]) -> std::result::Result<OwnedFd, Errno> {
    let mut at = rustix::fs::openat(root, ".", DIRECTORY, Mode::empty())?;
    for name in path {
        at = open_directory(&at, name)?;
    }
    Ok(at)
}

/// Opens the destination. If needed, creates it with this mode, and its parents. Returns true if it
/// was created. Links on the way are followed, because the user named the path.
pub(crate) fn open_destination(path: &Path, mode: u32) -> Result<(OwnedFd, bool)> {
    let failed = |action| move |source| Error::local(action, path, source);
    if let Some(above) = path.parent().filter(|above| !above.as_os_str().is_empty()) {
        std::fs::create_dir_all(above).map_err(failed("make the folder of"))?;
    }
    let made = match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        result => result.map(|()| true).map_err(failed("make directory"))?,
    };
    let root = rustix::fs::open(path, NAMED, Mode::empty()).map_err(|error| failed("open")(error.into()))?;
    Ok((root, made))
}

/// Opens the destination, if it exists.
pub(crate) fn open_if_there(path: &Path) -> Result<Option<OwnedFd>> {
    match rustix::fs::open(path, NAMED, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        result => result.map(Some).map_err(|error| Error::local("open", path, error)),
    }
}

/// Returns the `stat` of the file at a name, if there is one.
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

pub(crate) fn is_file(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Returns whether a directory is empty.
pub(crate) fn is_empty(parent: impl AsFd, name: &[u8]) -> std::result::Result<bool, Errno> {
    for entry in Dir::new(open_directory(parent, name)?)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes one of our directories writable and searchable for us if it is not; returns its former
/// mode.
pub(crate) fn let_us_in(directory: &Held<'_>) -> std::result::Result<Option<u32>, Errno> {
    let (stat, us) = (directory.stat()?, rustix::process::geteuid());
    let mode = stat.st_mode & 0o7777;
    if us.is_root() || stat.st_uid != us.as_raw() || mode & 0o700 == 0o700 {
        return Ok(None);
    }
    directory.chmod(mode | 0o700)?;
    Ok(Some(mode))
}

/// Removes a file that is not a directory.
pub(crate) fn remove(parent: impl AsFd, name: &[u8]) -> std::result::Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        result => result,
    }
}

/// Returns a unique name for a file that will replace another once complete.
pub(crate) fn aside() -> Vec<u8> {
    format!(".ibid-{}", new_id()).into_bytes()
}

/// Renames `aside` over `name` atomically; an empty directory in its place is removed first. On
/// failure, `aside` is removed and the existing file stays.
pub(crate) fn put_in_place(parent: impl AsFd, aside: &[u8], name: &[u8]) -> std::result::Result<(), Errno> {
    let rename = || rustix::fs::renameat(&parent, aside, &parent, name);
    let put = match rename() {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).and_then(|()| rename()),
        result => result,
    };
    // After a rename, `aside` is gone, except if both were names of one file: then the rename did
    // nothing.
    put.and(remove(&parent, aside))
}

/// Renames `from` to `name` with `.damaged` appended, or `.damaged-1` and so on if that exists;
/// returns the new name.
pub(crate) fn put_beside(parent: impl AsFd, from: &[u8], name: &[u8]) -> std::result::Result<Vec<u8>, Errno> {
    for n in 0u64.. {
        let suffix = if n == 0 {
            ".damaged".to_owned()
        } else {
            format!(".damaged-{n}")
        };
        let stem = &name[..name.len().min(NAME_BYTES_MAX - suffix.len())];
        let beside = [stem, suffix.as_bytes()].concat();
        match rustix::fs::renameat_with(&parent, from, &parent, beside.as_slice(), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            // The file system can't rename without replacing: test first.
            Err(Errno::INVAL | Errno::NOSYS) => {
                if look(&parent, &beside)?.is_none() {
                    return rustix::fs::renameat(&parent, from, &parent, beside.as_slice()).map(|()| beside);
                }
            }
            result => return result.map(|()| beside),
        }
    }
    Err(Errno::EXIST)
}

/// Returns the error for an existing file when no overwrite rule was given.
pub(crate) fn exists(path: &Path) -> Error {
    Error::local(
        "make",
        path,
        std::io::Error::other(
            "a file has been made there meanwhile, or the file system ignores the case of names; restore it elsewhere",
        ),
    )
}

/// Returns the error for an existing file that can't be replaced.
pub(crate) fn cannot_replace(path: &Path, error: Errno) -> Error {
    let source = match error {
        // Overwriting never removes a whole tree to make room for a file.
        Errno::NOTEMPTY | Errno::EXIST => {
            std::io::Error::other("a directory that is not empty stands where something else belongs; move it away")
        }
        error => error.into(),
    };
    Error::local("replace", path, source)
}

/// Creates an empty file that only its owner can access.
pub(crate) fn create_file(parent: impl AsFd, name: &[u8]) -> std::result::Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))
}

/// Opens an existing regular file to update it, and returns its length. `None` if it is no longer a
/// regular file, has other names (which may be outside the destination), or can't be opened for
/// writing.
pub(crate) fn open_existing(parent: impl AsFd, name: &[u8]) -> Option<(OwnedFd, u64)> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(parent, name, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    (is_file(&stat) && stat.st_nlink == 1).then_some((file, stat.st_size as u64))
}

/// Creates a symlink, FIFO, socket or device.
pub(crate) fn create_special(parent: impl AsFd, name: &[u8], kind: &EntryKind) -> std::result::Result<(), Errno> {
    let node = |kind, device| rustix::fs::mknodat(&parent, name, kind, Mode::from_raw_mode(0o600), device);
    match kind {
        EntryKind::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), &parent, name),
        EntryKind::Fifo => node(FileType::Fifo, 0),
        EntryKind::Socket => node(FileType::Socket, 0),
        EntryKind::CharDevice { major, minor } => node(FileType::CharacterDevice, rustix::fs::makedev(*major, *minor)),
        EntryKind::BlockDevice { major, minor } => node(FileType::BlockDevice, rustix::fs::makedev(*major, *minor)),
        EntryKind::File(_) | EntryKind::Directory(_) => Err(Errno::INVAL),
    }
}

/// One directory on the path from the destination.
struct Level {
    name: Vec<u8>,
    /// `None` until needed, and while too many are open.
    directory: Option<Arc<OwnedFd>>,
}

/// Directories from the destination to the current one.
pub(crate) struct Stack {
    root: Arc<OwnedFd>,
    levels: Vec<Level>,
    /// Maximum number of open directories.
    open_max: usize,
}

impl Stack {
    pub(crate) fn new(root: Arc<OwnedFd>, open_max: usize) -> Stack {
        Stack {
            root,
            levels: Vec::new(),
            open_max,
        }
    }

    pub(crate) fn push(&mut self, name: Vec<u8>) {
        self.levels.push(Level { name, directory: None });
    }

    pub(crate) fn pop(&mut self) {
        self.levels.pop();
    }

    /// Returns the current directory, which exists.
    pub(crate) fn current(&mut self) -> std::result::Result<Arc<OwnedFd>, Errno> {
        self.open(self.levels.len())
    }

    /// Opens the first `depth` levels, starting from the deepest open one.
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
            if n >= self.open_max {
                self.levels[n - self.open_max].directory = None;
            }
        }
        Ok(at)
    }
}
