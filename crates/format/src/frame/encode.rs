//! Gathering chunks and compressing them.

use std::fmt;
use std::io::Cursor;

use zstd::zstd_safe::{self, CCtx, CParameter, compress_bound};

use super::{Blob, DELTA, Piece, STORED, ZSTD, body_len, piece};
use crate::error::equal;
use crate::{ChunkId, Error, wire};

/// Chunks gathered to be compressed together. Reusable: [`clear`](FrameBuilder::clear) keeps its memory.
#[derive(Debug, Clone, Default)]
pub struct FrameBuilder {
    blobs: Vec<Blob>,
    body: Vec<u8>,
}

impl FrameBuilder {
    /// Returns an empty builder.
    pub fn new() -> FrameBuilder {
        FrameBuilder::default()
    }

    /// Adds a chunk; its slot is the number of chunks before it.
    ///
    /// The limits of a frame are checked by [`FrameEncoder::encode`].
    pub fn push(&mut self, id: ChunkId, data: &[u8]) {
        // A length over 32 bits is over the limit, and stays over it.
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        self.blobs.push(Blob { id, length });
        self.body.extend_from_slice(data);
    }

    /// Returns the length of the chunks together, bytes.
    pub fn len(&self) -> usize {
        self.body.len()
    }

    /// Whether it has no chunks.
    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// Returns the chunks, by slot.
    pub fn blobs(&self) -> &[Blob] {
        &self.blobs
    }

    /// Returns their bytes, in order.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Removes the chunks and keeps the memory.
    pub fn clear(&mut self) {
        self.blobs.clear();
        self.body.clear();
    }
}

/// How a frame's body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Stored,
    /// By zstd at this level, clamped to zstd's range.
    Zstd(i32),
    /// By zstd's level 1, with matches of five bytes instead of seven. It is about as fast as level 1.
    /// Database pages come out smaller than with level 3, most other data larger than with either.
    ZstdShort,
    /// By zstd's level 1 with a table of 1024 entries, so that it finds recent matches and few others.
    /// Dumps of many short values, in which a distant match costs more than it saves, come out a tenth
    /// smaller than with level 1, most other data larger.
    ZstdNear,
}

/// Writes frames. Owns zstd contexts, which are a megabyte or more: reuse it.
pub struct FrameEncoder {
    context: CCtx<'static>,
    delta: ibid_delta::DeltaEncoder,
    /// The setting of the context.
    set: Compression,
}

impl FrameEncoder {
    /// Returns an encoder.
    ///
    /// # Panics
    ///
    /// If there is no memory for a zstd context.
    pub fn new() -> FrameEncoder {
        FrameEncoder {
            context: CCtx::create(),
            delta: ibid_delta::DeltaEncoder::new(),
            set: Compression::Stored,
        }
    }

    /// Appends the plaintext of a frame to `out`. The body is stored uncompressed if compression would
    /// save less than 1/32 of it: then reading it costs nothing.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for no or too many blobs, an empty or too long chunk, or a body over
    /// the limit; [`Error::Mismatch`] if the body is not as long as the blobs together;
    /// [`Error::Zstd`]. `out` is then as it was.
    pub fn encode(
        &mut self,
        blobs: &[Blob],
        body: &[u8],
        compression: Compression,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        equal("frame body", body_len(blobs)?.into(), body.len() as u64)?;
        let start = out.len();
        out.push(STORED);
        put_lengths(blobs, out);
        let body_start = out.len();
        if compression != Compression::Stored {
            match self.compress(body, compression, out) {
                Ok(packed) if packed < body.len() - body.len() / 32 => {
                    out[start] = ZSTD;
                    return Ok(());
                }
                Ok(_) => out.truncate(body_start),
                Err(error) => {
                    out.truncate(start);
                    return Err(error);
                }
            }
        }
        out.extend_from_slice(body);
        Ok(())
    }

    /// Appends the plaintext of a delta frame to `out`: the body as a delta against `prefix`, which is
    /// the concatenation of `pieces`. Returns how many bytes of the body zstd compressed.
    ///
    /// Compare the length with that of [`encode`](FrameEncoder::encode), which may be shorter and
    /// makes a frame that needs no other.
    ///
    /// # Errors
    ///
    /// As [`encode`](FrameEncoder::encode); [`Error::OutOfRange`] for no or too many pieces, an empty
    /// one, one that ends beyond any chunk, or too long a prefix; [`Error::Mismatch`] if the
    /// prefix is not as long as the pieces together; [`Error::Delta`]. `out` is then as it was.
    pub fn encode_delta(
        &mut self,
        blobs: &[Blob],
        body: &[u8],
        pieces: &[Piece],
        prefix: &[u8],
        method: ibid_delta::Method,
        out: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        equal("frame body", body_len(blobs)?.into(), body.len() as u64)?;
        let start = out.len();
        out.push(DELTA);
        let encoded = piece::put(pieces, out)
            .and_then(|length| equal("prefix of a frame", length.into(), prefix.len() as u64))
            .and_then(|()| {
                put_lengths(blobs, out);
                Ok(self.delta.encode(method, prefix, body, out)?)
            });
        if encoded.is_err() {
            out.truncate(start);
        }
        encoded
    }

    /// Returns the outline of the body that was last encoded as a delta, equal to the one that
    /// [`FrameDecoder::decode_own`](super::FrameDecoder::decode_own) makes of its frame, or `None` if
    /// [there is none](ibid_delta::DeltaEncoder::outline).
    pub fn outline(&self) -> Option<ibid_delta::advanced::Outline> {
        self.delta.outline()
    }

    /// Returns the length of `sample` compressed, bytes, as if it were part of a large frame. `space`
    /// is a buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Zstd`].
    pub fn compressed_len(
        &mut self,
        sample: &[u8],
        compression: Compression,
        space: &mut Vec<u8>,
    ) -> Result<usize, Error> {
        space.clear();
        match compression {
            Compression::Stored => Ok(sample.len()),
            _ => self.compress(sample, compression, space),
        }
    }

    /// Appends the compressed body, one zstd frame, and returns its length.
    fn compress(&mut self, body: &[u8], compression: Compression, out: &mut Vec<u8>) -> Result<usize, Error> {
        if self.set != compression {
            // For a parameter of 0, zstd chooses by the length of the body, so the settings tried
            // on samples are given in full. At level 3, tables half as large as the default fit the
            // second-level cache beside the frame: 5 to 10 % faster, at most 0.4 % larger.
            let (level, hash_log, chain_log, match_min) = match compression {
                Compression::Zstd(1) => (1, 14, 13, 7),
                Compression::Stored | Compression::ZstdShort => (1, 14, 13, 5),
                Compression::ZstdNear => (1, 10, 13, 7),
                Compression::Zstd(3) => (3, 16, 15, 5),
                Compression::Zstd(level) => (level, 0, 0, 0),
            };
            for parameter in [
                CParameter::CompressionLevel(level),
                CParameter::HashLog(hash_log),
                CParameter::ChainLog(chain_log),
                CParameter::MinMatch(match_min),
            ] {
                self.context.set_parameter(parameter).map_err(failed)?;
            }
            self.set = compression;
        }
        let start = out.len();
        out.reserve(compress_bound(body.len()));
        let mut end = Cursor::new(&mut *out);
        end.set_position(start as u64);
        self.context.compress2(&mut end, body).map_err(failed)
    }
}

/// Appends the number of blobs and their lengths.
fn put_lengths(blobs: &[Blob], out: &mut Vec<u8>) {
    wire::put_varint(out, blobs.len() as u64);
    for blob in blobs {
        wire::put_varint(out, blob.length.into());
    }
}

fn failed(code: usize) -> Error {
    Error::Zstd {
        field: "compressing a frame",
        reason: zstd_safe::get_error_name(code),
    }
}

impl Default for FrameEncoder {
    fn default() -> Self {
        FrameEncoder::new()
    }
}

impl fmt::Debug for FrameEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameEncoder")
            .field("set", &self.set)
            .finish_non_exhaustive()
    }
}
