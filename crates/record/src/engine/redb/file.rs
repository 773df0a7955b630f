//! redb's file, and what can be had of it once redb uses it no more.
//!
//! After the first failure of a read, a write or a sync, redb refuses whatever needs its file, and does not say why:
//! reads, too, of what is whole on disk. So the first error is noted, and the header with each sync. No page is changed
//! that a synced header leads to until the next one is synced, and redb writes nothing after a failure: what was synced
//! last can be read as long as the file is open.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use redb::{BackendError, ReadOnlyDatabase, ReadableDatabase, StorageBackend};

use super::as_read::{Pages, open_as_read};
use super::header::{HEADER_BYTES, Header};
use super::tables::Base;
use super::{CACHE_BYTES_MIN, failed, unless_it_panics};
use crate::engine::EngineError;

/// redb's file, open.
pub(super) struct RedbFile {
    noted: Arc<Noted>,
    path: PathBuf,
    /// Its tables, once redb uses it no more.
    as_synced: Mutex<Option<Arc<AsSynced>>>,
}

impl RedbFile {
    pub(super) fn new(file: impl StorageBackend, path: &Path) -> Self {
        let noted = Noted {
            file: Box::new(file),
            header: Mutex::default(),
            transaction: AtomicU64::new(0),
            first_error: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        };
        RedbFile {
            noted: Arc::new(noted),
            path: path.to_owned(),
            as_synced: Mutex::default(),
        }
    }

    /// Returns the file as redb has it.
    pub(super) fn for_redb(&self) -> NotedFile {
        NotedFile(self.noted.clone())
    }

    /// The number of the transaction that was synced last, 0 if none was since the file was opened.
    pub(super) fn transaction(&self) -> u64 {
        self.noted.transaction.load(Ordering::SeqCst)
    }

    /// Returns an error with the reason of what redb refuses because of an earlier failure, which may have been told to
    /// none, such as a full disk.
    pub(super) fn reason_of(&self, error: EngineError) -> EngineError {
        match (error, self.noted.first_error.get()) {
            (EngineError::Stopped { operation, path }, Some((kind, text))) => {
                EngineError::io(operation, &path, io::Error::new(*kind, text.clone()))
            }
            (error, _) => error,
        }
    }

    /// Returns redb's tables as they were synced last, once redb uses the file no more, and others than `failed`;
    /// [`None`] if there are none.
    pub(super) fn as_synced(&self, failed: Option<&Arc<AsSynced>>) -> Option<Arc<AsSynced>> {
        let mut open = self.as_synced.lock().unwrap_or_else(PoisonError::into_inner);
        let header = self.noted.header().synced.clone()?;
        let is_right =
            |open: &&Arc<AsSynced>| open.header == header && failed.is_none_or(|failed| !Arc::ptr_eq(open, failed));
        if let Some(open) = open.as_ref().filter(is_right) {
            return Some(open.clone());
        }
        // Why they can't be opened says less than why redb uses the file no more.
        let opened = unless_it_panics(&self.path, || AsSynced::open(self.noted.clone(), header, &self.path));
        *open = opened.ok().map(Arc::new);
        open.clone()
    }
}

/// redb's tables as they were synced last.
pub(super) struct AsSynced {
    // Dropped before the database.
    pub(super) base: Base,
    _database: ReadOnlyDatabase,
    header: Header,
}

impl AsSynced {
    fn open(file: Arc<Noted>, header: Header, path: &Path) -> Result<Self, EngineError> {
        // redb's own cache keeps what it has.
        let database = open_as_read(file, header.clone(), path, CACHE_BYTES_MIN)?;
        let transaction = database.begin_read();
        let transaction = transaction.map_err(|error| failed("open", path, error.into()))?;
        Ok(AsSynced {
            base: Base::new(transaction),
            _database: database,
            header,
        })
    }

    /// The number of the transaction that it is of.
    pub(super) fn transaction(&self) -> u64 {
        self.header.transaction()
    }
}

struct Noted {
    file: Box<dyn StorageBackend>,
    header: Mutex<Headers>,
    transaction: AtomicU64,
    first_error: OnceLock<(io::ErrorKind, String)>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct Headers {
    /// The header that was written last; [`None`] if it is not known as a whole.
    written: Option<Header>,
    /// What it was when the file was synced last.
    synced: Option<Header>,
}

impl Noted {
    fn header(&self) -> MutexGuard<'_, Headers> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted<T>(&self, work: impl FnOnce(&dyn StorageBackend) -> io::Result<T>) -> io::Result<T> {
        work(&*self.file).inspect_err(|error| {
            let _ = self.first_error.set((error.kind(), error.to_string()));
        })
    }
}

impl Debug for Noted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl Pages for Arc<Noted> {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.file.read(offset, out);
        // Once it is closed, another process may write it.
        match self.is_closed.load(Ordering::SeqCst) {
            true => Err(io::Error::other("the file was closed")),
            false => read,
        }
    }
}

/// The file, as redb has it.
#[derive(Debug)]
pub(super) struct NotedFile(Arc<Noted>);

impl StorageBackend for NotedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.noted(|file| file.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.noted(|file| file.read(offset, out))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.noted(|file| file.set_len(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        let written = self.0.header().written.clone();
        self.0.noted(|file| file.sync_data())?;
        if let Some(header) = written {
            self.0.transaction.store(header.transaction(), Ordering::SeqCst);
            self.0.header().synced = Some(header);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.noted(|file| file.write(offset, data))?;
        if offset < HEADER_BYTES as u64 {
            let header = data.first_chunk().filter(|_| offset == 0);
            self.0.header().written = header.copied().map(Header::of);
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.is_closed.store(true, Ordering::SeqCst);
        self.0.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.query_lock_range(start, end)
    }
}
