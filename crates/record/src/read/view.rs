//! Reads of a namespace as it was at one moment.

use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use ibid_format::record::{self, KeyEntry, PieceList, VersionEntry, key_of};

use super::chain::Near;
use super::lookup::{self, At};
use super::many;
use super::pages::Pages;
use super::pieces;
use super::records::{Generation, Records, StoredBody};
use crate::engine::{self, Direction, KeyRange, Table};
use crate::error::{Damage, Error};
use crate::keys::{KeyFilter, KeyState};
use crate::time::Time;
use crate::versions::Version;

/// Keys, or records, that an iterator reads ahead.
pub(super) const PAGE: usize = 64;
/// Bytes of bodies that an iterator reads ahead, beyond the first record.
const PAGE_BYTES: usize = 1 << 20;

/// A record of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// The version of the key, from 1. Always 1 in a namespace that does not keep versions.
    pub version: u32,
    /// The number of the record. A record that was written later has a larger number, in all
    /// namespaces of the store.
    pub number: u64,
    /// When it was stored: see [`Version::time`].
    pub time: Option<Time>,
    /// The body.
    pub body: Vec<u8>,
}

/// A body that was opened.
pub(crate) enum Opened {
    Whole(Vec<u8>),
    InPieces(PieceList),
}

/// A snapshot of the engine, read as records of namespaces.
pub(crate) struct View {
    pub(super) engine: Box<dyn engine::Snapshot>,
    generation: Generation,
    pub(super) records: Arc<Records>,
}

impl View {
    pub(crate) fn new(engine: Box<dyn engine::Snapshot>, generation: Generation, records: Arc<Records>) -> Self {
        View {
            engine,
            generation,
            records,
        }
    }

    pub(crate) fn engine(&self) -> &dyn engine::Snapshot {
        &*self.engine
    }

    pub(crate) fn records(&self) -> &Records {
        &self.records
    }

    /// Returns the body under a key; [`None`] if the key has none.
    pub(crate) fn get(&self, namespace: u32, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let mut body = None;
        self.show(namespace, key, &mut |found| body = Some(found.into_owned()))?;
        Ok(body)
    }

    /// Shows the body under a key to `found`, and returns whether the key has one.
    pub(crate) fn show(&self, namespace: u32, key: &[u8], found: &mut dyn FnMut(Cow<'_, [u8]>)) -> Result<bool, Error> {
        let Some(entry) = self.entry(namespace, key)?.filter(|entry| !entry.deleted) else {
            return Ok(false);
        };
        let (number, owner) = (entry.latest, (namespace, key, entry.versions));
        let (read, generation) = (&*self.engine, Some(self.generation));
        match self.records.show(read, generation, number, owner, found)? {
            true => Ok(true),
            false => Err(misplaced(number)),
        }
    }

    /// Opens the body of a version of a key, or of the latest one; [`None`] if there is no such version, or if it
    /// deletes the key.
    pub(crate) fn open(&self, namespace: u32, key: &[u8], version: Option<u32>) -> Result<Option<Opened>, Error> {
        let Some((version, VersionEntry { deleted, number, .. })) = self.version_entry(namespace, key, version)? else {
            return Ok(None);
        };
        let (generation, owner) = (Some(self.generation), Some((namespace, key, version)));
        let mut opened = None;
        let mut found = |stored: Cow<'_, [u8]>, in_pieces| opened = Some((stored.into_owned(), in_pieces));
        let is_shown = self
            .records
            .show_stored(&*self.engine, generation, number, owner, &mut found)?;
        if is_shown == deleted {
            return Err(misplaced(number));
        }
        match opened {
            Some((list, true)) => Ok(Some(Opened::InPieces(pieces::list_of(number, &list)?))),
            Some((body, false)) => Ok(Some(Opened::Whole(body))),
            None => Ok(None),
        }
    }

    /// Returns the latest records of several keys, in the order of `keys`; [`None`] for a key that has
    /// no body.
    pub(crate) fn get_many(&self, namespace: u32, keys: &[&[u8]]) -> Result<Vec<Option<Record>>, Error> {
        let mut in_order: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
        for (place, key) in keys.iter().enumerate() {
            in_order.entry(key).or_default().push(place);
        }
        let (mut asked, mut wanted) = (Vec::new(), Vec::new());
        for (key, places) in in_order {
            if let Some(entry) = self.entry(namespace, key)?.filter(|entry| !entry.deleted) {
                asked.push((places, Time::stored(entry.time)));
                wanted.push((entry.latest, (namespace, key, entry.versions)));
            }
        }
        let bodies = many::latest_bodies(&self.records, &*self.engine, self.generation, &wanted)?;
        let mut found = vec![None; keys.len()];
        for (((number, (_, key, version)), (places, time)), body) in wanted.into_iter().zip(asked).zip(bodies) {
            let record = Record {
                key: key.to_vec(),
                version,
                number,
                time,
                body: live(number, body)?,
            };
            let (last, others) = places.split_last().expect("each key has a place");
            others.iter().for_each(|&place| found[place] = Some(record.clone()));
            found[*last] = Some(record);
        }
        Ok(found)
    }

    /// Returns the latest version of a key; [`None`] if there is no such key.
    pub(crate) fn latest(&self, namespace: u32, key: &[u8]) -> Result<Option<Version>, Error> {
        Ok(self.entry(namespace, key)?.as_ref().map(Version::latest_of))
    }

    /// Returns the versions of a key that were not purged, oldest first; none if there is no such key.
    pub(crate) fn versions(&self, namespace: u32, key: &[u8]) -> Result<Vec<Version>, Error> {
        let Some(entry) = self.entry(namespace, key)? else {
            return Ok(Vec::new());
        };
        let versions = lookup::versions(&*self.engine, &entry)?;
        let version = |(version, entry)| Version::of(version, &entry);
        Ok(versions.into_iter().map(version).collect())
    }

    /// Returns the body of a version, from 1; [`None`] if there is no such version, or if it
    /// deletes the key.
    pub(crate) fn get_version(&self, namespace: u32, key: &[u8], version: u32) -> Result<Option<Vec<u8>>, Error> {
        let mut body = None;
        self.show_version(namespace, key, version, &mut |found| body = Some(found.into_owned()))?;
        Ok(body)
    }

    /// Shows the body of a version, from 1, to `found`. Returns false if there is no such version, or if it deletes the
    /// key.
    pub(crate) fn show_version(
        &self,
        namespace: u32,
        key: &[u8],
        version: u32,
        found: &mut dyn FnMut(Cow<'_, [u8]>),
    ) -> Result<bool, Error> {
        let found_entry = self.version_entry(namespace, key, Some(version))?;
        let Some((_, VersionEntry { deleted, number, .. })) = found_entry else {
            return Ok(false);
        };
        let owner = (namespace, key, version);
        let (read, generation) = (&*self.engine, Some(self.generation));
        let is_shown = self.records.show(read, generation, number, owner, found)?;
        if is_shown == deleted {
            return Err(misplaced(number));
        }
        Ok(is_shown)
    }

    /// Returns the version of a key that was the latest at a time; [`None`] if it had none yet.
    pub(crate) fn version_as_of(&self, namespace: u32, key: &[u8], time: Time) -> Result<Option<Version>, Error> {
        match self.entry(namespace, key)? {
            Some(entry) => self.version_of_entry(key, &entry, time),
            None => Ok(None),
        }
    }

    fn version_of_entry(&self, key: &[u8], entry: &KeyEntry, time: Time) -> Result<Option<Version>, Error> {
        match lookup::version_at(&*self.engine, entry, time.as_millis())? {
            At::Version(version, found) if found.purged => Err(purged(key, version)),
            At::Version(version, found) => Ok(Some(Version::of(version, &found))),
            At::Purged(version) => Err(purged(key, version)),
            At::Unknown(version) => {
                let key = key.to_vec();
                Err(Error::TimeUnknown { key, version })
            }
            At::None => Ok(None),
        }
    }

    /// Returns the body under a key at a time; [`None`] if it had none.
    pub(crate) fn get_as_of(&self, namespace: u32, key: &[u8], time: Time) -> Result<Option<Vec<u8>>, Error> {
        match self.version_as_of(namespace, key, time)? {
            Some(version) => self.body_of(namespace, key, &version),
            None => Ok(None),
        }
    }

    /// Returns the body of a version of a key; [`None`] if it deletes the key.
    fn body_of(&self, namespace: u32, key: &[u8], version: &Version) -> Result<Option<Vec<u8>>, Error> {
        let number = version.number;
        let body = self
            .records
            .body(&*self.engine, number, (namespace, key, version.version))?;
        if body.is_none() != version.deleted {
            return Err(misplaced(number));
        }
        Ok(body)
    }

    /// Returns the body of a record that was read, which is no deletion.
    fn body_of_stored(&self, number: u64, in_pieces: bool, stored: Option<StoredBody>) -> Result<Vec<u8>, Error> {
        let View { engine, records, .. } = self;
        let stored = stored.ok_or_else(|| misplaced(number))?;
        let body = live(
            number,
            records.follow(&**engine, None, number, stored, Near::default())?,
        )?;
        match in_pieces {
            true => pieces::assembled(records, &**engine, &pieces::list_of(number, &body)?),
            false => Ok(body),
        }
    }

    /// Returns a version of a key, or the latest one; [`None`] if there is no such version.
    fn version_entry(
        &self,
        namespace: u32,
        key: &[u8],
        version: Option<u32>,
    ) -> Result<Option<(u32, VersionEntry)>, Error> {
        let Some(entry) = self.entry(namespace, key)? else {
            return Ok(None);
        };
        let version = version.unwrap_or(entry.versions);
        if !(1..=entry.versions).contains(&version) {
            return Ok(None);
        }
        let there = lookup::version_entry(&*self.engine, &entry, version)?;
        Ok(Some((version, there.ok_or_else(|| purged(key, version))?)))
    }

    fn entry(&self, namespace: u32, key: &[u8]) -> Result<Option<KeyEntry>, Error> {
        if key.len() > record::KEY_BYTES_MAX {
            return Ok(None);
        }
        lookup::key_entry(&*self.engine, &key_of(namespace, key))
    }
}

fn purged(key: &[u8], version: u32) -> Error {
    let key = key.to_vec();
    Error::Purged { key, version }
}

fn misplaced(number: u64) -> Error {
    Error::damaged(Table::Records, &number.to_be_bytes(), Damage::Misplaced)
}

/// Returns the body of the latest version of a key, which must have one.
pub(super) fn live(number: u64, body: Option<Vec<u8>>) -> Result<Vec<u8>, Error> {
    body.ok_or_else(|| misplaced(number))
}

/// The keys of a namespace that are in a range, in order. Reads no record.
pub(crate) struct Keys<V> {
    rest: Pages<V, (Vec<u8>, KeyEntry)>,
    namespace: u32,
    filter: KeyFilter,
}

impl<V: Borrow<View>> Keys<V> {
    pub(crate) fn new(view: V, namespace: u32, range: KeyRange<'_>, direction: Direction, filter: KeyFilter) -> Self {
        let stored = |bound: Bound<&[u8]>| bound.map(|key| key_of(namespace, key));
        let above = match namespace.checked_add(1) {
            Some(next) => Bound::Excluded(next.to_be_bytes().to_vec()),
            None => Bound::Unbounded,
        };
        let from = match stored(range.0) {
            Bound::Unbounded => Bound::Included(key_of(namespace, b"")),
            bound => bound,
        };
        let to = match stored(range.1) {
            Bound::Unbounded => above,
            bound => bound,
        };
        Keys {
            rest: Pages::new(view, Table::Keys, (from, to), direction),
            namespace,
            filter,
        }
    }

    /// Returns the next key with its entry.
    fn next_entry(&mut self) -> Result<Option<(Vec<u8>, KeyEntry)>, Error> {
        let filter = self.filter;
        self.rest.next(|stored_key, value| {
            let damaged = |error| Error::damaged(Table::Keys, stored_key, Damage::Bytes(error));
            let entry = KeyEntry::decode(stored_key, value).map_err(damaged)?;
            let (_, key) = record::split_key(stored_key).map_err(damaged)?;
            Ok(filter.takes(&entry).then(|| (key.to_vec(), entry)))
        })
    }
}

impl<V: Borrow<View>> Iterator for Keys<V> {
    type Item = Result<KeyState, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_entry();
        if next.is_err() {
            self.rest.end();
        }
        let state = |(key, entry): (Vec<u8>, KeyEntry)| {
            let latest = Version::latest_of(&entry);
            KeyState { key, latest }
        };
        Some(next.transpose()?.map(state))
    }
}

/// The records of a namespace whose keys are in a range, by key.
pub(crate) struct Scan<V>(Keys<V>);

impl<V: Borrow<View>> Scan<V> {
    pub(crate) fn new(view: V, namespace: u32, range: KeyRange<'_>, direction: Direction) -> Self {
        Scan(Keys::new(view, namespace, range, direction, KeyFilter::Live))
    }

    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        let Some((key, entry)) = self.0.next_entry()? else {
            return Ok(None);
        };
        let owner = (self.0.namespace, &key[..], entry.versions);
        let View { engine, records, .. } = self.0.rest.view();
        // The cache is not used: a scan reads each record once.
        let body = records.body(&**engine, entry.latest, owner);
        let body = body.and_then(|body| live(entry.latest, body));
        Ok(Some(Record {
            body: body.map_err(|error| error.of_key(&key))?,
            key,
            version: entry.versions,
            number: entry.latest,
            time: Time::stored(entry.time),
        }))
    }
}

/// The versions that were the latest of their keys at a time and have a body, by key. Reads no record.
pub(crate) struct KeysAsOf<V> {
    keys: Keys<V>,
    time: Time,
}

impl<V: Borrow<View>> KeysAsOf<V> {
    pub(crate) fn new(view: V, namespace: u32, range: KeyRange<'_>, direction: Direction, time: Time) -> Self {
        let keys = Keys::new(view, namespace, range, direction, KeyFilter::All);
        KeysAsOf { keys, time }
    }

    fn next_state(&mut self) -> Result<Option<KeyState>, Error> {
        while let Some((key, entry)) = self.keys.next_entry()? {
            let found = self.keys.rest.view().version_of_entry(&key, &entry, self.time)?;
            if let Some(latest) = found.filter(|version| !version.deleted) {
                return Ok(Some(KeyState { key, latest }));
            }
        }
        Ok(None)
    }
}

impl<V: Borrow<View>> Iterator for KeysAsOf<V> {
    type Item = Result<KeyState, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_state();
        if next.as_ref().is_err_and(|error| !error.is_of_one_key()) {
            self.keys.rest.end();
        }
        next.transpose()
    }
}

/// The records of these versions.
pub(crate) struct ScanAsOf<V>(KeysAsOf<V>);

impl<V: Borrow<View>> ScanAsOf<V> {
    pub(crate) fn new(view: V, namespace: u32, range: KeyRange<'_>, direction: Direction, time: Time) -> Self {
        ScanAsOf(KeysAsOf::new(view, namespace, range, direction, time))
    }

    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        let Some(KeyState { key, latest }) = self.0.next_state()? else {
            return Ok(None);
        };
        let body = self.0.keys.rest.view().body_of(self.0.keys.namespace, &key, &latest);
        let body = body.and_then(|body| live(latest.number, body));
        Ok(Some(Record {
            body: body.map_err(|error| error.of_key(&key))?,
            key,
            version: latest.version,
            number: latest.number,
            time: latest.time,
        }))
    }
}

impl<V: Borrow<View>> Iterator for ScanAsOf<V> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_record();
        if next.as_ref().is_err_and(|error| !error.is_of_one_key()) {
            self.0.keys.rest.end();
        }
        next.transpose()
    }
}

impl<V: Borrow<View>> Iterator for Scan<V> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_record();
        if next.as_ref().is_err_and(|error| !error.is_of_one_key()) {
            self.0.rest.end();
        }
        next.transpose()
    }
}

/// The keys of a namespace whose latest versions were written after a number, in that order. Reads
/// their records, which name them, and decodes none.
pub(crate) struct KeysWrittenAfter<V> {
    view: V,
    namespace: u32,
    /// The last record that was looked at.
    after: u64,
    filter: KeyFilter,
    /// Whether to keep the bodies as they are stored.
    with_bodies: bool,
    page: VecDeque<Result<Written, Error>>,
    ended: bool,
}

/// A record that was read.
struct Written {
    key: Vec<u8>,
    version: u32,
    number: u64,
    in_pieces: bool,
    stored: Option<StoredBody>,
}

impl<V: Borrow<View>> KeysWrittenAfter<V> {
    pub(crate) fn new(view: V, namespace: u32, after: u64, filter: KeyFilter) -> Self {
        KeysWrittenAfter {
            view,
            namespace,
            after,
            filter,
            with_bodies: false,
            page: VecDeque::new(),
            ended: false,
        }
    }

    /// Returns the next record that is the latest version of its key, and the entry of the key.
    fn next_written(&mut self) -> Result<Option<(Written, KeyEntry)>, Error> {
        loop {
            while let Some(written) = self.page.pop_front() {
                let written = written?;
                let engine = &self.view.borrow().engine;
                let entry = lookup::key_entry(&**engine, &key_of(self.namespace, &written.key))?;
                let is_latest = |entry: &KeyEntry| (entry.latest, entry.versions) == (written.number, written.version);
                if let Some(entry) = entry.filter(is_latest)
                    && self.filter.takes(&entry)
                {
                    return Ok(Some((written, entry)));
                }
            }
            if self.ended {
                return Ok(None);
            }
            self.read_page()?;
        }
    }

    fn read_page(&mut self) -> Result<(), Error> {
        let View { engine, records, .. } = self.view.borrow();
        let numbers = records.numbers(&**engine, self.after, PAGE)?;
        self.ended = numbers.len() < PAGE;
        let mut bytes = 0;
        for number in numbers {
            let mut found = |record: record::Record<'_>| {
                if record.namespace != self.namespace {
                    return;
                }
                let stored = self.with_bodies.then(|| StoredBody::of(record.body));
                bytes += stored.as_ref().map_or(0, StoredBody::bytes);
                self.page.push_back(Ok(Written {
                    key: record.key.to_vec(),
                    version: record.version,
                    number,
                    in_pieces: record.in_pieces,
                    stored,
                }));
            };
            let visited = records.visit(&**engine, number, &mut found);
            self.after = number;
            match visited.map_err(|error| error.of_record(number)) {
                Err(error) if error.is_of_one_key() => self.page.push_back(Err(error)),
                visited => drop(visited?),
            }
            if bytes > PAGE_BYTES {
                self.ended = false;
                break;
            }
        }
        Ok(())
    }

    /// Ends after an error, so that a loop over a failing iterator ends.
    fn end(&mut self) {
        self.page.clear();
        self.ended = true;
    }
}

impl<V: Borrow<View>> Iterator for KeysWrittenAfter<V> {
    type Item = Result<KeyState, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_written();
        if next.as_ref().is_err_and(|error| !error.is_of_one_key()) {
            self.end();
        }
        let state = |(written, entry): (Written, KeyEntry)| {
            let latest = Version::latest_of(&entry);
            KeyState {
                key: written.key,
                latest,
            }
        };
        Some(next.transpose()?.map(state))
    }
}

/// The records of a namespace that were written after a number, in that order.
pub(crate) struct WrittenAfter<V>(KeysWrittenAfter<V>);

impl<V: Borrow<View>> WrittenAfter<V> {
    pub(crate) fn new(view: V, namespace: u32, after: u64) -> Self {
        WrittenAfter(KeysWrittenAfter {
            with_bodies: true,
            ..KeysWrittenAfter::new(view, namespace, after, KeyFilter::Live)
        })
    }

    fn next_record(&mut self) -> Result<Option<Record>, Error> {
        let Some((written, entry)) = self.0.next_written()? else {
            return Ok(None);
        };
        let Written {
            key,
            version,
            number,
            in_pieces,
            stored,
        } = written;
        let body = self.0.view.borrow().body_of_stored(number, in_pieces, stored);
        Ok(Some(Record {
            body: body.map_err(|error| error.of_key(&key))?,
            key,
            version,
            number,
            time: Time::stored(entry.time),
        }))
    }
}

impl<V: Borrow<View>> Iterator for WrittenAfter<V> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_record();
        if next.as_ref().is_err_and(|error| !error.is_of_one_key()) {
            self.0.end();
        }
        next.transpose()
    }
}
