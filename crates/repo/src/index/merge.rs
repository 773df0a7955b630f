//! Merging index files of the repository, so that there are few however many backups there were.
//!
//! The merged file is durable before the others are deleted. A reader that has listed them before and
//! finds one gone lists again. Two processes may merge the same files: their packs are then listed
//! twice, and by one file after the next merge.

use ibid_format::{FileId, index as index_file};
use ibid_storage::ErrorKind;

use crate::layout::{folder, name_in};
use crate::{Error, Repository, Result};

impl Repository {
    /// Merges the smallest index files, if there are many. An entry is written again a few times in all,
    /// since a file is merged only with others that together are as large.
    pub(crate) fn merge_index_files(&self) -> Result<()> {
        let limits = self.index_limits();
        let mut files = self.files.list(folder::INDEX)?;
        files.retain(|(_, size)| *size <= limits.merged_bytes / 2);
        if files.len() <= limits.merged_files {
            return Ok(());
        }
        files.sort_unstable_by_key(|(_, size)| *size);
        let mut bytes = 0;
        let chosen = files.iter().enumerate().take_while(|(at, (_, size))| {
            let is_alike = *at < limits.merged_files / 2 + 1 || *size <= bytes;
            bytes += size;
            is_alike && bytes <= limits.merged_bytes
        });
        let count = chosen.count();
        if count < 2 {
            return Ok(());
        }
        let mut indexes = Vec::new();
        for (id, _) in &files[..count] {
            match self.files.read_index(*id) {
                Ok(index) => indexes.push(index),
                // It is damaged, or another process has merged it. A check reports damage.
                Err(error) if error.is_fault() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let id = FileId::random();
        let merged = index_file::merge(&self.files.keys, id, &indexes).map_err(Error::damaged("the merged index"))?;
        drop(indexes);
        self.files.storage.put(&name_in(folder::INDEX, id), &[&merged])?;
        for (id, _) in &files[..count] {
            match self.files.storage.delete(&name_in(folder::INDEX, *id)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}
