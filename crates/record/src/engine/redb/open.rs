//! Opening redb's file, its log of commits and the segments; and giving up what the log has lost.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use ibid_format::FileId;
use ibid_format::record::{
    COMMIT_LOG_COMMITS_AT, COMMIT_LOG_ID_BYTES, CommitLogId, LogStart, SegmentEntry, ValuePlace,
};
use redb::backends::FileBackend;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

use super::checkpoint::{Progress, STEP_CHANGES};
use super::commit_log::{CommitLog, Found, GIVE_UP, lost};
use super::file::RedbFile;
use super::journal::{Accounts, Journal};
use super::layers::Unsorted;
use super::readers::Readers;
use super::segments::{EARLIER_LOG, Folder, SegmentFiles, Segments};
use super::tables::stored_form;
use super::{
    CACHE_BYTES_MIN, COMMITS, DONE, Definition, ENGINE, LOG, Redb, SEGMENT_ENTRIES, START, Shared, Shown, failed,
    is_placed, own_tables, unless_it_panics,
};
use crate::engine::{Commit, EngineError, Table, Transaction};

/// Of so many parts of the cache, one is for commits in memory, and the rest for redb's pages.
const MEMORY_PART: usize = 3;
/// But at most so many bytes: with more, only opening after a crash would take longer.
const MEMORY_BYTES_MAX: usize = 24 << 20;
/// Bytes of values of an earlier version that are placed in one commit.
const CONVERTED_BYTES: usize = 8 << 20;

/// The commits that a log had, and has no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostCommits {
    /// None: nothing was given up.
    None,
    /// So many of those that were synced.
    Number(u64),
    /// Those since redb's file was synced last. Nothing says how many: the log is missing, or its header is damaged.
    Unknown,
}

/// What redb knows of the log.
pub(super) struct LogState {
    pub(super) id: CommitLogId,
    /// The last commit of which redb has all. Of later ones it may have a part.
    pub(super) done: u64,
    /// Where the next one is.
    pub(super) start: LogStart,
    /// What is used of the segments.
    pub(super) used: BTreeMap<u64, u64>,
}

impl Redb {
    /// Opens the file, or makes it. The segments of its log are beside it, in a folder of the same name with
    /// `.segments` behind it. Caches pages up to `cache_bytes`.
    ///
    /// # Errors
    /// [`EngineError::InUse`] if it is open already; [`EngineError::Damaged`] or
    /// [`EngineError::Version`] if it is not as redb writes it, or the log is missing or damaged; [`EngineError::Io`].
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, EngineError> {
        let there = path
            .try_exists()
            .map_err(|source| EngineError::io("open", path, source))?;
        if !there {
            make(path)?;
        }
        let readers = Readers::open(path)?;
        let file = open_file(path)?;
        Redb::opened(path, cache_bytes, file, Box::new(Folder::beside(path)), readers)
    }

    /// Opens it on storage of your own, for example of a test that simulates power failures. `path`
    /// is for messages.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(
        file: impl StorageBackend,
        segments: impl SegmentFiles + 'static,
        path: &Path,
        cache_bytes: usize,
    ) -> Result<Self, EngineError> {
        Redb::opened(path, cache_bytes, file, Box::new(segments), None)
    }

    fn opened(
        path: &Path,
        cache_bytes: usize,
        file: impl StorageBackend,
        files: Box<dyn SegmentFiles>,
        readers: Option<Readers>,
    ) -> Result<Self, EngineError> {
        let opened = OpenDatabase::open(path, cache_bytes, file)?;
        if let Some(readers) = &readers {
            unless_it_panics(path, || readers.keep(readers.release(&opened.database)?))?;
        }
        let segments = Segments::new(files, path);
        let state = unless_it_panics(path, || log_state(&opened.database, path))?;
        let is_new = state.is_none();
        let (log, accounts, followers) = match state {
            Some(state) => open_log(&segments, path, state)?,
            None => (
                new_log(&segments, path, new_log_id(), 0)?,
                Accounts::default(),
                Vec::new(),
            ),
        };
        let shared = Shared::of(opened, path, segments, (log, accounts), readers);
        // Before there is an engine: if one is dropped that has not read all of its log, that would be cut off.
        unless_it_panics(path, || match is_new {
            true => shared.adopt_log(),
            false => shared.read_commits(followers, false).map(drop),
        })?;
        let engine = Redb::begin(shared);
        let shared = &engine.shared;
        unless_it_panics(path, || shared.convert())?;
        let bytes = shared.occupied_bytes()?;
        shared.accounts().opened_bytes = bytes;
        if let Some(readers) = &shared.readers {
            readers.begin();
        }
        Ok(engine)
    }

    /// Begins the thread that makes checkpoints. If there can be none, those who commit make them.
    fn begin(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let with_thread = shared.clone();
        let thread = std::thread::Builder::new().name("ibid-checkpoint".to_owned());
        let thread = thread.spawn(move || with_thread.run()).ok();
        shared.has_thread.store(thread.is_some(), Ordering::Relaxed);
        Redb { shared, thread }
    }

    /// Gives up the commits that the log of the engine at `path` has lost, so that it opens again, with what was
    /// committed before them.
    ///
    /// # Errors
    /// As [`open`](Self::open), but not because of the log. Nothing was given up then.
    ///
    /// ```
    /// use ibid_record::engine::{LostCommits, Redb};
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("redb");
    /// drop(Redb::open(&path, 1 << 20)?);
    /// assert_eq!(Redb::give_up_lost_commits(&path)?, LostCommits::None);
    /// std::fs::remove_dir_all(folder.path().join("redb.segments"))?;
    /// assert!(Redb::open(&path, 1 << 20).is_err());
    /// assert_eq!(Redb::give_up_lost_commits(&path)?, LostCommits::Unknown);
    /// Redb::open(&path, 1 << 20)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn give_up_lost_commits(path: &Path) -> Result<LostCommits, EngineError> {
        let readers = match path.exists() {
            true => Readers::open(path)?,
            false => None,
        };
        let opened = OpenDatabase::open(path, CACHE_BYTES_MIN, open_file(path)?)?;
        unless_it_panics(path, || {
            let Some(state) = log_state(&opened.database, path)? else {
                return Ok(LostCommits::None); // it has not begun a log yet
            };
            let segments = Segments::new(Box::new(Folder::beside(path)), path);
            let (id, done, start, used) = (state.id, state.done, state.start.segment, state.used.clone());
            let ((log, accounts, followers), is_readable) = match open_log(&segments, path, state) {
                Ok(opened) => (opened, true),
                Err(EngineError::Damaged { .. }) => {
                    let followers = segments.numbers()?.into_iter().filter(|number| *number > start);
                    let followers = followers.collect();
                    let accounts = Accounts {
                        used,
                        ..Accounts::default()
                    };
                    ((new_log(&segments, path, id, done)?, accounts, followers), false)
                }
                Err(error) => return Err(error),
            };
            let shared = Shared::of(opened, path, segments, (log, accounts), readers);
            let lost = match shared.read_commits(followers, true)?.lost() {
                _ if !is_readable => LostCommits::Unknown,
                0 => LostCommits::None,
                lost => LostCommits::Number(lost),
            };
            let engine = Redb::begin(shared);
            if lost != LostCommits::None {
                // In another segment: what is left of the old one says nothing then.
                engine.shared.checkpoint_and_give_back(true)?;
            }
            Ok(lost)
        })
    }
}

/// redb's file, open.
struct OpenDatabase {
    database: Database,
    cache_bytes: usize,
    file: RedbFile,
}

impl OpenDatabase {
    fn open(path: &Path, cache_bytes: usize, file: impl StorageBackend) -> Result<Self, EngineError> {
        let cache_bytes = cache_bytes.max(CACHE_BYTES_MIN);
        let file = RedbFile::new(file, path);
        let noted = file.for_redb();
        own_tables::verify(&noted).map_err(|fault| fault.into_error(path))?;
        let database = unless_it_panics(path, || {
            let mut builder = Database::builder();
            builder.set_cache_size(cache_bytes - memory_max(cache_bytes));
            let opened = builder.create_with_backend(noted);
            opened.map_err(|error| failed("open", path, error.into()))
        })?;
        Ok(OpenDatabase {
            database,
            cache_bytes,
            file,
        })
    }
}

/// Returns how much of a cache is for commits in memory, bytes.
fn memory_max(cache_bytes: usize) -> usize {
    (cache_bytes / MEMORY_PART).min(MEMORY_BYTES_MAX)
}

impl Shared {
    fn of(
        opened: OpenDatabase,
        path: &Path,
        segments: Segments,
        (log, accounts): (CommitLog, Accounts),
        readers: Option<Readers>,
    ) -> Self {
        Shared {
            database: RwLock::new(Some(opened.database)),
            file: Arc::new(opened.file),
            path: path.to_owned(),
            segments,
            log_id: log.id(),
            storing: Mutex::default(),
            journal: Mutex::new(Journal::new(log)),
            accounts: Mutex::new(accounts),
            shown: Mutex::new(Shown::default()),
            progress: Progress::default(),
            memory_max: memory_max(opened.cache_bytes),
            step_changes: AtomicUsize::new(STEP_CHANGES),
            readers,
            has_thread: AtomicBool::new(false),
        }
    }

    /// Returns the length of the file, bytes; [`None`] if there is none.
    pub(super) fn length(&self) -> Result<Option<u64>, EngineError> {
        Ok(self.metadata()?.map(|found| found.len()))
    }

    /// Returns what the file takes of the disk, bytes; 0 if there is none. redb doubles the file when it needs a page,
    /// and what it has not used of that is a hole.
    pub(super) fn occupied_bytes(&self) -> Result<u64, EngineError> {
        /// What the operating system counts in, whatever the file system's blocks are.
        const BLOCK_BYTES: u64 = 512;
        Ok(self.metadata()?.map_or(0, |found| BLOCK_BYTES * found.blocks()))
    }

    fn metadata(&self) -> Result<Option<fs::Metadata>, EngineError> {
        match fs::metadata(&self.path) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(EngineError::io("look at", &self.path, source)),
        }
    }

    /// Makes all tables, and says what names the log.
    fn adopt_log(&self) -> Result<(), EngineError> {
        let (done, start) = {
            let log = &self.lock_journal().log;
            (log.last(), log.next_start(true))
        };
        self.in_redb(&self.alone(), |transaction| {
            drop(self.tables(transaction)?);
            self.note_done(transaction, done, start)
        })
    }

    /// Reads the commits that only the log has, to be shown above redb's tables. If the process or the machine stopped
    /// while a checkpoint was made, the log may go on in segments that follow it. It is an error if commits are lost,
    /// unless they are given up.
    fn read_commits(&self, followers: Vec<u64>, gives_up: bool) -> Result<Found, EngineError> {
        let journal = &mut *self.lock_journal();
        let accounts = &mut *self.accounts();
        // Of values that were placed before it, the engine may have no place any more.
        let had_commits = journal.log.end() > COMMIT_LOG_COMMITS_AT;
        let mut changes = Unsorted::default();
        let mut followers = VecDeque::from(followers);
        let (mut found, placed) = self.read_segment(&mut journal.log, &mut changes)?;
        (journal.had_values, journal.has_new_values) = (had_commits || placed, placed);
        while found.lost() == 0
            && let Some(&number) = followers.front()
        {
            let next = match self.open_follower(number, &journal.log) {
                Ok(next) => next,
                Err(EngineError::Damaged { .. }) if gives_up => {
                    found.synced += 1; // at least
                    break;
                }
                Err(error) => return Err(journal.log.fail(error)),
            };
            let mut is_followed = false;
            if let Some(mut next) = next {
                let (more, placed) = self.read_segment(&mut next, &mut changes)?;
                is_followed = more.last > found.last;
                if is_followed {
                    journal.continue_in(next, accounts);
                    (journal.had_values, journal.has_new_values) = (placed, placed);
                }
                if is_followed || more.lost() > 0 {
                    found = more;
                }
                if !is_followed && found.lost() > 0 {
                    break;
                }
            }
            if !is_followed {
                // It was made in vain.
                self.segments.remove(number)?;
            }
            followers.pop_front();
        }
        let log = &mut journal.log;
        if found.lost() > 0 && !gives_up {
            let lost = log.damaged(lost(found.last, found.synced));
            return Err(log.fail(lost));
        }
        log.cut_off_rest()?;
        // Of a commit that was not finished, for example on a full disk.
        log.give_back()?;
        // From now on everyone sees these commits, so a loss of power must not take them back.
        log.sync()?;
        // Of those that are given up nothing is needed.
        journal.passed.extend(followers);
        if let Some(layer) = changes.into_layer() {
            let layers = self.layers().with(layer);
            self.shown().show(layers);
        }
        Ok(found)
    }

    /// Reads the commits of one segment of the log. Returns whether they have placed values in it, too.
    fn read_segment(&self, log: &mut CommitLog, changes: &mut Unsorted) -> Result<(Found, bool), EngineError> {
        let segment = log.segment();
        let mut has_placed = false;
        let found = log.repeat(&mut |table, change, offset| {
            let stored = change.value.map(|value| {
                let length = value.len() as u64;
                has_placed |= is_placed(table);
                let place = ValuePlace {
                    segment,
                    offset,
                    length,
                };
                stored_form(table, value, place)
            });
            changes.push(table, change.key, stored.as_deref());
            Ok(())
        })?;
        Ok((found, has_placed))
    }

    /// Opens a segment in which the log may go on; [`None`] if it has no commits, and was not finished.
    fn open_follower(&self, number: u64, log: &CommitLog) -> Result<Option<CommitLog>, EngineError> {
        let Some(file) = self.segments.open(number)? else {
            return Ok(None);
        };
        let opened = CommitLog::follow(file.clone(), &self.path, number, log);
        match opened {
            Err(EngineError::Damaged { .. }) if !CommitLog::has_commits_in(file, &self.path, number, &log.id())? => {
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    /// Places the values of a store of an earlier version, which are in redb's file.
    fn convert(&self) -> Result<(), EngineError> {
        for table in [Table::Records, Table::Blocks] {
            let earlier: Definition = TableDefinition::new(table.name());
            loop {
                let values = match self.begin_read()?.open_table(earlier) {
                    Ok(table) => first_values(&table).map_err(|error| self.failed("open", error.into()))?,
                    Err(redb::TableError::TableDoesNotExist(_)) => break,
                    Err(error) => return Err(self.failed("open", error.into())),
                };
                self.transact(Commit::Unsynced, &mut |transaction| {
                    values
                        .iter()
                        .try_for_each(|(key, value)| transaction.put(table, key, value))
                })?;
                // The log says nothing of this table: a crash before repeats what is above.
                self.checkpoint_and_give_back(false)?;
                self.in_redb(&self.alone(), |transaction| {
                    if values.is_empty() {
                        let deleted = transaction.delete_table(earlier).map(drop);
                        return deleted.map_err(|error| self.failed("open", error.into()));
                    }
                    let table = transaction.open_table(earlier);
                    let mut table = table.map_err(|error| self.failed("open", error.into()))?;
                    for (key, _) in &values {
                        let removed = table.remove(&key[..]).map(drop);
                        removed.map_err(|error| self.failed("open", error.into()))?;
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

type Values = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns the first values of a table, of a few MiB.
fn first_values(table: &impl ReadableTable<&'static [u8], &'static [u8]>) -> Result<Values, redb::StorageError> {
    let (mut values, mut bytes) = (Vec::new(), 0);
    for pair in table.iter()? {
        let (key, value) = pair?;
        bytes += key.value().len() + value.value().len();
        values.push((key.value().to_vec(), value.value().to_vec()));
        if bytes >= CONVERTED_BYTES {
            break;
        }
    }
    Ok(values)
}

/// Opens the log and all segments of an engine, and returns the numbers of those behind the log's, ascending. A segment
/// before the log's that is missing or can't be opened is in the way of its own values only.
fn open_log(segments: &Segments, path: &Path, state: LogState) -> Result<(CommitLog, Accounts, Vec<u64>), EngineError> {
    let number = state.start.segment;
    let (mut lengths, mut followers) = (BTreeMap::new(), Vec::new());
    for segment in segments.numbers()? {
        if segment > number {
            followers.push(segment);
        } else if segment < number && state.used.contains_key(&segment) {
            if state.used.get(&segment) == Some(&0) {
                // One that can't be removed only takes room.
                let _ = segments.remove(segment);
            } else if let Some(file) = segments.open(segment)? {
                let length = file.len();
                lengths.insert(segment, length.map_err(|source| EngineError::io("open", path, source))?);
            }
        }
    }
    let file = segments.open(number)?.ok_or_else(|| EngineError::Damaged {
        engine: ENGINE,
        path: path.to_owned(),
        found: format!("segment {number} of its log is missing. {GIVE_UP}"),
    })?;
    let log = CommitLog::open(file, path, state.start, state.id, state.done)?;
    let removed = state.used.range(..number).filter(|&(_, &used)| used == 0);
    let accounts = Accounts {
        removed: removed.map(|(&segment, _)| segment).collect(),
        used: state.used,
        lengths,
        ..Accounts::default()
    };
    Ok((log, accounts, followers))
}

/// Makes a log, in a segment behind all that are there.
fn new_log(segments: &Segments, path: &Path, id: CommitLogId, done: u64) -> Result<CommitLog, EngineError> {
    let number = segments.next_number()?;
    let file = segments.create(number)?;
    CommitLog::create(file, path, number, id, done)
}

/// Opens redb's file, which has to be there.
fn open_file(path: &Path) -> Result<FileBackend, EngineError> {
    let io = |source| EngineError::io("open", path, source);
    let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
    // redb would begin a new one.
    if file.metadata().map_err(io)?.len() == 0 {
        let (engine, path, found) = (ENGINE, path.to_owned(), "it is empty".to_owned());
        return Err(EngineError::Damaged { engine, path, found });
    }
    FileBackend::new(file).map_err(|error| failed("open", path, error.into()))
}

fn new_log_id() -> CommitLogId {
    let mut id = [0; COMMIT_LOG_ID_BYTES];
    id.copy_from_slice(&FileId::random().0);
    id
}

/// Returns what redb knows of the log; [`None`] if it has none yet.
pub(super) fn log_state(database: &impl ReadableDatabase, path: &Path) -> Result<Option<LogState>, EngineError> {
    let failed = |error: redb::Error| failed("open", path, error);
    let damaged = |found: String| EngineError::Damaged {
        engine: ENGINE,
        path: path.to_owned(),
        found,
    };
    let transaction = database.begin_read().map_err(|error| failed(error.into()))?;
    let commits = match transaction.open_table(COMMITS) {
        Ok(commits) => commits,
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    };
    let read = |key| {
        let value = commits.get(key).map_err(|error| failed(error.into()))?;
        Ok::<_, EngineError>(value.map(|value| value.value().to_vec()))
    };
    let id: Option<CommitLogId> = read(LOG)?.and_then(|id| id.try_into().ok());
    let done = read(DONE)?.and_then(|done| done.try_into().ok());
    let Some((id, done)) = id.zip(done.map(u64::from_be_bytes)) else {
        return Err(damaged("it does not say which log of commits is its own".to_owned()));
    };
    let start = match read(START)? {
        Some(start) => LogStart::decode(&id, &start).map_err(|error| damaged(error.to_string()))?,
        // An earlier version wrote it.
        None => LogStart {
            segment: EARLIER_LOG,
            offset: COMMIT_LOG_COMMITS_AT,
        },
    };
    let mut used = BTreeMap::new();
    match transaction.open_table(SEGMENT_ENTRIES) {
        Ok(entries) => {
            for pair in entries.iter().map_err(|error| failed(error.into()))? {
                let (number, entry) = pair.map_err(|error| failed(error.into()))?;
                let number = number.value().try_into().map_or(u64::MAX, u64::from_be_bytes);
                let entry = SegmentEntry::decode(&id, number, entry.value());
                used.insert(number, entry.map_err(|error| damaged(error.to_string()))?.used);
            }
        }
        Err(redb::TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(failed(error.into())),
    }
    Ok(Some(LogState { id, done, start, used }))
}

/// Makes an empty database under another name, and gives it its own once it is whole. So a process
/// that is killed meanwhile leaves no file that does not open, and a file without content is
/// damage.
fn make(path: &Path) -> Result<(), EngineError> {
    let create = |path: &Path| {
        unless_it_panics(path, || {
            let database = Database::builder().create(path);
            database.map(drop).map_err(|error| failed("create", path, error.into()))
        })
    };
    let new = path.with_extension(format!("new.{}", FileId::random()));
    let made = create(&new).and_then(|()| match fs::hard_link(&new, path) {
        Ok(()) => Ok(()),
        // Another process was faster.
        Err(_) if path.exists() => Ok(()),
        // The file system has no links, and a rename could replace what another process has open.
        Err(_) => create(path),
    });
    // The next process that opens the store removes a file that stays.
    let _ = fs::remove_file(&new);
    made
}
