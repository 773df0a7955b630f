//! redb's file as those see it who only read it, whatever else may be in it by now.

use std::fmt::Debug;
use std::io;
use std::ops::Bound;
use std::path::Path;

use redb::{BackendError, Builder, ConcurrencyMode, ReadOnlyDatabase, StorageBackend};

use super::header::{HEADER_BYTES, Header};
use super::{CACHE_BYTES_MIN, failed};
use crate::engine::EngineError;

/// What has the pages of redb's file.
pub(super) trait Pages: Debug + Send + Sync + 'static {
    fn len(&self) -> io::Result<u64>;

    /// Reads bytes of pages that are needed.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

/// Opens redb's file as it was when it had this header. All pages that it leads to have to be there still.
pub(super) fn open_as_read(
    pages: impl Pages,
    header: Header,
    path: &Path,
    cache_bytes: usize,
) -> Result<ReadOnlyDatabase, EngineError> {
    let file = FileAsRead {
        header: header.of_closed_file(),
        pages,
    };
    let opened = Builder::new()
        .set_cache_size(cache_bytes.max(CACHE_BYTES_MIN))
        // Otherwise it would need to know which pages are free.
        .set_concurrency_mode(ConcurrencyMode::SingleWriter)
        .open_read_only_with_backend(file);
    opened.map_err(|error| failed("open", path, error.into()))
}

/// Pages with the header of a moment.
#[derive(Debug)]
struct FileAsRead<P> {
    header: [u8; HEADER_BYTES],
    pages: P,
}

impl<P: Pages> StorageBackend for FileAsRead<P> {
    fn len(&self) -> io::Result<u64> {
        self.pages.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(part) = self.header.get(at..at.saturating_add(out.len())) {
            out.copy_from_slice(part);
            return Ok(());
        }
        self.pages.read(offset, out)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    // redb's own locks are for writers that use them, which this engine's do not: they commit without syncs.

    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn query_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(false)
    }
}
