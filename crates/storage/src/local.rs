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
//! Three steps are less obvious than they look. A folder that exists may have been made by another process that has not
//! synced its parent yet, so we sync the parent even if we did not make the folder. An object that exists may have been
//! published by another process that has not synced the folder yet, so we sync it before we say `AlreadyExists`. And a
//! failed sync is never repeated: the kernel may have dropped the data and say yes the second time.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::disk::{Access, Disk, EntryKind, OsDisk};
use crate::name::{RESERVED, SEGMENTS_MAX};
use crate::{Error, ErrorKind, Name, Operation, Storage};

/// The age from which on [`Local::sweep`] should take unfinished files: one hour.
///
/// A writer holds a lock, which protects its file at any age; the age protects those on file systems without locks.
pub const SWEEP_AGE: Duration = Duration::from_secs(60 * 60);

/// Objects as files in a folder: the object `packs/3f/3fa9` is the file `packs/3f/3fa9`.
///
/// Files have mode 0600 and folders 0700. Unfinished files are in `tmp`. A process may have many handles on one folder,
/// and many processes may use one folder at once. Folders that become empty stay. Symbolic links below the folder are
/// not followed.
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
    /// Folders whose entry, and that of every folder above them up to the root, this process has made durable.
    settled: Mutex<HashSet<PathBuf>>,
}

/// What [`Local::sweep`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many unfinished files were removed.
    pub files: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// How many unfinished files stay, because they are being written or are too young.
    pub kept: u64,
}

impl Local {
    /// Makes the folder, and those above it, where missing; each made durable. A folder that exists is used as it is.
    ///
    /// # Errors
    /// If a folder cannot be made or a file is in its place.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::create_on(OsDisk, path)
    }

    /// Uses a folder that exists. Nothing is written, so that it can be on a read-only medium.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) if there is none, [`NotAnObject`](ErrorKind::NotAnObject) if it is no folder.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_on(OsDisk, path)
    }
}

impl<D: Disk> Local<D> {
    /// [`Local::create`] on another disk.
    ///
    /// # Errors
    /// As there.
    pub fn create_on(disk: D, path: impl AsRef<Path>) -> Result<Self, Error> {
        let place = Self {
            disk,
            root: path.as_ref().to_owned(),
            settled: Mutex::default(),
        };
        place
            .make_root(&place.root)
            .map_err(|error| place.error(error, Operation::Create, None))?;
        place.open_root(Operation::Create)
    }

    /// [`Local::open`] on another disk.
    ///
    /// # Errors
    /// As there.
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

    fn make_root(&self, path: &Path) -> io::Result<()> {
        match self.disk.make_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(parent) = path
                    .parent()
                    .filter(|parent| !parent.as_os_str().is_empty())
                else {
                    return Err(error);
                };
                self.make_root(parent)?;
                self.disk.make_dir(path)?;
            }
            // Not ours, and perhaps in a folder that we may not even read.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            result => result?,
        }
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        self.disk.sync_dir(parent.unwrap_or(Path::new(".")))
    }

    /// Removes unfinished files that processes left when they were killed.
    ///
    /// Takes only those whose writer is gone and that were last written at least `age_min` ago; [`SWEEP_AGE`] is a good
    /// choice. A writer that is at work holds a lock and never loses its file.
    ///
    /// # Errors
    /// If the folder cannot be read or a file not removed.
    pub fn sweep(&self, age_min: Duration) -> Result<Swept, Error> {
        self.sweep_files(age_min)
            .map_err(|error| self.error(error, Operation::Sweep, None))
    }

    fn sweep_files(&self, age_min: Duration) -> io::Result<Swept> {
        let folder = self.root.join(RESERVED);
        let mut swept = Swept::default();
        let entries = match self.disk.list(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(swept),
            entries => entries?,
        };
        for entry in entries {
            let EntryKind::File { .. } = entry.kind else {
                continue;
            };
            if !is_temporary(&entry.name) {
                continue;
            }
            match self.sweep_file(&folder.join(&entry.name), age_min) {
                Ok(Some(size)) => {
                    swept.files += 1;
                    swept.bytes += size;
                }
                Ok(None) => swept.kept += 1,
                // Its writer has just published or removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }

    /// Removes one unfinished file and says its size, or leaves it.
    fn sweep_file(&self, path: &Path, age_min: Duration) -> io::Result<Option<u64>> {
        let file = self.disk.open(path, Access::Lock)?;
        // The lock is held until the file is removed: a writer that comes late sees that its file has no name.
        if !self.is_locked(&file)? || self.disk.age(&file)? < age_min {
            return Ok(None);
        }
        let size = self.disk.length(&file)?;
        self.disk.remove(path)?;
        Ok(Some(size))
    }

    /// The paths, relative to the folder, of everything in it that is neither an object nor an unfinished file:
    /// what [`Storage::list`] leaves out. For a check that tells people about them.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn foreign(&self) -> Result<Vec<PathBuf>, Error> {
        let mut found = Vec::new();
        self.walk("", 0, &mut |item| {
            if let Item::Foreign(path) = item {
                found.push(path);
            }
        })?;
        let unfinished = self
            .disk
            .list(&self.root.join(RESERVED))
            .unwrap_or_default();
        let others = unfinished
            .into_iter()
            .filter(|entry| !is_temporary(&entry.name));
        found.extend(others.map(|entry| Path::new(RESERVED).join(entry.name)));
        Ok(found)
    }

    /// Gives everything below `folder`, which has `depth` segments.
    fn walk(&self, folder: &str, depth: usize, each: &mut dyn FnMut(Item)) -> Result<(), Error> {
        let entries = match self.disk.list(&self.path(folder)) {
            // The root was there when it was opened; if it is gone now, an empty answer would be a lie.
            Err(error) if depth > 0 && is_absent(&error) => return Ok(()),
            entries => entries.map_err(|error| self.error(error, Operation::List, None))?,
        };
        for entry in entries {
            let relative = Path::new(folder).join(&entry.name);
            let name = relative.to_str().and_then(|name| Name::new(name).ok());
            match (name, entry.kind) {
                (Some(name), EntryKind::File { size }) => each(Item::Object(name, size)),
                (Some(name), EntryKind::Folder) if depth + 1 < SEGMENTS_MAX => {
                    self.walk(name.as_str(), depth + 1, each)?;
                }
                _ if depth == 0 && entry.name == RESERVED => {}
                _ => each(Item::Foreign(relative)),
            }
        }
        Ok(())
    }

    fn put_new(&self, name: &Name, parts: &[&[u8]]) -> Result<(), PutError> {
        self.settle(RESERVED)?;
        self.settle(name.folder())?;
        let (mut file, temporary) = self.create_temporary()?;
        let target = self.path(name.as_str());
        let published = self
            .write_all(&mut file, parts)
            .and_then(|()| self.disk.sync(&file))
            .and_then(|()| self.disk.rename_noreplace(&temporary, &target));
        let folder = self.path(name.folder());
        if let Err(error) = published {
            // Frees the space at once; if that fails too, a sweep does it later.
            let _ = self.disk.remove(&temporary);
            if error.kind() != io::ErrorKind::AlreadyExists {
                return Err(error.into());
            }
            return Err(match self.disk.open(&target, Access::Read) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput
                    ) =>
                {
                    PutError::NotAnObject
                }
                _ => match self.disk.sync_dir(&folder) {
                    Ok(()) => error.into(),
                    Err(error) => error.into(),
                },
            });
        }
        Ok(self.disk.sync_dir(&folder)?)
    }

    /// Makes `folder` and those above it, and makes them durable.
    fn settle(&self, folder: &str) -> io::Result<()> {
        let mut path = self.root.clone();
        for segment in folder.split('/').filter(|segment| !segment.is_empty()) {
            let parent = path.clone();
            path.push(segment);
            if self.settled().contains(&path) {
                continue;
            }
            match self.disk.make_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result?,
            }
            self.disk.sync_dir(&parent)?;
            self.settled().insert(path.clone());
        }
        Ok(())
    }

    fn settled(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create_temporary(&self) -> io::Result<(D::File, PathBuf)> {
        loop {
            let path = self
                .root
                .join(RESERVED)
                .join(format!("{:032x}", self.disk.unique()?));
            let file = self.disk.create_new(&path)?;
            match self.disk.lock(&file) {
                Ok(true) => return Ok((file, path)),
                // A sweep came between the two calls and took the file: another one.
                Ok(false) => {}
                // Without locks, the age of the file is what protects it.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok((file, path));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn is_locked(&self, file: &D::File) -> io::Result<bool> {
        match self.disk.lock(file) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(true),
            result => result,
        }
    }

    fn write_all(&self, file: &mut D::File, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0); // skips empty parts, so that 0 bytes written always means trouble
        while !rest.is_empty() {
            match self.disk.write(file, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut rest, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Fills `buffer` from `offset` on; says how much of it there was.
    fn read_up_to(&self, file: &D::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self
                .disk
                .read_at(file, offset + filled as u64, &mut buffer[filled..])
            {
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
            io::ErrorKind::InvalidInput => self.not_an_object(operation, name),
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
            // Somebody removed a folder that we had made: make it again, once.
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
            return Err(Error::truncated(
                filled as u64,
                0,
                length,
                name,
                self.place(),
            ));
        }
        Ok(object)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let fail = |error| self.error(error, Operation::ReadAt, Some(name));
        let file = self.open_object(Operation::ReadAt, name)?;
        // File systems count in i64; beyond that lies no object, and the call would be refused for another reason.
        let end = offset
            .checked_add(buffer.len() as u64)
            .filter(|&end| i64::try_from(end).is_ok());
        let filled = match end {
            Some(_) => self.read_up_to(&file, offset, buffer).map_err(fail)?,
            None => 0,
        };
        if filled < buffer.len() {
            let size = self.disk.length(&file).map_err(fail)?;
            return Err(Error::truncated(
                size,
                offset,
                buffer.len(),
                name,
                self.place(),
            ));
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
        let depth = folder
            .split('/')
            .filter(|segment| !segment.is_empty())
            .count();
        self.walk(folder, depth, &mut |item| {
            if let Item::Object(name, size) = item {
                each(name, size);
            }
        })
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        let fail = |error| self.error(error, Operation::Delete, Some(name));
        let removed = self.disk.remove(&self.path(name.as_str()));
        match removed {
            // Another process may have removed it and not yet synced the folder.
            Err(error) if is_absent(&error) => {
                match self.disk.sync_dir(&self.path(name.folder())) {
                    Err(sync_error) if !is_absent(&sync_error) => Err(fail(sync_error)),
                    _ => Err(fail(error)),
                }
            }
            Err(error) => Err(fail(error)),
            Ok(()) => self.disk.sync_dir(&self.path(name.folder())).map_err(fail),
        }
    }

    fn location(&self) -> String {
        self.place()
    }
}

/// What a walk finds.
enum Item {
    Object(Name, u64),
    Foreign(PathBuf),
}

enum PutError {
    NotAnObject,
    Io(io::Error),
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory)
}

/// Whether an unfinished file of ours can have this name.
fn is_temporary(name: &OsStr) -> bool {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == 32 && name.as_encoded_bytes().iter().all(is_hex)
}
