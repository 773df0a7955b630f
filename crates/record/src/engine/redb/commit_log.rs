//! The log of commits beside redb's file (`docs/format/records.md`, "Log of commits").
//!
//! A commit is on disk as soon as the log is synced: one write at the end of a file that is there already, instead of
//! all pages on the way to what changed. Large values are written here only: redb has their places.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ibid_format::record::{
    COMMIT_CHECK_BYTES, COMMIT_HEAD_BYTES, COMMIT_LOG_COMMITS_AT, COMMIT_LOG_HEADER_BYTES, COMMIT_LOG_NOTE_AT,
    COMMIT_LOG_NOTE_BYTES, CheckHash, CommitChange, CommitHasher, CommitHead, CommitLogId, LogStart, commit_log_header,
    commit_log_id, commit_log_note, synced_by_note,
};
use redb::StorageBackend;

use crate::engine::{EngineError, Table};

/// The log is long once the commits since the last checkpoint began take so many bytes, unless [`CommitLog::set_long`]
/// was called.
const LONG_BYTES: u64 = 16 << 20;
/// The log is long once those commits have so many changes. Whoever opens the store sorts twice as many at most, within
/// 100 ms.
pub(super) const LONG_CHANGES: u64 = 100_000;
/// By how much the file grows, bytes.
const GROWTH: u64 = 1 << 20;
/// How often a note is read that is not whole.
const NOTE_TRIES: u32 = 100;
/// Changes are collected up to this length before they are written, bytes.
const BUFFER: usize = 64 << 10;
/// Bytes that are read at once.
const READ_AHEAD: u64 = 1 << 20;
const HEAD: u64 = COMMIT_HEAD_BYTES as u64;
const CHECK: u64 = COMMIT_CHECK_BYTES as u64;

/// What to do if a log is damaged or missing.
pub(super) const GIVE_UP: &str = "`ibid records repair` gives up what only this part of the log had";

/// The log, open for writing in one of its segments.
pub(super) struct CommitLog {
    file: Arc<dyn StorageBackend>,
    path: PathBuf,
    id: CommitLogId,
    /// What checksums of commits are made by in the segment.
    hash: CheckHash,
    /// The number of the segment.
    segment: u64,
    /// Length of the file, bytes.
    length: u64,
    /// Where the first commit begins that came after the last checkpoint began.
    begin: u64,
    /// Where the next commit goes.
    end: u64,
    /// The last commit.
    last: u64,
    /// The last commit that is synced.
    synced: u64,
    /// The changes since then.
    changes: u64,
    /// Whether there are commits behind its end.
    stale: bool,
    /// From how many bytes of commits on it is long.
    long_bytes: u64,
    /// What the next commit collects its changes in.
    buffer: Vec<u8>,
    /// Why a sync failed. What is on disk is uncertain then, so nothing more is written.
    failure: Option<EngineError>,
}

/// Is called with each change of a commit, and the place of its value in the segment.
pub(super) type EachChange<'a> = &'a mut dyn FnMut(Table, &CommitChange<'_>, u64) -> Result<(), EngineError>;

/// How far a log has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// In which segment.
    segment: u64,
    /// Where the next commit begins.
    at: u64,
    /// The commit before it; [`None`] if none was read yet.
    before: Option<u64>,
    /// The last commit that was read, or that the engine has.
    last: u64,
}

impl Position {
    /// Returns where to begin if an engine has all commits up to `done`.
    pub(super) fn first(start: LogStart, done: u64) -> Self {
        Position {
            segment: start.segment,
            at: start.offset,
            before: None,
            last: done,
        }
    }

    /// Where the next commit begins, if the log does not go on in another segment.
    pub(super) fn start(&self) -> LogStart {
        LogStart {
            segment: self.segment,
            offset: self.at,
        }
    }

    /// The segment in which the next commit is, if the log does not go on in another.
    pub(super) fn segment(&self) -> u64 {
        self.segment
    }

    /// The last commit that was read.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Whether a commit of the segment was read.
    pub(super) fn is_within(&self) -> bool {
        self.before.is_some()
    }

    /// Goes on at the beginning of another segment.
    pub(super) fn follow(&mut self, segment: u64) {
        *self = Position::first(first_start(segment), self.last);
    }
}

/// What is in the log.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// The last commit of those that are whole and in order.
    pub(super) last: u64,
    /// The last commit that is known to have been synced.
    pub(super) synced: u64,
}

impl Found {
    /// Returns how many commits were synced, and are damaged or missing.
    pub(super) fn lost(&self) -> u64 {
        self.synced.saturating_sub(self.last)
    }
}

/// Returns what is wrong with a log whose last commit is `last`, and that has had commits up to `synced`.
pub(super) fn lost(last: u64, synced: u64) -> String {
    format!(
        "commits {} to {synced} were synced, and are damaged or missing",
        last + 1
    )
}

impl CommitLog {
    /// Makes an empty segment for the log of an engine that has all commits up to `done`.
    pub(super) fn create(
        file: Arc<dyn StorageBackend>,
        path: &Path,
        segment: u64,
        id: CommitLogId,
        done: u64,
    ) -> Result<Self, EngineError> {
        let mut log = CommitLog::new(file, path, first_start(segment), id, done);
        log.check_io("write to", |log| {
            log.file.set_len(0)?;
            log.file.set_len(COMMIT_LOG_COMMITS_AT)?;
            log.file.write(0, &commit_log_header(&id, log.hash))?;
            log.file.sync_data()
        })?;
        log.length = COMMIT_LOG_COMMITS_AT;
        Ok(log)
    }

    /// Opens the log of an engine that has all commits up to `done`, which end at `start`. [`repeat`](Self::repeat) or
    /// [`read_on`](Self::read_on) has to come next.
    pub(super) fn open(
        file: Arc<dyn StorageBackend>,
        path: &Path,
        start: LogStart,
        id: CommitLogId,
        done: u64,
    ) -> Result<Self, EngineError> {
        let mut log = CommitLog::new(file, path, start, id, done);
        log.length = log.check_io("read", |log| log.file.len())?;
        if log.length < start.offset {
            return Err(log.damaged(format!(
                "at least {} bytes expected, found {}",
                start.offset, log.length
            )));
        }
        let mut header = [0; COMMIT_LOG_HEADER_BYTES];
        log.read(0, &mut header)?;
        let (found, hash) = commit_log_id(&header).map_err(|error| match error {
            // It is whole, and not to be given up.
            ibid_format::Error::OutOfRange { .. } => EngineError::Version {
                engine: super::ENGINE,
                path: log.path.clone(),
                found: log.in_segment(&error.to_string()),
            },
            error => log.damaged(error.to_string()),
        })?;
        log.hash = hash;
        if found != id {
            return Err(log.damaged("it belongs to another store".to_owned()));
        }
        Ok(log)
    }

    /// Opens a segment in which a log may go on. [`repeat`](Self::repeat) has to come next.
    pub(super) fn follow(
        file: Arc<dyn StorageBackend>,
        path: &Path,
        segment: u64,
        before: &CommitLog,
    ) -> Result<Self, EngineError> {
        CommitLog::open(file, path, first_start(segment), before.id, before.last)
    }

    fn new(file: Arc<dyn StorageBackend>, path: &Path, start: LogStart, id: CommitLogId, done: u64) -> Self {
        CommitLog {
            file,
            path: path.to_owned(),
            id,
            hash: CheckHash::Xxh3,
            segment: start.segment,
            length: 0,
            begin: start.offset,
            end: start.offset,
            last: done,
            synced: done,
            changes: 0,
            stale: false,
            long_bytes: LONG_BYTES,
            buffer: Vec::new(),
            failure: None,
        }
    }

    /// Shows the changes of all commits that the engine does not have, each with the place of its value in the file,
    /// and returns what there is. The next commit follows the last of them.
    pub(super) fn repeat(&mut self, each: EachChange<'_>) -> Result<Found, EngineError> {
        let done = self.last;
        let noted = self.noted()?;
        let (mut at, mut before, mut repeated) = (self.begin, None, 0);
        let mut window = Window::default();
        while let Some((head, changes)) = self.commit(&mut window, at)? {
            // The first may be one that the engine has, if the log was to begin anew.
            if before.map_or(head.number > done + 1, |before| head.number != before + 1) {
                break;
            }
            if head.number > done {
                self.show(&head, changes, at, &mut |table, change, offset| {
                    repeated += 1;
                    each(table, change, offset)
                })?;
            }
            before = Some(head.number);
            at += HEAD + head.length + CHECK;
        }
        let last = before.map_or(done, |before| done.max(before));
        let rest = self.rest(at)?;
        let synced = done.max(noted).max(rest.synced);
        if repeated > 0 {
            // What was found is perhaps not on disk, if only the process was stopped.
            (self.end, self.last, self.synced, self.changes) = (at, last, synced.min(last), repeated);
        }
        self.stale = rest.last > last;
        Ok(Found { last, synced })
    }

    /// Shows the changes of the commits behind `from`, as [`repeat`](Self::repeat) does, while another process may
    /// write more of them. If one `is_written`, only those up to the last that was synced.
    pub(super) fn read_on(
        &mut self,
        from: &mut Position,
        is_written: bool,
        each: EachChange<'_>,
    ) -> Result<(), EngineError> {
        // Before the commits: those up to it have been written.
        let synced = if is_written { self.synced_now()? } else { None };
        let mut known = None;
        loop {
            self.length = self.check_io("read", |log| log.file.len())?;
            let read = self.read_whole(from, synced.unwrap_or(u64::MAX), each);
            let stated = read.and_then(|()| match synced {
                Some(synced) => Ok(synced),
                None => Ok(self.rest(from.at)?.synced.max(self.noted()?)),
            });
            // What is not used at the end of a segment may be cut off meanwhile.
            if stated.is_err() && self.file.len().is_ok_and(|length| length < self.length) {
                continue;
            }
            let stated = stated?;
            if from.last >= stated {
                return Ok(());
            }
            if synced.is_some() || known == Some(*from) {
                return Err(self.damaged(lost(from.last, stated)));
            }
            // It may have become whole after it was looked at, and those behind it after that.
            known = Some(*from);
        }
    }

    /// Shows the changes of the whole commits behind `from`, up to the one of this number.
    fn read_whole(&self, from: &mut Position, last: u64, each: EachChange<'_>) -> Result<(), EngineError> {
        let mut window = Window::default();
        while from.last < last
            && let Some((head, changes)) = self.commit(&mut window, from.at)?
            && from
                .before
                .map_or(head.number <= from.last + 1, |before| head.number == before + 1)
        {
            if head.number > from.last {
                self.show(&head, changes, from.at, each)?;
                from.last = head.number;
            }
            from.before = Some(head.number);
            from.at += HEAD + head.length + CHECK;
        }
        Ok(())
    }

    /// Shows the changes of the commit at a place.
    fn show(&self, head: &CommitHead, changes: &[u8], at: u64, each: EachChange<'_>) -> Result<(), EngineError> {
        CommitChange::decode_all(changes, |change| {
            let table =
                Table::of_number(change.table).ok_or_else(|| Problem::Found(format!("no table {}", change.table)))?;
            let within = change
                .value
                .map_or(0, |value| value.as_ptr().addr() - changes.as_ptr().addr());
            each(table, &change, at + HEAD + within as u64).map_err(Problem::Engine)
        })
        .map_err(|problem| match problem {
            Problem::Found(found) => self.damaged(format!("commit {}: {found}", head.number)),
            Problem::Engine(error) => error,
        })
    }

    fn note(&self) -> Result<[u8; COMMIT_LOG_NOTE_BYTES], EngineError> {
        let mut note = [0; COMMIT_LOG_NOTE_BYTES];
        self.read(COMMIT_LOG_NOTE_AT, &mut note)?;
        Ok(note)
    }

    /// Returns the last commit in the segment that was synced, as far as the note says so; 0 if it does not.
    fn noted(&self) -> Result<u64, EngineError> {
        Ok(synced_by_note(&self.id, &self.note()?).unwrap_or(0))
    }

    /// Returns the last commit in the segment that was synced, 0 if none was; [`None`] if the note is damaged.
    fn synced_now(&self) -> Result<Option<u64>, EngineError> {
        for _ in 0..NOTE_TRIES {
            let note = self.note()?;
            if note == [0; COMMIT_LOG_NOTE_BYTES] {
                return Ok(Some(0));
            }
            if let Some(synced) = synced_by_note(&self.id, &note) {
                return Ok(Some(synced));
            }
            // It may be being written.
            std::thread::yield_now();
        }
        Ok(None)
    }

    /// Cuts off commits of which an earlier one did not reach the disk. Otherwise one of them could come after a new
    /// commit some day, as if it had followed that.
    pub(super) fn cut_off_rest(&mut self) -> Result<(), EngineError> {
        if !std::mem::take(&mut self.stale) {
            return Ok(());
        }
        self.check_io("shorten", |log| {
            log.file.set_len(log.end)?;
            log.file.sync_data()
        })?;
        self.length = self.end;
        Ok(())
    }

    /// Returns whether a segment has a commit of this log, perhaps behind damage.
    pub(super) fn has_commits_in(
        file: Arc<dyn StorageBackend>,
        path: &Path,
        segment: u64,
        id: &CommitLogId,
    ) -> Result<bool, EngineError> {
        let mut head = [0; COMMIT_HEAD_BYTES];
        let read = file.read(COMMIT_LOG_COMMITS_AT, &mut head);
        if read.is_ok() && CommitHead::decode(id, &head).is_ok() {
            return Ok(true);
        }
        let mut log = CommitLog::new(file, path, first_start(segment), *id, 0);
        log.length = log.check_io("read", |log| log.file.len())?;
        Ok(log.rest(0)?.last > 0)
    }

    /// What names the log.
    pub(super) fn id(&self) -> CommitLogId {
        self.id
    }

    /// The last commit.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The number of the segment that it is in.
    pub(super) fn segment(&self) -> u64 {
        self.segment
    }

    /// Length of what is written in the segment, bytes.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether there are commits since the last checkpoint began.
    pub(super) fn has_commits(&self) -> bool {
        self.end > self.begin
    }

    /// Sets from how many bytes of commits on it is long.
    pub(super) fn set_long(&mut self, bytes: u64) {
        self.long_bytes = bytes;
    }

    /// Returns how long it is, in parts of the length at which it is long.
    pub(super) fn part_of_long(&self) -> f64 {
        let bytes = (self.end - self.begin) as f64 / self.long_bytes.max(1) as f64;
        bytes.max(self.changes as f64 / LONG_CHANGES as f64)
    }

    /// Returns why nothing more may be written, if so.
    pub(super) fn check_usable(&self) -> Result<(), EngineError> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Begins the next commit, which replaces one that was not finished.
    pub(super) fn begin(&mut self) -> Result<Recording<'_>, EngineError> {
        self.check_usable()?;
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        Ok(Recording {
            at: self.end + HEAD,
            buffer,
            hasher: CommitHasher::new(self.hash),
            changes: 0,
            log: self,
        })
    }

    /// Makes all commits survive a crash.
    pub(super) fn sync(&mut self) -> Result<(), EngineError> {
        self.check_usable()?;
        if self.synced == self.last {
            return Ok(());
        }
        if let Err(failure) = self.check_io("sync", |log| log.file.sync_data()) {
            return Err(self.fail(failure));
        }
        self.synced = self.last;
        let note = commit_log_note(&self.id, self.synced);
        // It only helps to notice damage.
        let _ = self.file.write(COMMIT_LOG_NOTE_AT, &note);
        Ok(())
    }

    /// Writes nothing more, since redb does not have what is in the log. Returns the reason.
    pub(super) fn fail(&mut self, failure: EngineError) -> EngineError {
        self.failure.insert(failure).clone()
    }

    /// Returns where the next commit will be once redb has all: behind the others, or where the first one was if it
    /// `begins_anew`.
    pub(super) fn next_start(&self, begins_anew: bool) -> LogStart {
        LogStart {
            segment: self.segment,
            offset: if begins_anew { COMMIT_LOG_COMMITS_AT } else { self.end },
        }
    }

    /// Notes that a checkpoint begins: from now on the commits after it count.
    pub(super) fn begin_checkpoint(&mut self) {
        (self.begin, self.changes) = (self.end, 0);
    }

    /// Continues at `start`, in this segment, since redb has all commits.
    pub(super) fn continue_at(&mut self, start: LogStart) {
        debug_assert_eq!(start.segment, self.segment);
        (self.begin, self.end, self.changes) = (start.offset, start.offset, 0);
        self.synced = self.last;
    }

    /// Gives the disk back what is not used at the end of the file.
    pub(super) fn give_back(&mut self) -> Result<(), EngineError> {
        if self.length > self.end {
            self.check_io("shorten", |log| log.file.set_len(log.end))?;
            self.length = self.end;
        }
        Ok(())
    }

    /// Continues in an empty segment, which goes on from this one.
    pub(super) fn continue_in(&mut self, next: CommitLog) {
        let (long_bytes, buffer) = (self.long_bytes, std::mem::take(&mut self.buffer));
        *self = CommitLog {
            long_bytes,
            buffer,
            ..next
        };
    }

    /// Returns the head and the changes of the commit at a place; [`None`] if there is no whole one.
    fn commit<'w>(&self, window: &'w mut Window, at: u64) -> Result<Option<(CommitHead, &'w [u8])>, EngineError> {
        if at + HEAD + CHECK > self.length {
            return Ok(None);
        }
        let left = self.length - at - HEAD - CHECK;
        let encoded = *window
            .get(self, at, HEAD)?
            .first_chunk()
            .expect("the window has a head");
        let Some(head) = CommitHead::decode(&self.id, &encoded)
            .ok()
            .filter(|head| head.length <= left)
        else {
            return Ok(None);
        };
        let commit = window.get(self, at, HEAD + head.length + CHECK)?;
        let (changes, check) = commit[COMMIT_HEAD_BYTES..].split_at(head.length as usize);
        let mut hasher = CommitHasher::new(self.hash);
        hasher.update(changes);
        Ok((hasher.finish(&encoded) == check).then_some((head, changes)))
    }

    /// Returns what the heads behind `from` say.
    fn rest(&self, from: u64) -> Result<Rest, EngineError> {
        let (mut rest, mut at) = (Rest::default(), from);
        let mut buffer = vec![0; BUFFER];
        while at + HEAD <= self.length {
            let part = &mut buffer[..(self.length - at).min(BUFFER as u64) as usize];
            self.read(at, part)?;
            let mut place = 0;
            while let Some((found, head)) = CommitHead::find(&self.id, part, place) {
                rest.synced = rest.synced.max(head.synced);
                rest.last = rest.last.max(head.number);
                place = found + 1;
            }
            // A head may begin in one part and end in the next.
            at += (part.len() as u64 + 1).saturating_sub(HEAD).max(1);
        }
        Ok(rest)
    }

    /// Writes where the file may have to grow.
    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), EngineError> {
        let end = at + bytes.len() as u64;
        if end > self.length {
            let length = end.next_multiple_of(GROWTH);
            self.check_io("extend", |log| log.file.set_len(length))?;
            self.length = length;
        }
        self.check_io("write to", |log| log.file.write(at, bytes))
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), EngineError> {
        self.check_io("read", |log| log.file.read(at, out))
    }

    fn check_io<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Self) -> std::io::Result<T>,
    ) -> Result<T, EngineError> {
        work(self).map_err(|source| EngineError::io(operation, &self.path, source))
    }

    pub(super) fn damaged(&self, found: String) -> EngineError {
        EngineError::Damaged {
            engine: super::ENGINE,
            path: self.path.clone(),
            found: format!("{}. {GIVE_UP}", self.in_segment(&found)),
        }
    }

    fn in_segment(&self, found: &str) -> String {
        format!("segment {} of its log: {found}", self.segment)
    }
}

/// Returns where the first commit of a segment is.
fn first_start(segment: u64) -> LogStart {
    LogStart {
        segment,
        offset: COMMIT_LOG_COMMITS_AT,
    }
}

/// What the heads behind the last whole commit say.
#[derive(Default)]
struct Rest {
    /// The last commit that was synced; 0 if there are none.
    synced: u64,
    /// The last commit; 0 if there are none.
    last: u64,
}

/// A part of the log in memory.
#[derive(Default)]
struct Window {
    from: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns bytes of the log, of which there must be so many.
    fn get(&mut self, log: &CommitLog, at: u64, length: u64) -> Result<&[u8], EngineError> {
        if at < self.from || at + length > self.from + self.bytes.len() as u64 {
            let length = length.max(READ_AHEAD).min(log.length - at);
            self.bytes.resize(length as usize, 0);
            self.from = at;
            log.read(at, &mut self.bytes)?;
        }
        Ok(&self.bytes[(at - self.from) as usize..][..length as usize])
    }
}

/// Why a commit can't be repeated.
enum Problem {
    Found(String),
    Engine(EngineError),
}

impl From<ibid_format::Error> for Problem {
    fn from(error: ibid_format::Error) -> Self {
        Problem::Found(error.to_string())
    }
}

/// A commit that is being written. Until it is finished it is not in the log.
pub(super) struct Recording<'l> {
    log: &'l mut CommitLog,
    /// Where the buffer goes.
    at: u64,
    buffer: Vec<u8>,
    hasher: CommitHasher,
    changes: u64,
}

impl Recording<'_> {
    /// The number of the segment that it is written into.
    pub(super) fn segment(&self) -> u64 {
        self.log.segment
    }

    /// Shows a value of this commit, which is not in the file yet, or not for readers; [`None`] if this commit does not
    /// have it.
    pub(super) fn show(
        &self,
        offset: u64,
        length: u64,
        found: &mut dyn FnMut(&[u8]),
    ) -> Option<Result<(), EngineError>> {
        if offset < self.log.end {
            return None;
        }
        if let Some(at) = offset.checked_sub(self.at) {
            found(&self.buffer[at as usize..][..length as usize]);
            return Some(Ok(()));
        }
        // Of a value that was given in parts, the last may still be in the buffer.
        let written = length.min(self.at - offset);
        let mut value = vec![0; written as usize];
        let read = self.log.read(offset, &mut value);
        value.extend_from_slice(&self.buffer[..(length - written) as usize]);
        Some(read.map(|()| found(&value)))
    }

    /// Adds a change. Returns where its value is in the segment.
    pub(super) fn add(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<u64, EngineError> {
        let change = CommitChange {
            table: table.number(),
            key,
            value,
        };
        change.encode_before_value(&mut self.buffer);
        self.changes += 1;
        let at = self.at + self.buffer.len() as u64;
        self.add_bytes(value.unwrap_or_default())?;
        Ok(at)
    }

    /// Adds the change of a value that is given in parts. Returns where the value is in the segment.
    pub(super) fn add_parts(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<u64, EngineError> {
        let length = parts.iter().map(|part| part.len()).sum();
        CommitChange::encode_before_value_of(table.number(), key, length, &mut self.buffer);
        self.changes += 1;
        let at = self.at + self.buffer.len() as u64;
        parts.iter().try_for_each(|part| self.add_bytes(part))?;
        Ok(at)
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        if bytes.len() < BUFFER {
            self.buffer.extend_from_slice(bytes);
        } else {
            self.write_buffer()?;
            self.write(bytes)?;
        }
        if self.buffer.len() >= BUFFER {
            self.write_buffer()?;
        }
        Ok(())
    }

    fn write_buffer(&mut self) -> Result<(), EngineError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let written = self.write(&buffer);
        buffer.clear();
        self.buffer = buffer;
        written
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        self.hasher.update(bytes);
        self.log.write(self.at, bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Completes the commit. Without changes there is none.
    pub(super) fn finish(mut self) -> Result<(), EngineError> {
        if self.changes == 0 {
            return Ok(());
        }
        self.hasher.update(&self.buffer);
        let log = &mut *self.log;
        let end = self.at + self.buffer.len() as u64;
        let head = CommitHead {
            length: end - log.end - HEAD,
            number: log.last + 1,
            synced: log.synced,
        };
        let encoded = head.encode(&log.id);
        let check = self.hasher.finish(&encoded);
        if self.at == log.end + HEAD {
            // All of it is in the buffer: one write.
            self.buffer.splice(..0, encoded);
            self.buffer.extend_from_slice(&check);
            log.write(log.end, &self.buffer)?;
        } else {
            self.buffer.extend_from_slice(&check);
            log.write(self.at, &self.buffer)?;
            log.write(log.end, &encoded)?;
        }
        log.end = end + CHECK;
        log.last = head.number;
        log.changes += self.changes;
        log.buffer = self.buffer;
        Ok(())
    }
}
