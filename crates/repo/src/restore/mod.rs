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
mod finish;
mod folder;
mod links;
mod open_files;
mod owners;
mod plan;
mod preview;
mod run;
mod selected;
mod target;
mod verify;
mod write;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use crate::{Monitor, Patterns, Repository, Result, SnapshotInfo, Warning};

/// What to do where something exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Stop before anything is written.
    #[default]
    Refuse,
    /// Make it as in the snapshot; bytes that are right already are not written again.
    Always,
    /// The same, but take the contents of a file with the right size and mtime as right without
    /// reading it.
    IfChanged,
    /// Leave it.
    Never,
}

/// What to restore and how.
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions {
    /// What to do where something exists.
    pub overwrite: Overwrite,
    /// Restore only what matches one of these [`Patterns`], and what lies below. Paths are those of
    /// the snapshot.
    pub include: Vec<String>,
    /// Leave out what matches one of these.
    pub exclude: Vec<String>,
    /// Afterwards, read everything back from the disk and compare.
    pub verify: bool,
    /// Keep what is left of a file that is damaged in the repository: beside its place, as
    /// `NAME.damaged`, with zeros for what is lost. It counts as failed.
    pub keep_damaged: bool,
    /// Give files to the recorded numeric owners, even if names say otherwise here.
    pub numeric_ids: bool,
    /// Threads; the number of cores if none. Fewer, if the memory budget has no room for what each
    /// needs.
    pub threads: Option<usize>,
}

/// What a restore did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreSummary {
    /// Files restored (or that would be).
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symlinks, FIFOs, devices.
    pub others: u64,
    /// Bytes of restored files.
    pub bytes: u64,
    /// Bytes that had to be written; the rest was there.
    pub bytes_written: u64,
    /// Files and others left alone because something was there.
    pub kept: u64,
    /// What could not be restored, and include patterns that match nothing; each was reported.
    pub failed: u64,
    /// Of these, files of which something was kept: see [`RestoreOptions::keep_damaged`].
    pub damaged: u64,
    /// Files that [`RestoreOptions::verify`] read back and found right.
    pub verified: u64,
}

/// What a restore would do about something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// Nothing is there: it would be made.
    Write,
    /// What is there would be made as in the snapshot.
    Replace,
    /// What is there would stay, but perhaps for its attributes.
    Keep,
}

/// Include and exclude patterns.
pub(crate) struct Selection {
    include: Option<Patterns>,
    exclude: Patterns,
    /// Include patterns that nothing has matched yet.
    unmatched: Mutex<Vec<(String, Patterns)>>,
    /// Where in the snapshot the folder is that is restored.
    base: PathBuf,
}

impl Selection {
    fn new(options: &RestoreOptions, path: &[u8]) -> Result<Selection> {
        let base: PathBuf = crate::tree::components(path).map(OsStr::from_bytes).collect();
        let include = match options.include.is_empty() {
            true => None,
            false => Some(Patterns::new(&options.include, false)?),
        };
        let asks = |pattern: &&String| !pattern.starts_with('!');
        let alone = |pattern: &String| Ok((pattern.clone(), Patterns::new(&[pattern], false)?));
        let unmatched: Result<_> = options.include.iter().filter(asks).map(alone).collect();
        let selection = Selection {
            // What is in a folder that is asked for is asked for.
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

    fn unmatched(&self) -> MutexGuard<'_, Vec<(String, Patterns)>> {
        self.unmatched.lock().expect("no holder of this lock panics")
    }

    /// Notes which patterns match a path of the snapshot.
    fn note(&self, path: &Path, is_directory: bool) {
        let mut unmatched = self.unmatched();
        unmatched.retain(|(_, pattern)| !pattern.matches(path, is_directory));
    }

    /// Says which include patterns nothing has matched; returns how many.
    fn tell_unmatched(&self, monitor: &Monitor) -> u64 {
        let unmatched = std::mem::take(&mut *self.unmatched());
        let count = unmatched.len() as u64;
        for (pattern, _) in unmatched {
            monitor.warn(Warning::NothingMatches { pattern });
        }
        count
    }

    fn excludes(&self, path: &Path, is_directory: bool) -> bool {
        self.exclude.matches(&self.base.join(path), is_directory)
    }

    /// Whether there are no include patterns.
    fn includes_all(&self) -> bool {
        self.include.is_none()
    }

    /// Whether this very path is asked for. Without include patterns, everything is.
    fn includes(&self, path: &Path, is_directory: bool) -> bool {
        self.include.as_ref().is_none_or(|include| {
            let path = self.base.join(path);
            self.note(&path, is_directory);
            include.matches(&path, is_directory)
        })
    }
}

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

/// One restore.
pub(crate) struct Task<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) info: &'a SnapshotInfo,
    pub(crate) path: &'a [u8],
    pub(crate) destination: PathBuf,
    pub(crate) options: &'a RestoreOptions,
    pub(crate) selection: Selection,
    pub(crate) monitor: &'a Monitor,
}

impl<'a> Task<'a> {
    fn new(
        repository: &'a Repository,
        info: &'a SnapshotInfo,
        path: &'a [u8],
        destination: &Path,
        options: &'a RestoreOptions,
        monitor: &'a Monitor,
    ) -> Result<Task<'a>> {
        Ok(Task {
            repository,
            info,
            path,
            destination: destination.to_owned(),
            options,
            selection: Selection::new(options, path)?,
            monitor,
        })
    }
}
