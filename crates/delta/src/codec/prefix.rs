//! zstd with the base as prefix: matches reach back into the base as if it had been compressed just
//! before.
//!
//! The body is a zstd frame without its header, which follows from the target's length: one
//! segment, a content size in the fewest bytes, no checksum, no dictionary number.

use std::fmt;
use std::io::Cursor;

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, compress_bound};

use super::LENGTH_MAX;
use crate::Error;
use crate::error::{equal, in_range, no_memory};

const MAGIC: [u8; 4] = 0xfd2f_b528u32.to_le_bytes();
/// zstd reads a prefix that begins like this as a trained dictionary.
const DICTIONARY_MAGIC: [u8; 4] = 0xec30_a437u32.to_le_bytes();
/// Longest frame header written here: magic, descriptor, content size.
const HEADER_BYTES_MAX: usize = 4 + 1 + 4;
/// A zstd block yields at most so many bytes, and takes at least four.
const BLOCK: u64 = 128 << 10;
const BLOCK_PACKED_MIN: u64 = 4;

/// The levels of [`super::Method::ZstdPrefix`]; others are clamped to this range.
const LEVEL_MIN: i32 = -7;
const LEVEL_MAX: i32 = 19;

/// Least window of every level, if zstd chooses it by the length of base and target.
const WINDOW_MIN: usize = 512 << 10;

/// Bytes of a base that zstd's tables of level 1 have room for: for a pair of up to 128 KiB in sum,
/// and for longer ones.
const INDEXED_OF_SHORT: usize = 64 << 10;
const INDEXED_OF_LONG: usize = 128 << 10;

/// Returns the prefix for zstd: the base, without its first byte if zstd would take it for a
/// dictionary.
fn raw(base: &[u8]) -> &[u8] {
    if base.starts_with(&DICTIONARY_MAGIC) {
        &base[1..]
    } else {
        base
    }
}

/// Returns the header of a zstd frame of `length` bytes, in the shortest form.
fn header(length: u32) -> ([u8; HEADER_BYTES_MAX], usize) {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    let mut header = [0; HEADER_BYTES_MAX];
    header[..4].copy_from_slice(&MAGIC);
    let (descriptor, stated, bytes) = match length {
        0..256 => (0, length, 1),
        256..65792 => (1 << 6, length - 256, 2),
        _ => (2 << 6, length, 4),
    };
    header[4] = descriptor | SINGLE_SEGMENT;
    header[5..].copy_from_slice(&stated.to_le_bytes());
    (header, 5 + bytes)
}

/// A zstd context and room for a frame.
pub(super) struct PrefixEncoder {
    context: CCtx<'static>,
    frame: Vec<u8>,
}

impl PrefixEncoder {
    pub(super) fn new() -> PrefixEncoder {
        PrefixEncoder {
            context: CCtx::create(),
            frame: Vec::new(),
        }
    }

    /// Appends the body. The target is not empty; both ends are at most [`LENGTH_MAX`] long.
    pub(super) fn encode(&mut self, base: &[u8], target: &[u8], level: i32, out: &mut Vec<u8>) -> Result<(), Error> {
        let level = level.clamp(LEVEL_MIN, LEVEL_MAX);
        let prefix = raw(base);
        self.frame.clear();
        self.frame.reserve(compress_bound(target.len()));
        let fits = if prefix.len() + target.len() <= INDEXED_OF_LONG {
            prefix.len() <= INDEXED_OF_SHORT
        } else {
            prefix.len() <= INDEXED_OF_LONG
        };
        let mut end = Cursor::new(&mut self.frame);
        if fits && target.len() <= WINDOW_MIN {
            // A prefix passed with the call is borrowed for the call only, so the context can be
            // reused.
            self.context
                .compress_using_dict(&mut end, target, prefix, level)
                .map_err(failed)?;
        } else {
            compress_long(prefix, target, level, &mut end)?;
        }
        let (header, length) = header(target.len() as u32);
        let blocks = self.frame.strip_prefix(&header[..length]).ok_or(Error::Zstd {
            field: "compressing a delta",
            reason: "Another frame header than expected",
        })?;
        out.extend_from_slice(blocks);
        Ok(())
    }

    pub(super) fn memory(&self) -> usize {
        self.context.sizeof() + self.frame.capacity()
    }
}

/// Compresses with a window over base and target and tables that have room for the base.
///
/// These parameters belong to a context, which borrows the prefix for its life, so this creates a
/// context for the call. That costs 10 µs: a target of 64 KiB takes 43 µs with a base of 128 KiB,
/// which needs no new context, and 55 µs with one of 129 KiB.
fn compress_long(prefix: &[u8], target: &[u8], level: i32, end: &mut Cursor<&mut Vec<u8>>) -> Result<(), Error> {
    let log = |length: usize| length.next_power_of_two().ilog2();
    let mut context = CCtx::try_create().ok_or(Error::Zstd {
        field: "compressing a delta",
        reason: no_memory(),
    })?;
    let window_log = log(prefix.len() + target.len()).clamp(10, 30);
    for parameter in [CParameter::CompressionLevel(level), CParameter::WindowLog(window_log)] {
        context.set_parameter(parameter).map_err(failed)?;
    }
    if level <= 2 {
        // Levels 1 and 2 index every third position.
        let hash_log = (log(prefix.len()).saturating_sub(2)).clamp(14, 22);
        context.set_parameter(CParameter::HashLog(hash_log)).map_err(failed)?;
    } else if level <= 4 {
        // Levels 3 and 4 have two tables, which by default are too small for a prefix of 1 MiB.
        // Logs over 18 find no more.
        let table_log = window_log.clamp(16, 18);
        for parameter in [CParameter::HashLog(table_log), CParameter::ChainLog(table_log)] {
            context.set_parameter(parameter).map_err(failed)?;
        }
    }
    context.ref_prefix(prefix).map_err(failed)?;
    context.compress2(end, target).map_err(failed).map(drop)
}

/// A zstd context and room for a frame.
pub(super) struct PrefixDecoder {
    context: DCtx<'static>,
    frame: Vec<u8>,
}

impl PrefixDecoder {
    pub(super) fn new() -> PrefixDecoder {
        PrefixDecoder {
            context: DCtx::create(),
            frame: Vec::new(),
        }
    }

    /// Appends the target, which is `length` bytes long, at least 1.
    pub(super) fn decode(&mut self, base: &[u8], body: &[u8], length: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let field = "target length";
        let most = (body.len() as u64 / BLOCK_PACKED_MIN + 1) * BLOCK;
        in_range(field, length as u64, 1, most.min(LENGTH_MAX))?;
        let (header, header_length) = header(length as u32);
        self.frame.clear();
        self.frame.reserve(header_length + body.len());
        self.frame.extend_from_slice(&header[..header_length]);
        self.frame.extend_from_slice(body);
        let found = zstd_safe::find_frame_compressed_size(&self.frame).map_err(failed)?;
        equal("delta body", self.frame.len() as u64, found as u64)?;

        let start = out.len();
        out.reserve_exact(length);
        let mut end = Cursor::new(out);
        end.set_position(start as u64);
        let decompressed = self
            .context
            .decompress_using_dict(&mut end, &self.frame, raw(base))
            .map_err(failed)?;
        equal(field, length as u64, decompressed as u64)
    }

    pub(super) fn memory(&self) -> usize {
        self.context.sizeof() + self.frame.capacity()
    }
}

fn failed(code: usize) -> Error {
    Error::Zstd {
        field: "a delta by zstd",
        reason: zstd_safe::get_error_name(code),
    }
}

impl fmt::Debug for PrefixEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixEncoder")
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PrefixDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixDecoder")
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}
