//! Which record is the new one like? Older records become deltas of newer ones, in the background
//! (paper 004, sections 3.1 and 3.2).
//!
//! A new record is stored whole. Then the encoder looks for an older one that it is like: the one
//! that was the latest under its key, else one that shares features of its sketch. That one is
//! encoded as a delta of the new one and takes the new one's place as the newest of its chain: so
//! the newest is read without decoding anything.
//!
//! Only the newest records of chains are in the feature index. An older one is like its successors,
//! and one that a key leads to as its latest version, where versions are kept, is never made a
//! delta: reading it shall cost what it costs without all this.
//!
//! Nothing here is needed to read a record back. A crash, a full cache, a lost entry leave records
//! whole that might have been deltas.

mod chain;
mod governor;
mod pending;

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

pub use chain::Retrieval;
pub use governor::Governor;
use governor::Judgement;
use ibid_delta::{
    Candidate, CandidateState, DeltaEncoder as Codec, FeatureBytes, FeatureIndex, Interval, Method, RankedCandidate,
    Ranking, Sketch, Sketcher,
};
use ibid_format::record::{
    self, ChainEntry, ENCODING_STOPPED_PREFIX, EncoderWatermark, EncodingStopped, Record, WATERMARK_KEY, body_check,
    key_of,
};
use pending::Pending;

use crate::engine::{Direction, Engine, Snapshot, Table};
use crate::error::Error;
use crate::read::bodies::{Bodies, Stored};
use crate::read::lookup;
use crate::recent::Recent;
use crate::store::Durability;
use crate::write::apply::Prior;
use crate::write::feed::{Feed, New, Next};
use crate::write::rewrite::Rewrite;
use crate::write::writer::{Request, What};

/// Features of a record: the paper's K.
const FEATURES: usize = 8;
/// A record that is like the new one, but not of the same key, becomes a delta if that takes at
/// most this part of it. One that is hardly alike would be lost to those that it is more like: of
/// revisions of wiki pages and JSON documents that come without their keys, 1/2 stored 13.2 and
/// 10.0 MB, 1/4 14.5 and 5.2, 1/8 15.8 and 4.2, 1/16 18.4 and 4.4.
const PART_MAX: usize = 8;
/// Most candidates that are tried.
const TRIALS: usize = 3;
/// How soon what was encoded is on disk, if nothing else is.
const SYNC_WITHIN: Duration = Duration::from_secs(1);
/// By how much the encoder's thread gives way to others, and the most that there is.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
#[cfg(target_os = "linux")]
const NICE_MAX: i32 = 19;
/// Records that are read ahead at once.
const PAGE: usize = 64;
/// Entries of a feature index that has just been made.
const INDEX_ENTRIES_MIN: usize = 1 << 10;

/// How records are encoded, and at what cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// Whether they are at all. Those that are encoded are read in any case.
    pub on: bool,
    /// How many others must be read for an old record.
    pub retrieval: Retrieval,
    /// How densely a record is searched for copies: paper 004's anchor interval (figure 12b).
    /// Denser finds more, and takes longer.
    pub interval: Interval,
    /// Bytes that a feature is a hash of, and positions from one to the next on average: what is
    /// nearest to the chunks of paper 004 (figures 1 and 9), of which each has a feature. A
    /// record has [the eight largest](ibid_delta::Sketcher::spaced) at most. Fewer bytes find what
    /// is alike in smaller records, and between more edits; more tell records apart that share
    /// boilerplate, and take a little less memory. Where a record replaces another of the same key,
    /// that is taken for what it is like without asking for features.
    ///
    /// What is stored says which features it has. Those of another setting are not compared: the
    /// newest records of chains that were stored under it are found by their keys alone, until
    /// others replace them.
    pub feature_bytes: FeatureBytes,
    /// Memory for bodies of the newest records of chains, bytes.
    pub source_cache_bytes: usize,
    /// By how many features one that is in this cache is preferred: the paper's reward.
    pub reward: u8,
    /// Memory for deltas that wait to be written, bytes.
    pub write_back_bytes: usize,
    /// Whether deltas that have no room there are dropped. Else they are written at once.
    pub lossy: bool,
    /// They are written when nothing was committed for so long,
    pub idle_after: Duration,
    /// and so many requests wait for the writer at most.
    pub idle_requests_max: usize,
    /// When encoding is given up.
    pub governor: Governor,
    /// Records smaller than this part of those before them, percent, are not compared with others
    /// of other keys. The paper's is 40; with revisions of wiki pages and JSON documents that
    /// come without their keys, 40 saves a seventh of the time and stores 2.3 and 1.5 times as
    /// much.
    pub size_filter_percent: u8,
    /// Most memory for the feature index of a namespace, bytes.
    pub index_bytes_max: usize,
}

impl Default for Encoding {
    /// Hops at distance 16, anchors at one position in 16, features of 64 bytes, caches of 32 and 8
    /// MiB, reward 2, idle after 5 ms with nothing waiting, the paper's governor, no size filter,
    /// indexes of 64 MiB.
    fn default() -> Self {
        Encoding {
            on: true,
            retrieval: Retrieval::Hop { distance: 16 },
            interval: Interval::I16,
            feature_bytes: FeatureBytes::B64,
            source_cache_bytes: 32 << 20,
            reward: 2,
            write_back_bytes: 8 << 20,
            lossy: true,
            idle_after: Duration::from_millis(5),
            idle_requests_max: 0,
            governor: Governor::default(),
            size_filter_percent: 0,
            index_bytes_max: 64 << 20,
        }
    }
}

/// What the encoder has done since the store was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EncodingReport {
    /// Records that it has looked at.
    pub records: u64,
    /// Records that became deltas of newer ones.
    pub deltas: u64,
    /// Records that became deltas of one further on in their chain.
    pub hops: u64,
    /// Bytes that deltas take less than what they replaced. Some of them may have been dropped
    /// since.
    pub saved_bytes: u64,
    /// Deltas that were dropped because there was no room for them until they could be written.
    pub dropped: u64,
    /// Older records that were found in the source cache.
    pub cache_hits: u64,
    /// Older records that were read from the store.
    pub cache_misses: u64,
    /// Records that could not be compared, because what they were to be compared with is damaged.
    pub damaged: u64,
    /// Namespaces of which nothing more is encoded, because it did not pay.
    pub given_up: u64,
    /// Entries in feature indexes.
    pub index_entries: u64,
    /// Memory of feature indexes, bytes.
    pub index_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    records: AtomicU64,
    deltas: AtomicU64,
    hops: AtomicU64,
    saved_bytes: AtomicU64,
    dropped: AtomicU64,
    cache_hits: AtomicU64,
    cache_misses: AtomicU64,
    damaged: AtomicU64,
    given_up: AtomicU64,
    index_entries: AtomicU64,
    index_bytes: AtomicU64,
}

impl Counters {
    pub(crate) fn report(&self) -> EncodingReport {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EncodingReport {
            records: of(&self.records),
            deltas: of(&self.deltas),
            hops: of(&self.hops),
            saved_bytes: of(&self.saved_bytes),
            dropped: of(&self.dropped),
            cache_hits: of(&self.cache_hits),
            cache_misses: of(&self.cache_misses),
            damaged: of(&self.damaged),
            given_up: of(&self.given_up),
            index_entries: of(&self.index_entries),
            index_bytes: of(&self.index_bytes),
        }
    }
}

fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// What a namespace has for the encoder.
#[derive(Debug, Default)]
struct Space {
    /// Entries that its feature index was made for; none yet if 0.
    index_room: usize,
    judgement: Judgement,
    /// Encoding was given up.
    off: bool,
}

/// The thread that encodes.
pub(crate) struct Encoder {
    options: Encoding,
    engine: Arc<dyn Engine>,
    bodies: Arc<Bodies>,
    requests: SyncSender<Request>,
    feed: Arc<Feed>,
    counters: Arc<Counters>,
    /// The first record that was not looked at.
    next: u64,
    /// The same, as the store knows it.
    written: u64,
    spaces: HashMap<u32, Space>,
    index: FeatureIndex,
    /// Bodies of the newest records of chains, which the next ones will be compared with (paper
    /// 004, section 3.3.1).
    cache: Recent<u64, Arc<Vec<u8>>>,
    pending: Pending,
    sketcher: Sketcher,
    codec: Codec,
    scoring: Ranking,
    candidates: Vec<Candidate>,
    ranked: Vec<RankedCandidate>,
}

impl Encoder {
    pub(crate) fn new(
        options: Encoding,
        engine: Arc<dyn Engine>,
        bodies: Arc<Bodies>,
        requests: SyncSender<Request>,
        feed: Arc<Feed>,
        counters: Arc<Counters>,
    ) -> Self {
        Encoder {
            options,
            engine,
            bodies,
            requests,
            feed,
            counters,
            next: EncoderWatermark::FIRST.next,
            written: EncoderWatermark::FIRST.next,
            spaces: HashMap::new(),
            index: FeatureIndex::new(),
            cache: Recent::new(options.source_cache_bytes),
            pending: Pending::new(options.write_back_bytes, options.lossy),
            sketcher: Sketcher::spaced(options.feature_bytes).with_features(FEATURES),
            codec: Codec::new(),
            scoring: Ranking::default().with_cached_reward(options.reward.into()),
            candidates: Vec::new(),
            ranked: Vec::new(),
        }
    }

    /// Works until the store closes, or the engine fails.
    pub(crate) fn run(mut self) {
        give_way();
        let failure = match self.work() {
            Ok(()) => return,
            Err(failure) => failure,
        };
        // Those who want to know are told; the store itself works without.
        while let Next::Record(_) | Next::Idle | Next::Finish(_) = match self.feed.next(None) {
            Next::Finish(told) => {
                let _ = told.send(Err(failure.clone()));
                Next::Idle
            }
            next => next,
        } {}
    }

    fn work(&mut self) -> Result<(), Error> {
        self.begin()?;
        loop {
            let patience = (!self.pending.is_empty()).then_some(self.options.idle_after);
            match self.feed.next(patience) {
                Next::Record(new) => {
                    self.catch_up(Some(new.number))?;
                    self.encode(new)?;
                    if self.pending.is_half_full() && (!self.options.lossy || self.writer_is_idle()) {
                        self.write()?;
                    }
                }
                Next::Idle if self.writer_is_idle() => self.write()?,
                Next::Idle => {}
                Next::Finish(told) => {
                    let finished = self.catch_up(None).and_then(|()| self.write());
                    let _ = told.send(finished.clone());
                    finished?;
                }
                Next::End => return self.write(),
            }
        }
    }

    fn writer_is_idle(&self) -> bool {
        let Encoding {
            idle_requests_max,
            idle_after,
            ..
        } = self.options;
        self.feed.writer_is_idle(idle_requests_max, idle_after)
    }

    /// Reads where an earlier run has left off.
    fn begin(&mut self) -> Result<(), Error> {
        let snapshot = self.engine.snapshot()?;
        let mut watermark = Ok(EncoderWatermark::FIRST);
        snapshot.get(Table::Meta, WATERMARK_KEY, &mut |value| {
            watermark = EncoderWatermark::decode(value)
        })?;
        let watermark = watermark.map_err(|error| Error::damaged(Table::Meta, WATERMARK_KEY, error))?;
        (self.next, self.written) = (watermark.next, watermark.next);
        if self.options.governor.records > 0 {
            for namespace in given_up(&*snapshot)? {
                self.spaces.entry(namespace).or_default().off = true;
                count(&self.counters.given_up, 1);
            }
        }
        // How much room the indexes need; then they are filled.
        let mut heads: HashMap<u32, usize> = HashMap::new();
        each_chain(&*snapshot, |_, entry| *heads.entry(entry.namespace).or_default() += 1)?;
        heads.retain(|namespace, _| !self.spaces.get(namespace).is_some_and(|space| space.off));
        for (&namespace, &heads) in &heads {
            self.make_index(namespace, 2 * heads * FEATURES);
        }
        let (index, bytes) = (&mut self.index, self.options.feature_bytes);
        each_chain(&*snapshot, |number, entry| {
            index.insert(entry.namespace.into(), &sketch_of(&entry, bytes), number as u32);
        })?;
        self.count_index();
        Ok(())
    }

    /// Encodes records that nobody has handed over: up to `before`, or all.
    fn catch_up(&mut self, before: Option<u64>) -> Result<(), Error> {
        while before.is_none_or(|before| self.next < before) {
            let snapshot = self.engine.snapshot()?;
            let from = self.next;
            let mut page = Vec::new();
            let mut damaged = 0;
            let mut each = |key: &[u8], value: &[u8]| {
                let number = key.try_into().map_or(0, u64::from_be_bytes);
                match Record::decode(number, value) {
                    Ok(Record {
                        body: record::Body::Whole(_),
                        namespace,
                        key,
                        version,
                    }) if number >= from => {
                        // A damaged engine may show what comes before: going back to it would never end.
                        page.push((number, namespace, key.to_vec(), version));
                    }
                    Ok(_) => {}
                    Err(_) => damaged += 1,
                }
                if page.len() < PAGE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            let from = from.to_be_bytes();
            let to = before.map(u64::to_be_bytes);
            let to = to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(&to[..]));
            snapshot.range(
                Table::Records,
                (Bound::Included(&from[..]), to),
                Direction::Forward,
                &mut each,
            )?;
            count(&self.counters.damaged, damaged);
            if page.is_empty() {
                self.next = before.unwrap_or(self.next);
                return Ok(());
            }
            for (number, namespace, key, version) in page {
                match prior(&*snapshot, namespace, &key, version) {
                    Ok((versions_kept, prior)) => {
                        let body = None;
                        self.encode(New {
                            number,
                            namespace,
                            versions_kept,
                            prior,
                            body,
                        })?;
                    }
                    Err(error) => self.pass_over(error)?,
                }
                self.next = number + 1;
                if self.pending.is_half_full() {
                    self.write()?;
                }
            }
        }
        Ok(())
    }

    /// Damage is for who reads and verifies to report; what is not encoded for it is not lost.
    fn pass_over(&self, error: Error) -> Result<(), Error> {
        match error {
            Error::Damaged { .. } => {
                count(&self.counters.damaged, 1);
                Ok(())
            }
            error => Err(error),
        }
    }

    fn encode(&mut self, new: New) -> Result<(), Error> {
        if new.number < self.next {
            return Ok(()); // it was caught up with
        }
        self.next = new.number + 1;
        match self.consider(new) {
            Ok(()) => Ok(()),
            Err(error) => self.pass_over(error),
        }
    }

    fn consider(&mut self, mut new: New) -> Result<(), Error> {
        let space = self.spaces.entry(new.namespace).or_default();
        if space.off {
            return Ok(());
        }
        let snapshot = self.engine.snapshot()?;
        let body = match new.body.take() {
            Some(body) => body,
            None => match self.bodies.stored(&*snapshot, new.number, None)? {
                Some(Stored::Whole(body)) => body,
                Some(Stored::Deleted | Stored::Delta { .. }) | None => return Ok(()),
            },
        };
        count(&self.counters.records, 1);
        let compared = space.judgement.takes(body.len(), self.options.size_filter_percent);
        let sketch = if compared || new.prior.is_some() {
            self.sketch(&body)
        } else {
            Sketch::default()
        };
        let source = (new.number, &body[..]);
        let mut found = None;
        if let Some(Prior { number, is_replaced }) = new.prior
            && (is_replaced || !new.versions_kept || !self.bodies.is_latest(&*snapshot, number)?)
            && let Some(older) = self.whole(&*snapshot, number)?
        {
            found = self.delta(source, number, &older, older.len() - older.len() / 4)?;
        }
        if found.is_none() && compared {
            found = self.similar(&*snapshot, &new, source, &sketch)?;
        }
        let mut saved = 0;
        let mut entry = ChainEntry {
            namespace: new.namespace,
            ..ChainEntry::default()
        };
        entry.distance = self.options.retrieval.hop_distance();
        if let Some(found) = found {
            let older = found.rewrite.number;
            if let Some(newest) = self.chain(&*snapshot, older)? {
                let sketch = sketch_of(&newest, self.options.feature_bytes);
                self.index.remove(new.namespace.into(), &sketch, older as u32);
                let (next, hopping) = chain::follow(older, &newest, self.options.retrieval);
                let stays = self.options.retrieval.stays_whole(newest.position);
                entry = next;
                if stays {
                    self.pending.set_chain(older, None);
                } else {
                    saved = self.replace(found);
                    for record in hopping {
                        self.hop(&*snapshot, source, record)?;
                    }
                }
            } else {
                saved = self.replace(found);
            }
        }
        entry.features = sketch.features().iter().map(|&feature| feature as u32).collect();
        entry.feature_bytes = self.options.feature_bytes.count() as u32;
        self.insert(&*snapshot, new.number, &entry, &sketch)?;
        self.pending.set_chain(new.number, Some(entry));
        let length = body.len();
        self.cache.insert(new.number, Arc::new(body), length);
        let space = self.spaces.entry(new.namespace).or_default();
        if space.judgement.count(self.options.governor, length, saved) {
            space.off = true;
            space.index_room = 0;
            self.index.drop_partition(new.namespace.into());
            self.pending.give_up(new.namespace);
            count(&self.counters.given_up, 1);
        }
        Ok(())
    }

    fn sketch(&mut self, body: &[u8]) -> Sketch {
        // 32 bits of each are kept with the chain; so those are all that counts.
        Sketch::of(
            self.sketcher
                .sketch(body)
                .features()
                .iter()
                .map(|feature| feature >> 32),
        )
    }

    /// The body of a record that is stored whole, and is not waiting to become a delta.
    fn whole(&mut self, read: &dyn Snapshot, number: u64) -> Result<Option<Arc<Vec<u8>>>, Error> {
        let there = self.pending.get(number).is_none() && self.bodies.is_there(read, number)?;
        if !there {
            self.cache.remove(number);
            return Ok(None);
        }
        if let Some(body) = self.cache.get(number) {
            count(&self.counters.cache_hits, 1);
            return Ok(Some(body));
        }
        count(&self.counters.cache_misses, 1);
        match self.bodies.stored(read, number, None)? {
            Some(Stored::Whole(body)) => Ok(Some(Arc::new(body))),
            Some(Stored::Deleted | Stored::Delta { .. }) | None => Ok(None),
        }
    }

    /// `older` as a delta of the new record, unless it takes more than `most`.
    fn delta(
        &mut self,
        (base, new): (u64, &[u8]),
        number: u64,
        older: &[u8],
        most: usize,
    ) -> Result<Option<Found>, Error> {
        let mut delta = Vec::new();
        let method = Method::Anchor {
            interval: self.options.interval,
        };
        let encoded = self.codec.encode(method, new, older, &mut delta);
        encoded.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))?;
        if delta.len() > most {
            return Ok(None);
        }
        let saves = older.len() as u64 - delta.len().min(older.len()) as u64;
        let check = body_check(older);
        let rewrite = Rewrite {
            number,
            base,
            check,
            delta,
        };
        Ok(Some(Found { saves, rewrite }))
    }

    /// The similar record that gains most by becoming a delta of the new one.
    fn similar(
        &mut self,
        read: &dyn Snapshot,
        new: &New,
        source: (u64, &[u8]),
        sketch: &Sketch,
    ) -> Result<Option<Found>, Error> {
        let partition = u64::from(new.namespace);
        self.index.candidates(partition, sketch, &mut self.candidates);
        let standing = |place| {
            let cached = self.cache.contains(number_of(place, new.number));
            Some(CandidateState { cached, depth: 0 })
        };
        self.scoring.rank(&self.candidates, standing, &mut self.ranked);
        let mut best: Option<Found> = None;
        let ranked = std::mem::take(&mut self.ranked);
        let mut score = None;
        let mut tried = 0;
        for candidate in &ranked {
            // All that score as the best does, of those that may be taken.
            if tried == TRIALS || tried > 0 && score.is_some_and(|score| candidate.score < score) {
                break;
            }
            let number = number_of(candidate.place, new.number);
            if new.prior.is_some_and(|prior| prior.number == number)
                || new.versions_kept && self.bodies.is_latest(read, number)?
            {
                continue;
            }
            let Some(older) = self.whole(read, number)? else {
                continue;
            };
            tried += 1;
            score.get_or_insert(candidate.score);
            let found = self.delta(source, number, &older, older.len() / PART_MAX)?;
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.saves > best.saves)
            {
                best = Some(found);
            }
        }
        self.ranked = ranked;
        if let Some(best) = &best {
            self.index.touch(partition, sketch, best.rewrite.number as u32);
        }
        Ok(best)
    }

    /// What the table `chains` will say of a record.
    fn chain(&self, read: &dyn Snapshot, number: u64) -> Result<Option<ChainEntry>, Error> {
        if let Some(entry) = self.pending.chain(number) {
            return Ok(entry.cloned());
        }
        let key = number.to_be_bytes();
        let mut entry = Ok(None);
        let mut found = |value: &[u8]| entry = ChainEntry::decode(number, value).map(Some);
        read.get(Table::Chains, &key, &mut found)?;
        entry.map_err(|error| Error::damaged(Table::Chains, &key, error))
    }

    /// Has an older record replaced by its delta, and gives what that saves.
    fn replace(&mut self, found: Found) -> u64 {
        let number = found.rewrite.number;
        self.cache.remove(number);
        self.pending.set_chain(number, None);
        count(&self.counters.deltas, 1);
        count(&self.counters.saved_bytes, found.saves);
        self.pending.rewrite(found.saves, found.rewrite);
        found.saves
    }

    /// Has a record of the chain decoded from the new one, to shorten the way.
    fn hop(&mut self, read: &dyn Snapshot, source: (u64, &[u8]), number: u64) -> Result<(), Error> {
        let fetch = |number: u64| {
            if number == source.0 {
                return Ok(Some(Stored::Whole(source.1.to_vec())));
            }
            match self.pending.get(number) {
                Some(rewrite) => Ok(Some(rewrite.stored())),
                None => self.bodies.stored(read, number, None),
            }
        };
        let Some(stored) = fetch(number)? else {
            return Ok(());
        };
        let (Some(older), _) = self.bodies.decode(number, stored, fetch)? else {
            return Ok(());
        };
        if let Some(found) = self.delta(source, number, &older, usize::MAX)? {
            count(&self.counters.hops, 1);
            // It saves time instead of bytes. Being small, it is kept before others.
            self.pending.rewrite(u64::MAX, found.rewrite);
        }
        Ok(())
    }

    /// Adds the newest record of a chain to the feature index, which grows with them.
    fn insert(&mut self, read: &dyn Snapshot, number: u64, entry: &ChainEntry, sketch: &Sketch) -> Result<(), Error> {
        let room = self.spaces.entry(entry.namespace).or_default().index_room;
        let partition = u64::from(entry.namespace);
        let (used, _) = self.index.load(partition).unwrap_or_default();
        if used + FEATURES > room / 10 * 9 && self.make_index(entry.namespace, 2 * room) {
            let (index, pending, bytes) = (&mut self.index, &self.pending, self.options.feature_bytes);
            let mut refill = |number: u64, entry: &ChainEntry| {
                if u64::from(entry.namespace) == partition {
                    index.insert(partition, &sketch_of(entry, bytes), number as u32);
                }
            };
            each_chain(read, |number, entry| {
                if pending.chain(number).is_none() {
                    refill(number, &entry);
                }
            })?;
            pending.chains().for_each(|(number, entry)| refill(number, entry));
        }
        self.index.insert(partition, sketch, number as u32);
        Ok(())
    }

    /// Makes the feature index of a namespace anew, empty, if it may have more room than it has.
    fn make_index(&mut self, namespace: u32, entries: usize) -> bool {
        let space = self.spaces.entry(namespace).or_default();
        let most = self.options.index_bytes_max / FeatureIndex::BYTES_PER_ENTRY;
        let entries = entries.max(INDEX_ENTRIES_MIN).min(most);
        if entries <= space.index_room || self.index.add_partition(namespace.into(), entries).is_err() {
            return false;
        }
        space.index_room = entries;
        true
    }

    fn count_index(&self) {
        let entries = self
            .index
            .partitions()
            .filter_map(|partition| self.index.load(partition));
        let entries: usize = entries.map(|(used, _)| used).sum();
        self.counters.index_entries.store(entries as u64, Ordering::Relaxed);
        let bytes = self.index.memory() as u64;
        self.counters.index_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Has everything written that waits for it.
    fn write(&mut self) -> Result<(), Error> {
        self.count_index();
        self.counters.dropped.store(self.pending.dropped, Ordering::Relaxed);
        if self.pending.is_empty() && self.next == self.written {
            return Ok(());
        }
        let (outcome, answer) = sync_channel(1);
        let request = Request {
            what: What::Encoded(self.pending.take(self.next)),
            durability: Durability::Batched(SYNC_WITHIN),
            outcome,
        };
        self.feed.writer_has(1);
        self.requests.send(request).map_err(|_| Error::WriterEnded)?;
        match answer.recv().map_err(|_| Error::WriterEnded)? {
            // What it was to be decoded from is damaged; that is all that is lost.
            Err(error @ Error::Damaged { .. }) => self.pass_over(error)?,
            written => drop(written?),
        }
        self.written = self.next;
        Ok(())
    }
}

/// Has the threads of those who read and write go first, where priorities are those of threads. Who
/// is not allowed to wait gains nothing, and loses nothing.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let thread = Some(rustix::thread::gettid());
        if let Ok(priority) = getpriority_process(thread) {
            let _ = setpriority_process(thread, (priority + NICE).min(NICE_MAX));
        }
    }
}

/// An older record that becomes a delta.
struct Found {
    saves: u64,
    rewrite: Rewrite,
}

/// What others are compared with of the newest record of a chain: nothing if its features are not
/// of so many bytes.
fn sketch_of(entry: &ChainEntry, bytes: FeatureBytes) -> Sketch {
    if entry.feature_bytes as usize != bytes.count() {
        return Sketch::default();
    }
    Sketch::of(entry.features.iter().map(|&feature| feature.into()))
}

/// The record whose number ends with 32 bits: the last one before `new`.
fn number_of(place: u32, new: u64) -> u64 {
    new.wrapping_sub(u64::from((new as u32).wrapping_sub(place)))
}

/// Shows every entry of the table `chains` that can be read. Damaged ones cost bytes, not records.
fn each_chain(read: &dyn Snapshot, mut each: impl FnMut(u64, ChainEntry)) -> Result<(), Error> {
    let mut decoded = |key: &[u8], value: &[u8]| {
        if let Ok(number) = key.try_into().map(u64::from_be_bytes)
            && let Ok(entry) = ChainEntry::decode(number, value)
        {
            each(number, entry);
        }
        ControlFlow::Continue(())
    };
    let everything = (Bound::Unbounded, Bound::Unbounded);
    read.range(Table::Chains, everything, Direction::Forward, &mut decoded)?;
    Ok(())
}

/// Namespaces of which nothing is encoded any more.
fn given_up(read: &dyn Snapshot) -> Result<Vec<u32>, Error> {
    let mut found = Vec::new();
    let mut each = |key: &[u8], _: &[u8]| match EncodingStopped::namespace_of(key) {
        Some(namespace) => {
            found.push(namespace);
            ControlFlow::Continue(())
        }
        None if key.starts_with(ENCODING_STOPPED_PREFIX) => ControlFlow::Continue(()),
        None => ControlFlow::Break(()),
    };
    let range = (Bound::Included(ENCODING_STOPPED_PREFIX), Bound::Unbounded);
    read.range(Table::Meta, range, Direction::Forward, &mut each)?;
    Ok(found)
}

/// Whether the namespace of a record keeps versions, and the record of the version before it.
fn prior(read: &dyn Snapshot, namespace: u32, key: &[u8], version: u32) -> Result<(bool, Option<Prior>), Error> {
    if version == 1 {
        return Ok((lookup::keeps_versions(read, namespace)?, None));
    }
    let Some(entry) = lookup::key_entry(read, &key_of(namespace, key))? else {
        return Ok((true, None));
    };
    let before = lookup::version_entry(read, &entry, version - 1)?;
    let (number, is_replaced) = (before.number, true);
    Ok((true, (!before.deleted).then_some(Prior { number, is_replaced })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_last_record_that_ends_with_it() {
        assert_eq!(number_of(5, 9), 5);
        assert_eq!(number_of(9, (1 << 32) + 5), 9);
        assert_eq!(number_of(4, (7 << 32) + 5), (7 << 32) + 4);
    }
}
