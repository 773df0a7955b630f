//! Counting the contents of a store.
//!
//! Records are counted in windows of numbers, from the largest down. The base of a delta has a
//! larger number than the record, so it was counted before. No body is decoded, since a delta has the
//! length of the body, but for the lists of bodies in pieces. A frame is decompressed once for each
//! window in which it has records.
//!
//! Memory holds a window, which takes a few MiB, and about 50 bytes for each record that is the
//! base of records still to come. Of these there are at most the number of strides times the number
//! of chains.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{
    Body, ChainEntry, EncoderWatermark, EncodingStopped, IndexRow, KeyEntry, PIECES_NAMESPACE, PLACES_PER_GROUP, Place,
    Places, Record, References, Stopped, WATERMARK_KEY, key_of, split_key,
};

use super::statistics::{Amount, IndexStatistics, NamespaceStatistics, Statistics};
use crate::engine::{Direction, KeyRange, Snapshot, Table};
use crate::error::{Damage, Error};
use crate::latest::Latest;
use crate::read::indexes::StoredIndex;
use crate::read::lookup;
use crate::read::namespaces::StoredNamespace;
use crate::read::records::Records;
use crate::versions::Versions;

/// Numbers of records that are looked at together: as many as are compacted together, so that few
/// frames have records of two windows.
const WINDOW: u64 = 1 << 16;

/// Counts everything in a snapshot. Calls `progress` with the number of bytes read since its last
/// call; it may stop the count.
pub(crate) fn count(
    snapshot: &dyn Snapshot,
    records: &Records,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Statistics, Error> {
    let mut counter = Counter {
        read: snapshot,
        records,
        namespaces: BTreeMap::new(),
        indexes: BTreeMap::new(),
        bases: HashMap::new(),
        unencoded_from: EncoderWatermark::FIRST.next,
        found: Statistics::default(),
        progress,
    };
    counter.walk(Table::Namespaces, Counter::namespace)?;
    counter.walk(Table::Meta, Counter::meta)?;
    counter.walk(Table::Keys, Counter::key)?;
    counter.walk(Table::Indexes, Counter::index)?;
    counter.walk(Table::Blocks, Counter::block)?;
    counter.walk(Table::Chains, Counter::chain)?;
    counter.count_records()?;
    for ((namespace, _), index) in counter.indexes {
        if let Some(statistics) = counter.namespaces.get_mut(&namespace) {
            statistics.indexes.push(index);
        }
    }
    let mut found = counter.found;
    let counted = |mut statistics: NamespaceStatistics| {
        statistics.purged = statistics.purged.saturating_sub(statistics.records.count);
        statistics
    };
    let of_pieces = |statistics: &NamespaceStatistics| statistics.name == PIECES_NAMESPACE;
    let all = counter.namespaces.into_values().map(counted);
    let (pieces, namespaces): (Vec<_>, _) = all.partition(of_pieces);
    (found.pieces, found.namespaces) = (pieces.into_iter().next(), namespaces);
    Ok(found)
}

/// A record that is the base of records still to come.
struct Base {
    /// How many other records must be read for it.
    retrievals: u64,
    /// How many of its deltas are still to come.
    needed: u32,
}

/// A record of a window, once it is counted.
struct Counted {
    number: u64,
    namespace: u32,
    base: Option<u64>,
    is_latest: bool,
    /// Whether it is a version with a body, which a reader can ask for.
    is_readable: bool,
}

struct Counter<'c> {
    read: &'c dyn Snapshot,
    records: &'c Records,
    namespaces: BTreeMap<u32, NamespaceStatistics>,
    /// By namespace and number.
    indexes: BTreeMap<(u32, u8), IndexStatistics>,
    bases: HashMap<u64, Base>,
    /// The first record that the encoder has not looked at.
    unencoded_from: u64,
    found: Statistics,
    progress: &'c mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Counter<'_> {
    fn advance(&mut self, bytes: usize) {
        self.found.stopped = self.found.stopped || (self.progress)(bytes as u64).is_break();
    }

    /// Counts damage. Returns other errors, after which nothing more can be counted.
    fn absorb<T>(&mut self, looked: Result<T, Error>) -> Result<Option<T>, Error> {
        match looked {
            Ok(looked) => Ok(Some(looked)),
            Err(Error::Damaged { .. }) => {
                self.found.damaged += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Shows all entries of a table to `each`.
    fn walk(&mut self, table: Table, each: impl Fn(&mut Self, &[u8], &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        self.walk_range(table, (Bound::Unbounded, Bound::Unbounded), each)
    }

    fn walk_range(
        &mut self,
        table: Table,
        range: KeyRange<'_>,
        mut each: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.found.stopped {
            return Ok(());
        }
        let read = self.read;
        let mut failed = Ok(());
        let mut visit = |key: &[u8], value: &[u8]| {
            let looked = each(self, key, value);
            failed = self.absorb(looked).map(drop);
            self.advance(key.len() + value.len());
            if self.found.stopped || failed.is_err() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        read.range(table, range, Direction::Forward, &mut visit)?;
        failed
    }

    fn namespace(&mut self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        let StoredNamespace {
            number,
            name,
            versions,
            latest,
            ..
        } = StoredNamespace::decode(name, value)?;
        let statistics = NamespaceStatistics::new(name, versions, Latest::of(latest));
        self.namespaces.entry(number).or_insert(statistics);
        Ok(())
    }

    /// Notes how far the encoder has come, and where it was given up.
    fn meta(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if key == WATERMARK_KEY {
            let watermark = EncoderWatermark::decode(value);
            let watermark = watermark.map_err(|error| Error::damaged(Table::Meta, key, error))?;
            self.unencoded_from = watermark.next;
        } else if let Some((number, stopped)) = EncodingStopped::of_key(key)
            && let Some(statistics) = self.namespaces.get_mut(&number)
        {
            match stopped {
                Stopped::OtherKeys => statistics.search_stopped = true,
                Stopped::All => statistics.encoding_stopped = true,
            }
        }
        Ok(())
    }

    fn key(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let damaged = |error| Error::damaged(Table::Keys, stored_key, error);
        let (namespace, _) = split_key(stored_key).map_err(damaged)?;
        let entry = KeyEntry::decode(stored_key, value).map_err(damaged)?;
        if let Some(statistics) = self.namespaces.get_mut(&namespace) {
            statistics.keys += u64::from(!entry.deleted);
            statistics.keys_deleted += u64::from(entry.deleted);
            // Those that are there are subtracted.
            statistics.purged += u64::from(entry.versions);
        }
        Ok(())
    }

    /// Notes an index, or counts a value.
    fn index(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.get(4) == Some(&0) {
            let (namespace, index) = StoredIndex::decode(stored_key, value)?;
            let StoredIndex { number, name, unique } = index;
            let values = Amount::default();
            let statistics = IndexStatistics { name, unique, values };
            self.indexes.insert((namespace, number), statistics);
            return Ok(());
        }
        let row = IndexRow::decode(stored_key, value);
        let row = row.map_err(|error| Error::damaged(Table::Indexes, stored_key, error))?;
        if let Some(statistics) = self.indexes.get_mut(&(row.namespace, row.index)) {
            statistics.values.add(row.value.len() as u64);
        }
        Ok(())
    }

    fn block(&mut self, _: &[u8], value: &[u8]) -> Result<(), Error> {
        self.found.blocks.add(value.len() as u64);
        Ok(())
    }

    fn chain(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let number = number_of(Table::Chains, stored_key)?;
        let entry = ChainEntry::decode(number, value);
        let entry = entry.map_err(|error| Error::damaged(Table::Chains, stored_key, error))?;
        if let Some(statistics) = self.namespaces.get_mut(&entry.namespace) {
            statistics.index_entries += entry.features.len() as u64;
            if entry.position > 0 {
                statistics.chains += 1;
                statistics.chain_longest = statistics.chain_longest.max(entry.position + 1);
            }
        }
        Ok(())
    }

    /// Counts all records, window by window.
    fn count_records(&mut self) -> Result<(), Error> {
        let mut below = u64::MAX;
        while !self.found.stopped
            && let Some(last) = self.last(below)?
        {
            let first = last / WINDOW * WINDOW;
            self.window(first, last)?;
            below = first;
        }
        Ok(())
    }

    /// Returns a number below `below` that is at least that of the last record there; [`None`] if
    /// there is no record.
    fn last(&mut self, below: u64) -> Result<Option<u64>, Error> {
        let mut last = None;
        for (table, numbers) in [(Table::Records, 1), (Table::Places, PLACES_PER_GROUP)] {
            let to = below.div_ceil(numbers).to_be_bytes();
            let range = (Bound::Unbounded, Bound::Excluded(&to[..]));
            let mut found = None;
            let mut each = |key: &[u8], _: &[u8]| {
                found = number_of(table, key).ok();
                // A key that is no number is no record.
                if found.is_some() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            self.read.range(table, range, Direction::Backward, &mut each)?;
            let found = found.map(|group| group.saturating_mul(numbers).saturating_add(numbers - 1).min(below - 1));
            last = last.max(found);
        }
        Ok(last)
    }

    /// Counts the records whose numbers are in a window.
    fn window(&mut self, first: u64, last: u64) -> Result<(), Error> {
        let mut references: HashMap<u64, References> = HashMap::new();
        let (from, to) = (References::group_of(first).1, References::group_of(last).1);
        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        self.walk_range(Table::References, range, |_, key, value| {
            let group = number_of(Table::References, key)?;
            let decoded = References::decode(group, value);
            let decoded = decoded.map_err(|error| Error::damaged(Table::References, key, error))?;
            references.insert(group, decoded);
            Ok(())
        })?;
        let none = References::default();
        let of = |number: u64| references.get(&References::group_of(number).0).unwrap_or(&none);

        let mut window = Vec::new();
        let (from, to) = (first.to_be_bytes(), last.to_be_bytes());
        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        self.walk_range(Table::Records, range, |counter, key, value| {
            let number = number_of(Table::Records, key)?;
            let record = Record::decode(number, value);
            let record = record.map_err(|error| Error::damaged(Table::Records, key, error))?;
            window.push(counter.record(number, &record, of(number), false)?);
            Ok(())
        })?;
        for (place, number) in self.placed(first, last)? {
            if self.found.stopped {
                return Ok(());
            }
            let looked = self.in_frame(place, number, of(number));
            if let Some(counted) = self.absorb(looked)? {
                window.push(counted);
            }
        }
        window.sort_unstable_by_key(|counted| std::cmp::Reverse(counted.number));
        for counted in window {
            let needed = of(counted.number).count(counted.number);
            self.retrievals(&counted, needed)?;
        }
        Ok(())
    }

    /// Returns the records of the window that are in frames, frame by frame.
    fn placed(&mut self, first: u64, last: u64) -> Result<Vec<(Place, u64)>, Error> {
        let mut placed = Vec::new();
        let (from, to) = (Places::group_of(first).1, Places::group_of(last).1);
        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        self.walk_range(Table::Places, range, |_, key, value| {
            let group = number_of(Table::Places, key)?;
            let places = Places::decode(group, value);
            let places = places.map_err(|error| Error::damaged(Table::Places, key, error))?;
            placed.extend(places.iter(group).map(|(number, place)| (place, number)));
            Ok(())
        })?;
        placed.retain(|&(_, number)| (first..=last).contains(&number));
        placed.sort_unstable();
        Ok(placed)
    }

    /// Counts a record that is in a frame.
    fn in_frame(&mut self, place: Place, number: u64, references: &References) -> Result<Counted, Error> {
        let damaged = |damage: Damage| Error::damaged(Table::Records, &number.to_be_bytes(), damage);
        let frame = self.records.frame(self.read, place)?;
        let record = frame.record(number).ok_or_else(|| damaged(Damage::Missing))?;
        let decoded = Record::decode_packed(number, record).map_err(|error| damaged(error.into()))?;
        let counted = self.record(number, &decoded, references, true)?;
        self.advance(record.len());
        Ok(counted)
    }

    /// Counts a record, but for the records that must be read for it.
    fn record(
        &mut self,
        number: u64,
        record: &Record<'_>,
        references: &References,
        is_in_block: bool,
    ) -> Result<Counted, Error> {
        let damaged = |error: ibid_delta::Error| Error::damaged(Table::Records, &number.to_be_bytes(), error);
        let (base, body_bytes, stored_bytes) = match record.body {
            Body::Deleted => (None, 0, 0),
            Body::Whole(body) => (None, body.len(), body.len()),
            Body::Delta { base, delta, .. } => {
                let (_, length) = ibid_delta::advanced::describe(delta).map_err(damaged)?;
                (Some(base), length, delta.len())
            }
        };
        let (mut body_bytes, stored_bytes) = (body_bytes as u64, stored_bytes as u64);
        if record.in_pieces
            && self
                .namespaces
                .get(&record.namespace)
                .is_some_and(|found| found.name != PIECES_NAMESPACE)
            && let Some(list) = self.records.list(self.read, number)?
        {
            body_bytes = list.length();
        }
        let is_deletion = matches!(record.body, Body::Deleted);
        let is_obsolete = references.is_obsolete(number);
        let is_latest = !is_deletion && !is_obsolete && self.is_latest(number, record)?;
        let unencoded = number >= self.unencoded_from;
        if let Some(statistics) = self.namespaces.get_mut(&record.namespace) {
            if is_obsolete {
                statistics.obsolete.add(stored_bytes);
            } else {
                statistics.records.add(body_bytes);
                match record.body {
                    Body::Deleted => statistics.deletions += 1,
                    Body::Whole(_) => statistics.whole.add(stored_bytes),
                    Body::Delta { .. } => statistics.deltas.add(stored_bytes),
                }
                if !is_deletion {
                    statistics.sizes.add(body_bytes, stored_bytes);
                    statistics.unencoded += u64::from(unencoded);
                }
            }
            if is_latest {
                statistics.latest.add(body_bytes);
            }
            if is_in_block {
                statistics.in_blocks.add(stored_bytes);
            }
        }
        Ok(Counted {
            number,
            namespace: record.namespace,
            base,
            is_latest,
            is_readable: !is_obsolete && !is_deletion,
        })
    }

    fn is_latest(&self, number: u64, record: &Record<'_>) -> Result<bool, Error> {
        let versions = self
            .namespaces
            .get(&record.namespace)
            .map(|statistics| statistics.versions);
        if versions == Some(Versions::Latest) {
            return Ok(true);
        }
        lookup::is_latest(self.read, &key_of(record.namespace, record.key), number)
    }

    /// Counts how many other records must be read for one. Those with larger numbers were counted
    /// before. The record is the base of `needed` others.
    fn retrievals(&mut self, counted: &Counted, needed: u32) -> Result<(), Error> {
        let retrievals = match counted.base {
            None => 0,
            Some(base) => {
                let Some(known) = self.bases.get_mut(&base) else {
                    // The base is damaged, or its reference count.
                    self.found.damaged += 1;
                    return Ok(());
                };
                let retrievals = known.retrievals + 1;
                known.needed -= 1;
                if known.needed == 0 {
                    self.bases.remove(&base);
                }
                retrievals
            }
        };
        if needed > 0 {
            self.bases.insert(counted.number, Base { retrievals, needed });
        }
        if let Some(statistics) = self.namespaces.get_mut(&counted.namespace)
            && counted.is_readable
        {
            statistics.retrievals.add(retrievals);
            if counted.is_latest {
                statistics.latest_retrievals.add(retrievals);
            }
        }
        Ok(())
    }
}

/// Returns the number that is the key of an entry.
fn number_of(table: Table, key: &[u8]) -> Result<u64, Error> {
    let number = key.try_into().map(u64::from_be_bytes);
    number.map_err(|_| Error::damaged(table, key, Damage::Misplaced))
}
