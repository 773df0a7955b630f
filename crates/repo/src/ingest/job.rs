//! State shared by the threads of one backup.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use ibid_format::tree::Time;
use ibid_storage::{ErrorKind, Name};

use super::again::Again;
use super::copied::CopySource;
use super::limits::Limits;
use super::options::{BackupOptions, Compression, REMOTE_READS, Similarity};
use super::sampling::Sampling;
use super::summary::BackupSummary;
use crate::index::LoadedIndex;
use crate::read::ChunkReader;
use crate::source::{AttributeFault, Filter};
use crate::{Error, Monitor, Repository, Warning, clock};

/// State shared by the threads of one backup.
pub(crate) struct Job<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) options: &'a BackupOptions,
    pub(crate) monitor: &'a Monitor,
    pub(crate) loaded: Arc<LoadedIndex>,
    pub(crate) filter: Arc<Filter>,
    /// Time at which reading began. Later changes may leave a file's times unchanged.
    pub(crate) started: Time,
    pub(crate) limits: Limits,
    /// Reads the bases of deltas; `None` if the backup does not look for similar chunks.
    pub(crate) bases: Option<ChunkReader<'a>>,
    pub(crate) learned: Learned,
    /// Whether the repository has exactly the packs that it had when the parent was made.
    pub(crate) parent_is_complete: bool,
    /// What is read instead of files; `None` for a backup.
    pub(crate) source: Option<Source<'a>>,
    /// The summary so far.
    tally: Mutex<BackupSummary>,
    /// Frames that were needed as bases but can't be read.
    damaged: Mutex<HashSet<u32>>,
    /// Set at the end, to stop threads that only assist.
    pub(crate) finished: AtomicBool,
}

/// What is read instead of files.
pub(crate) enum Source<'a> {
    /// A snapshot of another repository, or of this one.
    Copy(CopySource<'a>),
    /// Chunks that are stored, to be stored again.
    Again(Box<Again<'a>>),
}

/// Properties of the data learned during a backup.
pub(crate) struct Learned {
    /// Bytes in the latest run of frames that did not compress.
    pub(crate) incompressible: AtomicU64,
    /// Classes of files for which looking for similar chunks pays.
    pub(crate) sampling: Sampling,
    /// Whether hints pay, once measured.
    pub(crate) follows_hints: OnceLock<bool>,
}

impl<'a> Job<'a> {
    /// Divides the memory that the index leaves among the queues and buffers of a backup.
    pub(crate) fn new(
        repository: &'a Repository,
        options: &'a BackupOptions,
        loaded: LoadedIndex,
        filter: Arc<Filter>,
        parent_is_complete: bool,
        source: Option<Source<'a>>,
    ) -> Job<'a> {
        let finds_similar = options.similarity != Similarity::Off && options.compression != Compression::Off;
        let cores = options.threads.unwrap_or_else(crate::threads::cores);
        let (chunk_max, beside) = match &source {
            None => (0, 0),
            Some(Source::Copy(source)) => (source.chunk_max, 0),
            Some(Source::Again(again)) => (0, again.beside),
        };
        let held = loaded.index.bytes() + filter.bytes() + beside;
        let mut limits = Limits::new(
            repository.memory.saturating_sub(held),
            cores.max(1),
            repository.chunker.size_max().max(chunk_max),
            repository.config.frame_size,
            repository.config.pack_size,
            finds_similar,
        );
        if repository.files.storage.folder().is_none() {
            limits.reads_max = Some(options.remote_reads.unwrap_or(REMOTE_READS));
        }
        let loaded = Arc::new(loaded);
        let bases = (finds_similar && limits.bases > 0).then(|| {
            let budget = limits.bases + limits.bases_lent;
            let reader = repository.reader_ahead(&loaded, budget);
            let reader = reader.comparing_ends_only().keeping_fetched();
            reader.cache.for_backup();
            reader
        });
        Job {
            repository,
            options,
            monitor: &repository.monitor,
            loaded,
            filter,
            started: clock::now(),
            limits,
            bases,
            learned: Learned {
                incompressible: AtomicU64::new(0),
                sampling: Sampling::new(),
                follows_hints: OnceLock::new(),
            },
            parent_is_complete,
            source,
            tally: Mutex::default(),
            damaged: Mutex::default(),
            finished: AtomicBool::new(false),
        }
    }

    /// Returns what this copy reads from. Only a copy has files that ask for it.
    pub(crate) fn copy_source(&self) -> &CopySource<'a> {
        match &self.source {
            Some(Source::Copy(source)) => source,
            _ => unreachable!("this is a copy"),
        }
    }

    /// Returns the chunks that are stored again, if this job does that.
    pub(crate) fn again(&self) -> Option<&Again<'a>> {
        match &self.source {
            Some(Source::Again(again)) => Some(again),
            _ => None,
        }
    }

    /// Returns whether this job stores chunks again, and makes no tree.
    pub(crate) fn is_again(&self) -> bool {
        self.again().is_some()
    }

    /// Updates the summary, or reads it. Locks it: for frames, packs and batches. The builder counts
    /// chunks and entries in a summary of its own.
    pub(crate) fn count<T>(&self, add: impl FnOnce(&mut BackupSummary) -> T) -> T {
        add(&mut self.tally.lock().expect("no holder of this lock panics"))
    }

    /// Returns the summary.
    pub(crate) fn into_tally(self) -> BackupSummary {
        self.tally.into_inner().expect("no holder of this lock panics")
    }

    /// Returns whether the backup may read more stored frames to find similar chunks.
    pub(crate) fn may_read(&self, bases: &ChunkReader<'_>) -> bool {
        self.limits.reads_max.is_none_or(|most| bases.bytes_read() < most)
    }

    /// Reports a damaged frame, once.
    pub(crate) fn damaged(&self, frame: u32, error: Error) {
        let mut damaged = self.damaged.lock().expect("no holder of this lock panics");
        if damaged.insert(frame) && !error.is_archived() {
            self.count(|tally| tally.damaged_frames += 1);
            self.monitor.warn(Warning::Repository { error });
        }
    }

    /// Reports the packs that are missing, cut short or unreadable, if there are any.
    pub(crate) fn report_lost_packs(&self) {
        let lost = self.loaded.lost_packs();
        self.count(|tally| tally.lost_packs = lost.count());
        lost.tell(self.repository);
    }

    /// Deletes damaged files whose contents are in other files now. What can't be deleted is left to the
    /// next backup.
    pub(crate) fn delete_replaced<'n>(&self, names: impl IntoIterator<Item = &'n Name>) {
        let storage = &self.repository.files.storage;
        if storage.is_append_only() {
            return; // a prune deletes them
        }
        for name in names {
            match storage.delete(name) {
                Ok(()) => self.monitor.warn(Warning::Replaced {
                    object: name.to_string(),
                }),
                // Another process has done so.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => self.monitor.warn(Warning::Repository { error: error.into() }),
            }
        }
    }

    /// Reports the attributes of a file that are not stored.
    pub(crate) fn attributes_lost(&self, path: &Path, faults: Vec<AttributeFault>) {
        for (what, source) in faults {
            self.count(|tally| tally.attributes_lost += 1);
            self.monitor.warn(Warning::Attributes {
                path: path.to_owned(),
                what,
                source,
            });
        }
    }
}
