//! Restore: a snapshot's tree, or part of it, back as files.
//!
//! The planner (the calling thread) walks the tree, makes directories and files, and collects which
//! chunk goes where. Every [`WINDOW`] chunks it sorts what it has by frame, so that each frame is
//! read once, and hands it to the workers, which read, verify and write. A file gets its attributes
//! when its last chunk is written, a directory when all in it is done.
//!
//! What stands in the destination is replaced by what is complete (made aside and renamed), mended
//! with chunks that are verified, or left.
//!
//! Everything is done relative to open directories, one name at a time, never through a symlink:
//! whatever a snapshot says and whatever is planted in the destination, nothing outside it is
//! touched.

mod attributes;
mod decide;
mod file;
mod finish;
mod folder;
mod links;
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
    /// Restores a snapshot, or what is at a path of it, into the directory `destination`, which is
    /// made if it does not exist. If a directory is at the path, its contents are restored; a file
    /// is restored under its own name.
    ///
    /// What can't be restored is reported as a [`Warning`](crate::Warning) and counted; the rest is
    /// restored. A new file whose stored bytes are damaged is removed again; what stood in its
    /// place stays.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`](crate::Error::WouldOverwrite) before anything is written;
    /// [`Error::NoSuchPath`](crate::Error::NoSuchPath); a tree that can't be read; a full disk.
    pub fn restore<'a>(
        &self,
        from: impl Into<SnapshotPath<'a>>,
        destination: impl AsRef<Path>,
        options: &RestoreOptions,
    ) -> Result<RestoreSummary> {
        Task::new(self, &from.into(), destination.as_ref(), options)?.run()
    }

    /// Tells what [`restore`](Repository::restore) would do, and does nothing. `on_planned` is called
    /// for every file, and for directories that would be made. The summary is that of a restore in
    /// which nothing goes wrong. What exists is read and compared, as far as the rule asks for it.
    ///
    /// # Errors
    /// Those of a restore; those of `on_planned`.
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
