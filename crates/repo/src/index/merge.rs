//! Merging index files of the repository, so that there are few however many backups there were.
//!
//! The merged file is durable before the others are deleted. A reader that has listed them before and
//! finds one gone lists again. Two processes may merge the same files: their packs are then listed
//! twice, and by one file after the next merge.

use std::collections::HashSet;

use ibid_format::{FileId, Keys, index as index_file};
use ibid_storage::ErrorKind;

use super::run::{Run, RunWriter};
use crate::cache::{Cache, Kept};
use crate::layout::{folder, name_in};
use crate::{Error, Monitor, Repository, Result, Warning};

impl Repository {
    /// Merges the smallest index files, as long as there are many. An entry is written again a few times
    /// in all, since a file is merged only with others that together are as large.
    pub(crate) fn merge_index_files(&self) -> Result<()> {
        while self.merge_smallest()? {
            self.monitor.check_cancelled()?;
        }
        Ok(())
    }

    /// Merges the smallest index files, if there are many. Returns whether it did.
    fn merge_smallest(&self) -> Result<bool> {
        let limits = self.index_limits();
        let mut files = self.files.list(folder::INDEX)?;
        files.retain(|(_, size)| *size <= limits.merged_bytes / 2);
        if files.len() <= limits.merged_files {
            return Ok(false);
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
            return Ok(false);
        }
        let mut indexes = Vec::new();
        for (id, _) in &files[..count] {
            match self.files.read_index(*id) {
                Ok(index) => indexes.push(index),
                // It is damaged, or another process has merged it. A check reports damage.
                Err(error) if error.is_fault() => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        let merged_files: Vec<FileId> = files[..count].iter().map(|(id, _)| *id).collect();
        let id = FileId::random();
        let merged = index_file::merge(&self.files.keys, id, &indexes).map_err(Error::damaged("the merged index"))?;
        drop(indexes);
        self.files.storage.put(&name_in(folder::INDEX, id), &[&merged])?;
        if let Some(cache) = &self.cache
            && let Err(error) = cover(cache, &self.files.keys, &self.monitor, &merged_files, id)
        {
            self.monitor.warn(Warning::Cache { error });
        }
        for id in &merged_files {
            match self.files.storage.delete(&name_in(folder::INDEX, *id)) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(true)
    }
}

/// Notes in the cache that a merged index file says nothing new, if runs stand for all that it was made
/// of: with a run that has no entries and stands for it.
fn cover(cache: &Cache, keys: &Keys, monitor: &Monitor, merged: &[FileId], id: FileId) -> Result<()> {
    let runs: Vec<Run> = cache.files(keys, monitor);
    let covered: HashSet<FileId> = runs.iter().flat_map(|run| run.covers()).copied().collect();
    if merged.iter().all(|id| covered.contains(id)) {
        let mut writer = RunWriter::new(keys, &cache.make::<Run>()?, true)?;
        writer.begin_entries(0)?;
        writer.finish(vec![id])?;
    }
    Ok(())
}
