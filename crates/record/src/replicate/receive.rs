//! The replica's side: making requests, and applying the answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ibid_delta::DeltaDecoder;
use ibid_format::record::{
    BODY_BYTES_MAX, Epoch, LogBatch, LogChange, LogEntry, LogOperation, LogState, Query, Refusal, Request, Response,
    Role, SentBody, TransferPage, decompress_contents, decompress_rows, log_digest,
};

use super::bodies_digest::BodiesDigest;
use crate::engine::{Snapshot, Table};
use crate::error::{Damage, Error};
use crate::log::state;
use crate::read::lookup;
use crate::store::{Shared, Store};
use crate::write::request::{
    Change, Command, Durability, LogCommand, Operation, ReceivedEntries, ReceivedEntry, Target, TransferPart,
};

/// How soon received entries are on disk. A crash before that loses position and records together.
const DURABILITY: Durability = Durability::Batched(Duration::from_secs(1));

/// What an answer brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// Entries. The replica is at `position`, and the primary was at `head`.
    Entries {
        /// The position of the first entry that the replica lacks.
        position: u64,
        /// The position of the next entry that the primary will write.
        head: u64,
    },
    /// The first part of all contents; more parts follow. What the replica had is removed, also
    /// the parts of an earlier transfer that cannot continue.
    Began,
    /// A part of all contents; more parts follow.
    Part,
    /// The last part of all contents.
    Whole,
    /// Nothing: the answer does not fit the replica's position, or the replica has to ask in
    /// another way.
    Nothing,
}

impl Progress {
    /// Returns whether the replica has all entries that the primary had when it answered.
    pub fn is_current(&self) -> bool {
        matches!(self, Progress::Entries { position, head } if position >= head)
    }
}

/// Asks for what a replica lacks.
pub struct Receiver {
    store: Arc<Shared>,
    /// Whether to ask for bodies that are not encoded, because a base is missing here or damaged.
    whole: bool,
    /// Whether to ask for all contents.
    takes_all: bool,
    decoder: DeltaDecoder,
}

impl Receiver {
    /// Returns a receiver for a replica.
    ///
    /// # Errors
    /// [`Error::NoLog`] if the store was not made a replica.
    pub fn new(store: &Store) -> Result<Self, Error> {
        let receiver = Receiver {
            store: store.shared.clone(),
            whole: false,
            takes_all: false,
            decoder: DeltaDecoder::new(),
        };
        receiver.state()?;
        Ok(receiver)
    }

    fn state(&self) -> Result<LogState, Error> {
        state::read(&*self.store.engine.snapshot()?)?.ok_or(Error::NoLog)
    }

    /// Returns the next request.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`].
    pub fn ask(&self) -> Result<Vec<u8>, Error> {
        let state = self.state()?;
        let query = match state.role {
            Role::Incomplete { transfer, table, key } => Query::Transfer { transfer, table, key },
            _ if self.takes_all => Query::Transfer {
                transfer: 0,
                table: 0,
                key: Vec::new(),
            },
            _ => Query::Entries {
                next: state.next,
                digest: state.digest,
                whole: self.whole,
            },
        };
        let (store, epoch) = (state.store, state.epoch);
        Ok(Request { store, epoch, query }.encode())
    }

    /// Applies an answer, and returns the progress that it brought.
    ///
    /// # Errors
    /// [`Error::Message`] if it is no answer; [`Error::Refused`], [`Error::StalePrimary`] and
    /// [`Error::Diverged`], after which nothing was done and asking again does not help;
    /// [`Error::Damaged`], [`Error::Engine`], [`Error::WriterEnded`].
    pub fn take(&mut self, answer: &[u8]) -> Result<Progress, Error> {
        let state = self.state()?;
        match Response::decode(answer)? {
            Response::Refused(refused) => Err(Error::Refused(refused)),
            Response::TransferRequired { store, epoch, asked } => {
                check(&state, store, epoch)?;
                if asked == state.next && state.role == Role::Replica {
                    self.takes_all = true;
                }
                Ok(Progress::Nothing)
            }
            Response::Entries(sent) => {
                check(&state, sent.store, sent.epoch)?;
                self.entries(&state, &sent)
            }
            Response::TransferPage(chunk) => {
                check(&state, chunk.store, chunk.epoch)?;
                self.chunk(&state, &chunk)
            }
            // It was not asked for.
            Response::Fenced(_) => Ok(Progress::Nothing),
        }
    }

    fn entries(&mut self, state: &LogState, sent: &LogBatch) -> Result<Progress, Error> {
        if state.role != Role::Replica || sent.from > state.next {
            return Ok(Progress::Nothing);
        }
        let (mut position, head) = (state.next, sent.head);
        if sent.packed.is_empty() {
            if sent.from < state.next || sent.digest != state.digest {
                return Ok(Progress::Nothing);
            }
            return Ok(Progress::Entries { position, head });
        }
        let mut raw = Vec::new();
        let contents = decompress_contents(&sent.packed, sent.length, &mut raw)?;
        // A reader of a published log may find its position in the middle of an answer, and has the
        // entries before.
        let known = (state.next - sent.from) as usize;
        if known >= contents.entries.len() {
            return Ok(Progress::Nothing); // it is late
        }
        // Each digest covers the one before, so if the last is right, the replica's entries are the
        // same.
        let digest = contents.entries[known..]
            .iter()
            .fold(state.digest, |digest, entry| log_digest(digest, entry));
        if digest != sent.digest {
            if known > 0 {
                return Ok(Progress::Nothing); // it is late, and from a primary with other entries
            }
            // They follow other entries than the replica's.
            return Err(Error::Refused(Refusal::OtherEpoch));
        }
        let decoded = contents.entries.iter().map(|entry| LogEntry::decode(entry));
        let mut entries = decoded.collect::<Result<Vec<_>, _>>()?;
        let mut bodies = match self.bodies(&entries, &contents.bodies) {
            Err(Error::Damaged { .. }) => {
                // A base is damaged here, or was removed since if the answer is late. The primary
                // has the body.
                self.whole = true;
                return Ok(Progress::Nothing);
            }
            bodies => bodies?,
        };
        let mut made = BodiesDigest::default();
        bodies.iter().for_each(|body| made.add(body));
        if made.finish() != sent.bodies_digest {
            if !self.whole {
                self.whole = true;
                return Ok(Progress::Nothing);
            }
            return Err(diverged(position, "the received bodies are not those that were sent"));
        }
        bodies.drain(..entries[..known].iter().flat_map(written).count());
        entries.drain(..known);
        position += entries.len() as u64;
        let entries = self.operations(entries, bodies)?;
        let (store, from) = (sent.store, state.next);
        let received = ReceivedEntries {
            store,
            from,
            entries,
            digest,
        };
        self.store.ask(Command::Log(LogCommand::Replay(received)), DURABILITY)?;
        self.whole = false;
        Ok(Progress::Entries { position, head })
    }

    /// Decodes the bodies of the records that entries name.
    fn bodies(&mut self, entries: &[LogEntry], sent: &[SentBody<'_>]) -> Result<Vec<Vec<u8>>, Error> {
        let snapshot = self.store.engine.snapshot()?;
        let mut sent = sent.iter();
        let mut places = HashMap::new();
        let mut bodies: Vec<Vec<u8>> = Vec::new();
        for (number, _) in entries.iter().flat_map(written) {
            let made = sent.next().ok_or_else(|| missing("bodies of a message"))?;
            let body = if made.base == 0 {
                made.bytes.to_vec()
            } else {
                let stored;
                let base: &[u8] = match places.get(&made.base) {
                    Some(&place) => {
                        let base: &Vec<u8> = &bodies[place];
                        base
                    }
                    None => {
                        stored = self.store.records.body_of_any(&*snapshot, made.base)?;
                        &stored
                    }
                };
                let mut body = Vec::new();
                let decoded = self.decoder.decode(base, made.bytes, BODY_BYTES_MAX, &mut body);
                decoded.map_err(|error| Error::damaged(Table::Records, &made.base.to_be_bytes(), error))?;
                body
            };
            places.insert(number, bodies.len());
            bodies.push(body);
        }
        match sent.next() {
            None => Ok(bodies),
            Some(_) => Err(missing("entries of a message")),
        }
    }

    /// Returns the entries with their operations.
    fn operations(&self, entries: Vec<LogEntry>, bodies: Vec<Vec<u8>>) -> Result<Vec<ReceivedEntry>, Error> {
        let snapshot = self.store.engine.snapshot()?;
        let mut namespaces = Namespaces::new(&*snapshot)?;
        let mut bodies = bodies.into_iter();
        let mut received = Vec::with_capacity(entries.len());
        for entry in entries {
            let mut operations = Vec::new();
            match &entry {
                LogEntry::Batch { operations: said, .. } => {
                    for said in said {
                        operations.push(namespaces.operation(said, &mut bodies)?);
                    }
                }
                LogEntry::Namespace { versions_kept, .. } => namespaces.add(*versions_kept),
                LogEntry::Retention { .. }
                | LogEntry::Latest { .. }
                | LogEntry::Index { .. }
                | LogEntry::Rewrites { .. }
                | LogEntry::Truncated { .. }
                | LogEntry::Promoted { .. } => {}
            }
            received.push(ReceivedEntry { entry, operations });
        }
        Ok(received)
    }

    fn chunk(&mut self, state: &LogState, chunk: &TransferPage) -> Result<Progress, Error> {
        let is_first = chunk.table == 0 && chunk.key.is_empty();
        let (begins, continues) = match &state.role {
            Role::Replica => (is_first && self.takes_all, false),
            Role::Incomplete { transfer, table, key } if *transfer == chunk.transfer => {
                (false, (*table, key) == (chunk.table, &chunk.key))
            }
            Role::Incomplete { .. } => (is_first, false),
            Role::Primary | Role::Fenced { .. } => (false, false),
        };
        if begins {
            let (transfer, store, epoch) = (chunk.transfer, chunk.store, chunk.epoch);
            let begin = LogCommand::BeginTransfer { transfer, store, epoch };
            self.store.ask(Command::Log(begin), Durability::Sync)?;
        } else if !continues {
            return Ok(Progress::Nothing);
        }
        self.takes_all = false;
        let mut raw = Vec::new();
        let pairs = decompress_rows(&chunk.packed, chunk.length, &mut raw)?;
        let pairs = pairs
            .into_iter()
            .map(|(table, key, value)| (table, key.to_vec(), value.to_vec()));
        let log = if chunk.log.is_empty() {
            None
        } else {
            let log = LogState::decode(&chunk.log)?;
            (log.store == chunk.store)
                .then_some(log)
                .ok_or(Error::Refused(Refusal::OtherStore))?
                .into()
        };
        let done = log.is_some();
        let part = TransferPart {
            transfer: chunk.transfer,
            after: (chunk.table, chunk.key.clone()),
            pairs: pairs.collect(),
            log,
        };
        // The store counts as complete only when all of it is on disk.
        let durability = if done { Durability::Sync } else { DURABILITY };
        self.store.ask(Command::Log(LogCommand::StorePart(part)), durability)?;
        Ok(match (begins, done) {
            (_, true) => Progress::Whole,
            (true, false) => Progress::Began,
            (false, false) => Progress::Part,
        })
    }
}

/// Refuses an answer of another store, of an earlier epoch, or of another epoch with the same
/// number.
fn check(state: &LogState, store: [u8; 16], epoch: Epoch) -> Result<(), Error> {
    if state.store == [0; 16] {
        return Ok(());
    }
    if store != state.store {
        return Err(Error::Refused(Refusal::OtherStore));
    }
    let (expected, found) = (state.epoch.number, epoch.number);
    if found < expected {
        return Err(Error::StalePrimary { expected, found });
    }
    if found == expected && epoch.id != state.epoch.id {
        return Err(Error::Refused(Refusal::OtherEpoch));
    }
    Ok(())
}

fn diverged(position: u64, what: &'static str) -> Error {
    Error::Diverged { position, what }
}

fn missing(field: &'static str) -> Error {
    let (expected, found) = (1, 0);
    Error::Message(ibid_format::Error::Mismatch { field, expected, found })
}

/// Returns the numbers of the records with bodies that an entry names, with their operations.
fn written(entry: &LogEntry) -> impl Iterator<Item = (u64, &LogOperation)> {
    let (mut number, operations) = match entry {
        LogEntry::Batch { record, operations, .. } => (*record, &operations[..]),
        _ => (0, &[][..]),
    };
    operations.iter().filter_map(move |operation| {
        let written = number;
        number += u64::from(operation.change.writes());
        matches!(operation.change, LogChange::Body { .. }).then_some((written, operation))
    })
}

/// Which namespaces keep versions, including those that the received entries make.
struct Namespaces<'s> {
    read: &'s dyn Snapshot,
    next: u32,
    kept: HashMap<u32, bool>,
}

impl<'s> Namespaces<'s> {
    fn new(read: &'s dyn Snapshot) -> Result<Self, Error> {
        let next = lookup::next(read)?.namespace;
        let kept = HashMap::new();
        Ok(Namespaces { read, next, kept })
    }

    fn add(&mut self, versions_kept: bool) {
        self.kept.insert(self.next, versions_kept);
        self.next = self.next.saturating_add(1);
    }

    fn operation(
        &mut self,
        said: &LogOperation,
        bodies: &mut impl Iterator<Item = Vec<u8>>,
    ) -> Result<Operation, Error> {
        let number = said.namespace;
        let versions_kept = match self.kept.get(&number) {
            Some(&kept) => kept,
            None if number < self.next => {
                let kept = crate::read::namespaces::keeps_versions(self.read, number)?;
                self.kept.insert(number, kept);
                kept
            }
            None => {
                return Err(Error::damaged(
                    Table::Namespaces,
                    &number.to_be_bytes(),
                    Damage::Missing,
                ));
            }
        };
        let change = match said.change {
            LogChange::Body { .. } => Change::Put(bodies.next().ok_or_else(|| missing("bodies of a message"))?),
            LogChange::Deletion | LogChange::Removal => Change::Delete,
            LogChange::Purge => Change::Purge,
            LogChange::PurgeVersions { from, to } => Change::PurgeVersions { from, to },
            LogChange::IndexValues => Change::SetIndexValues,
        };
        let name = format!("number {number}").into();
        let target = Target {
            name,
            number,
            versions_kept,
        };
        let key = said.key.clone();
        // The hint about similar records is for the encoder of the primary.
        let like = None;
        Ok(Operation {
            target,
            key,
            change,
            like,
            time: said.time,
            expires: said.expires,
            values: said.values.clone(),
            in_pieces: matches!(said.change, LogChange::Body { in_pieces: true, .. }),
        })
    }
}
