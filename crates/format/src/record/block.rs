//! Blocks: records that are compressed together, in frames.
//!
//! A delta of 200 bytes takes about 400 in an engine's table. In a frame, the deltas of one chain
//! are compressed together and share a checksum. A record that is read often has a frame of its
//! own. A block holds as many frames as fill an engine's pages well.

use std::io::Cursor;
use std::ops::Range;

use zstd::zstd_safe::{self, CCtx, CParameter, DCtx, compress_bound};

use super::checks::{CHECK_BYTES, Check, CheckHash};
use super::entry::{Table, closed, opened_prefix};
use super::{NUMBER_MAX, RECORD_BYTES_MAX};
use crate::Error;
use crate::error::{equal, in_range};
use crate::frame::{check_packed, decompressing_failed};
use crate::wire::{self, Reader};

/// Most frames of a block.
pub const FRAMES_MAX: usize = 256;
/// Most records of a frame.
const RECORDS_MAX: u64 = 1 << 16;
/// Longest frame before compression, bytes: the longest record fits.
const FRAME_BYTES_MAX: u64 = RECORD_BYTES_MAX as u64 + (1 << 20);

const STORED: u8 = 0;
const ZSTD: u8 = 1;
/// Added to the codec of a frame whose checksum is made by [`CheckHash::Xxh3`].
const XXH3: u8 = 2;

/// Gathers the records of a frame.
///
/// ```
/// use ibid_format::record::{BlockBuilder, BlockFrameBuilder, BlockFrameDecoder, frame_of_block, records_of_frame};
///
/// let mut frame = BlockFrameBuilder::new(3);
/// frame.push(7, b"as encode_packed wrote it");
/// let mut block = BlockBuilder::default();
/// block.push(frame.finish()?);
/// let bytes = block.finish(1)?;
///
/// let mut decoder = BlockFrameDecoder::default();
/// let mut frame = Vec::new();
/// let packed = frame_of_block(1, &bytes, 0)?;
/// decoder.decode(&packed, &mut frame)?;
/// assert_eq!(records_of_frame(&frame, packed.records())?, [(7, &b"as encode_packed wrote it"[..])]);
/// # Ok::<(), ibid_format::Error>(())
/// ```
pub struct BlockFrameBuilder {
    context: CCtx<'static>,
    /// Numbers and lengths.
    records: Vec<(u64, usize)>,
    bytes: Vec<u8>,
}

impl BlockFrameBuilder {
    /// Returns a builder that compresses by zstd at this level.
    ///
    /// # Panics
    ///
    /// If there is no memory for a zstd context.
    pub fn new(level: i32) -> Self {
        let mut context = CCtx::create();
        // Levels outside zstd's range are clamped.
        let _ = context.set_parameter(CParameter::CompressionLevel(level));
        BlockFrameBuilder {
            context,
            records: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds a record, as [`Record::encode_packed`](super::Record::encode_packed) writes it.
    pub fn push(&mut self, number: u64, record: &[u8]) {
        self.records.push((number, record.len()));
        self.bytes.extend_from_slice(record);
    }

    /// Adds a record, as [`push`](Self::push) does. It is not copied if it is the first.
    pub fn push_owned(&mut self, number: u64, record: Vec<u8>) {
        if self.records.is_empty() {
            self.records.push((number, record.len()));
            self.bytes = record;
        } else {
            self.push(number, &record);
        }
    }

    /// Returns the length of the records, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the frame, compressed if that saves 1/32 of it, and starts another.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for no records, too many, or more bytes than the largest record has;
    /// [`Error::Zstd`].
    pub fn finish(&mut self) -> Result<BlockFrame<Vec<u8>>, Error> {
        let (records, mut raw) = (std::mem::take(&mut self.records), std::mem::take(&mut self.bytes));
        in_range("records of a frame", records.len() as u64, 1, RECORDS_MAX)?;
        let mut heads = Vec::new();
        let mut before = 0;
        for &(number, length) in &records {
            in_range("record number", number, 1, NUMBER_MAX)?;
            wire::put_zigzag(&mut heads, number as i64 - before);
            wire::put_varint(&mut heads, length as u64);
            before = number as i64;
        }
        // In front of the records, which may be too long for a copy.
        raw.splice(0..0, heads);
        in_range("frame of records", raw.len() as u64, 1, FRAME_BYTES_MAX)?;
        let mut packed = Vec::with_capacity(compress_bound(raw.len()));
        let mut end = Cursor::new(&mut packed);
        let length = self.context.compress2(&mut end, &raw).map_err(|code| Error::Zstd {
            field: "compressing a frame",
            reason: zstd_safe::get_error_name(code),
        })?;
        let codec = if length < raw.len() - raw.len() / 32 {
            ZSTD
        } else {
            STORED
        };
        let length = raw.len();
        Ok(BlockFrame {
            codec,
            records: records.len(),
            length,
            packed: if codec == STORED { raw } else { packed },
        })
    }
}

/// A frame as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockFrame<B> {
    codec: u8,
    records: usize,
    /// Length before compression, bytes.
    length: usize,
    packed: B,
}

impl<B: AsRef<[u8]>> BlockFrame<B> {
    /// Returns the most bytes that it takes in a block.
    pub fn stored_bytes_max(&self) -> usize {
        1 + 3 * wire::VARINT_BYTES_MAX + CHECK_BYTES + self.packed.as_ref().len()
    }

    /// Returns the number of its records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Returns the length before compression, bytes.
    pub fn bytes(&self) -> usize {
        self.length
    }
}

/// Gathers the frames of a block.
#[derive(Debug, Default)]
pub struct BlockBuilder {
    heads: Vec<u8>,
    frames: usize,
    packed: Vec<u8>,
}

impl BlockBuilder {
    /// Adds a frame and returns its number. A block has at most [`FRAMES_MAX`].
    pub fn push(&mut self, frame: BlockFrame<Vec<u8>>) -> usize {
        self.heads.push(frame.codec | XXH3);
        wire::put_varint(&mut self.heads, frame.records as u64);
        wire::put_varint(&mut self.heads, frame.length as u64);
        wire::put_varint(&mut self.heads, frame.packed.len() as u64);
        self.heads.extend_from_slice(&CheckHash::Xxh3.of(&frame.packed));
        if self.packed.is_empty() {
            self.packed = frame.packed;
        } else {
            self.packed.extend_from_slice(&frame.packed);
        }
        self.frames += 1;
        self.frames - 1
    }

    /// Returns the number of frames so far.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the most bytes that the block takes.
    pub fn stored_bytes_max(&self) -> usize {
        2 + self.heads.len() + CHECK_BYTES + self.packed.len()
    }

    /// Returns the block as stored under `number`, big-endian, and starts another.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] for no frames or too many.
    pub fn finish(&mut self, number: u64) -> Result<Vec<u8>, Error> {
        let block = std::mem::take(self);
        in_range("frames of a block", block.frames as u64, 1, FRAMES_MAX as u64)?;
        let mut head = Vec::new();
        wire::put_varint(&mut head, block.frames as u64);
        head.extend_from_slice(&block.heads);
        let mut out = block.packed;
        out.splice(0..0, closed(Table::Blocks, &number.to_be_bytes(), head));
        Ok(out)
    }
}

/// What a block says of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FrameHead {
    codec: u8,
    records: usize,
    /// Length before compression, bytes.
    length: usize,
    /// Length as stored, bytes.
    packed: usize,
    hash: CheckHash,
    check: Check,
}

/// The heads of a block's frames, which are at its beginning: with them one frame can be read without the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHead {
    frames: Vec<FrameHead>,
    /// Length of the heads, with their checksum, bytes.
    length: usize,
}

impl BlockHead {
    /// Most bytes that heads take.
    pub const BYTES_MAX: usize = 2 + FRAMES_MAX * (1 + 3 * wire::VARINT_BYTES_MAX + CHECK_BYTES) + 4;

    /// Reads the heads of the block stored under `number`, from all of it or its beginning.
    ///
    /// # Errors
    ///
    /// [`Error::Truncated`] if they are longer; [`Error::Check`] if a byte of them changed; else the fault in the
    /// bytes.
    pub fn decode(number: u64, block: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(block);
        let count = reader.varint_in("frames of a block", 1, FRAMES_MAX as u64)?;
        let mut frames = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let codec = reader.u8("codec of a frame")?;
            in_range("codec of a frame", codec.into(), 0, (ZSTD | XXH3).into())?;
            let (codec, hash) = (codec & !XXH3, CheckHash::marked_in(codec, XXH3));
            let records = reader.varint_in("records of a frame", 1, RECORDS_MAX)? as usize;
            let length = reader.varint_in("frame of records", 1, FRAME_BYTES_MAX)? as usize;
            let packed = reader.varint_in("packed frame", 1, FRAME_BYTES_MAX)? as usize;
            let check = reader.array("checksum of a frame")?;
            if codec == STORED {
                equal("stored frame", length as u64, packed as u64)?;
            }
            frames.push(FrameHead {
                codec,
                records,
                length,
                packed,
                hash,
                check,
            });
        }
        let rest = opened_prefix("block", Table::Blocks, &number.to_be_bytes(), block, reader.position())?;
        let length = block.len() - rest.remaining();
        Ok(BlockHead { frames, length })
    }

    /// Returns how many records are in the block, obsolete ones included.
    pub fn records(&self) -> u64 {
        self.frames.iter().map(|frame| frame.records as u64).sum()
    }

    /// Returns the length of the block, bytes.
    pub fn block_bytes(&self) -> u64 {
        let frames: u64 = self.frames.iter().map(|frame| frame.packed as u64).sum();
        self.length as u64 + frames
    }

    /// Returns the length of all frames before compression, bytes.
    pub fn unpacked_bytes(&self) -> u64 {
        self.frames.iter().map(|frame| frame.length as u64).sum()
    }

    /// Returns where a frame is in the block, bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`] if the block has no such frame.
    pub fn place(&self, frame: u8) -> Result<Range<u64>, Error> {
        let head = self.head(frame)?;
        let before: u64 = self.frames[..frame.into()]
            .iter()
            .map(|frame| frame.packed as u64)
            .sum();
        let from = self.length as u64 + before;
        Ok(from..from + head.packed as u64)
    }

    /// Returns a frame of which these bytes are in the block.
    ///
    /// # Errors
    ///
    /// [`Error::Check`] or [`Error::Mismatch`] if they are not those of the frame; [`Error::OutOfRange`] if the block
    /// has no such frame.
    pub fn frame<'b>(&self, frame: u8, packed: &'b [u8]) -> Result<BlockFrame<&'b [u8]>, Error> {
        let head = self.head(frame)?;
        equal("packed frame", head.packed as u64, packed.len() as u64)?;
        let computed = head.hash.of(packed);
        if computed != head.check {
            let (expected, found) = (u64::from_be_bytes(computed), u64::from_be_bytes(head.check));
            let field = "frame of records";
            return Err(Error::Check { field, expected, found });
        }
        Ok(BlockFrame {
            codec: head.codec,
            records: head.records,
            length: head.length,
            packed,
        })
    }

    fn head(&self, frame: u8) -> Result<&FrameHead, Error> {
        in_range("frame of a block", frame.into(), 0, self.frames.len() as u64 - 1)?;
        Ok(&self.frames[usize::from(frame)])
    }

    /// Reads the heads of a whole block.
    fn of_whole(number: u64, block: &[u8]) -> Result<Self, Error> {
        let head = BlockHead::decode(number, block)?;
        equal("block", head.block_bytes(), block.len() as u64)?;
        Ok(head)
    }

    fn frame_of_whole<'b>(&self, block: &'b [u8], frame: u8) -> Result<BlockFrame<&'b [u8]>, Error> {
        let place = self.place(frame)?;
        self.frame(frame, &block[place.start as usize..place.end as usize])
    }
}

/// Returns one frame of the block stored under `number`.
///
/// # Errors
///
/// [`Error::Check`] if a byte of the heads or of the frame changed; else the fault in the bytes.
pub fn frame_of_block(number: u64, block: &[u8], frame: u8) -> Result<BlockFrame<&[u8]>, Error> {
    BlockHead::of_whole(number, block)?.frame_of_whole(block, frame)
}

/// Returns all frames of the block stored under `number`.
///
/// # Errors
///
/// As [`frame_of_block`].
pub fn frames_of_block(number: u64, block: &[u8]) -> Result<Vec<BlockFrame<&[u8]>>, Error> {
    let head = BlockHead::of_whole(number, block)?;
    (0..head.frames.len())
        .map(|frame| head.frame_of_whole(block, frame as u8))
        .collect()
}

/// Decompresses frames. Owns a zstd context: reuse it.
pub struct BlockFrameDecoder {
    context: DCtx<'static>,
}

impl Default for BlockFrameDecoder {
    fn default() -> Self {
        BlockFrameDecoder {
            context: DCtx::create(),
        }
    }
}

impl BlockFrameDecoder {
    /// Replaces the content of `out` with the frame.
    ///
    /// # Errors
    ///
    /// The fault in the bytes. Memory is taken only for what they can produce.
    pub fn decode(&mut self, frame: &BlockFrame<&[u8]>, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        if frame.codec == STORED {
            out.extend_from_slice(frame.packed);
            return Ok(());
        }
        check_packed(frame.packed, frame.length as u64)?;
        out.reserve_exact(frame.length);
        let produced = self
            .context
            .decompress(out, frame.packed)
            .map_err(decompressing_failed)?;
        equal("frame of records", frame.length as u64, produced as u64)
    }
}

/// Returns the numbers and bytes of the `count` records of a decompressed frame, in order.
///
/// # Errors
///
/// The fault in the bytes. Memory is taken only for what they can hold.
pub fn records_of_frame(frame: &[u8], count: usize) -> Result<Vec<(u64, &[u8])>, Error> {
    // Each has a number and a length.
    in_range("records of a frame", count as u64, 1, frame.len() as u64 / 2)?;
    let mut reader = Reader::new(frame);
    let mut records = Vec::with_capacity(count);
    let mut number = 0_i64;
    for _ in 0..count {
        number = number.wrapping_add(reader.zigzag("record number")?);
        in_range("record number", number as u64, 1, NUMBER_MAX)?;
        records.push((
            number as u64,
            reader.varint_in("length of a record", 1, RECORD_BYTES_MAX as u64)? as usize,
        ));
    }
    let mut found = Vec::with_capacity(count);
    for (number, length) in records {
        found.push((number, reader.take("record", length)?));
    }
    reader.finish("frame of records")?;
    Ok(found)
}
