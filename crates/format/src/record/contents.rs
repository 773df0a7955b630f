//! What messages hold: log entries with bodies, or rows of tables, compressed.

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, compress_bound};

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

fn compress(raw: &[u8], level: i32) -> Result<Vec<u8>, Error> {
    in_range("length of contents", raw.len() as u64, 1, RAW_BYTES_MAX)?;
    let mut context = CCtx::create();
    // Levels beyond those that zstd has are brought into its range.
    let _ = context.set_parameter(CParameter::CompressionLevel(level));
    let failed = |code| Error::Zstd {
        field: "compressing a message",
        reason: zstd_safe::get_error_name(code),
    };
    // 5 bytes for each entry; zstd lowers what is too much for a short message. Its own choice for 1 MiB at level 9
    // takes 11 MB instead of 1.3, makes messages 0.3 % smaller, and takes up to twice as long.
    let hash_log = (raw.len() / 8).max(1).ilog2().clamp(18, 22);
    context.set_parameter(CParameter::HashLog(hash_log)).map_err(failed)?;
    let mut packed = Vec::with_capacity(compress_bound(raw.len()));
    context.compress2(&mut packed, raw).map_err(failed)?;
    Ok(packed)
}

/// Decompresses the output of [`compress`]. Memory is taken only for what the bytes can produce.
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
/// let raw = RawContents::new(&[b"entry"], &parts, b"bodydelta".to_vec())?;
/// let (packed, length) = raw.compress(9)?;
/// let mut bytes = Vec::new();
/// let contents = decompress_contents(&packed, length, &mut bytes)?;
/// assert_eq!((contents.bodies[1].base, contents.bodies[1].bytes), (7, &b"delta"[..]));
/// assert!(RawContents::new(&[b"entry"], &parts, b"body".to_vec()).is_err());
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug)]
pub struct RawContents(Vec<u8>);

impl RawContents {
    /// Puts entries together with bodies, in whose memory. `parts` are the base and the length of each body.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more entries or bodies than a message can hold; [`Error::Mismatch`] if the lengths are
    /// not those of the bodies.
    pub fn new(entries: &[impl AsRef<[u8]>], parts: &[(u64, usize)], bodies: Vec<u8>) -> Result<Self, Error> {
        for (field, count) in [
            ("entries of a message", entries.len()),
            ("bodies of a message", parts.len()),
        ] {
            in_range(field, count as u64, 0, PARTS_MAX)?;
        }
        let length: usize = parts.iter().map(|(_, length)| length).sum();
        equal("bytes of all bodies", length as u64, bodies.len() as u64)?;
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
        Ok(RawContents(joined(raw, bodies, 0)))
    }

    /// Compresses the contents by zstd at this level. Returns them and their length before that, bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for more than a message can hold; [`Error::Zstd`].
    pub fn compress(self, level: i32) -> Result<(Vec<u8>, u64), Error> {
        Ok((compress(&self.0, level)?, self.0.len() as u64))
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
        RawContents(self.raw)
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
