//! A stream from the other side whose bytes are counted and paced, and of which one can see that nothing comes.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::wire::Shared;

/// How far a stream was read.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Bytes that have come.
    pub(super) bytes: AtomicU64,
    /// Whether a read waits for bytes.
    pub(super) waits: AtomicBool,
}

/// A reader of the stream.
pub(super) struct Watched<R> {
    pub(super) reader: R,
    pub(super) shared: Arc<Shared>,
    pub(super) progress: Arc<Progress>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.progress.waits.store(true, Relaxed);
        let read = self.reader.read(buffer);
        // What waits for its turn below does not stall.
        self.progress.waits.store(false, Relaxed);
        let read = read?;
        self.progress.bytes.fetch_add(read as u64, Relaxed);
        self.shared.counters.moved(read, false);
        self.shared.download.wait(read);
        Ok(read)
    }
}
