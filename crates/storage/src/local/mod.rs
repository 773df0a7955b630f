//! Objects as files in a folder.
//!
//! To store an object:
//!
//! ```text
//! make the folders on the way, and sync the parent of each     (once per process and folder)
//! create tmp/<random>, lock it                                 (a sweep does not take a locked file)
//! write, sync                                                  (from here on the content is durable)
//! rename to the final name, refusing to overwrite              (from here on the object is visible)
//! sync the folder                                              (from here on the name is durable)
//! ```
//!
//! Four steps are less obvious than they look. A folder that exists may have been made by another
//! process that has not synced its parent yet, so we sync the parent even if we did not make the
//! folder. An object that exists may have been published by another process that has not synced the
//! folder yet, so we sync it before we say `AlreadyExists`, and `settle` syncs it for callers that
//! rely on an object that they only saw. And a failed sync is never repeated: the kernel may have
//! dropped the data and say yes the second time.
//!
//! A read opens the file, reads and closes it. Opening and closing cost 1.7 µs, and reading 16 KiB
//! from the page cache 1.1 µs, which is not worth a cache of handles.

mod publish;
mod sweep;
mod walk;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use self::publish::PutError;
pub use self::sweep::{SWEEP_AGE, Swept};
use self::walk::Item;
use crate::disk::{Access, Disk, OsDisk};
use crate::{Error, ErrorKind, Name, Operation, Storage};

/// Objects as files in a folder: the object `packs/3f/3fa9` is the file `packs/3f/3fa9`.
///
/// Files have mode 0600 and folders 0700. Unfinished files are in `tmp`. A process may have many
/// handles on one folder, and many processes may use one folder at once. Folders that become empty
/// stay. Symbolic links below the folder are not followed.
///
/// ```
/// use ibid_storage::{Local, Name, Storage};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("backup");
/// let place = Local::create(&path)?;
/// place.put(&Name::new("packs/3f/3fa9")?, &[b"bytes"])?;
/// let again = Local::open(&path)?;
/// assert_eq!(again.get(&Name::new("packs/3f/3fa9")?, 100)?, b"bytes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Local<D = OsDisk> {
    disk: D,
    root: PathBuf,
    /// Folders whose entry, and that of every folder above them up to the root, this process has
    /// made durable.
    settled: Mutex<HashSet<PathBuf>>,
}

impl Local {
    /// Creates the folder, and those above it, where missing, and makes each durable. A folder that exists
    /// is used as it is, so that a call that was interrupted can be repeated.
    ///
    /// # Errors
    /// If a folder cannot be created or a file is in its place.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::create_on(OsDisk, path)
    }

    /// Opens a folder that exists. Nothing is written, so it can be on a read-only medium.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is none, [`NotAnObject`](ErrorKind::NotAnObject)
    /// if it is no folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(OsDisk, path)
    }
}

impl<D: Disk> Local<D> {
    /// [`Local::create`] on another disk.
    ///
    /// # Errors
    /// As [`Local::create`] or [`Local::open`].
    pub fn create_on(disk: D, path: impl AsRef<Path>) -> Result<Self, Error> {
        let place = Self {
            disk,
            root: path.as_ref().to_owned(),
            settled: Mutex::default(),
        };
        place
            .make_root()
            .map_err(|error| place.error(error, Operation::Create, None))?;
        place.open_root(Operation::Create)
    }

    /// [`Local::open`] on another disk.
    ///
    /// # Errors
    /// As [`Local::create`] or [`Local::open`].
    pub fn open_on(disk: D, path: impl AsRef<Path>) -> Result<Self, Error> {
        let place = Self {
            disk,
            root: path.as_ref().to_owned(),
            settled: Mutex::default(),
        };
        place.open_root(Operation::Open)
    }

    fn open_root(self, operation: Operation) -> Result<Self, Error> {
        match self.disk.list(&self.root) {
            Ok(_) => Ok(self),
            Err(error) => Err(self.error(error, operation, None)),
        }
    }

    /// Makes the root and the folders above it, and makes their names durable.
    fn make_root(&self) -> io::Result<()> {
        let mut made = Vec::new();
        self.make_with_parents(&self.root, &mut made)?;
        // All of them, also those that were there: a process that was killed may have made them a moment
        // ago.
        for folder in self.root.ancestors() {
            match parent(folder).map_or(Ok(()), |parent| self.disk.sync_dir(parent)) {
                // We may not read this folder, so another program made its entries.
                Err(error)
                    if error.kind() == io::ErrorKind::PermissionDenied && !made.iter().any(|path| path == folder) => {}
                result => result?,
            }
        }
        Ok(())
    }

    /// Makes `path` and the folders above it, and adds those that were missing to `made`.
    fn make_with_parents(&self, path: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
        let mut result = self.disk.make_dir(path);
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::NotFound
            && let Some(parent) = parent(path)
        {
            self.make_with_parents(parent, made)?;
            result = self.disk.make_dir(path);
        }
        match result {
            Ok(()) => {
                made.push(path.to_owned());
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Fills `buffer` from `offset` on. Returns how many bytes there were.
    fn read_up_to(&self, file: &D::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.disk.read_at(file, offset + filled as u64, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn open_object(&self, operation: Operation, name: &Name) -> Result<D::File, Error> {
        let opened = self.disk.open(&self.path(name.as_str()), Access::Read);
        opened.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => self.not_an_object(operation, name),
            _ => self.error(error, operation, Some(name)),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        // Joining an empty path would add a slash.
        if name.is_empty() {
            self.root.clone()
        } else {
            self.root.join(name)
        }
    }

    fn place(&self) -> String {
        format!("folder {}", self.root.display())
    }

    fn error(&self, error: io::Error, operation: Operation, name: Option<&Name>) -> Error {
        Error::from_io(error, operation, name, self.place())
    }

    fn not_an_object(&self, operation: Operation, name: &Name) -> Error {
        Error::new(ErrorKind::NotAnObject, operation, Some(name), self.place())
    }
}

impl<D: Disk> Storage for Local<D> {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        let mut result = self.put_new(name, parts);
        if let Err(PutError::Io(error)) = &result
            && error.kind() == io::ErrorKind::NotFound
        {
            // Another process removed a folder that we had made: make it again, once.
            self.settled().clear();
            result = self.put_new(name, parts);
        }
        result.map_err(|error| match error {
            PutError::NotAnObject => self.not_an_object(Operation::Put, name),
            PutError::Io(error) => self.error(error, Operation::Put, Some(name)),
        })
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        let fail = |error| self.error(error, Operation::Get, Some(name));
        let file = self.open_object(Operation::Get, name)?;
        let size = self.disk.length(&file).map_err(fail)?;
        if size > limit {
            return Err(Error::too_large(size, limit, name, self.place()));
        }
        let length = usize::try_from(size).map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
        let mut object = Vec::new();
        object
            .try_reserve_exact(length)
            .map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
        object.resize(length, 0);
        let filled = self.read_up_to(&file, 0, &mut object).map_err(fail)?;
        if filled < length {
            return Err(Error::truncated(filled as u64, 0, length, name, self.place()));
        }
        Ok(object)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let fail = |error| self.error(error, Operation::ReadAt, Some(name));
        let file = self.open_object(Operation::ReadAt, name)?;
        // File systems count in i64. Larger offsets are past every object, and the system would
        // refuse them with another error.
        let end = offset
            .checked_add(buffer.len() as u64)
            .filter(|&end| i64::try_from(end).is_ok());
        let filled = match end {
            Some(_) => self.read_up_to(&file, offset, buffer).map_err(fail)?,
            None => 0,
        };
        if filled < buffer.len() {
            let size = self.disk.length(&file).map_err(fail)?;
            return Err(Error::truncated(size, offset, buffer.len(), name, self.place()));
        }
        Ok(())
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        let file = self.open_object(Operation::Size, name)?;
        self.disk
            .length(&file)
            .map_err(|error| self.error(error, Operation::Size, Some(name)))
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        Error::check_folder(folder, || self.place())?;
        let depth = folder.split('/').filter(|segment| !segment.is_empty()).count();
        self.walk(folder, depth, &mut |item| {
            if let Item::Object(name, size) = item {
                each(name, size);
            }
        })
    }

    fn list_taken(&self, folder: &str, each: &mut dyn FnMut(Name)) -> Result<(), Error> {
        Error::check_folder(folder, || self.place())?;
        self.taken(folder, each)
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.open_object(Operation::Settle, name)?;
        // Its content was durable before it had this name; the name is not, nor are those of the folders on
        // the way.
        self.settle_folder(name.folder())
            .and_then(|()| self.disk.sync_dir(&self.path(name.folder())))
            .map_err(|error| self.error(error, Operation::Settle, Some(name)))
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        let fail = |error| self.error(error, Operation::Delete, Some(name));
        let removed = self.disk.remove(&self.path(name.as_str()));
        match removed {
            // Another process may have removed it and not yet synced the folder.
            Err(error) if is_absent(&error) => match self.disk.sync_dir(&self.path(name.folder())) {
                Err(sync_error) if !is_absent(&sync_error) => Err(fail(sync_error)),
                _ => Err(fail(error)),
            },
            Err(error) => Err(fail(error)),
            Ok(()) => self.disk.sync_dir(&self.path(name.folder())).map_err(fail),
        }
    }

    fn location(&self) -> String {
        self.place()
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.root.clone())
    }

    fn is_remote(&self) -> bool {
        self.disk.is_remote(&self.root)
    }
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

/// The folder that `path` is in; none for `/`, and none known for `.`.
fn parent(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    let is_relative_end = parent.as_os_str().is_empty() && !path.as_os_str().is_empty();
    Some(if is_relative_end { Path::new(".") } else { parent })
}
