//! Bringing what can be read of a damaged store into a new one.
//!
//! The damaged store is only read. Records are looked at one by one, in the order in which they were stored. Each says
//! which version of which key it is. If it is the latest, the entry of its key leads to all others. If that entry can't
//! be read, each record is brought by itself. At the end comes what no record has led to. A version that can't be read
//! becomes one that was purged, so that all others keep their numbers.

mod namespaces;
mod report;
mod source;
mod target;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{
    IndexValues, KeyEntry, PLACES_PER_GROUP, PieceList, Places, Record, RetentionEntry, VersionGroup, key_of, split_key,
};

pub use self::report::{Loss, Salvaged};
use self::source::Source;
pub(crate) use self::source::restore_places;
use self::target::{Content, Space, Target};
use crate::engine::{EngineError, Snapshot, Table};
use crate::error::{Damage, Error};
use crate::read::records::Records;
use crate::read::{lookup, pieces, places};
use crate::retention::Retention;
use crate::store::{BodyWriter, NewBody, Store};

/// Memory for decompressed frames, bytes.
const FRAME_BYTES: usize = 16 << 20;
/// Numbers of records that are read at once.
const RECORDS_AT_ONCE: usize = 1024;
/// Most groups of numbers that are tried where it can't be told which there are: a minute's work, for four thousand
/// million records.
const GROUPS_TRIED_MAX: u64 = 1 << 24;
/// Most records that can't be read of which it is noted whether a key leads to them.
const UNREADABLE_MAX: usize = 1 << 16;

/// Brings everything that can be read in a snapshot into a store, which is empty. Calls `progress` with the number of
/// bytes read since its last call; it may stop the work, by breaking from then on.
pub(crate) fn salvage(
    snapshot: Box<dyn Snapshot>,
    body_bytes_max: usize,
    into: &Store,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Salvaged, Error> {
    let mut from = Source::new(snapshot);
    from.find_places(progress)?;
    let mut salvage = Salvage {
        from: &from,
        records: Records::new(FRAME_BYTES, body_bytes_max),
        into: Target::new(into),
        spaces: BTreeMap::new(),
        retention: Vec::new(),
        pieces: None,
        unreadable: BTreeMap::new(),
        groups_tried: 0,
        found: Salvaged::default(),
        progress,
    };
    salvage.advance(0);
    salvage.find_namespaces()?;
    salvage.bring_records()?;
    salvage.bring_rest()?;
    salvage.into.commit()?;
    salvage.end()
}

struct Salvage<'s> {
    from: &'s Source,
    records: Records,
    into: Target<'s>,
    /// By the numbers that they have in the damaged store.
    spaces: BTreeMap<u32, Space>,
    /// What namespaces keep, once everything is there.
    retention: Vec<(u32, RetentionEntry)>,
    /// The number of the namespace with the pieces of long bodies.
    pieces: Option<u32>,
    /// Records that can't be read, and why, unless a key is known to lead to them.
    unreadable: BTreeMap<u64, String>,
    /// How many groups of numbers were tried of which it could not be told whether there are any.
    groups_tried: u64,
    found: Salvaged,
    progress: &'s mut dyn FnMut(u64) -> ControlFlow<()>,
}

/// What a body is read from, and who may have it.
#[derive(Clone, Copy)]
struct Wanted<'k> {
    number: u64,
    namespace: u32,
    key: &'k [u8],
    version: u32,
}

/// What is known of a version.
#[derive(Clone, Copy, Default)]
struct Known<'e> {
    /// When it was stored, unless that is lost.
    time: Option<u64>,
    /// The entry of its key, unless that is lost.
    entry: Option<&'e KeyEntry>,
    /// The index values of the key, with its latest version alone.
    values: Option<&'e IndexValues>,
}

impl Salvage<'_> {
    fn advance(&mut self, bytes: u64) {
        self.found.stopped = self.found.stopped || (self.progress)(bytes).is_break();
    }

    fn lose_entries(&mut self, table: Table, why: String) {
        self.found.lose(Loss::Entries { table, why });
    }

    /// Brings what records lead to, in the order of their numbers.
    fn bring_records(&mut self) -> Result<(), Error> {
        let (last, mut after) = (self.from.last_number(), 0);
        while after < last && !self.found.stopped {
            let numbers;
            (numbers, after) = self.next_numbers(after, last);
            for number in numbers {
                self.bring_record(number)?;
                self.into.commit_if_full()?;
                if self.found.stopped {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns numbers of records, or where it is not known which there are, numbers that some may have; and the last
    /// number that was looked at.
    fn next_numbers(&mut self, after: u64, last: u64) -> (Vec<u64>, u64) {
        if !self.from.has_made_places()
            && let Ok(numbers) = self.records.numbers(self.from, after, RECORDS_AT_ONCE)
        {
            let seen = numbers.last().copied().unwrap_or(last);
            return (numbers, seen);
        }
        // One group of places after the other.
        let first = match self.from.next_number(after) {
            Ok(Some(next)) => next,
            Ok(None) => return (Vec::new(), last),
            Err(_) if self.groups_tried < GROUPS_TRIED_MAX => {
                self.groups_tried += 1;
                after + 1
            }
            Err(error) => {
                self.lose_entries(Table::Records, error.to_string());
                return (Vec::new(), last);
            }
        };
        let (group, _) = Places::group_of(first);
        let end = (group * PLACES_PER_GROUP).saturating_add(PLACES_PER_GROUP - 1);
        let mut numbers = BTreeSet::new();
        let (from, to) = (first.to_be_bytes(), end.to_be_bytes());
        let range = (Bound::Included(&from[..]), Bound::Included(&to[..]));
        let read = self.from.each_key(Table::Records, range, &mut |key| {
            numbers.extend(key.try_into().map(u64::from_be_bytes));
            Ok(ControlFlow::Continue(()))
        });
        if !matches!(read, Ok(None)) {
            numbers.extend(first..=end);
        }
        if let Ok(places) = places::group(self.from, first) {
            numbers.extend(
                places
                    .iter(group)
                    .map(|(number, _)| number)
                    .filter(|&number| number > after),
            );
        }
        (numbers.into_iter().collect(), end)
    }

    /// Brings a record, if it is one that counts.
    fn bring_record(&mut self, number: u64) -> Result<(), Error> {
        let mut owner = None;
        let mut found = |record: Record<'_>| owner = Some((record.namespace, record.key.to_vec(), record.version));
        if let Err(error) = self.records.visit(self.from, number, &mut found) {
            let why = reason(error)?;
            if self.from.is_obsolete(number) {
                return Ok(());
            }
            match self.unreadable.len() < UNREADABLE_MAX {
                true => drop(self.unreadable.insert(number, why)),
                false => self.found.lose(Loss::Record { number, why }),
            }
            return Ok(());
        }
        let Some((namespace, key, version)) = owner else {
            return Ok(());
        };
        if self.pieces == Some(namespace) {
            return Ok(());
        }
        let wanted = Wanted {
            number,
            namespace,
            key: &key,
            version,
        };
        if let Ok(Some((entry, values))) = lookup::key_entry_with_values(self.from, &key_of(namespace, &key)) {
            if number == entry.latest {
                return self.bring_with_latest(wanted, &entry, &values);
            }
            let of_key = match version <= entry.versions {
                true => lookup::version_entry(self.from, &entry, version),
                false => Ok(None),
            };
            match of_key {
                // It comes with the latest version; or it was replaced, or purged.
                Ok(_) => return Ok(()),
                Err(error) => drop(reason(error)?),
            }
            if self.from.is_obsolete(number) {
                return Ok(());
            }
            self.bring_until(namespace, &key, (&entry, &values), version - 1)?;
        } else if self.from.is_obsolete(number) {
            return Ok(());
        }
        match self.bring(wanted, Known::default())? {
            None => Ok(()),
            Some(why) => self.lose_version((namespace, &key, version), false, why),
        }
    }

    fn lose_version(
        &mut self,
        (namespace, key, version): (u32, &[u8], u32),
        is_latest: bool,
        why: String,
    ) -> Result<(), Error> {
        let loss = Loss::Version {
            namespace: self.name(namespace)?,
            key: key.to_vec(),
            version,
            is_latest,
            why,
        };
        self.found.lose(loss);
        Ok(())
    }

    /// Brings a key, given its latest version: so keys are in the order in which they were last written. If that
    /// version can't be read, the key comes at the end.
    fn bring_with_latest(&mut self, latest: Wanted<'_>, entry: &KeyEntry, values: &IndexValues) -> Result<(), Error> {
        let Ok(content) = self.read(latest)? else {
            return Ok(());
        };
        let Wanted { namespace, key, .. } = latest;
        self.bring_until(namespace, key, (entry, values), entry.versions - 1)?;
        let known = Known {
            time: Some(entry.time),
            entry: Some(entry),
            values: Some(values),
        };
        self.add(
            Wanted {
                version: entry.versions,
                ..latest
            },
            known,
            content,
        )
    }

    /// Brings the versions of a key that the new store has not, as far as a version.
    fn bring_until(
        &mut self,
        namespace: u32,
        key: &[u8],
        (entry, values): (&KeyEntry, &IndexValues),
        last: u32,
    ) -> Result<(), Error> {
        self.space(namespace)?;
        let had = self.into.state(&self.spaces[&namespace], key)?.versions;
        // All before the oldest were purged.
        for version in (had + 1).max(entry.oldest)..=last {
            let why = match lookup::version_entry(self.from, entry, version) {
                Ok(None) => continue,
                Ok(Some(found)) => {
                    let is_latest = version == entry.versions;
                    let known = Known {
                        time: self.time_of(entry, version),
                        entry: Some(entry),
                        values: is_latest.then_some(values),
                    };
                    let number = found.number;
                    let wanted = Wanted {
                        number,
                        namespace,
                        key,
                        version,
                    };
                    self.unreadable.remove(&number);
                    let brought = match found.deleted {
                        true => self.add(wanted, known, Content::Deletion).map(|()| None),
                        false => self.bring(wanted, known),
                    };
                    match brought? {
                        None => continue,
                        Some(why) => why,
                    }
                }
                Err(error) => reason(error)?,
            };
            self.lose_version((namespace, key, version), version == entry.versions, why)?;
        }
        Ok(())
    }

    /// Returns when a version was stored, unless that is lost.
    fn time_of(&self, entry: &KeyEntry, version: u32) -> Option<u64> {
        if version == entry.versions {
            return Some(entry.time);
        }
        let group = lookup::version_group(self.from, entry.lineage, VersionGroup::of(version)).ok()??;
        match version {
            1 => Some(group.first_time),
            version => group.get(version).map(|found| found.time),
        }
    }

    /// Brings a version. Returns why it can't be read, if it can't.
    fn bring(&mut self, wanted: Wanted<'_>, known: Known<'_>) -> Result<Option<String>, Error> {
        match self.read(wanted)? {
            Ok(content) => self.add(wanted, known, content).map(|()| None),
            Err(why) => Ok(Some(why)),
        }
    }

    /// Reads a version. The error within is why it can't be read.
    fn read(&mut self, wanted: Wanted<'_>) -> Result<Result<Content, String>, Error> {
        let Wanted {
            number,
            namespace,
            key,
            version,
        } = wanted;
        let mut stored = None;
        let mut found = |body: Cow<'_, [u8]>, in_pieces: bool| stored = Some((body.into_owned(), in_pieces));
        let owner = Some((namespace, key, version));
        if let Err(error) = self.records.show_stored(self.from, None, number, owner, &mut found) {
            return reason(error).map(Err);
        }
        let Some((body, in_pieces)) = stored else {
            return Ok(Ok(Content::Deletion));
        };
        if !in_pieces {
            let length = body.len();
            return Ok(Ok(Content::Body(NewBody::from(body), length)));
        }
        let list = match pieces::list_of(number, &body) {
            Ok(list) => list,
            Err(error) => return reason(error).map(Err),
        };
        let mut writer = self.into.store().body_writer()?;
        Ok(match self.copy_pieces(&list, &mut writer)? {
            None => Ok(Content::Body(writer.finish()?.into(), 0)),
            Some(why) => Err(why),
        })
    }

    /// Copies a long body, piece by piece. Returns why it can't be read, if it can't.
    fn copy_pieces(&mut self, list: &PieceList, writer: &mut BodyWriter) -> Result<Option<String>, Error> {
        for part in &list.parts {
            let parts = match pieces::parts_of(&self.records, self.from, list, part) {
                Ok(parts) => parts,
                Err(error) => return reason(error).map(Some),
            };
            for part in &parts.parts {
                match pieces::piece(&self.records, self.from, &parts, part) {
                    Ok(bytes) => {
                        writer.push(&bytes)?;
                        self.found.body_bytes += bytes.len() as u64;
                        self.advance(bytes.len() as u64);
                    }
                    Err(error) => return reason(error).map(Some),
                }
            }
        }
        Ok(None)
    }

    /// Adds a version, after those before it that are gone.
    fn add(&mut self, wanted: Wanted<'_>, known: Known<'_>, content: Content) -> Result<(), Error> {
        let Wanted {
            namespace,
            key,
            version,
            ..
        } = wanted;
        self.space(namespace)?;
        let had = self.into.state(&self.spaces[&namespace], key)?.versions;
        let keeps_versions = self.spaces[&namespace].keeps_versions();
        if keeps_versions && version <= had {
            return Ok(());
        }
        let gap = had + 1..version;
        let has_gap = keeps_versions && !gap.is_empty();
        if has_gap {
            self.add_gone(namespace, key, gap.clone(), known.entry)?;
        }
        let length = match content {
            Content::Body(_, length) => Some(length as u64),
            Content::Deletion | Content::Gone => None,
        };
        let space = &self.spaces[&namespace];
        self.into.add(space, key, content, known.time.unwrap_or(0))?;
        if let (Some(entry), Some(values), Some(_)) = (known.entry, known.values, length) {
            let lost = self.into.describe(space, entry, values);
            if lost > 0 {
                let (namespace, key) = (space.namespace.name().to_owned(), key.to_vec());
                let values = lost;
                self.found.lose(Loss::IndexValues { namespace, key, values });
            }
        }
        if has_gap {
            self.into.purge(space, key, gap.start, gap.end - 1);
        }
        self.found.versions += 1;
        self.found.undated += u64::from(known.time.is_none());
        self.found.body_bytes += length.unwrap_or(0);
        self.advance(length.unwrap_or(0));
        Ok(())
    }

    /// Adds versions that are gone, with their times as far as they are known.
    fn add_gone(
        &mut self,
        namespace: u32,
        key: &[u8],
        versions: std::ops::Range<u32>,
        entry: Option<&KeyEntry>,
    ) -> Result<(), Error> {
        for version in versions {
            let time = entry.and_then(|entry| self.time_of(entry, version)).unwrap_or(0);
            self.into.add(&self.spaces[&namespace], key, Content::Gone, time)?;
            self.into.commit_if_full()?;
        }
        Ok(())
    }

    /// Brings what no record has led to, and deletes keys whose latest versions are lost.
    fn bring_rest(&mut self) -> Result<(), Error> {
        let from = self.from;
        let failure = from.each_key(Table::Keys, (Bound::Unbounded, Bound::Unbounded), &mut |stored_key| {
            self.advance(0);
            if self.found.stopped {
                return Ok(ControlFlow::Break(()));
            }
            let Ok((namespace, key)) = split_key(stored_key) else {
                return Ok(ControlFlow::Continue(()));
            };
            if self.pieces != Some(namespace) {
                self.bring_key(namespace, key)?;
                self.into.commit_if_full()?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(why) = failure {
            self.lose_entries(Table::Keys, why);
        }
        Ok(())
    }

    fn bring_key(&mut self, namespace: u32, key: &[u8]) -> Result<(), Error> {
        let stored_key = key_of(namespace, key);
        let decoded = lookup::key_entry_with_values(self.from, &stored_key).and_then(|found| {
            let missing = || Error::damaged(Table::Keys, &stored_key, Damage::Missing);
            found.ok_or_else(missing)
        });
        let (entry, values) = match decoded {
            Ok(decoded) => decoded,
            Err(error) => {
                let loss = Loss::Key {
                    namespace: self.name(namespace)?,
                    key: key.to_vec(),
                    why: reason(error)?,
                };
                self.found.lose(loss);
                return Ok(());
            }
        };
        self.space(namespace)?;
        let before = self.into.state(&self.spaces[&namespace], key)?;
        if before.versions >= entry.versions && before.is_live != entry.deleted {
            if before.is_live && !values.is_empty() {
                self.find_again(namespace, key, &values)?;
            }
            return Ok(());
        }
        self.bring_until(namespace, key, (&entry, &values), entry.versions)?;
        let space = &self.spaces[&namespace];
        let had = self.into.state(space, key)?.versions;
        if had >= entry.versions || !space.keeps_versions() {
            return Ok(());
        }
        // The latest version is lost. No version before it may be taken for it, nor a later one get its number.
        if had == 0 && entry.versions == 1 {
            return Ok(());
        }
        self.add_gone(namespace, key, had + 1..entry.versions + 1, Some(&entry))?;
        let space = &self.spaces[&namespace];
        self.into.add(space, key, Content::Deletion, 0)?;
        self.into.purge(space, key, had + 1, entry.versions);
        Ok(())
    }

    /// Gives a key its index values if it was brought without them.
    fn find_again(&mut self, namespace: u32, key: &[u8], values: &IndexValues) -> Result<(), Error> {
        let space = &self.spaces[&namespace];
        if !self.into.is_pending(space, key) && space.namespace.index_values(key)?.is_empty() {
            self.into.describe_again(space, key, values);
        }
        Ok(())
    }

    /// Sets what namespaces keep, now that everything is there, and returns what was found.
    fn end(mut self) -> Result<Salvaged, Error> {
        for (number, retention) in std::mem::take(&mut self.retention) {
            self.spaces[&number].namespace.set_retention(Retention::of(retention))?;
        }
        for (number, why) in std::mem::take(&mut self.unreadable) {
            self.found.lose(Loss::Record { number, why });
        }
        Ok(self.found)
    }
}

/// Returns why something can't be read; the error itself if it is not because of damage.
fn reason(error: Error) -> Result<String, Error> {
    match error {
        Error::Damaged { found, .. } => Ok(found.to_string()),
        Error::Engine(EngineError::Damaged { found, .. }) => Ok(found),
        Error::Engine(EngineError::Io { .. }) => Ok(error.to_string()),
        error => Err(error),
    }
}
