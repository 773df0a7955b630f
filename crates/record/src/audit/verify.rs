//! Is everything there, and as it was written?
//!
//! One snapshot is gone through both ways. From keys: each entry of the table `keys` has its
//! version entries, and these their records. Back again: each version entry, and each record, is
//! one that its key leads to. The second way finds what the first can't: a byte that changed in the
//! engine's own structure may hide a key, and what it led to is then led to by nobody.
//!
//! Every entry is looked at where the engine has it; beside it, the bodies on the way to one and at
//! most [`FAULTS_MAX`] faults are in memory, what namespaces there are, and a number for each chain
//! of deltas.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{
    self, BlockFrameDecoder, Body, ChainEntry, Digest, EncoderWatermark, EncodingStopped, FORMAT, FORMAT_KEY, KeyEntry,
    LOG_KEY, LogEntry, LogState, NEXT_KEY, NamespaceEntry, NextNumbers, Places, References, VERSIONS_PER_GROUP,
    VersionEntry, VersionGroup, WATERMARK_KEY, frames_of_block, key_of, log_digest, open_log_entry, records_of_frame,
    split_key, version_group_key,
};

use crate::engine::{Direction, EngineError, KeyRange, Read, Table};
use crate::error::{Damage, Error};
use crate::read::bodies::Bodies;
use crate::read::lookup;
use crate::store::{Store, Versions};
use crate::write::references;

/// Faults that a verification lists; beyond, it only counts them.
pub const FAULTS_MAX: usize = 1000;
/// Memory for frames that are decompressed, bytes.
const FRAME_BYTES: usize = 16 << 20;
/// Records whose numbers are read at once.
const RECORDS_AT_ONCE: usize = 1024;
/// Length of a key of the table `records`.
const NUMBER_BYTES: usize = 8;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verification {
    /// What is in each namespace, by their numbers: in the order in which they were made.
    pub namespaces: Vec<NamespaceCounts>,
    /// What is wrong, at most [`FAULTS_MAX`]. An entry with several faults is there once.
    pub faults: Vec<Fault>,
    /// How many there are.
    pub faults_total: u64,
    /// Whether it was broken off: there may be more than it found.
    pub stopped: bool,
}

impl Verification {
    /// Whether all was looked at and nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.faults_total == 0 && !self.stopped
    }
}

/// What is in a namespace. What is damaged is not counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// Its name.
    pub name: String,
    /// Which versions it keeps.
    pub versions: Versions,
    /// Keys that have a record now.
    pub keys: u64,
    /// Keys that were deleted, of which versions are kept.
    pub keys_deleted: u64,
    /// Records: versions of all keys, deletions among them.
    pub records: u64,
    /// Bodies of all versions, bytes.
    pub body_bytes: u64,
    /// Bodies of the latest version of each key, bytes.
    pub latest_body_bytes: u64,
    /// What is kept of these bodies, bytes: themselves, or deltas; before they are compressed
    /// together.
    pub stored_bytes: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The engine's table.
    pub table: Table,
    /// The key in this table.
    pub key: Vec<u8>,
    /// What is wrong with what is there, or should be.
    pub problem: Problem,
}

impl fmt::Display for Fault {
    /// `record 17: it is missing`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key[..];
        let shown = key.escape_ascii();
        match (self.table, split_key(key), split_group_key(key)) {
            (Table::Records, ..) if key.len() == NUMBER_BYTES => write!(f, "record {}", number_of(key))?,
            (Table::References, ..) if key.len() == NUMBER_BYTES => {
                write!(f, "references to group {} of records", number_of(key))?;
            }
            (Table::Places, ..) if key.len() == NUMBER_BYTES => {
                write!(f, "places of group {} of records", number_of(key))?;
            }
            (Table::Blocks, ..) if key.len() == NUMBER_BYTES => write!(f, "block {}", number_of(key))?,
            (Table::Chains, ..) if key.len() == NUMBER_BYTES => {
                write!(f, "entry of record {}, the newest of a chain", number_of(key))?;
            }
            (Table::Versions, _, Some((lineage, group))) => {
                let first = VersionGroup::new(lineage, group).first();
                write!(
                    f,
                    "entry of versions {first} and following of the key that began with record {lineage}"
                )?;
            }
            (Table::Keys, Ok((namespace, key)), _) => {
                write!(f, "key \"{}\" in namespace number {namespace}", key.escape_ascii())?;
            }
            (Table::Namespaces, ..) => write!(f, "namespace \"{shown}\"")?,
            (table, ..) => write!(f, "entry \"{shown}\" of the table {}", table.name())?,
        }
        write!(f, ": {}", self.problem)
    }
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// What a reader would be told of it, too.
    #[error("{0}")]
    Damaged(Damage),
    /// No key leads to it.
    #[error("nothing leads to it: its key is gone, or leads to another record")]
    Stray,
    /// What it says is not what other entries say.
    #[error("{field}: {expected} expected by other entries, found {found}")]
    Disagrees {
        /// What it says something of.
        field: &'static str,
        /// What follows from the others.
        expected: u64,
        /// What it says.
        found: u64,
    },
    /// Its namespace is not there. Said of the first key only.
    #[error("there is no such namespace")]
    NoNamespace,
    /// The namespace has the number of another one, and so its keys.
    #[error("its number is that of another namespace, too")]
    Repeated,
    /// The format does not know such an entry.
    #[error("the format has no such entry")]
    Unknown,
    /// The engine shows it after one that is larger: it would not be found by who looks for it.
    #[error("the engine has it in the wrong place")]
    OutOfOrder,
    /// The engine can't read it, or what comes after it, in its own words.
    #[error("the engine can't read on from here: {0}")]
    Unreadable(String),
}

impl Store {
    /// Looks at everything that is committed now, and reports all that is wrong. `progress` is told
    /// how many more bytes were looked at, and may break it off.
    ///
    /// Every record is read three times: where it lies, from its key, and in the order of numbers.
    /// Others read and write meanwhile; what they write is not looked at.
    ///
    /// # Errors
    /// Only what keeps it from looking on: [`Error::Engine`] if the disk fails.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use ibid_record::{Options, Store, Versions};
    /// # let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path(), Options::default())?;
    /// store.namespace("pages", Versions::Kept)?.insert(b"ibid", b"in the same place")?;
    /// let found = store.verify(&mut |_bytes| ControlFlow::Continue(()))?;
    /// assert!(found.is_clean());
    /// assert_eq!((found.namespaces[0].keys, found.namespaces[0].body_bytes), (1, 17));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<Verification, Error> {
        let (snapshot, _) = self.inner.whole_snapshot()?;
        // Its own: frames that readers have in memory say nothing of those that are stored.
        let bodies = Bodies::new(FRAME_BYTES, 0);
        let mut verifier = Verifier {
            read: &*snapshot,
            bodies: &bodies,
            needed: BTreeMap::new(),
            next: NextNumbers {
                record: u64::MAX,
                namespace: u32::MAX,
            },
            log: None,
            position: (0, Digest::default()),
            spaces: BTreeMap::new(),
            nowhere: None,
            faults: Vec::new(),
            faults_total: 0,
            faulty: HashSet::new(),
            progress,
            stopped: false,
        };
        verifier.walk(Table::Meta, Verifier::meta)?;
        verifier.walk(Table::Namespaces, Verifier::namespace)?;
        verifier.walk(Table::Keys, Verifier::key)?;
        verifier.walk(Table::Versions, Verifier::version)?;
        verifier.walk(Table::Records, Verifier::single)?;
        verifier.walk(Table::Blocks, Verifier::block)?;
        verifier.walk(Table::Places, Verifier::places)?;
        verifier.records()?;
        verifier.walk(Table::References, Verifier::references)?;
        verifier.walk(Table::Chains, Verifier::chain)?;
        verifier.walk(Table::Oplog, Verifier::oplog)?;
        verifier.end_of_log();
        Ok(Verification {
            namespaces: verifier.spaces.into_values().collect(),
            faults: verifier.faults,
            faults_total: verifier.faults_total,
            stopped: verifier.stopped,
        })
    }
}

/// How a record is to what leads to records.
enum Standing {
    /// Its key and version lead to it.
    Led,
    /// They lead elsewhere, or are not there.
    Unled,
}

struct Verifier<'v> {
    read: &'v dyn Read,
    bodies: &'v Bodies,
    /// How many records that were gone through are decoded from those that are still to come.
    needed: BTreeMap<u64, u32>,
    /// What numbers come next; as large as can be where that can't be read.
    next: NextNumbers,
    log: Option<LogState>,
    /// Position and digest of the last entry of the log that was seen.
    position: (u64, Digest),
    spaces: BTreeMap<u32, NamespaceCounts>,
    /// The last of those that keys are in and that are not there.
    nowhere: Option<u32>,
    faults: Vec<Fault>,
    faults_total: u64,
    /// Of which entries faults are listed.
    faulty: HashSet<(Table, Vec<u8>)>,
    progress: &'v mut dyn FnMut(u64) -> ControlFlow<()>,
    stopped: bool,
}

/// A version as its entries say.
#[derive(Clone, Copy)]
struct Named<'k> {
    namespace: u32,
    key: &'k [u8],
    version: u32,
    is_latest: bool,
    said: VersionEntry,
}

impl Verifier<'_> {
    fn advance(&mut self, bytes: u64) {
        self.stopped = self.stopped || (self.progress)(bytes).is_break();
    }

    fn fault(&mut self, table: Table, key: &[u8], problem: Problem) {
        // Two ways lead to most entries.
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

    /// Makes a fault of an error that is one. What is left keeps us from looking on.
    fn absorb(&mut self, looked: Result<(), Error>, table: Table, key: &[u8]) -> Result<(), Error> {
        match looked {
            Err(Error::Damaged { table, key, found }) => self.fault(table, &key, Problem::Damaged(found)),
            Err(Error::Engine(EngineError::Damaged { found, .. })) => {
                self.fault(table, key, Problem::Unreadable(found));
            }
            looked => return looked,
        }
        Ok(())
    }

    /// Shows `each` all entries of a table.
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

    /// The same for a part of one, without looking at their order.
    fn walk_range(
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
            FORMAT_KEY if value == FORMAT => {}
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
            _ => match EncodingStopped::namespace_of(key) {
                Some(namespace) => {
                    let given_up = EncodingStopped::decode(namespace, value);
                    given_up.map_err(|error| Error::damaged(Table::Meta, key, error))?;
                }
                None => self.fault(Table::Meta, key, Problem::Unknown),
            },
        }
        Ok(())
    }

    /// Says that a number was given before its turn, if it was: it will be given again.
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
            versions: if entry.versions_kept {
                Versions::Kept
            } else {
                Versions::Latest
            },
            keys: 0,
            keys_deleted: 0,
            records: 0,
            body_bytes: 0,
            latest_body_bytes: 0,
            stored_bytes: 0,
        };
        match self.spaces.entry(entry.number) {
            Entry::Vacant(place) => {
                place.insert(counts);
            }
            Entry::Occupied(_) => self.fault(Table::Namespaces, name, Problem::Repeated),
        }
        Ok(())
    }

    /// A key, its version entries, and its records.
    fn key(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        let damaged = |error| Error::damaged(Table::Keys, stored_key, error);
        let (namespace, key) = split_key(stored_key).map_err(damaged)?;
        let entry = KeyEntry::decode(stored_key, value).map_err(damaged)?;
        match self.spaces.get_mut(&namespace) {
            Some(space) => {
                space.keys += u64::from(!entry.deleted);
                space.keys_deleted += u64::from(entry.deleted);
                if space.versions == Versions::Latest && entry.versions > 1 {
                    let field = "versions of a key where one is kept";
                    let (expected, found) = (1, entry.versions.into());
                    self.fault(Table::Keys, stored_key, Problem::Disagrees { field, expected, found });
                }
            }
            None if self.nowhere == Some(namespace) => {}
            None => {
                self.nowhere = Some(namespace);
                self.fault(Table::Keys, stored_key, Problem::NoNamespace);
            }
        }
        let mut named = Named {
            namespace,
            key,
            version: 1,
            is_latest: entry.versions == 1,
            said: VersionEntry {
                deleted: false,
                number: entry.lineage,
            },
        };
        self.named(named)?;
        if entry.versions > 1 {
            for group in 0..=VersionGroup::of(entry.versions) {
                if self.stopped {
                    break;
                }
                let looked = self.group(&entry, &mut named, group);
                self.absorb(looked, Table::Versions, &version_group_key(entry.lineage, group))?;
            }
        }
        Ok(())
    }

    /// A group of a key's versions, which `named` goes on to.
    fn group(&mut self, entry: &KeyEntry, named: &mut Named<'_>, group: u32) -> Result<(), Error> {
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
        for (version, &said) in (versions.first()..=last).zip(versions.entries()) {
            if self.stopped {
                break;
            }
            if version == versions.first() && said.number <= named.said.number {
                let problem = disagrees("record of a version", named.said.number + 1, said.number);
                self.fault(Table::Versions, &found_key, problem);
            }
            (named.version, named.is_latest, named.said) = (version, version == entry.versions, said);
            if named.is_latest && (said.number, said.deleted) != (entry.latest, entry.deleted) {
                let problem = disagrees("record of the latest version", entry.latest, said.number);
                self.fault(Table::Versions, &found_key, problem);
            }
            let looked = self.named(*named);
            self.absorb(looked, Table::Records, &said.number.to_be_bytes())?;
        }
        Ok(())
    }

    /// The record of a version, as a reader gets it.
    fn named(&mut self, named: Named<'_>) -> Result<(), Error> {
        let VersionEntry { deleted, number } = named.said;
        self.check_given("next record", number, self.next.record);
        let stored_key = number.to_be_bytes();
        let body = match lookup::body(
            self.read,
            self.bodies,
            number,
            (named.namespace, named.key, named.version),
        ) {
            Ok(body) => body,
            Err(error) => return self.absorb(Err(error), Table::Records, &stored_key),
        };
        if body.is_none() != deleted {
            let (expected, found) = (deleted.into(), body.is_none().into());
            let field = "whether its key was deleted with it, 1 if so";
            self.fault(
                Table::Records,
                &stored_key,
                Problem::Disagrees { field, expected, found },
            );
        }
        let bytes = body.map_or(0, |body| body.len() as u64);
        self.advance(bytes);
        if let Some(space) = self.spaces.get_mut(&named.namespace) {
            space.records += 1;
            space.body_bytes += bytes;
            space.latest_body_bytes += if named.is_latest { bytes } else { 0 };
        }
        Ok(())
    }

    /// A group of versions, and the way back to its key: by the record of the first version, or if
    /// that is lost by one of its own.
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
            {
                return Ok(());
            }
        }
        self.fault(Table::Versions, stored_key, Problem::Stray);
        Ok(())
    }

    /// The key in the table `keys` of what a record is of. None if that can't be told, which is a
    /// fault of the record's own.
    fn owner(&self, number: u64) -> Result<Option<Vec<u8>>, Error> {
        let mut owner = None;
        let mut found = |record: record::Record<'_>| owner = Some(key_of(record.namespace, record.key));
        match self.bodies.record(self.read, number, &mut found) {
            Ok(_) | Err(Error::Damaged { .. }) => Ok(owner),
            Err(error) => Err(error),
        }
    }

    /// A record by itself: its bytes.
    fn single(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::Records, stored_key, Problem::Unknown);
            return Ok(());
        }
        let record = record::Record::decode(number_of(stored_key), value);
        record
            .map(drop)
            .map_err(|error| Error::damaged(Table::Records, stored_key, error))
    }

    /// A block: its frames, and their records.
    fn block(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::Blocks, stored_key, Problem::Unknown);
            return Ok(());
        }
        let damaged = |error| Error::damaged(Table::Blocks, stored_key, error);
        let frames = frames_of_block(number_of(stored_key), value).map_err(damaged)?;
        let (mut decoder, mut raw) = (BlockFrameDecoder::default(), Vec::new());
        for frame in &frames {
            decoder.decode(frame, &mut raw).map_err(damaged)?;
            for (number, record) in records_of_frame(&raw, frame.records()).map_err(damaged)? {
                record::Record::decode_packed(number, record).map_err(damaged)?;
            }
        }
        Ok(())
    }

    /// A group of places: of records that do not lie by themselves.
    fn places(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::Places, stored_key, Problem::Unknown);
            return Ok(());
        }
        let group = number_of(stored_key);
        let places = Places::decode(group, value);
        let places = places.map_err(|error| Error::damaged(Table::Places, stored_key, error))?;
        for (number, _) in places.iter(group) {
            if self.read.get(Table::Records, &number.to_be_bytes(), &mut |_| {})? {
                let field = "records that lie by themselves and in a frame";
                let (expected, found) = (0, number);
                self.fault(Table::Places, stored_key, Problem::Disagrees { field, expected, found });
            }
        }
        Ok(())
    }

    /// All records, ascending, wherever they lie.
    fn records(&mut self) -> Result<(), Error> {
        let mut after = 0;
        while !self.stopped {
            let numbers = match self.bodies.numbers(self.read, after, RECORDS_AT_ONCE) {
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

    /// A record, and the way back to its key.
    fn record(&mut self, number: u64) -> Result<(), Error> {
        let stored_key = &number.to_be_bytes()[..];
        let mut head = None;
        let mut found = |record: record::Record<'_>| {
            let base = match record.body {
                Body::Delta { base, .. } => Some(base),
                Body::Deleted | Body::Whole(_) => None,
            };
            let length = match record.body {
                Body::Delta { delta: bytes, .. } | Body::Whole(bytes) => bytes.len(),
                Body::Deleted => 0,
            };
            head = Some((record.namespace, record.version, record.key.to_vec(), base, length));
        };
        self.bodies.record(self.read, number, &mut found)?;
        let Some((namespace, version, key, base, length)) = head else {
            return Ok(());
        };
        self.advance(length as u64);
        if let Some(base) = base {
            let needed = self.needed.entry(base).or_default();
            *needed = needed.saturating_add(1);
            if !self.bodies.is_there(self.read, base)? {
                self.fault(Table::Records, &base.to_be_bytes(), Problem::Damaged(Damage::Missing));
            }
        }
        // All that are decoded from it have smaller numbers.
        let needed = self.needed.remove(&number).unwrap_or_default();
        let standing = self.standing(number, namespace, version, &key)?;
        if let Some(space) = self.spaces.get_mut(&namespace) {
            space.stored_bytes += length as u64;
        }
        let (group, group_key) = References::group_of(number);
        let references = match references::group(self.read, number) {
            Ok(references) => references,
            Err(error) => return self.absorb(Err(error), Table::References, &group_key),
        };
        let disagrees = |field, expected, found| Problem::Disagrees { field, expected, found };
        let held = self.log.as_ref().is_some_and(|log| number >= log.record) && references.is_obsolete(number);
        let needed = needed.saturating_add(held.into());
        if references.count(number) != needed {
            let problem = disagrees(
                "records decoded from one",
                needed.into(),
                references.count(number).into(),
            );
            self.fault(Table::References, &group.to_be_bytes(), problem);
        }
        match (standing, needed) {
            // Removed from its key, and kept for those that are decoded from it.
            (Standing::Unled, 1..) if references.is_obsolete(number) => {}
            (Standing::Unled, _) => self.fault(Table::Records, stored_key, Problem::Stray),
            (Standing::Led, _) if references.is_obsolete(number) => {
                let problem = disagrees("whether no key leads to a record, 1 if so", 0, 1);
                self.fault(Table::References, &group.to_be_bytes(), problem);
            }
            (Standing::Led, _) => {}
        }
        Ok(())
    }

    /// A group of references: of records that are there.
    fn references(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::References, stored_key, Problem::Unknown);
            return Ok(());
        }
        let group = number_of(stored_key);
        let references = References::decode(group, value);
        let references = references.map_err(|error| Error::damaged(Table::References, stored_key, error))?;
        for (number, ..) in references.iter(group) {
            if !self.bodies.is_there(self.read, number)? {
                self.fault(Table::Records, &number.to_be_bytes(), Problem::Damaged(Damage::Missing));
            }
        }
        Ok(())
    }

    /// The newest record of a chain: one that is there.
    fn chain(&mut self, stored_key: &[u8], value: &[u8]) -> Result<(), Error> {
        if stored_key.len() != NUMBER_BYTES {
            self.fault(Table::Chains, stored_key, Problem::Unknown);
            return Ok(());
        }
        let decoded = ChainEntry::decode(number_of(stored_key), value);
        decoded.map_err(|error| Error::damaged(Table::Chains, stored_key, error))?;
        if !self.bodies.is_there(self.read, number_of(stored_key))? {
            self.fault(Table::Chains, stored_key, Problem::Stray);
        }
        Ok(())
    }

    /// An entry of the log: at its place, and after the one that was before it.
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

    /// Whether the log ends where it should.
    fn end_of_log(&mut self) {
        if let Some(log) = &self.log
            && !self.stopped
            && (log.next, log.digest) != (self.position.0 + 1, self.position.1)
        {
            let (field, expected, found) = ("next position", self.position.0 + 1, log.next);
            self.fault(Table::Meta, LOG_KEY, Problem::Disagrees { field, expected, found });
        }
    }

    fn standing(&self, number: u64, namespace: u32, version: u32, key: &[u8]) -> Result<Standing, Error> {
        let stored_key = key_of(namespace, key);
        let Some(entry) = lookup::key_entry(self.read, &stored_key)? else {
            return Ok(Standing::Unled);
        };
        if version > entry.versions {
            return Ok(Standing::Unled);
        }
        let led = lookup::version_entry(self.read, &entry, version)?;
        Ok(if led.number == number {
            Standing::Led
        } else {
            Standing::Unled
        })
    }
}

/// The number in a key of the table `records`; 0, which no record has, for what is none.
fn number_of(stored_key: &[u8]) -> u64 {
    stored_key.try_into().map_or(0, u64::from_be_bytes)
}

/// What is in a key of the table `versions`.
fn split_group_key(stored_key: &[u8]) -> Option<(u64, u32)> {
    let (lineage, group) = stored_key.split_first_chunk()?;
    let group = u32::from_be_bytes(group.try_into().ok()?);
    (group <= VersionGroup::of(u32::MAX)).then_some((u64::from_be_bytes(*lineage), group))
}
