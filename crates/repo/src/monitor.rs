//! Progress, warnings and cancellation of long operations.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counters that an operation updates while it runs; read them from another thread to show
/// progress.
#[derive(Debug, Default)]
pub struct ProgressCounters {
    /// Files done.
    pub files: AtomicU64,
    /// Bytes done (logical bytes, before deduplication).
    pub bytes: AtomicU64,
    /// Bytes done without reading: holes, and files that have not changed.
    pub skipped: AtomicU64,
    /// Total number of files, as counted so far; 0 while unknown.
    pub files_total: AtomicU64,
    /// Total number of bytes, as counted so far; 0 while unknown.
    pub bytes_total: AtomicU64,
    /// Set once the totals are final.
    pub totals_final: AtomicBool,
    /// Set while restored files are read back; the counters of files and bytes then count that.
    pub verifying: AtomicBool,
    /// Bytes written to, or read from, the repository.
    pub stored: AtomicU64,
}

impl ProgressCounters {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// Counts bytes as done without having read them.
    pub(crate) fn skip(&self, n: u64) {
        ProgressCounters::add(&self.bytes, n);
        ProgressCounters::add(&self.skipped, n);
    }
}

/// A problem that did not stop the operation but that the user should see.
#[derive(Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A file or directory could not be read (backup) or written (restore); the operation
    /// continued.
    Skipped {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        error: crate::Error,
    },
    /// A file changed while it was being read; its entry is marked as such.
    ChangedWhileRead {
        /// Path of the file.
        path: PathBuf,
    },
    /// Some of a file's attributes could not be read or set.
    Attributes {
        /// Path of the file.
        path: PathBuf,
        /// The attribute: "owner", "extended attribute user.x", …
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Restoring over an existing file failed or was stopped midway: only parts of the file match
    /// the snapshot.
    Mixed {
        /// Path of the file.
        path: PathBuf,
    },
    /// The overwrite rule kept an existing file where the snapshot has a directory; nothing in that
    /// directory was restored.
    Kept {
        /// Path of the existing file.
        path: PathBuf,
        /// Number of entries of the snapshot that could not be restored for that reason.
        below: u64,
    },
    /// An include pattern matches no entry that could be restored.
    NothingMatches {
        /// The pattern.
        pattern: String,
    },
    /// A file of the repository is damaged; the operation worked around it.
    Repository {
        /// The damage, and the action taken.
        error: crate::Error,
    },
    /// A backup has stored its snapshot, but not all index files and sketches, with which chunks are found quickly.
    Unlisted {
        /// The error of the storage.
        error: crate::Error,
    },
    /// Packs are missing, cut short or unreadable. A backup goes on without them, and stores again what the
    /// files still have of them. A prune goes on with the others.
    LostPacks {
        /// Packs that index files list, and that are not there.
        missing: u64,
        /// Packs that are shorter than they were.
        cut: u64,
        /// Packs that no index file lists, and whose own directories can't be read.
        unreadable: u64,
        /// Paths of these packs in the repository: the first ten.
        named: Vec<String>,
        /// Who is told: a writer can't repair anything.
        party: crate::Party,
    },
    /// The storage did not answer whether packs of an archive are thawed. It is asked again, and goes on thawing.
    ThawUnknown {
        /// What is waited for.
        waiting: crate::PackBytes,
        /// The error.
        error: crate::Error,
    },
    /// A damaged index or sketches file was replaced: what it said is in another file now, and it was deleted.
    Replaced {
        /// Path of the damaged file in the repository.
        object: String,
    },
    /// A file of the local cache can't be used; the operation goes on without it.
    Cache {
        /// The error, with the path of the file.
        error: crate::Error,
    },
    /// A snapshot is dated later than this machine's clock says. It is not taken as the parent.
    FromTheFuture {
        /// First digits of the snapshot's id.
        snapshot: String,
        /// Its time.
        time: ibid_format::tree::Time,
    },
    /// A file or folder is left out of a snapshot that is stored again, because data of it is in no pack.
    LeftOut {
        /// Its path in the snapshot.
        path: PathBuf,
        /// Whether it is a folder, with all that was in it.
        is_directory: bool,
    },
    /// A prune has ended this backup, because it had waited for too long. It begins again, and uses what it
    /// has stored.
    BackupBeginsAgain,
    /// Another process has stored a snapshot of the same original at the same time. Both may stay.
    StoredAtOnce {
        /// First digits of the id of the one that this operation has stored.
        snapshot: String,
        /// First digits of the id of the other one.
        other: String,
    },
    /// A prune waits, since other machines may see a network folder as it was for a while.
    WaitsForCaches {
        /// How long, seconds.
        seconds: u64,
    },
    /// A prune moves nothing, since no space is left for that. It frees the packs that nothing needs.
    MovesNothing,
    /// A prune has deleted all sketches, since no space was left to store which packs go. Backups make them again.
    DropsSketches,
    /// A prune frees no bases, since the memory does not suffice to find what the chunks resemble that are encoded
    /// against them: these would be stored whole.
    EncodesNothingAnew,
    /// The repository's own folder is below a path to back up and was left out.
    OwnFolder {
        /// Path of the folder.
        path: PathBuf,
    },
}

/// Observes one operation: counts its progress, receives its warnings, and can cancel it.
pub struct Monitor {
    /// Progress counters.
    pub counters: ProgressCounters,
    cancelled: AtomicBool,
    /// The last path that was asked for.
    path: Mutex<Option<PathBuf>>,
    is_path_wanted: AtomicBool,
    /// Whether the system has refused something in the local cache. All that is to be done there fails then.
    is_cache_refused: AtomicBool,
    on_warning: Box<dyn Fn(Warning) + Send + Sync>,
    stops: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Monitor {
    /// Returns a monitor that passes every warning to `on_warning`, on the thread on which it
    /// occurs.
    pub fn new(on_warning: impl Fn(Warning) + Send + Sync + 'static) -> Monitor {
        Monitor {
            counters: ProgressCounters::default(),
            cancelled: AtomicBool::new(false),
            path: Mutex::default(),
            is_path_wanted: AtomicBool::new(false),
            is_cache_refused: AtomicBool::new(false),
            on_warning: Box::new(on_warning),
            stops: None,
        }
    }

    /// Makes the operation stop as if it was [cancelled](Monitor::cancel), once `stops` returns true. It is asked
    /// often, by several threads.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use ibid_repo::{Argon2Cost, BackupOptions, Error, InitOptions, MemoryStorage, Monitor, Repository};
    /// # let options = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// # let repository = Repository::init(Arc::new(MemoryStorage::new()), Some(b"secret"), &options)?;
    /// let monitor = Arc::new(Monitor::new(|_| ()).stopping_when(|| true));
    /// let backup = repository.watched_by(&monitor).backup(&BackupOptions::default().path("src"));
    /// assert!(matches!(backup, Err(Error::Interrupted)));
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    #[must_use]
    pub fn stopping_when(self, stops: impl Fn() -> bool + Send + Sync + 'static) -> Monitor {
        let stops: Option<Box<dyn Fn() -> bool + Send + Sync>> = Some(Box::new(stops));
        Monitor { stops, ..self }
    }

    /// Asks the operation to stop at the next safe point. The operation then returns
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the operation was asked to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed) || self.stops.as_ref().is_some_and(|stops| stops())
    }

    /// Returns the path of a file that a backup or a restore has come to since the last call, or the same
    /// as then; `None` if there was none yet. Only a call makes the operation note the next small file, so
    /// this costs nothing if no progress is shown.
    pub fn path(&self) -> Option<PathBuf> {
        self.is_path_wanted.store(true, Ordering::Relaxed);
        self.path.lock().expect("no holder of this lock panics").clone()
    }

    /// Notes the path of a file that the operation has come to, if progress is shown.
    pub(crate) fn note_path(&self, path: impl FnOnce() -> PathBuf) {
        if self.is_path_wanted.load(Ordering::Relaxed) && self.is_path_wanted.swap(false, Ordering::Relaxed) {
            self.show_path(path());
        }
    }

    /// Notes the path of a large file that the operation has come to: nothing else is noted for long.
    pub(crate) fn show_path(&self, path: PathBuf) {
        *self.path.lock().expect("no holder of this lock panics") = Some(path);
    }

    pub(crate) fn check_cancelled(&self) -> crate::Result<()> {
        if self.is_cancelled() {
            Err(crate::Error::Interrupted)
        } else {
            Ok(())
        }
    }

    pub(crate) fn warn(&self, warning: Warning) {
        let is_refused = matches!(&warning, Warning::Cache { error } if matches!(error, crate::Error::Local { .. }));
        if is_refused && self.is_cache_refused.swap(true, Ordering::Relaxed) {
            return;
        }
        (self.on_warning)(warning);
    }
}

impl Default for Monitor {
    /// Returns a monitor that drops warnings.
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
