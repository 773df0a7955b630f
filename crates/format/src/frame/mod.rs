//! Frames: chunks that are compressed together.
//!
//! ```text
//! codec (u8) ‖ codec 2: pieces ‖ count (varint) ‖ per blob: length (varint) ‖ body
//! ```
//!
//! The body is the chunks' bytes in order, stored or compressed by zstd as a whole. The number of a
//! chunk in its frame is its *slot*. Chunks that are neighbours in a backup resemble each other, so
//! they compress better together than alone. Reading a chunk decompresses no further than its end.
//!
//! ```
//! use ibid_format::frame::{FrameBuilder, Compression, FrameDecoder, FrameEncoder};
//! use ibid_format::{FileId, Keys, MasterKey};
//!
//! let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
//! let mut builder = FrameBuilder::default();
//! for chunk in [&b"first chunk"[..], b"second chunk"] {
//!     builder.push(keys.chunk_id(chunk), chunk);
//! }
//! let mut plaintext = Vec::new();
//! FrameEncoder::new().encode(builder.blobs(), builder.body(), Compression::Zstd(3), &mut plaintext)?;
//!
//! let mut decoder = FrameDecoder::new();
//! let frame = decoder.decode(&plaintext, &[], None)?;
//! assert_eq!(frame.chunk(1)?, b"second chunk");
//! # Ok::<(), ibid_format::Error>(())
//! ```
//!
//! A *delta frame* is compressed against parts of chunks in other frames, its *bases*. It lists these
//! parts, its [`pieces`]; their concatenation is the *prefix* that the body is a delta against.
//!
//! ```
//! # use ibid_format::frame::{self, FrameBuilder, FrameDecoder, FrameEncoder, Piece};
//! # use ibid_format::{FileId, Keys, MasterKey};
//! # let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
//! let base = b"The quick brown fox jumps over the lazy dog, again and again.";
//! let next = b"The quick brown fox jumped over the lazy dog, again and again.";
//! let pieces = [Piece { base: keys.chunk_id(base).prefix(), start: 4, length: base.len() as u32 - 4 }];
//! let mut builder = FrameBuilder::default();
//! builder.push(keys.chunk_id(next), next);
//! let (mut plaintext, method) = (Vec::new(), ibid_delta::Method::ZstdPrefix { level: 1 });
//! FrameEncoder::new().encode_delta(builder.blobs(), builder.body(), &pieces, &base[4..], method, &mut plaintext)?;
//!
//! assert_eq!(frame::pieces(&plaintext)?, pieces);
//! let mut decoder = FrameDecoder::new();
//! assert_eq!(decoder.decode(&plaintext, &base[4..], None)?.chunk(0)?, next);
//! # Ok::<(), ibid_format::Error>(())
//! ```

mod decode;
mod encode;
mod piece;

pub use decode::{Frame, FrameDecoder, lengths};
pub(crate) use decode::{check_packed, failed as decompressing_failed};
pub use encode::{Compression, FrameBuilder, FrameEncoder};
pub use piece::{PIECES_MAX, PREFIX_BYTES_MAX, Piece, pieces};

use crate::{ChunkId, ChunkPrefix, Error};

/// Longest chunk, bytes.
pub const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// Most blobs in a frame.
pub const BLOBS_MAX: usize = 65_535;
/// Longest body of a frame before compression, bytes.
pub const BODY_BYTES_MAX: u32 = 64 << 20;

/// Largest depth of a frame: so many frames at most are decoded, one after the other, before it.
pub const DEPTH_MAX: u8 = 16;

/// The codec of an uncompressed body.
const STORED: u8 = 0;
/// The codec zstd.
const ZSTD: u8 = 1;
/// The codec of deltas against a prefix.
const DELTA: u8 = 2;

/// One chunk in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Blob {
    /// The chunk's name.
    pub id: ChunkId,
    /// Its length, bytes: 1 to [`CHUNK_BYTES_MAX`].
    pub length: u32,
}

/// Checks count, lengths and their sum. Returns the sum: the uncompressed length of the frame.
pub(crate) fn body_len(blobs: &[Blob]) -> Result<u32, Error> {
    crate::error::in_range("blobs of a frame", blobs.len() as u64, 1, BLOBS_MAX as u64)?;
    let mut sum = 0;
    for blob in blobs {
        sum += crate::error::in_range("chunk length", blob.length.into(), 1, CHUNK_BYTES_MAX.into())?;
    }
    crate::error::in_range("frame body", sum, 1, BODY_BYTES_MAX.into()).map(|sum| sum as u32)
}

/// Checks a frame's depth and bases in a directory: the depth is 0 without bases, and 1 to
/// [`DEPTH_MAX`] with some, each named once.
pub(crate) fn check_bases(depth: u8, bases: &[ChunkPrefix]) -> Result<(), Error> {
    use crate::error::in_range;
    let depth_min = u64::from(!bases.is_empty());
    in_range(
        "depth of a frame",
        depth.into(),
        depth_min,
        depth_min * u64::from(DEPTH_MAX),
    )?;
    in_range("bases of a frame", bases.len() as u64, 0, PIECES_MAX as u64)?;
    let mut sorted: Vec<_> = bases.iter().zip(0u64..).collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        None => Ok(()),
        Some(pair) => Err(Error::Repeated {
            field: "bases of a frame",
            position: pair[1].1,
        }),
    }
}
