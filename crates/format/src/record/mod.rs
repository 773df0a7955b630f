//! Records: versions of values under keys, as a record store writes them into an engine's tables.
//!
//! `docs/format/records.md` describes every byte. A record contains its namespace, key and version,
//! and its checksum covers these and its number. So bytes that changed, or that are stored under
//! another number, are an error and never a record.
//!
//! ```
//! use ibid_format::record::{Body, Record};
//!
//! let body = Body::Whole(b"in the same place");
//! let record = Record { namespace: 1, version: 1, key: b"page", in_pieces: false, body };
//! let mut bytes = Vec::new();
//! record.encode(7, &mut bytes)?;
//! assert_eq!(Record::decode(7, &bytes)?, record);
//! assert!(Record::decode(8, &bytes).is_err()); // it is record 7
//! # Ok::<(), ibid_format::Error>(())
//! ```

mod block;
mod chain;
mod checks;
mod commit_log;
mod contents;
mod entry;
mod index;
mod message;
mod oplog;
mod part;
mod pieces;
mod places;
mod readers;
mod references;
mod sealed;
mod segment;
mod versions;

pub use block::{
    BlockBuilder, BlockFrame, BlockFrameBuilder, BlockFrameDecoder, BlockHead, FRAMES_MAX, frame_of_block,
    frames_of_block, records_of_frame,
};
pub use chain::{COPIES_MAX, ChainEntry, FEATURES_MAX, HOPS_MAX};
pub use checks::{BodyCheck, CheckHash};
pub use commit_log::{
    COMMIT_CHECK_BYTES, COMMIT_HEAD_BYTES, COMMIT_KEY_BYTES_MAX, COMMIT_LOG_COMMITS_AT, COMMIT_LOG_HEADER_BYTES,
    COMMIT_LOG_ID_BYTES, COMMIT_LOG_NOTE_AT, COMMIT_LOG_NOTE_BYTES, CommitChange, CommitHasher, CommitHead,
    CommitLogId, commit_log_header, commit_log_id, commit_log_note, synced_by_note,
};
pub use contents::{
    BatchContents, PARTS_MAX, PageRows, RawContents, SentBody, TableRow, decompress_contents, decompress_rows,
};
pub use entry::{
    EncoderWatermark, EncodingStopped, KeyEntry, LastBlock, LatestEntry, NamespaceEntry, NextNumbers, PurgedMark,
    RetentionClock, RetentionEntry, Stopped, key_of, split_key,
};
pub use index::{
    INDEX_VALUE_BYTES_MAX, INDEX_VALUES_MAX, INDEXES_MAX, IndexEntry, IndexRow, IndexValues, after_index_value,
    index_prefix, index_value_prefix,
};
pub use message::{Fenced, LogBatch, MESSAGE_BYTES_MAX, Query, Refusal, Request, Response, TransferPage};
pub use oplog::{
    DIGEST_BYTES, Digest, Epoch, LOG_ENTRY_BYTES_MAX, LogChange, LogEntry, LogOperation, LogState, Role,
    STORE_ID_BYTES, log_digest, open_log_entry,
};
pub use part::{
    EntrySpan, MESSAGE_PARTS_MAX, MessagePart, PartAssembler, PartRequest, PartResponse, PublishedPart,
    REQUEST_BYTES_MAX, split_message,
};
pub use pieces::{
    DRAFT_PREFIX, LONG_BODY_BYTES_MAX, PIECE_ID_BYTES, PIECES_NAMESPACE, PIECES_SECRET_KEY, Part, PartKind, PieceId,
    PieceList, piece_id,
};
pub use places::{PLACES_PER_GROUP, Place, Places};
pub use readers::{READERS_NOTE_BYTES, ReadersNote};
pub use references::{REFERENCES_PER_GROUP, References};
pub use sealed::{open_value, seal_value};
pub use segment::{LogStart, SegmentEntry, StoredValue, ValuePlace};
pub use versions::{VERSIONS_PER_GROUP, VersionEntry, VersionGroup, version_group_key};

use crate::Error;
use crate::error::in_range;
use crate::wire::{self, Reader};

/// Longest key, bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// Longest body of a record, bytes: 256 MiB.
pub const BODY_BYTES_MAX: usize = 1 << 28;
/// Largest number of a record.
pub const NUMBER_MAX: u64 = u64::MAX >> 1;
/// Latest time of a version, milliseconds since 1970: the end of the year 9999.
pub const TIME_MAX: u64 = 253_402_300_799_999;
/// Longest name of a namespace, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The value under [`FORMAT_KEY`] in the table `meta`: seven letters and the version.
pub const FORMAT: [u8; 8] = *b"ibidrec\x03";
/// The values of stores that earlier programs wrote, and that become of version 3 with their next change.
pub const FORMATS_BEFORE: [&[u8]; 2] = [b"ibidrec\x01", b"ibidrec\x02"];
/// The key of [`FORMAT`] in the table `meta`.
pub const FORMAT_KEY: &[u8] = b"format";
/// The key of [`NextNumbers`] in the table `meta`.
pub const NEXT_KEY: &[u8] = b"next";
/// The key of [`LogState`] in the table `meta`.
pub const LOG_KEY: &[u8] = b"log";
/// The key of [`EncoderWatermark`] in the table `meta`.
pub const WATERMARK_KEY: &[u8] = b"encoded";
/// The key of [`PurgedMark`] in the table `meta`.
pub const PURGED_KEY: &[u8] = b"purged";
/// The key of [`RetentionClock`] in the table `meta`.
pub const RETENTION_CLOCK_KEY: &[u8] = b"retention";
/// The key of [`LastBlock`] in the table `meta`.
pub const LAST_BLOCK_KEY: &[u8] = b"last block";
/// The prefix of the keys of [`EncodingStopped`] in the table `meta`.
pub const ENCODING_STOPPED_PREFIX: &[u8] = b"given up/";

/// Length of a record's checksum, bytes.
pub const RECORD_CHECK_BYTES: usize = 8;
/// Length of the checksum of a body that is stored as a delta, bytes.
pub const BODY_CHECK_BYTES: usize = 4;
/// Most bytes of a record beside key and body: tag, two varints of 32 bits, the key's length, the
/// base and the body's checksum of a delta, and the checksum.
const OVERHEAD_MAX: usize = 1 + 5 + 5 + 2 + wire::VARINT_BYTES_MAX + BODY_CHECK_BYTES + RECORD_CHECK_BYTES;
/// Longest encoded record, bytes.
pub const RECORD_BYTES_MAX: usize = OVERHEAD_MAX + KEY_BYTES_MAX + BODY_BYTES_MAX;

const TAG_DELETED: u8 = 0;
const TAG_WHOLE: u8 = 1;
const TAG_DELTA: u8 = 2;
/// Added to the tag of a record whose body is a [`PieceList`].
const IN_PIECES: u8 = 4;
/// Added to the tag of a record whose checksums are made by [`CheckHash::Xxh3`].
const XXH3: u8 = 8;

/// One version of the value under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Number of its namespace, from 1.
    pub namespace: u32,
    /// Its version among those of its key, from 1.
    pub version: u32,
    /// Its key, at most [`KEY_BYTES_MAX`] bytes.
    pub key: &'a [u8],
    /// Whether its value is stored in pieces: `body` makes the [`PieceList`] of it.
    pub in_pieces: bool,
    /// Its value.
    pub body: Body<'a>,
}

/// The value of a record, and how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// This version deletes the key.
    Deleted,
    /// The value itself, at most [`BODY_BYTES_MAX`] bytes.
    Whole(&'a [u8]),
    /// A delta against another record.
    Delta {
        /// Number of the base: larger than the record's own, so that a chain of bases ends.
        base: u64,
        /// The checksum of the value.
        check: BodyCheck,
        /// The delta, as crate `ibid-delta` writes it, at most [`BODY_BYTES_MAX`] bytes.
        delta: &'a [u8],
    },
}

impl<'a> Body<'a> {
    /// Returns the bytes of the value or delta; none of a deletion.
    pub fn stored(self) -> &'a [u8] {
        match self {
            Body::Deleted => &[],
            Body::Whole(bytes) | Body::Delta { delta: bytes, .. } => bytes,
        }
    }

    /// Returns what the checksums of its record are made by.
    fn hash(self) -> CheckHash {
        match self {
            Body::Deleted | Body::Whole(_) => CheckHash::Xxh3,
            Body::Delta { check, .. } => check.hash,
        }
    }
}

/// Returns the first bytes of a value's BLAKE3.
pub fn body_digest(body: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(&blake3::hash(body).as_bytes()[..DIGEST_BYTES]);
    digest
}

impl<'a> Record<'a> {
    /// Returns whether encoded bytes are of a record that is stored whole. Does not check them.
    pub fn is_whole(encoded: &[u8]) -> bool {
        encoded
            .first()
            .is_some_and(|tag| tag & !(IN_PIECES | XXH3) == TAG_WHOLE)
    }

    /// Appends the record as it is stored under `number`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if a number is 0 or a length beyond its limit; nothing was appended
    /// then.
    pub fn encode(&self, number: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        self.encode_packed(number, out)?;
        let check = check(self.body.hash(), number, &out[start..], &[]);
        out.extend_from_slice(&check);
        Ok(())
    }

    /// Returns the bytes before and after those of the body or delta, for a body that is too long to be
    /// copied. Together they are what [`encode`](Self::encode) writes.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    ///
    /// ```
    /// use ibid_format::record::{Body, Record};
    ///
    /// let body = Body::Whole(b"body");
    /// let record = Record { namespace: 1, version: 1, key: b"key", in_pieces: false, body };
    /// let (head, check) = record.encode_around(7)?;
    /// let mut encoded = Vec::new();
    /// record.encode(7, &mut encoded)?;
    /// assert_eq!([&head, &b"body"[..], &check].concat(), encoded);
    /// # Ok::<(), ibid_format::Error>(())
    /// ```
    pub fn encode_around(&self, number: u64) -> Result<(Vec<u8>, [u8; RECORD_CHECK_BYTES]), Error> {
        let mut head = Vec::with_capacity(OVERHEAD_MAX + self.key.len());
        self.encode_head(number, &mut head)?;
        let check = check(self.body.hash(), number, &head, self.body.stored());
        Ok((head, check))
    }

    /// Appends the record as it is stored in a frame, without a checksum: the frame has one.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_packed(&self, number: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        out.reserve(OVERHEAD_MAX + self.key.len() + self.body.stored().len());
        self.encode_head(number, out)?;
        out.extend_from_slice(self.body.stored());
        Ok(())
    }

    /// Appends what comes before the bytes of the body or delta.
    fn encode_head(&self, number: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        in_range("record number", number, 1, NUMBER_MAX)?;
        in_range("record namespace", self.namespace.into(), 1, u32::MAX.into())?;
        in_range("record version", self.version.into(), 1, u32::MAX.into())?;
        in_range("record key", self.key.len() as u64, 0, KEY_BYTES_MAX as u64)?;
        let tag = match self.body {
            Body::Deleted => TAG_DELETED,
            Body::Whole(_) => TAG_WHOLE,
            Body::Delta { base, .. } => {
                in_range("base of a record", base, number + 1, NUMBER_MAX)?;
                TAG_DELTA
            }
        };
        in_range("record body", self.body.stored().len() as u64, 0, BODY_BYTES_MAX as u64)?;
        let is_piecewise_deletion = self.in_pieces && tag == TAG_DELETED;
        in_range("pieces of a deletion", is_piecewise_deletion.into(), 0, 0)?;
        let in_pieces = if self.in_pieces { IN_PIECES } else { 0 };
        out.push(tag | in_pieces | self.body.hash().mark(XXH3));
        wire::put_varint(out, self.namespace.into());
        wire::put_varint(out, self.version.into());
        wire::put_bytes(out, self.key);
        if let Body::Delta { base, check, .. } = self.body {
            wire::put_varint(out, base - number);
            out.extend_from_slice(&check.bytes);
        }
        Ok(())
    }

    /// Reads what [`encode`](Self::encode) wrote under the same `number`. Allocates nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed or the number is wrong; for bytes with a valid checksum that
    /// no encoder writes, their fault, such as [`Error::Unknown`] for a tag of a newer version.
    pub fn decode(number: u64, bytes: &'a [u8]) -> Result<Self, Error> {
        in_range(
            "record",
            bytes.len() as u64,
            RECORD_CHECK_BYTES as u64,
            RECORD_BYTES_MAX as u64,
        )?;
        let (encoded, stated) = bytes.split_at(bytes.len() - RECORD_CHECK_BYTES);
        let hash = CheckHash::marked_in(encoded.first().copied().unwrap_or_default(), XXH3);
        let computed = check(hash, number, encoded, &[]);
        if computed != stated {
            let expected = u64::from_be_bytes(computed);
            let found = stated.try_into().map_or(0, u64::from_be_bytes);
            let field = "record";
            return Err(Error::Check { field, expected, found });
        }
        Record::decode_packed(number, encoded)
    }

    /// Reads what [`encode_packed`](Self::encode_packed) wrote under the same `number`. Allocates
    /// nothing.
    ///
    /// # Errors
    ///
    /// The fault in the bytes. A changed byte may go unnoticed: the frame's checksum covers it.
    pub fn decode_packed(number: u64, bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let tag = reader.u8("record tag")?;
        let in_pieces = tag & IN_PIECES != 0;
        let namespace = reader.varint_in("record namespace", 1, u32::MAX.into())? as u32;
        let version = reader.varint_in("record version", 1, u32::MAX.into())? as u32;
        let key = reader.bytes("record key", KEY_BYTES_MAX)?;
        let body = match tag & !(IN_PIECES | XXH3) {
            TAG_DELETED if !in_pieces => {
                reader.finish("record of a deletion")?;
                Body::Deleted
            }
            TAG_WHOLE => Body::Whole(rest_of_record(&mut reader)?),
            TAG_DELTA => {
                let most = NUMBER_MAX.saturating_sub(number);
                let distance = reader.varint_in("base of a record", 1, most)?;
                Body::Delta {
                    base: number + distance,
                    check: BodyCheck {
                        hash: CheckHash::marked_in(tag, XXH3),
                        bytes: reader.array("checksum of a body")?,
                    },
                    delta: rest_of_record(&mut reader)?,
                }
            }
            _ => {
                let (field, found) = ("record tag", tag.into());
                return Err(Error::Unknown { field, found });
            }
        };
        Ok(Record {
            namespace,
            version,
            key,
            in_pieces,
            body,
        })
    }
}

fn rest_of_record<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Error> {
    let rest = reader.rest();
    in_range("record body", rest.len() as u64, 0, BODY_BYTES_MAX as u64)?;
    Ok(rest)
}

/// Returns the checksum of a record, given as what comes before the body, or a part of that, and the rest.
fn check(hash: CheckHash, number: u64, head: &[u8], rest: &[u8]) -> [u8; RECORD_CHECK_BYTES] {
    hash.of_parts(&[&number.to_le_bytes(), head, rest])
}
