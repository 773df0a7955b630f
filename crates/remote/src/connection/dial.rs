//! What leads to a server.

use std::io::{Read, Write};

use ibid_storage::ErrorKind;

/// Reaches a server, anew each time that a connection is lost.
pub trait Dial: Send + Sync {
    /// Starts what leads to the server. That it is reached shows when its greeting comes.
    ///
    /// # Errors
    /// Why nothing leads there.
    fn dial(&self) -> Result<Streams, Ended>;
}

/// Two streams that lead to a server, and what ends them.
pub struct Streams {
    /// What the server sends.
    pub answers: Box<dyn Read + Send>,
    /// What it is sent. The server must see the end of this stream when it is dropped.
    pub requests: Box<dyn Write + Send>,
    /// Ends both.
    pub ending: Box<dyn Ending>,
}

/// Ends the streams to a server.
pub trait Ending: Send {
    /// Ends both streams, if they have not ended, so that reads and writes return. `by_itself` says that one has ended,
    /// so that there is a reason to find. Returns why.
    fn end(&mut self, by_itself: bool) -> Ended;
}

/// Why a connection has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ended {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// Why, for people.
    pub why: String,
    /// Whether it is of no use to try again, if the server was never reached.
    pub is_hopeless: bool,
    /// Whether it is of no use either if the server was reached before.
    pub is_final: bool,
}

impl Ended {
    /// Returns a reason that may pass.
    pub fn new(why: impl Into<String>) -> Ended {
        Ended {
            kind: ErrorKind::Io,
            why: why.into(),
            is_hopeless: false,
            is_final: false,
        }
    }

    /// Returns a reason that does not pass by itself.
    pub fn hopeless(kind: ErrorKind, why: impl Into<String>) -> Ended {
        Ended {
            kind,
            why: why.into(),
            is_hopeless: true,
            is_final: false,
        }
    }

    /// Returns a reason that does not pass, whether the server was reached before or not.
    pub fn for_good(kind: ErrorKind, why: impl Into<String>) -> Ended {
        Ended {
            is_final: true,
            ..Ended::hopeless(kind, why)
        }
    }
}
