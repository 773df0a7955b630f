//! The messages by which one store becomes a copy of another. `docs/replication.md` describes every
//! byte.
//!
//! A message ends with a checksum. Lengths are checked against limits before memory is taken.

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, compress_bound};

use super::index::INDEX_ROW_BYTES_MAX;
use super::oplog::{DIGEST_BYTES, Digest, Epoch, LOG_ENTRY_BYTES_MAX, STORE_ID_BYTES};
use super::{BODY_BYTES_MAX, NUMBER_MAX, RECORD_BYTES_MAX};
use crate::Error;
use crate::error::{equal, in_range};
use crate::frame::{check_packed, decompressing_failed};
use crate::wire::{self, Reader};

/// Longest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 29;
/// Most bytes that a message holds, before they are compressed.
const RAW_BYTES_MAX: u64 = 1 << 29;
/// Most entries, or bodies, of a message.
pub const PARTS_MAX: u64 = 1 << 22;
/// The magic of a message: four letters and the version.
const MAGIC: [u8; 5] = *b"ibrp\x01";
const CHECK_BYTES: usize = 8;
/// Longest key of a table: that of a row of an index.
const TABLE_KEY_BYTES_MAX: usize = INDEX_ROW_BYTES_MAX;

const REQUEST_ENTRIES: u8 = 1;
const REQUEST_TRANSFER: u8 = 2;
const REQUEST_FENCE: u8 = 4;
const ANSWER_ENTRIES: u8 = 16;
const ANSWER_TAKE_ALL: u8 = 17;
const ANSWER_CHUNK: u8 = 18;
const ANSWER_REFUSED: u8 = 19;
const ANSWER_FENCED: u8 = 22;

/// A request of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The id of the store; zeros if the replica does not know it.
    pub store: [u8; STORE_ID_BYTES],
    /// Its epoch.
    pub epoch: Epoch,
    /// The query.
    pub query: Query,
}

/// The query of a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Entries of the log from a position on.
    Entries {
        /// The position.
        next: u64,
        /// Digest of the entry before it.
        digest: Digest,
        /// Whether to send bodies without deltas, because it lacks a base.
        whole: bool,
    },
    /// The whole store, from an entry on.
    Transfer {
        /// The id of the transfer; 0 for a new one.
        transfer: u64,
        /// Table of the entry after which to continue; 0 for the beginning.
        table: u8,
        /// Its key.
        key: Vec<u8>,
    },
    /// That a primary writes nothing more, because another store takes its place.
    Fence {
        /// The epoch that the other store is the primary of, or will be.
        by: u64,
    },
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Log entries, from the requested position.
    Entries(LogBatch),
    /// The entries are gone or differ: the replica has to copy the whole store.
    TransferRequired {
        /// The id of the store.
        store: [u8; STORE_ID_BYTES],
        /// The sender's epoch.
        epoch: Epoch,
        /// The requested position.
        asked: u64,
    },
    /// A part of the whole store.
    TransferPage(TransferPage),
    /// No data.
    Refused(Refusal),
    /// The store writes nothing more.
    Fenced(Fenced),
}

/// A store that was told to write nothing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced {
    /// The id of the store.
    pub store: [u8; STORE_ID_BYTES],
    /// Its epoch.
    pub epoch: Epoch,
    /// The epoch for which it was told before; 0 if it was a primary until now.
    pub before: u64,
    /// Position after its last log entry.
    pub next: u64,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The replica has entries that this store lacks.
    Ahead,
    /// The replica is a copy of another store.
    OtherStore,
    /// The replica follows another primary of the same epoch.
    OtherEpoch,
    /// The replica knows a later epoch: this store is no longer the primary.
    Fenced,
    /// This store is incomplete itself.
    Incomplete,
    /// This store is a replica, and can't be fenced.
    NotPrimary,
    /// This store is the primary of the epoch for which it should be fenced, or of a later one.
    LaterEpoch,
}

/// A batch of log entries with their bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogBatch {
    /// The id of the store.
    pub store: [u8; STORE_ID_BYTES],
    /// The sender's epoch.
    pub epoch: Epoch,
    /// Position of the first.
    pub from: u64,
    /// Position after the sender's last one.
    pub head: u64,
    /// Digest of the last one that is sent, or of the one before `from` if none is.
    pub digest: Digest,
    /// First bytes of BLAKE3 over the length (u64) and the digest of each body.
    pub bodies_digest: Digest,
    /// The compressed [`BatchContents`]; empty if no entry is sent.
    pub packed: Vec<u8>,
    /// Length before compression.
    pub length: u64,
}

/// A page of a transfer: rows of the store's tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferPage {
    /// The id of the store.
    pub store: [u8; STORE_ID_BYTES],
    /// The sender's epoch.
    pub epoch: Epoch,
    /// The id of the transfer.
    pub transfer: u64,
    /// Table of the entry that it follows; 0 for the beginning.
    pub table: u8,
    /// Its key.
    pub key: Vec<u8>,
    /// With the last chunk: the entry `log` of the sender's table `meta`; else empty.
    pub log: Vec<u8>,
    /// The compressed [`PageRows`].
    pub packed: Vec<u8>,
    /// Length before compression.
    pub length: u64,
}

/// A body in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentBody<'a> {
    /// The record that the bytes are a delta against; 0 if they are the body.
    pub base: u64,
    /// The body, or the delta.
    pub bytes: &'a [u8],
}

/// The decompressed contents of a [`LogBatch`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchContents<'a> {
    /// Entries, as [`LogEntry::decode`](super::LogEntry::decode) reads them.
    pub entries: Vec<&'a [u8]>,
    /// The bodies of the records that the entries write, in their order.
    pub bodies: Vec<SentBody<'a>>,
}

/// A row of a table: the table's number, key and value.
pub type TableRow<'a> = (u8, &'a [u8], &'a [u8]);

pub(super) fn open<'a>(field: &'static str, bytes: &'a [u8]) -> Result<Reader<'a>, Error> {
    let shortest = MAGIC.len() + 1 + CHECK_BYTES;
    in_range(field, bytes.len() as u64, shortest as u64, MESSAGE_BYTES_MAX as u64)?;
    let (message, stated) = bytes.split_at(bytes.len() - CHECK_BYTES);
    let computed = blake3::hash(message);
    let computed = &computed.as_bytes()[..CHECK_BYTES];
    if computed != stated {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_be_bytes);
        let (expected, found) = (number(computed), number(stated));
        return Err(Error::Check { field, expected, found });
    }
    let mut reader = Reader::new(message);
    let magic: [u8; MAGIC.len()] = reader.array(field)?;
    if magic != MAGIC {
        let found = magic.iter().fold(0, |found, &byte| found << 8 | u64::from(byte));
        return Err(Error::Unknown { field, found });
    }
    Ok(reader)
}

pub(super) fn close(mut out: Vec<u8>) -> Vec<u8> {
    let hash = blake3::hash(&out);
    out.extend_from_slice(&hash.as_bytes()[..CHECK_BYTES]);
    out
}

/// Puts the beginning of a message, and their length, before bytes.
fn before(mut out: Vec<u8>, bytes: Vec<u8>) -> Vec<u8> {
    wire::put_varint(&mut out, bytes.len() as u64);
    joined(out, bytes, CHECK_BYTES)
}

/// Puts one after the other in the memory of the second, which may be long, with room for some more bytes.
fn joined(first: Vec<u8>, mut second: Vec<u8>, room: usize) -> Vec<u8> {
    second.reserve_exact(first.len() + room);
    second.splice(0..0, first);
    second
}

pub(super) fn begin(kind: u8, store: &[u8; STORE_ID_BYTES], epoch: Epoch) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(kind);
    out.extend_from_slice(store);
    epoch.put(&mut out);
    out
}

impl Request {
    /// Returns the message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match &self.query {
            Query::Entries { next, digest, whole } => {
                let mut out = begin(REQUEST_ENTRIES, &self.store, self.epoch);
                wire::put_varint(&mut out, *next);
                out.extend_from_slice(digest);
                out.push(u8::from(*whole));
                close(out)
            }
            Query::Transfer { transfer, table, key } => {
                let mut out = begin(REQUEST_TRANSFER, &self.store, self.epoch);
                wire::put_u64(&mut out, *transfer);
                out.push(*table);
                wire::put_bytes(&mut out, key);
                close(out)
            }
            Query::Fence { by } => {
                let mut out = begin(REQUEST_FENCE, &self.store, self.epoch);
                wire::put_varint(&mut out, *by);
                close(out)
            }
        }
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = open("request", bytes)?;
        let kind = reader.u8("kind of a request")?;
        let store = reader.array("what names a store")?;
        let epoch = Epoch::read(&mut reader)?;
        let query = match kind {
            REQUEST_ENTRIES => Query::Entries {
                next: reader.varint_in("position", 1, NUMBER_MAX)?,
                digest: reader.array::<DIGEST_BYTES>("digest of a log entry")?,
                whole: super::entry::flag(&mut reader, "whether bodies are whole")?,
            },
            REQUEST_TRANSFER => Query::Transfer {
                transfer: reader.u64("what names a transfer")?,
                table: reader.u8("table")?,
                key: reader.bytes("key of a table", TABLE_KEY_BYTES_MAX)?.to_vec(),
            },
            REQUEST_FENCE => Query::Fence {
                by: reader.varint("epoch")?,
            },
            found => {
                let (field, found) = ("kind of a request", found.into());
                return Err(Error::Unknown { field, found });
            }
        };
        reader.finish("request")?;
        Ok(Request { store, epoch, query })
    }
}

impl Response {
    /// Returns the message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.clone().into_bytes()
    }

    /// Returns the message as bytes, in the memory of what is compressed in it.
    pub fn into_bytes(self) -> Vec<u8> {
        let no_store = [0; STORE_ID_BYTES];
        match self {
            Response::Entries(sent) => {
                let mut out = begin(ANSWER_ENTRIES, &sent.store, sent.epoch);
                wire::put_varint(&mut out, sent.from);
                wire::put_varint(&mut out, sent.head);
                out.extend_from_slice(&sent.digest);
                out.extend_from_slice(&sent.bodies_digest);
                wire::put_varint(&mut out, sent.length);
                close(before(out, sent.packed))
            }
            Response::TransferRequired { store, epoch, asked } => {
                let mut out = begin(ANSWER_TAKE_ALL, &store, epoch);
                wire::put_varint(&mut out, asked);
                close(out)
            }
            Response::TransferPage(chunk) => {
                let mut out = begin(ANSWER_CHUNK, &chunk.store, chunk.epoch);
                wire::put_u64(&mut out, chunk.transfer);
                out.push(chunk.table);
                wire::put_bytes(&mut out, &chunk.key);
                wire::put_bytes(&mut out, &chunk.log);
                wire::put_varint(&mut out, chunk.length);
                close(before(out, chunk.packed))
            }
            Response::Refused(refused) => {
                let mut out = begin(ANSWER_REFUSED, &no_store, Epoch::default());
                out.push(match refused {
                    Refusal::Ahead => 1,
                    Refusal::OtherStore => 2,
                    Refusal::OtherEpoch => 3,
                    Refusal::Fenced => 4,
                    Refusal::Incomplete => 5,
                    Refusal::NotPrimary => 6,
                    Refusal::LaterEpoch => 7,
                });
                close(out)
            }
            Response::Fenced(fenced) => {
                let mut out = begin(ANSWER_FENCED, &fenced.store, fenced.epoch);
                wire::put_varint(&mut out, fenced.before);
                wire::put_varint(&mut out, fenced.next);
                close(out)
            }
        }
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = open("answer", bytes)?;
        let kind = reader.u8("kind of an answer")?;
        let store = reader.array("what names a store")?;
        let epoch = Epoch::read(&mut reader)?;
        let answer = match kind {
            ANSWER_ENTRIES => Response::Entries(LogBatch {
                store,
                epoch,
                from: reader.varint_in("position", 1, NUMBER_MAX)?,
                head: reader.varint_in("position", 1, NUMBER_MAX)?,
                digest: reader.array("digest of a log entry")?,
                bodies_digest: reader.array("checksum of bodies")?,
                length: reader.varint_in("length of contents", 0, RAW_BYTES_MAX)?,
                packed: reader.bytes("contents", MESSAGE_BYTES_MAX)?.to_vec(),
            }),
            ANSWER_TAKE_ALL => Response::TransferRequired {
                store,
                epoch,
                asked: reader.varint_in("position", 1, NUMBER_MAX)?,
            },
            ANSWER_CHUNK => Response::TransferPage(TransferPage {
                store,
                epoch,
                transfer: reader.u64("what names a transfer")?,
                table: reader.u8("table")?,
                key: reader.bytes("key of a table", TABLE_KEY_BYTES_MAX)?.to_vec(),
                log: reader.bytes("log", 1 << 13)?.to_vec(),
                length: reader.varint_in("length of contents", 0, RAW_BYTES_MAX)?,
                packed: reader.bytes("contents", MESSAGE_BYTES_MAX)?.to_vec(),
            }),
            ANSWER_REFUSED => Response::Refused(match reader.u8("reason")? {
                1 => Refusal::Ahead,
                2 => Refusal::OtherStore,
                3 => Refusal::OtherEpoch,
                4 => Refusal::Fenced,
                5 => Refusal::Incomplete,
                6 => Refusal::NotPrimary,
                7 => Refusal::LaterEpoch,
                found => {
                    let (field, found) = ("reason", found.into());
                    return Err(Error::Unknown { field, found });
                }
            }),
            ANSWER_FENCED => Response::Fenced(Fenced {
                store,
                epoch,
                before: reader.varint("epoch")?,
                next: reader.varint_in("position", 1, NUMBER_MAX)?,
            }),
            found => {
                let (field, found) = ("kind of an answer", found.into());
                return Err(Error::Unknown { field, found });
            }
        };
        reader.finish("answer")?;
        Ok(answer)
    }
}

fn compress(raw: &[u8], level: i32) -> Result<Vec<u8>, Error> {
    in_range("length of contents", raw.len() as u64, 1, RAW_BYTES_MAX)?;
    let mut context = CCtx::create();
    // Levels beyond those that zstd has are brought into its range.
    let _ = context.set_parameter(CParameter::CompressionLevel(level));
    let failed = |code| Error::Zstd {
        field: "compressing a message",
        reason: zstd_safe::get_error_name(code),
    };
    // 5 bytes for each entry; zstd lowers what is too much for a short message. Its own choice for 1 MiB at level 9
    // takes 11 MB instead of 1.3, makes messages 0.3 % smaller, and takes up to twice as long.
    let hash_log = (raw.len() / 8).max(1).ilog2().clamp(18, 22);
    context.set_parameter(CParameter::HashLog(hash_log)).map_err(failed)?;
    let mut packed = Vec::with_capacity(compress_bound(raw.len()));
    context.compress2(&mut packed, raw).map_err(failed)?;
    Ok(packed)
}

/// Decompresses the output of [`compress`]. Memory is taken only for what the bytes can produce.
fn decompress(packed: &[u8], length: u64) -> Result<Vec<u8>, Error> {
    in_range("length of contents", length, 1, RAW_BYTES_MAX)?;
    check_packed(packed, length)?;
    let mut raw = Vec::with_capacity(length as usize);
    let produced = DCtx::create()
        .decompress(&mut raw, packed)
        .map_err(decompressing_failed)?;
    equal("length of contents", length, produced as u64)?;
    Ok(raw)
}

/// The contents of a message, before they are compressed.
#[derive(Debug)]
pub struct RawContents(Vec<u8>);

impl RawContents {
    /// Puts entries together with bodies, in whose memory. `parts` are the base and the length of each body.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more entries or bodies than a message can hold.
    pub fn new(entries: &[impl AsRef<[u8]>], parts: &[(u64, usize)], bodies: Vec<u8>) -> Result<Self, Error> {
        for (field, count) in [
            ("entries of a message", entries.len()),
            ("bodies of a message", parts.len()),
        ] {
            in_range(field, count as u64, 0, PARTS_MAX)?;
        }
        let mut raw = Vec::new();
        wire::put_varint(&mut raw, entries.len() as u64);
        for entry in entries {
            wire::put_bytes(&mut raw, entry.as_ref());
        }
        wire::put_varint(&mut raw, parts.len() as u64);
        for &(base, length) in parts {
            wire::put_varint(&mut raw, base);
            wire::put_varint(&mut raw, length as u64);
        }
        Ok(RawContents(joined(raw, bodies, 0)))
    }

    /// Compresses the contents by zstd at this level. Returns them and their length before that, bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more than a message can hold; [`Error::Zstd`].
    pub fn compress(self, level: i32) -> Result<(Vec<u8>, u64), Error> {
        Ok((compress(&self.0, level)?, self.0.len() as u64))
    }
}

/// Decompresses contents into `raw` and returns views of them.
///
/// # Errors
///
/// The fault in the bytes.
pub fn decompress_contents<'a>(packed: &[u8], length: u64, raw: &'a mut Vec<u8>) -> Result<BatchContents<'a>, Error> {
    *raw = decompress(packed, length)?;
    let mut reader = Reader::new(raw);
    let count = reader.count("entries of a message", PARTS_MAX, 1)?;
    let mut contents = BatchContents::default();
    for _ in 0..count {
        contents.entries.push(reader.bytes("log entry", LOG_ENTRY_BYTES_MAX)?);
    }
    let count = reader.count("bodies of a message", PARTS_MAX, 2)?;
    let mut bodies = Vec::new();
    for _ in 0..count {
        let base = reader.varint_in("base of a body", 0, NUMBER_MAX)?;
        bodies.push((
            base,
            reader.varint_in("length of a body", 0, BODY_BYTES_MAX as u64)? as usize,
        ));
    }
    for (base, length) in bodies {
        let bytes = reader.take("body", length)?;
        contents.bodies.push(SentBody { base, bytes });
    }
    reader.finish("contents")?;
    Ok(contents)
}

/// The rows of a page, on their way into a message.
///
/// ```
/// use ibid_format::record::{PageRows, decompress_rows};
///
/// let mut rows = PageRows::default();
/// rows.push((2, b"key", b"value"));
/// let (packed, length) = rows.finish().compress(9)?;
/// assert_eq!(decompress_rows(&packed, length, &mut Vec::new())?, [(2, &b"key"[..], &b"value"[..])]);
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug)]
pub struct PageRows {
    raw: Vec<u8>,
}

impl Default for PageRows {
    fn default() -> Self {
        let raw = vec![0]; // no rows still make some bytes
        PageRows { raw }
    }
}

impl PageRows {
    /// Adds a row.
    pub fn push(&mut self, (table, key, value): TableRow<'_>) {
        self.raw.push(table);
        wire::put_bytes(&mut self.raw, key);
        wire::put_bytes(&mut self.raw, value);
    }

    /// Returns how many bytes the rows have, before they are compressed.
    pub fn bytes(&self) -> usize {
        self.raw.len() - 1
    }

    /// Returns the contents of a message with these rows.
    pub fn finish(self) -> RawContents {
        RawContents(self.raw)
    }
}

/// Decompresses rows into `raw` and returns views of them.
///
/// # Errors
///
/// The fault in the bytes.
pub fn decompress_rows<'a>(packed: &[u8], length: u64, raw: &'a mut Vec<u8>) -> Result<Vec<TableRow<'a>>, Error> {
    *raw = decompress(packed, length)?;
    let mut reader = Reader::new(raw);
    equal("first byte of a chunk", 0, reader.u8("first byte of a chunk")?.into())?;
    let mut pairs = Vec::new();
    while reader.remaining() > 0 {
        in_range("entries of a chunk", pairs.len() as u64, 0, PARTS_MAX - 1)?;
        let table = reader.u8("table")?;
        let key = reader.bytes("key of a table", TABLE_KEY_BYTES_MAX)?;
        pairs.push((
            table,
            key,
            reader.bytes("value of a table", RECORD_BYTES_MAX.max(LOG_ENTRY_BYTES_MAX + 64))?,
        ));
    }
    Ok(pairs)
}
