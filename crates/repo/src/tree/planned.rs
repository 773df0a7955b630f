//! Items of contents, in order, whose frames are fetched before they are read, where the storage is far.

use std::collections::VecDeque;
use std::ops::Range;

use ibid_format::ChunkId;
use ibid_format::content::{Content, Item};

use super::Items;
use crate::Result;
use crate::read::ChunkReader;

/// Bytes of chunks whose frames are planned together. Beside them, as many are read.
pub(crate) const PLANNED_BYTES: u64 = 16 << 20;
/// Number of chunks that are planned together.
pub(crate) const PLANNED_CHUNKS: usize = 4096;

/// The items of a content that lie in a range of its bytes, whole ones. With a reader that fetches ahead, their frames
/// are planned some time before they are returned, and released some time later.
pub(crate) struct PlannedItems<'r> {
    items: Items<'r>,
    data: &'r ChunkReader<'r>,
    range: Range<u64>,
    /// Whether the frame of an item is planned.
    is_read: &'r dyn Fn(&Item) -> bool,
    /// Start of the next item.
    at: u64,
    /// Items that were not returned yet, each with its start.
    planned: VecDeque<Result<(u64, Item)>>,
    /// The group that is being read, and the one after it: the number of items that were not returned yet, and the
    /// frames.
    groups: VecDeque<(usize, PlannedFrames<'r>)>,
    is_done: bool,
}

/// Frames that are planned, and released when this is dropped.
pub(crate) struct PlannedFrames<'r> {
    data: &'r ChunkReader<'r>,
    frames: Vec<u32>,
}

impl<'r> PlannedFrames<'r> {
    /// Plans the frames of chunks, in the order of these.
    pub(crate) fn new<'i>(data: &'r ChunkReader<'r>, items: impl Iterator<Item = &'i Item>) -> PlannedFrames<'r> {
        let mut frames = Vec::new();
        if data.fetches_ahead() {
            frames = data.frames_of(chunks_of(items));
            data.plan(&frames);
        }
        PlannedFrames { data, frames }
    }
}

/// Returns the chunks among items.
pub(crate) fn chunks_of<'i>(items: impl Iterator<Item = &'i Item>) -> impl Iterator<Item = &'i ChunkId> {
    items.filter_map(|item| match item {
        Item::Chunk { id, .. } => Some(id),
        Item::Hole { .. } => None,
    })
}

impl Drop for PlannedFrames<'_> {
    fn drop(&mut self) {
        self.frames.iter().for_each(|frame| self.data.release(*frame));
    }
}

impl<'r> PlannedItems<'r> {
    /// Returns the items of a content. `trees` reads the lists of them, `data` the chunks.
    pub(crate) fn new(
        trees: &'r ChunkReader<'r>,
        data: &'r ChunkReader<'r>,
        content: &Content,
        range: Range<u64>,
    ) -> PlannedItems<'r> {
        PlannedItems {
            items: Items::new(trees, content),
            data,
            range,
            is_read: &|_| true,
            at: 0,
            planned: VecDeque::new(),
            groups: VecDeque::new(),
            is_done: false,
        }
    }

    /// Plans only frames of items for which `is_read` says so: the others are not read.
    pub(crate) fn planning(self, is_read: &'r dyn Fn(&Item) -> bool) -> PlannedItems<'r> {
        PlannedItems { is_read, ..self }
    }

    /// Returns the next item in the range, and its start.
    fn next_in_range(&mut self) -> Option<Result<(u64, Item)>> {
        while self.at < self.range.end && !self.range.is_empty() {
            let item = match self.items.next()? {
                Ok(item) => item,
                Err(error) => return Some(Err(error)),
            };
            let start = self.at;
            self.at += item.length();
            if self.at > self.range.start {
                return Some(Ok((start, item)));
            }
        }
        None
    }

    /// Plans the next group of items.
    fn plan_group(&mut self) {
        let (first, mut bytes) = (self.planned.len(), 0);
        while !self.is_done && bytes < PLANNED_BYTES && self.planned.len() - first < PLANNED_CHUNKS {
            match self.next_in_range() {
                None => self.is_done = true,
                Some(item) => {
                    match &item {
                        Ok((_, Item::Chunk { length, .. })) => bytes += u64::from(*length),
                        Ok(_) => {}
                        Err(_) => self.is_done = true,
                    }
                    self.planned.push_back(item);
                }
            }
        }
        let group = self.planned.iter().skip(first);
        let items = group.filter_map(|item| item.as_ref().ok().map(|(_, item)| item));
        let items = items.filter(|item| (self.is_read)(item));
        let frames = PlannedFrames::new(self.data, items);
        self.groups.push_back((self.planned.len() - first, frames));
    }
}

impl Iterator for PlannedItems<'_> {
    type Item = Result<(u64, Item)>;

    fn next(&mut self) -> Option<Result<(u64, Item)>> {
        if !self.data.fetches_ahead() {
            return self.next_in_range();
        }
        // The group that was returned is read by now.
        while self.groups.front().is_some_and(|(left, _)| *left == 0) {
            self.groups.pop_front();
        }
        while self.groups.len() < 2 && !self.is_done {
            self.plan_group();
        }
        let item = self.planned.pop_front()?;
        if let Some((left, _)) = self.groups.front_mut() {
            *left -= 1;
        }
        Some(item)
    }
}
