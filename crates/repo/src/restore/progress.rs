//! What a restore has done so far, and what went wrong.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ibid_format::tree::{EntryKind, TreeEntry};

use super::file::{Lost, Restoring};
use super::options::{Overwrite, RestoreSummary};
use super::task::Task;
use crate::error::is_no_room;
use crate::{Error, Monitor, ProgressCounters, Result, Warning};

/// What planner and workers add to.
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
    /// Which these are, if all is to be verified afterwards.
    lost: Mutex<HashSet<PathBuf>>,
    fatal: Mutex<Option<Error>>,
    stopped: AtomicBool,
}

impl Tally {
    /// Something ends it all.
    pub(crate) fn stop(&self, error: Error) {
        self.fatal
            .lock()
            .expect("no holder of this lock panics")
            .get_or_insert(error);
        self.halt();
    }

    /// Nothing more is to be begun; what is not complete goes.
    pub(crate) fn halt(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Something stands as in the snapshot under one more name.
    pub(crate) fn restored(&self, task: &Task<'_>, entry: &TreeEntry) {
        match &entry.kind {
            EntryKind::File(content) => {
                ProgressCounters::add(&self.files, 1);
                ProgressCounters::add(&self.bytes, content.length);
                ProgressCounters::add(&task.monitor.counters.files, 1);
            }
            _ => ProgressCounters::add(&self.others, 1),
        }
    }

    /// Something was left as it is.
    pub(crate) fn kept(&self, task: &Task<'_>, entry: &TreeEntry) {
        ProgressCounters::add(&self.kept, 1);
        if matches!(entry.kind, EntryKind::File(_)) {
            ProgressCounters::add(&task.monitor.counters.files, 1);
        }
    }

    /// Something turned out to be right already. Who compares times only has left it alone.
    pub(crate) fn right(&self, task: &Task<'_>, entry: &TreeEntry) {
        match task.options.overwrite {
            Overwrite::IfChanged => self.kept(task, entry),
            _ => self.restored(task, entry),
        }
    }

    /// What was done and what was lost, unless something ended it all.
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
        };
        Ok((summary, self.lost.into_inner().expect("no holder of this lock panics")))
    }
}

/// A piece of a file is lost: the file fails, or does without it if that was asked for.
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

/// A file can't be completed: said once. A full disk ends the restore, since every other file would
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

/// Something could not be restored: it is said and counted.
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

/// How much there is to do.
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
