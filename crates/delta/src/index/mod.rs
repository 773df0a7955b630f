//! Finds the records that have a feature: dDedup §3.1.2.
//!
//! A partition takes a fixed amount of memory. When it is full, the least recently used entries are
//! evicted, so the index forgets. It keeps only two bytes of each feature's hash, so it may also
//! return a place that does not have the feature: one entry in 65 535 of those in the four slots of
//! a search, or 0.00025 per search. The caller notices when the delta comes out large; nothing is
//! lost.

mod persist;
mod table;

use std::collections::BTreeMap;

use table::{SLOT, Table};

use crate::error::in_range;
use crate::{Error, Sketch};

const POSTING_MAX: usize = FeatureIndex::POSTING_MAX;

/// Fewest and most entries that a partition has room for.
const ENTRIES_MIN: usize = 64;
const ENTRIES_MAX: usize = 1 << 31;

/// The result of inserting an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    New,
    /// It existed already, and is now the most recently used.
    Known,
    /// It evicted the entry of this place, for the same feature or another.
    Evicted(u32),
}

/// What [`FeatureIndex::insert`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InsertReport {
    /// Entries added.
    pub new: usize,
    /// Entries of other records that were evicted.
    pub evicted: usize,
}

/// A record that shares features with a sketch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The number that the record was inserted with.
    pub place: u32,
    /// Shared features that are not hot.
    pub shared: u32,
    /// Shared features that are hot: [`FeatureIndex::POSTING_MAX`] records or more have them.
    pub hot: u32,
}

/// Finds records by their features. It is divided into partitions that can be dropped one by one. A
/// *place* is the number by which the caller knows a record.
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
    /// Most places remembered for one feature. A feature with so many is *hot*: it says little.
    pub const POSTING_MAX: usize = 8;

    /// Most partitions.
    pub const PARTITIONS_MAX: u64 = 1 << 16;

    /// Memory for each entry that there is room for, bytes.
    pub const BYTES_PER_ENTRY: usize = 7;

    /// Returns an index without partitions.
    #[must_use]
    pub fn new() -> FeatureIndex {
        FeatureIndex::default()
    }

    /// Adds an empty partition with room for at least `entries` entries, one for each feature of a
    /// record. It replaces a partition with the same number.
    ///
    /// It takes [`BYTES_PER_ENTRY`](FeatureIndex::BYTES_PER_ENTRY) times `entries` / 0.9, rounded up
    /// to a power of two. The operating system provides the memory as the partition fills.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more than 1.9 billion entries, or more than
    /// [`PARTITIONS_MAX`](FeatureIndex::PARTITIONS_MAX) partitions.
    pub fn add_partition(&mut self, number: u64, entries: usize) -> Result<(), Error> {
        let most = ENTRIES_MAX / 10 * 9;
        in_range("entries of a partition", entries as u64, 0, most as u64)?;
        in_range(
            "partitions",
            self.partitions.len() as u64,
            0,
            FeatureIndex::PARTITIONS_MAX - 1,
        )?;
        let room = (entries + entries / 9 + 1).max(ENTRIES_MIN).next_power_of_two();
        self.partitions.insert(number, Table::new((room / SLOT).ilog2()));
        Ok(())
    }

    /// Drops a partition and frees its memory. Returns whether it existed.
    pub fn drop_partition(&mut self, number: u64) -> bool {
        self.partitions.remove(&number).is_some()
    }

    /// Returns the numbers of the partitions in ascending order.
    pub fn partitions(&self) -> impl Iterator<Item = u64> + '_ {
        self.partitions.keys().copied()
    }

    /// Returns how many entries a partition has and how many it has room for, or `None` if it does
    /// not exist.
    #[must_use]
    pub fn load(&self, partition: u64) -> Option<(usize, usize)> {
        self.partitions
            .get(&partition)
            .map(|table| (table.len, table.slots() * SLOT))
    }

    /// Returns the memory of all partitions when they are full, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.partitions.values().map(Table::memory).sum()
    }

    /// Adds the features of a record. Does nothing if the partition does not exist.
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

    /// Removes the features of a record, given its sketch: when it is deleted, or a newer version
    /// replaces it.
    pub fn remove(&mut self, partition: u64, sketch: &Sketch, place: u32) {
        if let Some(table) = self.partitions.get_mut(&partition) {
            for &feature in sketch.features() {
                table.remove(feature, place);
            }
        }
    }

    /// Marks the features that this sketch shares with the record at `place` as recently used, so
    /// that they are evicted later.
    pub fn touch(&mut self, partition: u64, sketch: &Sketch, place: u32) {
        if let Some(table) = self.partitions.get_mut(&partition) {
            for &feature in sketch.features() {
                table.touch(feature, place);
            }
        }
    }

    /// Calls `found` with the position of each feature in the sketch and each place that has it, at
    /// most [`POSTING_MAX`](FeatureIndex::POSTING_MAX) for a feature.
    pub fn places(&self, partition: u64, sketch: &Sketch, mut found: impl FnMut(usize, u32)) {
        if let Some(table) = self.partitions.get(&partition) {
            table.fetch(sketch.features());
            for (number, &feature) in sketch.features().iter().enumerate() {
                table.find(feature, |place| found(number, place));
            }
        }
    }

    /// Puts into `candidates` the places that share a feature with the sketch, in ascending order; at
    /// most [`POSTING_MAX`](FeatureIndex::POSTING_MAX) for each feature.
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
