//! The thread that encodes.

mod copies;
mod state;

use std::collections::HashMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ibid_delta::{Candidate, CandidateState, DeltaEncoder, Method, RankedCandidate, Ranking, Sketch, Sketcher};
use ibid_format::record::{
    self, BodyCheck, ChainEntry, EncoderWatermark, LatestEntry, Record, Stopped, VersionEntry, WATERMARK_KEY, key_of,
};

use self::state::{NamespaceState, given_up};
use super::bodies::BodyIndex;
use super::index::{ENTRIES_AT_ONCE, FEATURES, NewestIndex, each_chain, each_chain_of};
use super::pending::Pending;
use super::{Encoding, Tally, chain};
use crate::compact::{Activity, Waiting};
use crate::engine::{Direction, Engine, Snapshot, Table};
use crate::error::Error;
use crate::lru::LruCache;
use crate::read::chain::See;
use crate::read::records::{Records, StoredBody};
use crate::read::{lookup, namespaces};
use crate::write::feed::{Feed, FeedEvent, Finish, NewRecord};
use crate::write::handle::WriterHandle;
use crate::write::request::{Command, Durability, Prior, Rewrite};

/// A record of the same key becomes a delta if that saves at least this part of it.
const REPLACED_SAVED_PART: usize = 4;
/// A record of another key becomes a delta if that takes at most this part of it. One that
/// resembles the new record only a little is left for a later record that it resembles more: of
/// revisions of wiki pages and JSON documents that come without their keys, 1/2 stored 13.2 and
/// 10.0 MB, 1/4 14.5 and 5.2, 1/8 15.8 and 4.2, 1/16 18.4 and 4.4.
const SIMILAR_DELTA_PART: usize = 8;
/// Shorter bodies are not looked for elsewhere, bytes.
const SHARED_BYTES_MIN: usize = 64;
/// Most memory that the delta encoder keeps between records, bytes.
const ENCODER_BYTES_MAX: usize = 4 << 20;
/// Most candidates that are tried.
const TRIALS: usize = 3;
/// How soon an encoded record is on disk if nothing else is synced.
const SYNC_WITHIN: Duration = Duration::from_secs(1);
/// By how much the encoder's thread yields to others, and the largest nice value.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;
#[cfg(target_os = "linux")]
const NICE_MAX: i32 = 19;
/// After so many bytes of bodies deltas are written in any case, also between requests: until then the bodies that they
/// replace take their space, and nothing of it is compressed.
const UNWRITTEN_BYTES: u64 = 16 << 20;
/// Records that are read ahead at once.
const PAGE: usize = 64;
/// What a caller that ends may leave to a later opening: less than so many records, and bytes of bodies.
const LITTLE_RECORDS: u64 = 64;
const LITTLE_BYTES: u64 = 4 << 20;
/// For so long such a caller waits for what an earlier opening has left.
const LEFT_AFTER: Duration = Duration::from_secs(1);

/// The new record that older ones become deltas of.
#[derive(Clone, Copy)]
struct Source<'b> {
    number: u64,
    body: &'b [u8],
}

/// A body, and its checksum if it is known.
struct CachedBody {
    body: Vec<u8>,
    check: Option<BodyCheck>,
}

/// An older record as a delta of the new one.
struct Choice {
    saved: u64,
    rewrite: Rewrite,
}

/// A record that was read to be encoded later than it was committed.
struct Missed {
    number: u64,
    namespace: u32,
    key: Vec<u8>,
    version: u32,
    /// Length of the body, bytes.
    length: usize,
}

pub(crate) struct EncoderThread {
    options: Encoding,
    engine: Arc<dyn Engine>,
    records: Arc<Records>,
    writer: WriterHandle,
    feed: Arc<Feed>,
    tally: Arc<Tally>,
    activity: Arc<Activity>,
    /// The first record that was not looked at.
    next: u64,
    /// The first record that was not looked at, as the store has it.
    next_written: u64,
    /// The bodies that were examined since deltas were written last.
    unwritten: Waiting,
    namespaces: HashMap<u32, NamespaceState>,
    /// How often the settings of namespaces had changed when they were looked up.
    settings: u64,
    index: NewestIndex,
    bodies: BodyIndex,
    /// Bodies of the newest records of chains, with which the next ones will be compared (dDedup
    /// §3.3.1), and their checksums.
    cache: LruCache<u64, Arc<CachedBody>>,
    pending: Pending,
    sketcher: Sketcher,
    encoder: DeltaEncoder,
    ranking: Ranking,
    candidates: Vec<Candidate>,
    ranked: Vec<RankedCandidate>,
}

impl EncoderThread {
    pub(crate) fn new(
        options: Encoding,
        engine: Arc<dyn Engine>,
        records: Arc<Records>,
        writer: WriterHandle,
        feed: Arc<Feed>,
        tally: Arc<Tally>,
        activity: Arc<Activity>,
    ) -> Self {
        EncoderThread {
            options,
            engine,
            records,
            writer,
            feed,
            tally,
            activity,
            next: EncoderWatermark::FIRST.next,
            next_written: EncoderWatermark::FIRST.next,
            unwritten: Waiting::default(),
            namespaces: HashMap::new(),
            settings: 0,
            index: NewestIndex::new(options.index_bytes_max, options.feature_bytes),
            bodies: BodyIndex::new(options.index_bytes_max),
            cache: LruCache::new(options.source_cache_bytes),
            pending: Pending::new(options.write_back_bytes, options.lossy),
            sketcher: Sketcher::spaced(options.feature_bytes).with_features(FEATURES),
            encoder: DeltaEncoder::new(),
            ranking: Ranking::default().with_cached_reward(options.reward.into()),
            candidates: Vec::new(),
            ranked: Vec::new(),
        }
    }

    /// Works until the store closes or the engine fails.
    pub(crate) fn run(mut self) {
        yield_to_others();
        let failure = match self.work() {
            Ok(()) => return,
            Err(failure) => failure,
        };
        // The store works without an encoder. Callers that wait for it are told why it ended.
        self.activity.has_no_encoder();
        loop {
            match self.feed.next(None) {
                FeedEvent::Finish(Finish { told, .. }) => {
                    let _ = told.send(Err(failure.clone()));
                }
                FeedEvent::Record(_) | FeedEvent::Idle => {}
                FeedEvent::End => return,
            }
        }
    }

    fn work(&mut self) -> Result<(), Error> {
        self.begin()?;
        // Before there is a record, which would have to wait.
        let mut is_filled = self.fill()?;
        loop {
            let patience = (!self.pending.is_empty()).then_some(self.options.idle_after);
            match self.feed.next(patience) {
                FeedEvent::Record(new) => {
                    self.unwritten += new.lag;
                    is_filled = is_filled || self.fill()?;
                    if !is_filled {
                        continue; // it is found in the store later
                    }
                    self.catch_up(Some(new.number), None)?;
                    if self.next < new.number {
                        continue; // the store is being closed
                    }
                    self.encode_or_pass_over(new)?;
                    let is_due = self.pending.is_half_full() && (!self.options.lossy || self.writer_is_idle());
                    if is_due || self.unwritten.bytes >= self.unwritten_max() || self.pending.is_too_much() {
                        self.write()?;
                    }
                }
                FeedEvent::Idle if self.writer_is_idle() => self.write()?,
                FeedEvent::Idle => {}
                FeedEvent::Finish(Finish { told, leaves_some }) => {
                    is_filled = is_filled || self.fill()?;
                    if !is_filled {
                        continue; // the store is being closed
                    }
                    let until = leaves_some.then(|| Instant::now() + LEFT_AFTER);
                    let finished = self.catch_up(None, until).and_then(|()| self.write());
                    let _ = told.send(finished.clone());
                    finished?;
                }
                FeedEvent::End => return self.write(),
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

    /// Reads where an earlier run ended.
    fn begin(&mut self) -> Result<(), Error> {
        let snapshot = self.engine.snapshot()?;
        let mut watermark = Ok(EncoderWatermark::FIRST);
        snapshot.get(Table::Meta, WATERMARK_KEY, &mut |value| {
            watermark = EncoderWatermark::decode(value)
        })?;
        let watermark = watermark.map_err(|error| Error::damaged(Table::Meta, WATERMARK_KEY, error))?;
        (self.next, self.next_written) = (watermark.next, watermark.next);
        if self.options.governor.records > 0 {
            for (namespace, stopped) in given_up(&*snapshot)? {
                let state = self.namespaces.entry(namespace).or_default();
                state.stopped = state.stopped.max(Some(stopped));
                self.tally.update().given_up += u64::from(stopped == Stopped::All);
            }
        }
        Ok(())
    }

    /// Fills the indexes with the newest records of all chains. Returns false, and leaves them empty, if it was ended
    /// before, because the store is being closed, or its caller leaves the little that waits to a later opening.
    fn fill(&mut self) -> Result<bool, Error> {
        let (mut shown, mut is_left) = (0, false);
        let (feed, engine, next) = (&self.feed, &self.engine, self.next);
        let mut go_on = || {
            shown += 1;
            if shown % ENTRIES_AT_ONCE == 0 {
                is_left = feed.has_ended() || feed.leaves_some() && is_little(&**engine, next);
            }
            if is_left {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let mut chains: HashMap<u32, usize> = HashMap::new();
        each_chain_of(&**engine, |_, entry| {
            *chains.entry(entry.namespace).or_default() += 1;
            go_on()
        })?;
        for (namespace, chains) in chains {
            if self.stopped(namespace).is_none() {
                self.index.make_room(namespace, chains);
            }
        }
        let (index, bodies) = (&mut self.index, &mut self.bodies);
        each_chain_of(&**engine, |number, entry| {
            index.add(number, &entry);
            if let Some(check) = entry.check {
                bodies.replace(number, check);
            }
            go_on()
        })?;
        if is_left {
            self.index = NewestIndex::new(self.options.index_bytes_max, self.options.feature_bytes);
            self.bodies = BodyIndex::new(self.options.index_bytes_max);
            self.feed.leave();
        }
        self.count_index();
        Ok(!is_left)
    }

    /// Encodes records that are not in the feed: those before `before`, or all. Stops when the store is closed, or the
    /// time has come: there may be very many, and the next opening goes on.
    fn catch_up(&mut self, before: Option<u64>, until: Option<Instant>) -> Result<(), Error> {
        let begun = Instant::now();
        while before.is_none_or(|before| self.next < before) {
            let snapshot = self.engine.snapshot()?;
            // Mostly there are none. To look for them could read the last record, which may be long.
            if before.is_none() && lookup::next(&*snapshot).is_ok_and(|next| next.record <= self.next) {
                return Ok(());
            }
            let missed = self.read_missed(&*snapshot, before)?;
            if missed.is_empty() {
                self.next = before.unwrap_or(self.next);
                return Ok(());
            }
            let with_prior = |missed: Missed| {
                let prior = missed.prior(&*snapshot);
                (missed, prior)
            };
            let missed: Vec<_> = missed.into_iter().map(with_prior).collect();
            // To encode them takes long, and an engine needs more space as long as there is a snapshot.
            drop(snapshot);
            for (missed, prior) in missed {
                if self.feed.has_ended() || until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(());
                }
                if begun.elapsed() >= LEFT_AFTER && self.feed.leaves_some() {
                    self.feed.leave();
                }
                let number = missed.number;
                match prior {
                    Ok((versions_kept, prior)) => self.encode_or_pass_over(NewRecord {
                        number,
                        namespace: missed.namespace,
                        versions_kept,
                        prior,
                        length: missed.length,
                        body: None,
                        lag: Waiting::default(),
                    })?,
                    Err(error) => self.pass_over(error)?,
                }
                self.next = number + 1;
                if self.pending.is_half_full() || self.pending.is_too_much() {
                    self.write()?;
                }
            }
        }
        Ok(())
    }

    /// Reads the next whole records that were not looked at, before `before` if it is given.
    fn read_missed(&self, snapshot: &dyn Snapshot, before: Option<u64>) -> Result<Vec<Missed>, Error> {
        let first = self.next;
        let mut page = Vec::new();
        let mut damaged = 0;
        let mut each = |key: &[u8], value: &[u8]| {
            let number = key.try_into().map_or(0, u64::from_be_bytes);
            match Record::decode(number, value) {
                Ok(Record {
                    body: record::Body::Whole(body),
                    namespace,
                    key,
                    version,
                    ..
                }) if number >= first => {
                    // A damaged engine may show earlier ones: with them this would never end.
                    page.push(Missed {
                        number,
                        namespace,
                        key: key.to_vec(),
                        version,
                        length: body.len(),
                    });
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
        let (from, to) = (first.to_be_bytes(), before.map(u64::to_be_bytes));
        let to = to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(&to[..]));
        let range = (Bound::Included(&from[..]), to);
        snapshot.range(Table::Records, range, Direction::Forward, &mut each)?;
        self.tally.update().damaged += damaged;
        Ok(page)
    }

    /// Counts damage, passes over a body that may not be read, and returns other errors. Readers and verification
    /// report damage; a record that is not encoded because of it is not lost.
    fn pass_over(&self, error: Error) -> Result<(), Error> {
        match error {
            Error::Damaged { .. } => {
                self.tally.update().damaged += 1;
                Ok(())
            }
            Error::BodyTooLong { .. } => Ok(()),
            error => Err(error),
        }
    }

    fn encode_or_pass_over(&mut self, new: NewRecord) -> Result<(), Error> {
        if new.number < self.next {
            return Ok(()); // done while catching up
        }
        self.next = new.number + 1;
        self.encode(new).or_else(|error| self.pass_over(error))
    }

    /// Makes the older record that resembles the new one most a delta of it.
    fn encode(&mut self, mut new: NewRecord) -> Result<(), Error> {
        let is_shared = new.length >= SHARED_BYTES_MIN;
        let stopped = self.stopped(new.namespace);
        let is_examined = match stopped {
            None => true,
            Some(Stopped::OtherKeys) => new.prior.is_some(),
            Some(Stopped::All) => false,
        };
        if !is_examined && !is_shared || new.length > self.options.compared_bytes_max {
            return Ok(());
        }
        // Before the snapshot: the settings in it are as new then.
        self.note_settings();
        let snapshot = self.engine.snapshot()?;
        let body = match new.body.take() {
            Some(body) => body,
            None => match self.records.stored(&*snapshot, new.number, None)? {
                Some(StoredBody::Whole(body)) => body,
                Some(StoredBody::Deleted | StoredBody::Delta { .. }) | None => return Ok(()),
            },
        };
        let source = Source {
            number: new.number,
            body: &body,
        };
        let check = is_shared.then(|| BodyCheck::of(&body));
        let same = match check {
            Some(check) => self.same_body(&*snapshot, source, check)?,
            None => None,
        };
        let (mut same, copies) = same.map_or((None, Vec::new()), |same| (Some(same.choice), same.copies));
        if !is_examined {
            return same.map_or(Ok(()), |same| self.share(&*snapshot, same));
        }
        {
            let mut tally = self.tally.update();
            tally.records += 1;
            tally.bytes += body.len() as u64;
        }
        self.count_new(&new);
        let latest = self.latest(&*snapshot, new.namespace, new.versions_kept)?;
        let is_compared = stopped.is_none() && self.is_compared(&new, body.len());
        let sketch = if is_compared || stopped.is_none() && new.prior.is_some() {
            self.sketch(&body)
        } else {
            Sketch::default()
        };
        let mut choice = self.replaced(&*snapshot, &new, source, latest)?;
        let has_replaced = choice.is_some();
        if choice.is_none() && same.is_none() && is_compared {
            choice = self.most_similar(&*snapshot, &new, source, &sketch, latest)?;
        }
        let is_chosen = |same: &Choice| {
            choice
                .as_ref()
                .is_some_and(|choice| choice.rewrite.number == same.rewrite.number)
        };
        if same.as_ref().is_some_and(is_chosen) {
            same = None; // the copies are now of the new record
        } else if let Some(choice) = &choice {
            self.hand_over_copies(&*snapshot, source, choice.rewrite.number)?;
        } else if copies.is_empty() {
            // Not one that is the latest of its key, which would have to hop along with the chain.
            choice = same.take();
        }
        let (mut entry, saved) = match choice {
            Some(choice) => self.follow(&*snapshot, new.namespace, source, choice)?,
            None => (self.first_of_chain(new.namespace), 0),
        };
        if let Some(same) = same {
            self.share(&*snapshot, same)?;
        }
        (entry.check, entry.copies) = (check, copies);
        self.add_newest(&*snapshot, new.number, entry, &sketch)?;
        let length = body.len();
        self.cache
            .insert(new.number, Arc::new(CachedBody { body, check }), length);
        self.judge(&new, length, saved, has_replaced);
        Ok(())
    }

    /// Returns what was given up in a namespace.
    fn stopped(&self, namespace: u32) -> Option<Stopped> {
        self.namespaces.get(&namespace).and_then(|state| state.stopped)
    }

    /// Returns whether the new record is compared with others than its prior.
    fn is_compared(&mut self, new: &NewRecord, length: usize) -> bool {
        let state = self.namespaces.entry(new.namespace).or_default();
        state.of_other_keys.takes(length, self.options.size_filter_percent)
    }

    /// Returns the record that the new one replaced, or that the caller said it is like, as a delta
    /// of the new one.
    fn replaced(
        &mut self,
        read: &dyn Snapshot,
        new: &NewRecord,
        source: Source<'_>,
        latest: LatestEntry,
    ) -> Result<Option<Choice>, Error> {
        let Some(Prior { number, is_replaced }) = new.prior else {
            return Ok(None);
        };
        if !is_replaced && latest != LatestEntry::Deltas && self.records.is_latest(read, number)? {
            return Ok(None);
        }
        self.delta_of_whole(read, source, number, |length| length - length / REPLACED_SAVED_PART)
            .map(Option::flatten)
    }

    /// Begins a chain with the new record.
    fn first_of_chain(&self, namespace: u32) -> ChainEntry {
        ChainEntry {
            namespace,
            distance: self.options.retrieval.hop_distance(),
            ..ChainEntry::default()
        }
    }

    /// Appends the new record to the chain of the chosen one. Returns the chain's new entry, and
    /// how many bytes that saves.
    fn follow(
        &mut self,
        read: &dyn Snapshot,
        namespace: u32,
        source: Source<'_>,
        choice: Choice,
    ) -> Result<(ChainEntry, u64), Error> {
        let older = choice.rewrite.number;
        let Some(newest) = self.chain(read, older)? else {
            let saved = self.replace(choice);
            return Ok((self.first_of_chain(namespace), saved));
        };
        self.index.remove(older, &newest);
        let (next, hopping) = chain::follow(older, &newest, self.options.retrieval);
        if self.options.retrieval.stays_whole(newest.position) {
            self.pending.set_chain(older, None);
            return Ok((next, 0));
        }
        let saved = self.replace(choice);
        for record in hopping {
            self.hop(read, source, record)?;
        }
        Ok((next, saved))
    }

    /// Makes the new record the newest of its chain.
    fn add_newest(
        &mut self,
        read: &dyn Snapshot,
        number: u64,
        mut entry: ChainEntry,
        sketch: &Sketch,
    ) -> Result<(), Error> {
        entry.features = sketch.features().iter().map(|&feature| feature as u32).collect();
        entry.feature_bytes = self.options.feature_bytes.count() as u32;
        let pending = &self.pending;
        if self.stopped(entry.namespace).is_some() {
            self.pending.set_chain(number, Some(entry));
            return Ok(());
        }
        self.index.insert(entry.namespace, number, sketch, |show| {
            each_chain(read, |number, entry| {
                if pending.chain(number).is_none() {
                    show(number, &entry);
                }
                ControlFlow::Continue(())
            })?;
            pending.chains().for_each(|(number, entry)| show(number, entry));
            Ok(())
        })?;
        self.pending.set_chain(number, Some(entry));
        Ok(())
    }

    /// Counts what the new record saved, and gives up what does not pay: first to look at other keys, and then
    /// versions, which cost less to find. A first version that resembles nothing says nothing about its next ones.
    fn judge(&mut self, new: &NewRecord, length: usize, saved: u64, has_replaced: bool) {
        let (governor, namespace) = (self.options.governor, new.namespace);
        let state = self.namespaces.entry(namespace).or_default();
        let was = state.stopped;
        if was.is_none() && !has_replaced && state.of_other_keys.count(governor, length, saved) {
            state.stopped = Some(match new.versions_kept {
                true => Stopped::OtherKeys,
                false => Stopped::All,
            });
            self.index.drop_namespace(namespace);
        }
        let of_versions = if has_replaced { saved } else { 0 };
        if new.prior.is_some() && state.of_versions.count(governor, length, of_versions) && state.stopped.is_some() {
            state.stopped = Some(Stopped::All);
        }
        if let Some(stopped) = state.stopped.filter(|_| state.stopped != was) {
            self.pending.give_up(namespace, stopped);
            self.tally.update().given_up += u64::from(stopped == Stopped::All);
        }
    }

    fn sketch(&mut self, body: &[u8]) -> Sketch {
        // Only 32 bits of each feature are stored with the chain, so only these are compared.
        let features = self.sketcher.sketch(body);
        Sketch::of(features.features().iter().map(|feature| feature >> 32))
    }

    /// Returns a record as a delta of the new one, in an inner [`None`] if that takes more than `bytes_max` of its
    /// length. Returns [`None`] for one that is not stored whole, that waits to become a delta, or that is too long to
    /// be compared.
    fn delta_of_whole(
        &mut self,
        read: &dyn Snapshot,
        source: Source<'_>,
        number: u64,
        bytes_max: impl Fn(usize) -> usize,
    ) -> Result<Option<Option<Choice>>, Error> {
        if self.pending.get(number).is_some_and(|rewrite| !rewrite.is_whole()) {
            self.cache.remove(number);
            return Ok(None);
        }
        if let Some(older) = self.cache.get(number) {
            if !self.records.contains(read, number)? {
                self.cache.remove(number);
                return Ok(None);
            }
            self.tally.update().cache_hits += 1;
            let bytes_max = bytes_max(older.body.len());
            return self
                .delta(source, (number, &older.body, older.check), bytes_max)
                .map(Some);
        }
        let records = self.records.clone();
        let mut delta = Ok(None);
        // The body is not copied: it may be long.
        records.visit(read, number, &mut |record| match record.body {
            record::Body::Whole(older) if older.len() <= self.options.compared_bytes_max => {
                self.tally.update().cache_misses += 1;
                delta = self
                    .delta(source, (number, older, None), bytes_max(older.len()))
                    .map(Some);
            }
            record::Body::Whole(_) | record::Body::Delta { .. } | record::Body::Deleted => {}
        })?;
        delta
    }

    /// Returns an older record, whose checksum may be known, as a delta of the new one; [`None`] if the delta takes
    /// more than `bytes_max`.
    fn delta(
        &mut self,
        source: Source<'_>,
        (number, older, check): (u64, &[u8], Option<BodyCheck>),
        bytes_max: usize,
    ) -> Result<Option<Choice>, Error> {
        let mut delta = Vec::new();
        let method = Method::Anchor {
            interval: self.options.interval,
        };
        let encoder = &mut self.encoder;
        let encoded = encoder.encode_within(method, source.body, older, bytes_max, &mut delta);
        if encoder.memory() > ENCODER_BYTES_MAX {
            *encoder = DeltaEncoder::new();
        }
        if !encoded.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))? {
            return Ok(None);
        }
        let saved = older.len() as u64 - delta.len().min(older.len()) as u64;
        let rewrite = Rewrite {
            number,
            base: source.number,
            check: check.unwrap_or_else(|| BodyCheck::of(older)),
            delta,
        };
        Ok(Some(Choice { saved, rewrite }))
    }

    /// Returns the similar record that saves most as a delta of the new one.
    fn most_similar(
        &mut self,
        read: &dyn Snapshot,
        new: &NewRecord,
        source: Source<'_>,
        sketch: &Sketch,
        latest: LatestEntry,
    ) -> Result<Option<Choice>, Error> {
        self.index.candidates(new.namespace, sketch, &mut self.candidates);
        let state = |place| {
            let cached = self.cache.contains(number_of(place, new.number));
            Some(CandidateState { cached, depth: 0 })
        };
        self.ranking.rank(&self.candidates, state, &mut self.ranked);
        let ranked = std::mem::take(&mut self.ranked);
        let best = self.best_of(&ranked, read, new, source, latest);
        self.ranked = ranked;
        let best = best?;
        if let Some(best) = &best {
            self.index.touch(new.namespace, sketch, best.rewrite.number);
        }
        Ok(best)
    }

    /// Tries the best candidates: all that have the highest score, a few at most.
    fn best_of(
        &mut self,
        ranked: &[RankedCandidate],
        read: &dyn Snapshot,
        new: &NewRecord,
        source: Source<'_>,
        latest: LatestEntry,
    ) -> Result<Option<Choice>, Error> {
        let mut best: Option<Choice> = None;
        let mut best_score = None;
        let mut tried = 0;
        for candidate in ranked {
            if tried == TRIALS || tried > 0 && best_score.is_some_and(|best| candidate.score < best) {
                break;
            }
            let number = number_of(candidate.place, new.number);
            if new.prior.is_some_and(|prior| prior.number == number)
                || latest != LatestEntry::Deltas && self.records.is_latest(read, number)?
            {
                continue;
            }
            let delta = self.delta_of_whole(read, source, number, |length| length / SIMILAR_DELTA_PART)?;
            let Some(choice) = delta else {
                continue;
            };
            tried += 1;
            best_score.get_or_insert(candidate.score);
            if let Some(choice) = choice
                && best.as_ref().is_none_or(|best| choice.saved > best.saved)
            {
                best = Some(choice);
            }
        }
        Ok(best)
    }

    /// Returns the entry of a record in the table `chains` as it will be.
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

    /// Replaces an older record by its delta. Returns how many bytes that saves.
    fn replace(&mut self, choice: Choice) -> u64 {
        let Choice { saved, rewrite } = choice;
        self.cache.remove(rewrite.number);
        self.pending.set_chain(rewrite.number, None);
        self.pending.rewrite(saved, rewrite);
        let mut tally = self.tally.update();
        tally.deltas += 1;
        tally.saved_bytes += saved;
        saved
    }

    /// Makes a record of the chain a delta of the new one, so that fewer records are read for it.
    fn hop(&mut self, read: &dyn Snapshot, source: Source<'_>, number: u64) -> Result<(), Error> {
        let Some(older) = self.body_as_it_will_be(read, source, number)? else {
            return Ok(());
        };
        if let Some(choice) = self.delta(source, (number, &older, None), usize::MAX)? {
            self.tally.update().hops += 1;
            // A hop saves time and no bytes. It is small, and kept before others.
            self.pending.rewrite(u64::MAX, choice.rewrite);
        }
        Ok(())
    }

    /// Returns the body of a record, which may be one that waits to become a delta, also of the new record; [`None`] if
    /// there is no such record.
    fn body_as_it_will_be(
        &self,
        read: &dyn Snapshot,
        source: Source<'_>,
        number: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        let stored = match self.pending.get(number) {
            Some(rewrite) => Some(rewrite.stored_body()),
            None => self.records.stored(read, number, None)?,
        };
        let Some(stored) = stored else {
            return Ok(None);
        };
        let fetch = |base: u64, see: See<'_>| {
            if base == source.number {
                see(record::Body::Whole(source.body));
                return Ok(true);
            }
            match self.pending.get(base) {
                Some(rewrite) => see(rewrite.body()),
                None => return self.records.visit(read, base, &mut |record| see(record.body)),
            }
            Ok(true)
        };
        self.records.decode(number, stored, fetch)
    }

    /// Returns after how many bytes of bodies deltas are written in any case.
    fn unwritten_max(&self) -> u64 {
        UNWRITTEN_BYTES.min(self.options.lag_bytes_max / 8)
    }

    fn count_index(&self) {
        let mut tally = self.tally.update();
        tally.index_entries = self.index.entries() + self.bodies.entries();
        tally.index_bytes = self.index.bytes() + self.bodies.bytes();
    }

    /// Has the writer write everything that is pending.
    fn write(&mut self) -> Result<(), Error> {
        self.count_index();
        self.tally.update().dropped = self.pending.dropped;
        if self.pending.is_empty() && self.next == self.next_written {
            self.activity.were_examined(std::mem::take(&mut self.unwritten));
            return Ok(());
        }
        let encoded = Command::Encode(self.pending.take(self.next));
        match self.writer.ask(encoded, Durability::Batched(SYNC_WITHIN)) {
            // A base is damaged. These deltas are all that is lost.
            Err(error @ Error::Damaged { .. }) => self.pass_over(error)?,
            written => drop(written?),
        }
        self.next_written = self.next;
        self.activity.were_examined(std::mem::take(&mut self.unwritten));
        Ok(())
    }
}

impl Missed {
    /// Returns whether the namespace of the record keeps versions, and the record of the version
    /// before it.
    fn prior(&self, read: &dyn Snapshot) -> Result<(bool, Option<Prior>), Error> {
        if self.version == 1 {
            return Ok((namespaces::keeps_versions(read, self.namespace)?, None));
        }
        let Some(entry) = lookup::key_entry(read, &key_of(self.namespace, &self.key))? else {
            return Ok((true, None));
        };
        let before = lookup::version_entry(read, &entry, self.version - 1)?;
        let is_replaced = true;
        let prior = before.filter(|before| !before.deleted);
        Ok((
            true,
            prior.map(|VersionEntry { number, .. }| Prior { number, is_replaced }),
        ))
    }
}

/// Whether the records from this number on are few and short. What cannot be read is not little.
fn is_little(engine: &dyn Engine, first: u64) -> bool {
    let (mut records, mut bytes) = (0, 0);
    let mut each = |_: &[u8], value: &[u8]| {
        records += 1;
        bytes += value.len() as u64;
        if records < LITTLE_RECORDS && bytes < LITTLE_BYTES {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    let from = (Bound::Included(&first.to_be_bytes()[..]), Bound::Unbounded);
    let read = engine.snapshot();
    let shown = read.and_then(|read| read.range(Table::Records, from, Direction::Forward, &mut each));
    shown.is_ok() && records < LITTLE_RECORDS && bytes < LITTLE_BYTES
}

/// Lowers the priority of this thread, where threads have their own, so that readers and the writer
/// go first. A failure changes nothing else.
pub(crate) fn yield_to_others() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        let thread = Some(rustix::thread::gettid());
        if let Ok(priority) = getpriority_process(thread) {
            let _ = setpriority_process(thread, (priority + NICE).min(NICE_MAX));
        }
    }
}

/// Returns the last record before `new` whose number ends with these 32 bits.
fn number_of(place: u32, new: u64) -> u64 {
    new.wrapping_sub(u64::from((new as u32).wrapping_sub(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_stands_for_the_last_record_that_ends_with_it() {
        assert_eq!(number_of(5, 9), 5);
        assert_eq!(number_of(9, (1 << 32) + 5), 9);
        assert_eq!(number_of(4, (7 << 32) + 5), (7 << 32) + 4);
    }
}
