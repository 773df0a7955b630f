//! The log of a store: its operations in order, so that another store can repeat them.
//!
//! An entry names records but does not contain them: their bodies are only in the store. Repeating
//! the operations in the same order gives the same numbers, so an entry is short.

use super::entry::{LatestEntry, RetentionEntry, Table, closed, flag, opened};
use super::index::{INDEX_ROW_BYTES_MAX, IndexValues, put_values, read_values};
use super::{KEY_BYTES_MAX, LOG_KEY, NAME_BYTES_MAX, NUMBER_MAX, TIME_MAX};
use crate::Error;
use crate::error::{equal, in_range};
use crate::wire::{self, Reader};

/// Length of a digest, bytes.
pub const DIGEST_BYTES: usize = 8;
/// Longest entry, bytes.
pub const LOG_ENTRY_BYTES_MAX: usize = 1 << 26;
/// Length of a store's id, bytes.
pub const STORE_ID_BYTES: usize = 16;

const BATCH: u8 = 1;
const NAMESPACE: u8 = 2;
const REWRITES: u8 = 3;
const TRUNCATED: u8 = 4;
const PROMOTED: u8 = 5;
const TIMED_BATCH: u8 = 6;
const RETENTION: u8 = 7;
const INDEX: u8 = 8;
const LATEST: u8 = 9;

const WRITES_BODY: u8 = 0;
const WRITES_DELETION: u8 = 1;
const REMOVES: u8 = 2;
const PURGES: u8 = 3;
const PURGES_VERSIONS: u8 = 4;
const SETS_VALUES: u8 = 5;
const WRITES_PIECES: u8 = 6;
/// Added to the kind of an operation: its record has a time of its own, or one at which it expires, or its key has
/// index values.
const OWN_TIME: u8 = 16;
const EXPIRES: u8 = 32;
const HAS_VALUES: u8 = 64;

/// First bytes of BLAKE3 over an entry and the digest of the entry before. Two logs whose entries
/// have the same digest are equal up to there.
pub type Digest = [u8; DIGEST_BYTES];

/// The time from one promotion to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Epoch {
    /// One more than that of the epoch before. 0 before a replica knows.
    pub number: u64,
    /// Random, so that two replicas promoted to the same number are not in the same epoch.
    pub id: u64,
}

impl Epoch {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        wire::put_varint(out, self.number);
        wire::put_u64(out, self.id);
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let number = reader.varint("epoch")?;
        let id = reader.u64("what names an epoch")?;
        Ok(Epoch { number, id })
    }
}

/// The effect of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogChange {
    /// Wrote a record with a body. `prior` is an older record that it resembles, 0 if there is
    /// none: the key's latest until then, or the one that the caller named.
    Body {
        /// Its number, less than that of the record.
        prior: u64,
        /// Whether the body is in pieces.
        in_pieces: bool,
    },
    /// Wrote a record that marks the key as deleted.
    Deletion,
    /// Removed a key whose versions are not kept.
    Removal,
    /// Removed a key with all its versions.
    Purge,
    /// Removed versions of a key, of which the latest is none.
    PurgeVersions {
        /// The first, from 1.
        from: u32,
        /// The last.
        to: u32,
    },
    /// Set the index values of a key, without a new version.
    IndexValues,
}

impl LogChange {
    /// Whether it wrote a record, which takes a number.
    pub fn writes(self) -> bool {
        matches!(self, LogChange::Body { .. } | LogChange::Deletion)
    }
}

/// An operation of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOperation {
    /// Number of the namespace.
    pub namespace: u32,
    /// The effect.
    pub change: LogChange,
    /// The time that was given to the record, milliseconds since 1970; 0 if it has that of the batch.
    pub time: u64,
    /// When the record expires, milliseconds since 1970; 0 if no time was given.
    pub expires: u64,
    /// The index values that the key has from then on.
    pub values: IndexValues,
    /// The key.
    pub key: Vec<u8>,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogEntry {
    /// A batch. The records that it wrote have consecutive numbers from `record` on.
    Batch {
        /// The next number before the batch, even if the batch wrote no record.
        record: u64,
        /// When it was committed, milliseconds since 1970; 0 in logs from before there were times.
        time: u64,
        /// Its operations, at least one.
        operations: Vec<LogOperation>,
    },
    /// A namespace was made, with the next number.
    Namespace {
        /// Whether it keeps versions.
        versions_kept: bool,
        /// Its name.
        name: String,
    },
    /// Another retention was set for a namespace.
    Retention {
        /// Number of the namespace.
        namespace: u32,
        /// What it keeps from now on.
        retention: RetentionEntry,
    },
    /// The latest versions of a namespace are stored in another way.
    Latest {
        /// Number of the namespace.
        namespace: u32,
        /// How they are stored from now on.
        latest: LatestEntry,
    },
    /// An index was made, with the next number of its namespace.
    Index {
        /// Number of the namespace.
        namespace: u32,
        /// Whether each value is of one key at most.
        unique: bool,
        /// Its name.
        name: String,
    },
    /// Records became deltas of newer ones, or were stored whole again.
    Rewrites {
        /// Mean distance of the positions at which the encoder searched for copies.
        interval: u8,
        /// Records and bases, ascending by record. One that is stored whole has itself for a base.
        rewrites: Vec<(u64, u64)>,
    },
    /// Entries before this position were removed.
    Truncated {
        /// The first that was kept.
        first: u64,
    },
    /// A replica became the primary.
    Promoted {
        /// The epoch that began.
        epoch: Epoch,
    },
}

impl LogEntry {
    /// Appends the entry without digest and checksum.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a value that no decoder accepts. Discard the appended bytes then.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        match self {
            LogEntry::Batch {
                record,
                time,
                operations,
            } => {
                in_range("operations of a log entry", operations.len() as u64, 1, u64::MAX)?;
                in_range("record number", *record, 1, NUMBER_MAX)?;
                in_range("time of a batch", *time, 0, TIME_MAX)?;
                let is_timed = *time > 0;
                out.push(if is_timed { TIMED_BATCH } else { BATCH });
                wire::put_varint(out, *record);
                if is_timed {
                    wire::put_varint(out, *time);
                }
                put_operations(out, *record, operations, is_timed)?;
            }
            LogEntry::Retention { namespace, retention } => {
                in_range("record namespace", (*namespace).into(), 1, u32::MAX.into())?;
                out.push(RETENTION);
                wire::put_varint(out, (*namespace).into());
                retention.put(out)?;
            }
            LogEntry::Latest { namespace, latest } => {
                in_range("record namespace", (*namespace).into(), 1, u32::MAX.into())?;
                out.push(LATEST);
                wire::put_varint(out, (*namespace).into());
                latest.put(out);
            }
            LogEntry::Index {
                namespace,
                unique,
                name,
            } => {
                in_range("record namespace", (*namespace).into(), 1, u32::MAX.into())?;
                in_range("name of an index", name.len() as u64, 1, NAME_BYTES_MAX as u64)?;
                out.push(INDEX);
                wire::put_varint(out, (*namespace).into());
                out.push(u8::from(*unique));
                wire::put_bytes(out, name.as_bytes());
            }
            LogEntry::Namespace { versions_kept, name } => {
                in_range("name of a namespace", name.len() as u64, 1, NAME_BYTES_MAX as u64)?;
                out.extend_from_slice(&[NAMESPACE, u8::from(*versions_kept)]);
                wire::put_bytes(out, name.as_bytes());
            }
            LogEntry::Rewrites { interval, rewrites } => {
                in_range("rewrites of a log entry", rewrites.len() as u64, 1, u64::MAX)?;
                out.extend_from_slice(&[REWRITES, *interval]);
                let mut before = 0;
                for &(number, base) in rewrites {
                    in_range("record number", number, before + 1, NUMBER_MAX)?;
                    in_range("base of a record", base, number, NUMBER_MAX)?;
                    wire::put_varint(out, number - before);
                    wire::put_varint(out, base - number);
                    before = number;
                }
            }
            LogEntry::Truncated { first } => {
                out.push(TRUNCATED);
                wire::put_varint(out, *first);
            }
            LogEntry::Promoted { epoch } => {
                out.push(PROMOTED);
                epoch.put(out);
            }
        }
        in_range("log entry", (out.len() - start) as u64, 1, LOG_ENTRY_BYTES_MAX as u64)?;
        Ok(())
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// The fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        in_range("log entry", bytes.len() as u64, 1, LOG_ENTRY_BYTES_MAX as u64)?;
        let mut reader = Reader::new(bytes);
        let entry = match reader.u8("kind of a log entry")? {
            kind @ (BATCH | TIMED_BATCH) => {
                let record = reader.varint_in("record number", 1, NUMBER_MAX)?;
                let is_timed = kind == TIMED_BATCH;
                let time = match is_timed {
                    true => reader.varint_in("time of a batch", 1, TIME_MAX)?,
                    false => 0,
                };
                let operations = operations(record, &mut reader, is_timed)?;
                LogEntry::Batch {
                    record,
                    time,
                    operations,
                }
            }
            RETENTION => {
                let namespace = reader.varint_in("record namespace", 1, u32::MAX.into())? as u32;
                let retention = RetentionEntry::read(&mut reader)?;
                LogEntry::Retention { namespace, retention }
            }
            LATEST => {
                let namespace = reader.varint_in("record namespace", 1, u32::MAX.into())? as u32;
                let latest = LatestEntry::read(&mut reader)?;
                LogEntry::Latest { namespace, latest }
            }
            INDEX => {
                let namespace = reader.varint_in("record namespace", 1, u32::MAX.into())? as u32;
                let unique = flag(&mut reader, "flags of an index")?;
                let name = reader.text("name of an index", NAME_BYTES_MAX)?;
                in_range("name of an index", name.len() as u64, 1, NAME_BYTES_MAX as u64)?;
                let name = name.to_owned();
                LogEntry::Index {
                    namespace,
                    unique,
                    name,
                }
            }
            NAMESPACE => {
                let versions_kept = flag(&mut reader, "flags of a namespace")?;
                let name = reader.text("name of a namespace", NAME_BYTES_MAX)?;
                in_range("name of a namespace", name.len() as u64, 1, NAME_BYTES_MAX as u64)?;
                let name = name.to_owned();
                LogEntry::Namespace { versions_kept, name }
            }
            REWRITES => {
                let interval = reader.u8("interval of rewrites")?;
                let mut rewrites = Vec::new();
                let mut before = 0;
                while rewrites.is_empty() || reader.remaining() > 0 {
                    let number = before + reader.varint_in("record number", 1, NUMBER_MAX - before)?;
                    let distance = reader.varint_in("base of a record", 0, NUMBER_MAX.saturating_sub(number))?;
                    rewrites.push((number, number + distance));
                    before = number;
                }
                LogEntry::Rewrites { interval, rewrites }
            }
            TRUNCATED => {
                let first = reader.varint("first position")?;
                LogEntry::Truncated { first }
            }
            PROMOTED => {
                let epoch = Epoch::read(&mut reader)?;
                LogEntry::Promoted { epoch }
            }
            found => {
                let (field, found) = ("kind of a log entry", found.into());
                return Err(Error::Unknown { field, found });
            }
        };
        reader.finish("log entry")?;
        Ok(entry)
    }

    /// Returns the entry as stored at a position, and its digest, given that of the entry before.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn seal(&self, position: u64, before: Digest) -> Result<(Vec<u8>, Digest), Error> {
        let mut out = Vec::new();
        self.encode(&mut out)?;
        let digest = log_digest(before, &out);
        out.extend_from_slice(&digest);
        Ok((closed(Table::Oplog, &position.to_be_bytes(), out), digest))
    }
}

/// Returns the content of an entry stored at a position, which [`LogEntry::decode`] reads, and its
/// digest.
///
/// # Errors
///
/// [`Error::Check`] if a byte changed, or it was stored at another position.
pub fn open_log_entry(position: u64, bytes: &[u8]) -> Result<(&[u8], Digest), Error> {
    let mut reader = opened("log entry", Table::Oplog, &position.to_be_bytes(), bytes)?;
    let length = reader.remaining().saturating_sub(DIGEST_BYTES);
    let entry = reader.take("log entry", length)?;
    Ok((entry, reader.array("digest of a log entry")?))
}

/// Returns the digest of an entry, given that of the entry before.
pub fn log_digest(before: Digest, entry: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before).update(entry);
    let mut digest = Digest::default();
    digest.copy_from_slice(&hasher.finalize().as_bytes()[..DIGEST_BYTES]);
    digest
}

fn put_operations(out: &mut Vec<u8>, record: u64, operations: &[LogOperation], is_timed: bool) -> Result<(), Error> {
    let mut number = record;
    for operation in operations {
        let LogOperation {
            namespace,
            change,
            time,
            expires,
            values,
            key,
        } = operation;
        in_range("record namespace", (*namespace).into(), 1, u32::MAX.into())?;
        in_range("record key", key.len() as u64, 0, KEY_BYTES_MAX as u64)?;
        let may = |allowed| if is_timed && allowed { TIME_MAX } else { 0 };
        in_range("time of a record", *time, 0, may(change.writes()))?;
        let has_body = matches!(change, LogChange::Body { .. });
        in_range("time at which a record expires", *expires, 0, may(has_body))?;
        let may_have_values = is_timed && (has_body || matches!(change, LogChange::IndexValues));
        in_range(
            "index values of an operation",
            (!values.is_empty()).into(),
            0,
            may_have_values.into(),
        )?;
        let kind = match change {
            LogChange::Body { in_pieces: false, .. } => WRITES_BODY,
            LogChange::Body { in_pieces: true, .. } => WRITES_PIECES,
            LogChange::Deletion => WRITES_DELETION,
            LogChange::Removal => REMOVES,
            LogChange::Purge => PURGES,
            LogChange::PurgeVersions { .. } => PURGES_VERSIONS,
            LogChange::IndexValues => SETS_VALUES,
        };
        in_range("kind of an operation", kind.into(), 0, kind_max(is_timed).into())?;
        wire::put_varint(out, (*namespace).into());
        let flag = |value: u64, bit| if value > 0 { bit } else { 0 };
        let has_values = flag(values.len() as u64, HAS_VALUES);
        out.push(kind | flag(*time, OWN_TIME) | flag(*expires, EXPIRES) | has_values);
        match *change {
            LogChange::Body { prior, .. } => {
                in_range("record before", prior, 0, number - 1)?;
                wire::put_varint(out, if prior == 0 { 0 } else { number - prior });
            }
            LogChange::PurgeVersions { from, to } => {
                in_range("purged version", from.into(), 1, to.into())?;
                wire::put_varint(out, from.into());
                wire::put_varint(out, (to - from).into());
            }
            LogChange::Deletion | LogChange::Removal | LogChange::Purge | LogChange::IndexValues => {}
        }
        for &value in [time, expires].into_iter().filter(|&&value| value > 0) {
            wire::put_varint(out, value);
        }
        if !values.is_empty() {
            put_values(out, values)?;
        }
        wire::put_bytes(out, key);
        number += u64::from(change.writes());
    }
    in_range("record number", number - 1, 0, NUMBER_MAX)?;
    Ok(())
}

/// Returns the largest kind of an operation, without flags.
fn kind_max(is_timed: bool) -> u8 {
    if is_timed { WRITES_PIECES } else { PURGES }
}

fn operations(record: u64, reader: &mut Reader<'_>, is_timed: bool) -> Result<Vec<LogOperation>, Error> {
    let mut operations = Vec::new();
    let mut number = record;
    while operations.is_empty() || reader.remaining() > 0 {
        let namespace = reader.varint_in("record namespace", 1, u32::MAX.into())? as u32;
        let kind = reader.u8("kind of an operation")?;
        let flags = kind & (OWN_TIME | EXPIRES | HAS_VALUES);
        let unknown = || {
            let (field, found) = ("kind of an operation", kind.into());
            Error::Unknown { field, found }
        };
        let change = match kind & !flags {
            found @ (WRITES_BODY | WRITES_PIECES) if found == WRITES_BODY || is_timed => {
                let distance = reader.varint_in("record before", 0, number - 1)?;
                let prior = if distance == 0 { 0 } else { number - distance };
                let in_pieces = found == WRITES_PIECES;
                LogChange::Body { prior, in_pieces }
            }
            WRITES_DELETION => LogChange::Deletion,
            REMOVES => LogChange::Removal,
            PURGES => LogChange::Purge,
            PURGES_VERSIONS if is_timed => {
                let from = reader.varint_in("purged version", 1, u32::MAX.into())?;
                let to = from + reader.varint_in("purged version", 0, u64::from(u32::MAX) - from)?;
                let (from, to) = (from as u32, to as u32);
                LogChange::PurgeVersions { from, to }
            }
            SETS_VALUES if is_timed => LogChange::IndexValues,
            _ => return Err(unknown()),
        };
        let allowed = match change {
            LogChange::Body { .. } if is_timed => OWN_TIME | EXPIRES | HAS_VALUES,
            LogChange::Deletion if is_timed => OWN_TIME,
            LogChange::IndexValues => HAS_VALUES,
            _ => 0,
        };
        if flags & !allowed != 0 {
            return Err(unknown());
        }
        let mut flagged = |bit, field| match flags & bit {
            0 => Ok(0),
            _ => reader.varint_in(field, 1, TIME_MAX),
        };
        let time = flagged(OWN_TIME, "time of a record")?;
        let expires = flagged(EXPIRES, "time at which a record expires")?;
        let mut values = IndexValues::new();
        if flags & HAS_VALUES != 0 {
            read_values(reader, |index, value| {
                values.insert((index, value.to_vec()));
            })?;
        }
        let key = reader.bytes("record key", KEY_BYTES_MAX)?.to_vec();
        operations.push(LogOperation {
            namespace,
            change,
            time,
            expires,
            values,
            key,
        });
        if change.writes() {
            in_range("record number", number, 1, NUMBER_MAX)?;
            number += 1;
        }
    }
    Ok(operations)
}

/// The role of a store among those with the same log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It repeats the operations of a primary.
    Replica,
    /// It was a primary, and learned of a primary of a later epoch.
    Fenced {
        /// The later epoch.
        by: u64,
    },
    /// It is copying another store, and has only a part of it.
    Incomplete {
        /// The id of the transfer; 0 before it is known.
        transfer: u64,
        /// The table of the last row that it has; 0 before the first.
        table: u8,
        /// The key.
        key: Vec<u8>,
    },
}

/// The state of the log: the entry `log` of the table `meta`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogState {
    /// The store's role.
    pub role: Role,
    /// The id of the store and of its replicas; zeros before a replica knows it.
    pub store: [u8; STORE_ID_BYTES],
    /// The epoch, which rises when a replica is promoted.
    pub epoch: Epoch,
    /// Position of the first entry that is kept.
    pub first: u64,
    /// Position of the next entry.
    pub next: u64,
    /// Kept entries, or the next one, name the records from this number on.
    pub record: u64,
    /// Digest of the entry before the first.
    pub before: Digest,
    /// Digest of the last entry.
    pub digest: Digest,
}

impl LogState {
    /// Returns the state of a new log, where `record` is the next record.
    pub fn new(role: Role, store: [u8; STORE_ID_BYTES], record: u64) -> Self {
        LogState {
            role,
            store,
            epoch: Epoch::default(),
            first: 1,
            next: 1,
            record,
            before: Digest::default(),
            digest: Digest::default(),
        }
    }

    /// Returns the entry as stored under [`LOG_KEY`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.role {
            Role::Primary => out.push(0),
            Role::Replica => out.push(1),
            Role::Fenced { by } => {
                out.push(2);
                wire::put_varint(&mut out, *by);
            }
            Role::Incomplete { transfer, table, key } => {
                out.push(3);
                wire::put_u64(&mut out, *transfer);
                out.push(*table);
                wire::put_bytes(&mut out, key);
            }
        }
        out.extend_from_slice(&self.store);
        self.epoch.put(&mut out);
        for number in [self.first, self.next - self.first, self.record] {
            wire::put_varint(&mut out, number);
        }
        out.extend_from_slice(&self.before);
        out.extend_from_slice(&self.digest);
        closed(Table::Meta, LOG_KEY, out)
    }

    /// Reads the entry stored under [`LOG_KEY`].
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = opened("log", Table::Meta, LOG_KEY, bytes)?;
        let role = match reader.u8("role of a store")? {
            0 => Role::Primary,
            1 => Role::Replica,
            2 => Role::Fenced {
                by: reader.varint("epoch")?,
            },
            3 => Role::Incomplete {
                transfer: reader.u64("what names a transfer")?,
                table: reader.u8("table")?,
                key: reader.bytes("key of a table", INDEX_ROW_BYTES_MAX)?.to_vec(),
            },
            found => {
                let (field, found) = ("role of a store", found.into());
                return Err(Error::Unknown { field, found });
            }
        };
        let store = reader.array("what names a store")?;
        let epoch = Epoch::read(&mut reader)?;
        let first = reader.varint_in("first position", 1, NUMBER_MAX)?;
        let next = first + reader.varint_in("next position", 0, NUMBER_MAX - first)?;
        let state = LogState {
            role,
            store,
            epoch,
            first,
            next,
            record: reader.varint_in("first record of a log", 1, NUMBER_MAX + 1)?,
            before: reader.array("digest of a log entry")?,
            digest: reader.array("digest of a log entry")?,
        };
        reader.finish("log")?;
        if state.first == state.next {
            equal(
                "digest of a log entry",
                u64::from_le_bytes(state.before),
                u64::from_le_bytes(state.digest),
            )?;
        }
        Ok(state)
    }
}
