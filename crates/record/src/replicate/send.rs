//! The one that is asked.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ibid_delta::{DeltaEncoder as Codec, Interval, Method};
use ibid_format::record::{
    BatchContents, Digest, LOG_KEY, LogBatch, LogChange, LogEntry, LogState, NEXT_KEY, Query, Refusal, Request,
    Response, Role, SentBody, TransferPage, compress_contents, compress_rows, open_log_entry,
};

use super::Oplog;
use crate::engine::{Direction, Snapshot, Table};
use crate::error::{Damage, Error};
use crate::read::bodies::Bodies;
use crate::recent::Recent;
use crate::store::{Durability, Inner, Store};
use crate::write::replay::{self, SENT, Task};
use crate::write::writer::What;

/// Bytes of entries and deltas in a message, beyond the first entry.
const MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of the bodies that these make.
const BODY_BYTES: usize = 32 << 20;
/// Entries in a message.
const ENTRIES: usize = 1 << 14;
/// zstd's level for messages.
const LEVEL: i32 = 9;
/// Rewrites that are looked for ahead of what is sent.
const AHEAD_REWRITES: usize = 1 << 18;
/// Entries that are gone through for that.
const AHEAD_ENTRIES: u64 = 1 << 20;
/// Bytes of bodies that were sent, to encode others against.
const CACHE_BYTES: usize = 32 << 20;
/// How densely a body is searched for copies.
const METHOD: Method = Method::Anchor {
    interval: Interval::I16,
};

/// What was sent since the sender was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Answers.
    pub messages: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Bodies that were in them.
    pub bodies: u64,
    /// Bytes of these bodies.
    pub body_bytes: u64,
    /// Bodies that were sent as deltas.
    pub deltas: u64,
}

/// Answers what one replica asks.
pub struct Sender {
    store: Arc<Inner>,
    /// Entries before this position are on disk.
    synced: u64,
    ahead: Ahead,
    cache: Recent<u64, Arc<Vec<u8>>>,
    codec: Codec,
    transfer: Option<Transfer>,
    message_bytes: usize,
    /// After the last entry of the last answer with entries.
    position: u64,
    traffic: Traffic,
}

/// Records that later became deltas: the base, which the encoder found to be like it, and the
/// record. A replica has the record when it gets the base.
#[derive(Default)]
struct Ahead {
    by_base: BTreeMap<u64, u64>,
    from: u64,
    until: u64,
}

/// All that the store had at one moment, on its way to a replica.
struct Transfer {
    id: u64,
    snapshot: Box<dyn Snapshot>,
    log: Vec<u8>,
}

impl Sender {
    /// One that answers for a store.
    ///
    /// # Errors
    /// [`Error::NoLog`].
    pub fn new(store: &Store) -> Result<Self, Error> {
        let store = store.inner.clone();
        replay::state(&*store.engine.snapshot()?)?.ok_or(Error::NoLog)?;
        Ok(Sender {
            store,
            synced: 0,
            ahead: Ahead::default(),
            cache: Recent::new(CACHE_BYTES),
            codec: Codec::new(),
            transfer: None,
            message_bytes: MESSAGE_BYTES,
            position: 0,
            traffic: Traffic::default(),
        })
    }

    /// The same with messages of about so many bytes, before they are compressed, instead of 1 MiB.
    #[must_use]
    pub fn with_message_bytes(self, message_bytes: usize) -> Self {
        Sender { message_bytes, ..self }
    }

    /// What was sent.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// The position after the last entry of the last answer that had entries, or could have had.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`Error::Message`] for what is none; [`Error::Damaged`], [`Error::Engine`],
    /// [`Error::WriterEnded`].
    pub fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, Error> {
        let request = Request::decode(request)?;
        let answer = self.answer_to(&request)?.encode();
        self.traffic.messages += 1;
        self.traffic.bytes += answer.len() as u64;
        Ok(answer)
    }

    pub(super) fn answer_to(&mut self, request: &Request) -> Result<Response, Error> {
        let snapshot = self.store.engine.snapshot()?;
        let state = replay::state(&*snapshot)?.ok_or(Error::NoLog)?;
        if let Some(refused) = self.refuses(&state, request)? {
            return Ok(Response::Refused(refused));
        }
        // What a crash could take away from here must be nowhere else.
        if state.next > self.synced {
            self.store.ask(What::Sync, Durability::Sync)?;
            self.synced = state.next;
        }
        match &request.query {
            Query::Entries { next, digest, whole } => {
                let take_all = Response::TransferRequired {
                    store: state.store,
                    epoch: state.epoch,
                    asked: *next,
                };
                let behind = request.epoch.number < state.epoch.number;
                if *next > state.next {
                    // It was the primary of an earlier epoch, and wrote what nobody else has.
                    return Ok(if behind {
                        take_all
                    } else {
                        Response::Refused(Refusal::Ahead)
                    });
                }
                if *next < state.first {
                    return Ok(take_all);
                }
                if *digest != digest_before(&*snapshot, &state, *next)? {
                    return Ok(if behind {
                        take_all
                    } else {
                        Response::Refused(Refusal::OtherEpoch)
                    });
                }
                self.transfer = None;
                self.entries(&*snapshot, &state, *next, *digest, *whole)
            }
            Query::Transfer { transfer, table, key } => {
                let known = self.transfer.as_ref().is_some_and(|known| known.id == *transfer);
                if known {
                    self.chunk(*table, key, &state)
                } else {
                    self.transfer = Some(Transfer {
                        id: replay::random()?.max(1),
                        snapshot,
                        log: state.encode(),
                    });
                    self.chunk(0, b"", &state)
                }
            }
        }
    }

    /// Why the one that asks gets nothing, if it does not.
    fn refuses(&self, state: &LogState, request: &Request) -> Result<Option<Refusal>, Error> {
        let knows = request.store != [0; 16];
        if knows && request.store != state.store {
            return Ok(Some(Refusal::OtherStore));
        }
        match state.role {
            Role::Primary | Role::Replica => {}
            Role::Fenced { .. } => return Ok(Some(Refusal::Fenced)),
            Role::Incomplete { .. } => return Ok(Some(Refusal::Incomplete)),
        }
        if knows && request.epoch.number > state.epoch.number {
            if state.role == Role::Primary {
                let by = request.epoch.number;
                self.store.ask(What::Log(Task::Fence { by }), Durability::Sync)?;
            }
            return Ok(Some(Refusal::Fenced));
        }
        let other = request.epoch.number == state.epoch.number && request.epoch.id != state.epoch.id;
        Ok((knows && other).then_some(Refusal::OtherEpoch))
    }

    /// Entries from a position on.
    fn entries(
        &mut self,
        read: &dyn Snapshot,
        state: &LogState,
        from: u64,
        digest: Digest,
        whole: bool,
    ) -> Result<Response, Error> {
        let mut sent = LogBatch {
            store: state.store,
            epoch: state.epoch,
            from,
            head: state.next,
            digest,
            bodies_digest: Digest::default(),
            packed: Vec::new(),
            length: 0,
        };
        self.position = from;
        if from == state.next {
            return Ok(Response::Entries(sent));
        }
        if !whole {
            self.ahead.look(read, from)?;
        }
        let mut gathered = Gathered::default();
        let mut hasher = Bodily::default();
        let mut walk = Walk::new(from);
        while let Some((entry, after)) = walk.next(read)? {
            if let LogEntry::Batch { record, operations } = LogEntry::decode(&entry)? {
                let mut number = record;
                for operation in &operations {
                    if let LogChange::Body { prior } = operation.change {
                        let body = self.body(read, number)?;
                        hasher.add(&body);
                        gathered.body_bytes += body.len();
                        let (base, bytes) = if whole {
                            (0, body.to_vec())
                        } else {
                            self.encode(read, number, prior, &body)?
                        };
                        self.traffic.bodies += 1;
                        self.traffic.body_bytes += body.len() as u64;
                        self.traffic.deltas += u64::from(base != 0);
                        gathered.bytes += bytes.len();
                        gathered.bodies.push((base, bytes));
                        self.cache.insert(number, body.clone(), body.len());
                    }
                    number += u64::from(operation.change.writes());
                }
            }
            gathered.bytes += entry.len();
            gathered.entries.push(entry);
            sent.digest = after;
            if gathered.bytes >= self.message_bytes
                || gathered.body_bytes >= BODY_BYTES
                || gathered.entries.len() == ENTRIES
            {
                break;
            }
        }
        self.position = from + gathered.entries.len() as u64;
        sent.bodies_digest = hasher.finish();
        let contents = BatchContents {
            entries: gathered.entries.iter().map(Vec::as_slice).collect(),
            bodies: gathered
                .bodies
                .iter()
                .map(|(base, bytes)| SentBody { base: *base, bytes })
                .collect(),
        };
        (sent.packed, sent.length) = compress_contents(&contents, LEVEL)?;
        Ok(Response::Entries(sent))
    }

    fn body(&mut self, read: &dyn Snapshot, number: u64) -> Result<Arc<Vec<u8>>, Error> {
        if let Some(body) = self.cache.get(number) {
            return Ok(body);
        }
        replay::body(read, &self.store.bodies, number).map(Arc::new)
    }

    /// The body as a delta of another, or as it is if that is shorter.
    fn encode(
        &mut self,
        read: &dyn Snapshot,
        number: u64,
        prior: u64,
        body: &Arc<Vec<u8>>,
    ) -> Result<(u64, Vec<u8>), Error> {
        let similar = self.ahead.by_base.get(&number).copied();
        for base in similar.into_iter().chain((prior != 0).then_some(prior)) {
            // It may be gone here, which costs bytes and nothing else.
            let older = match self.cache.get(base) {
                Some(older) => older,
                None if !self.store.bodies.is_there(read, base)? => continue,
                None => match replay::body(read, &self.store.bodies, base) {
                    Ok(older) => Arc::new(older),
                    Err(Error::Damaged { .. }) => continue,
                    Err(error) => return Err(error),
                },
            };
            let mut delta = Vec::new();
            let encoded = self.codec.encode(METHOD, &older, body, &mut delta);
            encoded.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))?;
            if delta.len() < body.len() {
                return Ok((base, delta));
            }
        }
        Ok((0, body.to_vec()))
    }

    /// The part of a transfer that comes after an entry.
    fn chunk(&self, table: u8, key: &[u8], state: &LogState) -> Result<Response, Error> {
        let Some(transfer) = &self.transfer else {
            return Ok(Response::Refused(Refusal::Incomplete));
        };
        let mut page = Page {
            room: self.message_bytes,
            ..Page::default()
        };
        for (number, sent) in SENT.into_iter().filter(|&(number, _)| number >= table.max(1)) {
            let after = if number == table { key } else { b"" };
            page.read(&*transfer.snapshot, &self.store.bodies, number, sent, after)?;
            if page.is_full() {
                break;
            }
        }
        let log = if page.is_full() {
            Vec::new()
        } else {
            transfer.log.clone()
        };
        let pairs = page
            .pairs
            .iter()
            .map(|(table, key, value)| (*table, &key[..], &value[..]));
        let (packed, length) = compress_rows(pairs, LEVEL)?;
        Ok(Response::TransferPage(TransferPage {
            store: state.store,
            epoch: state.epoch,
            transfer: transfer.id,
            table,
            key: key.to_vec(),
            log,
            packed,
            length,
        }))
    }
}

/// The embedded log: it answers at once.
impl Oplog for Sender {
    fn answer(&mut self, request: &[u8], _stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error> {
        Sender::answer(self, request).map(Some)
    }
}

/// What is going to be sent.
#[derive(Default)]
struct Gathered {
    entries: Vec<Vec<u8>>,
    bodies: Vec<(u64, Vec<u8>)>,
    bytes: usize,
    body_bytes: usize,
}

/// The checksum of bodies.
#[derive(Default)]
pub(super) struct Bodily(Vec<u8>);

impl Bodily {
    pub(super) fn add(&mut self, body: &[u8]) {
        let mut one = (body.len() as u64).to_le_bytes().to_vec();
        one.extend_from_slice(&ibid_format::record::body_digest(body));
        self.0.extend_from_slice(&one);
    }

    pub(super) fn finish(self) -> Digest {
        ibid_format::record::body_digest(&self.0)
    }
}

/// Entries of a log, one after the other.
struct Walk {
    next: u64,
    page: std::vec::IntoIter<(u64, Vec<u8>)>,
}

impl Walk {
    fn new(from: u64) -> Self {
        Walk {
            next: from,
            page: Vec::new().into_iter(),
        }
    }

    /// What an entry says, and its digest.
    fn next(&mut self, read: &dyn Snapshot) -> Result<Option<(Vec<u8>, Digest)>, Error> {
        const PAGE: usize = 64;
        if self.page.len() == 0 {
            let mut page = Vec::new();
            let mut each = |key: &[u8], value: &[u8]| {
                let position = key.try_into().map_or(0, u64::from_be_bytes);
                page.push((position, value.to_vec()));
                if page.len() < PAGE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            let from = self.next.to_be_bytes();
            let range = (Bound::Included(&from[..]), Bound::Unbounded);
            read.range(Table::Oplog, range, Direction::Forward, &mut each)?;
            self.page = page.into_iter();
        }
        let Some((position, value)) = self.page.next() else {
            return Ok(None);
        };
        let key = position.to_be_bytes();
        if position != self.next {
            return Err(Error::damaged(Table::Oplog, &self.next.to_be_bytes(), Damage::Missing));
        }
        self.next += 1;
        let opened = open_log_entry(position, &value);
        let (entry, digest) = opened.map_err(|error| Error::damaged(Table::Oplog, &key, error))?;
        Ok(Some((entry.to_vec(), digest)))
    }
}

impl Ahead {
    /// Looks for what became a delta of the records that are named from a position on.
    fn look(&mut self, read: &dyn Snapshot, from: u64) -> Result<(), Error> {
        if from < self.from || from > self.until {
            *self = Ahead {
                from,
                until: from,
                ..Ahead::default()
            };
        }
        let mut walk = Walk::new(from);
        // Nothing asks for bases of records that were sent, unless it asks again for what it got.
        if let Some((entry, _)) = walk.next(read)?
            && let LogEntry::Batch { record, .. } = LogEntry::decode(&entry)?
        {
            self.by_base = self.by_base.split_off(&record);
            self.from = from;
        }
        let mut walk = Walk::new(self.until);
        while self.by_base.len() < AHEAD_REWRITES
            && self.until < from + AHEAD_ENTRIES
            && let Some((entry, _)) = walk.next(read)?
        {
            self.until = walk.next;
            if let LogEntry::Rewrites { rewrites, .. } = LogEntry::decode(&entry)? {
                for (number, base) in rewrites {
                    // Of several the newest: the others are further back in its chain.
                    let known = self.by_base.entry(base).or_default();
                    *known = (*known).max(number);
                }
            }
        }
        Ok(())
    }
}

/// Entries of tables that are going to be sent.
#[derive(Default)]
struct Page {
    pairs: Vec<(u8, Vec<u8>, Vec<u8>)>,
    bytes: usize,
    room: usize,
}

impl Page {
    fn is_full(&self) -> bool {
        self.bytes >= self.room
    }

    fn push(&mut self, number: u8, key: &[u8], value: &[u8]) {
        self.bytes += key.len() + value.len() + 8;
        self.pairs.push((number, key.to_vec(), value.to_vec()));
    }

    /// Adds entries of a table, from the one after a key on, until the page is full.
    fn read(
        &mut self,
        read: &dyn Snapshot,
        bodies: &Bodies,
        number: u8,
        table: Table,
        after: &[u8],
    ) -> Result<(), Error> {
        match table {
            Table::Records => return self.read_records(read, bodies, number, after),
            Table::Meta => {
                let mut next = None;
                if after != NEXT_KEY {
                    read.get(Table::Meta, NEXT_KEY, &mut |value| next = Some(value.to_vec()))?;
                }
                debug_assert_ne!(after, LOG_KEY);
                if let Some(next) = next {
                    self.push(number, NEXT_KEY, &next);
                }
                return Ok(());
            }
            _ => {}
        }
        let from = if after.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(after)
        };
        let mut each = |key: &[u8], value: &[u8]| {
            self.push(number, key, value);
            if self.is_full() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        Ok(read.range(table, (from, Bound::Unbounded), Direction::Forward, &mut each)?)
    }

    /// Records as they are stored by themselves, wherever they lie.
    fn read_records(&mut self, read: &dyn Snapshot, bodies: &Bodies, number: u8, after: &[u8]) -> Result<(), Error> {
        const AT_ONCE: usize = 256;
        let mut after = after.try_into().map_or(0, u64::from_be_bytes);
        while !self.is_full() {
            let numbers = bodies.numbers(read, after, AT_ONCE)?;
            if numbers.is_empty() {
                break;
            }
            for record in numbers {
                let key = record.to_be_bytes();
                let mut encoded = Vec::new();
                let mut written = Ok(());
                let mut found = |found: ibid_format::record::Record<'_>| written = found.encode(record, &mut encoded);
                bodies.record(read, record, &mut found)?;
                written.map_err(|error| Error::damaged(Table::Records, &key, error))?;
                self.push(number, &key, &encoded);
                after = record;
                if self.is_full() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// The digest of the entry before a position that the log has, or is at the end of.
fn digest_before(read: &dyn Snapshot, state: &LogState, position: u64) -> Result<Digest, Error> {
    if position == state.first {
        Ok(state.before)
    } else if position == state.next {
        Ok(state.digest)
    } else {
        replay::entry(read, position - 1).map(|(_, digest)| digest)
    }
}
