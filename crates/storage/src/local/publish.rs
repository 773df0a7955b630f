//! Stores an object by the protocol at the head of [`super`].

use std::collections::HashSet;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use super::Local;
use crate::Name;
use crate::disk::{Access, Disk};
use crate::name::RESERVED;

pub(super) enum PutError {
    NotAnObject,
    Io(io::Error),
}

impl From<io::Error> for PutError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<D: Disk> Local<D> {
    /// Makes one attempt to store an object.
    pub(super) fn put_new(&self, name: &Name, parts: &[&[u8]]) -> Result<(), PutError> {
        self.settle_folder(RESERVED)?;
        self.settle_folder(name.folder())?;
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
            return Err(self.refuse(&target, &folder, error));
        }
        Ok(self.disk.sync_dir(&folder)?)
    }

    /// Returns the error for a name that is taken.
    fn refuse(&self, target: &Path, folder: &Path, taken: io::Error) -> PutError {
        match self.disk.open(target, Access::Read) {
            Err(error) if is_no_file(&error) => PutError::NotAnObject,
            // The process that published it may have been killed before it was durable.
            _ => PutError::Io(self.disk.sync_dir(folder).err().unwrap_or(taken)),
        }
    }

    /// Makes `folder` and those above it, and makes them durable.
    pub(super) fn settle_folder(&self, folder: &str) -> io::Result<()> {
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

    pub(super) fn settled(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.settled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create_temporary(&self) -> io::Result<(D::File, PathBuf)> {
        loop {
            let path = self.root.join(RESERVED).join(format!("{:032x}", self.disk.unique()?));
            let file = self.disk.create_new(&path)?;
            match self.disk.lock(&file) {
                Ok(true) => return Ok((file, path)),
                // A sweep removed the file between the two calls: create another.
                Ok(false) => {}
                // Without locks, the age of the file is what protects it.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok((file, path));
                }
                Err(error) => return Err(error),
            }
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
}

fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput)
}
