//! Segments: the files of a log of commits, in which large values stay.

use super::CommitLogId;
use super::checks::{Check, checked};
use super::commit_log::check_of;
use crate::Error;
use crate::wire::{self, Reader};

const HERE: u8 = 0;
const PLACED: u8 = 1;

/// Where a value is in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValuePlace {
    /// Number of the segment.
    pub segment: u64,
    /// Where the value begins in the segment's file, bytes.
    pub offset: u64,
    /// Length of the value, bytes.
    pub length: u64,
}

/// A value as an engine has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredValue<'a> {
    /// The value.
    Here(&'a [u8]),
    /// Where it is.
    Placed(ValuePlace),
}

impl<'a> StoredValue<'a> {
    /// Appends what is stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            StoredValue::Here(value) => {
                out.push(HERE);
                out.extend_from_slice(value);
            }
            StoredValue::Placed(place) => {
                out.push(PLACED);
                for field in [place.segment, place.offset, place.length] {
                    wire::put_varint(out, field);
                }
            }
        }
    }

    /// Reads what is stored.
    ///
    /// # Errors
    ///
    /// The fault in the bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        const FIELD: &str = "place of a value";
        let mut reader = Reader::new(bytes);
        match reader.u8(FIELD)? {
            HERE => Ok(StoredValue::Here(reader.rest())),
            PLACED => {
                let [segment, offset, length] = [reader.varint(FIELD)?, reader.varint(FIELD)?, reader.varint(FIELD)?];
                reader.finish(FIELD)?;
                Ok(StoredValue::Placed(ValuePlace {
                    segment,
                    offset,
                    length,
                }))
            }
            found => Err(Error::OutOfRange {
                field: FIELD,
                min: HERE.into(),
                max: PLACED.into(),
                found: found.into(),
            }),
        }
    }
}

/// Where the commits begin that an engine's file does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStart {
    /// Number of the segment.
    pub segment: u64,
    /// Where the next commit begins in its file, bytes.
    pub offset: u64,
}

impl LogStart {
    /// Returns the value in the engine whose log has this id.
    pub fn encode(&self, id: &CommitLogId) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_u64(&mut out, self.segment);
        wire::put_u64(&mut out, self.offset);
        let check = self.check(id);
        out.extend_from_slice(&check);
        out
    }

    /// Reads the value in the engine whose log has this id.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; [`Error::Truncated`].
    pub fn decode(id: &CommitLogId, bytes: &[u8]) -> Result<Self, Error> {
        const FIELD: &str = "start of a log of commits";
        let mut reader = Reader::new(bytes);
        let start = LogStart {
            segment: reader.u64(FIELD)?,
            offset: reader.u64(FIELD)?,
        };
        checked(FIELD, &start.check(id), &mut reader)?;
        reader.finish(FIELD)?;
        Ok(start)
    }

    fn check(&self, id: &CommitLogId) -> Check {
        check_of(&[id, b"start", &self.segment.to_le_bytes(), &self.offset.to_le_bytes()])
    }
}

/// How much of a segment is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentEntry {
    /// Length of all values that the engine has a place of in this segment, bytes.
    pub used: u64,
}

impl SegmentEntry {
    /// Returns the entry of a segment in the engine whose log has this id.
    pub fn encode(&self, id: &CommitLogId, segment: u64) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_u64(&mut out, self.used);
        let check = self.check(id, segment);
        out.extend_from_slice(&check);
        out
    }

    /// Reads the entry of a segment in the engine whose log has this id.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; [`Error::Truncated`].
    pub fn decode(id: &CommitLogId, segment: u64, bytes: &[u8]) -> Result<Self, Error> {
        const FIELD: &str = "entry of a segment";
        let mut reader = Reader::new(bytes);
        let entry = SegmentEntry {
            used: reader.u64(FIELD)?,
        };
        checked(FIELD, &entry.check(id, segment), &mut reader)?;
        reader.finish(FIELD)?;
        Ok(entry)
    }

    fn check(&self, id: &CommitLogId, segment: u64) -> Check {
        check_of(&[id, b"segment", &segment.to_le_bytes(), &self.used.to_le_bytes()])
    }
}
