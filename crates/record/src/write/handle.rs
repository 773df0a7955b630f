//! Sending requests to the writer.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use super::feed::Feed;
use super::request::{Command, Durability, Outcome, Request};
use crate::error::Error;

/// Sends requests to the writer. The writer ends when all handles are dropped.
#[derive(Clone)]
pub(crate) struct WriterHandle {
    requests: SyncSender<Request>,
    /// [`None`] if nothing is encoded.
    feed: Option<Arc<Feed>>,
}

impl WriterHandle {
    pub(crate) fn new(requests: SyncSender<Request>, feed: Option<Arc<Feed>>) -> Self {
        WriterHandle { requests, feed }
    }

    /// Sends a command to the writer, and waits for its outcome.
    ///
    /// # Errors
    /// Those of the command; [`Error::WriterEnded`].
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
        self.requests.send(request).map_err(|_| Error::WriterEnded)?;
        answer.recv().map_err(|_| Error::WriterEnded)?
    }
}
