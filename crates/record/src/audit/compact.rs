//! Compressing records together, and returning unused disk space.
//!
//! The deltas of a chain are in one frame, newest first. They compress well together, and few
//! frames are decompressed for an old version. The latest version of a key has a frame of its own
//! or shares a small one, so that little else is decompressed to read it.

use std::cmp::Reverse;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use ibid_delta::Interval;
use ibid_format::record::{
    BlockBuilder, BlockFrame, BlockFrameBuilder, BlockFrameDecoder, Body, ChainEntry, FRAMES_MAX, Place, Record,
    frames_of_block, key_of, records_of_block, records_of_frame,
};

use super::rebase::rebase;
use super::window::{Item, Window};
use crate::engine::{Direction, Engine, Snapshot, Table};
use crate::error::Error;
use crate::read::records::Records;
use crate::read::{lookup, places};
use crate::write::handle::WriterHandle;
use crate::write::request::{Command, Durability, MovedRecord, NewBlock, Origin};
use crate::write::{block, references};

/// Bytes of a block. With what redb stores beside it, it fills a page of 128 KiB.
const BLOCK_BYTES: usize = (128 << 10) - 64;
/// Bytes of records that are compressed together. Of revisions of wiki pages, 16 KiB stored 8 %
/// more and 256 KiB 6 % less, with four times the time to read a record.
const FRAME_BYTES: usize = 64 << 10;
/// Bytes of latest versions that are compressed together; shorter ones share a frame.
const LATEST_FRAME_BYTES: usize = 4 << 10;
/// Records from this length on are compressed alone, bytes. They are copied as little as possible.
const LONG_BYTES: usize = 4 << 20;
/// Blocks that are filled at the same time, so that a frame that does not fit into one fits into
/// another.
const OPEN_BLOCKS: usize = 8;
/// The level of zstd. Of wiki pages, 3 stored 5 % more in a fifth of the time, and 19 stored 5 %
/// less in ten times the time.
const LEVEL: i32 = 9;
/// A block is compressed anew if it still holds less than this percentage of its records.
const USE_PERCENT_MIN: u64 = 75;

/// The result of compacting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compaction {
    /// Records that were moved into blocks.
    pub records: u64,
    /// Bytes of these records before, without the engine's overhead.
    pub bytes_before: u64,
    /// Bytes of the blocks that they are in now.
    pub bytes_after: u64,
    /// Blocks that were compressed anew or removed.
    pub blocks_freed: u64,
    /// Whether something was purged before, and nothing of it is left in the store's files, but for
    /// [`purged_for_log`](Self::purged_for_log).
    pub wiped: bool,
    /// Records that were purged and are kept for replicas, because the log names them.
    pub purged_for_log: u64,
}

/// Gives blocks their numbers. No number is given twice while the store is open, because readers
/// cache frames by the number of their block.
#[derive(Debug, Default)]
pub(crate) struct BlockNumbers {
    last: AtomicU64,
}

impl BlockNumbers {
    fn next(&self, read: &dyn Snapshot) -> Result<u64, Error> {
        let mut stored = 0;
        let mut each = |key: &[u8], _: &[u8]| {
            stored = key.try_into().map_or(0, u64::from_be_bytes);
            ControlFlow::Break(())
        };
        let everything = (Bound::Unbounded, Bound::Unbounded);
        read.range(Table::Blocks, everything, Direction::Backward, &mut each)?;
        self.last.fetch_max(stored, Ordering::Relaxed);
        Ok(self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Compresses all records together with others, and returns unused disk space. Calls `progress`
/// with the number of bytes of records compressed since its last call; it may stop the work.
pub(crate) fn compact(
    engine: &dyn Engine,
    records: &Records,
    numbers: &BlockNumbers,
    writer: &WriterHandle,
    interval: Interval,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Compaction, Error> {
    let purged_for_log = rebase(engine, records, writer, interval)?;
    let snapshot = engine.snapshot()?;
    let purges = references::purged_mark(&*snapshot)?;
    let mut compactor = Compactor {
        read: &*snapshot,
        records,
        numbers,
        writer,
        window: Window::default(),
        old_frame: OpenFrame::new(),
        latest_frame: OpenFrame::new(),
        blocks: Vec::new(),
        frees_all: purges.is_some(),
        done: Compaction {
            purged_for_log,
            ..Compaction::default()
        },
    };
    let freed = compactor.read_worn_blocks()?;
    let mut after = 0;
    let mut stopped = false;
    while !stopped && let Some(last) = compactor.read_window(after)? {
        stopped = progress(compactor.window.bytes() as u64).is_break();
        after = last;
        compactor.compress_window()?;
    }
    compactor.finish()?;
    let mut done = compactor.done;
    if !freed.is_empty() {
        done.blocks_freed = freed.len() as u64;
        writer.ask(Command::RemoveBlocks(freed), Durability::None)?;
    }
    drop(snapshot);
    engine.compact()?;
    if let Some(purges) = purges.filter(|_| !stopped) {
        done.wiped = engine.wipe()?;
        if done.wiped {
            writer.ask(Command::ForgetPurges(purges), Durability::None)?;
        }
    }
    Ok(done)
}

struct Compactor<'c> {
    read: &'c dyn Snapshot,
    records: &'c Records,
    numbers: &'c BlockNumbers,
    writer: &'c WriterHandle,
    window: Window,
    old_frame: OpenFrame,
    latest_frame: OpenFrame,
    blocks: Vec<OpenBlock>,
    /// Whether no block may keep a record that has its place elsewhere, because it may have been purged.
    frees_all: bool,
    done: Compaction,
}

/// A frame that is being filled.
struct OpenFrame {
    frame: BlockFrameBuilder,
    records: Vec<(u64, Origin)>,
}

/// A compressed frame, and where its records were.
struct FinishedFrame {
    frame: BlockFrame<Vec<u8>>,
    records: Vec<(u64, Origin)>,
}

/// A block that has room for more frames.
#[derive(Default)]
struct OpenBlock {
    frames: Vec<FinishedFrame>,
    bytes: usize,
}

/// The kind of records in a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Old,
    Latest,
}

impl OpenFrame {
    fn new() -> Self {
        OpenFrame {
            frame: BlockFrameBuilder::new(LEVEL),
            records: Vec::new(),
        }
    }

    fn finish(&mut self) -> Result<FinishedFrame, Error> {
        let frame = self.frame.finish();
        let frame = frame.map_err(|error| Error::damaged(Table::Blocks, b"", error))?;
        let records = std::mem::take(&mut self.records);
        Ok(FinishedFrame { frame, records })
    }
}

impl Compactor<'_> {
    /// Adds the records of blocks that are not worth keeping to the window. Returns these blocks,
    /// and those that no record is in. Reads only the heads of the others.
    fn read_worn_blocks(&mut self) -> Result<Vec<u64>, Error> {
        let used = block::records_by_block(self.read)?;
        let (mut unused, mut worn, mut short) = (Vec::new(), Vec::new(), Vec::new());
        let mut failed = Ok(());
        let mut each = |key: &[u8], block: &[u8]| {
            let number = key.try_into().map_or(0, u64::from_be_bytes);
            let used = used.get(&number).copied().unwrap_or(0);
            match records_of_block(number, block) {
                Ok(_) if used == 0 => unused.push(number),
                Ok(records) if self.frees_all && used < records => worn.push(number),
                Ok(records) if used * 100 < records * USE_PERCENT_MIN => worn.push(number),
                Ok(_) if block.len() < BLOCK_BYTES / 2 => short.push(number),
                Ok(_) => {}
                Err(error) => failed = Err(Error::damaged(Table::Blocks, key, error)),
            }
            if failed.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let everything = (Bound::Unbounded, Bound::Unbounded);
        self.read
            .range(Table::Blocks, everything, Direction::Forward, &mut each)?;
        failed?;
        // A single short block would be as short as before.
        if short.len() > 1 || !worn.is_empty() || self.has_single_records()? {
            worn.append(&mut short);
        }
        for &block in &worn {
            self.read_block(block)?;
        }
        unused.append(&mut worn);
        Ok(unused)
    }

    /// Returns whether any record is in no block.
    fn has_single_records(&self) -> Result<bool, Error> {
        let mut found = false;
        let mut each = |_: &[u8], _: &[u8]| {
            found = true;
            ControlFlow::Break(())
        };
        let everything = (Bound::Unbounded, Bound::Unbounded);
        self.read
            .range(Table::Records, everything, Direction::Forward, &mut each)?;
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
        self.read.get(Table::Blocks, &key, &mut found)?;
        read.map_err(|error| Error::damaged(Table::Blocks, &key, error))?;
        for (number, frame, record) in records {
            let place = Place { block, frame };
            let single = self.read.get(Table::Records, &number.to_be_bytes(), &mut |_| {})?;
            if single || places::group(self.read, number)?.get(number) != Some(place) {
                continue;
            }
            let record = Record::decode_packed(number, &record);
            let record = record.map_err(|error| Error::damaged(Table::Blocks, &key, error))?;
            let is_latest = is_latest(self.read, number, &record)?;
            self.window.push(number, &record, is_latest, Origin::Block(place))?;
            if self.window.is_full() {
                self.compress_window()?;
            }
        }
        Ok(())
    }

    /// Adds records that are in no block, after number `after`, until the window is full. Returns
    /// the number of the last; [`None`] if there was none.
    fn read_window(&mut self, after: u64) -> Result<Option<u64>, Error> {
        let mut last = None;
        let mut failed = Ok(());
        let (read, records, window) = (self.read, self.records, &mut self.window);
        let mut each = |key: &[u8], value: &[u8]| {
            let is_long = value.len() >= LONG_BYTES;
            if is_long && window.bytes() > 0 {
                // It has a window of its own, so that it need not be copied.
                return ControlFlow::Break(());
            }
            let number = key.try_into().map_or(0, u64::from_be_bytes);
            last = Some(number);
            failed = (|| {
                let record = Record::decode(number, value);
                let record = record.map_err(|error| Error::damaged(Table::Records, key, error))?;
                Error::check_body(record.body.stored().len(), records.body_bytes_max())?;
                let is_latest = is_latest(read, number, &record)?;
                let check = value.last_chunk().copied().unwrap_or_default();
                window.push(number, &record, is_latest, Origin::Single(check))
            })();
            if failed.is_err() || is_long || window.is_full() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let from = after.to_be_bytes();
        let range = (Bound::Excluded(&from[..]), Bound::Unbounded);
        self.read.range(Table::Records, range, Direction::Forward, &mut each)?;
        failed.map(|()| last)
    }

    fn compress_window(&mut self) -> Result<(), Error> {
        let window = match std::mem::take(&mut self.window).into_only() {
            Ok((item, record)) => return self.add_only(&item, record),
            Err(window) => window,
        };
        for place in window.by_chain() {
            self.add(Kind::Old, &window, place);
            if self.old_frame.frame.bytes() >= FRAME_BYTES {
                self.finish_frame(Kind::Old)?;
            }
        }
        for group in window.similar_latest(|number| self.features(number)) {
            let bytes: usize = group.iter().map(|&place| window.item(place).1.len()).sum();
            let frame = &self.latest_frame.frame;
            if frame.bytes() + bytes > LATEST_FRAME_BYTES && !frame.is_empty() {
                self.finish_frame(Kind::Latest)?;
            }
            for place in group {
                self.add(Kind::Latest, &window, place);
            }
        }
        Ok(())
    }

    /// Returns the features of the newest record of a chain; none if they cannot be read, which
    /// costs bytes only.
    fn features(&self, number: u64) -> Vec<u32> {
        let mut features = Vec::new();
        let mut found = |value: &[u8]| {
            features = ChainEntry::decode(number, value).map_or(Vec::new(), |entry| entry.features);
        };
        let read = self.read.get(Table::Chains, &number.to_be_bytes(), &mut found);
        read.map_or(Vec::new(), |_| features)
    }

    fn frame(&mut self, kind: Kind) -> &mut OpenFrame {
        match kind {
            Kind::Old => &mut self.old_frame,
            Kind::Latest => &mut self.latest_frame,
        }
    }

    fn add(&mut self, kind: Kind, window: &Window, place: usize) {
        let (item, record) = window.item(place);
        self.done.records += 1;
        self.done.bytes_before += record.len() as u64;
        let frame = self.frame(kind);
        frame.frame.push(item.number, record);
        frame.records.push((item.number, item.origin));
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
        self.done.records += 1;
        self.done.bytes_before += record.len() as u64;
        let is_long = record.len() >= LONG_BYTES;
        let frame = self.frame(kind);
        frame.frame.push_owned(item.number, record);
        frame.records.push((item.number, item.origin));
        if is_long { self.finish_frame(kind) } else { Ok(()) }
    }

    fn finish_frame(&mut self, kind: Kind) -> Result<(), Error> {
        let finished = self.frame(kind).finish()?;
        self.add_to_block(finished)
    }

    /// Adds a frame to the fullest block that it fits into.
    fn add_to_block(&mut self, frame: FinishedFrame) -> Result<(), Error> {
        let bytes = frame.frame.stored_bytes_max();
        let fits = |block: &&mut OpenBlock| block.bytes + bytes <= BLOCK_BYTES && block.frames.len() < FRAMES_MAX;
        let block = match self.blocks.iter_mut().filter(fits).max_by_key(|block| block.bytes) {
            Some(block) => block,
            None => {
                if self.blocks.len() == OPEN_BLOCKS {
                    self.write_fullest_block()?;
                }
                self.blocks.push(OpenBlock::default());
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
        let number = self.numbers.next(self.read)?;
        let mut builder = BlockBuilder::default();
        let mut records = Vec::new();
        for finished in full.frames {
            let frame = builder.push(finished.frame) as u8;
            let moved = |(number, origin)| MovedRecord { number, frame, origin };
            records.extend(finished.records.into_iter().map(moved));
        }
        let bytes = builder.finish(number);
        let bytes = bytes.map_err(|error| Error::damaged(Table::Blocks, &number.to_be_bytes(), error))?;
        self.done.bytes_after += bytes.len() as u64;
        let block = NewBlock { number, bytes, records };
        self.writer.ask(Command::AddBlock(block), Durability::None)?;
        Ok(())
    }

    /// Compresses and writes everything that is left.
    fn finish(&mut self) -> Result<(), Error> {
        self.compress_window()?;
        for kind in [Kind::Old, Kind::Latest] {
            if !self.frame(kind).frame.is_empty() {
                self.finish_frame(kind)?;
            }
        }
        // The frames of blocks that are not full go into as few blocks as possible, longest first.
        let mut left: Vec<FinishedFrame> = self.blocks.drain(..).flat_map(|block| block.frames).collect();
        left.sort_by_key(|finished| Reverse(finished.frame.stored_bytes_max()));
        for finished in left {
            self.add_to_block(finished)?;
        }
        while !self.blocks.is_empty() {
            self.write_fullest_block()?;
        }
        Ok(())
    }
}

/// Returns whether a record is the latest version of its key, and stored whole.
fn is_latest(read: &dyn Snapshot, number: u64, record: &Record<'_>) -> Result<bool, Error> {
    if !matches!(record.body, Body::Whole(_)) {
        return Ok(false);
    }
    let entry = lookup::key_entry(read, &key_of(record.namespace, record.key))?;
    Ok(entry.is_some_and(|entry| entry.latest == number && !entry.deleted))
}
