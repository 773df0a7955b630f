//! What a store can't do, by meaning.

use std::path::PathBuf;

use crate::Versions;
use crate::engine::{EngineError, Table};

/// A call to a [`Store`](crate::Store) failed. Its text says what was expected and found.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An insert of a key that is there. Nothing of its batch was done.
    #[error("namespace {namespace} has a record under {key} already", key = key_text(key))]
    KeyExists {
        /// Name of the namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
    },
    /// An update or a delete of a key that is not there. Nothing of its batch was done.
    #[error("namespace {namespace} has no record under {key}", key = key_text(key))]
    NoSuchKey {
        /// Name of the namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
    },
    /// The namespace was made with another setting.
    #[error("namespace {name} was made with versions {found}, not {expected}")]
    NamespaceDiffers {
        /// Its name.
        name: String,
        /// What it was opened with.
        expected: Versions,
        /// What it was made with.
        found: Versions,
    },
    /// The namespace was opened from another store.
    #[error("namespace {name} is of another store")]
    ForeignNamespace {
        /// Its name.
        name: String,
    },
    /// A key, a body or a name is too long, or a name empty, or a key has too many versions.
    /// Nothing of its batch was done.
    #[error("{field}: between {min} and {max} expected, found {found}")]
    OutOfRange {
        /// What was given.
        field: &'static str,
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
        /// What it is.
        found: u64,
    },
    /// What is stored is not what was written: an entry of one of the engine's tables changed.
    #[error("the store is damaged: table {table}, key {key}: {found}", table = table.name(), key = key_text(key))]
    Damaged {
        /// The engine's table.
        table: Table,
        /// The key in this table.
        key: Vec<u8>,
        /// What is wrong.
        found: Damage,
    },
    /// There is something at the path, but no store.
    #[error("{path} is no store of records: {found}", path = path.display())]
    NotAStore {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: String,
    },
    /// The store at the path is kept by another engine.
    #[error("{path} is kept by the engine {found}, not {expected}", path = path.display())]
    OtherEngine {
        /// The path.
        path: PathBuf,
        /// The engine it was opened with.
        expected: &'static str,
        /// The engine that keeps it.
        found: &'static str,
    },
    /// The store is encrypted, and was opened without a password.
    #[error("{path} is encrypted", path = path.display())]
    Encrypted {
        /// The path.
        path: PathBuf,
    },
    /// The store is not encrypted, and was opened with a password.
    #[error("{path} is not encrypted, or has lost its file `key`", path = path.display())]
    NotEncrypted {
        /// The path.
        path: PathBuf,
    },
    /// The password is another one, or the file `key` is damaged, or its cost is beyond what is
    /// allowed.
    #[error("cannot open {path}: {source}", path = path.display())]
    Key {
        /// The path.
        path: PathBuf,
        /// Why.
        source: ibid_format::Error,
    },
    /// A change of a replica.
    #[error("the store is a replica of another")]
    IsReplica,
    /// A change of a store that was the primary until another was promoted.
    #[error("another store was promoted, to epoch {by}")]
    Fenced {
        /// The other's epoch.
        by: u64,
    },
    /// The store is to take over all that another has, and has a part of it.
    #[error("the store has only a part of what its primary has")]
    Incomplete,
    /// The store has no log, or had records before it had one.
    #[error("the store has no log to replicate by")]
    NoLog,
    /// A replica can't do what its primary did.
    #[error("at position {position} of the log the replica differs from its primary ({what})")]
    Diverged {
        /// Where in the log.
        position: u64,
        /// What differs.
        what: &'static str,
    },
    /// A message of another store is not what was sent, or not of this program.
    #[error("a message can't be read: {0}")]
    Message(#[from] ibid_format::Error),
    /// The connection to another store failed.
    #[error("cannot {operation}: {found}")]
    Network {
        /// What was attempted.
        operation: &'static str,
        /// What the operating system says.
        found: String,
    },
    /// Servers of NATS, or one who publishes through them, can't be reached, or answer otherwise
    /// than they should.
    #[error("cannot {operation}: {found}")]
    Nats {
        /// What was attempted.
        operation: &'static str,
        /// What the server or the operating system says.
        found: String,
    },
    /// TLS can't be used so, or the ends of a connection do not trust each other.
    #[error("{what} cannot be used or is not trusted: {found}")]
    Certificate {
        /// What it is about.
        what: &'static str,
        /// What is wrong with it.
        found: String,
    },
    /// The other store gives nothing.
    #[error("the other store refuses to be followed: {}", refusal(*.0))]
    Refused(ibid_format::record::Refusal),
    /// The other store is of an earlier epoch than this one.
    #[error("the other store is of epoch {found}, and this one has followed one of epoch {expected}")]
    StalePrimary {
        /// The epoch of this store.
        expected: u64,
        /// The epoch of the other.
        found: u64,
    },
    /// What was published under a name is not what this store has.
    #[error(
        "what was published up to position {position} is not in this store: it was promoted before it had all of it, or is an older copy of itself"
    )]
    StreamDiffers {
        /// Where what was published ends.
        position: u64,
    },
    /// What was published under a name is the log of another store.
    #[error("another store publishes under this name")]
    OtherStream,
    /// The store's thread for writing has ended, after a failure that others were told of.
    #[error("the store does not write any more, because an earlier write failed")]
    WriterEnded,
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Its bytes are not those that were written.
    #[error("{0}")]
    Bytes(#[from] ibid_format::Error),
    /// It is needed by another entry, and not there.
    #[error("it is missing")]
    Missing,
    /// Other entries say that it is of another key or version.
    #[error("it is of another key or version than its place says")]
    Misplaced,
    /// It is a delta that can't be decoded.
    #[error("its delta can't be decoded: {0}")]
    Delta(#[from] ibid_delta::Error),
    /// It is a delta that makes another body than the one that was stored.
    #[error("its delta makes another body than the one that was stored")]
    OtherBody,
}

impl Error {
    /// Whether asking another store again may help: a connection that failed, a server that is
    /// away, a message that was damaged, or of another program, which may be replaced.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Error::Network { .. } | Error::Nats { .. } | Error::Message(_))
    }

    pub(crate) fn damaged(table: Table, key: &[u8], found: impl Into<Damage>) -> Self {
        Error::Damaged {
            table,
            key: key.to_vec(),
            found: found.into(),
        }
    }
}

fn refusal(refused: ibid_format::record::Refusal) -> &'static str {
    use ibid_format::record::Refusal;
    match refused {
        Refusal::Ahead => "this one has more of the log",
        Refusal::OtherStore => "this one is a copy of another store",
        Refusal::OtherEpoch => "this one has followed another primary of the same epoch",
        Refusal::Fenced => "it is not the primary any more",
        Refusal::Incomplete => "it has only a part itself",
    }
}

/// A key for a message: as text if it is some, and not all of a long one.
fn key_text(key: &[u8]) -> String {
    const SHOWN: usize = 64;
    let shown = &key[..key.len().min(SHOWN)];
    let more = if key.len() > SHOWN { "…" } else { "" };
    format!("\"{}{more}\"", shown.escape_ascii())
}
