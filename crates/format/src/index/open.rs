//! An index file in memory.

use std::fmt;
use std::ops::Range;

use super::blocks::{self, Header};
use super::layout::{ENTRY, FRAME, HEAD, Layout, PACK, Table};
use super::{IndexedChunk, IndexedFrame, IndexedPack, lower_bound};
use crate::error::{equal, in_range};
use crate::frame::{BLOBS_MAX, BODY_BYTES_MAX, DEPTH_MAX};
use crate::pack;
use crate::wire::Reader;
use crate::{ChunkId, Error, FileId, Keys, SEAL_OVERHEAD, SealKind};

/// A whole index file, validated. It takes as much memory as the file: 38 bytes for each chunk, and
/// little more.
///
/// ```
/// use ibid_format::frame::Blob;
/// use ibid_format::index::{self, Index};
/// use ibid_format::pack::{FrameSummary, PackKind, PackSummary};
/// use ibid_format::{FileId, Keys, MasterKey};
///
/// let keys = Keys::encrypted(FileId::random(), &MasterKey::random());
/// let chunk = keys.chunk_id(b"a chunk");
/// let blobs = vec![Blob { id: chunk, length: 7 }];
/// let frames = vec![FrameSummary { offset: 8, sealed: 50, depth: 0, bases: vec![], blobs }];
/// let packs = [PackSummary { id: FileId::random(), kind: PackKind::Data, size: 256, frames }];
///
/// let id = FileId::random();
/// let index = Index::open(&keys, id, index::encode(&keys, id, 0, &packs)?)?;
/// let entry = index.find(&chunk).expect("it was put in");
/// let place = index.frame(entry.frame).expect("entries point to frames");
/// assert_eq!((place.offset, place.sealed, entry.slot), (8, 50, 0));
/// assert_eq!(index.pack_of(entry.frame).map(|pack| pack.id), Some(packs[0].id));
/// # Ok::<(), ibid_format::Error>(())
/// ```
#[derive(Clone)]
pub struct Index {
    layout: Layout,
    epoch: u64,
    /// The plaintext of the three tables, one after another, in the file's own memory without the
    /// seals.
    records: Vec<u8>,
}

impl Index {
    /// Opens and validates the file named `id`: all seals, the order of entries, every number that
    /// points somewhere, counts, padding, the file's length.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn open(keys: &Keys, id: FileId, mut bytes: Vec<u8>) -> Result<Index, Error> {
        let available = bytes.len() as u64;
        let head = bytes.get_mut(..HEAD).ok_or(Error::Truncated {
            field: "index file",
            expected: HEAD as u64,
            found: available,
        })?;
        let header: Header = blocks::header(keys, id, head)?;
        equal("index file", header.size(), available)?;
        let layout = header.layout();
        let padding = &mut bytes[layout.padding() as usize..];
        Reader::new(keys.open(SealKind::Index, id, layout.padding(), padding)?).zeros("index padding")?;

        let mut end = 0;
        for table in [layout.packs(), layout.frames(), layout.entries()] {
            end = open_table(keys, id, table, &mut bytes, end)?;
        }
        bytes.truncate(end);
        let index = Index {
            layout,
            epoch: header.epoch(),
            records: bytes,
        };
        index.check_packs()?;
        index.check_frames()?;
        index.check_entries()?;
        Ok(index)
    }

    /// Returns the number of the last entry of the [prune log](crate::prune_log) when its writer began.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// First frames ascend from 0, to the number of frames at most.
    fn check_packs(&self) -> Result<(), Error> {
        let mut before = 0;
        for (position, record) in self.table(0).chunks_exact(PACK).enumerate() {
            let pack = IndexedPack::read(record)?;
            if position == 0 {
                equal("first frame of the first pack", 0, pack.first_frame.into())?;
            }
            in_range("pack size", pack.size, 0, pack::LIMIT)?;
            in_range(
                "first frame of a pack",
                pack.first_frame.into(),
                before,
                self.layout.frames.into(),
            )?;
            before = pack.first_frame.into();
        }
        if self.layout.packs == 0 {
            equal("frames of no packs", 0, self.layout.frames.into())?;
        }
        Ok(())
    }

    /// Frames of a pack lie back to back and within it; their chunks together are as many as there
    /// are entries.
    fn check_frames(&self) -> Result<(), Error> {
        let mut blobs = 0;
        for (pack, range) in self.packs_with_frames() {
            let mut end = pack::FRAMES_AT;
            for number in range {
                let frame = IndexedFrame::read(self.record(1, FRAME, number))?;
                equal("frame offset", end, frame.offset.into())?;
                end += u64::from(frame.sealed);
                in_range("end of a frame", end, u64::from(frame.offset) + 1, pack.size)?;
                in_range("blobs of a frame", frame.blobs.into(), 1, BLOBS_MAX as u64)?;
                in_range("depth of a frame", frame.depth.into(), 0, DEPTH_MAX.into())?;
                in_range(
                    "frame body",
                    frame.length.into(),
                    frame.blobs.into(),
                    BODY_BYTES_MAX.into(),
                )?;
                blobs += u64::from(frame.blobs);
            }
        }
        equal("entries of an index", blobs, self.layout.entries.into())
    }

    /// Entries ascend strictly, and point to slots that exist.
    fn check_entries(&self) -> Result<(), Error> {
        let mut before = None;
        for (position, entry) in self.entries().enumerate() {
            if before >= Some(entry) {
                return Err(Error::Unordered {
                    field: "entries of an index",
                    position: position as u64,
                });
            }
            let frames = self.layout.frames;
            let frame = self.frame(entry.frame).ok_or(Error::OutOfRange {
                field: "frame of an entry",
                min: 0,
                max: u64::from(frames).saturating_sub(1),
                found: entry.frame.into(),
            })?;
            in_range("slot of an entry", entry.slot.into(), 0, u64::from(frame.blobs) - 1)?;
            before = Some(entry);
        }
        Ok(())
    }

    /// Returns the packs, in the order in which they were encoded.
    pub fn packs(&self) -> impl ExactSizeIterator<Item = IndexedPack> + '_ {
        self.table(0)
            .chunks_exact(PACK)
            .map(|record| IndexedPack::read(record).expect("validated by `open`"))
    }

    /// Returns the frames, in the order of their packs.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = IndexedFrame> + '_ {
        self.table(1)
            .chunks_exact(FRAME)
            .map(|record| IndexedFrame::read(record).expect("validated by `open`"))
    }

    /// Returns the entries, ascending by chunk id, then frame, then slot.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = IndexedChunk> + '_ {
        self.table(2)
            .chunks_exact(ENTRY)
            .map(|record| IndexedChunk::read(record).expect("as long as an entry"))
    }

    /// Returns each pack with the numbers of its frames.
    pub fn packs_with_frames(&self) -> impl Iterator<Item = (IndexedPack, Range<u32>)> + '_ {
        let ends = self
            .packs()
            .skip(1)
            .map(|next| next.first_frame)
            .chain([self.layout.frames]);
        self.packs().zip(ends).map(|(pack, end)| (pack, pack.first_frame..end))
    }

    /// Returns the frame with this number.
    pub fn frame(&self, number: u32) -> Option<IndexedFrame> {
        let record = (number < self.layout.frames).then(|| self.record(1, FRAME, number))?;
        Some(IndexedFrame::read(record).expect("validated by `open`"))
    }

    /// Returns the pack of the frame with this number.
    pub fn pack_of(&self, frame: u32) -> Option<IndexedPack> {
        if frame >= self.layout.frames {
            return None;
        }
        let pack = |number| IndexedPack::read(self.record(0, PACK, number)).expect("validated by `open`");
        // The last pack that begins at the frame or before it; packs without frames begin where the next
        // one does.
        let (mut low, mut high) = (0, self.layout.packs);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if pack(middle).first_frame <= frame {
                low = middle
            } else {
                high = middle
            }
        }
        Some(pack(low))
    }

    /// Returns the first entry of a chunk.
    pub fn find(&self, id: &ChunkId) -> Option<IndexedChunk> {
        self.find_all(id).next()
    }

    /// Returns all entries of a chunk: several if it is in several frames.
    pub fn find_all<'a>(&'a self, id: &ChunkId) -> impl Iterator<Item = IndexedChunk> + use<'a> {
        let id = *id;
        let table = self.table(2);
        let id_at = |position| {
            let record: &[u8; 32] = table[position * ENTRY..]
                .first_chunk()
                .expect("entries are longer than ids");
            ChunkId(*record)
        };
        let first = lower_bound(self.layout.entries as usize, &id, id_at);
        table[first * ENTRY..]
            .chunks_exact(ENTRY)
            .map(|record| IndexedChunk::read(record).expect("as long as an entry"))
            .take_while(move |entry| entry.id == id)
    }

    /// The records of the table with this number.
    fn table(&self, number: usize) -> &[u8] {
        let packs = self.layout.packs as usize * PACK;
        let frames = packs + self.layout.frames as usize * FRAME;
        match number {
            0 => &self.records[..packs],
            1 => &self.records[packs..frames],
            _ => &self.records[frames..],
        }
    }

    fn record(&self, table: usize, length: usize, number: u32) -> &[u8] {
        &self.table(table)[number as usize * length..][..length]
    }
}

/// Opens all blocks of a table and moves their records to `end`. Returns the new end. `end` is
/// always before the table, since the bytes before it have lost their seals.
fn open_table(keys: &Keys, id: FileId, table: Table, bytes: &mut [u8], mut end: usize) -> Result<usize, Error> {
    for span in table.spans() {
        let start = span.offset as usize;
        keys.open(SealKind::Index, id, span.offset, &mut bytes[start..start + span.sealed])?;
        let plaintext = start + keys.plaintext_offset();
        let length = span.sealed - SEAL_OVERHEAD;
        bytes.copy_within(plaintext..plaintext + length, end);
        end += length;
    }
    Ok(end)
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("packs", &self.layout.packs)
            .field("frames", &self.layout.frames)
            .field("entries", &self.layout.entries)
            .finish_non_exhaustive()
    }
}
