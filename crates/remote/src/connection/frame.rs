//! Messages as they lie in a stream, and their limits. `docs/format/connection.md` describes every byte.

use std::io::{self, Read};

use ibid_storage::NAME_LENGTH_MAX;

/// The most bytes of an object in one message.
pub(super) const PIECE: usize = 64 << 10;
/// The most bytes that can follow the length of a message.
pub(super) const MESSAGE_MAX: usize = PIECE + 512;
/// Bytes of a message before its fields, without the length.
pub(super) const HEADER: usize = 5;
/// Requests without an answer.
pub(super) const REQUESTS_MAX: usize = 256;
/// Bytes of objects that are on their way, or being read, unless it is one alone.
pub(super) const BYTES_MAX: u64 = 128 << 20;
/// Bytes of one object.
pub(super) const OBJECT_MAX: u64 = 512 << 20;
/// Bytes of one read.
pub(super) const READ_MAX: usize = 64 << 20;

/// The other side has sent what the protocol does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub(super) String);

/// Why a message could not be read.
#[derive(Debug)]
pub(super) enum Unread {
    Io(io::Error),
    Violation(Violation),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::Io(error)
    }
}

impl From<Violation> for Unread {
    fn from(violation: Violation) -> Unread {
        Unread::Violation(violation)
    }
}

pub(super) fn violation(found: impl Into<String>) -> Violation {
    Violation(found.into())
}

/// The beginning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the fields.
    pub(super) length: usize,
    pub(super) number: u32,
    pub(super) kind: u8,
}

impl Header {
    /// Reads the beginning of a message; `None` if the stream ends before it.
    pub(super) fn read(reader: &mut impl Read) -> Result<Option<Header>, Unread> {
        let mut length = [0; 4];
        if !fill(reader, &mut length)? {
            return Ok(None);
        }
        let length = u32::from_le_bytes(length) as usize;
        if !(HEADER..=MESSAGE_MAX).contains(&length) {
            return Err(violation(format!(
                "a message of {length} bytes, where {HEADER} to {MESSAGE_MAX} are allowed"
            ))
            .into());
        }
        let mut rest = [0; HEADER];
        reader.read_exact(&mut rest)?;
        let [a, b, c, d, kind] = rest;
        Ok(Some(Header {
            length: length - HEADER,
            number: u32::from_le_bytes([a, b, c, d]),
            kind,
        }))
    }

    /// Reads the fields into a buffer, which is emptied before.
    pub(super) fn read_fields(&self, reader: &mut impl Read, fields: &mut Vec<u8>) -> io::Result<()> {
        fields.clear();
        self.append_fields(reader, fields)
    }

    /// Appends the fields to a buffer.
    pub(super) fn append_fields(&self, reader: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<()> {
        let read = reader.take(self.length as u64).read_to_end(buffer)?;
        match read == self.length {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Fills a buffer. Returns `false` if the stream ends before its first byte.
pub(super) fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Appends a name, or the text of a folder.
pub(super) fn put_name(fields: &mut Vec<u8>, name: &str) {
    let name = &name.as_bytes()[..name.len().min(NAME_LENGTH_MAX)];
    fields.push(name.len() as u8);
    fields.extend_from_slice(name);
}

/// Appends a text for people, cut short if it is very long.
pub(super) fn put_text(fields: &mut Vec<u8>, text: &str) {
    const LONGEST: usize = 2000;
    let end = (0..=text.len().min(LONGEST))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    let text = &text[..end.unwrap_or(0)];
    fields.extend((text.len() as u16).to_le_bytes());
    fields.extend_from_slice(text.as_bytes());
}
