//! The primary's side: answering the requests of a replica.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ibid_delta::{Interval, Method};
use ibid_format::record::{
    Digest, Epoch, Fenced, LogBatch, LogChange, LogEntry, LogOperation, LogState, Query, RawContents, Refusal, Request,
    Response, Role, TransferPage,
};

use super::Oplog;
use super::answering::{Answering, Turn};
use super::gathered::Gathered;
use super::later_deltas::LaterDeltas;
use super::page_builder::PageBuilder;
use super::transfers::{Transfer, Transfers, id_of};
use crate::engine::{Snapshot, Table};
use crate::error::Error;
use crate::log::entries::{self, Entries};
use crate::log::state;
use crate::read::records::Generation;
use crate::store::{Shared, Store};
use crate::write::request::{Command, Durability, LogCommand, Outcome, TRANSFERRED_TABLES};

/// Bytes of entries and deltas in a message, beyond the first entry.
pub(super) const MESSAGE_BYTES: usize = 1 << 20;
/// Bytes of bodies that are kept together until they are compressed. zstd finds copies within about as many.
const BUFFER_BYTES_MAX: usize = 4 << 20;
/// The level of zstd for messages.
const LEVEL: i32 = 9;
/// How densely a body is searched for copies.
const METHOD: Method = Method::Anchor {
    interval: Interval::I16,
};

/// The answers since the sender was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Traffic {
    /// Answers.
    pub messages: u64,
    /// Bytes of the answers.
    pub bytes: u64,
    /// Bodies in the answers.
    pub bodies: u64,
    /// Bytes of these bodies, before they were encoded and compressed.
    pub body_bytes: u64,
    /// Bodies that were sent as deltas.
    pub deltas: u64,
}

/// Answers the requests of one replica.
pub struct Sender {
    store: Arc<Shared>,
    /// Entries before this position are on disk.
    synced: u64,
    later_deltas: LaterDeltas,
    answering: Arc<Answering>,
    transfers: Arc<Transfers>,
    /// The transfer of the last answer.
    transfer: Option<Arc<Transfer>>,
    /// Whether the store that asks has fenced this one, and so takes the rest of its log.
    hands_over: bool,
    message_bytes: usize,
    /// The position after the last entry of the last answer with entries.
    position: u64,
    traffic: Traffic,
}

/// The position that a replica asks from.
#[derive(Clone, Copy)]
struct Position {
    next: u64,
    /// The digest of the entry before it.
    digest: Digest,
    /// Whether the replica wants bodies that are not encoded.
    whole: bool,
}

/// What an answer is made from.
struct Making<'a> {
    turn: &'a mut Turn,
    read: &'a dyn Snapshot,
    generation: Generation,
}

impl Sender {
    /// Returns a sender that answers for a store.
    ///
    /// # Errors
    /// [`Error::NoLog`] if the store has no log.
    pub fn new(store: &Store) -> Result<Self, Error> {
        Sender::with_transfers(store, Arc::default())
    }

    /// Returns a sender that continues transfers that others began.
    pub(super) fn with_transfers(store: &Store, transfers: Arc<Transfers>) -> Result<Self, Error> {
        let store = store.shared.clone();
        state::read(&*store.engine.snapshot()?)?.ok_or(Error::NoLog)?;
        let answering = store.answering();
        let sending_max = answering.sending_max();
        Ok(Sender {
            store,
            synced: 0,
            later_deltas: LaterDeltas::new(answering.clone()),
            answering,
            transfers,
            transfer: None,
            hands_over: false,
            message_bytes: MESSAGE_BYTES.min(sending_max),
            position: 0,
            traffic: Traffic::default(),
        })
    }

    /// Refuses a store that has not received all of its primary's contents.
    pub(super) fn check_complete(&self) -> Result<(), Error> {
        let state = state::read(&*self.store.engine.snapshot()?)?.ok_or(Error::NoLog)?;
        match is_incomplete(&state) {
            true => Err(Error::Incomplete),
            false => Ok(()),
        }
    }

    /// Sets about how many bytes a message has before it is compressed, instead of 1 MiB, or what [`Options`] give to
    /// answers.
    ///
    /// [`Options`]: crate::Options::replication_bytes
    #[must_use]
    pub fn with_message_bytes(self, message_bytes: usize) -> Self {
        Sender { message_bytes, ..self }
    }

    /// Returns about how many bytes a message has before it is compressed.
    pub(super) fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Returns the answers since the sender was made.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Returns the position after the last entry of the last answer that had entries, or could have
    /// had some.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`Error::Message`] if it is no request; [`Error::Damaged`], [`Error::Engine`],
    /// [`Error::WriterEnded`].
    pub fn answer(&mut self, request: &[u8]) -> Result<Vec<u8>, Error> {
        let answering = self.answering.clone();
        let mut turn = answering.turn();
        self.answer_in(&mut turn, request)
    }

    /// Answers a request when it has the turn.
    pub(super) fn answer_in(&mut self, turn: &mut Turn, request: &[u8]) -> Result<Vec<u8>, Error> {
        let request = Request::decode(request)?;
        let answer = self.response_in(turn, &request)?.into_bytes();
        self.traffic.messages += 1;
        self.traffic.bytes += answer.len() as u64;
        Ok(answer)
    }

    /// Returns what this sender shares with others.
    pub(super) fn answering(&self) -> Arc<Answering> {
        self.answering.clone()
    }

    pub(super) fn answer_to(&mut self, request: &Request) -> Result<Response, Error> {
        let answering = self.answering.clone();
        let mut turn = answering.turn();
        self.response_in(&mut turn, request)
    }

    fn response_in(&mut self, turn: &mut Turn, request: &Request) -> Result<Response, Error> {
        let (snapshot, generation) = match self.store.complete_snapshot() {
            Err(Error::Incomplete) => return Ok(Response::Refused(Refusal::Incomplete)),
            complete => complete?,
        };
        let state = state::read(&*snapshot)?.ok_or(Error::NoLog)?;
        if let Query::Fence { by } = request.query {
            return self.answer_fence(&state, request.store, by);
        }
        if let Some(refused) = self.refusal(&state, request)? {
            return Ok(Response::Refused(refused));
        }
        // A replica must not have entries that a crash could remove here.
        if state.next > self.synced {
            self.store.ask(Command::Sync, Durability::Sync)?;
            self.synced = state.next;
        }
        match &request.query {
            &Query::Entries { next, digest, whole } => {
                let position = Position { next, digest, whole };
                let read = &*snapshot;
                let making = &mut Making { turn, read, generation };
                self.answer_entries(making, &state, request.epoch, position)
            }
            Query::Transfer { transfer, table, key } => {
                self.answer_transfer(snapshot, &state, *transfer, (*table, key))
            }
            Query::Fence { .. } => unreachable!("it was answered before"),
        }
    }

    /// Ends the writing of a primary. When it answers, that is on disk.
    fn answer_fence(&mut self, state: &LogState, store: [u8; 16], by: u64) -> Result<Response, Error> {
        if is_incomplete(state) {
            return Ok(Response::Refused(Refusal::Incomplete));
        }
        if store != state.store {
            return Ok(Response::Refused(Refusal::OtherStore));
        }
        let done = match self.store.ask(Command::Log(LogCommand::Fence { by }), Durability::Sync) {
            Err(Error::IsReplica) => return Ok(Response::Refused(Refusal::NotPrimary)),
            done => done?,
        };
        // It has its last entry now.
        let state = state::read(&*self.store.engine.snapshot()?)?.ok_or(Error::NoLog)?;
        let (Outcome::Fenced(before), Role::Fenced { .. }) = (done, &state.role) else {
            return Ok(Response::Refused(Refusal::LaterEpoch));
        };
        self.hands_over = true;
        Ok(Response::Fenced(Fenced {
            store: state.store,
            epoch: state.epoch,
            before: before.unwrap_or_default(),
            next: state.next,
        }))
    }

    /// Returns why a replica gets nothing; [`None`] if it gets an answer.
    fn refusal(&self, state: &LogState, request: &Request) -> Result<Option<Refusal>, Error> {
        if is_incomplete(state) {
            return Ok(Some(Refusal::Incomplete));
        }
        let knows_a_primary = request.store != [0; 16];
        if knows_a_primary && request.store != state.store {
            return Ok(Some(Refusal::OtherStore));
        }
        if matches!(state.role, Role::Fenced { .. }) && !self.hands_over {
            return Ok(Some(Refusal::Fenced));
        }
        if knows_a_primary && request.epoch.number > state.epoch.number {
            if state.role == Role::Primary {
                let by = request.epoch.number;
                self.store
                    .ask(Command::Log(LogCommand::Fence { by }), Durability::Sync)?;
            }
            return Ok(Some(Refusal::Fenced));
        }
        let is_other = request.epoch.number == state.epoch.number && request.epoch.id != state.epoch.id;
        Ok((knows_a_primary && is_other).then_some(Refusal::OtherEpoch))
    }

    /// Answers a replica that wants entries.
    fn answer_entries(
        &mut self,
        making: &mut Making<'_>,
        state: &LogState,
        epoch: Epoch,
        position: Position,
    ) -> Result<Response, Error> {
        let Position { next, digest, .. } = position;
        let take_all = Response::TransferRequired {
            store: state.store,
            epoch: state.epoch,
            asked: next,
        };
        // A replica that was the primary of an earlier epoch may have entries that no other store
        // has.
        let is_behind = epoch.number < state.epoch.number;
        if next > state.next {
            return Ok(if is_behind {
                take_all
            } else {
                Response::Refused(Refusal::Ahead)
            });
        }
        if next < state.first {
            return Ok(take_all);
        }
        if digest != digest_before(making.read, state, next)? {
            return Ok(if is_behind {
                take_all
            } else {
                Response::Refused(Refusal::OtherEpoch)
            });
        }
        if let Some(transfer) = self.transfer.take() {
            self.transfers.end(transfer);
        }
        self.send_entries(making, state, position)
    }

    /// Answers a replica that takes all contents. It begins anew if its transfer was of other
    /// contents, whose snapshot is gone.
    fn answer_transfer(
        &mut self,
        snapshot: Box<dyn Snapshot>,
        state: &LogState,
        id: u64,
        (table, key): (u8, &[u8]),
    ) -> Result<Response, Error> {
        let last = self.transfer.take().filter(|last| last.id == id);
        let known = self.transfers.find(id).or(last);
        let (transfer, after) = match known {
            Some(known) => (known, (table, key)),
            None if id == id_of(state) => (self.transfers.begin(snapshot, state), (table, key)),
            None => (self.transfers.begin(snapshot, state), (0, &b""[..])),
        };
        let answer = self.send_part(&transfer, after, state);
        self.transfer = Some(transfer);
        answer
    }

    /// Returns entries from a position on.
    fn send_entries(
        &mut self,
        making: &mut Making<'_>,
        state: &LogState,
        position: Position,
    ) -> Result<Response, Error> {
        let Position { next, digest, whole } = position;
        let read = making.read;
        let mut sent = LogBatch {
            store: state.store,
            epoch: state.epoch,
            from: next,
            head: state.next,
            digest,
            bodies_digest: Digest::default(),
            packed: Vec::new(),
            length: 0,
        };
        self.position = next;
        if next == state.next {
            return Ok(Response::Entries(sent));
        }
        if !whole {
            self.later_deltas.look(read, next)?;
        }
        let mut gathered = Gathered::default();
        let mut entries = Entries::from(next);
        while (gathered.entries.is_empty() || !gathered.is_full(self.message_bytes))
            && let Some((entry, digest)) = entries.next(read)?
        {
            if let LogEntry::Batch { record, operations, .. } = LogEntry::decode(&entry)? {
                self.gather_bodies(making, record, &operations, whole, &mut gathered)?;
            }
            gathered.entry_bytes += entry.len();
            gathered.entries.push(entry);
            sent.digest = digest;
        }
        self.position = next + gathered.entries.len() as u64;
        sent.bodies_digest = gathered.digest.finish();
        let contents = RawContents::new(&gathered.entries, &gathered.parts, gathered.bodies)?;
        (sent.packed, sent.length) = contents.compress(LEVEL)?;
        Ok(Response::Entries(sent))
    }

    /// Adds the bodies of the records that a batch wrote, the first of which is `record`.
    fn gather_bodies(
        &mut self,
        making: &mut Making<'_>,
        record: u64,
        operations: &[LogOperation],
        whole: bool,
        gathered: &mut Gathered,
    ) -> Result<(), Error> {
        let mut number = record;
        for operation in operations {
            if let LogChange::Body { prior, .. } = operation.change {
                let body = self.body(making, number)?;
                gathered.digest.add(&body);
                gathered.body_bytes += body.len();
                let prior = (!whole).then_some(prior);
                let buffer = gathered.buffer(BUFFER_BYTES_MAX.min(self.answering.sending_max()));
                let start = buffer.len();
                let base = self.encode(making, number, prior, &body, buffer)?;
                let length = buffer.len() - start;
                gathered.add(base, length);
                self.traffic.bodies += 1;
                self.traffic.body_bytes += body.len() as u64;
                self.traffic.deltas += u64::from(base != 0);
                let length = body.len();
                making.turn.cache.insert((making.generation, number), body, length);
            }
            number += u64::from(operation.change.writes());
        }
        Ok(())
    }

    fn body(&self, making: &mut Making<'_>, number: u64) -> Result<Arc<Vec<u8>>, Error> {
        if let Some(body) = making.turn.cache.get((making.generation, number)) {
            return Ok(body);
        }
        self.store.records.body_of_any(making.read, number).map(Arc::new)
    }

    /// Appends a body as a delta and returns its base; or appends it whole and returns 0, if that is shorter. `prior`
    /// is the record before it with the same key, or 0; [`None`] if the body is wanted whole.
    fn encode(
        &self,
        making: &mut Making<'_>,
        number: u64,
        prior: Option<u64>,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<u64, Error> {
        let similar = prior.and_then(|_| self.later_deltas.of(number));
        let records = &self.store.records;
        for base in similar.into_iter().chain(prior.filter(|&prior| prior != 0)) {
            // A base that was removed here costs bytes and nothing else.
            let older = match making.turn.cache.get((making.generation, base)) {
                Some(older) => older,
                None if !records.contains(making.read, base)? => continue,
                None => match records.body_of_any(making.read, base) {
                    Ok(older) => Arc::new(older),
                    Err(Error::Damaged { .. }) => continue,
                    Err(error) => return Err(error),
                },
            };
            let bytes_max = body.len().saturating_sub(1);
            let encoded = making.turn.encoder.encode_within(METHOD, &older, body, bytes_max, out);
            if encoded.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))? {
                return Ok(base);
            }
        }
        out.extend_from_slice(body);
        Ok(0)
    }

    /// Returns the part of a transfer that comes after an entry.
    fn send_part(&self, transfer: &Transfer, (table, key): (u8, &[u8]), state: &LogState) -> Result<Response, Error> {
        let mut page = PageBuilder::new(self.message_bytes);
        for (number, transferred) in TRANSFERRED_TABLES
            .into_iter()
            .filter(|&(number, _)| number >= table.max(1))
        {
            let after = if number == table { key } else { b"" };
            page.read(&*transfer.snapshot, &self.store.records, number, transferred, after)?;
            if page.is_full() {
                break;
            }
        }
        let log = if page.is_full() {
            Vec::new()
        } else {
            transfer.log.clone()
        };
        let (packed, length) = page.into_rows().finish().compress(LEVEL)?;
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

/// A primary in the same process, which answers at once.
impl Oplog for Sender {
    fn answer(&mut self, request: &[u8], _stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error> {
        Sender::answer(self, request).map(Some)
    }
}

/// Returns whether a store has received nothing from its primary yet, or not all.
fn is_incomplete(state: &LogState) -> bool {
    state.store == [0; 16] || state::is_incomplete(Some(state))
}

/// Returns the digest of the entry before a position that is in the log or at its end.
fn digest_before(read: &dyn Snapshot, state: &LogState, position: u64) -> Result<Digest, Error> {
    if position == state.first {
        Ok(state.before)
    } else if position == state.next {
        Ok(state.digest)
    } else {
        entries::at(read, position - 1).map(|(_, digest)| digest)
    }
}
