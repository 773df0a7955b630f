//! What of an image need not be read, because the parent snapshot has it.

use std::ops::Range;
use std::path::Path;

use ibid_format::content::Item;

use super::job::Job;
use crate::layout::new_id;
use crate::source::{Extent, Opened};
use crate::tree::Items;
use crate::{Monitor, Warning};

/// An open image, and what the parent snapshot has of it. Questions must ask for ascending offsets.
pub(super) struct OpenImage<'r> {
    job: &'r Job<'r>,
    pub(super) file: Opened,
    pub(super) path: &'r Path,
    /// Its size when it was opened, bytes.
    pub(super) size: u64,
    pub(super) changed: Changed,
    former: Former<'r>,
}

impl<'r> OpenImage<'r> {
    /// Returns an open image of which `former` are the contents in the parent.
    pub(super) fn new(
        job: &'r Job<'r>,
        file: Opened,
        path: &'r Path,
        size: u64,
        changed: Changed,
        former: Items<'r>,
    ) -> OpenImage<'r> {
        OpenImage {
            job,
            file,
            path,
            size,
            changed,
            former: Former {
                monitor: job.monitor,
                items: former,
                item: Some((0, Item::Hole { length: 0 })),
            },
        }
    }

    /// Returns what need not be read at `offset`: a chunk of the parent, or a part of a hole that is
    /// one still. `is_data` says that the file is known to have data there.
    pub(super) fn unread(&mut self, offset: u64, is_data: bool) -> Option<Item> {
        let left = self.size.saturating_sub(offset);
        let unchanged = self.changed.unchanged_from(offset);
        match self.former.at(offset)? {
            Item::Chunk { id, length } => {
                // A chunk before a hole or at the end depends on nothing that follows, unless that has
                // become data.
                let lookahead = self.job.repository.chunker.settings().lookahead().max(1);
                let is_same = u64::from(length) <= left && u64::from(length) + lookahead as u64 <= unchanged;
                let is_stored = || self.job.loaded.index.get(&id).is_some();
                (is_same && is_stored()).then_some(Item::Chunk { id, length })
            }
            Item::Hole { length } if !is_data && unchanged > 0 => match self.file.extents(offset, self.size).next()? {
                Extent::Hole { length: still } => Some(Item::Hole {
                    length: length.min(still).min(unchanged),
                }),
                Extent::Data { .. } => None,
            },
            Item::Hole { .. } => None,
        }
    }

    /// Returns where the parent's chunk or hole ends in which the last offset lies that was asked
    /// for.
    pub(super) fn former_end(&self) -> Option<u64> {
        self.former.item.map(|(start, item)| start + item.length())
    }
}

/// Changed ranges, ascending.
pub(super) struct Changed(Vec<Range<u64>>);

impl Changed {
    /// Returns the ranges of a map that knows the first `described` bytes. Of what lies beyond, up to
    /// `longest`, all has changed: the file has grown or shrunk.
    pub(super) fn new(mut ranges: Vec<Range<u64>>, described: u64, longest: u64) -> Changed {
        if described < longest {
            // The last byte too, because the end of the data may have decided where the last chunk
            // ends.
            let tail = described.saturating_sub(1)..u64::MAX;
            ranges.retain(|range| range.start < tail.start);
            if let Some(last) = ranges.last_mut() {
                last.end = last.end.min(tail.start);
            }
            ranges.push(tail);
        }
        Changed(ranges)
    }

    /// Returns the same ranges for a file of which another size was found meanwhile.
    pub(super) fn resized(self, before: u64, now: u64) -> Changed {
        Changed::new(self.0, before.min(now), before.max(now))
    }

    /// Returns the first range that ends after `offset`.
    fn from(&self, offset: u64) -> Option<&Range<u64>> {
        self.0.get(self.0.partition_point(|range| range.end <= offset))
    }

    /// Returns where the last range that begins before `offset` ends.
    pub(super) fn last_before(&self, offset: u64) -> Option<u64> {
        let after = self.0.partition_point(|range| range.start < offset);
        Some(self.0[after.checked_sub(1)?].end)
    }

    /// Returns how many bytes from `offset` on are unchanged.
    fn unchanged_from(&self, offset: u64) -> u64 {
        self.from(offset)
            .map_or(u64::MAX, |range| range.start.saturating_sub(offset))
    }

    /// Returns how far to read from `offset` on: to the end of its range, or up to the next, but at
    /// most `step` bytes.
    pub(super) fn reach(&self, offset: u64, step: u64) -> u64 {
        let far = offset.saturating_add(step);
        match self.from(offset) {
            Some(range) if range.start <= offset => range.end,
            Some(range) => range.start.min(far),
            None => far,
        }
    }
}

/// The parent's chunks and holes, in order.
struct Former<'r> {
    monitor: &'r Monitor,
    items: Items<'r>,
    /// The current item and where it starts; none at the end, or if the list is damaged.
    item: Option<(u64, Item)>,
}

impl Former<'_> {
    /// Returns the item that starts at `offset`, or the rest of a hole from there on.
    fn at(&mut self, offset: u64) -> Option<Item> {
        while let Some((start, item)) = self.item
            && start + item.length() <= offset
        {
            let next = self.items.next().transpose().unwrap_or_else(|error| {
                self.monitor.warn(Warning::Repository { error });
                None
            });
            self.item = next.map(|next| (start + item.length(), next));
        }
        match self.item? {
            (start, Item::Hole { length }) if start <= offset => Some(Item::Hole {
                length: start + length - offset,
            }),
            (start, item) if start == offset => Some(item),
            _ => None,
        }
    }
}

/// Selects the unchanged chunks to compare.
pub(super) struct Sample {
    /// Chunks whose number is below this are selected.
    below: u64,
    /// State of the generator: SplitMix64.
    state: u64,
}

impl Sample {
    /// Selects a share of the chunks, 0 to 1, others each time.
    pub(super) fn new(share: f64) -> Sample {
        Sample {
            // Saturates at both ends.
            below: (share * u64::MAX as f64) as u64,
            state: u64::from_le_bytes(new_id().0[..8].try_into().expect("8 bytes")),
        }
    }

    /// Returns whether the next chunk is selected.
    pub(super) fn next(&mut self) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.state;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.below == u64::MAX || number ^ number >> 31 < self.below
    }
}
