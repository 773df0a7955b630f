//! How a long operation is watched and stopped.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts that an operation keeps while it runs; read them from another thread to show progress.
#[derive(Debug, Default)]
pub struct ProgressCounters {
    /// Files done.
    pub files: AtomicU64,
    /// Bytes done (logical: as the user sees them).
    pub bytes: AtomicU64,
    /// Of the bytes done, those that needed no reading: holes, and files that have not changed.
    pub skipped: AtomicU64,
    /// Files in all, as far as known; 0 while unknown.
    pub files_total: AtomicU64,
    /// Bytes in all, as far as known; 0 while unknown.
    pub bytes_total: AtomicU64,
    /// Set once the totals are final.
    pub totals_final: AtomicBool,
    /// Set while what was restored is read back; files and bytes count that then.
    pub verifying: AtomicBool,
    /// Bytes written to, or read from, the repository.
    pub stored: AtomicU64,
}

impl ProgressCounters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts bytes as done that were not read.
    pub(crate) fn skip(&self, n: u64) {
        ProgressCounters::add(&self.bytes, n);
        ProgressCounters::add(&self.skipped, n);
    }
}

/// Something that did not stop the operation, but that its user must hear of.
#[derive(Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A file or directory could not be read (backup) or written (restore); the rest went on.
    Skipped {
        /// Which.
        path: PathBuf,
        /// Why.
        error: crate::Error,
    },
    /// A file changed while it was being read; what was stored is marked so.
    ChangedWhileRead {
        /// Which.
        path: PathBuf,
    },
    /// Some of a file's attributes could not be read or set.
    Attributes {
        /// Which file.
        path: PathBuf,
        /// What: "owner", "extended attribute user.x", …
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// A restore of this file failed midway, or was stopped, and it was there before: it is as in
    /// the snapshot in parts only.
    Mixed {
        /// Which.
        path: PathBuf,
    },
    /// Something stands where a directory of the snapshot belongs, and was left there as asked:
    /// nothing in the directory is restored.
    Kept {
        /// What stands there.
        path: PathBuf,
        /// How many things of the snapshot have no place.
        below: u64,
    },
    /// Nothing that could be restored matches an include pattern.
    NothingMatches {
        /// The pattern.
        pattern: String,
    },
    /// A file of the repository is damaged; the operation could do without it.
    Repository {
        /// What was found and what was done about it.
        error: crate::Error,
    },
    /// The repository's own folder is below a path that is backed up, and was left out.
    OwnFolder {
        /// Where.
        path: PathBuf,
    },
}

/// Watches one operation: its counts, its warnings, and whether it should stop.
pub struct Monitor {
    /// The counts.
    pub counters: ProgressCounters,
    cancelled: AtomicBool,
    on_warning: Box<dyn Fn(Warning) + Send + Sync>,
}

impl Monitor {
    /// A monitor that hands every warning to `on_warning`, from whatever thread it comes up in.
    pub fn new(on_warning: impl Fn(Warning) + Send + Sync + 'static) -> Monitor {
        Monitor {
            counters: ProgressCounters::default(),
            cancelled: AtomicBool::new(false),
            on_warning: Box::new(on_warning),
        }
    }

    /// Asks the operation to stop at the next safe point; it then returns
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the operation was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(crate) fn check_cancelled(&self) -> crate::Result<()> {
        if self.is_cancelled() {
            Err(crate::Error::Interrupted)
        } else {
            Ok(())
        }
    }

    pub(crate) fn warn(&self, warning: Warning) {
        (self.on_warning)(warning);
    }
}

impl Default for Monitor {
    /// A monitor that drops warnings.
    fn default() -> Monitor {
        Monitor::new(|_| ())
    }
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor")
            .field("counters", &self.counters)
            .field("cancelled", &self.cancelled)
            .finish()
    }
}
