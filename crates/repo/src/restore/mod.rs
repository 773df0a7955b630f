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

use crate::{Monitor, Repository, Result, SnapshotInfo};

impl Repository {
    /// Restores what is at `path` of a snapshot into the directory `destination`, which is made if
    /// it does not exist. If a directory is at `path`, its contents are restored; a file is
    /// restored under its own name.
    ///
    /// What can't be restored is reported to `monitor` and counted; the rest is restored. A new
    /// file whose stored bytes are damaged is removed again; what stood in its place stays.
    ///
    /// # Errors
    /// [`Error::WouldOverwrite`](crate::Error::WouldOverwrite) before anything is written;
    /// [`Error::NoSuchPath`](crate::Error::NoSuchPath); a tree that can't be read; a full disk.
    pub fn restore(
        &self,
        info: &SnapshotInfo,
        path: &[u8],
        destination: &Path,
        options: &RestoreOptions,
        monitor: &Monitor,
    ) -> Result<RestoreSummary> {
        Task::new(self, info, path, destination, options, monitor)?.run()
    }

    /// Says what [`restore`](Repository::restore) would do, and does nothing: `hear` is told of
    /// every file, and of directories that would be made. The summary is that of a restore in
    /// which nothing goes wrong. What exists is read and compared, as far as the rule asks for it.
    ///
    /// # Errors
    /// Those of a restore; those of `hear`.
    pub fn plan_restore(
        &self,
        info: &SnapshotInfo,
        path: &[u8],
        destination: &Path,
        options: &RestoreOptions,
        monitor: &Monitor,
        hear: &mut dyn FnMut(&Path, Planned) -> Result<()>,
    ) -> Result<RestoreSummary> {
        Task::new(self, info, path, destination, options, monitor)?.run_dry(hear)
    }
}
