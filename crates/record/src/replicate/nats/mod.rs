//! Replication through NATS JetStream: the log is a stream that several servers keep.
//!
//! A primary [publishes](publish) its log as answers that no replica asked for. Each continues
//! after the last entry in the stream, and the stream takes a message only if its last one is the
//! one that the publisher expects. So two stores never both append, and a store that was replaced
//! learns of it there. A replica [reads](Published) the stream at its own position. It asks the
//! primary for what the stream does not have: entries from before its first message, a body that is
//! not encoded, all contents. These answers come in parts, because messages of NATS are short.
//!
//! `docs/replication.md` says what is promised.

mod address;
mod answer;
mod credentials;
mod publish;
mod read;
mod stream;
mod wire;

pub use address::{Address, AddressError};
pub use publish::{Publishing, publish};
pub use read::Published;

use crate::error::Error;

/// Why a call returned early.
enum Stopped {
    /// `stop` was set.
    Stop,
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Stopped::Failed(error)
    }
}

impl From<ibid_format::Error> for Stopped {
    fn from(error: ibid_format::Error) -> Self {
        Stopped::Failed(error.into())
    }
}

impl Stopped {
    /// Returns the result; [`None`] if `stop` was set.
    fn or_failed<T>(done: Result<T, Stopped>) -> Result<Option<T>, Error> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Stopped::Stop) => Ok(None),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }
}
