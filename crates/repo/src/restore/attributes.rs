//! File attributes: comparing, setting, and removing those that the snapshot does not have.

use std::path::PathBuf;

use ibid_format::tree::{EntryKind, Time, TreeEntry, Xattr};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::inode_flags::{self, Lock};
use super::owners;
use crate::source::{AttributeFault, read_xattrs_of, read_xattrs_through, xattr_text};

/// Attributes that could not be set, with the error.
pub(crate) type AttributeFaults = Vec<AttributeFault>;

/// Owner to set; `None` if ownership can't be changed.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A file in the destination, held by a descriptor, so that another file put under its name is not
/// mistaken for it.
pub(crate) enum Held<'a> {
    /// Open for reading or writing.
    Open(BorrowedFd<'a>),
    /// A file that can't or need not be opened (a symlink, FIFO, socket, device): opened with
    /// `O_PATH`, and by a path for calls that work through `/proc` only.
    Place(OwnedFd, PathBuf),
}

impl<'a> Held<'a> {
    pub(crate) fn open(file: &'a OwnedFd) -> Held<'a> {
        Held::Open(file.as_fd())
    }

    /// Holds the file at a name, without following links.
    pub(crate) fn at(parent: impl AsFd, name: &[u8]) -> Result<Held<'static>, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", place.as_raw_fd()));
        Ok(Held::Place(place, path))
    }

    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        match self {
            Held::Open(file) => rustix::fs::fstat(file),
            Held::Place(place, _) => rustix::fs::fstat(place),
        }
    }

    /// Calls `action` with a file or directory that is open for more than its place.
    ///
    /// # Errors
    /// Those of `action`, and of opening it; `INVAL` if it is of another type, which is not opened.
    pub(super) fn opened<T>(&self, action: impl FnOnce(BorrowedFd<'_>) -> Result<T, Errno>) -> Result<T, Errno> {
        match self {
            Held::Open(file) => action(*file),
            Held::Place(place, path) => {
                let kind = FileType::from_raw_mode(rustix::fs::fstat(place)?.st_mode);
                if !matches!(kind, FileType::RegularFile | FileType::Directory) {
                    return Err(Errno::INVAL);
                }
                let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
                action(file.as_fd())
            }
        }
    }

    /// Returns the inode flag that forbids changes, if there is one.
    fn lock(&self) -> Option<Lock> {
        match self {
            Held::Open(file) => Lock::of(file, b""),
            Held::Place(place, _) => Lock::of(place, b""),
        }
    }

    fn chown(&self, owner: Owner) -> Result<(), Errno> {
        let (uid, gid) = (Some(Uid::from_raw(owner.uid)), Some(Gid::from_raw(owner.gid)));
        match self {
            Held::Open(file) => rustix::fs::fchown(file, uid, gid),
            Held::Place(place, _) => rustix::fs::chownat(place, "", uid, gid, AtFlags::EMPTY_PATH),
        }
    }

    pub(crate) fn chmod(&self, mode: u32) -> Result<(), Errno> {
        match self {
            Held::Open(file) => rustix::fs::fchmod(file, Mode::from_raw_mode(mode)),
            Held::Place(_, path) => rustix::fs::chmod(path, Mode::from_raw_mode(mode)),
        }
    }

    fn set_times(&self, times: &Timestamps) -> Result<(), Errno> {
        match self {
            Held::Open(file) => rustix::fs::futimens(file, times),
            Held::Place(_, path) => rustix::fs::utimensat(CWD, path, times, AtFlags::empty()),
        }
    }

    /// Returns the extended attributes that can be read.
    fn xattrs(&self) -> Vec<Xattr> {
        match self {
            Held::Open(file) => read_xattrs_of(*file).0,
            Held::Place(_, path) => read_xattrs_through(path).0,
        }
    }

    fn set_xattr(&self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        match self {
            Held::Open(file) => rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()),
            Held::Place(_, path) => rustix::fs::setxattr(path, name, value, XattrFlags::empty()),
        }
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<(), Errno> {
        match self {
            Held::Open(file) => rustix::fs::fremovexattr(file, name),
            Held::Place(_, path) => rustix::fs::removexattr(path, name),
        }
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

/// Returns whether an attribute is removed if the snapshot does not have it. Others
/// (`security.selinux`, attributes of the file system) belong to this machine. A snapshot not made
/// by root lacks `trusted.*`, but only root can have set one.
fn is_the_files_own(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || name.starts_with(b"system.posix_acl_")
        || rustix::process::geteuid().is_root() && (name.starts_with(b"trusted.") || name == b"security.capability")
}

/// Returns whether a change of mode or owner alters or removes this attribute, so that it must be
/// set afterwards.
fn comes_after_the_mode(name: &[u8]) -> bool {
    name.starts_with(b"system.") || name.starts_with(b"security.")
}

/// Returns the extended attributes to set and to remove.
fn xattr_changes<'e>(entry: &'e TreeEntry, there: &'e [Xattr]) -> (Vec<&'e Xattr>, Vec<&'e [u8]>) {
    let set = entry.xattrs.iter().filter(|wanted| !there.contains(wanted)).collect();
    let wanted = |name: &[u8]| entry.xattrs.iter().any(|(other, _)| other == name);
    let extra = there.iter().map(|(name, _)| name.as_slice());
    let remove = extra.filter(|name| is_the_files_own(name) && !wanted(name)).collect();
    (set, remove)
}

/// Returns the mode to set. A program runs with the rights of its owner or group if its mode says so.
/// Where these can't be set, it would run with those of somebody else, so these bits are left out.
fn mode(entry: &TreeEntry) -> u32 {
    const SET_USER_OR_GROUP: u32 = 0o6000;
    match entry.mode & SET_USER_OR_GROUP != 0 && owners::is_lost(entry) {
        true => entry.mode & !SET_USER_OR_GROUP,
        false => entry.mode,
    }
}

fn is_link(entry: &TreeEntry) -> bool {
    matches!(entry.kind, EntryKind::Symlink(_))
}

/// Returns whether all attributes already match.
pub(crate) fn are_right(held: &Held<'_>, entry: &TreeEntry, owner: Option<Owner>) -> bool {
    are_right_but_for_flags(held, entry, owner) && inode_flags::are_there(held, entry)
}

fn are_right_but_for_flags(held: &Held<'_>, entry: &TreeEntry, owner: Option<Owner>) -> bool {
    held.stat().is_ok_and(|stat| {
        (is_link(entry) || stat.st_mode & 0o7777 == mode(entry))
            && owner.is_none_or(|owner| (stat.st_uid, stat.st_gid) == (owner.uid, owner.gid))
            && has_mtime(&stat, entry)
    }) && {
        let there = held.xattrs();
        let (set, remove) = xattr_changes(entry, &there);
        set.is_empty() && remove.is_empty()
    }
}

pub(crate) fn has_mtime(stat: &Stat, entry: &TreeEntry) -> bool {
    (stat.st_mtime, stat.st_mtime_nsec as u32) == (entry.mtime.seconds, entry.mtime.nanos)
}

/// Sets owner, extended attributes, mode and times, and removes extended attributes that the
/// snapshot does not have: an ACL left over, or inherited from a directory of the destination,
/// would give access that the snapshot does not grant.
///
/// The order matters: a change of owner clears setuid and capabilities; setting `user.*` needs
/// write permission, which the mode may remove; a change of mode narrows an ACL; and every change
/// updates the ctime. Inode flags come last, and [elsewhere](inode_flags::set_last).
pub(crate) fn set_attributes(held: &Held<'_>, entry: &TreeEntry, owner: Option<Owner>) -> AttributeFaults {
    let mut faults = Vec::new();
    let mut note = |what: &str, result: Result<(), Errno>| {
        if let Err(error) = result {
            faults.push((what.to_owned(), error.into()));
        }
    };
    if let Some(owner) = owner {
        note("owner", held.chown(owner));
    }
    let there = held.xattrs();
    let (set, remove) = xattr_changes(entry, &there);
    let change = |when: &dyn Fn(&[u8]) -> bool, note: &mut dyn FnMut(&str, Result<(), Errno>)| {
        for (name, value) in set.iter().filter(|(name, _)| when(name)) {
            note(&xattr_text(name), held.set_xattr(name, value));
        }
        for name in remove.iter().filter(|name| when(name)) {
            note(&xattr_text(name), held.remove_xattr(name));
        }
    };
    let early = |name: &[u8]| !comes_after_the_mode(name);
    let any_early = set.iter().any(|(name, _)| early(name)) || remove.iter().any(|name| early(name));
    if any_early && !is_link(entry) {
        note("mode", held.chmod(entry.mode & 0o777 | 0o600));
    }
    change(&early, &mut note);
    if !is_link(entry) {
        note("mode", held.chmod(mode(entry)));
    }
    change(&comes_after_the_mode, &mut note);
    note("times", held.set_times(&timestamps(entry.mtime)));
    let is_denied = |(_, error): &AttributeFault| error.kind() == std::io::ErrorKind::PermissionDenied;
    match faults.iter().any(is_denied).then(|| held.lock()).flatten() {
        // One reason for all of them.
        Some(lock) => vec![("attributes".to_owned(), lock.error("it"))],
        None => faults,
    }
}

/// Sets only the attributes that differ, so that the ctime of a matching file stays. Leaves inode flags as they are.
pub(crate) fn mend_attributes(held: &Held<'_>, entry: &TreeEntry, owner: Option<Owner>) -> AttributeFaults {
    if are_right_but_for_flags(held, entry, owner) {
        return Vec::new();
    }
    set_attributes(held, entry, owner)
}
