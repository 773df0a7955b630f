//! Removes the unfinished files of killed processes.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::Local;
use crate::disk::{Access, Disk, FolderEntryKind};
use crate::name::RESERVED;
use crate::{Error, Operation};

/// The age from which [`Local::sweep`] should remove unfinished files: one hour.
///
/// A writer holds a lock, which protects its file at any age; the age protects those on file
/// systems without locks.
pub const SWEEP_AGE: Duration = Duration::from_secs(60 * 60);

/// The result of [`Local::sweep`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// How many unfinished files were removed.
    pub files: u64,
    /// How many bytes they had.
    pub bytes: u64,
    /// How many unfinished files stay, because they are being written or are too young.
    pub kept: u64,
}

impl<D: Disk> Local<D> {
    /// Removes unfinished files that processes left when they were killed.
    ///
    /// Takes only those whose writer is gone and that were last written at least `age_min` ago;
    /// [`SWEEP_AGE`] is a good choice. A writer that is at work holds a lock and never loses
    /// its file.
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
            let FolderEntryKind::File { .. } = entry.kind else {
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

    /// Removes one unfinished file and returns its size, or leaves it.
    fn sweep_file(&self, path: &Path, age_min: Duration) -> io::Result<Option<u64>> {
        let file = self.disk.open(path, Access::Lock)?;
        // The lock is held until the file is removed, so a late writer sees that its file has no
        // name.
        if !self.is_locked(&file)? || self.disk.age(&file)? < age_min {
            return Ok(None);
        }
        let size = self.disk.length(&file)?;
        self.disk.remove(path)?;
        Ok(Some(size))
    }

    /// Whether the writer of the file is gone. Without locks the age alone decides; a writer that
    /// was asleep so long finds its file gone and stores the object anew.
    fn is_locked(&self, file: &D::File) -> io::Result<bool> {
        match self.disk.lock(file) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(true),
            result => result,
        }
    }
}

/// Whether an unfinished file of ours can have this name.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == 32 && name.as_encoded_bytes().iter().all(is_hex)
}
