//! Whether everything is there, as it was written.
//!
//! A snapshot is checked both ways. From keys: each entry of the table `keys` has its version
//! entries, and these their records. Back again: each version entry and each record is one that its
//! key leads to. The second way finds what the first cannot: a byte that changed in the engine's
//! own structure may hide a key, and then nothing leads to the key's records.
//!
//! Entries are checked one by one. Memory holds the records on the way to one body, at most
//! [`FAULTS_MAX`] faults, the namespaces, and a number for each chain of deltas.

use std::borrow::Cow;
use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{
    self, BlockFrameDecoder, Body, ChainEntry, Digest, EncoderWatermark, EncodingStopped, FORMAT, FORMAT_KEY,
    FORMATS_BEFORE, IndexEntry, IndexRow, KeyEntry, LAST_BLOCK_KEY, LOG_KEY, LastBlock, LogEntry, LogState, NEXT_KEY,
    NamespaceEntry, NextNumbers, PIECES_NAMESPACE, PURGED_KEY, Places, PurgedMark, RETENTION_CLOCK_KEY, References,
    RetentionClock, VERSIONS_PER_GROUP, VersionEntry, VersionGroup, WATERMARK_KEY, frames_of_block, key_of, log_digest,
    open_log_entry, records_of_frame, split_key, version_group_key,
};

use super::fault::{
    FAULTS_MAX, Fault, NUMBER_BYTES, NamespaceCounts, Problem, Verification, number_of, split_group_key,
};
use super::long_bodies::Parts;
use crate::engine::{Direction, EngineError, KeyRange, Read, Snapshot, Table};
use crate::error::{Damage, Error};
use crate::read::records::Records;
use crate::read::{lookup, pieces};
use crate::versions::Versions;
use crate::write::references;

/// Memory for decompressed frames, bytes.
const FRAME_BYTES: usize = 16 << 20;
/// Numbers of records that are read at once.
const RECORDS_AT_ONCE: usize = 1024;

/// Checks everything in a snapshot. Calls `progress` with the number of bytes checked since its
/// last call; it may stop the check. A body that is longer than `body_bytes_max` is an error.
pub(crate) fn verify(
    snapshot: &dyn Snapshot,
    body_bytes_max: usize,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Verification, Error> {
    // The store's own reader is not used: a frame in its cache may be damaged on disk.
    let records = Records::new(FRAME_BYTES, body_bytes_max);
    let mut verifier = Verifier {
        read: snapshot,
        records: &records,
        needed: BTreeMap::new(),
        next: NextNumbers {
            record: u64::MAX,
            namespace: u32::MAX,
        },
        log: None,
        position: (0, Digest::default()),
        namespaces: BTreeMap::new(),
        missing_namespace: None,
        parts: Parts::default(),
        indexes: BTreeMap::new(),
        missing_index: None,
        last_row: None,
        faults: Vec::new(),
        faults_total: 0,
        faulty: HashSet::new(),
        progress,
        stopped: false,
    };
    verifier.walk(Table::Meta, Verifier::meta)?;
    verifier.walk(Table::Namespaces, Verifier::namespace)?;
    verifier.walk(Table::Keys, Verifier::key)?;
    verifier.bodies()?;
    verifier.walk(Table::Indexes, Verifier::index)?;
    verifier.walk(Table::Versions, Verifier::version)?;
    verifier.walk(Table::Records, Verifier::single)?;
    verifier.walk(Table::Blocks, Verifier::block)?;
    verifier.walk(Table::Places, Verifier::places)?;
    verifier.records()?;
    verifier.walk(Table::References, Verifier::references)?;
    verifier.walk(Table::Chains, Verifier::chain)?;
    verifier.walk(Table::Oplog, Verifier::oplog)?;
    verifier.end_of_log();
    verifier.uses();
    let of_pieces = |counts: &NamespaceCounts| counts.name == PIECES_NAMESPACE;
    let (pieces, namespaces): (Vec<_>, _) = verifier.namespaces.into_values().partition(of_pieces);
    Ok(Verification {
        namespaces,
        pieces: pieces.into_iter().next(),
        faults: verifier.faults,
        faults_total: verifier.faults_total,
        stopped: verifier.stopped,
    })
}

pub(super) struct Verifier<'v> {
    pub(super) read: &'v dyn Read,
    pub(super) records: &'v Records,
    /// For each base that is still to come, the number of checked records that are deltas of it.
    needed: BTreeMap<u64, u32>,
    /// The numbers that come next; the largest there are while they are unknown.
    next: NextNumbers,
    log: Option<LogState>,
    /// The position and digest of the last entry of the log that was looked at.
    position: (u64, Digest),
    pub(super) namespaces: BTreeMap<u32, NamespaceCounts>,
    /// The last namespace that has keys and does not exist.
    missing_namespace: Option<u32>,
    pub(super) parts: Parts,
    /// Whether each index, by namespace and number, is unique.
    indexes: BTreeMap<(u32, u8), bool>,
    /// The last index that has values and does not exist.
    missing_index: Option<(u32, u8)>,
    /// The last row of an index that was looked at.
    last_row: Option<IndexRow>,
    faults: Vec<Fault>,
    pub(super) faults_total: u64,
    /// The entries with listed faults.
    faulty: HashSet<(Table, Vec<u8>)>,
    progress: &'v mut dyn FnMut(u64) -> ControlFlow<()>,
    pub(super) stopped: bool,
}

/// A version of a key, as the entries of the key say.
#[derive(Clone, Copy)]
struct VersionOfKey<'k> {
    namespace: u32,
    key: &'k [u8],
    version: u32,
    is_latest: bool,
    entry: VersionEntry,
}

impl Verifier<'_> {
    fn advance(&mut self, bytes: u64) {
        self.stopped = self.stopped || (self.progress)(bytes).is_break();
    }

    pub(super) fn fault(&mut self, table: Table, key: &[u8], problem: Problem) {
        // Most entries are looked at twice.
        if self.faulty.contains(&(table, key.to_vec())) {
            return;
        }
        self.faults_total += 1;
        if self.faults.len() < FAULTS_MAX {
            let key = key.to_vec();
            self.faulty.insert((table, key.clone()));
            self.faults.push(Fault { table, key, problem });
        }
    }

    /// Notes an error that is a fault. Returns others, after which nothing more can be checked.
    pub(super) fn absorb(&mut self, looked: Result<(), Error>, table: Table, key: &[u8]) -> Result<(), Error> {
        match looked {
            Err(Error::Damaged { table, key, found }) => self.fault(table, &key, Problem::Damaged(found)),
            Err(Error::Engine(EngineError::Damaged { found, .. })) => {
                self.fault(table, key, Problem::Unreadable(found));
            }
            looked => return looked,
        }
        Ok(())
    }

    /// Shows all entries of a table to `each`, and checks their order.
    fn walk(&mut self, table: Table, each: impl Fn(&mut Self, &[u8], &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let mut before: Option<Vec<u8>> = None;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let walked = self.walk_range(table, everything, |verifier, key, value| {
            if before.as_deref().is_some_and(|before| before >= key) {
                verifier.fault(table, key, Problem::OutOfOrder);
            }
            let last = before.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key);
            let looked = each(verifier, key, value);
            verifier.absorb(looked, table, key)
        });
        self.absorb(walked, table, before.as_deref().unwrap_or_default())
    }

    /// Shows the entries in a range to `each`.
    pub(super) fn walk_range(
        &mut self,
        table: Table,
        range: KeyRange<'_>,
        mut each: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.stopped {
            return Ok(());
        }
        let read = self.read;
        let mut failed = Ok(());
        let mut visit = |key: &[u8], value: &[u8]| {
            failed = each(self, key, value);
            self.advance((key.len() + value.len()) as u64);
            if self.stopped || failed.is_err() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let walked = read.range(table, range, Direction::Forward, &mut visit);
        failed?;
        Ok(walked?)
    }

    fn meta(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        match key {
            FORMAT_KEY if value == FORMAT || FORMATS_BEFORE.contains(&value) => {}
            PURGED_KEY => {
                PurgedMark::decode(value).map_err(|error| Error::damaged(Table::Meta, key, error))?;
            }
            LAST_BLOCK_KEY => {
                LastBlock::decode(value).map_err(|error| Error::damaged(Table::Meta, key, error))?;
            }
            RETENTION_CLOCK_KEY => {
                RetentionClock::decode(value).map_err(|error| Error::damaged(Table::Meta, key, error))?;
            }
            WATERMARK_KEY => {
                EncoderWatermark::decode(value).map_err(|error| Error::damaged(Table::Meta, key, error))?;
            }
            LOG_KEY => {
                let log = LogState::decode(value).map_err(|error| Error::damaged(Table::Meta, key, error))?;
                self.position = (log.first - 1, log.before);
                self.log = Some(log);
            }
            NEXT_KEY => {
                self.next = NextNumbers::decode(value).map_err(|error| Error::damaged(Table::Meta, key, error))?
            }
            _ => match EncodingStopped::of_key(key) {
                Some((namespace, stopped)) => {
                    let given_up = EncodingStopped::decode(namespace, stopped, value);
                    given_up.map_err(|error| Error::damaged(Table::Meta, key, error))?;
                }
                None => self.fault(Table::Meta, key, Problem::Unknown),
            },
        }
        Ok(())
    }

    /// Notes a fault if a number is used that is still to be given.
    fn check_given(&mut self, field: &'static str, given: u64, next: u64) {
        if given >= next {
            let (expected, found) = (given.saturating_add(1), next);
            let problem = Problem::Disagrees { field, expected, found };
            self.fault(Table::Meta, NEXT_KEY, problem);
        }
    }

    fn namespace(&mut self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        let entry =
            NamespaceEntry::decode(name, value).map_err(|error| Error::damaged(Table::Namespaces, name, error))?;
        self.check_given("next namespace", entry.number.into(), self.next.namespace.into());
        let Ok(text) = std::str::from_utf8(name) else {
            self.fault(Table::Namespaces, name, Problem::Unknown);
            return Ok(());
        };
        let counts = NamespaceCounts {
            name: text.to_owned(),
            versions: Versions::from_kept(entry.versions_kept),
            keys: 0,
            keys_deleted: 0,
            purged: 0,
            records: 0,
            body_bytes: 0,
            latest_body_bytes: 0,
            stored_bytes: 0,
        };
        match self.namespaces.entry(entry.number) {
            Entry::Vacant(place) => {
                place.insert(counts);
            }
            Entry::Occupied(_) => self.fault(Table::Namespaces, name, Problem::Repeated),
        }
        Ok(())
    }

    /// Checks a key, its version entries, and their records.
    fn key(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let damaged = |error| Error::damaged(Table::Keys, stored_key, error);
        let (namespace, key) = split_key(stored_key).map_err(damaged)?;
        let decoded = KeyEntry::decode_with_values(stored_key, value);
        if decoded.is_err() {
            self.note_part(namespace, stored_key);
        }
        let (entry, values) = decoded.map_err(damaged)?;
        for (index, value) in values {
            let key = key.to_vec();
            let row = IndexRow {
                namespace,
                index,
                value,
                key,
            };
            let (row, _) = row.encode().map_err(damaged)?;
            if !self.read.contains(Table::Indexes, &row)? {
                self.fault(Table::Indexes, &row, Problem::Damaged(Damage::Missing));
            }
        }
        self.parts.counted.add(stored_key, entry.uses);
        match self.namespaces.get_mut(&namespace) {
            Some(counts) => {
                counts.keys += u64::from(!entry.deleted);
                counts.keys_deleted += u64::from(entry.deleted);
                if counts.versions == Versions::Latest && entry.versions > 1 {
                    let field = "versions of a key where one is kept";
                    let (expected, found) = (1, entry.versions.into());
                    self.fault(Table::Keys, stored_key, Problem::Disagrees { field, expected, found });
                }
            }
            None if self.missing_namespace == Some(namespace) => {}
            None => {
                self.missing_namespace = Some(namespace);
                self.fault(Table::Keys, stored_key, Problem::NoNamespace);
            }
        }
        let mut version = VersionOfKey {
            namespace,
            key,
            version: 1,
            is_latest: entry.versions == 1,
            entry: VersionEntry {
                deleted: false,
                purged: entry.oldest > 1,
                number: entry.lineage,
                time: 0,
            },
        };
        self.version_of_key(version)?;
        if entry.versions > 1 {
            let first = VersionGroup::of(entry.oldest);
            // Groups that are gone had only purged versions, but for the first version, which was counted.
            let gone = (first * VERSIONS_PER_GROUP).max(2) - 2;
            self.count_purged(namespace, gone.into());
            for group in first..=VersionGroup::of(entry.versions) {
                if self.stopped {
                    break;
                }
                let looked = self.group(&entry, &mut version, group);
                self.absorb(looked, Table::Versions, &version_group_key(entry.lineage, group))?;
            }
        }
        Ok(())
    }

    /// Checks an index, or that a key has a value.
    fn index(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let damaged = |error| Error::damaged(Table::Indexes, stored_key, error);
        if stored_key.get(4) == Some(&0) {
            let entry = IndexEntry::decode(stored_key, value).map_err(damaged)?;
            let Some((namespace, _)) = IndexEntry::split_key(stored_key) else {
                self.fault(Table::Indexes, stored_key, Problem::Unknown);
                return Ok(());
            };
            if !self.namespaces.contains_key(&namespace) {
                self.fault(Table::Indexes, stored_key, Problem::NoNamespace);
            }
            if self.indexes.insert((namespace, entry.number), entry.unique).is_some() {
                self.fault(Table::Indexes, stored_key, Problem::Repeated);
            }
            return Ok(());
        }
        let row = IndexRow::decode(stored_key, value).map_err(damaged)?;
        let index = (row.namespace, row.index);
        match self.indexes.get(&index) {
            Some(true) => {
                let is_of_one =
                    |last: &IndexRow| (last.namespace, last.index, &last.value) != (index.0, index.1, &row.value);
                if !self.last_row.as_ref().is_none_or(is_of_one) {
                    let field = "keys that have the same value of a unique index";
                    let (expected, found) = (1, 2);
                    self.fault(
                        Table::Indexes,
                        stored_key,
                        Problem::Disagrees { field, expected, found },
                    );
                }
            }
            Some(false) => {}
            None if self.missing_index == Some(index) => {}
            None => {
                self.missing_index = Some(index);
                self.fault(Table::Indexes, stored_key, Problem::NoIndex);
            }
        }
        let key = key_of(row.namespace, &row.key);
        let listed = (row.index, row.value.clone());
        self.last_row = Some(row);
        // A key whose entry is damaged is noted elsewhere.
        match lookup::key_entry_with_values(self.read, &key) {
            Ok(Some((_, values))) if values.contains(&listed) => Ok(()),
            Ok(_) => {
                self.fault(Table::Indexes, stored_key, Problem::Stray);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Checks a group of a key's versions. `last_version` is the version before the
    /// group, and becomes its last.
    fn group(&mut self, entry: &KeyEntry, last_version: &mut VersionOfKey<'_>, group: u32) -> Result<(), Error> {
        let found_key = version_group_key(entry.lineage, group);
        let versions = lookup::version_group(self.read, entry.lineage, group)?;
        let versions = versions.ok_or_else(|| Error::damaged(Table::Versions, &found_key, Damage::Missing))?;
        self.advance(found_key.len() as u64);
        let disagrees = |field, expected, found| Problem::Disagrees { field, expected, found };
        let last = entry
            .versions
            .min(group.saturating_mul(VERSIONS_PER_GROUP) + (VERSIONS_PER_GROUP - 1));
        let (expected, found) = (last + 1 - versions.first(), versions.entries().len());
        if u64::from(expected) != found as u64 {
            let problem = disagrees("versions of a group", expected.into(), found as u64);
            self.fault(Table::Versions, &found_key, problem);
        }
        for (version, &found) in (versions.first()..=last).zip(versions.entries()) {
            if self.stopped {
                break;
            }
            if version == versions.first() && found.number <= last_version.entry.number {
                let problem = disagrees("record of a version", last_version.entry.number + 1, found.number);
                self.fault(Table::Versions, &found_key, problem);
            }
            last_version.version = version;
            last_version.is_latest = version == entry.versions;
            let purged = found.purged || version < entry.oldest;
            last_version.entry = VersionEntry { purged, ..found };
            if last_version.is_latest && (found.number, found.deleted) != (entry.latest, entry.deleted) {
                let problem = disagrees("record of the latest version", entry.latest, found.number);
                self.fault(Table::Versions, &found_key, problem);
            }
            if last_version.is_latest && found.time != entry.time {
                let problem = disagrees("time of the latest version", entry.time, found.time);
                self.fault(Table::Versions, &found_key, problem);
            }
            if last_version.is_latest && purged {
                let problem = disagrees("whether the latest version was purged, 1 if so", 0, 1);
                self.fault(Table::Versions, &found_key, problem);
            }
            let looked = self.version_of_key(*last_version);
            self.absorb(looked, Table::Records, &found.number.to_be_bytes())?;
        }
        Ok(())
    }

    /// Checks the record of a version as a reader gets it.
    fn version_of_key(&mut self, version: VersionOfKey<'_>) -> Result<(), Error> {
        let VersionEntry {
            deleted,
            purged,
            number,
            ..
        } = version.entry;
        self.check_given("next record", number, self.next.record);
        if purged {
            self.count_purged(version.namespace, 1);
            return Ok(());
        }
        let stored_key = number.to_be_bytes();
        let owner = (version.namespace, version.key, version.version);
        let (mut bytes, mut list) = (0, None);
        let mut found = |stored: Cow<'_, [u8]>, in_pieces: bool| {
            bytes = stored.len() as u64;
            list = in_pieces.then(|| stored.into_owned());
        };
        let is_body = match self
            .records
            .show_stored(self.read, None, number, Some(owner), &mut found)
        {
            Ok(is_body) => is_body,
            Err(error) => {
                self.note_part(version.namespace, &key_of(version.namespace, version.key));
                return self.absorb(Err(error), Table::Records, &stored_key);
            }
        };
        if is_body == deleted {
            let (expected, found) = (deleted.into(), (!is_body).into());
            let field = "whether its key was deleted with it, 1 if so";
            self.fault(
                Table::Records,
                &stored_key,
                Problem::Disagrees { field, expected, found },
            );
        }
        self.advance(bytes);
        if let Some(list) = list {
            let list = pieces::list_of(number, &list)?;
            // A list of pieces is a part of a body that counts elsewhere.
            if version.namespace != list.namespace {
                bytes = list.length();
            }
            self.list(&list)?;
        }
        if let Some(counts) = self.namespaces.get_mut(&version.namespace) {
            counts.records += 1;
            counts.body_bytes += bytes;
            counts.latest_body_bytes += if version.is_latest { bytes } else { 0 };
        }
        Ok(())
    }

    fn count_purged(&mut self, namespace: u32, versions: u64) {
        if let Some(counts) = self.namespaces.get_mut(&namespace) {
            counts.purged += versions;
        }
    }

    /// Checks that a group of versions is one of its key, which is found by the record of the first
    /// version or, if that is lost, by a record of the group.
    fn version(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let Some((lineage, group)) = split_group_key(stored_key) else {
            self.fault(Table::Versions, stored_key, Problem::Unknown);
            return Ok(());
        };
        let versions = VersionGroup::decode(lineage, group, value);
        let versions = versions.map_err(|error| Error::damaged(Table::Versions, stored_key, error))?;
        let own = versions.entries().iter().map(|version| version.number);
        for number in std::iter::once(lineage).chain(own) {
            let Some(owner) = self.owner(number)? else { continue };
            if let Some(entry) = lookup::key_entry(self.read, &owner)?
                && entry.lineage == lineage
                && versions.first() <= entry.versions
                && VersionGroup::of(versions.first()) >= VersionGroup::of(entry.oldest)
            {
                return Ok(());
            }
        }
        // A group without records leads nowhere, and nothing says whose it is.
        if versions.entries().iter().all(|version| version.purged) {
            return Ok(());
        }
        self.fault(Table::Versions, stored_key, Problem::Stray);
        Ok(())
    }

    /// Returns the key of a record, as it is in the table `keys`; [`None`] if the record is missing
    /// or damaged, which is noted elsewhere.
    fn owner(&self, number: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut owner = None;
        let mut found = |record: record::Record<'_>| owner = Some(key_of(record.namespace, record.key));
        match self.records.visit(self.read, number, &mut found) {
            Ok(_) | Err(Error::Damaged { .. }) => Ok(owner),
            Err(error) => Err(error),
        }
    }

    /// Checks the bytes of a record that is in no block.
    fn single(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::Records, stored_key, Problem::Unknown);
            return Ok(());
        }
        let record = record::Record::decode(number_of(stored_key), value);
        record
            .map(drop)
            .map_err(|error| Error::damaged(Table::Records, stored_key, Damage::of(value, error)))
    }

    /// Checks the frames of a block, and the bytes of their records.
    fn block(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::Blocks, stored_key, Problem::Unknown);
            return Ok(());
        }
        let damaged = |error| Error::damaged(Table::Blocks, stored_key, error);
        let frames = frames_of_block(number_of(stored_key), value);
        let frames = frames.map_err(|error| Error::damaged(Table::Blocks, stored_key, Damage::of(value, error)))?;
        let (mut decoder, mut raw) = (BlockFrameDecoder::default(), Vec::new());
        for frame in &frames {
            decoder.decode(frame, &mut raw).map_err(damaged)?;
            for (number, record) in records_of_frame(&raw, frame.records()).map_err(damaged)? {
                record::Record::decode_packed(number, record).map_err(damaged)?;
            }
        }
        Ok(())
    }

    /// Checks a group of places, whose records must not also have entries of their own.
    fn places(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::Places, stored_key, Problem::Unknown);
            return Ok(());
        }
        let group = number_of(stored_key);
        let places = Places::decode(group, value);
        let places = places.map_err(|error| Error::damaged(Table::Places, stored_key, error))?;
        for (number, _) in places.iter(group) {
            if self.read.contains(Table::Records, &number.to_be_bytes())? {
                let field = "records stored both by themselves and in a frame";
                let (expected, found) = (0, number);
                self.fault(Table::Places, stored_key, Problem::Disagrees { field, expected, found });
            }
        }
        Ok(())
    }

    /// Checks all records, ascending.
    fn records(&mut self) -> Result<(), Error> {
        let mut after = 0;
        while !self.stopped {
            let numbers = match self.records.numbers(self.read, after, RECORDS_AT_ONCE) {
                Ok(numbers) => numbers,
                Err(error) => return self.absorb(Err(error), Table::Records, b""),
            };
            let Some(&last) = numbers.last() else { break };
            for number in numbers {
                let looked = self.record(number);
                self.absorb(looked, Table::Records, &number.to_be_bytes())?;
                if self.stopped {
                    break;
                }
            }
            after = last;
        }
        Ok(())
    }

    /// Checks a record, its base, and that its key leads back to it.
    fn record(&mut self, number: u64) -> Result<(), Error> {
        let mut head = None;
        let mut found = |record: record::Record<'_>| {
            let (base, bytes) = match record.body {
                Body::Delta { base, delta, .. } => (Some(base), delta.len()),
                Body::Whole(body) => (None, body.len()),
                Body::Deleted => (None, 0),
            };
            head = Some((record.namespace, record.version, record.key.to_vec(), base, bytes));
        };
        self.records.visit(self.read, number, &mut found)?;
        let Some((namespace, version, key, base, bytes)) = head else {
            return Ok(());
        };
        self.advance(bytes as u64);
        if let Some(base) = base {
            let needed = self.needed.entry(base).or_default();
            *needed = needed.saturating_add(1);
            if !self.records.contains(self.read, base)? {
                self.fault(Table::Records, &base.to_be_bytes(), Problem::Damaged(Damage::Missing));
            }
        }
        let is_reachable = self.is_reachable(number, namespace, version, &key)?;
        if let Some(counts) = self.namespaces.get_mut(&namespace) {
            counts.stored_bytes += bytes as u64;
        }
        let checked = self.references_of(number, is_reachable);
        self.absorb(checked, Table::References, &References::group_of(number).1)
    }

    /// Checks the reference count of a record, and whether it is rightly obsolete.
    fn references_of(&mut self, number: u64, is_reachable: bool) -> Result<(), Error> {
        // All its deltas have smaller numbers, so they were counted.
        let needed = self.needed.remove(&number).unwrap_or_default();
        let references = references::group(self.read, number)?;
        let is_obsolete = references.is_obsolete(number);
        let is_logged = self.log.as_ref().is_some_and(|log| number >= log.record) && is_obsolete;
        let needed = needed.saturating_add(is_logged.into());
        let disagrees = |field, expected, found| Problem::Disagrees { field, expected, found };
        let group = References::group_of(number).0.to_be_bytes();
        let count = references.count(number);
        if count != needed {
            let problem = disagrees("records decoded from one", needed.into(), count.into());
            self.fault(Table::References, &group, problem);
        }
        match (is_reachable, needed) {
            // Its key is gone, and other records need it.
            (false, 1..) if is_obsolete => {}
            (false, _) => self.fault(Table::Records, &number.to_be_bytes(), Problem::Stray),
            (true, _) if is_obsolete => {
                let problem = disagrees("whether no key leads to a record, 1 if so", 0, 1);
                self.fault(Table::References, &group, problem);
            }
            (true, _) => {}
        }
        Ok(())
    }

    /// Checks that the records of a group of reference counts exist.
    fn references(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::References, stored_key, Problem::Unknown);
            return Ok(());
        }
        let group = number_of(stored_key);
        let references = References::decode(group, value);
        let references = references.map_err(|error| Error::damaged(Table::References, stored_key, error))?;
        for (number, ..) in references.iter(group) {
            if !self.records.contains(self.read, number)? {
                self.fault(Table::Records, &number.to_be_bytes(), Problem::Damaged(Damage::Missing));
            }
        }
        Ok(())
    }

    /// Checks that the newest record of a chain exists.
    fn chain(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::Chains, stored_key, Problem::Unknown);
            return Ok(());
        }
        let decoded = ChainEntry::decode(number_of(stored_key), value);
        decoded.map_err(|error| Error::damaged(Table::Chains, stored_key, error))?;
        if !self.records.contains(self.read, number_of(stored_key))? {
            self.fault(Table::Chains, stored_key, Problem::Stray);
        }
        Ok(())
    }

    /// Checks that a log entry follows the one before it.
    fn oplog(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let position = number_of(stored_key);
        let (last, digest) = self.position;
        if stored_key.len() != NUMBER_BYTES || self.log.is_none() || position != last + 1 {
            self.fault(Table::Oplog, stored_key, Problem::Stray);
            return Ok(());
        }
        let damaged = |error| Error::damaged(Table::Oplog, stored_key, error);
        self.position.0 = position;
        let (entry, stated) = open_log_entry(position, value).map_err(damaged)?;
        self.position.1 = stated;
        let computed = log_digest(digest, entry);
        if computed != stated {
            let field = "digest of a log entry";
            let (expected, found) = (u64::from_be_bytes(computed), u64::from_be_bytes(stated));
            self.fault(Table::Oplog, stored_key, Problem::Disagrees { field, expected, found });
        }
        LogEntry::decode(entry).map(drop).map_err(damaged)
    }

    /// Checks that the log ends where its state says.
    fn end_of_log(&mut self) {
        if let Some(log) = &self.log
            && !self.stopped
            && (log.next, log.digest) != (self.position.0 + 1, self.position.1)
        {
            let (field, expected, found) = ("next position", self.position.0 + 1, log.next);
            self.fault(Table::Meta, LOG_KEY, Problem::Disagrees { field, expected, found });
        }
    }

    /// Returns whether the key of a record leads to it.
    fn is_reachable(&self, number: u64, namespace: u32, version: u32, key: &[u8]) -> Result<bool, Error> {
        let stored_key = key_of(namespace, key);
        let Some(entry) = lookup::key_entry(self.read, &stored_key)? else {
            return Ok(false);
        };
        if version > entry.versions {
            return Ok(false);
        }
        let found = lookup::version_entry(self.read, &entry, version)?;
        Ok(found.is_some_and(|found| found.number == number))
    }
}
