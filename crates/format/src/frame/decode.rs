//! Reading frames.

use std::fmt;
use std::ops::Range;

use ibid_delta::advanced::Outline;
use zstd::zstd_safe::{self, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::{BLOBS_MAX, BODY_BYTES_MAX, CHUNK_BYTES_MAX, DELTA, STORED, ZSTD, piece};
use crate::Error;
use crate::error::{equal, in_range};
use crate::wire::Reader;

/// log2 of [`BODY_BYTES_MAX`]: no valid frame needs a larger window.
const WINDOW_LOG_MAX: u32 = BODY_BYTES_MAX.ilog2();
/// A zstd block yields at most so many bytes, and takes at least four.
const ZSTD_BLOCK: u64 = 128 << 10;
const ZSTD_BLOCK_PACKED_MIN: u64 = 4;

/// Reads frames. Owns zstd contexts, and the memory that [`decode`](FrameDecoder::decode) decompresses
/// into: reuse it.
pub struct FrameDecoder {
    context: DCtx<'static>,
    delta: ibid_delta::DeltaDecoder,
    /// The body of the last decoded frame.
    body: Vec<u8>,
    /// The end of each of its slots in the body.
    ends: Vec<u32>,
}

impl FrameDecoder {
    /// Returns a decoder that holds no memory yet except its contexts.
    ///
    /// # Panics
    ///
    /// If there is no memory for a zstd context.
    pub fn new() -> FrameDecoder {
        let mut context = DCtx::create();
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
            .expect("zstd takes window logs from 10 to 31");
        FrameDecoder {
            context,
            delta: ibid_delta::DeltaDecoder::new(),
            body: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Reads a frame's plaintext. With `upto_slot` it decompresses no further than the end of that
    /// slot, if the codec allows it, and later slots are not available.
    ///
    /// `prefix` is the concatenation of the frame's [`pieces`](super::pieces), empty for a frame
    /// without any.
    ///
    /// A stored frame is not copied: its chunks are slices of `plaintext`. A frame does not contain
    /// the ids of its chunks, so nothing is compared with them: a wrong prefix of the right length may
    /// give wrong bytes.
    ///
    /// # Errors
    ///
    /// The fault with the frame; [`Error::Mismatch`] if the prefix is not as long as the
    /// pieces together; [`Error::NoSuchSlot`] if the frame has no slot `upto_slot`.
    pub fn decode<'a>(
        &'a mut self,
        plaintext: &'a [u8],
        prefix: &[u8],
        upto_slot: Option<u16>,
    ) -> Result<Frame<'a>, Error> {
        let (mut body, mut ends) = (std::mem::take(&mut self.body), std::mem::take(&mut self.ends));
        let stored = self.fill(plaintext, prefix, upto_slot, &mut body, &mut ends);
        (self.body, self.ends) = (body, ends);
        let stored = stored?;
        let slots = self.ends.len() as u32;
        Ok(Frame {
            ends: &self.ends,
            decoded: upto_slot.map_or(slots, |slot| u32::from(slot) + 1),
            body: stored.unwrap_or(&self.body),
        })
    }

    /// Reads the bytes that a frame contains itself, and puts the end of each chunk into `ends`.
    ///
    /// The chunks of a frame without pieces replace the contents of `body`. For a frame with pieces
    /// it returns an outline of its chunks instead: the ranges of the prefix between its own bytes.
    /// `body` is then empty. `read` appends ranges of the prefix, as in
    /// [`ibid_delta::DeltaDecoder::outline`].
    ///
    /// # Errors
    ///
    /// As [`decode`](FrameDecoder::decode), and the errors of `read`. Then `body` and `ends` are
    /// empty.
    pub fn decode_own<E: From<Error>>(
        &mut self,
        plaintext: &[u8],
        read: impl FnOnce(&[Range<u32>], &mut Vec<u8>) -> Result<(), E>,
        body: &mut Vec<u8>,
        ends: &mut Vec<u32>,
    ) -> Result<Option<Outline>, E> {
        body.clear();
        let decoded = Head::read(plaintext, ends)
            .map_err(E::from)
            .and_then(|head| match head.codec {
                DELTA => self.outline(&head, read).map(Some),
                _ => {
                    let stored = self.whole(&head, head.total, body)?;
                    body.extend_from_slice(stored.unwrap_or_default());
                    Ok(None)
                }
            });
        if decoded.is_err() {
            body.clear();
            ends.clear();
        }
        decoded
    }

    fn outline<E: From<Error>>(
        &mut self,
        head: &Head<'_>,
        read: impl FnOnce(&[Range<u32>], &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Outline, E> {
        head.check_delta()?;
        let read = |stretches: &[Range<u32>], out: &mut Vec<u8>| read(stretches, out).map_err(Unread::Prefix);
        self.delta
            .outline(head.prefix as usize, head.packed, head.total, read)
            .map_err(|unread| match unread {
                Unread::Delta(error) => Error::from(error).into(),
                Unread::Prefix(error) => error,
            })
    }

    /// Reads a frame up to a slot. Its bytes go into `body`, unless the plaintext stores them
    /// uncompressed: then it returns that slice.
    fn fill<'a>(
        &mut self,
        plaintext: &'a [u8],
        prefix: &[u8],
        upto_slot: Option<u16>,
        body: &mut Vec<u8>,
        ends: &mut Vec<u32>,
    ) -> Result<Option<&'a [u8]>, Error> {
        let head = Head::read(plaintext, ends)?;
        equal("prefix of a frame", head.prefix.into(), prefix.len() as u64)?;
        let wanted = match upto_slot {
            None => head.total,
            Some(found) => *ends.get(usize::from(found)).ok_or(Error::NoSuchSlot {
                slots: ends.len() as u32,
                found,
            })? as usize,
        };
        if head.codec == DELTA {
            head.check_delta()?;
            body.clear();
            self.delta.decode(prefix, head.packed, head.total, body)?;
            return Ok(None);
        }
        self.whole(&head, wanted, body)
    }

    /// Reads the first `wanted` bytes of a frame without pieces, or more.
    fn whole<'a>(&mut self, head: &Head<'a>, wanted: usize, body: &mut Vec<u8>) -> Result<Option<&'a [u8]>, Error> {
        match head.codec {
            STORED => {
                equal("stored frame body", head.total as u64, head.packed.len() as u64)?;
                Ok(Some(&head.packed[..wanted]))
            }
            ZSTD => self.decompress(head.packed, head.total, wanted, body).map(|()| None),
            other => Err(Error::Unknown {
                field: "frame codec",
                found: other.into(),
            }),
        }
    }

    /// Decompresses at least the first `wanted` of `total` bytes into `body`.
    fn decompress(&mut self, packed: &[u8], total: usize, wanted: usize, body: &mut Vec<u8>) -> Result<(), Error> {
        check_packed(packed, total as u64)?;
        body.clear();
        // Stopping early decompresses through zstd's own window, which costs a copy. It is only
        // worth it if it leaves out a large part.
        if wanted > total - total / 4 {
            body.reserve_exact(total);
            let produced = self.context.decompress(body, packed).map_err(failed)?;
            return equal("frame body", total as u64, produced as u64);
        }
        body.resize(wanted, 0);
        self.context.reset(ResetDirective::SessionOnly).map_err(failed)?;
        let mut input = InBuffer::around(packed);
        let mut output = OutBuffer::around(&mut body[..]);
        loop {
            let before = (input.pos(), output.pos());
            let ended = self
                .context
                .decompress_stream(&mut output, &mut input)
                .map_err(failed)?
                == 0;
            let produced = output.pos();
            if produced == wanted {
                return Ok(());
            }
            if ended || before == (input.pos(), produced) {
                return equal("frame body", wanted as u64, produced as u64);
            }
        }
    }
}

/// The head of a frame, and its bytes.
struct Head<'a> {
    codec: u8,
    /// Length of the prefix, bytes.
    prefix: u32,
    /// Length of the chunks together, bytes.
    total: usize,
    packed: &'a [u8],
}

impl<'a> Head<'a> {
    /// Reads the head, and puts the end of each slot into `ends`.
    fn read(plaintext: &'a [u8], ends: &mut Vec<u32>) -> Result<Head<'a>, Error> {
        let mut reader = Reader::new(plaintext);
        let codec = reader.u8("frame codec")?;
        Ok(Head {
            codec,
            prefix: if codec == DELTA { piece::skip(&mut reader)? } else { 0 },
            total: read_blobs(&mut reader, ends)?,
            packed: reader.rest(),
        })
    }

    /// Checks that the delta makes all chunks.
    fn check_delta(&self) -> Result<(), Error> {
        let (_, stated) = ibid_delta::advanced::describe(self.packed)?;
        equal("frame body", self.total as u64, stated as u64)
    }
}

/// Returns the lengths of a frame's chunks in bytes, by slot.
///
/// Looks at the beginning of the frame's plaintext only; [`FrameDecoder::decode`] checks the rest.
///
/// # Errors
///
/// The fault with the codec, the pieces or the lengths.
pub fn lengths(plaintext: &[u8]) -> Result<Vec<u32>, Error> {
    let mut ends = Vec::new();
    Head::read(plaintext, &mut ends)?;
    let mut start = 0;
    for end in &mut ends {
        (*end, start) = (*end - start, *end);
    }
    Ok(ends)
}

/// Why there is no outline.
enum Unread<E> {
    Delta(ibid_delta::Error),
    /// The caller cannot read the prefix.
    Prefix(E),
}

impl<E> From<ibid_delta::Error> for Unread<E> {
    fn from(error: ibid_delta::Error) -> Unread<E> {
        Unread::Delta(error)
    }
}

/// Reads the count and the blobs' lengths into `ends`, and returns the length of the body.
fn read_blobs(reader: &mut Reader<'_>, ends: &mut Vec<u32>) -> Result<usize, Error> {
    ends.clear();
    let count = reader.count("blobs of a frame", BLOBS_MAX as u64, 1)?;
    in_range("blobs of a frame", count as u64, 1, BLOBS_MAX as u64)?;
    ends.reserve(count);
    let mut end = 0;
    for _ in 0..count {
        end += reader.varint_in("chunk length", 1, CHUNK_BYTES_MAX.into())?;
        in_range("frame body", end, 1, BODY_BYTES_MAX.into())?;
        ends.push(end as u32);
    }
    Ok(end as usize)
}

/// Refuses bytes that cannot decompress to `total` bytes, before memory for them is taken. They
/// must be one zstd frame that states this length and has enough blocks for it.
pub(crate) fn check_packed(packed: &[u8], total: u64) -> Result<(), Error> {
    let field = "frame body";
    let most = (packed.len() as u64 / ZSTD_BLOCK_PACKED_MIN + 1) * ZSTD_BLOCK;
    in_range(field, total, 1, most)?;
    equal(
        "zstd frame",
        packed.len() as u64,
        zstd_safe::find_frame_compressed_size(packed).map_err(failed)? as u64,
    )?;
    match zstd_safe::get_frame_content_size(packed) {
        Ok(Some(stated)) => equal(field, total, stated),
        Ok(None) | Err(_) => Err(Error::Zstd {
            field,
            reason: "No content size in the frame header",
        }),
    }
}

pub(crate) fn failed(code: usize) -> Error {
    Error::Zstd {
        field: "decompressing a frame",
        reason: zstd_safe::get_error_name(code),
    }
}

impl Default for FrameDecoder {
    fn default() -> Self {
        FrameDecoder::new()
    }
}

impl fmt::Debug for FrameDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameDecoder")
            .field("body_capacity", &self.body.capacity())
            .finish_non_exhaustive()
    }
}

/// The chunks of a frame, decompressed.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    ends: &'a [u32],
    /// Slots that were decompressed.
    decoded: u32,
    body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns the number of slots in the frame, 1 to [`BLOBS_MAX`], decompressed or not.
    #[allow(clippy::len_without_is_empty, reason = "a frame has a chunk at least")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the length of the chunk in a slot, bytes, whether it was decompressed or not.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchSlot`].
    pub fn chunk_len(&self, slot: u16) -> Result<u32, Error> {
        self.range(slot).map(|(start, end)| end - start)
    }

    /// Returns the chunk in a slot.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchSlot`], or [`Error::NotDecoded`] if decoding stopped before it.
    pub fn chunk(&self, slot: u16) -> Result<&'a [u8], Error> {
        let (start, end) = self.range(slot)?;
        if u32::from(slot) >= self.decoded {
            return Err(Error::NotDecoded {
                decoded: self.decoded,
                found: slot,
            });
        }
        Ok(&self.body[start as usize..end as usize])
    }

    /// Returns the decompressed chunks, by slot.
    pub fn chunks(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (body, mut start) = (self.body, 0);
        self.ends[..self.decoded as usize].iter().map(move |&end| {
            let chunk = &body[start..end as usize];
            start = end as usize;
            chunk
        })
    }

    fn range(&self, slot: u16) -> Result<(u32, u32), Error> {
        let slots = self.ends.len() as u32;
        let end = *self
            .ends
            .get(usize::from(slot))
            .ok_or(Error::NoSuchSlot { slots, found: slot })?;
        let start = slot.checked_sub(1).map_or(0, |before| self.ends[usize::from(before)]);
        Ok((start, end))
    }
}
