//! Why a call to a store failed.

use std::path::PathBuf;

use ibid_format::record::Refusal;

use crate::condition::Condition;
use crate::engine::{EngineError, Table};
use crate::index::Unique;
use crate::replicate::net::tls;
use crate::time::Time;
use crate::versions::{Version, Versions};

/// A failed call to a [`Store`](crate::Store). The message says what failed and why; the
/// description of each variant says what to do.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An insert found a body under its key. The whole batch was refused. To replace a body, use
    /// `update` or `put`.
    #[error("namespace {namespace} has a record under {key} already", key = key_text(key))]
    KeyExists {
        /// Name of the namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
    },
    /// An update or a deletion found no body under its key. The whole batch was refused.
    #[error("namespace {namespace} has no record under {key}", key = key_text(key))]
    NoSuchKey {
        /// Name of the namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
    },
    /// A key is in another state than the batch requires. The whole batch was refused. Read the key
    /// again, and decide anew.
    #[error(
        "the latest version of {key} in namespace {namespace}: expected {expected}, found {found}",
        key = key_text(key),
        found = found_text(*found)
    )]
    ConditionFailed {
        /// Name of the namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
        /// The state that the batch requires.
        expected: Condition,
        /// The latest version of the key; [`None`] if it has none.
        found: Option<Version>,
    },
    /// Another key has the value in an index where each value is of one key at most. The whole batch was refused.
    /// Change that key in the same batch, or give this one another value.
    #[error(
        "{key} has the value {value} of the unique index {index} already",
        key = key_text(key),
        value = key_text(value)
    )]
    ValueTaken {
        /// Name of the index.
        index: String,
        /// The value.
        value: Vec<u8>,
        /// The key that has it.
        key: Vec<u8>,
    },
    /// A value was given for an index of another namespace than that of the change before it, or before any change. The
    /// whole batch was refused.
    #[error("index {index} is of namespace {namespace}, and the change that is to be found by it is not")]
    ForeignIndex {
        /// Name of the index.
        index: String,
        /// Name of its namespace.
        namespace: String,
    },
    /// The index was made with another setting.
    #[error("index {name} of namespace {namespace} is {found}, and was expected to be {expected}")]
    IndexDiffers {
        /// Name of its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The setting that it was opened with.
        expected: Unique,
        /// The setting that it was made with.
        found: Unique,
    },
    /// The call is about versions, in a namespace where every version is the first. Nothing was done. A batch can
    /// require the number of the record instead: [`Condition::Number`].
    #[error("namespace {namespace} keeps only the latest versions")]
    VersionsNotKept {
        /// Name of the namespace.
        namespace: String,
    },
    /// A record was given a time before that of the key's latest version. The whole batch was refused. Store the
    /// versions of a key in the order of their times.
    #[error(
        "{key} in namespace {namespace} has a version of {latest} already, and was given one of {given}",
        key = key_text(key)
    )]
    TimeRunsBackward {
        /// Name of the namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
        /// The time that was given.
        given: Time,
        /// The time of the latest version.
        latest: Time,
    },
    /// The latest version of a key can only be purged with the key. The whole batch was refused. Delete the key, or
    /// store another version, and purge this one then.
    #[error(
        "version {version} of {key} in namespace {namespace} cannot be purged: only those before the latest, \
         {latest}, can",
        key = key_text(key)
    )]
    LatestStays {
        /// Name of the namespace.
        namespace: String,
        /// The key.
        key: Vec<u8>,
        /// The last version that was to be purged.
        version: u32,
        /// The latest version.
        latest: u32,
    },
    /// The version was purged, by a call or by the namespace's retention.
    #[error("version {version} of {key} was purged", key = key_text(key))]
    Purged {
        /// The key.
        key: Vec<u8>,
        /// The version, from 1.
        version: u32,
    },
    /// Nothing says which version of a key was the latest at a time, because it was stored before stores had times.
    #[error("version {version} of {key} has no time: it was stored before stores had times", key = key_text(key))]
    TimeUnknown {
        /// The key.
        key: Vec<u8>,
        /// The last version without a time.
        version: u32,
    },
    /// The namespace was made with another setting.
    #[error("versions are {found} in namespace {name}, and were expected to be {expected}")]
    NamespaceDiffers {
        /// Its name.
        name: String,
        /// The setting that it was opened with.
        expected: Versions,
        /// The setting that it was made with.
        found: Versions,
    },
    /// The namespace was opened from another store.
    #[error("namespace {name} is of another store")]
    ForeignNamespace {
        /// Its name.
        name: String,
    },
    /// A body was staged in another store than that of the batch. The whole batch was refused.
    #[error("a body was stored for a batch of another store")]
    ForeignBody,
    /// The store itself uses a namespace of this name. Choose another.
    #[error("no namespace may have this name: the store itself uses it for the pieces of long bodies")]
    ReservedName,
    /// A key, a body, an index value or a name is too long, a name is empty, or a key has too many versions. The
    /// whole batch was refused.
    #[error("{field}: between {min} and {max} expected, found {found}")]
    OutOfRange {
        /// The quantity that is out of range.
        field: &'static str,
        /// The smallest allowed.
        min: u64,
        /// The largest allowed.
        max: u64,
        /// The value that was given.
        found: u64,
    },
    /// The stored bytes are not those that were written: an entry of one of the engine's tables
    /// changed. Restore the store from a copy; [`Store::verify`](crate::Store::verify) lists all
    /// damage.
    #[error("the store is damaged: {}: {found}", entry_text(*table, key))]
    Damaged {
        /// The engine's table.
        table: Table,
        /// The key in this table.
        key: Vec<u8>,
        /// The damage of the entry.
        found: Damage,
    },
    /// There was not enough memory to compress or decompress an entry. The store may be sound. Try
    /// again with more memory.
    #[error("there is not enough memory for an entry of table {table}: {found}", table = table.name())]
    OutOfMemory {
        /// The engine's table.
        table: Table,
        /// The cause.
        found: Damage,
    },
    /// The body of a key that an iterator came to cannot be read: it is damaged, or longer than is read at once. The
    /// iterator goes on with the next key.
    #[error("the body under {key} cannot be read: {source}", key = key_text(key))]
    OfKey {
        /// The key.
        key: Vec<u8>,
        /// The cause.
        source: Box<Error>,
    },
    /// A record that an iterator in the order of records came to is damaged, and nothing says which key it is of. The
    /// iterator goes on with the next record.
    #[error("record {number} cannot be read: {source}")]
    OfRecord {
        /// Its number.
        number: u64,
        /// The cause.
        source: Box<Error>,
    },
    /// A body is longer than [`Options::body_bytes_max`](crate::Options::body_bytes_max). It can be read with a larger
    /// limit, which takes more memory.
    #[error("a record has a body of {found} bytes, and at most {max} may be read")]
    BodyTooLong {
        /// The limit, bytes.
        max: u64,
        /// The length of the body, bytes.
        found: u64,
    },
    /// The path holds something other than a store of records.
    #[error("{path} is no store of records: {found}", path = path.display())]
    NotAStore {
        /// The path.
        path: PathBuf,
        /// What was found at the path.
        found: String,
    },
    /// Something is in a folder in which a store is to be made of a damaged one. Give another one, or remove what is in
    /// it: perhaps a salvage was killed that had not ended.
    #[error("{path} is not empty", path = path.display())]
    NotEmpty {
        /// The path.
        path: PathBuf,
    },
    /// The store at the path was made with another engine. Open it with that one.
    #[error("{path} is a store of the engine {found}, not {expected}", path = path.display())]
    OtherEngine {
        /// The path.
        path: PathBuf,
        /// The engine it was opened with.
        expected: &'static str,
        /// The engine it was made with.
        found: &'static str,
    },
    /// The store is encrypted, and was opened without a password.
    #[error("{path} is encrypted", path = path.display())]
    Encrypted {
        /// The path.
        path: PathBuf,
    },
    /// The store is not encrypted, and was opened with a password.
    #[error("{path} is not encrypted, or its file `key` is missing", path = path.display())]
    NotEncrypted {
        /// The path.
        path: PathBuf,
    },
    /// The password is wrong, the file `key` is damaged, or its cost is larger than allowed.
    #[error("cannot open {path}: {source}", path = path.display())]
    Key {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: ibid_format::Error,
    },
    /// A replica refuses changes. Change its primary, or promote the replica.
    #[error("the store is a replica of another")]
    IsReplica,
    /// The store was the primary until another took its place, and refuses changes. Change that one,
    /// and make this one its replica. If that one is lost, promote this one
    /// [to a later epoch](crate::Store::promote_to).
    #[error("the store was fenced: another one takes its place, in epoch {by}")]
    Fenced {
        /// The epoch of the other store.
        by: u64,
    },
    /// The store that was to be fenced was fenced before. Another store may have been promoted in
    /// its place.
    #[error("the other store was fenced before, for epoch {by}: another one may have been promoted")]
    FencedBefore {
        /// The epoch for which it was fenced.
        by: u64,
    },
    /// The replica has received nothing yet, or a part of its primary's contents, and cannot be read
    /// until it has all. Let it follow its primary.
    #[error("the store has not received all of its primary's contents yet")]
    Incomplete,
    /// The store has no log, or had records before it had one.
    #[error("the store has no log")]
    NoLog,
    /// The contents of the replica differ from those of its primary. Start the replica again in an
    /// empty folder.
    #[error("at position {position} of the log the replica differs from its primary: {what}")]
    Diverged {
        /// The position in the log.
        position: u64,
        /// What differs.
        what: &'static str,
    },
    /// A message from another store was changed on the way, or is of another version of the
    /// protocol.
    #[error("a message from the other store cannot be read: {0}")]
    Message(#[from] ibid_format::Error),
    /// The connection to another store failed.
    #[error("cannot {operation} {address}: {found}")]
    Network {
        /// What was attempted, and a preposition.
        operation: &'static str,
        /// The address of the other store.
        address: String,
        /// The message of the operating system.
        found: String,
    },
    /// A NATS server, or the store that publishes through it, cannot be reached or gives a wrong
    /// answer.
    #[error("cannot {operation}: {found}")]
    Nats {
        /// What was attempted.
        operation: &'static str,
        /// The message of the server or the operating system.
        found: String,
    },
    /// No log is published at the address yet.
    #[error("nothing is published at {address}")]
    NothingPublished {
        /// The address, without user and password.
        address: String,
    },
    /// A certificate, key or name that was given cannot be used.
    #[error("{what} cannot be used: {found}")]
    Certificate {
        /// The certificate, key or name.
        what: &'static str,
        /// Why it cannot be used.
        found: String,
    },
    /// The ends of a connection do not trust each other, or do not both use TLS.
    #[error("no connection to {address}: {fault}")]
    Tls {
        /// The address of the other end.
        address: String,
        /// The expected and the found.
        fault: tls::Fault,
    },
    /// The other store refuses to answer.
    #[error("the other store refuses: {}", refusal(*.0))]
    Refused(Refusal),
    /// The other store is of an earlier epoch than the one that this store has followed.
    #[error("the other store is of epoch {found}, and this one has followed a store of epoch {expected}")]
    StalePrimary {
        /// The epoch of this store.
        expected: u64,
        /// The epoch of the other store.
        found: u64,
    },
    /// The log that was published under a name has entries that are not in this store: the store
    /// was promoted before it had all of them, or was restored from an older copy. Promote and
    /// publish a replica of what was published instead, or publish this store under another
    /// name.
    #[error("the published log has entries before position {position} that are not in this store")]
    StreamDiffers {
        /// The position after the last published entry.
        position: u64,
    },
    /// The log that was published under a name is that of another store.
    #[error("another store publishes under this name")]
    OtherStream,
    /// The store was opened [read only](crate::Options::read_only). Nothing was changed. Open it without.
    #[error("the store was opened read only")]
    ReadOnly,
    /// The writer has ended, and why is not known. Where a write failed, every later one has its error instead. Open
    /// the store again.
    #[error("an earlier write to the store failed")]
    WriterEnded,
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The kinds of damage that an entry can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Its bytes are not those that were written.
    #[error("{0}")]
    Bytes(#[from] ibid_format::Error),
    /// Another entry needs it, and it is not there, or the engine has lost its bytes.
    #[error("it is missing")]
    Missing,
    /// It is of another key or version than other entries say.
    #[error("it is of another key or version than other entries say")]
    Misplaced,
    /// It is a delta that cannot be decoded.
    #[error("its delta cannot be decoded: {0}")]
    Delta(#[from] ibid_delta::Error),
    /// It is a delta that makes another body than was stored.
    #[error("its delta makes another body than was stored")]
    OtherBody,
}

impl Damage {
    /// Returns what is wrong with a value that can't be decoded. An engine shows nothing of one that it has lost, and
    /// no value is empty.
    pub(crate) fn of(value: &[u8], error: ibid_format::Error) -> Self {
        match value.is_empty() {
            true => Damage::Missing,
            false => Damage::Bytes(error),
        }
    }
}

impl Error {
    /// Returns whether asking another store again may help: after a failed connection, for a server
    /// that is away, and for a message that was damaged or is from another version of the program.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(
            self,
            Error::Network { .. } | Error::Nats { .. } | Error::NothingPublished { .. } | Error::Message(_)
        )
    }

    /// Whether an error of reading a record says nothing of others.
    fn is_of_one_record(&self) -> bool {
        matches!(
            self,
            Error::Damaged { .. } | Error::BodyTooLong { .. } | Error::Engine(EngineError::Damaged { .. })
        )
    }

    /// Returns the error of reading a body, with its key if it says nothing of others: [`OfKey`](Self::OfKey).
    #[must_use]
    pub fn of_key(self, key: &[u8]) -> Self {
        match self.is_of_one_record() {
            true => Error::OfKey {
                key: key.to_vec(),
                source: Box::new(self),
            },
            false => self,
        }
    }

    /// Returns the error of reading a record, with its number if it says nothing of others.
    pub(crate) fn of_record(self, number: u64) -> Self {
        match self.is_of_one_record() {
            true => Error::OfRecord {
                number,
                source: Box::new(self),
            },
            false => self,
        }
    }

    /// Whether an iterator goes on after it: it says that one key has nothing to show, and no more.
    pub(crate) fn is_of_one_key(&self) -> bool {
        matches!(
            self,
            Error::OfKey { .. } | Error::OfRecord { .. } | Error::Purged { .. } | Error::TimeUnknown { .. }
        )
    }

    /// Refuses a body that is longer than the limit.
    pub(crate) fn check_body(found: usize, max: usize) -> Result<(), Self> {
        match found > max {
            true => Err(Error::BodyTooLong {
                max: max as u64,
                found: found as u64,
            }),
            false => Ok(()),
        }
    }

    /// Returns the error of an entry that cannot be read, or written.
    pub(crate) fn damaged(table: Table, key: &[u8], found: impl Into<Damage>) -> Self {
        let found = found.into();
        let lacks_memory = match &found {
            Damage::Bytes(error) => error.lacks_memory(),
            Damage::Delta(error) => error.lacks_memory(),
            Damage::Missing | Damage::Misplaced | Damage::OtherBody => false,
        };
        if lacks_memory {
            return Error::OutOfMemory { table, found };
        }
        let key = key.to_vec();
        Error::Damaged { table, key, found }
    }
}

fn refusal(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Ahead => "this store has more of the log",
        Refusal::OtherStore => "this store is a copy of another one",
        Refusal::OtherEpoch => "this store has followed another primary of the same epoch",
        Refusal::Fenced => "it is not the primary any more",
        Refusal::Incomplete => "it has only a part of its own primary's contents",
        Refusal::NotPrimary => "it is a replica, which writes nothing by itself",
        Refusal::LaterEpoch => "it was promoted to the same epoch or a later one",
    }
}

/// Returns the state of a key for a message.
fn found_text(latest: Option<Version>) -> String {
    match latest {
        None => "no version".to_owned(),
        Some(Version {
            version,
            number,
            deleted,
            ..
        }) => {
            let deletion = if deleted { ", a deletion" } else { "" };
            format!("version {version} (record {number}){deletion}")
        }
    }
}

/// Returns an entry of a table for a message.
fn entry_text(table: Table, key: &[u8]) -> String {
    match (table, key.try_into().map(u64::from_be_bytes)) {
        (Table::Records, Ok(number)) => format!("record {number}"),
        (Table::Blocks, Ok(number)) => format!("block {number}"),
        _ => format!("table {}, key {}", table.name(), key_text(key)),
    }
}

/// Returns a key as text for a message, shortened if it is long. What is not text, or has no shape on
/// a terminal, is escaped.
fn key_text(key: &[u8]) -> String {
    const SHOWN: usize = 64;
    let is_within_a_character = |at: usize| key.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (SHOWN - 3..=SHOWN).rev().find(|&at| !is_within_a_character(at));
    let shown = &key[..key.len().min(end.unwrap_or(SHOWN))];
    let more = if shown.len() < key.len() { "…" } else { "" };
    let text =
        |chunk: std::str::Utf8Chunk<'_>| format!("{}{}", chunk.valid().escape_debug(), chunk.invalid().escape_ascii());
    let shown: String = shown.utf8_chunks().map(text).collect();
    format!("\"{shown}{more}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_as_text_where_it_is_text() {
        assert_eq!(key_text("Zürich".as_bytes()), "\"Zürich\"");
        assert_eq!(key_text(b"\x1b[31m\"\n\xff\xc3"), "\"\\u{1b}[31m\\\"\\n\\xff\\xc3\"");
        for before in 60..=64 {
            let cut = key_text(format!("{}ü€", "x".repeat(before)).as_bytes());
            assert!(!cut.contains('\\'), "{cut}");
        }
        assert_eq!(key_text(&[b'x'; 65]), format!("\"{}…\"", "x".repeat(64)));
        assert_eq!(key_text(&[b'x'; 64]), format!("\"{}\"", "x".repeat(64)));
        assert_eq!(key_text(&[0x80; 65]), format!("\"{}…\"", "\\x80".repeat(64)));
    }

    #[test]
    fn a_damaged_record_is_named_by_its_number() {
        let of = |table, key: &[u8]| Error::damaged(table, key, Damage::Missing).to_string();
        let number = 57_u64.to_be_bytes();
        assert_eq!(
            of(Table::Records, &number),
            "the store is damaged: record 57: it is missing"
        );
        assert_eq!(
            of(Table::Blocks, &number),
            "the store is damaged: block 57: it is missing"
        );
        let keys = "the store is damaged: table keys, key \"ibid\": it is missing";
        assert_eq!(
            (of(Table::Keys, b"ibid"), of(Table::Records, b"ibid")),
            (keys.into(), keys.replace("keys", "records"))
        );
    }

    #[test]
    fn an_allocation_that_fails_is_not_called_damage() {
        let memory = ibid_format::Error::OutOfMemory { found: 1 };
        let error = Error::damaged(Table::Blocks, b"key", memory);
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        for found in [Damage::Missing, Damage::Bytes(ibid_format::Error::WrongPassword)] {
            let error = Error::damaged(Table::Blocks, b"key", found);
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
        }
    }
}
