//! Long bodies, which are stored in pieces.
//!
//! The record of such a body has a list of lists of pieces instead. Pieces and their lists are records of a namespace
//! of their own, under keys that are made of their contents. So each is stored once.

use std::collections::BTreeSet;

use super::key_of;
use crate::Error;
use crate::error::in_range;
use crate::wire::{self, Reader};

/// The name of the namespace that has the pieces. No other namespace may have it.
pub const PIECES_NAMESPACE: &str = "\0pieces";
/// Length of what names a piece or a list, bytes.
pub const PIECE_ID_BYTES: usize = 32;
/// Longest body in pieces, bytes: 1 TiB.
pub const LONG_BODY_BYTES_MAX: u64 = 1 << 40;
/// The key, in the namespace of pieces, of the record whose body is the key that ids are made with: 32 random bytes.
pub const PIECES_SECRET_KEY: &[u8] = &[0];
/// First byte of the keys of drafts, which hold the lists of a body that no key has yet.
pub const DRAFT_PREFIX: u8 = 3;

/// What names a piece or a list: the BLAKE3 of its bytes, keyed with the store's secret.
pub type PieceId = [u8; PIECE_ID_BYTES];

/// Returns what names a piece or a list.
pub fn piece_id(secret: &[u8; PIECE_ID_BYTES], bytes: &[u8]) -> PieceId {
    *blake3::keyed_hash(secret, bytes).as_bytes()
}

/// The parts of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PartKind {
    /// Bytes of a body.
    Piece = 1,
    /// Lists of pieces.
    List = 2,
}

impl PartKind {
    /// Returns the key of such a part in the namespace of pieces.
    pub fn key(self, id: &PieceId) -> Vec<u8> {
        [&[self as u8], &id[..]].concat()
    }
}

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its name.
    pub id: PieceId,
    /// Length of the bytes of the body that are in it, at least 1.
    pub length: u64,
}

/// What a record has instead of a long body: its parts, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PieceList {
    /// Number of the namespace that has the parts.
    pub namespace: u32,
    /// What the parts are.
    pub kind: PartKind,
    /// The parts, at least one.
    pub parts: Vec<Part>,
}

impl PieceList {
    /// Returns the length of the body, bytes.
    pub fn length(&self) -> u64 {
        self.parts.iter().map(|part| part.length).sum()
    }

    /// Returns the key of a part as it is in the table `keys`.
    pub fn stored_key(&self, part: &Part) -> Vec<u8> {
        key_of(self.namespace, &self.kind.key(&part.id))
    }

    /// Returns the keys of all parts as they are in the table `keys`, each once.
    pub fn stored_keys(&self) -> BTreeSet<Vec<u8>> {
        self.parts.iter().map(|part| self.stored_key(part)).collect()
    }

    /// Returns the list as bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for a list that no decoder accepts.
    ///
    /// ```
    /// use ibid_format::record::{Part, PartKind, PieceList};
    ///
    /// let part = Part { id: [7; 32], length: 100_000 };
    /// let list = PieceList { namespace: 2, kind: PartKind::Piece, parts: vec![part] };
    /// assert_eq!(PieceList::decode(&list.encode()?)?, list);
    /// # Ok::<(), ibid_format::Error>(())
    /// ```
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        in_range("record namespace", self.namespace.into(), 1, u32::MAX.into())?;
        in_range("parts of a body", self.parts.len() as u64, 1, u64::MAX)?;
        let mut out = vec![self.kind as u8];
        wire::put_varint(&mut out, self.namespace.into());
        wire::put_varint(&mut out, self.parts.len() as u64);
        let mut rest = LONG_BODY_BYTES_MAX;
        for Part { id, length } in &self.parts {
            in_range("part of a body", *length, 1, rest)?;
            rest -= length;
            out.extend_from_slice(id);
            wire::put_varint(&mut out, *length);
        }
        Ok(out)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    ///
    /// The fault in the bytes. Memory is taken only for what they contain.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let kind = match reader.u8("kind of a list of pieces")? {
            1 => PartKind::Piece,
            2 => PartKind::List,
            found => {
                let (field, found) = ("kind of a list of pieces", found.into());
                return Err(Error::Unknown { field, found });
            }
        };
        let namespace = reader.varint_in("record namespace", 1, u32::MAX.into())? as u32;
        let count = reader.count("parts of a body", u64::MAX, PIECE_ID_BYTES + 1)?;
        in_range("parts of a body", count as u64, 1, u64::MAX)?;
        let mut parts = Vec::with_capacity(count);
        let mut rest = LONG_BODY_BYTES_MAX;
        for _ in 0..count {
            let id = reader.array("what names a piece")?;
            let length = reader.varint_in("part of a body", 1, rest)?;
            rest -= length;
            parts.push(Part { id, length });
        }
        reader.finish("list of pieces")?;
        Ok(PieceList { namespace, kind, parts })
    }
}
