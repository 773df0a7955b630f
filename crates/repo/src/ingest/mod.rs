//! Backup: walk → cut → fingerprint → index → compress → seal → packs → storage.
//!
//! ```text
//!  reader ──events, in order──────────────────────────▶ builder ──frames──▶ packer ──packs──▶ 2 uploaders
//!    │  └─ large files: 2 cutters ──pieces──┐              │ ▲ ▲                 ▲
//!    └─ groups of small files ──────────────┴─▶ workers ───┼─┘ └─ results       │
//!                                                  ▲──compress──┘ └────sealed in order
//! ```
//!
//! The **reader** ([`read`]) walks and decides what must be read. **Cutters** ([`large`]) read and
//! cut large files, or [`hints`] what is stored. **Workers** ([`work`]) read small files, cut,
//! fingerprint and sketch ([`fingerprint`]; [`sampling`] says where that pays) and compress ([`compress`],
//! [`deltas`]), one a core. The **builder** ([`build`]; the calling thread) takes their results in
//! the order of the walk, asks the index, gathers new chunks into frames ([`gather`], [`groups`])
//! and writes trees; so the same input makes the same frames whatever the number of cores, and
//! neighbours stay neighbours. The **packer** and uploaders ([`store`]) seal and store. Every queue
//! is bounded; [`Limits`] sizes them from one budget.

mod build;
mod compress;
mod deltas;
mod earlier;
mod effort;
mod fingerprint;
mod gather;
mod groups;
mod hints;
mod job;
mod large;
mod limits;
mod open_frame;
mod options;
mod read;
mod sampling;
mod store;
mod summary;
mod work;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use ibid_format::FileId;
use ibid_format::snapshot::Snapshot;
use job::Job;
use limits::Limits;
use options::REMOTE_READS;
pub use options::{BackupOptions, Compression, Hints, Similarity, Stream};
use sampling::Gains;
pub use summary::{BackupSummary, StoredData};

use crate::index::Loaded;
use crate::layout::{folder, name_in};
use crate::read::ChunkReader;
use crate::source::Filter;
use crate::{Error, Monitor, Repository, Result, Warning};

impl Repository {
    /// Makes a snapshot. When this returns `Ok`, it is durable: whole, and readable after any
    /// crash.
    ///
    /// Files that can't be read are reported to `monitor`, counted, and left out.
    ///
    /// # Errors
    /// [`Error::NothingToBackUp`] if no path could be read at all; [`Error::BadStreamName`];
    /// [`Error::Pipe`] if the stream failed; [`Error::Interrupted`] if `monitor` was cancelled
    /// (what was stored stays and is used by the next backup); [`Error::MemoryBudget`];
    /// whatever the storage says. In each case no snapshot is made and earlier ones are intact.
    ///
    /// ```
    /// # use ibid_repo::{Argon2Cost, BackupOptions, InitOptions, MemoryStorage, Repository};
    /// let storage = std::sync::Arc::new(MemoryStorage::new());
    /// # let init = InitOptions::default().cost(Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 });
    /// let repository = Repository::init(storage, Some(b"secret"), &init)?;
    /// let summary = repository.backup(&BackupOptions::default().path("src"))?;
    /// assert!(summary.counters.files > 0);
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn backup(&self, options: &BackupOptions) -> Result<BackupSummary> {
        let (paths, unresolved) = resolve_all(&options.paths, &self.monitor)?;
        self.run_backup(read::Input::Paths(paths), unresolved, options)
    }

    /// Makes a snapshot of one file: a stream, such as the output of another program. The paths and
    /// excludes of `options` are not used.
    ///
    /// # Errors
    /// [`Error::BadStreamName`]; [`Error::Pipe`] if the stream failed; else as
    /// [`backup`](Repository::backup).
    pub fn backup_stream(&self, stream: Stream, options: &BackupOptions) -> Result<BackupSummary> {
        ibid_format::tree::check_name(&stream.name).map_err(|source| Error::BadStreamName {
            name: String::from_utf8_lossy(&stream.name).into_owned(),
            source,
        })?;
        self.run_backup(read::Input::Stream(stream), 0, options)
    }

    fn run_backup(&self, input: read::Input, unresolved: u64, options: &BackupOptions) -> Result<BackupSummary> {
        let started = Instant::now();
        let monitor = &*self.monitor;
        let filter = Arc::new(Filter::new(&options.excludes)?);
        // An index of its own: it comes to hold chunks that are not stored yet, and nobody else must rely
        // on those.
        self.refresh();
        let mut loaded = Loaded::load(&self.files, self.memory, monitor)?;
        if !options.dry_run {
            loaded.settle(&self.files)?;
        }
        let unlisted = std::mem::take(&mut loaded.unlisted);
        let host = options.host.clone().unwrap_or_else(crate::source::host_name);
        let recorded: Vec<Vec<u8>> = match &input {
            read::Input::Stream(stream) => vec![[b"/", stream.name.as_slice()].concat()],
            read::Input::Paths(paths) => paths
                .iter()
                .map(|path| std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec())
                .collect(),
        };
        let is_stream = matches!(input, read::Input::Stream(_));
        let parent = self.parent(options, &host, &recorded, is_stream, monitor)?;
        let cores = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
            .max(1);
        let budget = self.memory.saturating_sub(loaded.index.bytes());
        let looks = options.similarity != Similarity::Off && options.compression != Compression::Off;
        let limits = Limits::new(
            budget,
            cores,
            self.chunker.size_max(),
            self.config.frame_size,
            self.config.pack_size,
            looks,
        )?;
        let now = crate::clock::now();
        let loaded = Arc::new(loaded);
        let job = Job {
            repository: self,
            loaded: loaded.clone(),
            filter,
            limits,
            bases: (looks && limits.bases > 0)
                .then(|| ChunkReader::new(&self.files, loaded, limits.bases + limits.bases_lent).comparing_ends_only()),
            monitor,
            options,
            started: now,
            incompressible: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
            reads_max: match self.files.storage.folder() {
                Some(_) => None,
                None => Some(options.remote_reads.unwrap_or(REMOTE_READS)),
            },
            gains: Gains::new(),
            without_gain: AtomicU64::new(0),
            follows: OnceLock::new(),
            hinted: AtomicU64::new(0),
            finished: AtomicBool::new(false),
            attributes_lost: AtomicU64::new(0),
            damaged: Mutex::default(),
        };
        let built = build::run(&job, unlisted, input, parent.as_ref().map(|(_, snapshot)| snapshot));
        self.refresh();
        let built = built?;
        let mut counters = built.counters;
        counters.unreadable += unresolved;
        let mut tags = options.tags.clone();
        tags.sort_unstable();
        tags.dedup();
        let duration_ms = started.elapsed().as_millis() as u64;
        let snapshot = Snapshot {
            time: options.time.unwrap_or(now),
            duration_ms,
            host,
            user: crate::source::user_name(),
            program: options.program.clone(),
            paths: recorded,
            tags,
            parent: parent.as_ref().map(|(id, _)| *id),
            root: built.root,
            users: built.users,
            groups: built.groups,
            counters,
        };
        // What was read when somebody asked to stop may be less than all.
        monitor.check_cancelled()?;
        let (id, size) = if options.dry_run {
            (None, 0)
        } else {
            self.put_snapshot(&snapshot)?
        };
        Ok(BackupSummary {
            id,
            parent: snapshot.parent,
            counters,
            unchanged_files: built.unchanged_files,
            holes: built.holes,
            attributes_lost: job.attributes_lost.into_inner(),
            damaged_frames: job.damaged.into_inner().expect("no holder of this lock panics").len() as u64,
            new_metadata_bytes: built.new_metadata_bytes,
            unlike: built.data.unlike,
            similar: built.data.similar,
            passed_over: job.passed_over.into_inner(),
            without_gain: job.without_gain.into_inner(),
            hinted: job.hinted.into_inner(),
            written: built.written + size,
            duration_ms: started.elapsed().as_millis() as u64,
        })
    }

    fn put_snapshot(&self, snapshot: &Snapshot) -> Result<(Option<FileId>, u64)> {
        let id = FileId::random();
        let bytes = snapshot
            .encode(&self.files.keys, id)
            .map_err(Error::damaged("the new snapshot"))?;
        self.files.storage.put(&name_in(folder::SNAPSHOTS, id), &[&bytes])?;
        Ok((Some(id), bytes.len() as u64))
    }

    /// The snapshot to compare with. One that can't be read is not worth failing for: files are
    /// read again.
    fn parent(
        &self,
        options: &BackupOptions,
        host: &str,
        paths: &[Vec<u8>],
        is_stream: bool,
        monitor: &Monitor,
    ) -> Result<Option<(FileId, Snapshot)>> {
        if let Some(wanted) = &options.parent {
            return self.snapshot(wanted).map(|found| Some((found.id, found.snapshot)));
        }
        if is_stream {
            return Ok(None);
        }
        let mut snapshots = self.snapshots_with(|_, error| monitor.warn(Warning::Repository { error }))?;
        snapshots.retain(|s| s.snapshot.host == host && s.snapshot.paths == paths);
        Ok(snapshots.pop().map(|found| (found.id, found.snapshot)))
    }
}

/// Absolute paths, sorted, each once; and how many could not be found (each is reported).
fn resolve_all(paths: &[PathBuf], monitor: &Monitor) -> Result<(Vec<PathBuf>, u64)> {
    let mut resolved = Vec::new();
    let mut failed = 0;
    for path in paths {
        match crate::source::resolve(path) {
            Ok(path) => resolved.push(path),
            Err(error) => {
                failed += 1;
                monitor.warn(Warning::Skipped {
                    path: path.clone(),
                    error,
                });
            }
        }
    }
    if resolved.is_empty() {
        return Err(Error::NothingToBackUp { paths: paths.len() });
    }
    resolved.sort_unstable();
    resolved.dedup();
    Ok((resolved, failed))
}
