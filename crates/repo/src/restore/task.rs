//! Input of one restore, shared by its threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard};

use super::options::RestoreOptions;
use crate::{Monitor, Patterns, Repository, Result, SnapshotPath, Warning};

/// Include and exclude patterns.
pub(crate) struct Selection {
    include: Option<Patterns>,
    exclude: Patterns,
    /// Include patterns that have matched nothing yet.
    unmatched: Mutex<Vec<(String, Patterns)>>,
    /// Path in the snapshot of the directory being restored.
    base: PathBuf,
}

impl Selection {
    pub(super) fn new(options: &RestoreOptions, path: &Path) -> Result<Selection> {
        let base = crate::tree::clean(path);
        let include = match options.include.is_empty() {
            true => None,
            false => Some(Patterns::new(&options.include, false)?),
        };
        let asks = |pattern: &&String| !pattern.starts_with('!');
        let alone = |pattern: &String| Ok((pattern.clone(), Patterns::new(&[pattern], false)?));
        let unmatched: Result<_> = options.include.iter().filter(asks).map(alone).collect();
        let selection = Selection {
            // Everything below an included directory is included.
            include: include.filter(|include| !base.ancestors().any(|folder| include.matches(folder, true))),
            exclude: Patterns::new(&options.exclude, false)?,
            unmatched: Mutex::new(unmatched?),
            base,
        };
        for folder in selection.base.ancestors() {
            selection.note(folder, true);
        }
        Ok(selection)
    }

    pub(super) fn unmatched(&self) -> MutexGuard<'_, Vec<(String, Patterns)>> {
        self.unmatched.lock().expect("no holder of this lock panics")
    }

    /// Records which patterns match a path of the snapshot.
    pub(super) fn note(&self, path: &Path, is_directory: bool) {
        let mut unmatched = self.unmatched();
        unmatched.retain(|(_, pattern)| !pattern.matches(path, is_directory));
    }

    /// Reports include patterns that matched nothing; returns their number.
    pub(super) fn tell_unmatched(&self, monitor: &Monitor) -> u64 {
        let unmatched = std::mem::take(&mut *self.unmatched());
        let count = unmatched.len() as u64;
        for (pattern, _) in unmatched {
            monitor.warn(Warning::NothingMatches { pattern });
        }
        count
    }

    pub(super) fn excludes(&self, path: &Path, is_directory: bool) -> bool {
        self.exclude.matches(&self.base.join(path), is_directory)
    }

    /// Returns whether there are no include patterns.
    pub(super) fn includes_all(&self) -> bool {
        self.include.is_none()
    }

    /// Returns whether this path itself is included. Without include patterns, every path is.
    pub(super) fn includes(&self, path: &Path, is_directory: bool) -> bool {
        self.include.as_ref().is_none_or(|include| {
            let path = self.base.join(path);
            self.note(&path, is_directory);
            include.matches(&path, is_directory)
        })
    }
}

/// Input of one restore.
pub(crate) struct Task<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) from: &'a SnapshotPath<'a>,
    pub(crate) destination: PathBuf,
    pub(crate) options: &'a RestoreOptions,
    pub(crate) selection: Selection,
    pub(crate) monitor: &'a Monitor,
    /// Files and directories that lack inode flags of their entries.
    pub(crate) inode_flags_lost: AtomicU64,
}

impl<'a> Task<'a> {
    pub(super) fn new(
        repository: &'a Repository,
        from: &'a SnapshotPath<'a>,
        destination: &Path,
        options: &'a RestoreOptions,
    ) -> Result<Task<'a>> {
        Ok(Task {
            repository,
            from,
            destination: destination.to_owned(),
            options,
            selection: Selection::new(options, &from.path)?,
            monitor: &repository.monitor,
            inode_flags_lost: AtomicU64::new(0),
        })
    }
}
