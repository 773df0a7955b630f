//! Attributes of files: everything but their contents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ibid_format::content::Content;
use ibid_format::tree::{ENTRY_BYTES_MAX, EntryKind, InodeFlags, TARGET_BYTES_MAX, Time, TreeEntry};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

/// Returns an entry with all fields that `stat` provides. The caller fills in contents, extended attributes and inode
/// flags.
///
/// Returns `None` for file types other than the seven that snapshots record.
pub(crate) fn entry_from(name: &[u8], stat: &Stat) -> Option<TreeEntry> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File(Content::empty()),
        FileType::Directory => EntryKind::Directory(Content::empty()),
        FileType::Symlink => EntryKind::Symlink(Vec::new()),
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => EntryKind::CharDevice {
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
        },
        FileType::BlockDevice => EntryKind::BlockDevice {
            major: rustix::fs::major(stat.st_rdev),
            minor: rustix::fs::minor(stat.st_rdev),
        },
        FileType::Unknown => return None,
    };
    let (mtime, ctime, inode) = version_of(stat);
    let linked = stat.st_nlink > 1 && !matches!(kind, EntryKind::Directory(_));
    Some(TreeEntry {
        name: name.to_vec(),
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime,
        ctime,
        inode,
        changed_while_read: false,
        hard_link_device: linked.then_some(stat.st_dev),
        inode_flags: InodeFlags::default(),
        xattrs: Vec::new(),
    })
}

/// Returns what tells a later version of a file: its mtime, ctime and inode. In a simulation, its mtime alone.
pub(crate) fn version_of(stat: &Stat) -> (Time, Time, u64) {
    let mtime = Time {
        seconds: stat.st_mtime,
        nanos: stat.st_mtime_nsec as u32,
    };
    #[cfg(feature = "simulation")]
    if crate::simulation::is_on() {
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let time = if is_directory {
            Time { seconds: 1, nanos: 1 }
        } else {
            mtime
        };
        let is_linked = stat.st_nlink > 1 && !is_directory;
        return (time, time, if is_linked { stat.st_ino } else { 1 });
    }
    let ctime = Time {
        seconds: stat.st_ctime,
        nanos: stat.st_ctime_nsec as u32,
    };
    (mtime, ctime, stat.st_ino)
}

/// Extended attributes, ascending by name, including ACLs (`system.posix_acl_*`).
type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// An attribute that could not be read or set, in words, and the error.
pub(crate) type AttributeFault = (String, std::io::Error);

/// Returns what an extended attribute is called in messages; without a name, the list of all of them.
pub(crate) fn xattr_text(name: &[u8]) -> String {
    format!("extended attribute {}", String::from_utf8_lossy(name))
}

/// Adds to the entry of an open file or directory what its `stat` does not tell. Returns what could not be read.
pub(crate) fn read_attributes(file: BorrowedFd<'_>, entry: &mut TreeEntry) -> Vec<AttributeFault> {
    let (xattrs, mut faults) = read_xattrs_of(file);
    entry.xattrs = xattrs;
    // The driver of a device would take the question for one of its own.
    if matches!(entry.kind, EntryKind::File(_) | EntryKind::Directory(_)) {
        match read_inode_flags(file) {
            Ok(flags) => entry.inode_flags = flags,
            Err(error) => faults.push(("inode flags".to_owned(), error.into())),
        }
    }
    faults
}

/// Reads the inode flags of an open file or directory. Many file systems have none.
fn read_inode_flags(file: BorrowedFd<'_>) -> Result<InodeFlags, Errno> {
    match rustix::fs::ioctl_getflags(file) {
        Ok(flags) => Ok(InodeFlags::of(flags.bits())),
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(InodeFlags::default()),
        Err(error) => Err(error),
    }
}

/// Maximum size of all attributes of a file, bytes, chosen so that they fit into its entry with all
/// other fields.
const XATTRS_BYTES_MAX: usize = ENTRY_BYTES_MAX - 2 * TARGET_BYTES_MAX;
/// Maximum overhead of an attribute in an entry, for the lengths of its name and value, bytes.
const LENGTHS: usize = 6;

/// Reads the extended attributes of an open file.
pub(crate) fn read_xattrs_of(file: BorrowedFd<'_>) -> (Xattrs, Vec<AttributeFault>) {
    read_xattrs(
        |buffer| rustix::fs::flistxattr(file, buffer),
        |name, buffer| rustix::fs::fgetxattr(file, name, buffer),
    )
}

/// Reads the extended attributes of a file that can't be opened for reading (a symlink, a device, a
/// FIFO).
pub(crate) fn read_xattrs_at(directory: impl AsFd, name: &[u8]) -> (Xattrs, Vec<AttributeFault>) {
    let path = through_proc(directory.as_fd(), name);
    read_xattrs(
        |buffer| rustix::fs::llistxattr(&path, buffer),
        |name, buffer| rustix::fs::lgetxattr(&path, name, buffer),
    )
}

/// Reads the extended attributes of the file behind a `/proc` path, even if that file is a symlink.
pub(crate) fn read_xattrs_through(path: &Path) -> (Xattrs, Vec<AttributeFault>) {
    read_xattrs(
        |buffer| rustix::fs::listxattr(path, buffer),
        |name, buffer| rustix::fs::getxattr(path, name, buffer),
    )
}

/// Returns a path to `name` in an open directory, for system calls without a relative form. It is
/// short however deep the directory is.
fn through_proc(directory: BorrowedFd<'_>, name: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    path.push(std::ffi::OsStr::from_bytes(name));
    path
}

fn read_xattrs(
    list: impl Fn(&mut [u8]) -> Result<usize, Errno>,
    get: impl Fn(&[u8], &mut [u8]) -> Result<usize, Errno>,
) -> (Xattrs, Vec<AttributeFault>) {
    // Nearly all files have no attributes; one call finds that out.
    let mut names = vec![0; 1024];
    let names = match grow(&mut names, &list) {
        Ok(length) => &names[..length],
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOENT) => return (Vec::new(), Vec::new()),
        Err(error) => return (Vec::new(), vec![(xattr_text(b""), error.into())]),
    };
    // Sorted, system attributes such as `system.posix_acl_access` come before the users' and get room
    // first.
    let mut names: Vec<_> = names.split(|&byte| byte == 0).filter(|name| !name.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    let mut found = Vec::new();
    let mut faults = Vec::new();
    let mut room = XATTRS_BYTES_MAX;
    for name in names {
        let mut value = vec![0; 256];
        match grow(&mut value, |buffer| get(name, buffer)) {
            Ok(length) => match room.checked_sub(name.len() + length + LENGTHS) {
                Some(left) => {
                    room = left;
                    value.truncate(length);
                    found.push((name.to_vec(), value));
                }
                None => {
                    let text = format!(
                        "all attributes of a file may take {XATTRS_BYTES_MAX} bytes, and this one goes beyond that"
                    );
                    faults.push((xattr_text(name), std::io::Error::other(text)));
                }
            },
            Err(Errno::NODATA) => {} // gone since it was listed
            Err(error) => faults.push((xattr_text(name), error.into())),
        }
    }
    (found, faults)
}

/// Calls `read` with a large enough buffer. The largest list or value that Linux allows is 64 KiB.
fn grow(buffer: &mut Vec<u8>, read: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<usize, Errno> {
    match read(buffer) {
        Err(Errno::RANGE) if buffer.len() < 64 << 10 => {
            buffer.resize(64 << 10, 0);
            read(buffer)
        }
        result => result,
    }
}

/// Ids and their names, ascending by id.
pub(crate) type Names = Vec<(u32, Vec<u8>)>;

/// Names of the users and groups met so far.
#[derive(Default)]
pub(crate) struct Owners {
    users: BTreeMap<u32, Option<Vec<u8>>>,
    groups: BTreeMap<u32, Option<Vec<u8>>>,
}

impl Owners {
    pub(crate) fn note(&mut self, entry: &TreeEntry) {
        use nix::unistd::{Gid, Group, Uid, User};
        self.users.entry(entry.uid).or_insert_with(|| {
            User::from_uid(Uid::from_raw(entry.uid))
                .ok()
                .flatten()
                .map(|user| user.name.into_bytes())
        });
        self.groups.entry(entry.gid).or_insert_with(|| {
            Group::from_gid(Gid::from_raw(entry.gid))
                .ok()
                .flatten()
                .map(|group| group.name.into_bytes())
        });
    }

    /// Returns (users, groups) that have a name, ascending by id.
    pub(crate) fn into_names(self) -> (Names, Names) {
        let named =
            |map: BTreeMap<u32, Option<Vec<u8>>>| map.into_iter().filter_map(|(id, name)| Some((id, name?))).collect();
        (named(self.users), named(self.groups))
    }
}
