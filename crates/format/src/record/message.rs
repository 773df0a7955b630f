//! What two stores say to each other, so that one has what the other has. `docs/replication.md`
//! describes every byte.
//!
//! A message ends with a checksum. What it has room for is limited before memory is taken for it.

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, compress_bound};

use super::oplog::{DIGEST_BYTES, Digest, Epoch, LOG_ENTRY_BYTES_MAX, STORE_ID_BYTES};
use super::{BODY_BYTES_MAX, KEY_BYTES_MAX, NUMBER_MAX, RECORD_BYTES_MAX};
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
/// What a message begins with: four letters and the version.
const MAGIC: [u8; 5] = *b"ibrp\x01";
const CHECK_BYTES: usize = 8;
/// Longest key of a table: a namespace's number and the key.
const TABLE_KEY_BYTES_MAX: usize = KEY_BYTES_MAX + 4;

const REQUEST_ENTRIES: u8 = 1;
const REQUEST_TRANSFER: u8 = 2;
const ANSWER_ENTRIES: u8 = 16;
const ANSWER_TAKE_ALL: u8 = 17;
const ANSWER_CHUNK: u8 = 18;
const ANSWER_REFUSED: u8 = 19;

/// What a replica asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What names the store; zeros if it does not know.
    pub store: [u8; STORE_ID_BYTES],
    /// Its epoch.
    pub epoch: Epoch,
    /// What it wants.
    pub query: Query,
}

/// What a replica wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Query {
    /// Entries of the log from a position on.
    Entries {
        /// The position.
        next: u64,
        /// Digest of the entry before it.
        digest: Digest,
        /// Without deltas: it lacks a base.
        whole: bool,
    },
    /// All that there is, after an entry.
    Transfer {
        /// What names the transfer; 0 for a new one.
        transfer: u64,
        /// Table of the entry; 0 for the beginning.
        table: u8,
        /// Its key.
        key: Vec<u8>,
    },
}

/// What it is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// Entries, from the position that was asked for.
    Entries(LogBatch),
    /// They are gone, or were never the same: it has to take all that there is.
    TransferRequired {
        /// What names the store.
        store: [u8; STORE_ID_BYTES],
        /// The sender's epoch.
        epoch: Epoch,
        /// The position that it asked for.
        asked: u64,
    },
    /// A part of all that there is.
    TransferPage(TransferPage),
    /// Nothing.
    Refused(Refusal),
}

/// Why a replica gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has entries that this store has not.
    Ahead,
    /// It is a copy of another store.
    OtherStore,
    /// It has another primary of the same epoch.
    OtherEpoch,
    /// It knows of a later epoch: this store is not the primary any more.
    Fenced,
    /// This store is incomplete itself.
    Incomplete,
}

/// Entries of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogBatch {
    /// What names the store.
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
    /// Of [`compress_contents`]; empty if no entry is sent.
    pub packed: Vec<u8>,
    /// Length before compression.
    pub length: u64,
}

/// A part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferPage {
    /// What names the store.
    pub store: [u8; STORE_ID_BYTES],
    /// The sender's epoch.
    pub epoch: Epoch,
    /// What names the transfer.
    pub transfer: u64,
    /// Table of the entry after which it comes; 0 for the beginning.
    pub table: u8,
    /// Its key.
    pub key: Vec<u8>,
    /// With the last chunk: the entry `log` of the sender's table `meta`; else empty.
    pub log: Vec<u8>,
    /// Of [`compress_rows`].
    pub packed: Vec<u8>,
    /// Length before compression.
    pub length: u64,
}

/// A body, as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentBody<'a> {
    /// The record that the bytes are a delta of; 0 if they are the body.
    pub base: u64,
    /// The body, or the delta.
    pub bytes: &'a [u8],
}

/// Entries and bodies, decompressed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchContents<'a> {
    /// Entries, as [`LogEntry::decode`](super::LogEntry::decode) reads them.
    pub entries: Vec<&'a [u8]>,
    /// One for each record with a body that they name, in their order.
    pub bodies: Vec<SentBody<'a>>,
}

/// An entry of a table: its number, the key and the value.
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

pub(super) fn begin(kind: u8, store: &[u8; STORE_ID_BYTES], epoch: Epoch) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(kind);
    out.extend_from_slice(store);
    epoch.put(&mut out);
    out
}

impl Request {
    /// The message.
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
        }
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte is not as written; else what is wrong with it.
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
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let nobody = [0; STORE_ID_BYTES];
        match self {
            Response::Entries(sent) => {
                let mut out = begin(ANSWER_ENTRIES, &sent.store, sent.epoch);
                wire::put_varint(&mut out, sent.from);
                wire::put_varint(&mut out, sent.head);
                out.extend_from_slice(&sent.digest);
                out.extend_from_slice(&sent.bodies_digest);
                wire::put_varint(&mut out, sent.length);
                wire::put_bytes(&mut out, &sent.packed);
                close(out)
            }
            Response::TransferRequired { store, epoch, asked } => {
                let mut out = begin(ANSWER_TAKE_ALL, store, *epoch);
                wire::put_varint(&mut out, *asked);
                close(out)
            }
            Response::TransferPage(chunk) => {
                let mut out = begin(ANSWER_CHUNK, &chunk.store, chunk.epoch);
                wire::put_u64(&mut out, chunk.transfer);
                out.push(chunk.table);
                wire::put_bytes(&mut out, &chunk.key);
                wire::put_bytes(&mut out, &chunk.log);
                wire::put_varint(&mut out, chunk.length);
                wire::put_bytes(&mut out, &chunk.packed);
                close(out)
            }
            Response::Refused(refused) => {
                let mut out = begin(ANSWER_REFUSED, &nobody, Epoch::default());
                out.push(match refused {
                    Refusal::Ahead => 1,
                    Refusal::OtherStore => 2,
                    Refusal::OtherEpoch => 3,
                    Refusal::Fenced => 4,
                    Refusal::Incomplete => 5,
                });
                close(out)
            }
        }
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte is not as written; else what is wrong with it.
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
                found => {
                    let (field, found) = ("reason", found.into());
                    return Err(Error::Unknown { field, found });
                }
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

fn pack(raw: &[u8], level: i32) -> Result<Vec<u8>, Error> {
    in_range("length of contents", raw.len() as u64, 1, RAW_BYTES_MAX)?;
    let mut context = CCtx::create();
    // Levels beyond those that zstd has are brought into its range.
    let _ = context.set_parameter(CParameter::CompressionLevel(level));
    let mut packed = Vec::with_capacity(compress_bound(raw.len()));
    context.compress2(&mut packed, raw).map_err(|code| Error::Zstd {
        field: "compressing a message",
        reason: zstd_safe::get_error_name(code),
    })?;
    Ok(packed)
}

/// Decompresses what [`pack`] made; memory is taken only for what it can give.
fn unpack(packed: &[u8], length: u64) -> Result<Vec<u8>, Error> {
    in_range("length of contents", length, 1, RAW_BYTES_MAX)?;
    check_packed(packed, length)?;
    let mut raw = Vec::with_capacity(length as usize);
    let produced = DCtx::create()
        .decompress(&mut raw, packed)
        .map_err(decompressing_failed)?;
    equal("length of contents", length, produced as u64)?;
    Ok(raw)
}

/// Entries and bodies, compressed by zstd at this level, and their length before that.
///
/// # Errors
///
/// [`Error::OutOfRange`] for more than a message can hold; [`Error::Zstd`].
pub fn compress_contents(contents: &BatchContents<'_>, level: i32) -> Result<(Vec<u8>, u64), Error> {
    let mut raw = Vec::new();
    for (field, count) in [
        ("entries of a message", contents.entries.len()),
        ("bodies of a message", contents.bodies.len()),
    ] {
        in_range(field, count as u64, 0, PARTS_MAX)?;
    }
    wire::put_varint(&mut raw, contents.entries.len() as u64);
    for entry in &contents.entries {
        wire::put_bytes(&mut raw, entry);
    }
    wire::put_varint(&mut raw, contents.bodies.len() as u64);
    for body in &contents.bodies {
        wire::put_varint(&mut raw, body.base);
        wire::put_varint(&mut raw, body.bytes.len() as u64);
    }
    for body in &contents.bodies {
        raw.extend_from_slice(body.bytes);
    }
    Ok((pack(&raw, level)?, raw.len() as u64))
}

/// Decompresses contents into `raw` and shows them.
///
/// # Errors
///
/// What is wrong with them.
pub fn decompress_contents<'a>(packed: &[u8], length: u64, raw: &'a mut Vec<u8>) -> Result<BatchContents<'a>, Error> {
    *raw = unpack(packed, length)?;
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

/// Entries of tables, compressed by zstd at this level, and their length before that.
///
/// # Errors
///
/// [`Error::OutOfRange`] for more than a message can hold; [`Error::Zstd`].
pub fn compress_rows<'a>(pairs: impl IntoIterator<Item = TableRow<'a>>, level: i32) -> Result<(Vec<u8>, u64), Error> {
    let mut raw = vec![0]; // so that none is something, too
    for (table, key, value) in pairs {
        raw.push(table);
        wire::put_bytes(&mut raw, key);
        wire::put_bytes(&mut raw, value);
    }
    Ok((pack(&raw, level)?, raw.len() as u64))
}

/// Decompresses entries of tables into `raw` and shows them.
///
/// # Errors
///
/// What is wrong with them.
pub fn decompress_rows<'a>(packed: &[u8], length: u64, raw: &'a mut Vec<u8>) -> Result<Vec<TableRow<'a>>, Error> {
    *raw = unpack(packed, length)?;
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
