//! A storage that lists packs which exist nowhere, for repositories of which only the index is made.

use std::sync::Arc;

use ibid_repo::{FileId, Storage, StorageError};
use ibid_storage::Name;

/// Packs that a storage lists beside its own.
pub(crate) struct ListedPacks<S, P> {
    storage: Arc<S>,
    each_pack: P,
}

impl<S, P> ListedPacks<S, P>
where
    S: Storage,
    P: Fn(&mut dyn FnMut((FileId, u64))) + Send + Sync,
{
    /// Returns a storage that also lists the packs that `each_pack` passes on: their ids, and their sizes in
    /// bytes.
    pub(crate) fn new(storage: Arc<S>, each_pack: P) -> ListedPacks<S, P> {
        ListedPacks { storage, each_pack }
    }
}

impl<S, P> Storage for ListedPacks<S, P>
where
    S: Storage,
    P: Fn(&mut dyn FnMut((FileId, u64))) + Send + Sync,
{
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.storage.put(name, parts)
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, StorageError> {
        self.storage.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), StorageError> {
        self.storage.read_at(name, offset, buffer)
    }

    fn size(&self, name: &Name) -> Result<u64, StorageError> {
        self.storage.size(name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), StorageError> {
        if folder == "packs" {
            (self.each_pack)(&mut |(id, size)| {
                let hex = id.to_string();
                let name = Name::new(&format!("packs/{}/{hex}", &hex[..2]));
                each(name.expect("hexadecimal digits make a valid name"), size);
            });
        }
        self.storage.list(folder, each)
    }

    fn settle(&self, name: &Name) -> Result<(), StorageError> {
        self.storage.settle(name)
    }

    fn delete(&self, name: &Name) -> Result<(), StorageError> {
        self.storage.delete(name)
    }

    fn location(&self) -> String {
        self.storage.location()
    }
}

#[cfg(test)]
mod tests {
    use ibid_repo::MemoryStorage;

    use super::*;

    #[test]
    fn packs_are_listed_beside_those_that_are_there_and_in_their_folder_only() {
        let stored = MemoryStorage::new();
        let index = Name::new("index/00").unwrap();
        let pack = Name::new("packs/02/02").unwrap();
        for name in [&index, &pack] {
            stored.put(name, &[b"stored"]).unwrap();
        }
        let storage = ListedPacks::new(Arc::new(stored), |each| each((FileId([1; 16]), 70)));
        let list = |folder| {
            let mut found = Vec::new();
            storage
                .list(folder, &mut |name, size| found.push((name.to_string(), size)))
                .unwrap();
            found.sort_unstable();
            found
        };
        let listed = (format!("packs/01/{}", "01".repeat(16)), 70);
        assert_eq!(list("packs"), [listed, (pack.to_string(), 6)]);
        assert_eq!(list("index"), [(index.to_string(), 6)]);
    }
}
