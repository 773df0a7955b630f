//! Forgetting snapshots, and taking that back.

use ibid_format::FileId;
use ibid_format::snapshot;
use ibid_storage::ErrorKind;

use crate::layout::{folder, name_in};
use crate::{Repository, Result};

impl Repository {
    /// Forgets snapshots: they are no longer listed, and the next [`prune`](Repository::prune) frees what only
    /// they need. Until then they can come back.
    ///
    /// # Errors
    /// Errors of the storage. Snapshots before the one at fault are forgotten.
    pub fn forget(&self, snapshots: &[FileId]) -> Result<()> {
        for &id in snapshots {
            let name = name_in(folder::SNAPSHOTS, id);
            let bytes = match self.files.storage.get(&name, snapshot::LIMIT) {
                Ok(bytes) => bytes,
                // Another process was faster.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            match self.files.storage.put(&name_in(folder::FORGOTTEN, id), &[&bytes]) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
                _ => {}
            }
            match self.files.storage.delete(&name) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            if let Some(copies) = &self.files.copies {
                copies.remove(folder::SNAPSHOTS, id);
            }
        }
        Ok(())
    }
}
