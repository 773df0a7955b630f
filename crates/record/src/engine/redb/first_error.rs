//! redb's file, of which the first error is noted: redb refuses everything after it without saying why.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use redb::{BackendError, StorageBackend};

use crate::engine::EngineError;

/// The first error that redb was told.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstError(Arc<OnceLock<(io::ErrorKind, String)>>);

impl FirstError {
    /// Returns the error; [`None`] if there was none.
    fn get(&self) -> Option<io::Error> {
        let (kind, text) = self.0.get()?;
        Some(io::Error::new(*kind, text.clone()))
    }

    /// Returns an error with the reason of what redb refuses because of an earlier failure.
    pub(super) fn reason_of(&self, error: EngineError) -> EngineError {
        match (error, self.get()) {
            (EngineError::Stopped { operation, path }, Some(first)) => EngineError::io(operation, &path, first),
            (error, _) => error,
        }
    }
}

/// The file, as redb has it.
pub(super) struct Noted<F> {
    file: F,
    first: FirstError,
}

impl<F: StorageBackend> Noted<F> {
    pub(super) fn new(file: F) -> Self {
        let first = FirstError::default();
        Noted { file, first }
    }

    pub(super) fn first_error(&self) -> FirstError {
        self.first.clone()
    }

    fn noted<T>(&self, work: impl FnOnce(&F) -> io::Result<T>) -> io::Result<T> {
        work(&self.file).inspect_err(|error| {
            let _ = self.first.0.set((error.kind(), error.to_string()));
        })
    }
}

impl<F: StorageBackend> Debug for Noted<F> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl<F: StorageBackend> StorageBackend for Noted<F> {
    fn len(&self) -> io::Result<u64> {
        self.noted(F::len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.noted(|file| file.read(offset, out))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.noted(|file| file.set_len(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.noted(F::sync_data)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.noted(|file| file.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}
