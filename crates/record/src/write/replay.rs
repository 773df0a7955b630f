//! The log of what was done, so that replicas do the same.
//!
//! Every entry is written in the commit of what it tells of. It names records and does not hold
//! them; so a record that it names stays, if need be as an obsolete one, until the entry is
//! removed. Since numbers of records ascend with positions, those are the records from one number
//! on: nothing has to be counted for those that keys lead to.
//!
//! Whatever a replica does is a function of the log: it is in the state that its primary was in at
//! the same position, but for what is compressed and what the encoder knows. Removing entries is in
//! the log for that reason.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

use ibid_delta::{DeltaEncoder as Codec, Interval, Method};
use ibid_format::record::{
    Digest, Epoch, LOG_KEY, LogChange, LogEntry, LogOperation, LogState, NEXT_KEY, NextNumbers, Role, WATERMARK_KEY,
    body_check, open_log_entry,
};

use super::apply::{self, Failure, Written};
use super::references;
use super::rewrite::{self, Rewrite};
use super::writer::{What, namespace};
use crate::engine::{Commit, Direction, Engine, EngineError, Read, Table, Transaction};
use crate::error::{Damage, Error};
use crate::read::bodies::Bodies;
use crate::store::batch::{Change, Operation};
use crate::store::{Durability, Store, Versions, folder};

/// Most bytes of keys and bodies of a batch in a store with a log: so that a message has room for
/// it.
const BATCH_BYTES_MAX: usize = 448 << 20;
/// The same of keys alone.
const KEYS_BYTES_MAX: usize = 32 << 20;
/// Rewrites in one entry.
const REWRITES_MAX: usize = 1 << 16;
/// Entries that are removed in one commit.
const TRUNCATED_AT_ONCE: u64 = 1 << 12;
/// Entries of a table that are read at once to be removed.
const CLEARED_AT_ONCE: usize = 1 << 12;

/// What a store is asked to do as one of several that have the same.
pub(crate) enum Task {
    /// To be a replica from now on.
    Follow,
    /// To be the primary.
    Promote { id: u64 },
    /// To write nothing any more: there is a later epoch.
    Fence { by: u64 },
    /// To remove entries before this position.
    Truncate { first: u64 },
    /// To do what the primary did.
    Apply(Arrived),
    /// To forget everything, because all of it comes anew.
    Clear { transfer: u64, epoch: Epoch },
    /// To take a part of that.
    Take(Taken),
}

/// Entries of a primary, with the bodies of their records.
pub(crate) struct Arrived {
    pub(crate) store: [u8; 16],
    pub(crate) from: u64,
    pub(crate) steps: Vec<Step>,
    /// Of the last one.
    pub(crate) digest: Digest,
}

impl Arrived {
    /// Bytes of bodies.
    pub(crate) fn bytes(&self) -> usize {
        let operations = self.steps.iter().flat_map(|step| &step.operations);
        operations
            .map(|operation| operation.change.body().map_or(0, <[u8]>::len))
            .sum()
    }
}

pub(crate) struct Step {
    pub(crate) entry: LogEntry,
    /// Those of a batch.
    pub(crate) operations: Vec<Operation>,
}

/// A part of all that a primary has.
pub(crate) struct Taken {
    pub(crate) transfer: u64,
    /// What it comes after.
    pub(crate) after: (u8, Vec<u8>),
    pub(crate) pairs: Vec<(u8, Vec<u8>, Vec<u8>)>,
    /// With the last part.
    pub(crate) log: Option<LogState>,
}

/// Tables that replicas have the same of, by their numbers in messages, in the order in which they
/// are sent. `meta` gives what number comes next, and nothing else.
pub(crate) const SENT: [(u8, Table); 7] = [
    (1, Table::Namespaces),
    (2, Table::Keys),
    (3, Table::Versions),
    (4, Table::References),
    (5, Table::Oplog),
    (6, Table::Records),
    (7, Table::Meta),
];

/// Whether a store is incomplete, for those who read.
///
/// Even while it is whole. Who reads the same even number before and after taking a snapshot has a
/// snapshot of a whole store.
#[derive(Debug, Default)]
pub(crate) struct Wholeness(AtomicU64);

impl Wholeness {
    pub(crate) fn of(log: Option<&LogState>) -> Self {
        Wholeness(AtomicU64::new(is_incomplete(log).into()))
    }

    pub(crate) fn now(&self) -> Result<u64, Error> {
        match self.0.load(Ordering::SeqCst) {
            now if now % 2 == 0 => Ok(now),
            _ => Err(Error::Incomplete),
        }
    }

    /// Called before a commit with the state after it, if that is an incomplete one; and after
    /// each.
    pub(crate) fn set(&self, incomplete: bool) {
        if (self.0.load(Ordering::SeqCst) % 2 == 1) != incomplete {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

pub(crate) fn is_incomplete(log: Option<&LogState>) -> bool {
    log.is_some_and(|log| matches!(log.role, Role::Incomplete { .. }))
}

/// What is known of the log, if there is one.
pub(crate) fn state(read: &(impl Read + ?Sized)) -> Result<Option<LogState>, Error> {
    let mut state = None;
    read.get(Table::Meta, LOG_KEY, &mut |value| state = Some(LogState::decode(value)))?;
    state
        .transpose()
        .map_err(|error| Error::damaged(Table::Meta, LOG_KEY, error))
}

pub(crate) fn put_state(transaction: &mut dyn Transaction, state: &LogState) -> Result<(), EngineError> {
    transaction.put(Table::Meta, LOG_KEY, &state.encode())
}

/// The number from which on records are named by the log; larger than all without a log.
pub(crate) fn held_from(read: &(impl Read + ?Sized)) -> Result<u64, Error> {
    Ok(state(read)?.map_or(u64::MAX, |state| state.record))
}

/// An entry, and its digest.
pub(crate) fn entry(read: &(impl Read + ?Sized), position: u64) -> Result<(LogEntry, Digest), Error> {
    let key = position.to_be_bytes();
    let mut entry = Err(Damage::Missing);
    let mut found = |value: &[u8]| {
        let opened = open_log_entry(position, value);
        let decoded = opened.and_then(|(entry, digest)| Ok((LogEntry::decode(entry)?, digest)));
        entry = decoded.map_err(Damage::Bytes);
    };
    read.get(Table::Oplog, &key, &mut found)?;
    entry.map_err(|damage| Error::damaged(Table::Oplog, &key, damage))
}

/// What is known of the log of a store, which begins one if asked to.
pub(crate) fn begin(engine: &dyn Engine, next: NextNumbers, wanted: bool) -> Result<Option<LogState>, Error> {
    let found = state(&*engine.snapshot()?)?;
    if found.is_some() || !wanted {
        return Ok(found);
    }
    let mut store = [0; 16];
    store[..8].copy_from_slice(&random()?.to_le_bytes());
    store[8..].copy_from_slice(&random()?.to_le_bytes());
    let mut state = LogState::new(Role::Primary, store, next.record);
    let epoch = Epoch {
        number: 1,
        id: random()?,
    };
    state.epoch = epoch;
    let entry = LogEntry::Promoted { epoch };
    if next == NextNumbers::FIRST {
        engine.write(Commit::Synced, &mut |transaction| {
            let mut begun = state.clone();
            append(transaction, &mut begun, &entry).map_err(engine_error)?;
            put_state(transaction, &begun)
        })?;
    } else {
        // What was done before is not in the log. A replica that has nothing has to ask for all; so the
        // first entry is one that was removed.
        let (_, digest) = entry
            .seal(state.next, state.digest)
            .map_err(|error| Error::damaged(Table::Oplog, b"", error))?;
        (state.first, state.next) = (2, 2);
        (state.before, state.digest) = (digest, digest);
        engine.write(Commit::Synced, &mut |transaction| put_state(transaction, &state))?;
    }
    self::state(&*engine.snapshot()?)
}

fn engine_error(error: Error) -> EngineError {
    match error {
        Error::Engine(error) => error,
        _ => EngineError::abandoned(),
    }
}

/// A number that nobody else draws.
pub(crate) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        let error = std::io::Error::other(error);
        folder::io("get randomness for", std::path::Path::new("a log"), error)
    })
}

fn append(transaction: &mut dyn Transaction, state: &mut LogState, entry: &LogEntry) -> Result<(), Error> {
    let key = state.next.to_be_bytes();
    let (value, digest) = entry
        .seal(state.next, state.digest)
        .map_err(|error| Error::damaged(Table::Oplog, &key, error))?;
    transaction.put(Table::Oplog, &key, &value)?;
    state.next += 1;
    state.digest = digest;
    Ok(())
}

/// The first entry to be kept of a primary's log that has more than `most` and a quarter: so that
/// not each commit removes one, and says so in the log.
pub(crate) fn too_long(log: Option<&LogState>, most: u64) -> Option<u64> {
    let log = log.filter(|log| log.role == Role::Primary)?;
    let kept = log.next - log.first;
    let first = (log.next - most.min(kept)).min(log.first + TRUNCATED_AT_ONCE);
    (kept > most.saturating_add((most / 4).max(1))).then_some(first)
}

/// Refuses changes of a store that is not the primary.
pub(crate) fn check_primary(log: Option<&LogState>) -> Result<(), Error> {
    match log.map(|log| &log.role) {
        None | Some(Role::Primary) => Ok(()),
        Some(Role::Replica) => Err(Error::IsReplica),
        Some(Role::Fenced { by }) => Err(Error::Fenced { by: *by }),
        Some(Role::Incomplete { .. }) => Err(Error::Incomplete),
    }
}

/// Refuses a batch that no message has room for.
pub(crate) fn check_size(log: Option<&LogState>, operations: &[Operation]) -> Result<(), Error> {
    if log.is_none() {
        return Ok(());
    }
    let keys: usize = operations.iter().map(|operation| operation.key.len() + 24).sum();
    let bodies: usize = operations
        .iter()
        .map(|operation| operation.change.body().map_or(0, <[u8]>::len))
        .sum();
    for (field, found, max) in [
        (
            "bytes of the keys of a batch in a store with a log",
            keys,
            KEYS_BYTES_MAX,
        ),
        ("bytes of a batch in a store with a log", keys + bodies, BATCH_BYTES_MAX),
    ] {
        if found > max {
            let (min, max, found) = (0, max as u64, found as u64);
            return Err(Error::OutOfRange { field, min, max, found });
        }
    }
    Ok(())
}

/// Says in the log what a batch did.
pub(crate) fn log_batch(
    transaction: &mut dyn Transaction,
    state: &mut LogState,
    record: u64,
    operations: &[Operation],
    written: &[Option<Written>],
) -> Result<(), Error> {
    if operations.is_empty() {
        return Ok(());
    }
    let said = operations.iter().zip(written).map(|(operation, written)| LogOperation {
        namespace: operation.target.number,
        change: change(operation, written.as_ref()),
        key: operation.key.clone(),
    });
    let operations = said.collect();
    append(transaction, state, &LogEntry::Batch { record, operations })
}

/// Whether two changes are the same, but for what the record is like: a replica is not told.
fn is_same(one: LogChange, other: LogChange) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

fn change(operation: &Operation, written: Option<&Written>) -> LogChange {
    match (&operation.change, written) {
        (Change::Insert(_) | Change::Update(_) | Change::Put(_), Some(written)) => LogChange::Body {
            prior: written.prior.map_or(0, |prior| prior.number),
        },
        (Change::Delete, Some(_)) => LogChange::Deletion,
        (Change::Delete, None) => LogChange::Removal,
        _ => LogChange::Purge,
    }
}

/// Says in the log that a namespace was made.
pub(crate) fn log_namespace(
    transaction: &mut dyn Transaction,
    state: &mut LogState,
    name: &str,
    versions: Versions,
) -> Result<(), Error> {
    let entry = LogEntry::Namespace {
        versions_kept: versions == Versions::Kept,
        name: name.to_owned(),
    };
    append(transaction, state, &entry)
}

/// Says in the log which records became deltas of which.
pub(crate) fn log_rewrites(
    transaction: &mut dyn Transaction,
    state: &mut LogState,
    interval: Interval,
    rewrites: &[(u64, u64)],
) -> Result<(), Error> {
    for rewrites in rewrites.chunks(REWRITES_MAX) {
        let entry = LogEntry::Rewrites {
            interval: interval.positions() as u8,
            rewrites: rewrites.to_vec(),
        };
        append(transaction, state, &entry)?;
    }
    Ok(())
}

/// Does what a store is asked to as one of several.
pub(crate) fn carry_out(
    transaction: &mut dyn Transaction,
    bodies: &Bodies,
    next: &mut NextNumbers,
    log: &mut Option<LogState>,
    task: &Task,
) -> Result<(), Failure> {
    if let Task::Follow = task {
        return follow(*next, log).map_err(Failure::Refused);
    }
    let state = log.as_mut().ok_or(Failure::Refused(Error::NoLog))?;
    match task {
        Task::Follow => Ok(()), // done above
        Task::Promote { id } => {
            match state.role {
                Role::Primary => return Ok(()),
                Role::Replica => {}
                Role::Fenced { by } => return Err(Failure::Refused(Error::Fenced { by })),
                Role::Incomplete { .. } => return Err(Failure::Refused(Error::Incomplete)),
            }
            if state.store == [0; 16] {
                return Err(Failure::Refused(Error::Incomplete)); // it never heard of a primary
            }
            let epoch = Epoch {
                number: state.epoch.number + 1,
                id: *id,
            };
            append(transaction, state, &LogEntry::Promoted { epoch }).map_err(Failure::Undone)?;
            (state.epoch, state.role) = (epoch, Role::Primary);
            Ok(())
        }
        Task::Fence { by } => {
            if state.role == Role::Primary && *by > state.epoch.number {
                state.role = Role::Fenced { by: *by };
            }
            Ok(())
        }
        Task::Truncate { first } => {
            check_primary(Some(state)).map_err(Failure::Refused)?;
            let first = (*first).clamp(state.first, state.next);
            if first == state.first {
                return Ok(());
            }
            truncate(transaction, bodies, state, first).map_err(Failure::Undone)
        }
        Task::Apply(arrived) => apply(transaction, bodies, next, state, arrived),
        Task::Clear { transfer, epoch } => clear(transaction, state, *transfer, *epoch).map_err(Failure::Undone),
        Task::Take(taken) => take(transaction, next, state, taken).map_err(Failure::Undone),
    }
}

fn follow(next: NextNumbers, log: &mut Option<LogState>) -> Result<(), Error> {
    match log {
        None if next == NextNumbers::FIRST => *log = Some(LogState::new(Role::Replica, [0; 16], next.record)),
        // It has records that no log tells of.
        None => return Err(Error::NoLog),
        Some(state) => {
            if matches!(state.role, Role::Primary | Role::Fenced { .. }) {
                state.role = Role::Replica;
            }
        }
    }
    Ok(())
}

/// Says in the log that entries before `first` are removed, and removes them, and what is there for
/// their sake alone.
fn truncate(transaction: &mut dyn Transaction, bodies: &Bodies, state: &mut LogState, first: u64) -> Result<(), Error> {
    append(transaction, state, &LogEntry::Truncated { first })?;
    for position in state.first..first {
        let (removed, digest) = entry(transaction, position)?;
        if let LogEntry::Batch { record, operations } = removed {
            let written = operations.iter().filter(|operation| operation.change.writes()).count() as u64;
            for number in record..record + written {
                if references::group(transaction, number)?.is_obsolete(number) {
                    references::subtract(transaction, bodies, number)?;
                }
            }
            state.record = record + written;
        }
        transaction.delete(Table::Oplog, &position.to_be_bytes())?;
        state.before = digest;
    }
    state.first = first;
    // What comes later in the same transaction has to know.
    Ok(put_state(transaction, state)?)
}

fn diverged(position: u64, what: &'static str) -> Failure {
    Failure::Undone(Error::Diverged { position, what })
}

/// Does what the primary did.
fn apply(
    transaction: &mut dyn Transaction,
    bodies: &Bodies,
    next: &mut NextNumbers,
    state: &mut LogState,
    arrived: &Arrived,
) -> Result<(), Failure> {
    match state.role {
        Role::Replica => {}
        // The answer comes late.
        Role::Primary | Role::Fenced { .. } | Role::Incomplete { .. } => return Ok(()),
    }
    if arrived.from != state.next {
        return Ok(()); // it was done, or something before it was not
    }
    if state.store == [0; 16] {
        state.store = arrived.store;
    }
    let undone = Failure::Undone;
    for step in &arrived.steps {
        let position = state.next;
        match &step.entry {
            LogEntry::Batch { record, operations } => {
                if next.record != *record {
                    return Err(diverged(position, "the next record has another number"));
                }
                let written = apply::batch(transaction, bodies, next, &step.operations);
                let written = written.map_err(|failure| match failure {
                    Failure::Refused(error) | Failure::Undone(error) => Failure::Undone(error),
                })?;
                let done = step.operations.iter().zip(&written);
                let same = done
                    .zip(operations)
                    .all(|((operation, written), said)| is_same(change(operation, written.as_ref()), said.change));
                if !same {
                    return Err(diverged(position, "a key is in another state"));
                }
            }
            LogEntry::Namespace { versions_kept, name } => {
                let versions = if *versions_kept {
                    Versions::Kept
                } else {
                    Versions::Latest
                };
                let before = *next;
                namespace(transaction, next, name, versions).map_err(|failure| match failure {
                    Failure::Refused(error) | Failure::Undone(error) => Failure::Undone(error),
                })?;
                if before == *next {
                    return Err(diverged(position, "the namespace is there already"));
                }
            }
            LogEntry::Rewrites { interval, rewrites } => {
                let interval = Interval::ALL
                    .into_iter()
                    .find(|known| known.positions() == u32::from(*interval));
                let interval = interval.ok_or_else(|| diverged(position, "records were encoded in another way"))?;
                let rewrites = encode(transaction, bodies, interval, rewrites).map_err(undone)?;
                let written = rewrite::carry_out_rewrites(transaction, bodies, &rewrites).map_err(undone)?;
                if written.len() != rewrites.len() {
                    return Err(diverged(position, "a record that became a delta is gone"));
                }
            }
            LogEntry::Truncated { first } => {
                if !(state.first..=state.next).contains(first) {
                    return Err(diverged(position, "the log begins elsewhere"));
                }
                truncate(transaction, bodies, state, *first).map_err(undone)?;
                continue;
            }
            LogEntry::Promoted { epoch } => state.epoch = *epoch,
        }
        append(transaction, state, &step.entry).map_err(undone)?;
    }
    if state.digest != arrived.digest {
        return Err(diverged(state.next, "the entries have another digest"));
    }
    Ok(())
}

/// The deltas that the primary made.
fn encode(
    read: &dyn Transaction,
    bodies: &Bodies,
    interval: Interval,
    rewrites: &[(u64, u64)],
) -> Result<Vec<Rewrite>, Error> {
    let mut codec = Codec::new();
    let mut encoded = Vec::with_capacity(rewrites.len());
    for &(number, base) in rewrites {
        let (older, newer) = (body(read, bodies, number)?, body(read, bodies, base)?);
        let mut delta = Vec::new();
        let made = codec.encode(Method::Anchor { interval }, &newer, &older, &mut delta);
        made.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))?;
        let check = body_check(&older);
        encoded.push(Rewrite {
            number,
            base,
            check,
            delta,
        });
    }
    Ok(encoded)
}

/// The body of a record, whoever it is of.
pub(crate) fn body(read: &(impl Read + ?Sized), bodies: &Bodies, number: u64) -> Result<Vec<u8>, Error> {
    let damaged = |damage| Error::damaged(Table::Records, &number.to_be_bytes(), damage);
    let stored = bodies
        .stored(read, number, None)?
        .ok_or_else(|| damaged(Damage::Missing))?;
    let (body, _) = bodies.decode(number, stored, |base| bodies.stored(read, base, None))?;
    body.ok_or_else(|| damaged(Damage::Misplaced))
}

/// Removes all that the tables have, and says that the store is incomplete.
fn clear(transaction: &mut dyn Transaction, state: &mut LogState, transfer: u64, epoch: Epoch) -> Result<(), Error> {
    if !matches!(state.role, Role::Replica | Role::Incomplete { .. }) {
        return Ok(()); // the answer comes late
    }
    for table in Table::ALL.into_iter().filter(|&table| table != Table::Meta) {
        loop {
            let mut keys = Vec::new();
            let mut each = |key: &[u8], _: &[u8]| {
                keys.push(key.to_vec());
                if keys.len() < CLEARED_AT_ONCE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            };
            let everything = (Bound::Unbounded, Bound::Unbounded);
            transaction.range(table, everything, Direction::Forward, &mut each)?;
            for key in &keys {
                transaction.delete(table, key)?;
            }
            if keys.len() < CLEARED_AT_ONCE {
                break;
            }
        }
    }
    transaction.delete(Table::Meta, WATERMARK_KEY)?;
    state.epoch = epoch;
    state.role = Role::Incomplete {
        transfer,
        table: 0,
        key: Vec::new(),
    };
    Ok(())
}

/// Takes a part of all that comes anew. What it says is checked as it is read.
fn take(
    transaction: &mut dyn Transaction,
    next: &mut NextNumbers,
    state: &mut LogState,
    taken: &Taken,
) -> Result<(), Error> {
    let Role::Incomplete { transfer, table, key } = &mut state.role else {
        return Ok(()); // the answer comes late
    };
    if (*transfer, *table, &*key) != (taken.transfer, taken.after.0, &taken.after.1) {
        return Ok(());
    }
    for (number, key, value) in &taken.pairs {
        let found = SENT.iter().find(|(sent, _)| sent == number);
        let (_, found) = found.ok_or_else(|| Error::damaged(Table::Meta, key, Damage::Misplaced))?;
        if *found != Table::Meta {
            transaction.put(*found, key, value)?;
        } else if key == NEXT_KEY {
            *next = NextNumbers::decode(value).map_err(|error| Error::damaged(Table::Meta, key, error))?;
        } else {
            return Err(Error::damaged(Table::Meta, key, Damage::Misplaced));
        }
    }
    if let Some((last, last_key, _)) = taken.pairs.last() {
        *table = *last;
        key.clone_from(last_key);
    }
    if let Some(log) = &taken.log {
        *state = LogState {
            role: Role::Replica,
            ..log.clone()
        };
    }
    Ok(())
}

impl Store {
    /// What is known of the store's log, if it has one.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Engine`].
    pub fn log(&self) -> Result<Option<Log>, Error> {
        let state = state(&*self.inner.engine.snapshot()?)?;
        Ok(state.map(|state| Log {
            role: state.role,
            epoch: state.epoch.number,
            first: state.first,
            next: state.next,
        }))
    }

    /// Removes entries of the log before a position, and what is stored for their sake alone. A
    /// replica that has not come so far takes all that there is.
    ///
    /// # Errors
    /// [`Error::NoLog`]; as for any change.
    pub fn truncate_log(&self, first: u64) -> Result<(), Error> {
        let log = self.log()?.ok_or(Error::NoLog)?;
        // Each removal is an entry itself, which is not removed.
        let last = first.min(log.next);
        let mut from = log.first;
        while from < last {
            from = last.min(from.saturating_add(TRUNCATED_AT_ONCE));
            let task = Task::Truncate { first: from };
            self.inner.ask(What::Log(task), self.inner.durability)?;
        }
        Ok(())
    }

    /// Makes a replica of a store that is empty, or that is or was a primary. It writes nothing but
    /// what its primary does, until it is promoted.
    ///
    /// # Errors
    /// [`Error::NoLog`] if there are records in it that no log tells of.
    pub fn follow(&self) -> Result<(), Error> {
        self.inner.ask(What::Log(Task::Follow), Durability::Sync).map(drop)
    }

    /// Makes a replica the primary, in a new epoch: those who hear of it follow no earlier one any
    /// more. It encodes what is written when it is opened the next time.
    ///
    /// # Errors
    /// [`Error::NoLog`] if it is none of several; [`Error::Incomplete`], [`Error::Fenced`].
    pub fn promote(&self) -> Result<(), Error> {
        let id = random()?;
        self.inner
            .ask(What::Log(Task::Promote { id }), Durability::Sync)
            .map(drop)
    }
}

/// What is known of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Log {
    /// What the store is to others that have the same.
    pub role: Role,
    /// How often one of them was promoted.
    pub epoch: u64,
    /// Position of the first entry that is kept.
    pub first: u64,
    /// Position of the next entry: what a replica has not done yet.
    pub next: u64,
}
