//! What the threads of one backup share.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

use ibid_format::tree::Time;

use super::limits::Limits;
use super::options::{BackupOptions, Compression, REMOTE_READS, Similarity};
use super::sampling::Sampling;
use super::summary::BackupSummary;
use crate::index::LoadedIndex;
use crate::read::ChunkReader;
use crate::source::{Filter, XattrFault};
use crate::{Error, Monitor, Repository, Result, Warning, clock};

/// What the threads of one backup share.
pub(crate) struct Job<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) options: &'a BackupOptions,
    pub(crate) monitor: &'a Monitor,
    pub(crate) loaded: Arc<LoadedIndex>,
    pub(crate) filter: Arc<Filter>,
    /// When reading began: a change that comes later can't be told from a file's times.
    pub(crate) started: Time,
    pub(crate) limits: Limits,
    /// Reads the bases of deltas; none if similar chunks are not looked for.
    pub(crate) bases: Option<ChunkReader<'a>>,
    pub(crate) learned: Learned,
    /// What was done so far.
    tally: Mutex<BackupSummary>,
    /// Frames that were wanted as bases and can't be read.
    damaged: Mutex<HashSet<u32>>,
    /// Set at the end, for threads that only accompany the work.
    pub(crate) finished: AtomicBool,
}

/// What a backup has learned about the data on the way.
pub(crate) struct Learned {
    /// Bytes of the last frames in a row that did not compress.
    pub(crate) incompressible: AtomicU64,
    /// For which files it pays to look for similar chunks.
    pub(crate) sampling: Sampling,
    /// Whether it pays to follow hints, once that was measured.
    pub(crate) follows_hints: OnceLock<bool>,
}

impl<'a> Job<'a> {
    /// Divides the memory that the index leaves among the queues and buffers of a backup.
    ///
    /// # Errors
    /// [`Error::MemoryBudget`].
    pub(crate) fn new(
        repository: &'a Repository,
        options: &'a BackupOptions,
        loaded: LoadedIndex,
        filter: Arc<Filter>,
    ) -> Result<Job<'a>> {
        let finds_similar = options.similarity != Similarity::Off && options.compression != Compression::Off;
        let cores = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        let mut limits = Limits::new(
            repository.memory.saturating_sub(loaded.index.bytes()),
            cores.max(1),
            repository.chunker.size_max(),
            repository.config.frame_size,
            repository.config.pack_size,
            finds_similar,
        )?;
        if repository.files.storage.folder().is_none() {
            limits.reads_max = Some(options.remote_reads.unwrap_or(REMOTE_READS));
        }
        let loaded = Arc::new(loaded);
        let bases = (finds_similar && limits.bases > 0).then(|| {
            let budget = limits.bases + limits.bases_lent;
            ChunkReader::new(&repository.files, loaded.clone(), budget).comparing_ends_only()
        });
        Ok(Job {
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
            tally: Mutex::default(),
            damaged: Mutex::default(),
            finished: AtomicBool::new(false),
        })
    }

    /// Adds to what was done so far.
    pub(crate) fn count(&self, add: impl FnOnce(&mut BackupSummary)) {
        add(&mut self.tally.lock().expect("no holder of this lock panics"));
    }

    /// Returns what was done.
    pub(crate) fn into_tally(self) -> BackupSummary {
        self.tally.into_inner().expect("no holder of this lock panics")
    }

    /// Whether more may be read back from the repository for the sake of what is similar.
    pub(crate) fn may_read(&self, bases: &ChunkReader<'_>) -> bool {
        self.limits.reads_max.is_none_or(|most| bases.bytes_read() < most)
    }

    /// Says that a frame can't be read, once.
    pub(crate) fn damaged(&self, frame: u32, error: Error) {
        let mut damaged = self.damaged.lock().expect("no holder of this lock panics");
        if damaged.insert(frame) {
            self.count(|tally| tally.damaged_frames += 1);
            self.monitor.warn(Warning::Repository { error });
        }
    }

    /// Says which attributes of a file are not stored with it.
    pub(crate) fn attributes_lost(&self, path: &Path, faults: Vec<XattrFault>) {
        for (name, source) in faults {
            self.count(|tally| tally.attributes_lost += 1);
            self.monitor.warn(Warning::Attributes {
                path: path.to_owned(),
                what: format!("extended attribute {}", String::from_utf8_lossy(&name)),
                source,
            });
        }
    }
}
