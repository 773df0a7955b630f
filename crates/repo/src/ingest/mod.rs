//! Backup: walk → cut → fingerprint → index → compress → seal → packs → storage.
//!
//! ```text
//!  reader ──events, in order──────────────────────────▶ builder ──frames──▶ packer ──packs──▶ 2 uploaders
//!    │  └─ large files: 2 cutters ──pieces──┐              │ ▲ ▲                 ▲
//!    └─ batches of small files ─────────────┴─▶ workers ───┼─┘ └─ results       │
//!                                                  ▲──compress──┘ └────sealed in order
//! ```
//!
//! - The **reader** ([`read`]) walks and decides which files to read. Small ones, and the directories
//!   around them, are gathered ([`batches`]).
//! - **Cutters** ([`large`]) read and cut large files, and follow the boundaries of stored chunks
//!   where that pays ([`hints`]). An image with a map of changed blocks is read in parts ([`image`]).
//! - A copy of a snapshot, of another repository or without some files ([`copied`]), takes the place of
//!   walking, reading and cutting. Frames that it [moves](moves) come first, and need no more than to be
//!   decoded once. So do chunks that a prune has stored again ([`again`]).
//! - **Workers** ([`work`]), one per core, read and cut small files, fingerprint and sketch chunks
//!   ([`fingerprint`]; [`sampling`] decides where sketches pay), and compress frames ([`compress`],
//!   [`deltas`]).
//! - The **builder** ([`build`]; the calling thread) takes their results in the order of the walk,
//!   looks chunks up in the index, gathers new ones into frames ([`gather`], [`groups`]) and writes
//!   trees. So neighbours stay neighbours on any number of cores. If a batch of small files turns
//!   out too large because files have grown, the builder sends the rest back to the workers and
//!   waits for it.
//! - The **packer** and **uploaders** ([`store`]) seal frames into packs and store these.
//!
//! Now and then the builder sends a checkpoint of the tree after the frames ([`checkpoints`]).
//!
//! Every queue is bounded; [`limits`] derives their lengths from the memory budget. All threads
//! count into one tally ([`job`]), which becomes the summary.

mod again;
mod batches;
mod build;
mod checkpoints;
mod compress;
mod copied;
mod deltas;
mod earlier;
mod effort;
mod fingerprint;
mod gather;
mod groups;
mod hints;
mod image;
mod job;
mod large;
mod limits;
mod moves;
mod open_frame;
mod options;
mod read;
mod sampling;
mod store;
mod summary;
mod unchanged;
mod unread;
mod work;

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

pub(crate) use again::Again;
use build::{Built, Lists};
use checkpoints::CheckpointOrigin;
pub(crate) use copied::CopySource;
use ibid_format::snapshot::{LIST_MAX, Snapshot, SnapshotTotals};
use ibid_format::tree::Time;
use ibid_format::{ChunkId, FileId};
use job::{Job, Source};
pub(crate) use moves::{MissingChunks, is_wanted, length_max};
pub use options::{BackupOptions, Checkpoints, Compression, Hints, Similarity, Stream};
use read::Baseline;
pub use summary::{BackupSummary, SimilaritySearch, StoredData};

use crate::cache::Complete;
use crate::checkpoint::{self, CheckpointInfo};
use crate::derived::{DerivedEnd, IsDue};
use crate::index::{LoadedIndex, View};
use crate::layout::{DAMAGED_PACKS, folder};
use crate::listed::Listed;
use crate::prune::PruneState;
use crate::prune::rules::{self, Rule};
use crate::session::{OpenSession, SessionEnd};
use crate::similar;
use crate::snapshots::next_sequence;
use crate::source::Filter;
use crate::threads::both;
use crate::{Error, Monitor, Repository, Result, SnapshotInfo, Warning, clock};

/// Most bytes that the paths of a backup may have, so that they fit into a snapshot file with all else.
pub(crate) const PATHS_BYTES_MAX: u64 = ibid_format::snapshot::LIMIT / 2;

/// A backup that stores more chunks than this brings the local cache up to date itself. Fewer can be
/// read by the next command in a few milliseconds.
const CHUNKS_CACHED_AT_ONCE: u64 = 64 << 10;
/// A snapshot that is dated later than so many seconds from now is from the future: clocks of machines
/// differ by less.
const FUTURE_SECONDS: i64 = 3600;

/// What a backup lists when it has begun its session.
const LISTED: [&str; 8] = [
    folder::CHECKPOINTS,
    folder::CONFIG_COPY,
    DAMAGED_PACKS,
    folder::INDEX,
    folder::PACKS,
    folder::PRUNE,
    folder::SKETCHES,
    folder::SNAPSHOTS,
];

/// What there is in a repository at the end of a backup.
struct StoredFiles {
    /// Hash of the packs, if there is a cache to remember it.
    packs: Option<ChunkId>,
    /// The index files, with their sizes in bytes.
    index_files: Vec<(FileId, u64)>,
}

impl StoredFiles {
    fn of(job: &Job<'_>, lists: &Lists) -> StoredFiles {
        let repository = job.repository;
        let packs_hash = |_| job.loaded.packs_hash(&repository.files.keys);
        StoredFiles {
            packs: repository.cache.as_ref().and_then(packs_hash),
            index_files: lists.index_files(job),
        }
    }
}

impl Repository {
    /// Makes a snapshot. When this returns `Ok`, the snapshot is durable: complete, and readable
    /// after any crash.
    ///
    /// Files that can't be read are reported to the monitor, counted, and left out.
    ///
    /// # Errors
    /// [`Error::NothingToBackUp`] if none of the paths could be read; [`Error::BadStreamName`];
    /// [`Error::Pipe`] if the stream failed; [`Error::Interrupted`] if the monitor was cancelled
    /// (chunks stored so far stay, and the next backup uses them); errors of the storage;
    /// [`Error::ChangedBlocks`] if the map of changed blocks can't be used or is found to be wrong. In
    /// each case no snapshot is made, and earlier snapshots are intact.
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
        if options.changed_blocks.is_some() && !options.force {
            image::check_request(options)?;
        }
        let (paths, unresolved) = resolve_all(&options.paths, &self.monitor)?;
        check_paths(&paths)?;
        self.run_backup(read::Input::Paths(paths), unresolved, options)
    }

    /// Makes a snapshot of one file from a stream, such as the output of another program. The paths,
    /// excludes and changed blocks of `options` are not used.
    ///
    /// # Errors
    /// [`Error::BadStreamName`]; [`Error::Pipe`] if the stream failed; else those of
    /// [`backup`](Repository::backup).
    pub fn backup_stream(&self, stream: Stream, options: &BackupOptions) -> Result<BackupSummary> {
        ibid_format::tree::check_name(&stream.name).map_err(|source| Error::BadStreamName {
            name: String::from_utf8_lossy(&stream.name).into_owned(),
            source,
        })?;
        self.run_backup(read::Input::Stream(stream), 0, options)
    }

    fn run_backup(&self, input: read::Input, unresolved: u64, options: &BackupOptions) -> Result<BackupSummary> {
        let filter = Arc::new(Filter::new(&options.excludes)?);
        let again = match &input {
            read::Input::Paths(paths) => Some(paths.clone()),
            // A stream can be read once.
            _ => None,
        };
        let mut input = input;
        loop {
            let filter = filter.clone();
            if let Some(summary) = self.run_session(input, filter, unresolved, options)? {
                return Ok(summary);
            }
            let Some(paths) = &again else {
                return Err(Error::SessionEnded);
            };
            self.monitor.warn(Warning::BackupBeginsAgain);
            input = read::Input::Paths(paths.clone());
        }
    }

    /// Makes a backup in a session of its own. Returns `None` if a pruner has ended the session.
    fn run_session(
        &self,
        input: read::Input,
        filter: Arc<Filter>,
        unresolved: u64,
        options: &BackupOptions,
    ) -> Result<Option<BackupSummary>> {
        if self.files.keys.is_of_writer() && !self.is_write_only() {
            return Err(Error::OfWriter { action: "storing" });
        }
        let options = &*self.options_of_writers(options)?;
        let options = &*self.options_of_archives(options)?;
        let started = clock::instant();
        let paths = recorded_paths(&input);
        let begin = || OpenSession::begin(&self.files, "backup", &options.program, &paths);
        // A pruner may delete what an index lists that was read before.
        let early = (!rules::holds(Rule::SessionFirst))
            .then(|| self.load_own_index(options, &Listed::default()))
            .transpose()?;
        let mut session = (!options.dry_run).then(begin).transpose()?;
        let listed = match Listed::of(&*self.files.storage, &LISTED) {
            Err(error @ Error::KeyGone { .. }) => {
                if let Some(cache) = &self.cache {
                    cache.forget_opened();
                }
                session.map_or(Ok(()), |mut session| session.end(&self.files))?;
                return Err(error);
            }
            listed => listed?,
        };
        let load = || early.map_or_else(|| self.load_own_index(options, &listed), Ok);
        let at_once = self.files.storage.is_remote();
        let origin = || {
            self.keep_config_copy(options, &listed)?;
            self.origin(&input, paths, options, &listed)
        };
        let (loaded, origin) = both(at_once, load, origin);
        let done = loaded.and_then(|loaded| {
            let session = session.as_mut();
            self.back_up(started, input, filter, unresolved, options, loaded, origin?, session)
        });
        if let Some(mut session) = session {
            self.end_own_session(&mut session);
        }
        done
    }

    #[allow(clippy::too_many_arguments, reason = "called once")]
    fn back_up(
        &self,
        started: Instant,
        input: read::Input,
        filter: Arc<Filter>,
        unresolved: u64,
        options: &BackupOptions,
        loaded: LoadedIndex,
        origin: Origin,
        mut session: Option<&mut OpenSession>,
    ) -> Result<Option<BackupSummary>> {
        let parent_is_complete = origin
            .parent
            .as_ref()
            .is_some_and(|parent| self.is_complete(parent.id, &loaded));
        let job = Job::new(self, options, loaded, filter, parent_is_complete, None);
        job.count(|tally| tally.counters.unreadable += unresolved);
        job.report_lost_packs();
        let input = with_map(&job, input, origin.parent.as_ref())?;
        let baseline = origin.baseline(&input, options);
        let resumed_from = baseline.checkpoints.first().map(|info| info.checkpoint.time);
        let checkpoints = origin.of_checkpoints(&input, session.as_deref(), options);
        let built = build::run(&job, input, baseline, checkpoints.clone());
        self.refresh();
        let (built, mut lists) = built?;
        let skipped = match &origin.parent {
            Some(parent) if options.skip_if_unchanged && !options.dry_run => {
                // It finds by them what was stored.
                lists.write(&job)?;
                // A parent that can't be read is no reason to go without a snapshot.
                self.is_unchanged(&parent.snapshot, &built, &origin.paths)
                    .unwrap_or_else(|error| {
                        self.monitor.warn(Warning::Repository { error });
                        false
                    })
            }
            _ => false,
        };
        let counters = job.count(|tally| tally.counters);
        let duration_ms = || clock::since(started).as_millis() as u64;
        if self.monitor.is_cancelled() {
            lists.write(&job)?;
            // A reader that was cancelled fails, so all of the tree is there.
            if let Some(checkpoints) = checkpoints {
                checkpoints.put_complete(self, &built, &counters);
            }
            return Err(Error::Interrupted);
        }
        let done: Vec<FileId> = origin.checkpoints.iter().copied().chain(built.checkpoint).collect();
        let snapshot = origin.into_snapshot(options, built, counters, job.started, duration_ms());
        let is_remote = self.files.storage.is_remote();
        if !is_remote || self.files.archives_data() {
            // On this machine they take no round trip; without them, what is in an archive can't be found.
            lists.write(&job)?;
        }
        // A pruner waits for an open session before it deletes packs that a merged index file may list.
        let ends_at_once = !lists.may_lead_to_merging(&job);
        let put = || match session.as_deref_mut() {
            Some(session) if !skipped => self.put_snapshot(session, &snapshot, ends_at_once, options).map(Some),
            _ => Ok(None),
        };
        let (listed, end) = both(is_remote, || lists.write(&job), put);
        let end = end?;
        match (listed, &end) {
            // The next backup lists what it finds without.
            (Err(error), Some(SessionEnd::Stored(_))) => self.monitor.warn(Warning::Unlisted { error }),
            (listed, _) => listed?,
        }
        let stored = match (end, &session) {
            (Some(SessionEnd::Void), _) => return Ok(None),
            (Some(SessionEnd::Stored(size)), Some(session)) => {
                self.conclude(session.id, &StoredFiles::of(&job, &lists));
                Some((session.id, size))
            }
            _ => None,
        };
        let tally = job.into_tally();
        if session.is_some() {
            self.drop_checkpoints(done);
        }
        self.refresh_cache(tally.counters.new_chunks, options.similarity);
        Ok(Some(BackupSummary {
            id: stored.map(|(id, _)| id),
            skipped,
            parent: snapshot.parent,
            resumed_from: resumed_from.filter(|_| tally.resumed_files > 0),
            written: tally.written + stored.map_or(0, |(_, size)| size),
            duration_ms: duration_ms(),
            ..tally
        }))
    }

    /// Puts the snapshot of a backup, and ends its session if it `ends_at_once`.
    fn put_snapshot(
        &self,
        session: &mut OpenSession,
        snapshot: &Snapshot,
        ends_at_once: bool,
        options: &BackupOptions,
    ) -> Result<SessionEnd> {
        let mut end = session.put(&self.files, snapshot)?;
        if matches!(end, SessionEnd::Void) && !rules::holds(Rule::WalkAgain) {
            *session = OpenSession::begin(&self.files, "backup", &options.program, &snapshot.paths)?;
            end = session.put(&self.files, snapshot)?;
        }
        if ends_at_once {
            self.end_own_session(session);
        }
        Ok(end)
    }

    /// Ends a session, if it has not ended yet.
    fn end_own_session(&self, session: &mut OpenSession) {
        if let Err(error) = session.end(&self.files) {
            // A pruner will find that it has ended.
            self.monitor.warn(Warning::Repository { error });
        }
    }

    /// Does what is due once a snapshot is durable.
    fn conclude(&self, snapshot: FileId, stored: &StoredFiles) {
        if let (Some(cache), Some(packs)) = (&self.cache, stored.packs)
            && let Err(error) = cache.remember_complete(&self.files.keys, Complete { snapshot, packs })
        {
            self.monitor.warn(Warning::Cache { error });
        }
        if let Err(error) = self.merge_index_files(&stored.index_files) {
            // The next backup tries again.
            self.monitor.warn(Warning::Repository { error });
        }
    }

    /// Stores a snapshot that is made from another one, in a session of its own. Returns `None` if a pruner has ended
    /// the session. The summary has no id if this was a dry run, or if the [snapshot](Derived::snapshot) was to lose
    /// files and has lost none. It has the id of another one, and is marked as skipped, if another process has stored
    /// the same.
    pub(crate) fn store_derived(&self, derived: Derived<'_>, options: &BackupOptions) -> Result<Option<BackupSummary>> {
        self.refuse_write_only("storing a changed snapshot")?;
        let started = clock::instant();
        let (program, paths) = (&options.program, &derived.snapshot.paths);
        // Before this, a pruner may delete what the index lists.
        let mut session = match options.dry_run {
            true => None,
            false => Some(OpenSession::begin(&self.files, derived.action, program, paths)?),
        };
        let stored = self.derive(session.as_mut(), derived, options);
        if let Some(mut session) = session {
            self.end_own_session(&mut session);
        }
        let summary = stored?.map(|summary| BackupSummary {
            duration_ms: clock::since(started).as_millis() as u64,
            ..summary
        });
        Ok(summary)
    }

    fn derive(
        &self,
        session: Option<&mut OpenSession>,
        derived: Derived<'_>,
        options: &BackupOptions,
    ) -> Result<Option<BackupSummary>> {
        let Derived {
            source,
            earlier,
            snapshot,
            loses_files,
            seen,
            is_due,
            ..
        } = derived;
        let options = &*self.options_of_archives(options)?;
        let mut source = source;
        if self.files.archives_data() {
            // What is moved as it is may be deltas.
            source.moves = None;
        }
        let listed = Listed::of(&*self.files.storage, &LISTED)?;
        let loaded = self.load_own_index(options, &listed)?;
        self.keep_config_copy(options, &listed)?;
        let is_complete = earlier.is_some_and(|earlier| self.is_complete(earlier, &loaded));
        let filter = Arc::new(Filter::new(&options.excludes)?);
        let job = Job::new(self, options, loaded, filter, is_complete, Some(Source::Copy(source)));
        job.report_lost_packs();
        let built = build::run(&job, read::Input::Copy, Baseline::default(), None);
        self.refresh();
        let (built, mut lists) = built?;
        lists.write(&job)?;
        let stored = StoredFiles::of(&job, &lists);
        let mut tally = job.into_tally();
        let made = match loses_files {
            true => tally.counters,
            false => snapshot.counters,
        };
        let counters = SnapshotTotals {
            new_chunks: tally.counters.new_chunks,
            new_bytes: tally.counters.new_bytes,
            stored_bytes: tally.counters.stored_bytes,
            unreadable: snapshot.counters.unreadable,
            ..made
        };
        tally.skipped = loses_files && built.root == snapshot.root;
        if let Some(earlier) = earlier.filter(|_| loses_files && !tally.skipped)
            && counters.files + counters.directories + counters.others == 0
        {
            let snapshot = earlier.to_string()[..8].to_owned();
            return Err(Error::NothingLeft { snapshot });
        }
        let snapshot = Snapshot {
            root: built.root,
            counters,
            ..snapshot.clone()
        };
        // A cancelled reader may have stopped early, so the tree may be incomplete.
        self.monitor.check_cancelled()?;
        if let Some(session) = session.filter(|_| !tally.skipped) {
            let put = |session: &mut OpenSession| {
                let end = session.put(&self.files, &snapshot)?;
                if let SessionEnd::Stored(_) = end {
                    self.conclude(session.id, &stored);
                }
                Ok(end)
            };
            match self.put_derived(session, &snapshot, seen, is_due, put)? {
                DerivedEnd::Void => return Ok(None),
                DerivedEnd::Stored(id, size) => {
                    tally.id = Some(id);
                    tally.written += size.unwrap_or(0);
                    tally.skipped = size.is_none();
                }
            }
        }
        self.refresh_cache(tally.counters.new_chunks, options.similarity);
        Ok(Some(tally))
    }

    /// Deletes copies of packs that are not in the storage any more. Those that another process has added meanwhile
    /// go, too, and are made again.
    fn retain_copies(&self, loaded: &LoadedIndex) {
        let index = &loaded.index;
        let is_stored = |id| index.find_pack(id).is_some_and(|number| !index.is_missing(number));
        if let Some(copies) = &self.files.copies {
            copies.retain(folder::PACKS, is_stored);
        }
        if let Some(parts) = &self.files.parts {
            parts.retain(is_stored);
        }
    }

    /// Returns whether a snapshot was complete with exactly the packs that there are now.
    fn is_complete(&self, snapshot: FileId, loaded: &LoadedIndex) -> bool {
        let Some(cache) = &self.cache else {
            return false;
        };
        let known = cache.complete(&self.files.keys);
        let found = known.iter().find(|one| one.snapshot == snapshot);
        found.is_some_and(|one| loaded.packs_hash(&self.files.keys) == Some(one.packs))
    }

    /// Adds to the local cache what a backup has stored, if that is much: the next command then opens
    /// the repository quickly.
    fn refresh_cache(&self, new_chunks: u64, similarity: Similarity) {
        if self.cache.is_some() && new_chunks >= CHUNKS_CACHED_AT_ONCE {
            // Loading brings the cache up to date.
            let index = LoadedIndex::load(self, View::Reader).map(drop);
            let sketches = || match similarity {
                Similarity::Off => Ok(()),
                _ => similar::refresh(self),
            };
            if let Err(error) = index.and_then(|()| sketches()) {
                self.monitor.warn(Warning::Cache { error });
            }
        }
    }

    /// Loads an index for this backup alone, because it will contain chunks that are not stored yet
    /// and must not be used by other operations.
    fn load_own_index(&self, options: &BackupOptions, listed: &Listed) -> Result<LoadedIndex> {
        self.refresh();
        let state = PruneState::read_listed(&self.files, listed)?;
        if options.dry_run {
            return LoadedIndex::load_for_writer(self, state, listed.clone());
        }
        let mut first = Some(state.settled(&self.files)?);
        let loaded = LoadedIndex::settled(&self.files, || match first.take() {
            Some(state) => LoadedIndex::load_for_writer(self, state, listed.clone()),
            None => LoadedIndex::load(self, View::Writer),
        })?;
        self.retain_copies(&loaded);
        Ok(loaded)
    }

    /// Makes the copy of the config, if there is none.
    fn keep_config_copy(&self, options: &BackupOptions, listed: &Listed) -> Result<()> {
        // A writer may not store one.
        match options.dry_run || self.is_write_only() {
            true => Ok(()),
            false => crate::repair::keep_copy(&self.files, listed),
        }
    }

    /// Selects the snapshot to compare with, and the place of the new one in their order.
    fn origin(
        &self,
        input: &read::Input,
        paths: Vec<Vec<u8>>,
        options: &BackupOptions,
        listed: &Listed,
    ) -> Result<Origin> {
        let host = options.host.clone().unwrap_or_else(crate::source::host_name);
        if self.is_write_only() {
            return Ok(Origin::of_writer(host, paths, options));
        }
        let warn = |_, error| self.monitor.warn(Warning::Repository { error });
        let mut snapshots = self.snapshots_listed(listed, warn, &mut 0)?;
        let sequence = next_sequence(&snapshots, options.time);
        let later = next_sequence(&snapshots, None);
        let checkpoints = match input {
            read::Input::Paths(_) => self.checkpoints_of(&host, &paths, listed),
            _ => Vec::new(),
        };
        let useful = checkpoint::useful(&checkpoints, &snapshots, clock::now());
        let useful = useful.into_iter().cloned().collect();
        let parent = match (&options.parent, input) {
            (Some(wanted), _) => Some(self.snapshot(wanted)?),
            (None, read::Input::Stream(_)) => None,
            (None, _) => {
                snapshots.retain(|s| s.snapshot.host == host && s.snapshot.paths == paths);
                self.parent_among(snapshots)
            }
        };
        Ok(Origin {
            host,
            paths,
            parent,
            sequence,
            later,
            checkpoints: checkpoints.into_iter().map(|info| info.id).collect(),
            useful,
        })
    }

    /// Returns the options of a backup, without what a writer can't do: it reads neither snapshots nor packs.
    fn options_of_writers<'o>(&self, options: &'o BackupOptions) -> Result<Cow<'o, BackupOptions>> {
        if !self.is_write_only() {
            return Ok(Cow::Borrowed(options));
        }
        let action = match options {
            BackupOptions { parent: Some(_), .. } => Some("comparing with a parent snapshot"),
            BackupOptions {
                changed_blocks: Some(_),
                ..
            } => Some("using a map of changed blocks"),
            BackupOptions {
                skip_if_unchanged: true,
                ..
            } => Some("comparing with the last snapshot"),
            _ => None,
        };
        match action {
            Some(action) => Err(Error::WriteOnly { action }),
            None => Ok(Cow::Owned(BackupOptions {
                similarity: Similarity::Off,
                hints: Hints::Off,
                checkpoints: Checkpoints::Off,
                ..options.clone()
            })),
        }
    }

    /// Returns the options of a backup whose data goes where it can't be read at once. It stores no deltas: what they
    /// would be encoded against can't be read, and a prune could not know it.
    fn options_of_archives<'o>(&self, options: &'o BackupOptions) -> Result<Cow<'o, BackupOptions>> {
        if !self.files.archives_data() {
            return Ok(Cow::Borrowed(options));
        }
        if self.is_write_only() {
            return Err(Error::WriterArchives);
        }
        Ok(Cow::Owned(BackupOptions {
            similarity: Similarity::Off,
            ..options.clone()
        }))
    }

    /// Returns the checkpoints of this host and these paths. A backup goes on without those that can't be read.
    fn checkpoints_of(&self, host: &str, paths: &[Vec<u8>], listed: &Listed) -> Vec<CheckpointInfo> {
        let warn = |error| self.monitor.warn(Warning::Repository { error });
        let checkpoints = self.checkpoints_listed(listed, |_, error| warn(error));
        let mut checkpoints = checkpoints.unwrap_or_else(|error| {
            warn(error);
            Vec::new()
        });
        checkpoints.retain(|info| info.checkpoint.host == host && info.checkpoint.paths == paths);
        checkpoints
    }

    /// Returns the last of these snapshots that is not from the future.
    fn parent_among(&self, mut snapshots: Vec<SnapshotInfo>) -> Option<SnapshotInfo> {
        let now = clock::now().seconds.saturating_add(FUTURE_SECONDS);
        while let Some(info) = snapshots.pop() {
            if info.snapshot.time.seconds <= now {
                return Some(info);
            }
            self.monitor.warn(Warning::FromTheFuture {
                snapshot: info.short_id(),
                time: info.snapshot.time,
            });
        }
        None
    }
}

/// Returns the paths that a snapshot records.
fn recorded_paths(input: &read::Input) -> Vec<Vec<u8>> {
    match input {
        read::Input::Stream(stream) => vec![[b"/", stream.name.as_slice()].concat()],
        read::Input::Paths(paths) => paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect(),
        read::Input::Image(path, _) => vec![path.as_os_str().as_bytes().to_vec()],
        // A copy has those of the other snapshot.
        read::Input::Copy | read::Input::Again => Vec::new(),
    }
}

/// A snapshot to store that is made from another one.
pub(crate) struct Derived<'a> {
    /// What it is made from.
    pub(crate) source: CopySource<'a>,
    /// The snapshot of this repository that the source names as copied earlier.
    pub(crate) earlier: Option<FileId>,
    /// What it is to be, apart from its root and what is counted.
    pub(crate) snapshot: &'a Snapshot,
    /// Whether the excludes of the options apply, and the totals are counted anew.
    pub(crate) loses_files: bool,
    /// What the session says that is done.
    pub(crate) action: &'static str,
    /// The snapshots of this repository, as far as they are known.
    pub(crate) seen: &'a mut Vec<SnapshotInfo>,
    /// Whether it is to be stored, once all of its data is.
    pub(crate) is_due: IsDue<'a>,
}

/// Origin of a backup: the machine, the paths as recorded, and the snapshot to compare with.
struct Origin {
    host: String,
    paths: Vec<Vec<u8>>,
    parent: Option<SnapshotInfo>,
    sequence: u64,
    /// A number above the sequence of every snapshot.
    later: u64,
    /// The checkpoints of this host and these paths.
    checkpoints: Vec<FileId>,
    /// Those of them that files can be taken from, newest first.
    useful: Vec<CheckpointInfo>,
}

impl Origin {
    /// Returns the origin of a writer's backup. It can't read the other snapshots, so its clock decides over their
    /// order: the place is that many milliseconds after the beginning of 1970.
    fn of_writer(host: String, paths: Vec<Vec<u8>>, options: &BackupOptions) -> Origin {
        let time = options.time.unwrap_or_else(clock::now);
        let seconds = u64::try_from(time.seconds).unwrap_or(0);
        let sequence = seconds
            .saturating_mul(1000)
            .saturating_add(u64::from(time.nanos / 1_000_000));
        Origin {
            host,
            paths,
            parent: None,
            sequence,
            later: sequence,
            checkpoints: Vec::new(),
            useful: Vec::new(),
        }
    }

    /// Returns what files are compared with.
    fn baseline(&self, input: &read::Input, options: &BackupOptions) -> Baseline<'_> {
        let resumes = matches!(input, read::Input::Paths(_)) && !options.force;
        Baseline {
            parent: self.parent.as_ref().map(|parent| &parent.snapshot),
            checkpoints: if resumes { &self.useful } else { &[] },
        }
    }

    /// Returns what all checkpoints of this backup say; `None` if it has none.
    fn of_checkpoints(
        &self,
        input: &read::Input,
        session: Option<&OpenSession>,
        options: &BackupOptions,
    ) -> Option<CheckpointOrigin> {
        let has_some = matches!(input, read::Input::Paths(_)) && options.checkpoints != Checkpoints::Off;
        Some(CheckpointOrigin {
            session: session.filter(|_| has_some)?.id,
            sequence: self.later,
            host: self.host.clone(),
            program: options.program.clone(),
            paths: self.paths.clone(),
            earlier: self.useful.clone(),
        })
    }

    fn into_snapshot(
        self,
        options: &BackupOptions,
        built: Built,
        counters: SnapshotTotals,
        reading_began: Time,
        duration_ms: u64,
    ) -> Snapshot {
        let mut tags = options.tags.clone();
        tags.sort_unstable();
        tags.dedup();
        Snapshot {
            time: options.time.unwrap_or(reading_began),
            sequence: self.sequence,
            duration_ms,
            host: self.host,
            user: crate::source::user_name(),
            program: options.program.clone(),
            paths: self.paths,
            tags,
            parent: self.parent.map(|parent| parent.id),
            original: None,
            root: built.root,
            users: built.users,
            groups: built.groups,
            counters,
        }
    }
}

/// Refuses paths that the snapshot could not record, before anything is read.
fn check_paths(paths: &[PathBuf]) -> Result<()> {
    let bytes = paths.iter().map(|path| path.as_os_str().len() as u64).sum();
    match paths.len() > LIST_MAX || bytes > PATHS_BYTES_MAX {
        true => Err(Error::TooManyPaths {
            paths: paths.len(),
            bytes,
        }),
        false => Ok(()),
    }
}

/// Looks up the only path in the parent if a map says what has changed in it.
fn with_map(job: &Job<'_>, input: read::Input, parent: Option<&SnapshotInfo>) -> Result<read::Input> {
    match (input, &job.options.changed_blocks, parent) {
        (read::Input::Paths(mut paths), Some(map), Some(parent)) if !job.options.force => {
            let path = paths.pop().expect("one path, which was checked");
            let image = image::Image::find(job, &path, parent, map)?;
            Ok(read::Input::Image(path, Box::new(image)))
        }
        (input, ..) => Ok(input),
    }
}

/// Returns absolute paths, sorted and without duplicates, and the number of paths not found (each
/// is reported).
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
