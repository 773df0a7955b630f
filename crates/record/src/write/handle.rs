//! Sending requests to the writer.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use super::feed::Feed;
use super::request::{Command, Durability, Outcome, Request};
use crate::engine::EngineError;
use crate::error::Error;

/// Sends requests to the writer. The writer ends when all handles are dropped.
#[derive(Clone)]
pub(crate) struct WriterHandle {
    requests: SyncSender<Request>,
    /// [`None`] if nothing is encoded.
    feed: Option<Arc<Feed>>,
    failure: WriterFailure,
}

/// Why the writer has ended, if a commit or a sync has failed: whatever asks it next is told, also if that was work in
/// the background.
#[derive(Debug, Clone, Default)]
pub(crate) struct WriterFailure(Arc<OnceLock<EngineError>>);

impl WriterFailure {
    pub(super) fn note(&self, error: EngineError) {
        let _ = self.0.set(error);
    }

    fn error(&self) -> Error {
        self.0.get().cloned().map_or(Error::WriterEnded, Error::Engine)
    }
}

impl WriterHandle {
    pub(crate) fn new(requests: SyncSender<Request>, feed: Option<Arc<Feed>>, failure: WriterFailure) -> Self {
        WriterHandle {
            requests,
            feed,
            failure,
        }
    }

    /// Returns why the writer does not answer.
    pub(crate) fn failure(&self) -> Error {
        self.failure.error()
    }

    /// Sends a command to the writer, and waits for its outcome.
    ///
    /// # Errors
    /// Those of the command; that of an earlier command, after which the writer has ended.
    pub(crate) fn ask(&self, command: Command, durability: Durability) -> Result<Outcome, Error> {
        let (outcome, answer) = sync_channel(1);
        let request = Request {
            command,
            durability,
            outcome,
        };
        if let Some(feed) = &self.feed {
            feed.writer_has(1);
        }
        self.requests.send(request).map_err(|_| self.failure())?;
        answer.recv().map_err(|_| self.failure())?
    }
}
