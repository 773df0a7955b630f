//! Messages in parts, for transports that carry only short ones. `docs/replication.md` describes every byte.
//!
//! ```
//! use ibid_format::record::{PartAssembler, split_message};
//!
//! let mut gathering = PartAssembler::default();
//! let parts: Vec<_> = split_message(b"in the same place", 10).collect();
//! assert_eq!(gathering.add(&parts[0])?, None);
//! assert_eq!(gathering.add(&parts[1])?.as_deref(), Some(&b"in the same place"[..]));
//! # Ok::<(), ibid_format::Error>(())
//! ```

use super::NUMBER_MAX;
use super::index::INDEX_ROW_BYTES_MAX;
use super::message::{MESSAGE_BYTES_MAX, begin, close, open};
use super::oplog::{Digest, Epoch, STORE_ID_BYTES};
use crate::Error;
use crate::error::{equal, in_range};
use crate::wire::{self, Reader};

/// Most parts of a message.
pub const MESSAGE_PARTS_MAX: u64 = 1 << 16;
/// Longest request, bytes: a key of a table, and little else.
pub const REQUEST_BYTES_MAX: usize = INDEX_ROW_BYTES_MAX + 256;

const REQUEST_PART: u8 = 3;
const ANSWER_PUBLISHED: u8 = 20;
const ANSWER_PART: u8 = 21;

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessagePart {
    /// Its number, from 0.
    pub number: u64,
    /// Number of parts.
    pub count: u64,
    /// Bytes of the message.
    pub length: u64,
    /// The part's bytes.
    pub bytes: Vec<u8>,
}

/// The entries that an answer has, and their store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntrySpan {
    /// The id of the store.
    pub store: [u8; STORE_ID_BYTES],
    /// The epoch of the store that answers.
    pub epoch: Epoch,
    /// Position of the first entry.
    pub from: u64,
    /// Position after the last one.
    pub next: u64,
    /// Digest of the entry before the first.
    pub before: Digest,
    /// Digest of the last one.
    pub digest: Digest,
}

/// A part of a response with log entries, published for every replica that lacks them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedPart {
    /// The entries of the answer.
    pub span: EntrySpan,
    /// This part of the answer.
    pub part: MessagePart,
}

/// A request for one part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRequest {
    /// The id of the store.
    pub store: [u8; STORE_ID_BYTES],
    /// The epoch of the primary that may answer.
    pub epoch: Epoch,
    /// The id of the replica that asks.
    pub asker: u64,
    /// The number of its earlier requests.
    pub number: u64,
    /// The part that it wants, from 0.
    pub part: u64,
    /// The request.
    pub request: Vec<u8>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartResponse {
    /// The id of the store.
    pub store: [u8; STORE_ID_BYTES],
    /// The epoch of the store that answers.
    pub epoch: Epoch,
    /// The id of the replica that asked.
    pub asker: u64,
    /// The number of its request.
    pub number: u64,
    /// This part of the answer.
    pub part: MessagePart,
}

impl MessagePart {
    fn put(&self, out: &mut Vec<u8>) {
        wire::put_varint(out, self.number);
        wire::put_varint(out, self.count);
        wire::put_varint(out, self.length);
        wire::put_bytes(out, &self.bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let number = reader.varint("part of a message")?;
        let count = reader.varint_in("parts of a message", 1, MESSAGE_PARTS_MAX)?;
        in_range("part of a message", number, 0, count - 1)?;
        let length = reader.varint_in("length of a message", 1, MESSAGE_BYTES_MAX as u64)?;
        let bytes = reader.bytes("part of a message", length as usize)?.to_vec();
        Ok(MessagePart {
            number,
            count,
            length,
            bytes,
        })
    }

    /// Whether it is the last.
    pub fn is_last(&self) -> bool {
        self.number + 1 == self.count
    }
}

/// Splits a message into parts of at most `most` bytes; an empty message has none.
pub fn split_message(message: &[u8], most: usize) -> impl Iterator<Item = MessagePart> {
    let pieces = message.chunks(most.max(1));
    let (count, length) = (pieces.len() as u64, message.len() as u64);
    pieces.zip(0..).map(move |(bytes, number)| MessagePart {
        number,
        count,
        length,
        bytes: bytes.to_vec(),
    })
}

/// Assembles a message from parts that arrive in order.
#[derive(Debug, Default)]
pub struct PartAssembler {
    came: u64,
    count: u64,
    length: u64,
    bytes: Vec<u8>,
}

impl PartAssembler {
    /// Returns the number of the next part.
    pub fn next_part(&self) -> u64 {
        self.came
    }

    /// Adds the next part. Returns the message if it was the last, and starts over. Memory is taken for
    /// bytes that arrived, not for those announced.
    ///
    /// # Errors
    ///
    /// [`Error::Mismatch`] if it is another part, or one of another message.
    pub fn add(&mut self, part: &MessagePart) -> Result<Option<Vec<u8>>, Error> {
        equal("part of a message", self.came, part.number)?;
        if self.came == 0 {
            (self.count, self.length) = (part.count, part.length);
        }
        equal("parts of a message", self.count, part.count)?;
        equal("length of a message", self.length, part.length)?;
        let came = (self.bytes.len() + part.bytes.len()) as u64;
        let enough = if part.is_last() { self.length } else { 0 };
        in_range("bytes of a message", came, enough, self.length)?;
        self.bytes.extend_from_slice(&part.bytes);
        self.came += 1;
        Ok(part.is_last().then(|| std::mem::take(self).bytes))
    }
}

impl PublishedPart {
    /// Returns the message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let span = &self.span;
        let mut out = begin(ANSWER_PUBLISHED, &span.store, span.epoch);
        wire::put_varint(&mut out, span.from);
        wire::put_varint(&mut out, span.next);
        out.extend_from_slice(&span.before);
        out.extend_from_slice(&span.digest);
        self.part.put(&mut out);
        close(out)
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, store, epoch) = opened("published answer", ANSWER_PUBLISHED, bytes)?;
        let from = reader.varint_in("position", 1, NUMBER_MAX)?;
        let span = EntrySpan {
            store,
            epoch,
            from,
            next: reader.varint_in("position", from, NUMBER_MAX)?,
            before: reader.array("digest of a log entry")?,
            digest: reader.array("digest of a log entry")?,
        };
        let part = MessagePart::read(&mut reader)?;
        reader.finish("published answer")?;
        Ok(PublishedPart { span, part })
    }
}

impl PartRequest {
    /// Returns the message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(REQUEST_PART, &self.store, self.epoch);
        wire::put_u64(&mut out, self.asker);
        wire::put_varint(&mut out, self.number);
        wire::put_varint(&mut out, self.part);
        wire::put_bytes(&mut out, &self.request);
        close(out)
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, store, epoch) = opened("request for a part", REQUEST_PART, bytes)?;
        let pull = PartRequest {
            store,
            epoch,
            asker: reader.u64("what names the one that asks")?,
            number: reader.varint_in("number of a request", 0, NUMBER_MAX)?,
            part: reader.varint_in("part of a message", 0, MESSAGE_PARTS_MAX)?,
            request: reader.bytes("request", REQUEST_BYTES_MAX)?.to_vec(),
        };
        reader.finish("request for a part")?;
        Ok(pull)
    }
}

impl PartResponse {
    /// Returns the message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = begin(ANSWER_PART, &self.store, self.epoch);
        wire::put_u64(&mut out, self.asker);
        wire::put_varint(&mut out, self.number);
        self.part.put(&mut out);
        close(out)
    }

    /// Reads the message.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] if a byte changed; else the fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let (mut reader, store, epoch) = opened("part of an answer", ANSWER_PART, bytes)?;
        let pulled = PartResponse {
            store,
            epoch,
            asker: reader.u64("what names the one that asks")?,
            number: reader.varint_in("number of a request", 0, NUMBER_MAX)?,
            part: MessagePart::read(&mut reader)?,
        };
        reader.finish("part of an answer")?;
        Ok(pulled)
    }
}

/// The fields after the kind, the store and the epoch.
fn opened<'a>(
    field: &'static str,
    kind: u8,
    bytes: &'a [u8],
) -> Result<(Reader<'a>, [u8; STORE_ID_BYTES], Epoch), Error> {
    let mut reader = open(field, bytes)?;
    equal(field, kind.into(), reader.u8(field)?.into())?;
    let store = reader.array("what names a store")?;
    let epoch = Epoch::read(&mut reader)?;
    Ok((reader, store, epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u64, count: u64, length: u64, bytes: &[u8]) -> MessagePart {
        let bytes = bytes.to_vec();
        MessagePart {
            number,
            count,
            length,
            bytes,
        }
    }

    const EPOCH: Epoch = Epoch { number: 3, id: 4 };

    #[test]
    fn written_parts_are_read_and_a_changed_byte_is_an_error() {
        let part = part(1, 2, 9, b"same");
        let span = EntrySpan {
            store: [7; 16],
            epoch: EPOCH,
            from: 5,
            next: 8,
            before: [1; 8],
            digest: [2; 8],
        };
        let published = PublishedPart {
            span,
            part: part.clone(),
        };
        let pull = PartRequest {
            store: [7; 16],
            epoch: EPOCH,
            asker: 11,
            number: 12,
            part: 1,
            request: b"request".to_vec(),
        };
        let pulled = PartResponse {
            store: [7; 16],
            epoch: EPOCH,
            asker: 11,
            number: 12,
            part,
        };
        assert_eq!(PublishedPart::decode(&published.encode()).unwrap(), published);
        assert_eq!(PartRequest::decode(&pull.encode()).unwrap(), pull);
        assert_eq!(PartResponse::decode(&pulled.encode()).unwrap(), pulled);
        // No kind decodes as another.
        assert!(PartResponse::decode(&published.encode()).is_err());
        let bytes = published.encode();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1;
            assert!(PublishedPart::decode(&changed).is_err(), "byte {place}");
            assert!(PublishedPart::decode(&bytes[..place]).is_err(), "{place} bytes");
        }
        let backwards = PublishedPart {
            span: EntrySpan { next: 4, ..span },
            ..published
        };
        assert!(PublishedPart::decode(&backwards.encode()).is_err());
    }

    #[test]
    fn parts_make_the_message_again_whatever_their_length() {
        let message: Vec<u8> = (0..100).collect();
        for most in [1, 2, 33, 50, 99, 100, 101, 1000] {
            let parts: Vec<MessagePart> = split_message(&message, most).collect();
            assert_eq!(parts.len(), 100_usize.div_ceil(most));
            let mut gathering = PartAssembler::default();
            let (last, before) = parts.split_last().unwrap();
            for part in before {
                assert_eq!(gathering.add(part).unwrap(), None);
            }
            assert_eq!(gathering.add(last).unwrap(), Some(message.clone()));
            assert_eq!(gathering.next_part(), 0);
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let begun = || {
            let mut gathering = PartAssembler::default();
            assert_eq!(gathering.add(&part(0, 3, 6, b"ab")).unwrap(), None);
            gathering
        };
        for wrong in [
            part(0, 3, 6, b"cd"),
            part(2, 3, 6, b"cdef"),
            part(1, 4, 6, b"cd"),
            part(1, 3, 7, b"cd"),
            part(1, 3, 6, b"cdefg"),
        ] {
            assert!(begun().add(&wrong).is_err(), "{wrong:?}");
        }
        // The last part ends the message, even if it is too short.
        let mut gathering = begun();
        assert_eq!(gathering.add(&part(1, 3, 6, b"cd")).unwrap(), None);
        assert!(gathering.add(&part(2, 3, 6, b"e")).is_err());
        assert!(PartAssembler::default().add(&part(1, 2, 6, b"ab")).is_err());
    }

    #[test]
    fn announced_lengths_have_limits() {
        let announced = |part: MessagePart| {
            let pulled = PartResponse {
                store: [7; 16],
                epoch: EPOCH,
                asker: 0,
                number: 0,
                part,
            };
            PartResponse::decode(&pulled.encode())
        };
        assert!(announced(part(0, 1, 4, b"same")).is_ok());
        for wrong in [
            part(0, 0, 4, b"same"),
            part(1, 1, 4, b"same"),
            part(0, MESSAGE_PARTS_MAX + 1, 4, b"same"),
            part(0, 1, 0, b""),
            part(0, 1, MESSAGE_BYTES_MAX as u64 + 1, b"same"),
            part(0, 1, 3, b"same"),
        ] {
            assert!(announced(wrong.clone()).is_err(), "{wrong:?}");
        }
    }
}
