//! Running totals and failures of a restore.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ibid_format::tree::{EntryKind, TreeEntry};

use super::file::{Lost, Restoring};
use super::options::{Overwrite, RestoreSummary};
use super::owners;
use super::task::Task;
use crate::error::is_no_room;
use crate::{Error, Monitor, ProgressCounters, Result, Warning};

/// Totals that the planner and the workers update.
#[derive(Default)]
pub(crate) struct Tally {
    files: AtomicU64,
    others: AtomicU64,
    pub(crate) directories: AtomicU64,
    /// Bytes of these files.
    bytes: AtomicU64,
    pub(crate) written: AtomicU64,
    pub(crate) kept: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) damaged: AtomicU64,
    owners_lost: AtomicU64,
    /// Paths of failed files, collected if the restore is verified afterwards.
    lost: Mutex<HashSet<PathBuf>>,
    fatal: Mutex<Option<Error>>,
    stopped: AtomicBool,
}

impl Tally {
    /// Ends the restore with this error.
    pub(crate) fn stop(&self, error: Error) {
        self.fatal
            .lock()
            .expect("no holder of this lock panics")
            .get_or_insert(error);
        self.halt();
    }

    /// Stops starting new work; incomplete files are removed.
    pub(crate) fn halt(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Counts an entry that now matches the snapshot.
    pub(crate) fn restored(&self, task: &Task<'_>, entry: &TreeEntry) {
        match &entry.kind {
            EntryKind::File(content) => {
                ProgressCounters::add(&self.files, 1);
                ProgressCounters::add(&self.bytes, content.length);
                ProgressCounters::add(&task.monitor.counters.files, 1);
            }
            _ => ProgressCounters::add(&self.others, 1),
        }
        self.note_owner(entry);
    }

    /// Counts an entry whose owner can't be restored.
    pub(crate) fn note_owner(&self, entry: &TreeEntry) {
        if owners::is_lost(entry) {
            ProgressCounters::add(&self.owners_lost, 1);
        }
    }

    /// Counts an existing file that was left alone.
    pub(crate) fn kept(&self, task: &Task<'_>, entry: &TreeEntry) {
        ProgressCounters::add(&self.kept, 1);
        if matches!(entry.kind, EntryKind::File(_)) {
            ProgressCounters::add(&task.monitor.counters.files, 1);
        }
    }

    /// Counts an existing file that already matches. Under [`Overwrite::IfChanged`] it counts as
    /// kept.
    pub(crate) fn right(&self, task: &Task<'_>, entry: &TreeEntry) {
        match task.options.overwrite {
            Overwrite::IfChanged => self.kept(task, entry),
            _ => self.restored(task, entry),
        }
    }

    /// Returns the summary and the lost paths, or the error that ended the restore.
    pub(crate) fn into_summary(self) -> Result<(RestoreSummary, HashSet<PathBuf>)> {
        if let Some(error) = self.fatal.into_inner().expect("no holder of this lock panics") {
            return Err(error);
        }
        let summary = RestoreSummary {
            files: self.files.into_inner(),
            directories: self.directories.into_inner(),
            others: self.others.into_inner(),
            bytes: self.bytes.into_inner(),
            bytes_written: self.written.into_inner(),
            kept: self.kept.into_inner(),
            failed: self.failed.into_inner(),
            damaged: self.damaged.into_inner(),
            verified: 0,
            owners_lost: self.owners_lost.into_inner(),
            inode_flags_lost: 0,
        };
        Ok((summary, self.lost.into_inner().expect("no holder of this lock panics")))
    }
}

/// Handles a lost piece of a file: the file fails, or keeps zeros there if damaged files are kept.
pub(crate) fn lose(task: &Task<'_>, progress: &Tally, file: &Restoring<'_>, offset: u64, length: u64, why: Error) {
    if !task.options.keep_damaged {
        return fail(task, progress, file, why);
    }
    let why = match why {
        Error::Local { source, .. } => source.to_string(),
        why => why.to_string(),
    };
    let mut lost = file.lost.lock().expect("no holder of this lock panics");
    let pieces = Vec::new();
    let lost = lost.get_or_insert(Lost { pieces, why });
    lost.pieces.push((offset, length));
}

/// Fails a file and reports it once. A full disk ends the restore, because every other file would
/// fail the same way.
pub(crate) fn fail(task: &Task<'_>, progress: &Tally, file: &Restoring<'_>, error: Error) {
    if is_full_disk(&error) {
        file.failed.store(true, Ordering::Relaxed);
        progress.stop(error);
    } else if !file.failed.swap(true, Ordering::Relaxed) {
        skipped(task, progress, &file.path, error);
    }
}

pub(crate) fn is_full_disk(error: &Error) -> bool {
    matches!(error, Error::Local { source, .. } if is_no_room(source))
}

/// Reports and counts an entry that could not be restored.
pub(crate) fn skipped(task: &Task<'_>, progress: &Tally, path: &Path, error: Error) {
    ProgressCounters::add(&progress.failed, 1);
    let path = path.to_owned();
    if task.options.verify {
        progress
            .lost
            .lock()
            .expect("no holder of this lock panics")
            .insert(path.clone());
    }
    task.monitor.warn(Warning::Skipped { path, error });
}

/// Totals to expect.
#[derive(Default)]
pub(crate) struct Total {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Total {
    pub(crate) fn add(&mut self, entry: &TreeEntry) {
        if let EntryKind::File(content) = &entry.kind {
            self.files += 1;
            self.bytes += content.length;
        }
    }

    pub(crate) fn tell(&self, monitor: &Monitor) {
        let counters = &monitor.counters;
        counters.files_total.store(self.files, Ordering::Relaxed);
        counters.bytes_total.store(self.bytes, Ordering::Relaxed);
        counters.totals_final.store(true, Ordering::Relaxed);
    }
}
