//! Reading an index file block by block: which block to read for an id, and searching it.

use super::layout::{ENTRY, HEAD, HEADER, Layout};
use super::{BLOCK_RECORDS, IndexedChunk, LIMIT, lower_bound};
use crate::error::{equal, in_range};
use crate::magic::MAGIC;
use crate::wire::Reader;
use crate::{ChunkId, Error, FileId, FileKind, Keys, SealKind};

/// The header of an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    layout: Layout,
    epoch: u64,
}

/// Opens the first [`Header::LEN`] bytes of the index file named `id`.
///
/// # Errors
///
/// If it is not an index, of another version, the seal does not open, or the counts don't fit the
/// size.
pub fn header(keys: &Keys, id: FileId, bytes: &mut [u8]) -> Result<Header, Error> {
    FileKind::Index.check(bytes)?;
    equal("index header", HEAD as u64, bytes.len() as u64)?;
    let plaintext = keys.open(SealKind::Index, id, MAGIC as u64, &mut bytes[MAGIC..])?;
    debug_assert_eq!(plaintext.len(), HEADER);
    let mut reader = Reader::new(plaintext);
    let layout = Layout {
        packs: reader.u32("index: packs")?,
        frames: reader.u32("index: frames")?,
        entries: reader.u32("index: entries")?,
    };
    equal("index header", 0, reader.u32("index header")?.into())?;
    let size = in_range("index file", reader.u64("index: size")?, HEAD as u64, LIMIT)?;
    let epoch = reader.u64("index: epoch")?;
    equal("index file", layout.size(), size)?;
    Ok(Header { layout, epoch })
}

/// A block of entries in an index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its number among the blocks of entries.
    pub number: u32,
    /// Offset of its seal in the file.
    pub offset: u64,
    /// Length of its seal, bytes: 39 KiB at most.
    pub sealed: u32,
}

impl Header {
    /// Length of the beginning of the file that [`header`] wants, bytes.
    pub const LEN: usize = HEAD;

    /// Returns the number of packs.
    pub fn packs(&self) -> u32 {
        self.layout.packs
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u32 {
        self.layout.frames
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> u32 {
        self.layout.entries
    }

    /// Returns the size of the file, bytes.
    pub fn size(&self) -> u64 {
        self.layout.size()
    }

    /// Returns the number of the last entry of the [prune log](crate::prune_log) when its writer began.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of blocks of entries.
    pub fn blocks(&self) -> u32 {
        self.layout.entries().blocks()
    }

    /// The block of entries with this number.
    pub fn block(&self, number: u32) -> Option<Block> {
        let table = self.layout.entries();
        let span = (number < table.blocks()).then(|| table.block(number))?;
        Some(Block {
            number,
            offset: span.offset,
            sealed: span.sealed as u32,
        })
    }

    /// Returns the block of entries that most likely has `id`; [`EntryBlock::find`] tells. `None` if
    /// there are no entries.
    pub fn block_of(&self, id: &ChunkId) -> Option<Block> {
        let position = (u128::from(id.leading_bits()) * u128::from(self.layout.entries)) >> 64;
        self.block(position as u32 / BLOCK_RECORDS)
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }
}

/// The entries of one block, sorted.
#[derive(Debug, Clone, Copy)]
pub struct EntryBlock<'a> {
    records: &'a [u8],
}

/// The result of searching a block for an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// This is an entry for it. It is the first in the file, unless the block begins with it.
    Found(IndexedChunk),
    /// The file has none.
    Absent,
    /// It would be before this block: look into the one before, if there is one.
    Before,
    /// It would be after this block: look into the one after, if there is one.
    After,
}

/// Opens a block of entries: `bytes` are the [`Block::sealed`] bytes at [`Block::offset`].
///
/// # Errors
///
/// [`Error::Mismatch`] for another length, [`Error::Seal`], or [`Error::Unordered`].
pub fn open_block<'a>(keys: &Keys, id: FileId, block: &Block, bytes: &'a mut [u8]) -> Result<EntryBlock<'a>, Error> {
    equal("index block", block.sealed.into(), bytes.len() as u64)?;
    let records = &*keys.open(SealKind::Index, id, block.offset, bytes)?;
    let entries = EntryBlock { records };
    let mut before = None;
    for (position, entry) in entries.entries().enumerate() {
        if before >= Some(entry) {
            return Err(Error::Unordered {
                field: "entries of an index",
                position: position as u64,
            });
        }
        before = Some(entry);
    }
    Ok(entries)
}

impl<'a> EntryBlock<'a> {
    /// The entries, ascending.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = IndexedChunk> + use<'a> {
        self.records
            .chunks_exact(ENTRY)
            .map(|record| IndexedChunk::read(record).expect("as long as an entry"))
    }

    /// Searches for an id.
    pub fn find(&self, id: &ChunkId) -> Lookup {
        let count = self.records.len() / ENTRY;
        let entry = |position: usize| {
            IndexedChunk::read(&self.records[position * ENTRY..][..ENTRY]).expect("as long as an entry")
        };
        let first = lower_bound(count, id, |position| entry(position).id);
        if first == count {
            return Lookup::After;
        }
        match entry(first) {
            found if found.id == *id => Lookup::Found(found),
            _ if first == 0 => Lookup::Before,
            _ => Lookup::Absent,
        }
    }
}
