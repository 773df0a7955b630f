//! Reading a damaged store.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use ibid_format::record::{
    BlockFrameDecoder, NUMBER_MAX, PLACES_PER_GROUP, Place, Places, Record, frames_of_block, key_of, records_of_frame,
};

use crate::engine::{Commit, Direction, EachKey, EachPair, Engine, EngineError, KeyRange, Read, Snapshot, Table};
use crate::error::Error;
use crate::read::{lookup, places};
use crate::write::references;

/// Keys of a table that are read at once.
const KEYS_AT_ONCE: usize = 1024;
/// Most groups of places that are made anew, each of 256 records; each takes 6 KiB of memory meanwhile.
const GROUPS_MAX: usize = 1 << 12;

/// Is called with each key that can be read, until it breaks or fails.
type EachFound<'a> = &'a mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>, Error>;

/// Is called with each record in a block: its number, its place and its bytes.
type EachRecord<'a> = &'a mut dyn FnMut(u64, Place, &[u8]) -> Result<(), Error>;

/// A snapshot of a damaged store. Where its table of places is damaged, it has what the blocks themselves say instead.
pub(super) struct Source {
    snapshot: Box<dyn Snapshot>,
    /// The entries of the table `places` that were made anew, by their groups.
    places: BTreeMap<u64, Vec<u8>>,
}

impl Source {
    pub(super) fn new(snapshot: Box<dyn Snapshot>) -> Self {
        let places = BTreeMap::new();
        Source { snapshot, places }
    }

    /// Looks into all blocks for records whose places are lost, and makes these anew. `each_block` is called with the
    /// length of each block, and may end the search.
    pub(super) fn find_places(&mut self, each_block: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<(), Error> {
        let mut found: BTreeMap<u64, Places> = BTreeMap::new();
        let source = &*self;
        source.search_blocks(each_block, &mut |number, place, record| {
            let (group, _) = Places::group_of(number);
            if (found.len() < GROUPS_MAX || found.contains_key(&group)) && source.lacks(number, record) {
                found.entry(group).or_default().set(number, Some(place));
            }
            Ok(())
        })?;
        for (group, lost) in found {
            if let Some(entry) = with_known(self, group, lost) {
                self.places.insert(group, entry);
            }
        }
        Ok(())
    }

    /// Shows all records in blocks to `each_record`, with their places.
    fn search_blocks(
        &self,
        each_block: &mut dyn FnMut(u64) -> ControlFlow<()>,
        each_record: EachRecord<'_>,
    ) -> Result<(), Error> {
        let (mut decoder, mut raw) = (BlockFrameDecoder::default(), Vec::new());
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let read = self.each_key(Table::Blocks, everything, &mut |key| {
            let Ok(block) = key.try_into().map(u64::from_be_bytes) else {
                return Ok(ControlFlow::Continue(()));
            };
            let (mut length, mut shown) = (0, Ok(()));
            let mut visit = |bytes: &[u8]| {
                length = bytes.len() as u64;
                for (frame, packed) in (0..).zip(frames_of_block(block, bytes).unwrap_or_default()) {
                    if decoder.decode(&packed, &mut raw).is_err() {
                        continue;
                    }
                    for (number, record) in records_of_frame(&raw, packed.records()).unwrap_or_default() {
                        if shown.is_ok() && number <= NUMBER_MAX {
                            shown = each_record(number, Place { block, frame }, record);
                        }
                    }
                }
            };
            // A block that can't be read has nothing that could be found.
            let _ = self.get(Table::Blocks, key, &mut visit);
            shown.map(|()| each_block(length))
        });
        read.map(drop)
    }

    /// Returns whether a record that is in a block can't be found although it is needed. What was left in a block when
    /// it was removed, or moved elsewhere, is not.
    fn lacks(&self, number: u64, record: &[u8]) -> bool {
        match places::group(self, number) {
            Err(_) => !self.has_by_itself(number),
            Ok(places) if places.get(number).is_some() => false,
            Ok(_) => !self.has_by_itself(number) && (self.is_base(number) || self.is_led_to(number, record)),
        }
    }

    fn has_by_itself(&self, number: u64) -> bool {
        self.contains(Table::Records, &number.to_be_bytes()).unwrap_or(false)
    }

    fn is_base(&self, number: u64) -> bool {
        references::group(self, number).is_ok_and(|references| references.count(number) > 0)
    }

    fn is_led_to(&self, number: u64, record: &[u8]) -> bool {
        let Ok(Record {
            namespace,
            key,
            version,
            ..
        }) = Record::decode_packed(number, record)
        else {
            return false;
        };
        let Ok(Some(entry)) = lookup::key_entry(self, &key_of(namespace, key)) else {
            return false;
        };
        (1..=entry.versions).contains(&version)
            && lookup::version_entry(self, &entry, version)
                .is_ok_and(|found| found.is_some_and(|found| found.number == number))
    }

    /// Returns whether it has places that the store has lost.
    pub(super) fn has_made_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns a number after `after` that no record is before.
    ///
    /// # Errors
    /// What keeps the engine from telling.
    pub(super) fn next_number(&self, after: u64) -> Result<Option<u64>, EngineError> {
        let first = after + 1;
        let next_of = |table: Table, from: u64| {
            let (mut next, from) = (None, from.to_be_bytes());
            let range = (Bound::Included(&from[..]), Bound::Unbounded);
            self.keys(table, range, Direction::Forward, &mut |key| {
                next = key.try_into().ok().map(u64::from_be_bytes);
                ControlFlow::Break(())
            })?;
            Ok::<_, EngineError>(next)
        };
        let (group, _) = Places::group_of(first);
        let made = self.places.range(group..).next().map(|(group, _)| *group);
        let by_itself = next_of(Table::Records, first)?;
        let in_blocks = next_of(Table::Places, group)?.into_iter().chain(made).min();
        let in_blocks = in_blocks.map(|group| group.saturating_mul(PLACES_PER_GROUP).max(first));
        Ok(by_itself
            .into_iter()
            .chain(in_blocks)
            .min()
            .filter(|&number| number <= NUMBER_MAX))
    }

    /// Returns whether a record is known to be needed only by others: no key leads to it any more.
    pub(super) fn is_obsolete(&self, number: u64) -> bool {
        references::group(self, number).is_ok_and(|references| references.is_obsolete(number))
    }

    /// Returns a number that no record is above.
    pub(super) fn last_number(&self) -> u64 {
        if let Ok(next) = lookup::next(self) {
            return next.record.saturating_sub(1);
        }
        let last_of = |table: Table, records: u64| {
            let mut last = 0;
            let _ = self.keys(
                table,
                (Bound::Unbounded, Bound::Unbounded),
                Direction::Backward,
                &mut |key| {
                    last = key.try_into().map_or(0, u64::from_be_bytes);
                    ControlFlow::Break(())
                },
            );
            last.saturating_mul(records).saturating_add(records - 1)
        };
        let made = self.places.last_key_value().map_or(0, |(group, _)| *group);
        last_of(Table::Records, 1)
            .max(last_of(Table::Places, PLACES_PER_GROUP))
            .max(
                made.saturating_mul(PLACES_PER_GROUP)
                    .saturating_add(PLACES_PER_GROUP - 1),
            )
    }

    /// Returns the number of the namespace that comes next, if it can be read.
    pub(super) fn next_namespace(&self) -> Option<u32> {
        lookup::next(self).ok().map(|next| next.namespace)
    }

    /// Shows all keys of a range of a table to `each` that can be read, without their values, until it fails or
    /// breaks. Those behind a place that can't be read are shown from the last one on. Returns what is wrong with such
    /// a place, if there is one.
    pub(super) fn each_key(
        &self,
        table: Table,
        range: KeyRange<'_>,
        each: EachFound<'_>,
    ) -> Result<Option<String>, Error> {
        let mut first = range.0.map(<[u8]>::to_vec);
        let mut last = range.1.map(<[u8]>::to_vec);
        let mut failure = None;
        for direction in [Direction::Forward, Direction::Backward] {
            loop {
                let mut page = Vec::new();
                let bounds = (first.as_ref().map(Vec::as_slice), last.as_ref().map(Vec::as_slice));
                let read = self.keys(table, bounds, direction, &mut |key| {
                    page.push(key.to_vec());
                    match page.len() < KEYS_AT_ONCE {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                });
                let is_full = page.len() == KEYS_AT_ONCE;
                for key in page {
                    if each(&key)?.is_break() {
                        return Ok(failure);
                    }
                    match direction {
                        Direction::Forward => first = Bound::Excluded(key),
                        Direction::Backward => last = Bound::Excluded(key),
                    }
                }
                match read {
                    Ok(()) if is_full => {}
                    Ok(()) => return Ok(failure),
                    Err(error) => {
                        failure.get_or_insert(error.to_string());
                        break;
                    }
                }
            }
        }
        Ok(failure)
    }
}

/// Makes the table of places anew in an engine that was made of segments: most of its entries are not in these.
pub(crate) fn restore_places(
    engine: &dyn Engine,
    each_block: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), Error> {
    let source = Source::new(engine.snapshot()?);
    let mut found: BTreeMap<u64, Places> = BTreeMap::new();
    let store = |found: &mut BTreeMap<u64, Places>| {
        engine.write(Commit::Unsynced, &mut |transaction| {
            for (&group, lost) in found.iter() {
                if let Some(entry) = with_known(&*transaction, group, lost.clone()) {
                    transaction.put(Table::Places, &group.to_be_bytes(), &entry)?;
                }
            }
            Ok(())
        })?;
        found.clear();
        Ok::<_, EngineError>(())
    };
    source.search_blocks(each_block, &mut |number, place, _| {
        if !source.has_by_itself(number) {
            let (group, _) = Places::group_of(number);
            found.entry(group).or_default().set(number, Some(place));
            if found.len() == GROUPS_MAX {
                store(&mut found)?;
            }
        }
        Ok(())
    })?;
    Ok(store(&mut found)?)
}

/// Returns the entry of a group with places that are known, and those that were found of others.
fn with_known(read: &(impl Read + ?Sized), group: u64, mut found: Places) -> Option<Vec<u8>> {
    let known = places::group(read, group * PLACES_PER_GROUP).unwrap_or_default();
    known
        .iter(group)
        .for_each(|(number, place)| found.set(number, Some(place)));
    found.encode(group).ok()
}

impl Read for Source {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        if table == Table::Places
            && !self.places.is_empty()
            && let Ok(group) = key.try_into().map(u64::from_be_bytes)
            && let Some(entry) = self.places.get(&group)
        {
            found(entry);
            return Ok(true);
        }
        self.snapshot.get(table, key, found)
    }

    fn contains(&self, table: Table, key: &[u8]) -> Result<bool, EngineError> {
        self.snapshot.contains(table, key)
    }

    fn get_part(
        &self,
        table: Table,
        key: &[u8],
        at: u64,
        length: usize,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, EngineError> {
        self.snapshot.get_part(table, key, at, length, found)
    }

    fn reads_parts(&self) -> bool {
        self.snapshot.reads_parts()
    }

    fn keys(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        self.snapshot.keys(table, range, direction, each)
    }

    fn range(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        self.snapshot.range(table, range, direction, each)
    }
}
