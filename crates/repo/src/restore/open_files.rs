//! Limit on the number of open files.

use std::sync::{Condvar, Mutex};

use crate::threads::wait;

/// Maximum number of directories kept open on the planner's path.
const DIRECTORIES: usize = 64;
/// Maximum number of open files. More would not reduce the number of frames read.
const FILES: usize = 4096;

/// Permits to open files. Each covers two descriptors: a file and its directory.
pub(crate) struct OpenFiles {
    free: Mutex<usize>,
    freed: Condvar,
    /// Total number of permits.
    pub(crate) files: usize,
    pub(crate) directories: usize,
}

/// A permit, returned on drop.
pub(crate) struct Permit<'a>(&'a OpenFiles);

impl OpenFiles {
    /// Divides the process's limit on open files: half of it for permits, an eighth for
    /// directories.
    pub(crate) fn within_limits() -> OpenFiles {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let files = (limit / 4).clamp(2, FILES);
        OpenFiles {
            free: Mutex::new(files),
            freed: Condvar::new(),
            files,
            directories: (limit / 8).clamp(2, DIRECTORIES),
        }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, usize> {
        self.free.lock().expect("no holder of this lock panics")
    }

    pub(crate) fn try_take(&self) -> Option<Permit<'_>> {
        let mut free = self.free();
        *free = free.checked_sub(1)?;
        Some(Permit(self))
    }

    /// Waits for a permit.
    pub(crate) fn take(&self) -> Permit<'_> {
        let mut free = self.free();
        while *free == 0 {
            free = wait(&self.freed, &self.free, free);
        }
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free() += 1;
        self.0.freed.notify_one();
    }
}
