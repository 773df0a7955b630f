//! Content: the chunks and holes of a file or of a directory's listing.

use crate::error::in_range;
use crate::frame::CHUNK_BYTES_MAX;
use crate::wire::{self, Reader};
use crate::{ChunkId, Error};

/// Most items in one content.
pub const ITEMS_MAX: usize = 32;
/// A list of more items than this becomes chunks itself, and those the items of the next depth.
pub const ITEMS_INLINE: usize = 16;
/// Deepest list of lists.
pub const DEPTH_MAX: u8 = 8;
/// Longest hole, bytes: its length shares 64 bits with a flag.
pub const HOLE_BYTES_MAX: u64 = u64::MAX >> 1;

/// Longest item, bytes.
const ITEM_BYTES_MAX: usize = wire::VARINT_BYTES_MAX + 32;

/// A piece of a content, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Item {
    /// A chunk.
    Chunk {
        /// Its name.
        id: ChunkId,
        /// Its length, bytes: 1 to [`CHUNK_BYTES_MAX`].
        length: u32,
    },
    /// A hole: zeros that take no space.
    Hole {
        /// How many: 1 to [`HOLE_BYTES_MAX`].
        length: u64,
    },
}

impl Item {
    /// Appends the item.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Item::Chunk { id, length } => {
                wire::put_varint(out, u64::from(*length) << 1);
                out.extend_from_slice(&id.0);
            }
            Item::Hole { length } => wire::put_varint(out, length << 1 | 1),
        }
    }

    /// Reads an item from the beginning of `bytes`, and returns it with its encoded length, bytes;
    /// `None` if `bytes` end before it does.
    ///
    /// # Errors
    ///
    /// If no further bytes could make a valid item.
    pub fn decode_prefix(bytes: &[u8]) -> Result<Option<(Item, usize)>, Error> {
        let mut reader = Reader::new(&bytes[..bytes.len().min(ITEM_BYTES_MAX)]);
        match Item::read(&mut reader) {
            Ok(item) => Ok(Some((item, reader.position()))),
            Err(Error::Truncated { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Item, Error> {
        let number = reader.varint("item length")?;
        if number & 1 == 1 {
            let length = in_range("hole length", number >> 1, 1, HOLE_BYTES_MAX)?;
            Ok(Item::Hole { length })
        } else {
            let length = in_range("chunk length", number >> 1, 1, CHUNK_BYTES_MAX.into())? as u32;
            Ok(Item::Chunk {
                id: ChunkId(reader.array("chunk id")?),
                length,
            })
        }
    }

    /// Returns the length of the data that it stands for, bytes.
    pub fn length(&self) -> u64 {
        match self {
            Item::Chunk { length, .. } => (*length).into(),
            Item::Hole { length } => *length,
        }
    }

    fn check(&self) -> Result<(), Error> {
        match self {
            Item::Chunk { length, .. } => in_range("chunk length", (*length).into(), 1, CHUNK_BYTES_MAX.into()),
            Item::Hole { length } => in_range("hole length", *length, 1, HOLE_BYTES_MAX),
        }
        .map(drop)
    }
}

/// The chunks and holes of a file or of a directory's listing.
///
/// ```
/// use ibid_format::content::{Content, Item};
/// use ibid_format::wire::Reader;
///
/// let content = Content { depth: 0, length: 1 << 30, items: vec![Item::Hole { length: 1 << 30 }] };
/// let mut bytes = Vec::new();
/// content.encode(&mut bytes);
/// assert_eq!(Content::decode(&mut Reader::new(&bytes))?, content);
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Content {
    /// 0: the items are the data. Above: the items, concatenated, are the list of items of the
    /// depth below.
    pub depth: u8,
    /// Length of the data, holes included, bytes, at any depth.
    pub length: u64,
    /// [`ITEMS_MAX`] at most; holes only at depth 0.
    pub items: Vec<Item>,
}

impl Content {
    /// Returns the content of no data.
    pub fn empty() -> Content {
        Content {
            depth: 0,
            length: 0,
            items: Vec::new(),
        }
    }

    /// Checks that it is within the limits, and that at depth 0 the items are as long as the whole.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], [`Error::HoleInList`] or [`Error::Mismatch`].
    pub fn check(&self) -> Result<(), Error> {
        in_range("content depth", self.depth.into(), 0, DEPTH_MAX.into())?;
        in_range("items of a content", self.items.len() as u64, 0, ITEMS_MAX as u64)?;
        let mut sum = 0u64;
        for item in &self.items {
            item.check()?;
            if self.depth > 0 && matches!(item, Item::Hole { .. }) {
                return Err(Error::HoleInList { depth: self.depth });
            }
            // The sum of two longest holes fits 64 bits. More overflow, and are no valid length.
            sum = sum.checked_add(item.length()).ok_or(Error::OutOfRange {
                field: "content length",
                min: 0,
                max: u64::MAX,
                found: self.length,
            })?;
        }
        match self.depth {
            0 => crate::error::equal("content length", sum, self.length),
            _ => Ok(()),
        }
    }

    /// Appends the content, which must pass [`check`](Content::check); entries and snapshots see to
    /// that.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.depth);
        wire::put_varint(out, self.length);
        wire::put_varint(out, self.items.len() as u64);
        for item in &self.items {
            item.encode(out);
        }
    }

    /// Reads a content.
    ///
    /// # Errors
    ///
    /// As [`check`](Content::check), or if the bytes end before it does.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Content, Error> {
        let depth = reader.u8("content depth")?;
        let length = reader.varint("content length")?;
        let count = reader.count("items of a content", ITEMS_MAX as u64, 1)?;
        let items = (0..count).map(|_| Item::read(reader)).collect::<Result<_, _>>()?;
        let content = Content { depth, length, items };
        content.check()?;
        Ok(content)
    }
}
