//! What a file is besides its bytes: compared, set, and taken away where the snapshot has none.

use std::path::PathBuf;

use ibid_format::tree::{EntryKind, Time, TreeEntry, Xattr};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::source::{read_xattrs_of, read_xattrs_through};

/// Attributes that could not be set: what, and why.
pub(crate) type AttributeFaults = Vec<(String, std::io::Error)>;

/// Who gets the file; none if it can't be given away.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// A thing in the destination that we hold, so that nothing that takes its name can take its place.
pub(crate) enum Held<'a> {
    /// Open for reading or writing.
    Open(BorrowedFd<'a>),
    /// What can't be opened so, or need not be (a symlink, FIFO, socket, device): open as a mere
    /// place (`O_PATH`), which some calls reach through `/proc` only.
    Place(OwnedFd, PathBuf),
}

impl<'a> Held<'a> {
    pub(crate) fn open(file: &'a OwnedFd) -> Held<'a> {
        Held::Open(file.as_fd())
    }

    /// Holds what stands at a name, without following it.
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

    /// Those that can be read.
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

/// Whether an attribute that the snapshot does not have goes. Others (`security.selinux`, what a
/// file system keeps for itself) are this machine's, not the file's. A snapshot that was not made
/// by root lacks `trusted.*`, but then nobody but root has set one.
fn is_the_files_own(name: &[u8]) -> bool {
    name.starts_with(b"user.")
        || name.starts_with(b"system.posix_acl_")
        || rustix::process::geteuid().is_root() && (name.starts_with(b"trusted.") || name == b"security.capability")
}

/// Attributes that a change of mode or owner changes or takes away, so that they come after it.
fn comes_after_the_mode(name: &[u8]) -> bool {
    name.starts_with(b"system.") || name.starts_with(b"security.")
}

/// What has to be done about extended attributes: to set, and to remove.
fn xattr_changes<'e>(entry: &'e TreeEntry, there: &'e [Xattr]) -> (Vec<&'e Xattr>, Vec<&'e [u8]>) {
    let set = entry.xattrs.iter().filter(|wanted| !there.contains(wanted)).collect();
    let wanted = |name: &[u8]| entry.xattrs.iter().any(|(other, _)| other == name);
    let extra = there.iter().map(|(name, _)| name.as_slice());
    let remove = extra.filter(|name| is_the_files_own(name) && !wanted(name)).collect();
    (set, remove)
}

fn is_link(entry: &TreeEntry) -> bool {
    matches!(entry.kind, EntryKind::Symlink(_))
}

/// Whether nothing has to be done about the attributes.
pub(crate) fn are_right(held: &Held<'_>, entry: &TreeEntry, owner: Option<Owner>) -> bool {
    held.stat().is_ok_and(|stat| {
        (is_link(entry) || stat.st_mode & 0o7777 == entry.mode)
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

/// Gives a thing owner, extended attributes, mode and times, and takes the extended attributes that
/// the snapshot does not have: an ACL that stayed, or was inherited from a directory of the
/// destination, would open the file to whom the snapshot does not.
///
/// The order matters: a change of owner clears setuid and capabilities; `user.*` needs the
/// permission to write that the mode may take; a change of mode narrows an ACL; and everything
/// changes the ctime.
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
        let what = |name: &[u8]| format!("extended attribute {}", String::from_utf8_lossy(name));
        for (name, value) in set.iter().filter(|(name, _)| when(name)) {
            note(&what(name), held.set_xattr(name, value));
        }
        for name in remove.iter().filter(|name| when(name)) {
            note(&what(name), held.remove_xattr(name));
        }
    };
    let early = |name: &[u8]| !comes_after_the_mode(name);
    let any_early = set.iter().any(|(name, _)| early(name)) || remove.iter().any(|name| early(name));
    if any_early && !is_link(entry) {
        note("mode", held.chmod(entry.mode & 0o777 | 0o600));
    }
    change(&early, &mut note);
    if !is_link(entry) {
        note("mode", held.chmod(entry.mode));
    }
    change(&comes_after_the_mode, &mut note);
    note("times", held.set_times(&timestamps(entry.mtime)));
    faults
}

/// The same for what may have them already: nothing is touched without need, so that its ctime
/// stays.
pub(crate) fn mend_attributes(held: &Held<'_>, entry: &TreeEntry, owner: Option<Owner>) -> AttributeFaults {
    if are_right(held, entry, owner) {
        return Vec::new();
    }
    set_attributes(held, entry, owner)
}
