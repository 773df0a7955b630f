//! Commits that are in the log and not in redb's tables, in memory.
//!
//! Each commit is a layer, sorted by keys, which never changes: so a snapshot keeps those that it has seen. Layers of
//! about the same length are made into one, so there are few. Reads look into the newest first, and into redb last.
//! Most keys are in no layer, or in one: a filter in each says so, before anything is compared.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::ops::{Bound, ControlFlow, RangeBounds};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::stored::EachStored;
use crate::engine::{Direction, EngineError, KeyRange, Table, is_void};

/// How many times as long as the next newer one a layer is, or both are made into one.
const RATIO: usize = 2;
/// Length of an entry that stands for no value.
const REMOVED: u32 = u32::MAX;
/// Bits of a filter for each of its keys: it takes about one in a hundred other keys for one of them.
const FILTER_BITS: usize = 12;

type Bounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// What a transaction makes of keys: what redb is to store of each; [`None`] if it is removed.
#[derive(Default)]
pub(super) struct Changes {
    tables: [BTreeMap<Vec<u8>, Option<Vec<u8>>>; Table::ALL.len()],
}

impl Changes {
    /// Notes a change.
    pub(super) fn set(&mut self, table: Table, key: &[u8], stored: Option<Vec<u8>>) {
        self.tables[table as usize].insert(key.to_vec(), stored);
    }

    /// Returns what was made of a key; [`None`] if it was not changed.
    fn get(&self, table: Table, key: &[u8]) -> Option<Option<&[u8]>> {
        self.tables[table as usize].get(key).map(Option::as_deref)
    }
}

/// Where a key is in the bytes of a part, with what is stored of it behind it.
#[derive(Clone, Copy)]
struct Entry {
    at: usize,
    key: u32,
    stored: u32,
}

/// Tells of most keys that they are not among some, by reading one word. [`Part`] says which these are.
#[derive(Default)]
struct Filter(Box<[u64]>);

impl Filter {
    /// Returns the filter of some keys.
    fn of<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Self {
        let mut filter = Filter(vec![0; (keys.len() * FILTER_BITS).div_ceil(64)].into());
        for hash in keys.map(xxh3_64) {
            let at = filter.word_of(hash);
            filter.0[at] |= Filter::bits_of(hash);
        }
        filter
    }

    /// Whether a key with this hash may be one of the keys. If it is one, it may.
    fn may_have(&self, hash: u64) -> bool {
        let bits = Filter::bits_of(hash);
        self.0.get(self.word_of(hash)).is_some_and(|word| word & bits == bits)
    }

    /// Which word says whether a key is there.
    fn word_of(&self, hash: u64) -> usize {
        (((hash >> 32) * self.0.len() as u64) >> 32) as usize
    }

    /// Four bits, some of which may be the same, of one word.
    fn bits_of(hash: u64) -> u64 {
        [0, 6, 12, 18]
            .iter()
            .fold(0, |bits, from| bits | 1 << ((hash >> from) & 63))
    }
}

/// What a layer has of a table, ascending by keys.
#[derive(Default)]
struct Part {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// Of all keys, once the part is whole.
    filter: Filter,
}

impl Part {
    fn with_room(bytes: usize, entries: usize) -> Self {
        Part {
            bytes: Vec::with_capacity(bytes),
            entries: Vec::with_capacity(entries),
            filter: Filter::default(),
        }
    }

    /// Returns the part with the filter of its keys, to which none is added.
    fn whole(mut self) -> Self {
        self.filter = Filter::of(self.entries.iter().map(|entry| self.key(*entry)));
        self
    }

    /// Adds a key. The engine takes none, and no value, that is as long as 4 GiB.
    fn push(&mut self, key: &[u8], stored: Option<&[u8]>) {
        self.entries.push(Entry {
            at: self.bytes.len(),
            key: key.len() as u32,
            stored: stored.map_or(REMOVED, |stored| stored.len() as u32),
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(stored.unwrap_or_default());
    }

    fn key(&self, entry: Entry) -> &[u8] {
        &self.bytes[entry.at..][..entry.key as usize]
    }

    fn stored(&self, entry: Entry) -> Option<&[u8]> {
        let at = entry.at + entry.key as usize;
        (entry.stored != REMOVED).then(|| &self.bytes[at..][..entry.stored as usize])
    }

    /// Returns what is to be stored of a key with this hash; [`None`] if the part has nothing of it.
    fn get(&self, hash: u64, key: &[u8]) -> Option<Option<&[u8]>> {
        if !self.filter.may_have(hash) {
            return None;
        }
        let found = self.entries.binary_search_by(|entry| self.key(*entry).cmp(key));
        found.ok().map(|place| self.stored(self.entries[place]))
    }

    /// Returns the entries of a range that is not void.
    fn range(&self, (from, to): Bounds<'_>) -> &[Entry] {
        let begin = self
            .entries
            .partition_point(|entry| !(from, Bound::Unbounded).contains(self.key(*entry)));
        let rest = &self.entries[begin..];
        &rest[..rest.partition_point(|entry| (Bound::Unbounded, to).contains(self.key(*entry)))]
    }

    /// Returns a part with what `newer` has, and what only `older` has.
    fn merged(older: &Part, newer: &Part) -> Part {
        let entries = older.entries.len() + newer.entries.len();
        let mut merged = Part::with_room(older.bytes.len() + newer.bytes.len(), entries);
        let (mut old, mut new) = (older.entries.iter().peekable(), newer.entries.iter().peekable());
        let take = |merged: &mut Part, part: &Part, entry: Entry| merged.push(part.key(entry), part.stored(entry));
        while let Some((&&before, &&after)) = old.peek().zip(new.peek()) {
            match older.key(before).cmp(newer.key(after)) {
                Ordering::Less => take(&mut merged, older, before),
                Ordering::Equal | Ordering::Greater => take(&mut merged, newer, after),
            }
            match older.key(before).cmp(newer.key(after)) {
                Ordering::Less => drop(old.next()),
                Ordering::Greater => drop(new.next()),
                Ordering::Equal => drop((old.next(), new.next())),
            }
        }
        old.for_each(|entry| take(&mut merged, older, *entry));
        new.for_each(|entry| take(&mut merged, newer, *entry));
        if merged.entries.len() < entries {
            merged.bytes.shrink_to_fit();
            merged.entries.shrink_to_fit();
        }
        merged.whole()
    }

    /// What it takes of memory, bytes.
    fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>() + size_of_val(&*self.filter.0)
    }
}

/// What some commits have made of keys.
#[derive(Default)]
pub(super) struct Layer {
    tables: [Part; Table::ALL.len()],
}

impl Layer {
    /// Returns a layer of the changes of one transaction.
    pub(super) fn of(changes: &Changes) -> Self {
        Layer {
            tables: std::array::from_fn(|table| {
                let changes = &changes.tables[table];
                let length =
                    |(key, stored): (&Vec<u8>, &Option<Vec<u8>>)| key.len() + stored.as_ref().map_or(0, Vec::len);
                let mut part = Part::with_room(changes.iter().map(length).sum(), changes.len());
                changes
                    .iter()
                    .for_each(|(key, stored)| part.push(key, stored.as_deref()));
                part.whole()
            }),
        }
    }

    /// Returns a layer of the changes of both.
    fn merged(older: &Layer, newer: &Layer) -> Self {
        Layer {
            tables: std::array::from_fn(|table| Part::merged(&older.tables[table], &newer.tables[table])),
        }
    }

    /// Returns one layer of several, the oldest of which is the first.
    pub(super) fn of_all(layers: &[Arc<Layer>]) -> Arc<Layer> {
        // The newest are the shortest.
        let merged = layers
            .iter()
            .rev()
            .cloned()
            .reduce(|newer, older| Arc::new(Layer::merged(&older, &newer)));
        merged.unwrap_or_default()
    }

    /// How many keys it has.
    pub(super) fn changes(&self) -> usize {
        self.tables.iter().map(|part| part.entries.len()).sum()
    }

    /// What it takes of memory, bytes.
    pub(super) fn memory(&self) -> usize {
        self.tables.iter().map(Part::memory).sum()
    }

    /// Returns all keys in the order of tables and keys, each with what is to be stored of it.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        Table::ALL.into_iter().flat_map(|table| {
            let part = &self.tables[table as usize];
            let entries = part.entries.iter();
            entries.map(move |entry| (table, part.key(*entry), part.stored(*entry)))
        })
    }
}

/// Changes in the order of commits, of which a layer is made.
#[derive(Default)]
pub(super) struct Unsorted {
    tables: [Part; Table::ALL.len()],
}

impl Unsorted {
    /// Adds a change, after all before.
    pub(super) fn push(&mut self, table: Table, key: &[u8], stored: Option<&[u8]>) {
        self.tables[table as usize].push(key, stored);
    }

    /// Returns the layer; [`None`] if there are no changes.
    pub(super) fn into_layer(self) -> Option<Layer> {
        let layer = Layer {
            tables: self.tables.map(|part| {
                let Part { bytes, mut entries, .. } = part;
                let key = |entry: &Entry| &bytes[entry.at..][..entry.key as usize];
                // Of those with the same key, the last is the newest.
                entries.sort_by(|one, other| key(one).cmp(key(other)).then(other.at.cmp(&one.at)));
                let all = entries.len();
                entries.dedup_by(|later, kept| key(later) == key(kept));
                let filter = Filter::default();
                let replaced = Part { bytes, entries, filter };
                if replaced.entries.len() > all / 2 {
                    return replaced.whole();
                }
                // What was replaced takes most.
                let length =
                    |entry: &Entry| replaced.key(*entry).len() + replaced.stored(*entry).map_or(0, <[u8]>::len);
                let mut part = Part::with_room(replaced.entries.iter().map(length).sum(), replaced.entries.len());
                for entry in &replaced.entries {
                    part.push(replaced.key(*entry), replaced.stored(*entry));
                }
                part.whole()
            }),
        };
        (layer.changes() > 0).then_some(layer)
    }
}

/// All layers above redb's tables, the oldest of which is the first.
#[derive(Clone, Default)]
pub(super) struct Layers {
    /// Those that are being stored in redb. Some of it may be there already.
    frozen: Vec<Arc<Layer>>,
    /// Those that come after them.
    recent: Vec<Arc<Layer>>,
}

impl Layers {
    /// Returns these layers, and one that is newer.
    pub(super) fn with(&self, newest: Layer) -> Self {
        let mut recent = self.recent.clone();
        let mut newest = Arc::new(newest);
        while let Some(older) = recent.pop_if(|older| older.changes() <= RATIO * newest.changes()) {
            newest = Arc::new(Layer::merged(&older, &newest));
        }
        recent.push(newest);
        let frozen = self.frozen.clone();
        Layers { frozen, recent }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.frozen.is_empty() && self.recent.is_empty()
    }

    /// Takes over what is recent in others.
    pub(super) fn take_recent(&mut self, others: Layers) {
        self.recent = others.recent;
    }

    /// Freezes all of them, to be stored in redb. Before, none is frozen. Returns them.
    pub(super) fn freeze(&mut self) -> Vec<Arc<Layer>> {
        debug_assert!(self.frozen.is_empty(), "one checkpoint at a time");
        self.frozen = std::mem::take(&mut self.recent);
        self.frozen.clone()
    }

    /// Replaces those that are frozen by one with the same changes.
    pub(super) fn replace_frozen(&mut self, merged: Arc<Layer>) {
        self.frozen = vec![merged];
    }

    /// Removes those that were frozen: redb has them.
    pub(super) fn thaw(&mut self) {
        self.frozen.clear();
    }

    /// What those take of memory that are not frozen, bytes.
    pub(super) fn recent_memory(&self) -> usize {
        self.recent.iter().map(|layer| layer.memory()).sum()
    }

    /// How many keys those have that are not frozen. One counts for each layer that it is in.
    pub(super) fn recent_changes(&self) -> usize {
        self.recent.iter().map(|layer| layer.changes()).sum()
    }

    fn newest_first(&self) -> impl Iterator<Item = &Layer> {
        self.recent
            .iter()
            .rev()
            .chain(self.frozen.iter().rev())
            .map(|layer| &**layer)
    }

    /// Returns what commits, and `own` changes after them, have made of a key; [`None`] if they have not changed it.
    pub(super) fn get<'l>(&'l self, own: Option<&'l Changes>, table: Table, key: &[u8]) -> Option<Option<&'l [u8]>> {
        own.and_then(|own| own.get(table, key)).or_else(|| {
            let hash = xxh3_64(key);
            self.newest_first()
                .find_map(|layer| layer.tables[table as usize].get(hash, key))
        })
    }

    /// Shows the keys of a range to `each` as they are after the commits, and `own` changes after them. `below` shows
    /// those of redb.
    pub(super) fn range(
        &self,
        own: Option<&Changes>,
        (table, keys): (Table, KeyRange<'_>),
        direction: Direction,
        below: &mut dyn FnMut(EachStored<'_>) -> Result<(), EngineError>,
        each: EachStored<'_>,
    ) -> Result<(), EngineError> {
        if is_void(&keys) {
            return Ok(());
        }
        let mut above = Above::new(direction);
        if let Some(own) = own {
            above.push(Rest::Changes(
                own.tables[table as usize].range::<[u8], Bounds<'_>>(keys),
            ));
        }
        for layer in self.newest_first() {
            let part = &layer.tables[table as usize];
            above.push(Rest::Part(part, part.range(keys)));
        }
        if above.sources.is_empty() {
            return below(each);
        }
        let mut flow = ControlFlow::Continue(());
        below(&mut |key, stored| {
            let mut is_changed = false;
            while flow.is_continue()
                && let Some((changed, change)) = above.next_up_to(Some(key))
            {
                is_changed = changed == key;
                if let Some(change) = change {
                    flow = each(changed, change)?;
                }
            }
            if flow.is_continue() && !is_changed {
                flow = each(key, stored)?;
            }
            Ok(flow)
        })?;
        while flow.is_continue()
            && let Some((changed, change)) = above.next_up_to(None)
        {
            if let Some(change) = change {
                flow = each(changed, change)?;
            }
        }
        Ok(())
    }
}

/// What is left of a range.
enum Rest<'l> {
    Changes(Range<'l, Vec<u8>, Option<Vec<u8>>>),
    Part(&'l Part, &'l [Entry]),
}

type Pair<'l> = (&'l [u8], Option<&'l [u8]>);

impl<'l> Rest<'l> {
    fn next(&mut self, direction: Direction) -> Option<Pair<'l>> {
        match self {
            Rest::Changes(changes) => {
                let next = match direction {
                    Direction::Forward => changes.next(),
                    Direction::Backward => changes.next_back(),
                };
                next.map(|(key, stored)| (key.as_slice(), stored.as_deref()))
            }
            Rest::Part(part, entries) => {
                let (entry, rest) = match direction {
                    Direction::Forward => entries.split_first()?,
                    Direction::Backward => entries.split_last()?,
                };
                *entries = rest;
                Some((part.key(*entry), part.stored(*entry)))
            }
        }
    }
}

/// The changed keys of a range that are still to be shown, from several sources, the newest of which is the first.
struct Above<'l> {
    sources: Vec<(Pair<'l>, Rest<'l>)>,
    direction: Direction,
}

impl<'l> Above<'l> {
    fn new(direction: Direction) -> Self {
        let sources = Vec::new();
        Above { sources, direction }
    }

    fn push(&mut self, mut rest: Rest<'l>) {
        if let Some(next) = rest.next(self.direction) {
            self.sources.push((next, rest));
        }
    }

    /// Whether a key comes before another one.
    fn is_before(&self, key: &[u8], other: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => key < other,
            Direction::Backward => key > other,
        }
    }

    /// Takes the next changed key that does not come after `last`, with what the newest source has of it.
    fn next_up_to(&mut self, last: Option<&[u8]>) -> Option<Pair<'l>> {
        let (mut first, others) = self.sources.split_first().map(|((pair, _), others)| (*pair, others))?;
        for ((key, stored), _) in others {
            if self.is_before(key, first.0) {
                first = (*key, *stored);
            }
        }
        if last.is_some_and(|last| self.is_before(last, first.0)) {
            return None;
        }
        let direction = self.direction;
        self.sources.retain_mut(|((key, stored), rest)| {
            if *key != first.0 {
                return true;
            }
            let next = rest.next(direction);
            (*key, *stored) = next.unwrap_or_default();
            next.is_some()
        });
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table::Keys;

    /// Returns numbers that look random, the same each time.
    fn numbers() -> impl FnMut(u64) -> u64 {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        move |below| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        }
    }

    type Model = BTreeMap<Vec<u8>, Vec<u8>>;

    /// Changes some keys, most of which others have changed as well.
    fn change(below: &mut impl FnMut(u64) -> u64, model: &mut Model) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let changes = (0..1 + below(20)).map(|_| {
            let key = vec![1 + below(60) as u8; 1 + below(2) as usize];
            let stored = (below(3) > 0).then(|| vec![below(256) as u8; below(5) as usize]);
            match &stored {
                Some(stored) => drop(model.insert(key.clone(), stored.clone())),
                None => drop(model.remove(&key)),
            }
            (key, stored)
        });
        changes.collect()
    }

    fn set_all(changes: &mut Changes, all: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        all.into_iter()
            .for_each(|(key, stored)| changes.set(TABLE, &key, stored));
    }

    /// Checks that all reads find what the model has.
    fn assert_same(layers: &Layers, own: &Changes, base: &Model, model: &Model, below: &mut impl FnMut(u64) -> u64) {
        let own = Some(own);
        for key in (0..=255).flat_map(|byte| [vec![byte], vec![byte; 2]]) {
            let found = match layers.get(own, TABLE, &key) {
                Some(stored) => stored.map(<[u8]>::to_vec),
                None => base.get(&key).cloned(),
            };
            assert_eq!(found, model.get(&key).cloned());
        }
        let (one, other) = (vec![below(70) as u8], vec![below(70) as u8; 2]);
        let bounds = |key: &'_ Vec<u8>, kind| match kind {
            0 => Bound::Unbounded,
            1 => Bound::Included(key.clone()),
            _ => Bound::Excluded(key.clone()),
        };
        let (from, to) = (bounds(&one, below(3)), bounds(&other, below(3)));
        let keys = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        for direction in [Direction::Forward, Direction::Backward] {
            let within = |map: &Model| {
                let mut pairs: Vec<_> = match is_void(&keys) {
                    true => Vec::new(),
                    false => map
                        .range::<[u8], Bounds<'_>>(keys)
                        .map(|(key, stored)| (key.clone(), stored.clone()))
                        .collect(),
                };
                if direction == Direction::Backward {
                    pairs.reverse();
                }
                pairs
            };
            let expected = within(model);
            for most in [1, 2, usize::MAX] {
                let mut found = Vec::new();
                let mut show_below = |each: EachStored<'_>| {
                    for (key, stored) in within(base) {
                        if each(&key, &stored)?.is_break() {
                            break;
                        }
                    }
                    Ok(())
                };
                let mut each = |key: &[u8], stored: &[u8]| {
                    found.push((key.to_vec(), stored.to_vec()));
                    Ok(match found.len() >= most {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    })
                };
                let shown = layers.range(own, (TABLE, keys), direction, &mut show_below, &mut each);
                shown.unwrap();
                assert_eq!(found, expected[..most.min(expected.len())], "{keys:?} {direction:?}");
            }
        }
    }

    #[test]
    fn layers_above_a_table_are_read_as_if_all_were_one_map() {
        let mut below = numbers();
        for _ in 0..300 {
            let (mut base, mut model, mut layers) = (Model::new(), Model::new(), Layers::default());
            change(&mut below, &mut base);
            model.clone_from(&base);
            for _ in 0..below(12) {
                match below(8) {
                    0 if layers.frozen.is_empty() => {
                        let frozen = layers.freeze();
                        if below(2) == 0 {
                            layers.replace_frozen(Layer::of_all(&frozen));
                        }
                    }
                    // Some of it may be stored already, or all.
                    1 => {
                        let layer = Layer::of_all(&layers.frozen);
                        let part = below(1 + layer.changes() as u64) as usize;
                        for (_, key, stored) in layer.iter().take(part) {
                            match stored {
                                Some(stored) => drop(base.insert(key.to_vec(), stored.to_vec())),
                                None => drop(base.remove(key)),
                            }
                        }
                        if part == layer.changes() {
                            layers.thaw();
                        }
                    }
                    2 => {
                        let mut unsorted = Unsorted::default();
                        for _ in 0..below(5) {
                            for (key, stored) in change(&mut below, &mut model) {
                                unsorted.push(TABLE, &key, stored.as_deref());
                            }
                        }
                        if let Some(layer) = unsorted.into_layer() {
                            layers = layers.with(layer);
                        }
                    }
                    _ => {
                        let mut changes = Changes::default();
                        set_all(&mut changes, change(&mut below, &mut model));
                        layers = layers.with(Layer::of(&changes));
                    }
                }
            }
            let mut own = Changes::default();
            if below(2) == 0 {
                set_all(&mut own, change(&mut below, &mut model));
            }
            for _ in 0..4 {
                assert_same(&layers, &own, &base, &model, &mut below);
            }
        }
    }

    #[test]
    fn there_are_few_layers_however_many_commits() {
        let mut layers = Layers::default();
        for number in 0..10_000_u32 {
            let mut changes = Changes::default();
            changes.set(TABLE, &number.to_be_bytes(), Some(vec![0; 10]));
            layers = layers.with(Layer::of(&changes));
            assert!(layers.recent.len() <= 14);
        }
        assert_eq!(layers.recent_changes(), 10_000);
        assert!(layers.recent_memory() < 10_000 * (4 + 10 + 2 * size_of::<Entry>()));
    }

    #[test]
    fn a_filter_has_all_of_its_keys_and_few_others() {
        for count in [1, 2, 100, 20_000_u32] {
            let keys: Vec<[u8; 4]> = (0..count).map(u32::to_be_bytes).collect();
            let filter = Filter::of(keys.iter().map(|key| &key[..]));
            assert!(keys.iter().all(|key| filter.may_have(xxh3_64(key))));
            let others = (count..count + 20_000).filter(|other| filter.may_have(xxh3_64(&other.to_be_bytes())));
            let others = others.count();
            assert!(others < 20_000 / 50, "{others} of 20000 beside {count} keys");
        }
        assert!(!Filter::of([].into_iter()).may_have(xxh3_64(b"")));
    }

    #[test]
    fn what_is_replaced_again_and_again_takes_no_memory() {
        let mut unsorted = Unsorted::default();
        (0..10_000_u32).for_each(|number| unsorted.push(TABLE, b"key", Some(&number.to_be_bytes())));
        let layer = unsorted.into_layer().unwrap();
        assert!(layer.changes() == 1 && layer.memory() < 100);
        let all: Vec<_> = layer.iter().collect();
        assert_eq!(all, [(TABLE, &b"key"[..], Some(&9999_u32.to_be_bytes()[..]))]);
    }
}
