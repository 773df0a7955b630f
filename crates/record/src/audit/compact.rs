//! What is not written any more is compressed together, and room that is not needed is given back.
//!
//! Deltas of one chain lie together in a frame, from the newest on: so they share what they have in
//! common, and reading an old version decompresses few frames. What a key leads to as its latest
//! version has a frame of its own, or shares a small one, so that reading it decompresses little
//! else.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use ibid_format::record::{
    BlockBuilder, BlockFrame, BlockFrameBuilder, BlockFrameDecoder, Body, ChainEntry, FRAMES_MAX, Place, Record,
    frames_of_block, records_of_block, records_of_frame,
};

use crate::engine::{Direction, Snapshot, Table};
use crate::error::Error;
use crate::read::bodies::Bodies;
use crate::read::frames;
use crate::store::{Durability, Inner, Store};
use crate::write::block::{self, Origin, Pack};
use crate::write::writer::What;

/// Bytes of a block, so that it fills a page of redb, 128 KiB, with what redb keeps beside it.
const BLOCK_BYTES: usize = (128 << 10) - 64;
/// Bytes of records that are compressed together: 16 KiB stored 8 % more of revisions of wiki
/// pages, 256 KiB 6 % less, and take four times as long to read one of.
const FRAME_BYTES: usize = 64 << 10;
/// The same for latest versions. Shorter ones share a frame.
const LATEST_FRAME_BYTES: usize = 4 << 10;
/// The same for latest versions that are like each other.
const ALIKE_FRAME_BYTES: usize = 64 << 10;
/// Features that they share at least.
const ALIKE_FEATURES: usize = 2;
/// Blocks that are filled at the same time, so that what does not fit into one finds another.
const OPEN_BLOCKS: usize = 8;
/// Bytes of records that are put into order at once, and how many.
const WINDOW_BYTES: usize = 32 << 20;
const WINDOW_RECORDS: usize = 1 << 16;
/// zstd's level. Of wiki pages, 3 stored 5 % more in a fifth of the time, 19 5 % less in ten times.
const LEVEL: i32 = 9;
/// A block of which less is of use than this part, in percent, is written anew.
const USE_PERCENT_MIN: u64 = 75;

/// What compacting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compaction {
    /// Records that were put into blocks.
    pub records: u64,
    /// What they took by themselves, bytes; without what the engine keeps beside them.
    pub bytes_before: u64,
    /// What they take in blocks, bytes.
    pub bytes_after: u64,
    /// Blocks that were written anew, or given up.
    pub blocks_freed: u64,
}

/// Numbers of blocks that were given while the store is open: none is given twice.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    last: AtomicU64,
}

impl Blocks {
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

impl Store {
    /// Encodes what is not encoded yet, compresses all records together with others, and gives room
    /// on the disk back. Others may read and write meanwhile; what they write
    /// is not compressed. `progress` is told how many more bytes of records were gone through, and
    /// may break it off.
    ///
    /// # Errors
    /// [`Error::Engine`], [`Error::WriterEnded`], [`Error::Damaged`]. What was done until then is
    /// done, and nothing is lost.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// for version in 0..100 {
    ///     pages.put(b"ibid", format!("{} {version}", "in the same place ".repeat(50)).as_bytes())?;
    /// }
    /// let done = store.compact(&mut |_bytes| ControlFlow::Continue(()))?;
    /// assert!(done.records == 100 && done.bytes_after < 3000);
    /// assert!(pages.get_version(b"ibid", 1)?.unwrap().ends_with(b"place  0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compact(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Compaction, Error> {
        self.finish_encoding()?;
        let snapshot = self.inner.engine.snapshot()?;
        let mut packer = Packer::new(&self.inner, &*snapshot);
        let freed = packer.read_worn_blocks()?;
        let mut after = 0;
        let mut stopped = false;
        while !stopped && let Some(last) = packer.read_window(after)? {
            stopped = progress(packer.window.bytes.len() as u64).is_break();
            after = last;
            packer.pack_window()?;
        }
        packer.finish()?;
        let mut done = packer.done;
        if !freed.is_empty() {
            done.blocks_freed = freed.len() as u64;
            self.inner.ask(What::Free(freed), Durability::None)?;
        }
        drop(snapshot);
        self.inner.engine.compact()?;
        Ok(done)
    }
}

/// Records on their way into blocks.
#[derive(Default)]
struct Window {
    /// Number, base, whether it is a latest version that is stored whole, where it is, and where
    /// its bytes are.
    items: Vec<Item>,
    bytes: Vec<u8>,
}

struct Item {
    number: u64,
    base: u64,
    is_latest: bool,
    origin: Origin,
    from: usize,
    to: usize,
}

impl Window {
    fn push(&mut self, number: u64, record: &Record<'_>, is_latest: bool, origin: Origin) -> Result<(), Error> {
        let base = match record.body {
            Body::Delta { base, .. } => base,
            Body::Deleted | Body::Whole(_) => 0,
        };
        let from = self.bytes.len();
        let encoded = record.encode_packed(number, &mut self.bytes);
        encoded.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))?;
        let to = self.bytes.len();
        self.items.push(Item {
            number,
            base,
            is_latest,
            origin,
            from,
            to,
        });
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= WINDOW_BYTES || self.items.len() >= WINDOW_RECORDS
    }

    /// Places of the latest versions, in groups that are like each other.
    fn latest_alike(&self, mut features: impl FnMut(u64) -> Vec<u32>) -> Vec<Vec<usize>> {
        let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut by_feature: HashMap<u32, usize> = HashMap::new();
        for (place, item) in self.items.iter().enumerate().filter(|(_, item)| item.is_latest) {
            let features = features(item.number);
            let mut shared: HashMap<usize, usize> = HashMap::new();
            for group in features.iter().filter_map(|feature| by_feature.get(feature)) {
                *shared.entry(*group).or_default() += 1;
            }
            let room = ALIKE_FRAME_BYTES.saturating_sub(item.to - item.from);
            let fits = |&(&group, &shared): &(&usize, &usize)| shared >= ALIKE_FEATURES && groups[group].0 <= room;
            let best = shared
                .iter()
                .filter(fits)
                .max_by_key(|&(group, shared)| (shared, group));
            let group = match best {
                Some((&group, _)) => group,
                None => {
                    groups.push((0, Vec::new()));
                    groups.len() - 1
                }
            };
            groups[group].0 += item.to - item.from;
            groups[group].1.push(place);
            by_feature.extend(features.into_iter().map(|feature| (feature, group)));
        }
        groups.into_iter().map(|(_, places)| places).collect()
    }

    /// Places of the others, so that each comes right after what it is decoded from, or what else
    /// is.
    fn by_chain(&self) -> Vec<usize> {
        let others = |&place: &usize| !self.items[place].is_latest;
        let mut by_base: Vec<usize> = (0..self.items.len()).filter(others).collect();
        by_base.sort_unstable_by_key(|&item| (self.items[item].base, self.items[item].number));
        let of_base = |base: u64| {
            let from = by_base.partition_point(|&item| self.items[item].base < base);
            let to = by_base.partition_point(|&item| self.items[item].base <= base);
            &by_base[from..to]
        };
        let numbers: HashSet<u64> = by_base.iter().map(|&place| self.items[place].number).collect();
        let mut order = Vec::with_capacity(self.items.len());
        let mut stack = Vec::new();
        for (place, item) in self.items.iter().enumerate().filter(|(place, _)| others(place)) {
            if item.base != 0 && numbers.contains(&item.base) {
                continue;
            }
            stack.push(place);
            while let Some(place) = stack.pop() {
                order.push(place);
                stack.extend(of_base(self.items[place].number));
            }
        }
        order
    }
}

struct Packer<'p> {
    store: &'p Inner,
    read: &'p dyn Snapshot,
    bodies: &'p Bodies,
    window: Window,
    cold: Gather,
    latest: Gather,
    blocks: Vec<Filling>,
    done: Compaction,
}

/// A block that has room yet.
#[derive(Default)]
struct Filling {
    frames: Vec<Filled>,
    bytes: usize,
}

/// A frame, and where its records were.
struct Filled {
    frame: BlockFrame<Vec<u8>>,
    records: Vec<(u64, Origin)>,
}

/// A frame that grows.
struct Gather {
    frame: BlockFrameBuilder,
    records: Vec<(u64, Origin)>,
}

impl Gather {
    fn new() -> Self {
        Gather {
            frame: BlockFrameBuilder::new(LEVEL),
            records: Vec::new(),
        }
    }
}

impl<'p> Packer<'p> {
    fn new(store: &'p Inner, read: &'p dyn Snapshot) -> Self {
        Packer {
            store,
            read,
            bodies: &store.bodies,
            window: Window::default(),
            cold: Gather::new(),
            latest: Gather::new(),
            blocks: Vec::new(),
            done: Compaction::default(),
        }
    }

    /// Puts the records of blocks that are not worth keeping into the window, and gives the blocks.
    /// Of the others only their heads are looked at.
    fn read_worn_blocks(&mut self) -> Result<Vec<u64>, Error> {
        let live = block::live(self.read)?;
        let (mut unused, mut worn, mut short) = (Vec::new(), Vec::new(), Vec::new());
        let mut failed = Ok(());
        let mut each = |key: &[u8], block: &[u8]| {
            let number = key.try_into().map_or(0, u64::from_be_bytes);
            let live = live.get(&number).copied().unwrap_or(0);
            match records_of_block(number, block) {
                Ok(_) if live == 0 => unused.push(number),
                Ok(records) if live * 100 < records * USE_PERCENT_MIN => worn.push(number),
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
        // One that is short alone would be as short again.
        if short.len() > 1 || !worn.is_empty() || self.has_single_records()? {
            worn.append(&mut short);
        }
        for &block in &worn {
            self.read_block(block)?;
        }
        unused.append(&mut worn);
        Ok(unused)
    }

    /// Whether any record lies by itself.
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

    /// Puts the records of a block into the window, as far as they are of use.
    fn read_block(&mut self, block: u64) -> Result<(), Error> {
        let mut records = Vec::new();
        let mut decoder = BlockFrameDecoder::default();
        let mut read = Ok(());
        let mut found = |bytes: &[u8]| {
            read = frames_of_block(block, bytes).and_then(|frames| {
                for (frame, packed) in frames.iter().enumerate() {
                    let mut raw = Vec::new();
                    decoder.decode(packed, &mut raw)?;
                    for (number, record) in records_of_frame(&raw, packed.records())? {
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
            if single || frames::places(self.read, number)?.get(number) != Some(place) {
                continue;
            }
            let record = Record::decode_packed(number, &record);
            let record = record.map_err(|error| Error::damaged(Table::Blocks, &key, error))?;
            self.push(number, &record, Origin::Packed(place))?;
            if self.window.is_full() {
                self.pack_window()?;
            }
        }
        Ok(())
    }

    fn push(&mut self, number: u64, record: &Record<'_>, origin: Origin) -> Result<(), Error> {
        let is_latest = matches!(record.body, Body::Whole(_)) && self.bodies.is_latest(self.read, number)?;
        self.window.push(number, record, is_latest, origin)
    }

    /// Adds records that lie by themselves, from the one after a number on, until the window is
    /// full. Gives the number of the last; [`None`] if there was none.
    fn read_window(&mut self, after: u64) -> Result<Option<u64>, Error> {
        let mut last = None;
        let mut failed = Ok(());
        let (read, bodies, window) = (self.read, self.bodies, &mut self.window);
        let mut each = |key: &[u8], value: &[u8]| {
            let number = key.try_into().map_or(0, u64::from_be_bytes);
            last = Some(number);
            failed = (|| {
                let record = Record::decode(number, value);
                let record = record.map_err(|error| Error::damaged(Table::Records, key, error))?;
                let is_latest = matches!(record.body, Body::Whole(_)) && bodies.is_latest(read, number)?;
                let check = value.last_chunk().copied().unwrap_or_default();
                window.push(number, &record, is_latest, Origin::Single(check))
            })();
            if failed.is_err() || window.is_full() {
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

    fn pack_window(&mut self) -> Result<(), Error> {
        let window = std::mem::take(&mut self.window);
        for place in window.by_chain() {
            self.gather(false, &window, place);
            if self.cold.frame.bytes() >= FRAME_BYTES {
                self.add_frame(false)?;
            }
        }
        let mut features = |number: u64| {
            let mut features = Vec::new();
            let mut found = |value: &[u8]| {
                // An entry that is damaged is of no use; what it would have saved is not.
                features = ChainEntry::decode(number, value).map_or(Vec::new(), |entry| entry.features);
            };
            let read = self.read.get(Table::Chains, &number.to_be_bytes(), &mut found);
            read.map_or(Vec::new(), |_| features)
        };
        let groups = window.latest_alike(&mut features);
        for group in groups {
            let bytes: usize = group
                .iter()
                .map(|&place| window.items[place].to - window.items[place].from)
                .sum();
            if self.latest.frame.bytes() + bytes > LATEST_FRAME_BYTES && !self.latest.frame.is_empty() {
                self.add_frame(true)?;
            }
            for place in group {
                self.gather(true, &window, place);
            }
        }
        Ok(())
    }

    fn gather(&mut self, latest: bool, window: &Window, place: usize) {
        let item = &window.items[place];
        let record = &window.bytes[item.from..item.to];
        self.done.records += 1;
        self.done.bytes_before += record.len() as u64;
        let gather = if latest { &mut self.latest } else { &mut self.cold };
        gather.frame.push(item.number, record);
        gather.records.push((item.number, item.origin));
    }

    /// Puts what was gathered into the block that it fills best.
    fn add_frame(&mut self, latest: bool) -> Result<(), Error> {
        let gather = if latest { &mut self.latest } else { &mut self.cold };
        let frame = gather.frame.finish();
        let frame = frame.map_err(|error| Error::damaged(Table::Blocks, b"", error))?;
        let records = std::mem::take(&mut gather.records);
        self.place(Filled { frame, records })
    }

    fn place(&mut self, filled: Filled) -> Result<(), Error> {
        let bytes = filled.frame.stored_bytes_max();
        let fits = |block: &&mut Filling| block.bytes + bytes <= BLOCK_BYTES && block.frames.len() < FRAMES_MAX;
        let block = match self.blocks.iter_mut().filter(fits).max_by_key(|block| block.bytes) {
            Some(block) => block,
            None => {
                if self.blocks.len() == OPEN_BLOCKS {
                    self.add_fullest_block()?;
                }
                self.blocks.push(Filling::default());
                self.blocks.last_mut().expect("one was added")
            }
        };
        block.bytes += bytes;
        block.frames.push(filled);
        Ok(())
    }

    fn add_fullest_block(&mut self) -> Result<(), Error> {
        let Some(fullest) = (0..self.blocks.len()).max_by_key(|&place| self.blocks[place].bytes) else {
            return Ok(());
        };
        let full = self.blocks.swap_remove(fullest);
        let block = self.store.blocks.next(self.read)?;
        let mut builder = BlockBuilder::default();
        let mut records = Vec::new();
        for filled in full.frames {
            let frame = builder.push(&filled.frame) as u8;
            records.extend(
                filled
                    .records
                    .into_iter()
                    .map(|(number, origin)| (number, frame, origin)),
            );
        }
        let bytes = builder.finish(block);
        let bytes = bytes.map_err(|error| Error::damaged(Table::Blocks, &block.to_be_bytes(), error))?;
        self.done.bytes_after += bytes.len() as u64;
        self.store
            .ask(What::Pack(Pack { block, bytes, records }), Durability::None)?;
        Ok(())
    }

    /// Packs what is left.
    fn finish(&mut self) -> Result<(), Error> {
        self.pack_window()?;
        if !self.cold.frame.is_empty() {
            self.add_frame(false)?;
        }
        if !self.latest.frame.is_empty() {
            self.add_frame(true)?;
        }
        // What is left in blocks that are half full goes into as few as possible: the longest first.
        let mut left: Vec<Filled> = self.blocks.drain(..).flat_map(|block| block.frames).collect();
        left.sort_by_key(|filled| Reverse(filled.frame.stored_bytes_max()));
        for filled in left {
            self.place(filled)?;
        }
        while !self.blocks.is_empty() {
            self.add_fullest_block()?;
        }
        Ok(())
    }
}
