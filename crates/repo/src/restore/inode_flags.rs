//! Inode flags: set last, since some of them keep anything else from being changed.

use std::sync::atomic::Ordering;

use ibid_format::tree::{InodeFlags, TreeEntry};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, IFlags, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::attributes::{AttributeFaults, Held};
use super::task::Task;

/// What has inode flags.
trait Inode {
    fn flags(&self) -> Result<u32, Errno>;
    fn set_flags(&self, bits: u32) -> Result<(), Errno>;
}

impl Inode for BorrowedFd<'_> {
    fn flags(&self) -> Result<u32, Errno> {
        rustix::fs::ioctl_getflags(self).map(|flags| flags.bits())
    }

    fn set_flags(&self, bits: u32) -> Result<(), Errno> {
        rustix::fs::ioctl_setflags(self, IFlags::from_bits_retain(bits))
    }
}

/// Returns whether this user may not set a flag, or the file system does not have it.
fn is_refusal(error: Errno) -> bool {
    const REFUSALS: [Errno; 6] = [
        Errno::PERM,
        Errno::ACCESS,
        Errno::NOTTY,
        Errno::OPNOTSUPP,
        Errno::NOSYS,
        Errno::INVAL,
    ];
    REFUSALS.contains(&error)
}

/// Sets these flags, and leaves all others as they are. Returns those that can't be set here.
fn set(inode: &impl Inode, wanted: InodeFlags) -> Result<InodeFlags, Errno> {
    let mut bits = match inode.flags() {
        Err(error) if is_refusal(error) => return Ok(wanted),
        bits => bits?,
    };
    if wanted.without(InodeFlags::of(bits)).is_empty() {
        return Ok(InodeFlags::default());
    }
    if inode.set_flags(bits | wanted.bits()).is_err() {
        let mutable = wanted.without(InodeFlags::LOCKS).each().map(|(_, flag)| flag);
        let locks = [InodeFlags::APPEND_ONLY, InodeFlags::IMMUTABLE];
        for flag in mutable.chain(locks.map(|flag| flag.and(wanted))) {
            match inode.set_flags(bits | flag.bits()) {
                Ok(()) => bits |= flag.bits(),
                Err(error) if is_refusal(error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    // Some file systems take a flag without a word, and ignore it.
    Ok(wanted.without(InodeFlags::of(inode.flags()?)))
}

/// Gives a new, empty file the flags that say how its data is stored. What can't be set is counted at the end.
pub(crate) fn set_before_data(file: &OwnedFd, entry: &TreeEntry) {
    let flags = entry.inode_flags.and(InodeFlags::BEFORE_DATA);
    if !flags.is_empty() {
        let _ = set(&file.as_fd(), flags);
    }
}

/// Gives a file or directory that is complete, and under its name, the flags of its entry. Counts it if some can't
/// be set.
pub(crate) fn set_last(task: &Task<'_>, held: &Held<'_>, entry: &TreeEntry) -> AttributeFaults {
    if entry.inode_flags.is_empty() {
        return Vec::new();
    }
    let lost = match held.opened(|file| set(&file, entry.inode_flags)) {
        Err(error) if is_refusal(error) => Ok(entry.inode_flags),
        lost => lost,
    };
    match lost {
        Ok(lost) if lost.is_empty() => Vec::new(),
        Ok(_) => {
            task.inode_flags_lost.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        }
        Err(error) => vec![("inode flags".to_owned(), error.into())],
    }
}

/// Returns whether a file has the flags of its entry, as far as the file system has any.
pub(crate) fn are_there(held: &Held<'_>, entry: &TreeEntry) -> bool {
    let has = |file: BorrowedFd<'_>| file.flags().map(InodeFlags::of);
    entry.inode_flags.is_empty()
        || match held.opened(has) {
            Ok(flags) => entry.inode_flags.without(flags).is_empty(),
            Err(error) => is_refusal(error),
        }
}

/// A file whose locks are off for a while: it could not get another name meanwhile.
pub(crate) struct Unlocked(Option<(OwnedFd, u32)>);

impl Unlocked {
    /// Takes the locks of an entry off its file, if it has any.
    pub(crate) fn at(parent: &OwnedFd, name: &[u8], entry: &TreeEntry) -> Result<Unlocked, Errno> {
        if entry.inode_flags.and(InodeFlags::LOCKS).is_empty() {
            return Ok(Unlocked(None));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        let bits = match file.as_fd().flags() {
            Err(error) if is_refusal(error) => return Ok(Unlocked(None)),
            bits => bits?,
        };
        let locks = InodeFlags::of(bits).and(InodeFlags::LOCKS);
        if locks.is_empty() {
            return Ok(Unlocked(None));
        }
        file.as_fd().set_flags(bits & !locks.bits())?;
        Ok(Unlocked(Some((file, bits))))
    }

    /// Puts them back.
    pub(crate) fn lock(mut self) -> Result<(), Errno> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), Errno> {
        match self.0.take() {
            Some((file, bits)) => file.as_fd().set_flags(bits),
            None => Ok(()),
        }
    }
}

impl Drop for Unlocked {
    fn drop(&mut self) {
        // After an error, which is reported.
        let _ = self.put_back();
    }
}

/// What an inode flag forbids that was there before the restore.
pub(crate) enum Lock {
    Immutable,
    AppendOnly,
}

impl Lock {
    /// Returns the lock of the file at a name, or of an open directory if the name is empty.
    pub(crate) fn of(parent: impl AsFd, name: &[u8]) -> Option<Lock> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let found = rustix::fs::statx(parent, name, flags, StatxFlags::empty()).ok()?;
        match found.stx_attributes {
            attributes if attributes.contains(StatxAttributes::IMMUTABLE) => Some(Lock::Immutable),
            attributes if attributes.contains(StatxAttributes::APPEND) => Some(Lock::AppendOnly),
            _ => None,
        }
    }

    /// Returns the error for what has this lock: "it", "its folder".
    pub(crate) fn error(&self, what: &str) -> std::io::Error {
        let (state, letter) = match self {
            Lock::Immutable => ("immutable", 'i'),
            Lock::AppendOnly => ("append-only", 'a'),
        };
        std::io::Error::other(format!(
            "{what} is {state}; `chattr -{letter}` as root makes it writable"
        ))
    }
}

/// Returns the error of a name that could not be made or removed in a directory.
pub(crate) fn in_directory(directory: impl AsFd, error: Errno) -> std::io::Error {
    match Lock::of(directory, b"").filter(|_| error == Errno::PERM) {
        Some(lock) => lock.error("its folder"),
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const EXTENTS: u32 = 1 << 19;

    /// An inode of a file system with these flags, and a user who may set these.
    struct Fake {
        bits: Cell<u32>,
        known: u32,
        allowed: u32,
        /// Flags that are taken and ignored.
        ignored: u32,
        calls: RefCell<Vec<u32>>,
    }

    impl Fake {
        fn new(known: u32, allowed: u32) -> Fake {
            Fake {
                bits: Cell::new(EXTENTS),
                known: known | EXTENTS,
                allowed,
                ignored: 0,
                calls: RefCell::default(),
            }
        }
    }

    impl Inode for Fake {
        fn flags(&self) -> Result<u32, Errno> {
            Ok(self.bits.get())
        }

        fn set_flags(&self, bits: u32) -> Result<(), Errno> {
            self.calls.borrow_mut().push(bits);
            let changed = bits ^ self.bits.get();
            match () {
                () if bits & !self.known != 0 => Err(Errno::OPNOTSUPP),
                // As in the kernel: of an immutable file, nothing but that can be changed.
                () if self.bits.get() & InodeFlags::IMMUTABLE.bits() != 0 && changed != 0 => Err(Errno::PERM),
                () if changed & !self.allowed != 0 => Err(Errno::PERM),
                () => {
                    self.bits.set(bits & !self.ignored);
                    Ok(())
                }
            }
        }
    }

    #[test]
    fn flags_are_added_to_those_that_are_there() {
        let inode = Fake::new(u32::MAX, u32::MAX);
        let wanted = InodeFlags::ALL;
        assert_eq!(set(&inode, wanted), Ok(InodeFlags::default()));
        assert_eq!(inode.bits.get(), EXTENTS | wanted.bits());
        assert_eq!(inode.calls.take().len(), 1, "all at once");
        assert_eq!(set(&inode, wanted), Ok(InodeFlags::default()));
        assert!(inode.calls.take().is_empty(), "those that are there are not set again");
    }

    #[test]
    fn flags_that_a_file_system_lacks_or_a_user_may_not_set_do_not_keep_others_from_being_set() {
        let wanted = InodeFlags::of(0x80_00f4);
        let (locks, dump_atime) = (InodeFlags::LOCKS.bits(), 0xc0);
        for (known, allowed) in [(0xf0, u32::MAX), (u32::MAX, 0xc0), (0x90, 0x80), (u32::MAX, 0)] {
            let inode = Fake::new(known, allowed);
            let can = wanted.bits() & known & allowed;
            assert_eq!(set(&inode, wanted), Ok(InodeFlags::of(wanted.bits() & !can)));
            assert_eq!(inode.bits.get(), EXTENTS | can);
        }
        let inode = Fake::new(locks | dump_atime, u32::MAX);
        set(&inode, wanted).unwrap();
        let calls = inode.calls.take();
        let first = calls.iter().skip(1).position(|bits| bits & locks != 0).unwrap();
        assert!(
            calls[1..][first..].iter().all(|bits| bits & locks != 0),
            "locks come last: {calls:x?}"
        );
        assert_eq!(
            calls.last(),
            Some(&(EXTENTS | dump_atime | locks)),
            "immutable at the very end"
        );
    }

    #[test]
    fn a_flag_that_is_taken_and_ignored_counts_as_lost() {
        let mut inode = Fake::new(u32::MAX, u32::MAX);
        inode.ignored = 0x80_0000;
        assert_eq!(set(&inode, InodeFlags::of(0x80_0040)), Ok(InodeFlags::of(0x80_0000)));
    }

    #[test]
    fn a_file_system_without_flags_loses_them_and_other_errors_are_told() {
        struct Broken(Errno);
        impl Inode for Broken {
            fn flags(&self) -> Result<u32, Errno> {
                Err(self.0)
            }
            fn set_flags(&self, _: u32) -> Result<(), Errno> {
                unreachable!("without knowing what is there, nothing is set")
            }
        }
        let wanted = InodeFlags::IMMUTABLE;
        assert_eq!(set(&Broken(Errno::NOTTY), wanted), Ok(wanted));
        assert_eq!(set(&Broken(Errno::OPNOTSUPP), wanted), Ok(wanted));
        assert_eq!(set(&Broken(Errno::IO), wanted), Err(Errno::IO));
    }
}
