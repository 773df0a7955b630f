//! Moving records into blocks.
//!
//! The deltas of a chain are in one frame, newest first. They compress well together, and few
//! frames are decompressed for an old version. The latest version of a key has a frame of its own
//! or shares a small one, so that little else is decompressed to read it.

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ibid_format::record::{
    BlockBuilder, BlockFrame, BlockFrameBuilder, BlockFrameDecoder, Body, ChainEntry, FRAMES_MAX, Place, Record,
    frames_of_block, key_of, records_of_frame,
};

use super::Compaction;
use super::window::{Item, Window};
use crate::engine::{Direction, Engine, Snapshot, Table, Unused};
use crate::error::Error;
use crate::read::frames::head_of;
use crate::read::lookup;
use crate::read::records::Records;
use crate::write::block;
use crate::write::handle::WriterHandle;
use crate::write::request::{Command, Durability, FreedBlocks, MovedRecord, NewBlock, Origin};

/// Bytes of a block. With what an engine stores beside it, it fills a page of 128 KiB.
const BLOCK_BYTES: usize = (128 << 10) - 64;
/// Bytes of records that are compressed together. Of revisions of wiki pages, 16 KiB stored 8 %
/// more and 256 KiB 6 % less, with four times the time to read a record.
const FRAME_BYTES: usize = 64 << 10;
/// Bytes of latest versions that are compressed together; shorter ones share a frame.
const LATEST_FRAME_BYTES: usize = 4 << 10;
/// A delta that copies all of its base takes no more bytes.
const COPY_BYTES_MAX: usize = 16;
/// Records from this length on are compressed alone, bytes. They are copied as little as possible.
const LONG_BYTES: usize = 4 << 20;
/// Blocks that are filled at the same time, so that a frame that does not fit into one fits into
/// another.
const OPEN_BLOCKS: usize = 8;
/// The level of zstd when a user asks for it. Of wiki pages, 3 stored 5 % more in a fifth of the time, and 19 stored
/// 5 % less in ten times the time.
const LEVEL: i32 = 9;
/// The level of what the keeper compresses.
const LEVEL_IN_BACKGROUND: i32 = 6;
/// The level of latest versions, as long as the keeper compresses them, because the next version replaces them. Also
/// the one of everything while writers wait.
const LEVEL_IN_A_HURRY: i32 = 3;
/// A block is compressed anew if it still holds less than this percentage of its records.
const USE_PERCENT_MIN: u64 = 93;
/// The same while writers wait for the keeper.
const USE_PERCENT_MIN_IN_A_HURRY: u64 = 50;
/// Heads of blocks that are read from one snapshot, without a pause.
const HEADS: usize = 16;
/// So many short blocks are worth merging in the background.
const SHORT_BLOCKS: usize = 32;

/// Gives blocks their numbers. No number is given twice, because readers, also those in other processes, cache frames
/// by the number of their block. Who holds the lock is the only one who makes blocks, or gives space back.
#[derive(Debug, Default)]
pub(crate) struct BlockNumbers {
    last: Mutex<u64>,
}

impl BlockNumbers {
    pub(crate) fn lock(&self) -> MutexGuard<'_, u64> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who has records moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// The keeper, with the records of a short time. Its blocks have odd numbers.
    Background,
    /// The same, while others wait for it.
    Hurry,
    /// A user, who has all records compressed as well as possible, also those in the keeper's blocks. Then blocks have
    /// even numbers.
    Request,
}

impl Occasion {
    fn use_percent_min(self) -> u64 {
        match self {
            Occasion::Background | Occasion::Request => USE_PERCENT_MIN,
            Occasion::Hurry => USE_PERCENT_MIN_IN_A_HURRY,
        }
    }

    /// Returns the level at which frames of this kind are compressed.
    fn level(self, kind: Kind) -> i32 {
        match (self, kind) {
            (Occasion::Request, _) => LEVEL,
            (Occasion::Background, Kind::Old) => LEVEL_IN_BACKGROUND,
            (Occasion::Background, Kind::Latest) | (Occasion::Hurry, _) => LEVEL_IN_A_HURRY,
        }
    }
}

/// Moves records into blocks. It has no snapshot while it compresses or writes: as long as there is one, an engine may
/// need more and more space for what others change.
pub(super) struct Packer<'c> {
    engine: &'c dyn Engine,
    records: &'c Records,
    last_block: &'c mut u64,
    writer: &'c WriterHandle,
    /// Is called with the bytes of records of each frame, and may end the work.
    pace: &'c mut dyn FnMut(u64) -> ControlFlow<()>,
    ended: bool,
    occasion: Occasion,
    /// The first damage that was found. What is damaged stays where it is.
    damage: Option<Error>,
    window: Window,
    /// Whether the record that is read next is too long to be in this window.
    is_long_next: bool,
    old_frame: OpenFrame,
    latest_frame: OpenFrame,
    blocks: Vec<OpenBlock>,
    bytes_in_blocks: u64,
    /// Whether no block may keep a record that has its place elsewhere, because it may have been purged.
    frees_all: bool,
    /// Blocks whose records are moved elsewhere.
    freed: FreedBlocks,
    done: Compaction,
}

/// A block that is not worth keeping.
#[derive(Debug)]
pub(super) struct Worn {
    block: u64,
    /// About how many bytes of records it still has, before compression.
    bytes: u64,
}

/// A frame that is being filled.
struct OpenFrame {
    frame: BlockFrameBuilder,
    /// The number of the frame is set when it comes into a block.
    records: Vec<MovedRecord>,
    numbers: HashSet<u64>,
}

/// A compressed frame, and where its records were.
struct FinishedFrame {
    frame: BlockFrame<Vec<u8>>,
    records: Vec<MovedRecord>,
}

/// A block that has room for more frames.
struct OpenBlock {
    kind: Kind,
    frames: Vec<FinishedFrame>,
    bytes: usize,
}

impl OpenBlock {
    fn new(kind: Kind) -> Self {
        OpenBlock {
            kind,
            frames: Vec::new(),
            bytes: 0,
        }
    }
}

/// The kind of records in a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Old,
    Latest,
}

impl OpenFrame {
    fn new(level: i32) -> Self {
        OpenFrame {
            frame: BlockFrameBuilder::new(level),
            records: Vec::new(),
            numbers: HashSet::new(),
        }
    }

    /// Adds the number of a record of so many bytes. Returns whether it was not there: a record that was read from its
    /// block may have left that since, and be read once more. It would be found by its number twice. The one that is
    /// left out stays where it is, if it is not outdated.
    fn add(&mut self, number: u64, origin: Origin, bytes: usize) -> bool {
        let is_new = self.numbers.insert(number);
        if is_new {
            let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            self.records.push(MovedRecord {
                number,
                frame: 0,
                origin,
                bytes,
            });
        }
        is_new
    }

    fn finish(&mut self) -> Result<FinishedFrame, Error> {
        let frame = self.frame.finish();
        let frame = frame.map_err(|error| Error::damaged(Table::Blocks, b"", error))?;
        let records = std::mem::take(&mut self.records);
        self.numbers.clear();
        Ok(FinishedFrame { frame, records })
    }
}

impl<'c> Packer<'c> {
    /// Moves records of an engine. Calls `pace` with the number of bytes of records compressed since its last call; it
    /// may end the work.
    pub(super) fn new(
        engine: &'c dyn Engine,
        records: &'c Records,
        last_block: &'c mut u64,
        writer: &'c WriterHandle,
        (occasion, window_bytes): (Occasion, usize),
        pace: &'c mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Self {
        Packer {
            engine,
            records,
            last_block,
            writer,
            pace,
            ended: false,
            occasion,
            damage: None,
            window: Window::new(window_bytes),
            is_long_next: false,
            old_frame: OpenFrame::new(occasion.level(Kind::Old)),
            latest_frame: OpenFrame::new(occasion.level(Kind::Latest)),
            blocks: Vec::new(),
            bytes_in_blocks: 0,
            frees_all: false,
            freed: FreedBlocks {
                blocks: Vec::new(),
                // A user has all blocks redone, and the numbers of all records would take too much memory.
                records: (occasion != Occasion::Request).then(Vec::new),
            },
            done: Compaction::default(),
        }
    }

    /// Returns about how many bytes of records, before compression, blocks still had when these were looked through.
    pub(super) fn bytes_in_blocks(&self) -> u64 {
        self.bytes_in_blocks
    }

    /// Whether `pace` has ended the work.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the record that is read next needs a window of its own.
    pub(super) fn is_long_next(&self) -> bool {
        self.is_long_next
    }

    /// Bytes of the records that it has read and not compressed yet.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.window.bytes()
    }

    /// Has no block keep a record that has its place elsewhere, because it may have been purged.
    pub(super) fn free_all(&mut self) {
        self.frees_all = true;
    }

    /// Moves all single records before `below`.
    pub(super) fn pack_all(&mut self, below: u64) -> Result<(), Error> {
        let mut after = 0;
        while !self.ended
            && let Some(last) = self.read_window(after, below, true)?
        {
            after = last;
            self.compress_window()?;
        }
        Ok(())
    }

    /// Removes the blocks whose records were moved elsewhere. Returns what was done, and the first damage that was
    /// found.
    pub(super) fn remove_blocks(mut self) -> Result<(Compaction, Option<Error>), Error> {
        if let Some(records) = &mut self.freed.records {
            records.sort_unstable();
        }
        if !self.freed.blocks.is_empty() {
            self.done.blocks_freed = self.freed.blocks.len() as u64;
            self.writer.ask(Command::RemoveBlocks(self.freed), Durability::None)?;
        }
        Ok((self.done, self.damage))
    }

    /// Notes damage, and passes over what is damaged. Returns other errors.
    fn pass_over(&mut self, looked: Result<(), Error>) -> Result<(), Error> {
        note(&mut self.damage, looked)
    }

    /// Returns a number for a block.
    fn next_block(&mut self) -> Result<u64, Error> {
        let next = block::last_number(&*self.engine.snapshot()?)?.max(*self.last_block) + 1;
        let is_odd = self.occasion != Occasion::Request;
        *self.last_block = next + u64::from(next.is_multiple_of(2) == is_odd);
        Ok(*self.last_block)
    }

    /// Returns the blocks that are not worth keeping, ascending. Those that no record is in are removed with the
    /// others. Reads only the heads of all.
    pub(super) fn worn_blocks(&mut self) -> Result<VecDeque<Worn>, Error> {
        let read = self.engine.snapshot()?;
        let used = block::records_by_block(&*read)?;
        self.bytes_in_blocks = 0;
        let (mut worn, mut short) = (VecDeque::new(), VecDeque::new());
        let (occasion, frees_all, damage) = (self.occasion, self.frees_all, &mut self.damage);
        let unused = &mut self.freed.blocks;
        let is_redone = |number: u64| occasion == Occasion::Request && !number.is_multiple_of(2);
        let mut blocks = Vec::new();
        let mut each = |key: &[u8]| {
            blocks.push(key.try_into().map_or(0, u64::from_be_bytes));
            ControlFlow::Continue(())
        };
        let everything = (Bound::Unbounded, Bound::Unbounded);
        read.keys(Table::Blocks, everything, Direction::Forward, &mut each)?;
        drop(read);
        for numbers in blocks.chunks(HEADS) {
            let read = self.engine.snapshot()?;
            for &number in numbers {
                let used = used.get(&number).copied().unwrap_or(0);
                let head = match head_of(&*read, number) {
                    Ok(head) => head,
                    // A replica may have replaced all contents.
                    Err(_) if !read.contains(Table::Blocks, &number.to_be_bytes())? => continue,
                    Err(error) => {
                        note(damage, Err(error))?;
                        continue;
                    }
                };
                let records = head.records();
                let bytes = head.unpacked_bytes() * used / records.max(1);
                self.bytes_in_blocks += bytes;
                if used == 0 {
                    unused.push(number);
                } else if is_redone(number)
                    || frees_all && used < records
                    || used * 100 < records * occasion.use_percent_min()
                {
                    worn.push_back(Worn { block: number, bytes });
                } else if head.block_bytes() < BLOCK_BYTES as u64 / 2 {
                    short.push_back(Worn { block: number, bytes });
                }
            }
            drop(read);
            if (self.pace)(0).is_break() {
                self.ended = true;
                return Ok(VecDeque::new());
            }
        }
        let are_merged = match occasion {
            // One of old records and one of latest ones would be as short as before.
            Occasion::Request => short.len() > 2 || !worn.is_empty() || self.has_single_records()?,
            Occasion::Background | Occasion::Hurry => short.len() >= SHORT_BLOCKS,
        };
        if are_merged {
            worn.append(&mut short);
        }
        Ok(worn)
    }

    /// Adds the records of the first of these blocks to the window, until they have so many bytes. Returns these
    /// blocks.
    pub(super) fn read_worn_blocks(
        &mut self,
        worn: &mut VecDeque<Worn>,
        bytes_max: u64,
    ) -> Result<VecDeque<Worn>, Error> {
        let (mut read, mut bytes) = (VecDeque::new(), 0);
        while bytes < bytes_max
            && !self.ended
            && let Some(next) = worn.pop_front()
        {
            match self.read_block(next.block) {
                Ok(()) => self.freed.blocks.push(next.block),
                // It keeps what can't be read.
                damaged => self.pass_over(damaged)?,
            }
            bytes += next.bytes.max(1);
            read.push_back(next);
        }
        Ok(read)
    }

    /// Returns whether any record is in no block.
    fn has_single_records(&self) -> Result<bool, Error> {
        let mut found = false;
        let mut each = |_: &[u8]| {
            found = true;
            ControlFlow::Break(())
        };
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let read = self.engine.snapshot()?;
        read.keys(Table::Records, everything, Direction::Forward, &mut each)?;
        Ok(found)
    }

    /// Adds the records that a block still holds to the window.
    fn read_block(&mut self, block: u64) -> Result<(), Error> {
        let mut records = Vec::new();
        let mut decoder = BlockFrameDecoder::default();
        let mut read = Ok(());
        let mut found = |bytes: &[u8]| {
            read = frames_of_block(block, bytes).and_then(|frames| {
                for (frame, compressed) in frames.iter().enumerate() {
                    let mut raw = Vec::new();
                    decoder.decode(compressed, &mut raw)?;
                    for (number, record) in records_of_frame(&raw, compressed.records())? {
                        records.push((number, frame as u8, record.to_vec()));
                    }
                }
                Ok(())
            });
        };
        let key = block.to_be_bytes();
        let mut snapshot = self.engine.snapshot()?;
        snapshot.get(Table::Blocks, &key, &mut found)?;
        read.map_err(|error| Error::damaged(Table::Blocks, &key, error))?;
        for (number, frame, record) in records {
            let place = Place { block, frame };
            let single = snapshot.contains(Table::Records, &number.to_be_bytes())?;
            if single || self.records.place_of(&*snapshot, number)? != Some(place) {
                continue;
            }
            let record = Record::decode_packed(number, &record);
            let record = record.map_err(|error| Error::damaged(Table::Blocks, &key, error))?;
            let is_latest = is_latest(&*snapshot, number, &record)?;
            self.window.push(number, &record, is_latest, Origin::Block(place))?;
            if let Some(records) = &mut self.freed.records {
                records.push(number);
            }
            if self.window.is_full() {
                drop(snapshot);
                self.compress_window()?;
                snapshot = self.engine.snapshot()?;
            }
        }
        Ok(())
    }

    /// Returns the bytes of all records before `below` that are stored whole and are in no block.
    pub(super) fn whole_bytes(&self, below: u64) -> Result<u64, Error> {
        let mut bytes = 0;
        let mut each = |_: &[u8], value: &[u8]| {
            bytes += value.len() as u64 * u64::from(Record::is_whole(value));
            ControlFlow::Continue(())
        };
        let to = below.to_be_bytes();
        let range = (Bound::Unbounded, Bound::Excluded(&to[..]));
        let read = self.engine.snapshot()?;
        read.range(Table::Records, range, Direction::Forward, &mut each)?;
        Ok(bytes)
    }

    /// Adds records that are in no block, after number `after` and before `below`, until the window is
    /// full; without those that are stored whole unless these are `with_whole`. Returns the number of the last that it
    /// looked at; [`None`] if there was none.
    pub(super) fn read_window(&mut self, after: u64, below: u64, with_whole: bool) -> Result<Option<u64>, Error> {
        if after >= below {
            return Ok(None); // no number is between them
        }
        let mut last = None;
        let mut failed = Ok(());
        let read = &*self.engine.snapshot()?;
        let (records, window, damage) = (self.records, &mut self.window, &mut self.damage);
        let (occasion, is_long_next) = (self.occasion, &mut self.is_long_next);
        *is_long_next = false;
        let mut each = |key: &[u8], value: &[u8]| {
            let is_long = value.len() >= LONG_BYTES;
            if is_long && window.bytes() > 0 {
                // It has a window of its own, so that it need not be copied.
                *is_long_next = true;
                last = last.or(Some(after));
                return ControlFlow::Break(());
            }
            let number = key.try_into().map_or(0, u64::from_be_bytes);
            last = Some(number);
            let is_too_long = occasion != Occasion::Request && value.len() > records.body_bytes_max();
            if is_too_long || !with_whole && Record::is_whole(value) {
                return ControlFlow::Continue(());
            }
            let pushed = (|| {
                let record = Record::decode(number, value);
                let record = record.map_err(|error| Error::damaged(Table::Records, key, error))?;
                Error::check_body(record.body.stored().len(), records.body_bytes_max())?;
                let is_latest = is_latest(read, number, &record)?;
                let check = value.last_chunk().copied().unwrap_or_default();
                window.push(number, &record, is_latest, Origin::Single(check))
            })();
            failed = note(damage, pushed);
            if failed.is_err() || is_long || window.is_full() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let (from, to) = (after.to_be_bytes(), below.to_be_bytes());
        let range = (Bound::Excluded(&from[..]), Bound::Excluded(&to[..]));
        read.range(Table::Records, range, Direction::Forward, &mut each)?;
        failed.map(|()| last)
    }

    /// Compresses the records of the window. Gives back what is unused, if there is very much of it: more and more is
    /// while others write, and a store has many windows.
    pub(super) fn compress_window(&mut self) -> Result<(), Error> {
        self.compress()?;
        let (pace, ended) = (&mut self.pace, &mut self.ended);
        if !*ended {
            self.engine.reclaim(Unused::VeryMuch, &mut |_| {
                let flow = pace(0);
                *ended |= flow.is_break();
                flow
            })?;
        }
        Ok(())
    }

    fn compress(&mut self) -> Result<(), Error> {
        let window = match self.window.take().into_only() {
            Ok((item, record)) => return self.add_only(&item, record),
            Err(window) => window,
        };
        for place in window.by_chain() {
            self.add(Kind::Old, &window, place);
            if self.old_frame.frame.bytes() >= FRAME_BYTES {
                self.finish_frame(Kind::Old)?;
                if self.ended {
                    return Ok(());
                }
            }
        }
        let read = self.engine.snapshot()?;
        let groups = window.similar_latest(|number| features(&*read, number));
        drop(read);
        for group in groups {
            let bytes: usize = group.iter().map(|&place| window.item(place).1.len()).sum();
            let frame = &self.latest_frame.frame;
            if frame.bytes() + bytes > LATEST_FRAME_BYTES && !frame.is_empty() {
                self.finish_frame(Kind::Latest)?;
                if self.ended {
                    return Ok(());
                }
            }
            for place in group {
                self.add(Kind::Latest, &window, place);
            }
        }
        Ok(())
    }

    fn frame(&mut self, kind: Kind) -> &mut OpenFrame {
        match kind {
            Kind::Old => &mut self.old_frame,
            Kind::Latest => &mut self.latest_frame,
        }
    }

    fn add(&mut self, kind: Kind, window: &Window, place: usize) {
        let (item, record) = window.item(place);
        let frame = self.frame(kind);
        if !frame.add(item.number, item.origin, record.len()) {
            return;
        }
        frame.frame.push(item.number, record);
        self.done.records += 1;
        self.done.bytes_before += record.len() as u64;
    }

    /// Gives the only record of a window a frame of its own if it is long.
    fn add_only(&mut self, item: &Item, record: Vec<u8>) -> Result<(), Error> {
        let kind = if item.is_latest { Kind::Latest } else { Kind::Old };
        let most = if item.is_latest {
            LATEST_FRAME_BYTES
        } else {
            FRAME_BYTES
        };
        if self.frame(kind).frame.bytes() + record.len() > most && !self.frame(kind).frame.is_empty() {
            self.finish_frame(kind)?;
        }
        let (bytes, is_long) = (record.len() as u64, record.len() >= LONG_BYTES);
        let frame = self.frame(kind);
        if !frame.add(item.number, item.origin, record.len()) {
            return Ok(());
        }
        frame.frame.push_owned(item.number, record);
        self.done.records += 1;
        self.done.bytes_before += bytes;
        if is_long { self.finish_frame(kind) } else { Ok(()) }
    }

    fn finish_frame(&mut self, kind: Kind) -> Result<(), Error> {
        let bytes = self.frame(kind).frame.bytes() as u64;
        let finished = self.frame(kind).finish()?;
        // Frames that are begun are ended, and nothing is asked again.
        self.ended = self.ended || (self.pace)(bytes).is_break();
        self.add_to_block(kind, finished)
    }

    /// Adds a frame to the fullest block that it fits into. Old and latest records are in blocks of their own: their
    /// lengths differ, and how many records are left in a block is to say how many bytes are.
    fn add_to_block(&mut self, kind: Kind, frame: FinishedFrame) -> Result<(), Error> {
        let bytes = frame.frame.stored_bytes_max();
        let fits = |block: &&mut OpenBlock| {
            block.kind == kind && block.bytes + bytes <= BLOCK_BYTES && block.frames.len() < FRAMES_MAX
        };
        let block = match self.blocks.iter_mut().filter(fits).max_by_key(|block| block.bytes) {
            Some(block) => block,
            None => {
                if self.blocks.len() == OPEN_BLOCKS {
                    self.write_fullest_block()?;
                }
                self.blocks.push(OpenBlock::new(kind));
                self.blocks.last_mut().expect("one was pushed")
            }
        };
        block.bytes += bytes;
        block.frames.push(frame);
        Ok(())
    }

    fn write_fullest_block(&mut self) -> Result<(), Error> {
        let Some(fullest) = (0..self.blocks.len()).max_by_key(|&place| self.blocks[place].bytes) else {
            return Ok(());
        };
        let full = self.blocks.swap_remove(fullest);
        let number = self.next_block()?;
        let mut builder = BlockBuilder::default();
        let mut records = Vec::new();
        for finished in full.frames {
            let frame = builder.push(finished.frame) as u8;
            let moved = finished.records.into_iter();
            records.extend(moved.map(|record| MovedRecord { frame, ..record }));
        }
        let bytes = builder.finish(number);
        let bytes = bytes.map_err(|error| Error::damaged(Table::Blocks, &number.to_be_bytes(), error))?;
        self.done.bytes_after += bytes.len() as u64;
        let block = NewBlock { number, bytes, records };
        self.writer.ask(Command::AddBlock(block), Durability::None)?;
        Ok(())
    }

    /// Compresses and writes everything that is left.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        if !self.ended {
            self.compress_window()?;
        }
        for kind in [Kind::Old, Kind::Latest] {
            if !self.frame(kind).frame.is_empty() {
                self.finish_frame(kind)?;
            }
        }
        // The frames of blocks that are not full go into as few blocks as possible, longest first.
        let blocks = self.blocks.drain(..);
        let mut left: Vec<(Kind, FinishedFrame)> = blocks
            .flat_map(|block| block.frames.into_iter().map(move |frame| (block.kind, frame)))
            .collect();
        left.sort_by_key(|(_, finished)| Reverse(finished.frame.stored_bytes_max()));
        for (kind, finished) in left {
            self.add_to_block(kind, finished)?;
        }
        while !self.blocks.is_empty() {
            self.write_fullest_block()?;
        }
        Ok(())
    }
}

/// Returns the features of the newest record of a chain; none if they cannot be read, which
/// costs bytes only.
fn features(read: &dyn Snapshot, number: u64) -> Vec<u32> {
    let mut features = Vec::new();
    let mut found = |value: &[u8]| {
        features = ChainEntry::decode(number, value).map_or(Vec::new(), |entry| entry.features);
    };
    let read = read.get(Table::Chains, &number.to_be_bytes(), &mut found);
    read.map_or(Vec::new(), |_| features)
}

/// Notes damage, if it is the first. Returns other errors.
fn note(damage: &mut Option<Error>, looked: Result<(), Error>) -> Result<(), Error> {
    match looked {
        Err(error @ Error::Damaged { .. }) => {
            damage.get_or_insert(error);
            Ok(())
        }
        looked => looked,
    }
}

/// Returns whether a record is the latest version of its key, and stored whole or as a copy of another.
fn is_latest(read: &dyn Snapshot, number: u64, record: &Record<'_>) -> Result<bool, Error> {
    match record.body {
        Body::Whole(_) => {}
        Body::Delta { delta, .. } if delta.len() <= COPY_BYTES_MAX => {}
        Body::Delta { .. } | Body::Deleted => return Ok(false),
    }
    lookup::is_latest(read, &key_of(record.namespace, record.key), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise an outdated form of it could be found by its number: as a delta that is not counted any more.
    #[test]
    fn a_record_is_in_a_frame_once() {
        let mut frame = OpenFrame::new(LEVEL);
        let place = Place { block: 3, frame: 0 };
        assert!(frame.add(7, Origin::Block(place), 6));
        assert!(!frame.add(7, Origin::Single([0; _]), 6));
        assert!(frame.add(8, Origin::Single([0; _]), 6));
        let numbers: Vec<u64> = frame.records.iter().map(|record| record.number).collect();
        assert_eq!(numbers, [7, 8]);
        frame.records.clear();
        frame.frame.push(7, b"record");
        frame.finish().unwrap();
        assert!(frame.add(7, Origin::Single([0; _]), 6), "the next frame may have it");
    }
}
