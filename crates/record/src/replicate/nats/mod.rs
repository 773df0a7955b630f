//! The log in NATS JetStream, for those who outgrow one machine: a stream that several servers
//! keep.
//!
//! A primary [publishes](publish) its log, as answers that no replica asked for, one after the
//! other. What goes after the last message of the stream is what comes after the last entry in it,
//! and the stream takes a message only after the one that its publisher knew as the last: so two
//! never both append, and one that was replaced learns of it there. A replica [reads](Published)
//! the stream at its own position. What the stream has not (entries from before its first message,
//! a body as it is because a base is missing, all that there is) it asks of the primary, in parts,
//! since messages of NATS are short.
//!
//! `docs/replication.md` says what is promised of it.

mod address;
mod answer;
mod publish;
mod read;
mod stream;
mod wire;

pub use address::{Address, AddressError};
pub use publish::{Publishing, publish};
pub use read::Published;

use crate::error::Error;

/// Why something was not done.
enum Stopped {
    /// It was to stop.
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
    /// What was done, [`None`] if it was to stop.
    fn or_failed<T>(done: Result<T, Stopped>) -> Result<Option<T>, Error> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Stopped::Stop) => Ok(None),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }
}
