//! Restore: writes a snapshot's tree, or part of it, back as files.
//!
//! The planner (the calling thread) walks the tree, makes directories and files, and collects which
//! chunk goes where. Every [`WINDOW`] chunks it sorts them by frame, so that each frame is read
//! once, and hands them to the workers, which read, verify and write. A file gets its attributes
//! after its last chunk is written, a directory after its last entry, and both get their inode flags at the very end.
//!
//! An existing file is replaced by a complete one (written next to it and renamed), repaired with
//! verified chunks, or left alone.
//!
//! All paths are resolved relative to open directories, one name at a time, never through a
//! symlink. Nothing outside the destination is touched, whatever a snapshot contains and whatever
//! an attacker places in the destination.

mod attributes;
mod decide;
mod file;
mod finish;
mod first_names;
mod folder;
mod inode_flags;
mod links;
mod lookahead;
mod open_files;
mod options;
mod owners;
mod plan;
mod preview;
mod progress;
mod run;
mod selected;
mod target;
mod task;
mod verify;
mod write;

use std::path::Path;

pub use options::{Overwrite, Planned, RestoreOptions, RestoreSummary};
use task::Task;

use crate::{Repository, Result, SnapshotPath};

impl Repository {
    /// Restores a snapshot, or the entry at a path of it, into the directory `destination`, which
    /// is created if needed. If the path is a directory, its contents are restored; a file is
    /// restored under its own name.
    ///
    /// An entry that can't be restored is reported as a [`Warning`](crate::Warning) and counted;
    /// the rest is restored. A new file whose stored bytes are damaged is removed again; an
    /// existing file in its place stays.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`](crate::Error::WouldOverwrite) before anything is written, and
    /// [`Error::Archived`](crate::Error::Archived), if what is needed must be [thawed](Repository::thaw) first;
    /// [`Error::NoSuchPath`](crate::Error::NoSuchPath); a tree that can't be read; a full disk.
    pub fn restore<'a>(
        &self,
        from: impl Into<SnapshotPath<'a>>,
        destination: impl AsRef<Path>,
        options: &RestoreOptions,
    ) -> Result<RestoreSummary> {
        let (from, destination) = (from.into(), destination.as_ref());
        self.refuse_archived(|rehearsal| {
            let plan = rehearsal.plan_restore(from.clone(), destination, options, |_, _| Ok(()));
            plan.map(drop)
        })?;
        Task::new(self, &from, destination, options)?.run()
    }

    /// Previews a [`restore`](Repository::restore) without writing anything. `on_planned` is called
    /// for every file, and for directories that would be created. The summary is that of a restore
    /// without failures. Existing files are read and compared if the overwrite rule requires it.
    ///
    /// # Errors
    /// Those of a restore, and those of `on_planned`.
    pub fn plan_restore<'a>(
        &self,
        from: impl Into<SnapshotPath<'a>>,
        destination: impl AsRef<Path>,
        options: &RestoreOptions,
        mut on_planned: impl FnMut(&Path, Planned) -> Result<()>,
    ) -> Result<RestoreSummary> {
        Task::new(self, &from.into(), destination.as_ref(), options)?.run_dry(&mut on_planned)
    }
}
