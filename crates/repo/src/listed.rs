//! Folders that are listed together: where each list is a request, an operation begins with one for all that it needs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use ibid_format::FileId;
use ibid_storage::{Name, Storage};

use crate::Result;
use crate::layout::{each_id, ids_of, list_ids};
use crate::threads::lock;

/// The files in folders that an operation has listed together. A folder that is not among them is listed when it is
/// asked for.
///
/// They were listed in no order: of two files that were stored one after the other meanwhile, the second may be there
/// and the first not. So a pack may seem to be missing that an index file lists, and a chunk that a snapshot needs.
///
/// Clones share them: each list is taken once.
#[derive(Clone, Default)]
pub(crate) struct Listed {
    folders: Arc<Mutex<Lists>>,
}

/// Names with sizes in bytes, by their folders.
type Lists = HashMap<String, Vec<(Name, u64)>>;

impl Listed {
    /// Lists folders, as far as the storage gains by listing them together. A name may also be that of a file.
    pub(crate) fn of(storage: &dyn Storage, folders: &[&str]) -> Result<Listed> {
        let mut found = Lists::new();
        let whole = storage.list_together(folders, &mut |name, size| {
            let has_it = |folder: &&&str| name.as_str() == **folder || name.is_in(folder);
            if let Some(folder) = folders.iter().find(has_it) {
                found.entry((*folder).to_owned()).or_default().push((name, size));
            }
        })?;
        let whole = folders.iter().zip(whole).filter(|(_, whole)| *whole);
        let folders = whole.map(|(folder, _)| ((*folder).to_owned(), found.remove(*folder).unwrap_or_default()));
        Ok(Listed {
            folders: Arc::new(Mutex::new(folders.collect())),
        })
    }

    /// Returns lists of its own, with all that was not asked for yet.
    pub(crate) fn copy(&self) -> Listed {
        Listed {
            folders: Arc::new(Mutex::new(lock(&self.folders).clone())),
        }
    }

    /// Returns whether no folder is left that was listed.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.folders).is_empty()
    }

    /// Returns whether a folder was listed, and was not asked for yet.
    pub(crate) fn has(&self, folder: &str) -> bool {
        lock(&self.folders).contains_key(folder)
    }

    /// Takes the names in a folder with the sizes in bytes, if it was listed. Who asks again gets a new list.
    pub(crate) fn take(&self, folder: &str) -> Option<Vec<(Name, u64)>> {
        lock(&self.folders).remove(folder)
    }

    /// Returns the ids of all files in a folder, with their sizes in bytes, ascending.
    pub(crate) fn ids(&self, storage: &dyn Storage, folder: &str) -> Result<Vec<(FileId, u64)>> {
        match self.take(folder) {
            Some(names) => ids_of(storage, folder, names),
            None => list_ids(storage, folder),
        }
    }

    /// Calls `each` with the id and the size in bytes of each file in a folder, in no order.
    pub(crate) fn each(
        &self,
        storage: &dyn Storage,
        folder: &str,
        mut each: impl FnMut(FileId, u64) -> Result<()>,
    ) -> Result<()> {
        match self.take(folder) {
            Some(names) => {
                let mut ids = ids_of(storage, folder, names)?.into_iter();
                ids.try_for_each(|(id, size)| each(id, size))
            }
            None => each_id(storage, folder, each),
        }
    }
}
