//! Which records have this feature? Paper 004, section 3.1.2.
//!
//! Memory is fixed when a partition is made. Where it runs out, entries that were not used for
//! longest give way. So the index may forget, and, since it keeps two bytes of each feature, it may
//! name places that do not have the feature: one entry in 65 535 of those in the four slots that
//! are looked at, 0.00025 a lookup. Whoever asks finds out when the delta comes out large; nothing
//! goes wrong.

mod persist;
mod table;

use std::collections::BTreeMap;

use table::{SLOT, Table};

use crate::error::in_range;
use crate::{Error, Sketch};

/// Places remembered for one feature, at most. With so many, it says little: it is *hot*.
pub const POSTING_MAX: usize = 8;

/// Most partitions.
pub const PARTITIONS_MAX: u64 = 1 << 16;

/// Entries that a partition may have room for: 64 and 2^31.
const ENTRIES_MIN: usize = 64;
const ENTRIES_MAX: usize = 1 << 31;

/// Bytes of memory for each entry that there is room for.
pub const BYTES_PER_ENTRY: usize = 7;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    New,
    /// It was there, and is the most recent now.
    Known,
    /// Another place had to go, of the same feature or of any.
    Evicted(u32),
}

/// What [`FeatureIndex::insert`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InsertReport {
    /// Entries that are new.
    pub new: usize,
    /// Entries of others that gave way.
    pub evicted: usize,
}

/// A place with features of a sketch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// What was inserted with them.
    pub place: u32,
    /// Features shared that are not hot.
    pub shared: u32,
    /// Features shared that are.
    pub hot: u32,
}

/// Features of records, in partitions that can be dropped one by one. A place is whatever number
/// the caller knows a record by.
///
/// ```
/// use ibid_delta::{FeatureIndex, Sketch};
///
/// let mut index = FeatureIndex::new();
/// index.add_partition(1, 1000)?;
/// index.insert(1, &Sketch::of([10, 20, 30]), 7);
/// let mut candidates = Vec::new();
/// index.candidates(1, &Sketch::of([20, 30, 40]), &mut candidates);
/// assert_eq!((candidates[0].place, candidates[0].shared), (7, 2));
/// # Ok::<(), ibid_delta::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct FeatureIndex {
    partitions: BTreeMap<u64, Table>,
}

impl FeatureIndex {
    /// One without partitions.
    #[must_use]
    pub fn new() -> FeatureIndex {
        FeatureIndex::default()
    }

    /// Makes an empty partition with room for at least `entries` entries (a record takes one for
    /// each feature), in place of one that had the number. The room is `entries` divided by 0.9
    /// and rounded up to a power of two, times [`BYTES_PER_ENTRY`]; the system gives it as it is
    /// filled.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than 1.9 billion entries, or too many partitions.
    pub fn add_partition(&mut self, number: u64, entries: usize) -> Result<(), Error> {
        let most = ENTRIES_MAX / 10 * 9;
        in_range("entries of a partition", entries as u64, 0, most as u64)?;
        in_range("partitions", self.partitions.len() as u64, 0, PARTITIONS_MAX - 1)?;
        let room = (entries + entries / 9 + 1).max(ENTRIES_MIN).next_power_of_two();
        self.partitions.insert(number, Table::new((room / SLOT).ilog2()));
        Ok(())
    }

    /// Drops a partition with all its entries, and gives its memory back; whether there was one.
    pub fn drop_partition(&mut self, number: u64) -> bool {
        self.partitions.remove(&number).is_some()
    }

    /// The numbers of the partitions, ascending.
    pub fn partitions(&self) -> impl Iterator<Item = u64> + '_ {
        self.partitions.keys().copied()
    }

    /// Entries in a partition, and how many there is room for; `None` if there is no such
    /// partition.
    #[must_use]
    pub fn load(&self, partition: u64) -> Option<(usize, usize)> {
        self.partitions
            .get(&partition)
            .map(|table| (table.len, table.slots() * SLOT))
    }

    /// Bytes of memory that all partitions take when they are full.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.partitions.values().map(Table::memory).sum()
    }

    /// Remembers the features of a record. Without the partition, nothing happens.
    pub fn insert(&mut self, partition: u64, sketch: &Sketch, place: u32) -> InsertReport {
        let mut report = InsertReport::default();
        if let Some(table) = self.partitions.get_mut(&partition) {
            table.fetch(sketch.features());
            for &feature in sketch.features() {
                match table.insert(feature, place) {
                    Inserted::New => report.new += 1,
                    Inserted::Known => {}
                    Inserted::Evicted(_) => {
                        report.new += 1;
                        report.evicted += 1;
                    }
                }
            }
        }
        report
    }

    /// Forgets the features of a record, of which this is the sketch: when it is deleted, or a
    /// newer version takes its place.
    pub fn remove(&mut self, partition: u64, sketch: &Sketch, place: u32) {
        if let Some(table) = self.partitions.get_mut(&partition) {
            for &feature in sketch.features() {
                table.remove(feature, place);
            }
        }
    }

    /// Says that the record at `place` was of use to one with this sketch: the features that they
    /// share are evicted later.
    pub fn touch(&mut self, partition: u64, sketch: &Sketch, place: u32) {
        if let Some(table) = self.partitions.get_mut(&partition) {
            for &feature in sketch.features() {
                table.touch(feature, place);
            }
        }
    }

    /// Gives `found` the places of each feature of a sketch, at most [`POSTING_MAX`], with the
    /// feature's number in it: for who must know which features a place shares.
    pub fn places(&self, partition: u64, sketch: &Sketch, mut found: impl FnMut(usize, u32)) {
        if let Some(table) = self.partitions.get(&partition) {
            table.fetch(sketch.features());
            for (number, &feature) in sketch.features().iter().enumerate() {
                table.find(feature, |place| found(number, place));
            }
        }
    }

    /// Puts into `candidates` every place that shares a feature with the sketch, by place,
    /// ascending; at most [`POSTING_MAX`] for each feature.
    pub fn candidates(&self, partition: u64, sketch: &Sketch, candidates: &mut Vec<Candidate>) {
        candidates.clear();
        let Some(table) = self.partitions.get(&partition) else {
            return;
        };
        table.fetch(sketch.features());
        for &feature in sketch.features() {
            let before = candidates.len();
            let posting = table.find(feature, |place| {
                candidates.push(Candidate {
                    place,
                    shared: 1,
                    hot: 0,
                });
            });
            if posting >= POSTING_MAX {
                for candidate in &mut candidates[before..] {
                    (candidate.shared, candidate.hot) = (0, 1);
                }
            }
        }
        candidates.sort_unstable_by_key(|candidate| candidate.place);
        candidates.dedup_by(|next, first| {
            let same = next.place == first.place;
            if same {
                first.shared += next.shared;
                first.hot += next.hot;
            }
            same
        });
    }
}
