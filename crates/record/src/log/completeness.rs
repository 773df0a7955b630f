//! Does a replica have all that its primary has?

use std::sync::atomic::{AtomicU64, Ordering};

use ibid_format::record::LogState;

use super::state;
use crate::error::Error;
use crate::read::records::Generation;

/// Tells readers whether a store is complete. A replica is incomplete while it receives all
/// contents.
///
/// The number is even while the store is complete. A reader that gets the same even number before
/// and after it takes a snapshot has a snapshot of a complete store.
#[derive(Debug, Default)]
pub(crate) struct Completeness(AtomicU64);

impl Completeness {
    pub(crate) fn of(log: Option<&LogState>) -> Self {
        Completeness(AtomicU64::new(state::is_incomplete(log).into()))
    }

    /// Returns the generation of a complete store.
    ///
    /// # Errors
    /// [`Error::Incomplete`] if the store is not complete.
    pub(crate) fn generation(&self) -> Result<Generation, Error> {
        match self.0.load(Ordering::SeqCst) {
            generation if generation % 2 == 0 => Ok(generation),
            _ => Err(Error::Incomplete),
        }
    }

    /// Begins another generation, since all contents may have been replaced.
    pub(crate) fn advance(&self) {
        self.0.fetch_add(2, Ordering::SeqCst);
    }

    /// Sets whether the store is incomplete: before a commit that makes it so, and after each
    /// commit.
    pub(crate) fn set(&self, incomplete: bool) {
        if (self.0.load(Ordering::SeqCst) % 2 == 1) != incomplete {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}
