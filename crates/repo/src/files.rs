//! Access to the files of a repository.

use std::sync::Arc;

use ibid_format::pack::{self, PackSummary};
use ibid_format::{FileId, Keys, index as index_file};
use ibid_storage::Storage;

use crate::layout::{each_id, folder, list_ids, name_in};
use crate::{Error, Result};

/// The storage of a repository, and the keys that seal its files.
pub(crate) struct Files {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) keys: Keys,
}

impl Files {
    /// Returns the ids of all files in a folder, with their sizes in bytes.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<(FileId, u64)>> {
        list_ids(self.storage.as_ref(), folder)
    }

    /// Calls `each` with the ids of all files in a folder, in any order, and their sizes in bytes.
    pub(crate) fn each(&self, folder: &str, each: impl FnMut(FileId, u64) -> Result<()>) -> Result<()> {
        each_id(self.storage.as_ref(), folder, each)
    }

    pub(crate) fn read_index(&self, id: FileId) -> Result<index_file::Index> {
        let name = name_in(folder::INDEX, id);
        let bytes = self.storage.get(&name, index_file::LIMIT)?;
        index_file::Index::open(&self.keys, id, bytes).map_err(Error::damaged(name))
    }

    /// Reads the directory of a pack: its frames and their chunks.
    pub(crate) fn read_directory(&self, id: FileId, size: u64) -> Result<PackSummary> {
        let name = name_in(folder::PACKS, id);
        let damaged = || Error::damaged(&name);
        let position = size
            .checked_sub(pack::TRAILER)
            .filter(|_| size <= pack::LIMIT)
            .ok_or_else(|| {
                damaged()(ibid_format::Error::OutOfRange {
                    field: "pack size",
                    min: pack::TRAILER,
                    max: pack::LIMIT,
                    found: size,
                })
            })?;
        let mut trailer = [0; pack::TRAILER as usize];
        self.storage.read_at(&name, position, &mut trailer)?;
        let offset = pack::open_trailer(&self.keys, id, size, &mut trailer).map_err(damaged())?;
        let mut directory = vec![0; (position - offset) as usize];
        self.storage.read_at(&name, offset, &mut directory)?;
        pack::open_directory(&self.keys, id, size, offset, &mut directory).map_err(damaged())
    }
}
