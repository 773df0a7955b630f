//! A disk that omits steps, as a careless protocol would.

use std::io::{self, IoSlice};
use std::path::Path;
use std::time::Duration;

use ibid_storage::disk::{Access, Disk, FolderEntry};

/// The omitted step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// Content is never synced.
    NoSync,
    /// No folder is ever synced.
    NoSyncDir,
    /// This folder is never synced.
    NoSyncOf(&'static str),
}

pub(crate) struct Careless<D> {
    inner: D,
    flaw: Flaw,
}

impl<D> Careless<D> {
    pub(crate) fn new(inner: D, flaw: Flaw) -> Self {
        Self { inner, flaw }
    }
}

impl<D: Disk> Disk for Careless<D> {
    type File = D::File;

    fn create_new(&self, path: &Path) -> io::Result<D::File> {
        self.inner.create_new(path)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<D::File> {
        self.inner.open(path, access)
    }

    fn lock(&self, file: &D::File) -> io::Result<bool> {
        self.inner.lock(file)
    }

    fn write(&self, file: &mut D::File, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.inner.write(file, parts)
    }

    fn sync(&self, file: &D::File) -> io::Result<()> {
        if self.flaw == Flaw::NoSync {
            Ok(())
        } else {
            self.inner.sync(file)
        }
    }

    fn rename_noreplace(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename_noreplace(from, to)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.inner.make_dir(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        match self.flaw {
            Flaw::NoSyncDir => Ok(()),
            Flaw::NoSyncOf(folder) if Path::new(folder) == path => Ok(()),
            _ => self.inner.sync_dir(path),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<FolderEntry>> {
        self.inner.list(path)
    }

    fn read_at(&self, file: &D::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(file, offset, buffer)
    }

    fn length(&self, file: &D::File) -> io::Result<u64> {
        self.inner.length(file)
    }

    fn age(&self, file: &D::File) -> io::Result<Duration> {
        self.inner.age(file)
    }

    fn unique(&self) -> io::Result<u128> {
        self.inner.unique()
    }
}
