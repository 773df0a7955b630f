//! Reading redb's file and the log while another process may write them.
//!
//! A reader sees what a step of a checkpoint synced last, and above it what was synced in the log since. It reads the
//! header of redb's file before and after everything else, and begins anew if what came between may have been more than
//! steps: so what it shows is never of two states. Its lock makes the writer keep the pages that it reads. Without one
//! it looks at the header after each page, and says so if the page may have been changed.

use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ibid_format::record::{CommitLogId, ValuePlace};
use redb::backends::FileBackend;
use redb::{ReadOnlyDatabase, ReadableDatabase, StorageBackend, TableDefinition, TableError};

use super::as_read::{Pages, open_as_read};
use super::commit_log::{CommitLog, GIVE_UP, Position};
use super::header::{Header, Root};
use super::layers::{Layers, Unsorted};
use super::open::{LogState, log_state};
use super::readers::{Lock, Writer};
use super::segments::{self, EARLIER_LOG, Folder, SegmentFiles, SegmentSet};
use super::stored::{EachStored, FoundStored, Stored};
use super::tables::{Base, View, stored_form};
use super::{Definition, ENGINE, failed, own_tables, unless_it_panics};
use crate::engine::{Commit, Direction, Engine, EngineError, KeyRange, Pause, Snapshot, Table, Unused, Work};

/// How often the state is read if a checkpoint comes between each time.
const TRIES: u32 = 400;
/// How often it is read if it cannot be, and nothing has changed: a header may be read while it is written.
const TRIES_UNCHANGED: u32 = 5;
/// How often a reader waits for a lock: until a checkpoint has come, or pages have been moved.
const TRIES_FOR_LOCK: u32 = 200;
/// The longest pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// A file of [`Redb`](super::Redb) that is only read, also while another process has it open for writing.
///
/// Snapshots show everything that was synced when it was opened, or [refreshed](Engine::refresh) last. If no process
/// writes the file, they show what the next one would find. Nothing on disk is changed, and no right to do so is
/// needed.
///
/// A snapshot stays as it is. Its pages stay in the file as long as the process that writes it, or the one that opens
/// it next if nothing was written in between. After that, and if this process may not read the file beside redb's whose
/// name ends with `.readers`, reading from a snapshot may fail with [`EngineError::Outdated`].
pub struct RedbReader {
    path: PathBuf,
    cache_bytes: usize,
    state: Mutex<Arc<State>>,
    /// So that no refresh replaces what a later one has read.
    refreshing: Mutex<()>,
}

/// What snapshots show.
struct State {
    file: Arc<OpenFile>,
    layers: Arc<Layers>,
    /// How far the log is in the layers.
    position: Position,
    /// All that values are in. They can be read even if they are removed.
    segments: Arc<SegmentSet>,
    /// Whether a segment may have been removed before it could be opened, if the file was changed meanwhile.
    may_lack_segments: bool,
}

/// What redb's file had when a step of a checkpoint was synced.
struct OpenFile {
    // Dropped before the database.
    base: Base,
    _database: ReadOnlyDatabase,
    claim: Arc<Claim>,
    /// Why the first read failed, after which redb refuses every other.
    first_failure: OnceLock<EngineError>,
    log: LogState,
}

/// What a reader relies on.
struct Claim {
    file: File,
    transaction: u64,
    root: Root,
    /// [`None`] if there are no locks.
    lock: Option<Lock>,
    /// Whether the writer keeps the pages for this reader.
    is_kept: bool,
    is_outdated: AtomicBool,
}

impl Claim {
    /// Returns an error if what was just read may be of a later transaction.
    fn check(&self) -> io::Result<()> {
        let is_kept = self.is_kept && self.lock.as_ref().is_some_and(Lock::keeps);
        if is_kept || Header::read(&self.file)?.root() == self.root {
            return Ok(());
        }
        self.is_outdated.store(true, Ordering::Relaxed);
        Err(io::Error::other("another process has changed the file"))
    }
}

impl Debug for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "transaction {}", self.transaction)
    }
}

impl Pages for Arc<Claim> {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.file.read_exact_at(out, offset);
        // Before an error is believed, too: the file may have become shorter.
        self.check()?;
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the file ends before a page that it needs",
            )),
            read => read,
        }
    }
}

/// Why a state was not read.
enum Failure {
    /// The file was changed meanwhile.
    Changed,
    /// A lock does not count now, before a checkpoint, or pages are being moved.
    NoLock,
    Error(EngineError),
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        Failure::Error(error)
    }
}

impl RedbReader {
    /// Opens a file that [`Redb::open`](super::Redb::open) made. Caches pages up to `cache_bytes`, for each checkpoint
    /// that a snapshot shows.
    ///
    /// # Errors
    /// [`EngineError::Io`] if it is not there; [`EngineError::NotReadOnly`] if it has to be opened for writing first;
    /// [`EngineError::Damaged`] or [`EngineError::Version`] if it is not as redb writes it, or the log is missing or
    /// damaged; [`EngineError::Outdated`] if it changes all the time.
    ///
    /// ```
    /// use ibid_record::engine::{Commit, Engine, Redb, RedbReader, Table};
    /// # let folder = tempfile::tempdir()?;
    /// let path = folder.path().join("redb");
    /// let writer = Redb::open(&path, 1 << 20)?;
    /// let reader = RedbReader::open(&path, 1 << 20)?;
    /// writer.write(Commit::Synced, &mut |transaction| transaction.put(Table::Meta, b"ibid", b"in the same place"))?;
    /// assert!(reader.refresh()?);
    /// assert!(reader.snapshot()?.contains(Table::Meta, b"ibid")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: &Path, cache_bytes: usize) -> Result<Self, EngineError> {
        let state = read_anew(path, cache_bytes, &SegmentSet::new())?;
        Ok(RedbReader {
            path: path.to_owned(),
            cache_bytes,
            state: Mutex::new(Arc::new(state)),
            refreshing: Mutex::default(),
        })
    }

    fn state(&self) -> Arc<State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the state with what was synced in the log since; [`None`] if it has to be read anew.
    fn read_on(&self, state: &State) -> Option<State> {
        let claim = &state.file.claim;
        let is_same = || {
            let header = Header::read(&claim.file);
            header.is_ok_and(|header| header.transaction() == claim.transaction)
        };
        if claim.is_outdated.load(Ordering::Relaxed) || !is_same() {
            return None;
        }
        let mut next = State {
            file: state.file.clone(),
            layers: state.layers.clone(),
            position: state.position,
            segments: state.segments.clone(),
            may_lack_segments: false,
        };
        let read = next.read_log(&self.path);
        (read.is_ok() && is_same()).then_some(next)
    }

    fn refuse<T>(&self) -> Result<T, EngineError> {
        let path = self.path.clone();
        Err(EngineError::ReadOnly { path })
    }
}

/// Reads the state of the file, until nothing comes between. Some of its segments may be `open` already.
fn read_anew(path: &Path, cache_bytes: usize, open: &SegmentSet) -> Result<State, EngineError> {
    let io = |source| EngineError::io("open", path, source);
    let (mut unchanged, mut waited) = (0, 0);
    for tried in 0..TRIES {
        let file = File::open(path).map_err(io)?;
        let header = match Header::read(&file) {
            Ok(header) => header,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(damaged(path, "it is shorter than its header".to_owned()));
            }
            Err(error) => return Err(io(error)),
        };
        let state = read_state(path, cache_bytes, (file, &header), open, waited < TRIES_FOR_LOCK);
        match state {
            Ok(state) => return Ok(state),
            Err(Failure::Error(error @ EngineError::NotReadOnly { .. })) => return Err(error),
            Err(Failure::Error(error)) => {
                unchanged += 1;
                if unchanged == TRIES_UNCHANGED {
                    return Err(error);
                }
            }
            Err(Failure::NoLock) => waited += 1,
            Err(Failure::Changed) => {}
        }
        std::thread::sleep(PAUSE.min(Duration::from_micros(100) * tried));
    }
    Err(EngineError::Outdated { path: path.to_owned() })
}

/// Reads the state of the file, which has this header.
fn read_state(
    path: &Path,
    cache_bytes: usize,
    (file, header): (File, &Header),
    open: &SegmentSet,
    waits: bool,
) -> Result<State, Failure> {
    let transaction = header.transaction();
    let is_same = |file: &File| Header::read(file).is_ok_and(|header| header.transaction() == transaction);
    let lock = Lock::take(path, transaction);
    if !is_same(&file) {
        return Err(Failure::Changed);
    }
    let is_kept = lock.as_ref().is_some_and(Lock::counts);
    if waits && !is_kept && lock.as_ref().is_some_and(|lock| lock.writer() != Writer::Unknown) {
        return Err(Failure::NoLock);
    }
    if waits && header.needs_repair() {
        // While another process moves pages, the file is as after a crash, and without locks nothing else tells.
        return Err(Failure::NoLock);
    }
    let claim = Arc::new(Claim {
        file,
        transaction,
        root: header.root(),
        lock,
        is_kept,
        is_outdated: AtomicBool::new(false),
    });
    let state = unless_it_panics(path, || State::read(path, cache_bytes, header, claim.clone(), open));
    // With a lock, redb's pages stay as they are, and steps of a checkpoint that came between change nothing else.
    let is_whole = |state: &State| claim.is_kept && !state.may_lack_segments;
    match state {
        Ok(state) if is_whole(&state) || is_same(&claim.file) => Ok(state),
        Err(error) if is_same(&claim.file) => Err(error.into()),
        Ok(_) | Err(_) => Err(Failure::Changed),
    }
}

fn not_read_only(path: &Path, found: &'static str) -> EngineError {
    let path = path.to_owned();
    EngineError::NotReadOnly { path, found }
}

impl State {
    fn read(
        path: &Path,
        cache_bytes: usize,
        header: &Header,
        claim: Arc<Claim>,
        open: &SegmentSet,
    ) -> Result<Self, EngineError> {
        if header.needs_repair() {
            return Err(not_read_only(path, "it was not closed, and has to be repaired"));
        }
        let database = open_as_read(claim.clone(), header.clone(), path, cache_bytes)?;
        let transaction = database.begin_read();
        let transaction = transaction.map_err(|error| failed("open", path, error.into()))?;
        let Some(log) = log_state(&database, path)? else {
            return Err(not_read_only(path, "it is new, or an earlier version wrote it"));
        };
        for table in [Table::Records, Table::Blocks] {
            let earlier: Definition = TableDefinition::new(table.name());
            match transaction.open_table(earlier) {
                Err(TableError::TableDoesNotExist(_)) => {}
                Ok(_) | Err(_) => return Err(not_read_only(path, "an earlier version wrote it")),
            }
        }
        if log.start.segment == EARLIER_LOG {
            return Err(not_read_only(path, "an earlier version wrote it"));
        }
        let (segments, may_lack_segments) = open_segments(path, &log, open)?;
        let position = Position::first(log.start, log.done);
        let mut state = State {
            file: Arc::new(OpenFile {
                base: Base::new(transaction),
                _database: database,
                claim,
                first_failure: OnceLock::new(),
                log,
            }),
            layers: Arc::default(),
            position,
            segments: Arc::new(segments),
            may_lack_segments,
        };
        state.read_log(path)?;
        Ok(state)
    }

    /// Takes over what was synced in the log since. While a checkpoint is made, and after a crash meanwhile, the log
    /// may go on in another segment than the file says.
    fn read_log(&mut self, path: &Path) -> Result<(), EngineError> {
        let mut changes = Unsorted::default();
        let mut has_followed = false;
        loop {
            let number = self.position.segment();
            self.read_segment(number, path, &mut changes)?;
            let (next, file) = match follower(path, number, &self.file.log.id)? {
                Follower::None => break,
                Follower::Empty => {
                    self.may_lack_segments = true;
                    break;
                }
                Follower::Segment(next, file) => (next, file),
            };
            has_followed = true;
            // It has all of its commits, now that the log goes on in another.
            self.read_segment(number, path, &mut changes)?;
            self.position.follow(next);
            Arc::make_mut(&mut self.segments).insert(next, file);
        }
        // Unless its first commit was the next one, others may have been before this segment.
        self.may_lack_segments |= has_followed && !self.position.is_within();
        if let Some(layer) = changes.into_layer() {
            self.layers = Arc::new(self.layers.with(layer));
        }
        Ok(())
    }

    /// Takes over what was synced in one segment of the log since.
    fn read_segment(&mut self, number: u64, path: &Path, changes: &mut Unsorted) -> Result<(), EngineError> {
        let OpenFile { log, claim, .. } = &*self.file;
        let writer = || claim.lock.as_ref().map_or(Writer::Unknown, Lock::writer);
        let Some(file) = self.segments.get(&number) else {
            return Err(damaged(
                path,
                format!("segment {number} of its log is missing. {GIVE_UP}"),
            ));
        };
        let start = self.position.start();
        let mut opened = CommitLog::open(file.clone(), path, start, log.id, log.done)?;
        opened.read_on(
            &mut self.position,
            writer() == Writer::Writing,
            &mut |table, change, offset| {
                let stored = change.value.map(|value| {
                    let place = ValuePlace {
                        segment: number,
                        offset,
                        length: value.len() as u64,
                    };
                    stored_form(table, value, place)
                });
                changes.push(table, change.key, stored.as_deref());
                Ok(())
            },
        )
    }
}

fn damaged(path: &Path, found: String) -> EngineError {
    EngineError::Damaged {
        engine: ENGINE,
        path: path.to_owned(),
        found,
    }
}

/// Opens all segments that values are in, and that of the log, unless they are `open` already. Returns whether one was
/// missing, too.
fn open_segments(path: &Path, log: &LogState, open: &SegmentSet) -> Result<(SegmentSet, bool), EngineError> {
    let files = Folder::beside(path);
    let mut set = SegmentSet::new();
    let number = log.start.segment;
    let used = log.used.range(..number).filter(|&(_, &used)| used > 0);
    let mut is_missing = false;
    for segment in used.map(|(&segment, _)| segment).chain([number]) {
        let file = match open.get(&segment) {
            Some(file) => Some(file.clone()),
            None => open_segment(&files, segment, path)?,
        };
        is_missing |= file.is_none();
        set.extend(file.map(|file| (segment, file)));
    }
    Ok((set, is_missing))
}

/// In which segment the log goes on.
enum Follower {
    /// In none.
    None,
    /// In one that has no commit yet.
    Empty,
    /// In this one, of which this is the file.
    Segment(u64, Arc<dyn StorageBackend>),
}

/// Opens the next segment after `number` if the log goes on in it.
fn follower(path: &Path, number: u64, id: &CommitLogId) -> Result<Follower, EngineError> {
    let files = Folder::beside(path);
    for next in segment_numbers(&files, path)? {
        if next > number
            && let Some(file) = open_segment(&files, next, path)?
        {
            let goes_on = CommitLog::has_commits_in(file.clone(), path, next, id)?;
            return Ok(match goes_on {
                true => Follower::Segment(next, file),
                false => Follower::Empty,
            });
        }
    }
    Ok(Follower::None)
}

fn segment_numbers(files: &Folder, path: &Path) -> Result<Vec<u64>, EngineError> {
    let numbers = files.numbers();
    numbers.map_err(|source| EngineError::io("list the segments of", path, source))
}

/// Opens a segment; [`None`] if it was removed meanwhile.
fn open_segment(files: &Folder, number: u64, path: &Path) -> Result<Option<Arc<dyn StorageBackend>>, EngineError> {
    match files.open_read_only(number) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(EngineError::io("open a segment of", path, source)),
    }
}

impl Engine for RedbReader {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(ReaderSnapshot {
            state: self.state(),
            path: self.path.clone(),
        }))
    }

    fn refresh(&self) -> Result<bool, EngineError> {
        let _refreshing = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.state();
        let next = match self.read_on(&before) {
            Some(next) => next,
            None => read_anew(&self.path, self.cache_bytes, &before.segments)?,
        };
        let is_new = !Arc::ptr_eq(&next.file, &before.file) || next.position.last() != before.position.last();
        if is_new {
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        }
        Ok(is_new)
    }

    fn write(&self, _: Commit, _: Work<'_>) -> Result<(), EngineError> {
        self.refuse()
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.refuse()
    }

    fn reclaim(&self, _: Unused, _: Pause<'_>) -> Result<(), EngineError> {
        self.refuse()
    }

    fn shrink(&self) -> Result<(), EngineError> {
        self.refuse()
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.refuse()
    }

    fn wipe(&self) -> Result<bool, EngineError> {
        self.refuse()
    }

    fn verify(&self) -> Result<(), EngineError> {
        let claim = self.state().file.claim.clone();
        let header = || Header::read(&claim.file).map_err(|source| EngineError::io("read", &self.path, source));
        // A process that writes replaces pages of what redb notes for itself.
        let is_written = |header: &Header| {
            let no_writer = claim.lock.as_ref().is_some_and(|lock| lock.writer() == Writer::Unknown);
            !header.is_closed() && !no_writer
        };
        let before = header()?;
        if is_written(&before) {
            return Ok(());
        }
        let file = claim
            .file
            .try_clone()
            .and_then(|file| FileBackend::new(file).map_err(io::Error::other));
        let file = file.map_err(|source| EngineError::io("read", &self.path, source))?;
        let verified = own_tables::verify(&file);
        let after = header()?;
        match verified {
            Err(fault) if after == before && !is_written(&after) => Err(fault.into_error(&self.path)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

struct ReaderSnapshot {
    state: Arc<State>,
    path: PathBuf,
}

impl Snapshot for ReaderSnapshot {}

impl ReaderSnapshot {
    /// Runs a read. Whatever goes wrong, the reason is that the file was changed if it was.
    fn guarded<T>(&self, read: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
        let file = &self.state.file;
        unless_it_panics(&self.path, read).map_err(|error| match error {
            _ if file.claim.is_outdated.load(Ordering::Relaxed) => EngineError::Outdated {
                path: self.path.clone(),
            },
            EngineError::Stopped { .. } => file.first_failure.get().cloned().unwrap_or(error),
            error => {
                let _ = file.first_failure.set(error.clone());
                error
            }
        })
    }

    fn view(&self) -> View<'_> {
        View {
            base: &self.state.file.base,
            layers: &self.state.layers,
            own: None,
            path: &self.path,
        }
    }
}

impl Stored for ReaderSnapshot {
    fn stored(&self, table: Table, key: &[u8], found: FoundStored<'_>) -> Result<bool, EngineError> {
        self.guarded(|| self.view().stored(table, key, found))
    }

    fn each_stored(
        &self,
        table: Table,
        keys: KeyRange<'_>,
        direction: Direction,
        each: EachStored<'_>,
    ) -> Result<(), EngineError> {
        self.guarded(|| self.view().each_stored(table, keys, direction, each))
    }

    fn show(&self, place: ValuePlace, found: &mut dyn FnMut(&[u8])) -> Result<(), EngineError> {
        segments::show(&self.state.segments, place, &self.path, found)
    }
}
