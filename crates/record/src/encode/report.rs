//! The report of the encoder.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The work of the encoder since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EncodingReport {
    /// Records that it has looked at.
    pub records: u64,
    /// Length of the bodies of these, bytes.
    pub bytes: u64,
    /// Length of the bodies that were committed and that it has not looked at, bytes. What an earlier opening left is
    /// not counted.
    pub waiting_bytes: u64,
    /// Records that became deltas of newer ones.
    pub deltas: u64,
    /// Records that became deltas of one further on in their chain.
    pub hops: u64,
    /// Bytes that the deltas save over the records that they replace. Some of the deltas may have
    /// been dropped since.
    pub saved_bytes: u64,
    /// Deltas that were dropped because there was no room for them until they could be written.
    pub dropped: u64,
    /// Older records that were in the source cache.
    pub cache_hits: u64,
    /// Older records that were read from the store.
    pub cache_misses: u64,
    /// Records that were not encoded because a record that they were to be compared with is
    /// damaged.
    pub damaged: u64,
    /// Namespaces in which nothing more is encoded, because it did not pay.
    pub given_up: u64,
    /// Entries in feature indexes.
    pub index_entries: u64,
    /// Memory of feature indexes, bytes.
    pub index_bytes: u64,
}

/// The report as the encoder keeps it and others read it.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<EncodingReport>);

impl Tally {
    /// Returns the report, to be changed. The encoder holds it for a few instructions.
    pub(crate) fn update(&self) -> MutexGuard<'_, EncodingReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self) -> EncodingReport {
        *self.update()
    }
}
