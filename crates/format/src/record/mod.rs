//! Records: versions of values under keys, as a record store keeps them in an ordered table of an engine.
//!
//! `docs/format/records.md` describes every byte. A record knows what it is of (namespace, key, version), and its checksum
//! covers that and its number: bytes that changed, or that lie under another number, are an error and never a record.
//!
//! ```
//! use ibid_format::record::{Body, Record};
//!
//! let record = Record { namespace: 1, version: 1, key: b"page", body: Body::Whole(b"in the same place") };
//! let mut bytes = Vec::new();
//! record.encode(7, &mut bytes)?;
//! assert_eq!(Record::decode(7, &bytes)?, record);
//! assert!(Record::decode(8, &bytes).is_err()); // it is record 7
//! # Ok::<(), ibid_format::Error>(())
//! ```

mod entry;

pub use entry::{KeyEntry, NamespaceEntry, Next, VersionEntry, key_of, split_key, version_key};

use crate::Error;
use crate::error::in_range;
use crate::wire::{self, Reader};

/// Longest key, bytes.
pub const KEY_BYTES_MAX: usize = 4096;
/// Longest body of a record, bytes: 256 MiB.
pub const BODY_BYTES_MAX: usize = 1 << 28;
/// Longest name of a namespace, bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// What the value under the key [`FORMAT_KEY`] of the table `meta` is: seven letters and the version.
pub const FORMAT: [u8; 8] = *b"ibidrec\x01";
/// Where [`FORMAT`] lies in the table `meta`.
pub const FORMAT_KEY: &[u8] = b"format";
/// Where [`Next`] lies in the table `meta`.
pub const NEXT_KEY: &[u8] = b"next";

/// Length of a record's checksum, bytes.
const CHECK_BYTES: usize = 8;
/// Most bytes of a record beside key and body: tag, two varints of 32 bits, the key's length, and the checksum.
const OVERHEAD_MAX: usize = 1 + 5 + 5 + 2 + CHECK_BYTES;
/// Longest encoded record, bytes.
pub const RECORD_BYTES_MAX: usize = OVERHEAD_MAX + KEY_BYTES_MAX + BODY_BYTES_MAX;

const TAG_DELETED: u8 = 0;
const TAG_WHOLE: u8 = 1;

/// One version of what is stored under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Number of its namespace, from 1.
    pub namespace: u32,
    /// Which version of its key it is, from 1.
    pub version: u32,
    /// Its key, at most [`KEY_BYTES_MAX`] bytes.
    pub key: &'a [u8],
    /// What it says.
    pub body: Body<'a>,
}

/// What a record says, and how that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// The key was deleted with this version.
    Deleted,
    /// The bytes themselves, at most [`BODY_BYTES_MAX`].
    Whole(&'a [u8]),
}

impl<'a> Record<'a> {
    /// Appends the record as it is stored under `number`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if a number is 0 or a length beyond its limit; nothing was appended then.
    pub fn encode(&self, number: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        in_range("record number", number, 1, u64::MAX)?;
        in_range("record namespace", self.namespace.into(), 1, u32::MAX.into())?;
        in_range("record version", self.version.into(), 1, u32::MAX.into())?;
        in_range("record key", self.key.len() as u64, 0, KEY_BYTES_MAX as u64)?;
        let (tag, body) = match self.body {
            Body::Deleted => (TAG_DELETED, &[][..]),
            Body::Whole(body) => (TAG_WHOLE, body),
        };
        in_range("record body", body.len() as u64, 0, BODY_BYTES_MAX as u64)?;

        out.reserve(OVERHEAD_MAX + self.key.len() + body.len());
        let start = out.len();
        out.push(tag);
        wire::put_varint(out, self.namespace.into());
        wire::put_varint(out, self.version.into());
        wire::put_bytes(out, self.key);
        out.extend_from_slice(body);
        let check = check(number, &out[start..]);
        out.extend_from_slice(&check);
        Ok(())
    }

    /// Reads what [`encode`](Self::encode) wrote under the same `number`. Allocates nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if any byte is not as written or the number is another; then, for bytes with a valid checksum that
    /// no encoder writes, what is wrong with them: [`Error::Unknown`] for a tag of a newer version.
    pub fn decode(number: u64, bytes: &'a [u8]) -> Result<Self, Error> {
        in_range(
            "record",
            bytes.len() as u64,
            CHECK_BYTES as u64,
            RECORD_BYTES_MAX as u64,
        )?;
        let (encoded, stated) = bytes.split_at(bytes.len() - CHECK_BYTES);
        let computed = check(number, encoded);
        if computed != stated {
            let expected = u64::from_be_bytes(computed);
            let found = stated.try_into().map_or(0, u64::from_be_bytes);
            let field = "record";
            return Err(Error::Check { field, expected, found });
        }
        let mut reader = Reader::new(encoded);
        let tag = reader.u8("record tag")?;
        let namespace = reader.varint_in("record namespace", 1, u32::MAX.into())? as u32;
        let version = reader.varint_in("record version", 1, u32::MAX.into())? as u32;
        let key = reader.bytes("record key", KEY_BYTES_MAX)?;
        let body = match tag {
            TAG_DELETED => {
                reader.finish("record of a deletion")?;
                Body::Deleted
            }
            TAG_WHOLE => {
                let body = reader.rest();
                in_range("record body", body.len() as u64, 0, BODY_BYTES_MAX as u64)?;
                Body::Whole(body)
            }
            found => {
                let (field, found) = ("record tag", found.into());
                return Err(Error::Unknown { field, found });
            }
        };
        Ok(Record {
            namespace,
            version,
            key,
            body,
        })
    }
}

fn check(number: u64, encoded: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&number.to_le_bytes()).update(encoded);
    let mut check = [0; CHECK_BYTES];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK_BYTES]);
    check
}
