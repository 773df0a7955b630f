//! Merging index files of the repository, so that there are few however many backups there were.
//!
//! The merged file is durable before the others are deleted. A reader that has listed them before and
//! finds one gone lists again. Two processes may merge the same files: their packs are then listed
//! twice, and by one file after the next merge.

use std::collections::{BTreeMap, HashSet};

use ibid_format::{FileId, Keys, index as index_file};

use super::run::{Run, RunWriter};
use crate::cache::{Cache, Kept};
use crate::layout::{folder, new_id};
use crate::listed::Listed;
use crate::prune::PruneState;
use crate::{Error, Monitor, Repository, Result, Warning};

/// Index files up to this size are merged whatever their sizes, bytes.
const SMALL: u64 = 64 << 10;

impl Repository {
    /// Merges index files of about one size, as long as there are many of them. So an entry is written
    /// again once for each such size, and what a backup merges is seldom more than what it wrote.
    pub(crate) fn merge_index_files(&self, known: &[(FileId, u64)]) -> Result<()> {
        let limits = self.index_limits();
        if alike(known, limits.merged_files, limits.merged_bytes).is_empty() {
            return Ok(());
        }
        if self.files.storage.is_append_only() {
            // The old ones would stay, and be merged again after each backup.
            return Ok(());
        }
        let mut left = Some(known.to_vec());
        while let Some(known) = left.take()
            && !alike(&known, limits.merged_files, limits.merged_bytes).is_empty()
        {
            self.monitor.check_cancelled()?;
            left = self.merge_alike()?;
        }
        Ok(())
    }

    /// Returns whether index files may be due to be merged once so many more are written.
    pub(crate) fn may_merge_index_files(&self, known: &[(FileId, u64)], more: usize) -> bool {
        let limits = self.index_limits();
        let many = limits.merged_files.saturating_sub(more).max(1);
        !alike(known, many, limits.merged_bytes).is_empty()
    }

    /// Merges index files of about one size, if there are many. Returns those that there are then, if it did.
    fn merge_alike(&self) -> Result<Option<Vec<(FileId, u64)>>> {
        let limits = self.index_limits();
        let storage = &*self.files.storage;
        let listed = Listed::of(storage, &[folder::INDEX, folder::PRUNE])?;
        let mut left = listed.ids(storage, folder::INDEX)?;
        let files = alike(&left, limits.merged_files, limits.merged_bytes);
        if files.is_empty() {
            return Ok(None);
        }
        let state = PruneState::read_listed(&self.files, &listed)?;
        // The merged file has its number: a loss of power that takes the entry back must not leave the file.
        if !state.settle(&self.files)? {
            return Ok(None);
        }
        let mut indexes = Vec::new();
        for id in &files {
            match self.files.read_index_once(*id) {
                Ok(index) if state.trusts(*id, index.epoch()) && self.files.believes_index(*id) => indexes.push(index),
                // A pruner will deal with it, or a writer has signed it.
                Ok(_) => return Ok(None),
                // It is damaged, or another process has merged it. A check reports damage.
                Err(error) if error.is_fault() => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let id = new_id();
        let merged = index_file::merge(&self.files.keys, id, state.number, &indexes, |pack| {
            !state.is_doomed(pack)
        })
        .map_err(Error::damaged("the merged index"))?;
        drop(indexes);
        self.files.put_copied(folder::INDEX, id, &merged)?;
        if let Some(cache) = &self.cache
            && let Err(error) = cover(cache, &self.files.keys, &self.monitor, &files, id)
        {
            self.monitor.warn(Warning::Cache { error });
        }
        self.delete_all(folder::INDEX, &files)?;
        left.retain(|(id, _)| !files.contains(id));
        left.push((id, merged.len() as u64));
        Ok(Some(left))
    }
}

/// Returns the smallest index files of about one size if there are `many` of them: as many as have
/// `bytes_max` bytes in all, and at least two. Files larger than half of that are never merged.
///
/// Sizes are about one if their binary logarithms, halved, are the same; small ones all are.
fn alike(files: &[(FileId, u64)], many: usize, bytes_max: u64) -> Vec<FileId> {
    let mut tiers: BTreeMap<u32, Vec<(u64, FileId)>> = BTreeMap::new();
    for &(id, size) in files.iter().filter(|(_, size)| *size <= bytes_max / 2) {
        let tier = size.max(SMALL).ilog2() / 2;
        tiers.entry(tier).or_default().push((size, id));
    }
    let Some(mut files) = tiers.into_values().find(|files| files.len() >= many) else {
        return Vec::new();
    };
    files.sort_unstable();
    let mut bytes = 0;
    let fit = files.iter().take_while(|(size, _)| {
        bytes += size;
        bytes <= bytes_max
    });
    fit.map(|(_, id)| *id).collect()
}

/// Notes in the cache that a merged index file says nothing new, if runs stand for all that it was made
/// of: with a run that has no entries and stands for it.
fn cover(cache: &Cache, keys: &Keys, monitor: &Monitor, merged: &[FileId], id: FileId) -> Result<()> {
    let runs: Vec<Run> = cache.files(keys, monitor);
    let covered: HashSet<FileId> = runs.iter().flat_map(|run| run.covers()).copied().collect();
    // It is of use as long as they are.
    let epoch = runs.iter().map(|run| run.trailer.epoch).min().unwrap_or(0);
    if merged.iter().all(|id| covered.contains(id)) {
        let mut writer = RunWriter::new(keys, &cache.make::<Run>()?, true, epoch)?;
        writer.begin_entries(0)?;
        writer.finish(vec![id])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 8;
    const BYTES_MAX: u64 = 24 << 20;

    /// Small backups and a large one now and then, for years.
    #[test]
    fn index_files_stay_few_and_little_is_merged_after_a_small_backup() {
        let mut files: Vec<(FileId, u64)> = Vec::new();
        let (mut written, mut merged, mut mergers, mut merged_most) = (0, 0, 0, 0);
        for backup in 0..5000_u64 {
            let sizes = match backup % 1000 {
                999 => vec![15 << 20, 15 << 20, 9 << 20, 700_000],
                _ => vec![500 + backup * 7919 % 30_000],
            };
            for size in sizes {
                files.push((FileId::random(), size));
                written += size;
            }
            let before = merged;
            loop {
                let chosen: HashSet<FileId> = alike(&files, MANY, BYTES_MAX).into_iter().collect();
                if chosen.is_empty() {
                    break;
                }
                assert!(chosen.len() >= 2);
                let bytes = files.iter().filter(|(id, _)| chosen.contains(id)).map(|(_, size)| size);
                let bytes = bytes.sum();
                assert!(bytes <= BYTES_MAX);
                files.retain(|(id, _)| !chosen.contains(id));
                files.push((FileId::random(), bytes));
                merged += bytes;
            }
            mergers += u64::from(merged - before > 1 << 20);
            merged_most = merged_most.max(merged - before);
            let mergeable = files.iter().filter(|(_, size)| *size <= BYTES_MAX / 2);
            assert!(
                mergeable.count() <= 7 * 5,
                "{} files after backup {backup}",
                files.len()
            );
        }
        assert!(merged < 3 * written, "{merged} of {written} bytes were merged");
        assert!(mergers <= 5000 / 50, "{mergers} backups merged more than a mebibyte");
        assert!(merged_most <= 2 * BYTES_MAX, "one backup merged {merged_most} bytes");
    }
}
