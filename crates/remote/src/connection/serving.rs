//! What a server serves, how, and why it ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ibid_storage::{Error, Storage};

use super::frame::Violation;
use super::greeting::VERSION;

/// A storage that was opened for a client.
#[non_exhaustive]
pub struct Opened {
    /// The storage.
    pub storage: Arc<dyn Storage>,
    /// The name of a file there that is of no repository, if there is one: then no repository is made there.
    pub other: Option<String>,
}

impl Opened {
    /// Returns a storage with nothing else in it.
    pub fn new(storage: Arc<dyn Storage>) -> Opened {
        Opened { storage, other: None }
    }

    /// Sets the name of a file there that is of no repository.
    #[must_use]
    pub fn beside(mut self, other: Option<String>) -> Opened {
        self.other = other;
        self
    }
}

/// Opens the storage of a server; creates it first if told so.
pub type OpenStorage<'o> = dyn Fn(bool) -> Result<Opened, Error> + Sync + 'o;

/// How [`serve`](super::serve) serves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServeOptions {
    /// Whether the client can only add to a repository; see [`AppendOnly`](super::AppendOnly).
    pub append_only: bool,
    /// How often the client is told that the connection is alive. By default every 10 s.
    pub alive: Duration,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            append_only: false,
            alive: Duration::from_secs(10),
        }
    }
}

impl ServeOptions {
    /// Sets whether the client can only add to a repository.
    #[must_use]
    pub fn append_only(mut self, append_only: bool) -> Self {
        self.append_only = append_only;
        self
    }

    /// Sets how often the client is told that the connection is alive.
    #[must_use]
    pub fn alive(mut self, every: Duration) -> Self {
        self.alive = every;
        self
    }
}

/// How a server [serves many clients](super::listen).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenOptions {
    /// How each client is served.
    pub serve: ServeOptions,
    /// Clients that are answered at once; by default 64. Others are told to come again later.
    pub clients_max: usize,
    /// Bytes that all clients together may have on their way in the memory of the server, or one object; by default
    /// 256 MiB. The more clients there are, the less each may have.
    pub memory: u64,
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions {
            serve: ServeOptions::default(),
            clients_max: 64,
            memory: 256 << 20,
        }
    }
}

impl ListenOptions {
    /// Sets how each client is served.
    #[must_use]
    pub fn serve(mut self, serve: ServeOptions) -> Self {
        self.serve = serve;
        self
    }

    /// Sets how many clients are answered at once.
    #[must_use]
    pub fn clients_max(mut self, clients_max: usize) -> Self {
        self.clients_max = clients_max;
        self
    }

    /// Sets how many bytes all clients together may have on their way.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }
}

/// Why a server has ended a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// No client of this protocol speaks.
    #[error("the other side is no client of ibid: it has sent {0:?}")]
    NotAClient(String),
    /// The client speaks another version.
    #[error("the client is {program} and speaks version {found} of the connection, and this is version {VERSION}")]
    Version {
        /// Its version.
        found: u8,
        /// What it says of itself.
        program: String,
    },
    /// The client has sent what the protocol does not have.
    #[error("the client has sent {0}")]
    Violation(#[from] Violation),
    /// The stream of requests can't be read.
    #[error("requests can't be read")]
    Io(#[source] io::Error),
}
