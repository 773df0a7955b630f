//! The newest records of chains by their features.

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};

use ibid_delta::{Candidate, FeatureBytes, FeatureIndex, Sketch};
use ibid_format::record::ChainEntry;

use crate::engine::{Direction, Engine, Snapshot, Table};
use crate::error::Error;

/// Features of a record: K in dDedup §3.1.1.
pub(crate) const FEATURES: usize = 8;
/// Entries of a new feature index.
const ENTRIES_MIN: usize = 1 << 10;
/// Entries of chains that are read from one snapshot. As often the encoder looks whether the rest is worth reading.
pub(super) const ENTRIES_AT_ONCE: usize = 1 << 14;

/// A feature index for each namespace, which grows with its chains.
pub(crate) struct NewestIndex {
    index: FeatureIndex,
    /// How many entries the index of each namespace has room for.
    rooms: HashMap<u32, usize>,
    bytes_max: usize,
    feature_bytes: FeatureBytes,
}

impl NewestIndex {
    /// Returns an index that takes at most `bytes_max` bytes for each namespace.
    pub(crate) fn new(bytes_max: usize, feature_bytes: FeatureBytes) -> Self {
        NewestIndex {
            index: FeatureIndex::new(),
            rooms: HashMap::new(),
            bytes_max,
            feature_bytes,
        }
    }

    /// Makes room for so many chains of a namespace, and as many more.
    pub(crate) fn make_room(&mut self, namespace: u32, chains: usize) {
        self.make(namespace, 2 * chains * FEATURES);
    }

    /// Adds the newest record of a chain that is stored already, if there is room for its namespace.
    pub(crate) fn add(&mut self, number: u64, entry: &ChainEntry) {
        let sketch = self.sketch_of(entry);
        self.index.insert(entry.namespace.into(), &sketch, number as u32);
    }

    /// Adds the newest record of a chain. When the index of the namespace is full, makes a larger
    /// one and fills it with the chains that `each_newest` shows.
    pub(crate) fn insert(
        &mut self,
        namespace: u32,
        number: u64,
        sketch: &Sketch,
        each_newest: impl FnOnce(&mut dyn FnMut(u64, &ChainEntry)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let room = self.rooms.get(&namespace).copied().unwrap_or_default();
        let partition = u64::from(namespace);
        let (used, _) = self.index.load(partition).unwrap_or_default();
        if used + FEATURES > room / 10 * 9 && self.make(namespace, 2 * room) {
            each_newest(&mut |number, entry| {
                if entry.namespace == namespace {
                    self.add(number, entry);
                }
            })?;
        }
        self.index.insert(partition, sketch, number as u32);
        Ok(())
    }

    /// Removes a record that is not the newest of its chain any more.
    pub(crate) fn remove(&mut self, number: u64, entry: &ChainEntry) {
        let sketch = self.sketch_of(entry);
        self.index.remove(entry.namespace.into(), &sketch, number as u32);
    }

    /// Finds the records that share features with a sketch.
    pub(crate) fn candidates(&mut self, namespace: u32, sketch: &Sketch, candidates: &mut Vec<Candidate>) {
        self.index.candidates(namespace.into(), sketch, candidates);
    }

    /// Marks a record as used, so that its entries are kept longer.
    pub(crate) fn touch(&mut self, namespace: u32, sketch: &Sketch, number: u64) {
        self.index.touch(namespace.into(), sketch, number as u32);
    }

    /// Drops the index of a namespace.
    pub(crate) fn drop_namespace(&mut self, namespace: u32) {
        self.rooms.remove(&namespace);
        self.index.drop_partition(namespace.into());
    }

    /// Returns how many entries all indexes have.
    pub(crate) fn entries(&self) -> u64 {
        let partitions = self.index.partitions();
        let loads = partitions.filter_map(|partition| self.index.load(partition));
        loads.map(|(used, _)| used as u64).sum()
    }

    /// Returns how many bytes all indexes take.
    pub(crate) fn bytes(&self) -> u64 {
        self.index.memory() as u64
    }

    /// Makes a new, empty index for a namespace. Returns false, and leaves the old one, if that
    /// would be no larger.
    fn make(&mut self, namespace: u32, entries: usize) -> bool {
        let room = self.rooms.entry(namespace).or_default();
        let entries = entries
            .max(ENTRIES_MIN)
            .min(self.bytes_max / FeatureIndex::BYTES_PER_ENTRY);
        if entries <= *room || self.index.add_partition(namespace.into(), entries).is_err() {
            return false;
        }
        *room = entries;
        true
    }

    /// Returns the sketch that is stored with the newest record of a chain; an empty one if its
    /// features are hashes of another number of bytes.
    fn sketch_of(&self, entry: &ChainEntry) -> Sketch {
        if entry.feature_bytes as usize != self.feature_bytes.count() {
            return Sketch::default();
        }
        Sketch::of(entry.features.iter().map(|&feature| feature.into()))
    }
}

/// Shows every readable entry of the table `chains` until `each` breaks. A damaged entry costs bytes, not records.
pub(crate) fn each_chain(
    read: &dyn Snapshot,
    each: impl FnMut(u64, ChainEntry) -> ControlFlow<()>,
) -> Result<(), Error> {
    show_chains(read, Bound::Unbounded, usize::MAX, each).map(drop)
}

/// Like [`each_chain`], from a new snapshot now and then: as long as there is one, an engine needs more and more space
/// for what others change.
pub(crate) fn each_chain_of(
    engine: &dyn Engine,
    mut each: impl FnMut(u64, ChainEntry) -> ControlFlow<()>,
) -> Result<(), Error> {
    let mut last = show_chains(&*engine.snapshot()?, Bound::Unbounded, ENTRIES_AT_ONCE, &mut each)?;
    while let Some(key) = last {
        let next = show_chains(&*engine.snapshot()?, Bound::Excluded(&key), ENTRIES_AT_ONCE, &mut each)?;
        // A damaged engine may show earlier ones, and with them this would never end.
        last = next.filter(|next| *next > key);
    }
    Ok(())
}

/// Shows the readable ones of so many entries. Returns the key of the last if there may be more, and `each` has not
/// broken.
fn show_chains(
    read: &dyn Snapshot,
    from: Bound<&[u8]>,
    entries: usize,
    mut each: impl FnMut(u64, ChainEntry) -> ControlFlow<()>,
) -> Result<Option<Vec<u8>>, Error> {
    let (mut left, mut last) = (entries, None);
    let mut decoded = |key: &[u8], value: &[u8]| {
        if let Ok(number) = key.try_into().map(u64::from_be_bytes)
            && let Ok(entry) = ChainEntry::decode(number, value)
        {
            each(number, entry)?;
        }
        left -= 1;
        if left == 0 {
            last = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    read.range(
        Table::Chains,
        (from, Bound::Unbounded),
        Direction::Forward,
        &mut decoded,
    )?;
    Ok(last)
}
