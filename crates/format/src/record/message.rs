//! The messages by which one store becomes a copy of another. `docs/replication.md` describes every
//! byte.
//!
//! A message ends with a checksum. Lengths are checked against limits before memory is taken.

use super::NUMBER_MAX;
use super::contents::{RAW_BYTES_MAX, TABLE_KEY_BYTES_MAX, joined};
use super::oplog::{DIGEST_BYTES, Digest, Epoch, STORE_ID_BYTES};
use crate::Error;
use crate::error::in_range;
use crate::wire::{self, Reader};

/// Longest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 29;
/// The magic of a message: four letters and the version.
const MAGIC: [u8; 5] = *b"ibrp\x01";
const CHECK_BYTES: usize = 8;
const REQUEST_ENTRIES: u8 = 1;
const REQUEST_TRANSFER: u8 = 2;
const REQUEST_FENCE: u8 = 4;
const ANSWER_ENTRIES: u8 = 16;
const ANSWER_TAKE_ALL: u8 = 17;
/// The number of a part with records that have checksums by BLAKE3 only.
const ANSWER_CHUNK_BLAKE3: u8 = 18;
const ANSWER_REFUSED: u8 = 19;
const ANSWER_FENCED: u8 = 22;
const ANSWER_CHUNK: u8 = 23;

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
    /// The compressed [`BatchContents`](super::BatchContents); empty if no entry is sent.
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
    /// The compressed [`PageRows`](super::PageRows).
    pub packed: Vec<u8>,
    /// Length before compression.
    pub length: u64,
}

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
            ANSWER_CHUNK_BLAKE3 | ANSWER_CHUNK => Response::TransferPage(TransferPage {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_a_program_for_version_2_of_records_is_read() {
        let page = Response::TransferPage(TransferPage {
            store: [1; STORE_ID_BYTES],
            epoch: Epoch { number: 2, id: 3 },
            transfer: 4,
            table: 6,
            key: vec![5; 8],
            log: Vec::new(),
            packed: vec![7; 20],
            length: 100,
        });
        let mut bytes = page.clone().encode();
        assert_eq!(bytes[MAGIC.len()], ANSWER_CHUNK);
        assert_eq!(Response::decode(&bytes).unwrap(), page);
        bytes.truncate(bytes.len() - CHECK_BYTES);
        bytes[MAGIC.len()] = ANSWER_CHUNK_BLAKE3;
        assert_eq!(Response::decode(&close(bytes)).unwrap(), page);
    }
}
