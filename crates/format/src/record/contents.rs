//! What messages hold: log entries with bodies, or rows of tables, compressed.

use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, InBuffer, OutBuffer, compress_bound};

use super::index::INDEX_ROW_BYTES_MAX;
use super::oplog::LOG_ENTRY_BYTES_MAX;
use super::{BODY_BYTES_MAX, NUMBER_MAX, RECORD_BYTES_MAX};
use crate::Error;
use crate::error::{equal, in_range};
use crate::frame::{check_packed, decompressing_failed};
use crate::wire::{self, Reader};

/// Most bytes that a message holds, before they are compressed.
pub(super) const RAW_BYTES_MAX: u64 = 1 << 29;
/// Most entries, or bodies, of a message.
pub const PARTS_MAX: u64 = 1 << 22;
/// Longest key of a table: that of a row of an index.
pub(super) const TABLE_KEY_BYTES_MAX: usize = INDEX_ROW_BYTES_MAX;

/// A body in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SentBody<'a> {
    /// The record that the bytes are a delta against; 0 if they are the body.
    pub base: u64,
    /// The body, or the delta.
    pub bytes: &'a [u8],
}

/// The decompressed contents of a [`LogBatch`](super::LogBatch).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchContents<'a> {
    /// Entries, as [`LogEntry::decode`](super::LogEntry::decode) reads them.
    pub entries: Vec<&'a [u8]>,
    /// The bodies of the records that the entries write, in their order.
    pub bodies: Vec<SentBody<'a>>,
}

/// A row of a table: the table's number, key and value.
pub type TableRow<'a> = (u8, &'a [u8], &'a [u8]);

/// Puts one after the other in the memory of the second, which may be long, with room for some more bytes.
pub(super) fn joined(first: Vec<u8>, mut second: Vec<u8>, room: usize) -> Vec<u8> {
    second.reserve_exact(first.len() + room);
    second.splice(0..0, first);
    second
}

/// Returns what compresses so many bytes at a level.
fn compressor(level: i32, length: u64) -> Result<CCtx<'static>, Error> {
    in_range("length of contents", length, 1, RAW_BYTES_MAX)?;
    let mut context = CCtx::create();
    // Levels beyond those that zstd has are brought into its range.
    let _ = context.set_parameter(CParameter::CompressionLevel(level));
    // 5 bytes for each entry; zstd lowers what is too much for a short message. Its own choice for 1 MiB at level 9
    // takes 11 MB instead of 1.3, makes messages 0.3 % smaller, and takes up to twice as long.
    let hash_log = (length / 8).max(1).ilog2().clamp(18, 22);
    let set = context.set_parameter(CParameter::HashLog(hash_log));
    set.map_err(compressing_failed)?;
    Ok(context)
}

fn compressing_failed(code: usize) -> Error {
    Error::Zstd {
        field: "compressing a message",
        reason: zstd_safe::get_error_name(code),
    }
}

fn compress(raw: &[u8], level: i32) -> Result<Vec<u8>, Error> {
    let mut context = compressor(level, raw.len() as u64)?;
    let mut packed = Vec::with_capacity(compress_bound(raw.len()));
    context.compress2(&mut packed, raw).map_err(compressing_failed)?;
    Ok(packed)
}

/// Compresses several buffers as one, and frees each when it has been read. zstd keeps a window of what it has read: as
/// long as the longest buffer, 4 MiB at most.
fn compress_one_by_one(buffers: Vec<Vec<u8>>, level: i32) -> Result<Vec<u8>, Error> {
    const WINDOW_LOG_MIN: u32 = 17;
    const WINDOW_LOG_MAX: u32 = 22;
    let length: usize = buffers.iter().map(Vec::len).sum();
    let longest = buffers.iter().map(Vec::len).max().unwrap_or_default();
    let mut context = compressor(level, length as u64)?;
    let window_log = longest.max(1).ilog2().clamp(WINDOW_LOG_MIN, WINDOW_LOG_MAX);
    let set = context.set_parameter(CParameter::WindowLog(window_log));
    set.map_err(compressing_failed)?;
    let set = context.set_pledged_src_size(Some(length as u64));
    set.map_err(compressing_failed)?;
    let mut packed = Vec::new();
    let last = buffers.len().saturating_sub(1);
    for (at, buffer) in buffers.into_iter().enumerate() {
        let is_last = at == last;
        let then = match is_last {
            true => ZSTD_EndDirective::ZSTD_e_end,
            false => ZSTD_EndDirective::ZSTD_e_continue,
        };
        let mut input = InBuffer::around(&buffer);
        loop {
            packed.reserve(CCtx::out_size());
            let written = packed.len();
            let mut output = OutBuffer::around_pos(&mut packed, written);
            let unwritten = context.compress_stream2(&mut output, &mut input, then);
            let unwritten = unwritten.map_err(compressing_failed)?;
            if input.pos() == buffer.len() && (unwritten == 0 || !is_last) {
                break;
            }
        }
    }
    Ok(packed)
}

/// Decompresses what [`compress`] or [`compress_one_by_one`] returned. Memory is taken only for what the bytes can
/// produce.
fn decompress(packed: &[u8], length: u64) -> Result<Vec<u8>, Error> {
    in_range("length of contents", length, 1, RAW_BYTES_MAX)?;
    check_packed(packed, length)?;
    let mut raw = Vec::with_capacity(length as usize);
    let produced = DCtx::create()
        .decompress(&mut raw, packed)
        .map_err(decompressing_failed)?;
    equal("length of contents", length, produced as u64)?;
    Ok(raw)
}

/// The contents of a message, before they are compressed.
///
/// ```
/// use ibid_format::record::{RawContents, decompress_contents};
///
/// // A body of four bytes, and a delta of record 7.
/// let parts = [(0, 4), (7, 5)];
/// let raw = RawContents::new(&[b"entry"], &parts, vec![b"body".to_vec(), b"delta".to_vec()])?;
/// let (packed, length) = raw.compress(9)?;
/// let mut bytes = Vec::new();
/// let contents = decompress_contents(&packed, length, &mut bytes)?;
/// assert_eq!((contents.bodies[1].base, contents.bodies[1].bytes), (7, &b"delta"[..]));
/// assert!(RawContents::new(&[b"entry"], &parts, vec![b"body".to_vec()]).is_err());
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug)]
pub struct RawContents {
    /// One after the other.
    buffers: Vec<Vec<u8>>,
}

impl RawContents {
    /// Puts entries together with bodies, in whose memory. `parts` are the base and the length of each body. The bodies
    /// may be in several buffers, each of which is freed as soon as it is compressed.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more entries or bodies than a message can hold; [`Error::Mismatch`] if the lengths are
    /// not those of the bodies.
    pub fn new(entries: &[impl AsRef<[u8]>], parts: &[(u64, usize)], mut bodies: Vec<Vec<u8>>) -> Result<Self, Error> {
        for (field, count) in [
            ("entries of a message", entries.len()),
            ("bodies of a message", parts.len()),
        ] {
            in_range(field, count as u64, 0, PARTS_MAX)?;
        }
        let length: usize = parts.iter().map(|(_, length)| length).sum();
        let there: usize = bodies.iter().map(Vec::len).sum();
        equal("bytes of all bodies", length as u64, there as u64)?;
        let mut raw = Vec::new();
        wire::put_varint(&mut raw, entries.len() as u64);
        for entry in entries {
            wire::put_bytes(&mut raw, entry.as_ref());
        }
        wire::put_varint(&mut raw, parts.len() as u64);
        for &(base, length) in parts {
            wire::put_varint(&mut raw, base);
            wire::put_varint(&mut raw, length as u64);
        }
        match bodies.first_mut() {
            Some(first) => *first = joined(raw, std::mem::take(first), 0),
            None => bodies.push(raw),
        }
        Ok(RawContents { buffers: bodies })
    }

    /// Compresses the contents by zstd at this level. Returns them and their length before that, bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more than a message can hold; [`Error::Zstd`].
    pub fn compress(self, level: i32) -> Result<(Vec<u8>, u64), Error> {
        let length: usize = self.buffers.iter().map(Vec::len).sum();
        let packed = match &self.buffers[..] {
            [raw] => compress(raw, level)?,
            _ => compress_one_by_one(self.buffers, level)?,
        };
        Ok((packed, length as u64))
    }
}

/// Decompresses contents into `raw` and returns views of them.
///
/// # Errors
///
/// The fault in the bytes.
pub fn decompress_contents<'a>(packed: &[u8], length: u64, raw: &'a mut Vec<u8>) -> Result<BatchContents<'a>, Error> {
    *raw = decompress(packed, length)?;
    let mut reader = Reader::new(raw);
    let count = reader.count("entries of a message", PARTS_MAX, 1)?;
    let mut contents = BatchContents::default();
    for _ in 0..count {
        contents.entries.push(reader.bytes("log entry", LOG_ENTRY_BYTES_MAX)?);
    }
    let count = reader.count("bodies of a message", PARTS_MAX, 2)?;
    let mut bodies = Vec::new();
    for _ in 0..count {
        let base = reader.varint_in("base of a body", 0, NUMBER_MAX)?;
        bodies.push((
            base,
            reader.varint_in("length of a body", 0, BODY_BYTES_MAX as u64)? as usize,
        ));
    }
    for (base, length) in bodies {
        let bytes = reader.take("body", length)?;
        contents.bodies.push(SentBody { base, bytes });
    }
    reader.finish("contents")?;
    Ok(contents)
}

/// The rows of a page, on their way into a message.
///
/// ```
/// use ibid_format::record::{PageRows, decompress_rows};
///
/// let mut rows = PageRows::default();
/// rows.push((2, b"key", b"value"));
/// let (packed, length) = rows.finish().compress(9)?;
/// assert_eq!(decompress_rows(&packed, length, &mut Vec::new())?, [(2, &b"key"[..], &b"value"[..])]);
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug)]
pub struct PageRows {
    raw: Vec<u8>,
}

impl Default for PageRows {
    fn default() -> Self {
        let raw = vec![0]; // no rows still make some bytes
        PageRows { raw }
    }
}

impl PageRows {
    /// Adds a row.
    pub fn push(&mut self, (table, key, value): TableRow<'_>) {
        self.raw.push(table);
        wire::put_bytes(&mut self.raw, key);
        wire::put_bytes(&mut self.raw, value);
    }

    /// Returns how many bytes the rows have, before they are compressed.
    pub fn bytes(&self) -> usize {
        self.raw.len() - 1
    }

    /// Returns the contents of a message with these rows.
    pub fn finish(self) -> RawContents {
        let buffers = vec![self.raw];
        RawContents { buffers }
    }
}

/// Decompresses rows into `raw` and returns views of them.
///
/// # Errors
///
/// The fault in the bytes.
pub fn decompress_rows<'a>(packed: &[u8], length: u64, raw: &'a mut Vec<u8>) -> Result<Vec<TableRow<'a>>, Error> {
    *raw = decompress(packed, length)?;
    let mut reader = Reader::new(raw);
    equal("first byte of a chunk", 0, reader.u8("first byte of a chunk")?.into())?;
    let mut pairs = Vec::new();
    while reader.remaining() > 0 {
        in_range("entries of a chunk", pairs.len() as u64, 0, PARTS_MAX - 1)?;
        let table = reader.u8("table")?;
        let key = reader.bytes("key of a table", TABLE_KEY_BYTES_MAX)?;
        pairs.push((
            table,
            key,
            reader.bytes("value of a table", RECORD_BYTES_MAX.max(LOG_ENTRY_BYTES_MAX + 64))?,
        ));
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_in_several_buffers_arrive_as_those_in_one() {
        // Noise, and each time what was there before: beyond the window, and within it.
        let mut seed = 1_u64;
        let mut noise = |length: usize| -> Vec<u8> {
            let next = || {
                seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (seed >> 56) as u8
            };
            std::iter::repeat_with(next).take(length).collect()
        };
        let first = noise(300_000);
        for lengths in [
            &[0, 0][..],
            &[0, 1],
            &[300_000, 0],
            &[5, 300_000],
            &[200_000; 7],
            &[1; 300],
        ] {
            let bodies: Vec<Vec<u8>> = lengths.iter().map(|&length| noise(length)).collect();
            let bodies: Vec<Vec<u8>> = bodies.into_iter().flat_map(|body| [first.clone(), body]).collect();
            let parts: Vec<(u64, usize)> = bodies.iter().map(|body| (0, body.len())).collect();
            let in_one = vec![bodies.concat()];
            for buffers in [bodies.clone(), in_one] {
                let raw = RawContents::new(&[b"entry"], &parts, buffers).unwrap();
                let (packed, length) = raw.compress(9).unwrap();
                let mut bytes = Vec::new();
                let contents = decompress_contents(&packed, length, &mut bytes).unwrap();
                assert_eq!(contents.entries, [b"entry"]);
                assert!(
                    contents
                        .bodies
                        .iter()
                        .map(|body| body.bytes)
                        .eq(bodies.iter().map(Vec::as_slice))
                );
                assert!(packed.len() <= compress_bound(length as usize));
            }
        }
    }
}
