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
mod large;
mod limits;
mod read;
mod sampling;
mod store;
mod work;

use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use ibid_format::FileId;
use ibid_format::snapshot::{Counters, Snapshot};
use ibid_format::tree::Time;
use limits::Limits;
use sampling::Gains;

use crate::index::Loaded;
use crate::layout::{folder, name_in};
use crate::read::ChunkReader;
use crate::source::{Excludes, Filter, XattrFault};
use crate::{Error, Monitor, Repository, Result, Warning};

/// How hard to compress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// One of three ways between zstd's levels 1 and 3: the fastest that is about the smallest on a
    /// sample of the data's own frames.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// zstd at this level, 1–22.
    Level(i32),
}

/// What to do about data that is like other data, and not the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Similarity {
    /// Store it as the difference from what it is like, where that gains.
    #[default]
    Auto,
    /// Nothing.
    Off,
    /// Look for what is similar in all data, also in such that does not compress, and for more of
    /// it: the least is stored, and it takes longer.
    Max,
}

/// Whether large files are cut where the repository suggests (RapidCDC; paper 003): behind a chunk
/// that is known, at the sizes of the chunks that were stored behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hints {
    /// If looking for boundaries takes longer than fingerprinting, with this chunker on this
    /// machine.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Always.
    Always,
}

/// A stream to back up as one file.
pub struct Stream {
    /// The name it gets: one file in the root of the snapshot.
    pub name: Vec<u8>,
    /// Its bytes. An error ends the backup; [`Interrupted`](std::io::ErrorKind::Interrupted) only
    /// makes it look whether it should stop, so a reader that waits for long returns that now
    /// and then.
    pub reader: Box<dyn Read + Send + Sync>,
}

/// What to back up and how.
#[derive(Default)]
pub struct BackupOptions {
    /// Files and directories. A block device named here is read like a file.
    pub paths: Vec<PathBuf>,
    /// A stream, instead of paths.
    pub stream: Option<Stream>,
    /// What to leave out.
    pub excludes: Excludes,
    /// Labels.
    pub tags: Vec<String>,
    /// The machine's name to record; this machine's if none.
    pub host: Option<String>,
    /// When the backup was made, to record; now if none.
    pub time: Option<Time>,
    /// The program's name and version, to record.
    pub program: String,
    /// Read every file, even those that look unchanged.
    pub force: bool,
    /// The snapshot to compare with (see [`Repository::snapshot`](crate::Repository::snapshot));
    /// the latest of the same host and paths if none.
    pub parent: Option<String>,
    /// Do all but write.
    pub dry_run: bool,
    /// How hard to compress.
    pub compression: Compression,
    /// What to do about data that is like other data. Without compression, nothing is done.
    pub similarity: Similarity,
    /// Bytes of frames that may be read back to encode against them, or to find out what they are
    /// like, if the storage is not a folder of this machine: 256 MiB if none. Frames that are
    /// on their way when so many are read come on top.
    pub remote_reads: Option<u64>,
    /// Whether large files are cut where the repository suggests.
    pub hints: Hints,
    /// Count files and bytes beforehand, beside the work, so that progress can tell how much is
    /// left.
    pub estimate: bool,
    /// Threads that read, fingerprint and compress; the number of cores if none.
    pub threads: Option<usize>,
}

/// What a backup did.
#[derive(Clone, Debug)]
pub struct BackupSummary {
    /// The snapshot; none for a dry run.
    pub id: Option<FileId>,
    /// The snapshot that unchanged files were compared with.
    pub parent: Option<FileId>,
    /// What was found and stored.
    pub counters: Counters,
    /// Files that were taken over from the parent without reading them.
    pub unchanged_files: u64,
    /// Bytes of holes in the files that were read: nothing was stored for them.
    pub holes: u64,
    /// Extended attributes that could not be read, or that are beyond what an entry can hold; each
    /// was reported.
    pub attributes_lost: u64,
    /// Frames of earlier backups that were wanted as bases and can't be read; each was reported.
    /// They were done without, but what lies in them, or hangs on them, is lost unless it is
    /// stored elsewhere too, and this snapshot may need it: a [`check`](Repository::check) tells.
    pub damaged_frames: u64,
    /// Of the counters' `new_bytes`, those of metadata: trees and lists of chunks.
    pub new_metadata_bytes: u64,
    /// New data for which nothing similar was found.
    pub unlike: StoredData,
    /// New data that is stored as the difference from similar data.
    pub similar: StoredData,
    /// Bytes of new chunks for which nothing similar was looked for, since the data before them did
    /// not compress.
    pub passed_over: u64,
    /// Bytes of new chunks for which nothing similar was looked for, since changed files of their
    /// kind have been like nothing that is stored.
    pub without_gain: u64,
    /// Bytes of large files that were cut where the repository suggested, without looking for
    /// boundaries.
    pub hinted: u64,
    /// Bytes written to the repository in all: packs, index, sketches, snapshot.
    pub written: u64,
    /// Milliseconds it took.
    pub duration_ms: u64,
}

/// New chunks of data, and what they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredData {
    /// How many.
    pub chunks: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bytes that their frames take in packs, compressed and sealed.
    pub stored: u64,
}

/// See [`BackupOptions::remote_reads`].
const REMOTE_READS: u64 = 256 << 20;

/// Bytes of small files that are read together.
pub(crate) const GROUP: usize = 1 << 20;

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
    /// # use ibid_repo::{InitOptions, Monitor, Repository, BackupOptions};
    /// # use ibid_format::slot::Argon2Cost;
    /// let storage = std::sync::Arc::new(ibid_storage::Memory::new());
    /// # let init = InitOptions { cost: Argon2Cost { memory_kib: 64, passes: 1, lanes: 1 }, ..InitOptions::default() };
    /// let repository = Repository::init(storage, Some(b"secret"), &init, 0)?;
    /// let options = BackupOptions { paths: vec!["src".into()], ..BackupOptions::default() };
    /// let summary = repository.backup(options, &Monitor::silent())?;
    /// assert!(summary.counters.files > 0);
    /// # Ok::<(), ibid_repo::Error>(())
    /// ```
    pub fn backup(&self, mut options: BackupOptions, monitor: &Monitor) -> Result<BackupSummary> {
        let started = Instant::now();
        let filter = Arc::new(Filter::new(&options.excludes)?);
        let stream = options.stream.take();
        let (paths, unresolved) = match &stream {
            Some(stream) => {
                ibid_format::tree::check_name(&stream.name).map_err(|source| Error::BadStreamName {
                    name: String::from_utf8_lossy(&stream.name).into_owned(),
                    source,
                })?;
                (Vec::new(), 0)
            }
            None => resolve_all(&options.paths, monitor)?,
        };
        // An index of its own: it comes to hold chunks that are not stored yet, and nobody else must rely
        // on those.
        self.refresh();
        let mut loaded = Loaded::load(self, monitor)?;
        if !options.dry_run {
            loaded.settle(self)?;
        }
        let unlisted = std::mem::take(&mut loaded.unlisted);
        let host = options.host.clone().unwrap_or_else(crate::source::host_name);
        let recorded: Vec<Vec<u8>> = match &stream {
            Some(stream) => vec![[b"/", stream.name.as_slice()].concat()],
            None => paths
                .iter()
                .map(|path| std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec())
                .collect(),
        };
        let parent = self.parent(&options, &host, &recorded, stream.is_some(), monitor)?;
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
                .then(|| ChunkReader::new(self, loaded, limits.bases + limits.bases_lent).comparing_ends_only()),
            monitor,
            options: &options,
            started: now,
            incompressible: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
            reads_max: match self.storage.folder() {
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
        let input = match stream {
            Some(stream) => read::Input::Stream(stream),
            None => read::Input::Paths(paths),
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
            .encode(&self.keys, id)
            .map_err(Error::damaged("the new snapshot"))?;
        self.storage.put(&name_in(folder::SNAPSHOTS, id), &[&bytes])?;
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

/// Everything the threads of one backup share.
pub(crate) struct Job<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) filter: Arc<Filter>,
    pub(crate) limits: Limits,
    /// Reads what similar chunks are encoded against; none if nobody looks for that.
    pub(crate) bases: Option<ChunkReader<'a>>,
    pub(crate) monitor: &'a Monitor,
    pub(crate) options: &'a BackupOptions,
    /// When reading began: what changed since can't be told from its times later.
    pub(crate) started: Time,
    /// Bytes of the last frames in a row that did not compress.
    pub(crate) incompressible: AtomicU64,
    /// Bytes of new chunks for which nothing similar was looked for, since what came before did not
    /// compress.
    pub(crate) passed_over: AtomicU64,
    /// Bytes that `bases` may read; none if it may read whatever pays.
    pub(crate) reads_max: Option<u64>,
    /// What looking for what is similar has gained.
    pub(crate) gains: Gains,
    /// Bytes of new chunks for which nothing similar was looked for, since their kind has gained
    /// too little.
    pub(crate) without_gain: AtomicU64,
    /// Whether following what is stored pays, once somebody has measured it.
    pub(crate) follows: OnceLock<bool>,
    /// Bytes that were cut so.
    pub(crate) hinted: AtomicU64,
    /// Set at the end, for those who only accompany the work.
    pub(crate) finished: AtomicBool,
    /// Extended attributes that could not be read, or for which there is no room.
    pub(crate) attributes_lost: AtomicU64,
    /// Frames that were wanted as bases and can't be read.
    damaged: Mutex<HashSet<u32>>,
}

impl Job<'_> {
    /// Whether more may be read back from the repository for the sake of what is similar.
    pub(crate) fn may_read(&self, bases: &ChunkReader<'_>) -> bool {
        self.reads_max.is_none_or(|most| bases.bytes_read() < most)
    }

    /// Says that a frame can't be read, once.
    pub(crate) fn damaged(&self, frame: u32, error: Error) {
        let mut damaged = self.damaged.lock().expect("no holder of this lock panics");
        if damaged.insert(frame) {
            self.monitor.warn(Warning::Repository { error });
        }
    }

    /// Says which attributes of a file are not stored with it.
    pub(crate) fn attributes_lost(&self, path: &Path, faults: Vec<XattrFault>) {
        for (name, source) in faults {
            self.attributes_lost.fetch_add(1, Ordering::Relaxed);
            self.monitor.warn(Warning::Attributes {
                path: path.to_owned(),
                what: format!("extended attribute {}", String::from_utf8_lossy(&name)),
                source,
            });
        }
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
