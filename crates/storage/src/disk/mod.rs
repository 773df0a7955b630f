//! The file operations between [`Local`](crate::Local) and the file system.

mod os;

use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::path::Path;
use std::time::Duration;

pub use os::{OsDisk, OsFile};

/// The file operations that a local folder of objects is made of.
///
/// [`OsDisk`] performs them; [`FaultDisk`](crate::fault::FaultDisk) simulates them with crashes and
/// failures. Time and random names go through it too, so that a simulated run can be repeated
/// exactly.
///
/// Operations may be short or interrupted, as on a real disk: the caller loops.
pub trait Disk: Send + Sync {
    /// An open file. Dropping it closes it and gives its lock back.
    type File: Send + Sync;

    /// Makes a new, empty file that only its owner can access, open for writing at its end.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if `path` exists.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;

    /// Opens an existing regular file. A symbolic link at the end of `path` is not followed.
    ///
    /// # Errors
    /// [`io::ErrorKind::IsADirectory`] for a folder, [`io::ErrorKind::InvalidInput`] for anything
    /// else that is no regular file.
    fn open(&self, path: &Path, access: Access) -> io::Result<Self::File>;

    /// Takes the lock of the file for this handle, without waiting.
    ///
    /// `false` means: another handle has the lock, or the file has no name any more.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] if the file system has no locks.
    fn lock(&self, file: &Self::File) -> io::Result<bool>;

    /// Appends a prefix of the joined `parts` to the file. Returns how many bytes it wrote.
    ///
    /// # Errors
    /// Those of the operating system; [`io::ErrorKind::Interrupted`] means that nothing was
    /// written.
    fn write(&self, file: &mut Self::File, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Returns whether the folder is on a file system that another machine serves, as far as this one
    /// knows.
    fn is_remote(&self, _folder: &Path) -> bool {
        false
    }

    /// Makes the content of the file durable.
    ///
    /// # Errors
    /// After an error the content may be lost, and a later call that succeeds proves nothing.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Gives the file `from` the name `to`, at once and only if `to` does not exist.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if `to` exists.
    fn rename_noreplace(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a new folder that only its owner can access.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if `path` exists.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in the folder and their files durable.
    ///
    /// # Errors
    /// As for [`sync`](Disk::sync).
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes the name of a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the entries of the folder. Entries that vanish meanwhile are left out.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] or [`io::ErrorKind::NotADirectory`] if there is no such folder.
    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>>;

    /// Reads bytes of the file from `offset` on, possibly fewer than requested. Returns how many; 0
    /// at its end.
    ///
    /// # Errors
    /// Those of the operating system.
    fn read_at(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Returns the length of the file, bytes.
    ///
    /// # Errors
    /// Those of the operating system.
    fn length(&self, file: &Self::File) -> io::Result<u64>;

    /// Returns how long ago the file was last written; zero if that seems to be in the future.
    ///
    /// # Errors
    /// Those of the operating system.
    fn age(&self, file: &Self::File) -> io::Result<Duration>;

    /// Returns a number that no process was ever given before.
    ///
    /// # Errors
    /// Those of the source of random numbers.
    fn unique(&self) -> io::Result<u128>;
}

/// The purpose of opening an existing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read it.
    Read,
    /// To take its lock; some network file systems want a writable handle for that.
    Lock,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its name within the folder.
    pub name: OsString,
    /// Its kind.
    pub kind: FolderEntryKind,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderEntryKind {
    /// A regular file.
    File {
        /// Its length in bytes.
        size: u64,
    },
    /// A folder.
    Folder,
    /// A symbolic link, a device, a socket.
    Other,
}
