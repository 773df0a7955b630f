//! The pieces of a delta frame's prefix.

use super::{CHUNK_BYTES_MAX, DELTA};
use crate::error::in_range;
use crate::wire::{self, Reader};
use crate::{ChunkPrefix, Error};

/// Most pieces of a prefix.
pub const PIECES_MAX: usize = 1024;
/// Longest prefix, bytes.
pub const PREFIX_BYTES_MAX: u32 = 16 << 20;

/// Shortest encoded piece, bytes: base, start, length.
const PIECE_MIN: usize = 12 + 1 + 1;

/// A range of a chunk in another frame: a part of the prefix that a delta frame is encoded against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The chunk.
    pub base: ChunkPrefix,
    /// Offset of the piece in the chunk, bytes.
    pub start: u32,
    /// Its length, bytes: at least 1; it ends within [`CHUNK_BYTES_MAX`].
    pub length: u32,
}

/// Returns the pieces of a frame's prefix in order: none unless it is a delta frame.
///
/// Looks at the beginning of the frame's plaintext only;
/// [`FrameDecoder::decode`](super::FrameDecoder::decode) checks the rest.
///
/// # Errors
///
/// The fault with the codec or the pieces.
pub fn pieces(plaintext: &[u8]) -> Result<Vec<Piece>, Error> {
    let mut reader = Reader::new(plaintext);
    if reader.u8("frame codec")? != DELTA {
        return Ok(Vec::new());
    }
    let count = count(&mut reader)?;
    let mut pieces = Vec::with_capacity(count);
    read(&mut reader, count, |piece| pieces.push(piece))?;
    Ok(pieces)
}

/// Reads the pieces and returns the length of the prefix that they make.
pub(super) fn skip(reader: &mut Reader<'_>) -> Result<u32, Error> {
    let count = count(reader)?;
    read(reader, count, drop)
}

fn count(reader: &mut Reader<'_>) -> Result<usize, Error> {
    let count = reader.count("pieces of a prefix", PIECES_MAX as u64, PIECE_MIN)?;
    in_range("pieces of a prefix", count as u64, 1, PIECES_MAX as u64)?;
    Ok(count)
}

/// Reads so many pieces, and returns the sum of their lengths.
fn read(reader: &mut Reader<'_>, count: usize, mut take: impl FnMut(Piece)) -> Result<u32, Error> {
    let mut sum = 0;
    for _ in 0..count {
        let piece = Piece {
            base: ChunkPrefix(reader.array("base of a piece")?),
            start: reader.varint_u32("start of a piece")?,
            length: reader.varint_u32("length of a piece")?,
        };
        sum = add(sum, &piece)?;
        take(piece);
    }
    Ok(sum)
}

/// Checks the pieces and appends them. Returns the length of the prefix.
pub(super) fn put(pieces: &[Piece], out: &mut Vec<u8>) -> Result<u32, Error> {
    in_range("pieces of a prefix", pieces.len() as u64, 1, PIECES_MAX as u64)?;
    wire::put_varint(out, pieces.len() as u64);
    let mut sum = 0;
    for piece in pieces {
        sum = add(sum, piece)?;
        out.extend_from_slice(&piece.base.0);
        wire::put_varint(out, piece.start.into());
        wire::put_varint(out, piece.length.into());
    }
    Ok(sum)
}

/// Returns the sum with this piece, if both are within the limits.
fn add(sum: u32, piece: &Piece) -> Result<u32, Error> {
    let start = in_range(
        "start of a piece",
        piece.start.into(),
        0,
        u64::from(CHUNK_BYTES_MAX) - 1,
    )?;
    let length = in_range(
        "length of a piece",
        piece.length.into(),
        1,
        u64::from(CHUNK_BYTES_MAX) - start,
    )?;
    in_range("prefix of a frame", u64::from(sum) + length, 1, PREFIX_BYTES_MAX.into()).map(|sum| sum as u32)
}
