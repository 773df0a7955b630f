//! Frames: chunks that are compressed together.
//!
//! ```text
//! codec (u8) ‖ count (varint) ‖ per blob: encoding (u8), length (varint) ‖ body
//! ```
//!
//! The body is the chunks' bytes in order, stored or compressed by zstd as a whole; a chunk's number in it is its *slot*.
//! Neighbours in a backup resemble each other, so together they compress better than alone, and reading one chunk
//! decompresses no further than its end.
//!
//! ```
//! use ibid_format::frame::{Builder, Compression, Decoder, Encoder};
//! use ibid_format::{FileId, Keys, MasterKey};
//!
//! let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
//! let mut builder = Builder::default();
//! for chunk in [&b"first chunk"[..], b"second chunk"] {
//!     builder.push(keys.chunk_id(chunk), chunk);
//! }
//! let mut plaintext = Vec::new();
//! Encoder::new().encode(builder.blobs(), builder.body(), Compression::Zstd(3), &mut plaintext)?;
//!
//! let mut decoder = Decoder::new();
//! let frame = decoder.decode(&plaintext, None)?;
//! assert_eq!(frame.chunk(1)?, b"second chunk");
//! # Ok::<(), ibid_format::Error>(())
//! ```

mod decode;
mod encode;

pub use decode::{Decoder, Frame};
pub use encode::{Builder, Compression, Encoder};

use crate::{ChunkId, Error};

/// Longest chunk, bytes.
pub const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// Most blobs in a frame.
pub const BLOBS_MAX: usize = 65_535;
/// Longest body of a frame before compression, bytes.
pub const BODY_BYTES_MAX: u32 = 64 << 20;

/// The number of the codec that leaves the body as it is.
const STORED: u8 = 0;
/// The number of zstd.
const ZSTD: u8 = 1;

/// How a blob's bytes give the chunk. Other numbers are reserved for deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// They are the chunk.
    Whole,
}

impl Encoding {
    /// The number that stands for it in frames and directories.
    pub fn number(self) -> u8 {
        match self {
            Encoding::Whole => 0,
        }
    }

    /// The encoding with this number.
    ///
    /// # Errors
    ///
    /// [`Error::ReservedEncoding`] for every other number.
    pub fn from_number(number: u8) -> Result<Encoding, Error> {
        match number {
            0 => Ok(Encoding::Whole),
            found => Err(Error::ReservedEncoding { found }),
        }
    }
}

/// One chunk in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Blob {
    /// The chunk's name.
    pub id: ChunkId,
    /// How its bytes are written.
    pub encoding: Encoding,
    /// Its length, bytes: 1 to [`CHUNK_BYTES_MAX`].
    pub length: u32,
}

/// Checks count, lengths and their sum, and gives the sum: the uncompressed length of the frame.
pub(crate) fn body_len(blobs: &[Blob]) -> Result<u32, Error> {
    crate::error::in_range("blobs of a frame", blobs.len() as u64, 1, BLOBS_MAX as u64)?;
    let mut sum = 0;
    for blob in blobs {
        sum += crate::error::in_range("chunk length", blob.length.into(), 1, CHUNK_BYTES_MAX.into())?;
    }
    crate::error::in_range("frame body", sum, 1, BODY_BYTES_MAX.into()).map(|sum| sum as u32)
}
