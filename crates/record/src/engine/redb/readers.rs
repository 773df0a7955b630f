//! What the process that writes keeps for processes that read (`docs/format/records.md`, "Readers in other processes").
//!
//! Each reader has a lock on the number of the transaction whose pages it reads, which ends with its process. The
//! writer makes redb keep the pages of the transaction that the last checkpoint synced, and of all before it that have
//! locks. Before the next checkpoint it says in a note that new locks on the last one do not count any more, and then
//! looks for locks. A reader takes its lock, and then looks at the note. So one of them sees what the other did.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ibid_format::record::{READERS_NOTE_BYTES, ReadersNote};
use redb::backends::FileBackend;
use redb::{Database, ReadTransaction, ReadableDatabase, StorageBackend};

use super::header::Header;
use super::{beside, failed};
use crate::engine::EngineError;

/// What is behind the name of redb's file.
const ENDING: &str = ".readers";
/// The byte that the writer locks.
const WRITER: u64 = 1024;
/// The byte of transaction 0.
const TRANSACTIONS: u64 = 2048;
/// How often a note is read that is not whole, because it is being written.
const TRIES: u32 = 100;

fn byte(at: u64) -> (Bound<u64>, Bound<u64>) {
    (Bound::Included(at), Bound::Included(at))
}

/// Returns the byte of a transaction.
fn byte_of(transaction: u64) -> (Bound<u64>, Bound<u64>) {
    byte(TRANSACTIONS.saturating_add(transaction))
}

/// A file with locks, which end with it.
///
/// To close the file would not be enough: a process that is being begun at that moment has it too, until it becomes
/// another program.
struct Locks(FileBackend);

impl Locks {
    fn of(file: File) -> io::Result<Self> {
        FileBackend::new(file).map(Locks).map_err(io::Error::other)
    }

    /// Returns the note; that nothing is kept if it is missing or damaged.
    fn note(&self) -> ReadersNote {
        for _ in 0..TRIES {
            let mut bytes = [0; READERS_NOTE_BYTES];
            if self.0.read(0, &mut bytes).is_ok()
                && let Ok(note) = ReadersNote::decode(&bytes)
            {
                return note;
            }
            std::thread::yield_now();
        }
        ReadersNote::CLOSED
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        // Those that can't be given back end when the file is closed.
        let _ = self.0.close();
    }
}

/// The file with the locks of readers, in the process that writes.
pub(super) struct Readers {
    locks: Locks,
    /// redb's file.
    file: File,
    path: PathBuf,
    kept: Mutex<Kept>,
}

/// Transactions whose pages redb keeps.
struct Kept {
    /// What keeps them, by their numbers: checkpoints have synced them.
    pages: BTreeMap<u64, ReadTransaction>,
    /// The last one that a checkpoint has synced.
    last: u64,
    note: ReadersNote,
}

impl Readers {
    /// Says that redb's file at `path` is being opened for writing; [`None`] if the file system has no locks, or no
    /// room for the file. Then nothing is kept for readers.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, EngineError> {
        let place = beside(path, ENDING);
        let io = |source| EngineError::io("open", &place, source);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).truncate(false).open(&place);
        let locks = match opened {
            Ok(file) => Locks::of(file).map_err(io)?,
            // Without the file no reader relies on anything.
            Err(_) if !place.exists() => return Ok(None),
            Err(source) => return Err(io(source)),
        };
        let (start, end) = byte(WRITER);
        match locks.0.try_lock_range(start, end) {
            Ok(true) => {}
            Ok(false) => return Err(EngineError::InUse { path: path.to_owned() }),
            // No reader has a lock either.
            Err(_) => return Ok(None),
        }
        let kept = Kept {
            pages: BTreeMap::new(),
            last: 0,
            note: ReadersNote::CLOSED,
        };
        // What another process has kept, this one does not.
        if locks.note() != ReadersNote::CLOSED {
            locks.0.write(0, &ReadersNote::CLOSED.encode()).map_err(io)?;
        }
        Ok(Some(Readers {
            locks,
            file: File::open(path).map_err(|source| EngineError::io("open", path, source))?,
            path: path.to_owned(),
            kept: Mutex::new(kept),
        }))
    }

    /// Lets go what no reader has a lock of, before redb syncs the next transaction. Returns what makes redb keep the
    /// pages that it has now: all that the next transaction leaves as they are. What redb frees by the way when it
    /// syncs that one would be a commit of its own, and keeping the pages of such a commit would make the file grow.
    pub(super) fn release(&self, database: &Database) -> Result<ReadTransaction, EngineError> {
        let kept = &mut *self.lock();
        let from = kept.note.from.max(kept.last.saturating_add(1));
        // After that: a lock of the last one that is taken from now on does not count.
        if self.say(kept, ReadersNote { from, ..kept.note }) {
            kept.pages.retain(|&number, _| self.has_lock(number));
        }
        let pages = database.begin_read();
        pages.map_err(|error| failed("read", &self.path, error.into()))
    }

    /// Keeps these pages for the readers of the transaction that redb has just synced.
    pub(super) fn keep(&self, pages: ReadTransaction) -> Result<(), EngineError> {
        let header = Header::read(&self.file).map_err(|source| EngineError::io("read", &self.path, source))?;
        let transaction = header.transaction();
        let kept = &mut *self.lock();
        kept.pages.insert(transaction, pages);
        kept.last = transaction;
        if kept.note.from == u64::MAX {
            // Pages were moved.
            let (first, from) = (transaction, transaction);
            self.say(kept, ReadersNote { first, from });
        }
        Ok(())
    }

    /// Tells readers that their locks count from the oldest transaction on that is kept.
    pub(super) fn begin(&self) {
        let kept = &mut *self.lock();
        if let Some(&first) = kept.pages.keys().next() {
            let from = kept.last;
            self.say(kept, ReadersNote { first, from });
        }
    }

    /// Keeps nothing any more, so that redb may move its pages. Returns whether it could: not while a reader has a
    /// lock.
    pub(super) fn end_if_there_are_none(&self) -> bool {
        let kept = &mut *self.lock();
        let note = kept.note;
        let from = u64::MAX;
        if !self.say(kept, ReadersNote { from, ..note }) {
            return false;
        }
        // After that: a lock that is taken from now on does not count.
        if kept.pages.keys().any(|number| self.has_lock(*number)) {
            self.say(kept, note);
            return false;
        }
        kept.pages.clear();
        true
    }

    /// Returns whether a reader has a lock.
    pub(super) fn are_there(&self) -> bool {
        self.lock().pages.keys().any(|number| self.has_lock(*number))
    }

    /// Says that nothing is kept any more, because redb's file is about to be closed. Returns whether it could.
    pub(super) fn close(&self) -> bool {
        let kept = &mut *self.lock();
        let told = self.say(kept, ReadersNote::CLOSED);
        if told {
            kept.pages.clear();
        }
        told
    }

    fn has_lock(&self, transaction: u64) -> bool {
        let (start, end) = byte_of(transaction);
        // What can't be told counts as locked.
        self.locks.0.query_lock_range(start, end).unwrap_or(true)
    }

    /// Writes the note. Returns whether it could.
    fn say(&self, kept: &mut Kept, note: ReadersNote) -> bool {
        let is_said = kept.note == note || self.locks.0.write(0, &note.encode()).is_ok();
        if is_said {
            kept.note = note;
        }
        is_said
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reader's lock on a transaction, until it is dropped.
pub(super) struct Lock {
    locks: Locks,
    transaction: u64,
}

impl Lock {
    /// Takes the lock of a transaction of redb's file at `path`; [`None`] if the file with the locks is not there or
    /// may not be read, or the file system has no locks.
    pub(super) fn take(path: &Path, transaction: u64) -> Option<Self> {
        let locks = Locks::of(File::open(beside(path, ENDING)).ok()?).ok()?;
        let (start, end) = byte_of(transaction);
        let is_taken = locks.0.try_lock_shared_range(start, end);
        matches!(is_taken, Ok(true)).then_some(Lock { locks, transaction })
    }

    /// Whether the lock counts, if the transaction was still the last one after it was taken.
    pub(super) fn counts(&self) -> bool {
        self.locks.note().from <= self.transaction
    }

    /// Whether the pages of the transaction are kept, if the lock counts.
    pub(super) fn keeps(&self) -> bool {
        self.locks.note().first <= self.transaction
    }

    /// Returns who writes the file.
    pub(super) fn writer(&self) -> Writer {
        let (start, end) = byte(WRITER);
        match self.locks.0.query_lock_range(start, end) {
            Ok(true) if self.locks.note().first == u64::MAX => Writer::Opening,
            Ok(true) => Writer::Writing,
            Ok(false) | Err(_) => Writer::Unknown,
        }
    }
}

/// Whether a process has a file open for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// None that is known of.
    Unknown,
    /// One that opens or closes it, and has not committed yet.
    Opening,
    /// One that tells what it has synced.
    Writing,
}
