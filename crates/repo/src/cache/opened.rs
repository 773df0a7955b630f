//! What opened a repository last, at which address.

use std::io::Read;
use std::path::Path;

use ibid_format::{FileId, FileKind, config, slot};

use super::{Cache, files_in, touch};
use crate::key_slots::OpenedSlot;

/// The file that holds it.
pub(super) const OPENED: &str = "opened";
const MAGIC: usize = 8;
/// Longest address, bytes.
const ADDRESS_MAX: usize = 4096;
const SIZE_MAX: u64 = (MAGIC + 2 + ADDRESS_MAX + 16) as u64 + slot::LIMIT + config::LIMIT;

/// The key slot that opened an encrypted repository with the bytes of its file, and those of the config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LastOpened {
    pub(crate) slot: FileId,
    pub(crate) key: Vec<u8>,
    pub(crate) config: Vec<u8>,
}

impl LastOpened {
    pub(crate) fn of(slot: OpenedSlot, config: &[u8]) -> LastOpened {
        LastOpened {
            slot: slot.id,
            key: slot.file,
            config: config.to_vec(),
        }
    }

    /// Returns what opened the repository at an address last, if a cache below this folder has it.
    pub(crate) fn find(folder: &Path, address: &str) -> Option<LastOpened> {
        let caches = files_in(folder).ok()?;
        let found = caches.into_iter().filter_map(|cache| {
            let path = cache.join(OPENED);
            let modified = std::fs::metadata(&path).ok()?.modified().ok()?;
            Some((modified, read(&path, address)?))
        });
        // There may have been another repository.
        found.max_by_key(|(modified, _)| *modified).map(|(_, found)| found)
    }
}

/// Reads such a file, if it is about this address.
fn read(path: &Path, address: &str) -> Option<LastOpened> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes).ok()?;
    FileKind::Opened.check(&bytes).ok()?;
    let (length, rest) = bytes.get(MAGIC..)?.split_first_chunk()?;
    let (found, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let (slot, rest) = rest.split_first_chunk()?;
    let (key, config) = rest.split_at_checked(slot::LIMIT as usize)?;
    let is_it = found == address.as_bytes() && config.len() as u64 <= config::LIMIT;
    is_it.then(|| LastOpened {
        slot: FileId(*slot),
        key: key.to_vec(),
        config: config.to_vec(),
    })
}

impl Cache {
    /// Remembers what has opened the repository at an address. Without it, more is asked the next time.
    pub(crate) fn remember_opened(&self, address: &str, opened: &LastOpened) {
        if address.len() > ADDRESS_MAX || opened.key.len() as u64 != slot::LIMIT {
            return;
        }
        let path = self.folder().join(OPENED);
        if read(&path, address).as_ref() != Some(opened) {
            let length = (address.len() as u16).to_le_bytes();
            let (magic, slot) = (FileKind::Opened.magic(), opened.slot.0);
            let head = [&magic[..], &length, address.as_bytes(), &slot].concat();
            let bytes = [head, opened.key.clone(), opened.config.clone()].concat();
            let _ = self.write_bytes("", &path, &bytes);
        }
        // Of two repositories that were at one address, this is the last.
        if let Ok(file) = std::fs::File::options().write(true).open(&path) {
            touch(&file);
        }
    }

    /// Forgets what has opened the repository last: its key is gone.
    pub(crate) fn forget_opened(&self) {
        let _ = std::fs::remove_file(self.folder().join(OPENED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_opened_a_repository_is_found_by_its_address() {
        let folder = tempfile::tempdir().unwrap();
        let caches = [1, 2].map(|number| Cache::new(folder.path(), FileId([number; 16])));
        let opened = |number| LastOpened {
            slot: FileId([number; 16]),
            key: vec![number; slot::LIMIT as usize],
            config: vec![number; 100],
        };
        assert_eq!(LastOpened::find(folder.path(), "s3://a"), None);
        caches[0].remember_opened("s3://a", &opened(1));
        caches[1].remember_opened("s3://b", &opened(2));
        assert_eq!(LastOpened::find(folder.path(), "s3://a"), Some(opened(1)));
        assert_eq!(LastOpened::find(folder.path(), "s3://b"), Some(opened(2)));
        assert_eq!(LastOpened::find(folder.path(), "s3://"), None);
        // Of two repositories that were at one address, the last counts.
        caches[1].remember_opened("s3://a", &opened(3));
        let path = caches[0].folder().join(OPENED);
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        assert_eq!(LastOpened::find(folder.path(), "s3://a"), Some(opened(3)));
        // What is cut short or grew is none.
        let whole = std::fs::read(caches[1].folder().join(OPENED)).unwrap();
        std::fs::remove_file(&path).unwrap();
        let path = caches[1].folder().join(OPENED);
        for length in 0..MAGIC + 2 + 6 + 16 + slot::LIMIT as usize {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(LastOpened::find(folder.path(), "s3://a"), None, "{length}");
        }
        std::fs::write(&path, [whole, vec![0; config::LIMIT as usize]].concat()).unwrap();
        assert_eq!(LastOpened::find(folder.path(), "s3://a"), None);
        assert_eq!(caches[1].clear().unwrap().0, 1);
    }
}
