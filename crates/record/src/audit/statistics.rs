//! How much is there, in what form, and how far from being read?
//!
//! Numbers of records are gone through descending, in windows. A record is decoded from one with a
//! larger number, so what there is to know of its base is known when it comes. No body is decoded:
//! a delta says how long what it makes is. Frames are decompressed, each once for each window that
//! it has records of.
//!
//! In memory are a window, which takes some MiB, and some 50 bytes for each record that is a base
//! of some that are still to come: no more than a chain has strides, times the chains that there
//! are.

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, ControlFlow};

use ibid_delta::FeatureIndex;
use ibid_format::record::{
    Body, ChainEntry, EncoderWatermark, EncodingStopped, KeyEntry, PLACES_PER_GROUP, Place, Places, Record, References,
    WATERMARK_KEY, key_of, split_key,
};

use super::sizes::BodySizes;
use crate::encode::EncodingReport;
use crate::engine::{Direction, KeyRange, Snapshot, Table};
use crate::error::{Damage, Error};
use crate::read::bodies::Bodies;
use crate::read::lookup;
use crate::store::{Store, Versions};

/// Numbers of records that are looked at together: as many as are compacted together, so that few
/// frames have records of two windows.
const WINDOW: u64 = 1 << 16;

/// How much is in a store, and in what form. What is damaged is counted in
/// [`damaged`](Self::damaged) alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// What is in each namespace, in the order in which they were made.
    pub namespaces: Vec<NamespaceStatistics>,
    /// Blocks of records that were compressed together.
    pub blocks: Amount,
    /// What was encoded since the store was opened.
    pub encoding: EncodingReport,
    /// Entries that can't be read, which [`Store::verify`] would name.
    pub damaged: u64,
    /// Whether it was broken off: there is more than was counted.
    pub stopped: bool,
}

/// What is in a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamespaceStatistics {
    /// Its name.
    pub name: String,
    /// Which versions it keeps.
    pub versions: Versions,
    /// Keys that have a record now.
    pub keys: u64,
    /// Keys that were deleted, of which versions are kept.
    pub keys_deleted: u64,
    /// Versions of all keys, deletions among them, with the bytes of their bodies.
    pub records: Amount,
    /// The latest version of each key that was not deleted.
    pub latest: Amount,
    /// Versions that say that their key was deleted.
    pub deletions: u64,
    /// Versions that are stored whole, and what is stored of them.
    pub whole: Amount,
    /// Versions that are stored as deltas, and what is stored of them.
    pub deltas: Amount,
    /// Records that no key leads to any more, and that are kept because others are decoded from
    /// them; what is stored of them.
    pub obsolete: Amount,
    /// Versions by the size of their bodies, and what is stored of them; without deletions.
    pub sizes: BodySizes,
    /// Records of all these kinds that lie in blocks, and what is in there of them, before
    /// compression.
    pub packed: Amount,
    /// Records that were not compared with others yet.
    pub unencoded: u64,
    /// How many others must be read for a version.
    pub retrievals: Retrievals,
    /// The same for the latest versions.
    pub latest_retrievals: Retrievals,
    /// Whether encoding was given up, because it did not pay: see [`Governor`](crate::Governor).
    pub given_up: bool,
    /// Chains of two or more records that are decoded from one another.
    pub chains: u64,
    /// Records of the longest of them, with those that are gone.
    pub chain_longest: u64,
    /// Features of records that new ones are compared with: entries that the feature index of the
    /// namespace has to have.
    pub features: u64,
}

impl NamespaceStatistics {
    fn new(name: String, versions: Versions) -> Self {
        NamespaceStatistics {
            name,
            versions,
            keys: 0,
            keys_deleted: 0,
            records: Amount::default(),
            latest: Amount::default(),
            deletions: 0,
            whole: Amount::default(),
            deltas: Amount::default(),
            obsolete: Amount::default(),
            sizes: BodySizes::default(),
            packed: Amount::default(),
            unencoded: 0,
            retrievals: Retrievals::default(),
            latest_retrievals: Retrievals::default(),
            given_up: false,
            chains: 0,
            chain_longest: 0,
            features: 0,
        }
    }

    /// The least memory that the feature index of the namespace takes, bytes.
    pub fn index_bytes_min(&self) -> u64 {
        self.features * FeatureIndex::BYTES_PER_ENTRY as u64
    }

    /// What is stored of all records, bytes: bodies or deltas, before they are compressed together.
    pub fn stored_bytes(&self) -> u64 {
        self.whole.bytes + self.deltas.bytes + self.obsolete.bytes
    }
}

/// How many there are, and how many bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }
}

/// How many others must be read for a record: a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retrievals {
    /// Of 0, 1, 2 to 3, 4 to 7 and so on.
    counts: Vec<u64>,
    records: u64,
    total: u64,
    max: u64,
}

impl Retrievals {
    fn add(&mut self, others: u64) {
        let place = (u64::BITS - others.leading_zeros()) as usize;
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] += 1;
        self.records += 1;
        self.total += others;
        self.max = self.max.max(others);
    }

    /// The most for one record.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// How many on average; none if there are no records.
    pub fn mean(&self) -> Option<f64> {
        (self.records > 0).then(|| self.total as f64 / self.records as f64)
    }

    /// How many records need so many others, up to those that need most: 0, 1, 2 to 3, 4 to 7, 8 to
    /// 15 and so on.
    ///
    /// ```
    /// # use ibid_record::Retrievals;
    /// assert_eq!(Retrievals::default().buckets().count(), 0);
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let bucket = |(place, &records): (usize, &u64)| {
            let from = if place == 0 { 0 } else { 1 << (place - 1) };
            let to = (2 * from).max(1) - 1;
            Bucket { from, to, records }
        };
        self.counts.iter().enumerate().map(bucket)
    }
}

/// A bar of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The fewest others that these records need.
    pub from: u64,
    /// The most.
    pub to: u64,
    /// How many records.
    pub records: u64,
}

impl Store {
    /// Counts everything that is committed now. `progress` is told how many more bytes were read,
    /// and may break it off.
    ///
    /// Every record is read once, and not decoded. Others read and write meanwhile; what they write
    /// is not counted.
    ///
    /// # Errors
    /// Only what keeps it from looking on: [`Error::Engine`].
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// let pages = store.namespace("pages", Versions::Kept)?;
    /// pages.put(b"ibid", "in the same place ".repeat(50).as_bytes())?;
    /// pages.put(b"ibid", "in the very same place ".repeat(50).as_bytes())?;
    /// store.finish_encoding()?;
    /// let found = store.statistics(&mut |_bytes| ControlFlow::Continue(()))?;
    /// let pages = &found.namespaces[0];
    /// assert_eq!((pages.keys, pages.records.count, pages.records.bytes), (1, 2, 2050));
    /// assert_eq!((pages.deltas.count, pages.retrievals.max(), pages.latest_retrievals.max()), (1, 1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn statistics(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Statistics, Error> {
        let (snapshot, _) = self.inner.whole_snapshot()?;
        let mut counter = Counter {
            read: &*snapshot,
            bodies: &self.inner.bodies,
            spaces: BTreeMap::new(),
            bases: HashMap::new(),
            unencoded_from: EncoderWatermark::FIRST.next,
            found: Statistics::default(),
            progress,
        };
        counter.walk(Table::Namespaces, Counter::namespace)?;
        counter.walk(Table::Meta, Counter::meta)?;
        counter.walk(Table::Keys, Counter::key)?;
        counter.walk(Table::Blocks, Counter::block)?;
        counter.walk(Table::Chains, Counter::chain)?;
        counter.records()?;
        let mut found = counter.found;
        found.namespaces = counter.spaces.into_values().collect();
        found.encoding = self.encoding();
        Ok(found)
    }
}

/// A record from which others that are still to come are decoded.
struct Base {
    /// How many others it takes itself.
    retrievals: u64,
    /// How many are still to come.
    needed: u32,
}

/// What is kept of a record of a window.
struct Head {
    number: u64,
    namespace: u32,
    base: Option<u64>,
    is_latest: bool,
    /// Whether a reader can ask for its body.
    is_read: bool,
}

struct Counter<'c> {
    read: &'c dyn Snapshot,
    bodies: &'c Bodies,
    spaces: BTreeMap<u32, NamespaceStatistics>,
    bases: HashMap<u64, Base>,
    /// The first record that was not compared with others.
    unencoded_from: u64,
    found: Statistics,
    progress: &'c mut dyn FnMut(u64) -> ControlFlow<()>,
}

impl Counter<'_> {
    fn advance(&mut self, bytes: usize) {
        self.found.stopped = self.found.stopped || (self.progress)(bytes as u64).is_break();
    }

    /// Counts what can't be read. What is no damage keeps us from looking on.
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

    /// Shows `each` all entries of a table.
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
        let (number, name, versions) = lookup::namespace_of(name, value)?;
        let space = NamespaceStatistics::new(name, versions);
        self.spaces.entry(number).or_insert(space);
        Ok(())
    }

    /// How far the encoder has come, and what it has given up.
    fn meta(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if key == WATERMARK_KEY {
            let watermark = EncoderWatermark::decode(value);
            let watermark = watermark.map_err(|error| Error::damaged(Table::Meta, key, error))?;
            self.unencoded_from = watermark.next;
        } else if let Some(space) = EncodingStopped::namespace_of(key).and_then(|number| self.spaces.get_mut(&number)) {
            space.given_up = true;
        }
        Ok(())
    }

    fn key(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let damaged = |error| Error::damaged(Table::Keys, stored_key, error);
        let (namespace, _) = split_key(stored_key).map_err(damaged)?;
        let entry = KeyEntry::decode(stored_key, value).map_err(damaged)?;
        if let Some(space) = self.spaces.get_mut(&namespace) {
            space.keys += u64::from(!entry.deleted);
            space.keys_deleted += u64::from(entry.deleted);
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
        if let Some(space) = self.spaces.get_mut(&entry.namespace) {
            space.features += entry.features.len() as u64;
            if entry.position > 0 {
                space.chains += 1;
                space.chain_longest = space.chain_longest.max(entry.position + 1);
            }
        }
        Ok(())
    }

    /// All records, wherever they lie, in windows.
    fn records(&mut self) -> Result<(), Error> {
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

    /// The last record with a number below this one, or one that is no smaller.
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

        let mut heads = Vec::new();
        let (from, to) = (first.to_be_bytes(), last.to_be_bytes());
        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        self.walk_range(Table::Records, range, |counter, key, value| {
            let number = number_of(Table::Records, key)?;
            let record = Record::decode(number, value);
            let record = record.map_err(|error| Error::damaged(Table::Records, key, error))?;
            heads.push(counter.record(number, &record, of(number), false)?);
            Ok(())
        })?;
        for (place, number) in self.placed(first, last)? {
            if self.found.stopped {
                return Ok(());
            }
            let looked = self.packed(place, number, of(number));
            if let Some(head) = self.absorb(looked)? {
                heads.push(head);
            }
        }
        heads.sort_unstable_by_key(|head| std::cmp::Reverse(head.number));
        for head in heads {
            let needed = of(head.number).count(head.number);
            self.retrievals(&head, needed)?;
        }
        Ok(())
    }

    /// Records of the window that lie in frames, frame by frame.
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

    fn packed(&mut self, place: Place, number: u64, references: &References) -> Result<Head, Error> {
        let damaged = |damage: Damage| Error::damaged(Table::Records, &number.to_be_bytes(), damage);
        let frame = self.bodies.frame(self.read, place)?;
        let record = frame.record(number).ok_or_else(|| damaged(Damage::Missing))?;
        let decoded = Record::decode_packed(number, record).map_err(|error| damaged(error.into()))?;
        let head = self.record(number, &decoded, references, true)?;
        self.advance(record.len());
        Ok(head)
    }

    /// Counts a record, but for what depends on others.
    fn record(
        &mut self,
        number: u64,
        record: &Record<'_>,
        references: &References,
        is_packed: bool,
    ) -> Result<Head, Error> {
        let damaged = |error: ibid_delta::Error| Error::damaged(Table::Records, &number.to_be_bytes(), error);
        let (base, body_bytes, stored_bytes) = match record.body {
            Body::Deleted => (None, 0, 0),
            Body::Whole(body) => (None, body.len(), body.len()),
            Body::Delta { base, delta, .. } => {
                let (_, length) = ibid_delta::advanced::describe(delta).map_err(damaged)?;
                (Some(base), length, delta.len())
            }
        };
        let (body_bytes, stored_bytes) = (body_bytes as u64, stored_bytes as u64);
        let is_deletion = matches!(record.body, Body::Deleted);
        let is_obsolete = references.is_obsolete(number);
        let is_latest = !is_deletion && !is_obsolete && self.is_latest(number, record)?;
        let unencoded = number >= self.unencoded_from;
        if let Some(space) = self.spaces.get_mut(&record.namespace) {
            if is_obsolete {
                space.obsolete.add(stored_bytes);
            } else {
                space.records.add(body_bytes);
                match record.body {
                    Body::Deleted => space.deletions += 1,
                    Body::Whole(_) => space.whole.add(stored_bytes),
                    Body::Delta { .. } => space.deltas.add(stored_bytes),
                }
                if !is_deletion {
                    space.sizes.add(body_bytes, stored_bytes);
                    space.unencoded += u64::from(unencoded);
                }
            }
            if is_latest {
                space.latest.add(body_bytes);
            }
            if is_packed {
                space.packed.add(stored_bytes);
            }
        }
        Ok(Head {
            number,
            namespace: record.namespace,
            base,
            is_latest,
            is_read: !is_obsolete && !is_deletion,
        })
    }

    fn is_latest(&self, number: u64, record: &Record<'_>) -> Result<bool, Error> {
        let versions = self.spaces.get(&record.namespace).map(|space| space.versions);
        if versions == Some(Versions::Latest) {
            return Ok(true);
        }
        let entry = lookup::key_entry(self.read, &key_of(record.namespace, record.key))?;
        Ok(entry.is_some_and(|entry| entry.latest == number && !entry.deleted))
    }

    /// Counts how many others a record takes, of which all with larger numbers were counted.
    /// `needed` are decoded from it.
    fn retrievals(&mut self, head: &Head, needed: u32) -> Result<(), Error> {
        let retrievals = match head.base {
            None => 0,
            Some(base) => {
                let Some(known) = self.bases.get_mut(&base) else {
                    // The base itself is damaged, or the count of those that are decoded from it.
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
            self.bases.insert(head.number, Base { retrievals, needed });
        }
        if let Some(space) = self.spaces.get_mut(&head.namespace)
            && head.is_read
        {
            space.retrievals.add(retrievals);
            if head.is_latest {
                space.latest_retrievals.add(retrievals);
            }
        }
        Ok(())
    }
}

/// The number that is the key of an entry.
fn number_of(table: Table, key: &[u8]) -> Result<u64, Error> {
    let number = key.try_into().map(u64::from_be_bytes);
    number.map_err(|_| Error::damaged(table, key, Damage::Misplaced))
}
