//! The one thread that writes, and the group commit.
//!
//! Callers hand over a request and wait for its outcome. What has come in while a commit was under
//! way is committed together, with one sync; a caller waits for the commit that its own request is
//! in, and for no other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

use ibid_delta::Interval;
use ibid_format::record::{LogState, NAME_BYTES_MAX, NEXT_KEY, NamespaceEntry, NextNumbers};

use super::apply::{self, Failure, Written};
use super::block::{self, Pack};
use super::feed::{Feed, New};
use super::replay::{self, Task, Wholeness};
use super::rewrite::{self, Encoded};
use crate::engine::{Commit, Engine, EngineError, Table, Transaction};
use crate::error::Error;
use crate::read::bodies::Bodies;
use crate::read::lookup;
use crate::store::batch::{Change, Operation};
use crate::store::{Durability, Options, Versions};

/// Most requests in one commit.
const GROUP_REQUESTS: usize = 1024;
/// Bytes of bodies in one commit, beyond the first request.
const GROUP_BYTES: usize = 64 << 20;

pub(crate) struct Request {
    pub(crate) what: What,
    pub(crate) durability: Durability,
    pub(crate) outcome: SyncSender<Result<Outcome, Error>>,
}

pub(crate) enum What {
    Batch(Vec<Operation>),
    Namespace(Arc<str>, Versions),
    Encoded(Encoded),
    Pack(Pack),
    /// Blocks that are of no use any more.
    Free(Vec<u64>),
    /// As one of several stores that have the same.
    Log(Task),
    /// Nothing: for the sake of the sync.
    Sync,
}

pub(crate) enum Outcome {
    Written(Vec<Option<Written>>),
    Namespace(u32),
    Done,
}

pub(crate) struct Writer {
    engine: Arc<dyn Engine>,
    bodies: Arc<Bodies>,
    requests: Receiver<Request>,
    /// What was committed goes there, to be encoded.
    feed: Option<Arc<Feed>>,
    next: NextNumbers,
    log: Option<LogState>,
    wholeness: Arc<Wholeness>,
    /// How records are encoded, which replicas are told.
    interval: Interval,
    /// Entries of the log from which on the oldest are removed.
    log_entries_max: Option<u64>,
    /// Whether something was committed that was not synced.
    unsynced: bool,
    /// When it has to be.
    sync_at: Option<Instant>,
}

impl Writer {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        bodies: Arc<Bodies>,
        requests: Receiver<Request>,
        feed: Option<Arc<Feed>>,
        next: NextNumbers,
        (log, wholeness): (Option<LogState>, Arc<Wholeness>),
        options: Options,
    ) -> Self {
        Writer {
            engine,
            bodies,
            requests,
            feed,
            next,
            log,
            wholeness,
            interval: options.encoding.interval,
            log_entries_max: options.log_entries_max,
            unsynced: false,
            sync_at: None,
        }
    }

    /// Works until nobody can ask for anything any more, or a commit fails.
    ///
    /// After a failure the engine's state is uncertain; the requests still waiting are dropped,
    /// which tells their callers.
    pub(crate) fn run(mut self) {
        loop {
            if self.truncate().is_err() {
                return;
            }
            let request = match self.sync_at {
                None => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => self.requests.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            let done = match request {
                Ok(request) => {
                    let group = self.gather(request);
                    let requests = group.len() as isize;
                    let committed = self.commit(group);
                    if let Some(feed) = &self.feed {
                        feed.writer_has(-requests);
                    }
                    committed
                }
                Err(RecvTimeoutError::Timeout) => self.sync(),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if done.is_err() {
                return;
            }
        }
        if self.unsynced {
            // Nobody is left to be told; `Store::sync` is for who wants to know.
            let _ = self.sync();
        }
    }

    /// Removes the oldest entries of the log if there are too many.
    fn truncate(&mut self) -> Result<(), EngineError> {
        while let Some(first) = self
            .log_entries_max
            .and_then(|most| replay::too_long(self.log.as_ref(), most))
        {
            let (outcome, done) = sync_channel(1);
            let request = Request {
                what: What::Log(Task::Truncate { first }),
                // A crash takes the removal back, and nothing else.
                durability: Durability::None,
                outcome,
            };
            self.commit(vec![request])?;
            if !matches!(done.try_recv(), Ok(Ok(_))) {
                // One of them is damaged: `Store::verify` says which. They stay.
                self.log_entries_max = None;
            }
        }
        Ok(())
    }

    fn gather(&self, first: Request) -> Vec<Request> {
        let mut bytes = first.bytes();
        let mut group = vec![first];
        while group.len() < GROUP_REQUESTS
            && bytes < GROUP_BYTES
            && let Ok(request) = self.requests.try_recv()
        {
            bytes += request.bytes();
            group.push(request);
        }
        group
    }

    fn commit(&mut self, group: Vec<Request>) -> Result<(), EngineError> {
        let overdue = self.sync_at.is_some_and(|at| at <= Instant::now());
        let synced = overdue || group.iter().any(|request| request.durability == Durability::Sync);
        let commit = if synced { Commit::Synced } else { Commit::Unsynced };
        let mut group: Vec<(Request, Option<Error>)> = group.into_iter().map(|request| (request, None)).collect();
        let clears = |(request, _): &(Request, _)| matches!(request.what, What::Log(Task::Clear { .. }));
        if group.iter().any(clears) {
            // Before anybody can see it.
            self.wholeness.set(true);
        }
        let (next, log, outcomes) = loop {
            let mut next = self.next;
            let mut log = self.log.clone();
            let mut outcomes = Vec::with_capacity(group.len());
            let mut undone = None;
            let committed = self.engine.write(commit, &mut |transaction| {
                for (place, (request, failed)) in group.iter().enumerate() {
                    let outcome = match failed {
                        Some(error) => Err(Failure::Refused(error.clone())),
                        None => carry_out(
                            transaction,
                            &self.bodies,
                            &mut next,
                            &mut log,
                            self.interval,
                            &request.what,
                        ),
                    };
                    outcomes.push(match outcome {
                        Ok(outcome) => Ok(outcome),
                        Err(Failure::Refused(Error::Engine(error)) | Failure::Undone(Error::Engine(error))) => {
                            return Err(error);
                        }
                        Err(Failure::Refused(refusal)) => Err(refusal),
                        Err(Failure::Undone(error)) => {
                            undone = Some((place, error));
                            return Err(EngineError::abandoned());
                        }
                    });
                }
                if log != self.log
                    && let Some(log) = &log
                {
                    replay::put_state(transaction, log)?;
                }
                if next == self.next {
                    Ok(())
                } else {
                    transaction.put(Table::Meta, NEXT_KEY, &next.encode())
                }
            });
            match (committed, undone) {
                (Ok(()), _) => break (next, log, outcomes),
                // All of the transaction is gone; the others are done without that one.
                (Err(_), Some((place, error))) => group[place].1 = Some(error),
                (Err(error), None) => {
                    for (request, _) in group {
                        let _ = request.outcome.send(Err(error.clone().into()));
                    }
                    return Err(error);
                }
            }
        };
        self.next = next;
        self.log = log;
        self.wholeness.set(replay::is_incomplete(self.log.as_ref()));
        self.unsynced = !synced;
        let latest = |(request, _): &(Request, _)| match request.durability {
            Durability::Batched(delay) => Instant::now().checked_add(delay),
            Durability::Sync | Durability::None => None,
        };
        let asked = group.iter().filter_map(latest);
        self.sync_at = if synced { None } else { asked.chain(self.sync_at).min() };
        for ((request, _), outcome) in group.into_iter().zip(outcomes) {
            if let (Some(feed), What::Batch(operations), Ok(Outcome::Written(written))) =
                (&self.feed, request.what, &outcome)
            {
                feed.push(operations.into_iter().zip(written).filter_map(new));
            }
            // Who does not wait any more is not told.
            let _ = request.outcome.send(outcome);
        }
        if let Some(feed) = &self.feed {
            // After those who wait for the commit, so that they do not find the encoder on their processor.
            feed.wake();
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.engine.sync()?;
        (self.unsynced, self.sync_at) = (false, None);
        Ok(())
    }
}

impl Request {
    fn bytes(&self) -> usize {
        match &self.what {
            What::Batch(operations) => {
                let length = |operation: &Operation| operation.change.body().map_or(0, <[u8]>::len);
                operations.iter().map(length).sum()
            }
            What::Pack(pack) => pack.bytes.len(),
            What::Log(Task::Apply(arrived)) => arrived.bytes(),
            What::Namespace(..) | What::Encoded(_) | What::Free(_) | What::Log(_) | What::Sync => 0,
        }
    }
}

/// What the encoder is told of an operation: nothing of one that wrote no body.
fn new((operation, written): (Operation, &Option<Written>)) -> Option<New> {
    let written = written.as_ref()?;
    let (Change::Insert(body) | Change::Update(body) | Change::Put(body)) = operation.change else {
        return None;
    };
    Some(New {
        number: written.number,
        namespace: operation.target.number,
        versions_kept: operation.target.versions_kept,
        prior: written.prior,
        body: Some(body),
    })
}

fn carry_out(
    transaction: &mut dyn Transaction,
    bodies: &Bodies,
    next: &mut NextNumbers,
    log: &mut Option<LogState>,
    interval: Interval,
    what: &What,
) -> Result<Outcome, Failure> {
    match what {
        What::Batch(operations) => {
            replay::check_primary(log.as_ref()).map_err(Failure::Refused)?;
            replay::check_size(log.as_ref(), operations).map_err(Failure::Refused)?;
            let record = next.record;
            let written = apply::batch(transaction, bodies, next, operations)?;
            if let Some(log) = log {
                let logged = replay::log_batch(transaction, log, record, operations, &written);
                logged.map_err(Failure::Undone)?;
            }
            Ok(Outcome::Written(written))
        }
        What::Namespace(name, versions) => {
            let before = *next;
            let outcome = namespace(transaction, next, name, *versions)?;
            if before != *next {
                // One that is there is found on a replica, too.
                replay::check_primary(log.as_ref()).map_err(Failure::Undone)?;
                if let Some(log) = log {
                    let logged = replay::log_namespace(transaction, log, name, *versions);
                    logged.map_err(Failure::Undone)?;
                }
            }
            Ok(outcome)
        }
        What::Encoded(encoded) => {
            replay::check_primary(log.as_ref()).map_err(Failure::Refused)?;
            let written = rewrite::carry_out(transaction, bodies, encoded).map_err(Failure::Undone)?;
            if let Some(log) = log {
                let logged = replay::log_rewrites(transaction, log, interval, &written);
                logged.map_err(Failure::Undone)?;
            }
            Ok(Outcome::Done)
        }
        What::Log(task) => {
            let done = replay::carry_out(transaction, bodies, next, log, task);
            done.map(|()| Outcome::Done)
        }
        What::Pack(pack) => {
            let packed = block::carry_out(transaction, pack);
            packed.map(|()| Outcome::Done).map_err(Failure::Undone)
        }
        What::Free(blocks) => {
            let freed = block::free(transaction, blocks);
            freed.map(|()| Outcome::Done).map_err(Failure::Undone)
        }
        What::Sync => Ok(Outcome::Done),
    }
}

/// Finds a namespace, or makes it.
pub(crate) fn namespace(
    transaction: &mut dyn Transaction,
    next: &mut NextNumbers,
    name: &str,
    versions: Versions,
) -> Result<Outcome, Failure> {
    let out_of_range = |field, min, max, found| Failure::Refused(Error::OutOfRange { field, min, max, found });
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        let (max, found) = (NAME_BYTES_MAX as u64, name.len() as u64);
        return Err(out_of_range("name of a namespace", 1, max, found));
    }
    if let Some(number) = lookup::namespace(transaction, name, versions).map_err(Failure::Refused)? {
        return Ok(Outcome::Namespace(number));
    }
    let number = next.namespace;
    let further = number.checked_add(1).ok_or_else(|| {
        let found = u64::from(number);
        out_of_range("number of a namespace", 1, found - 1, found)
    })?;
    let versions_kept = versions == Versions::Kept;
    let entry = NamespaceEntry { number, versions_kept };
    let value = entry.encode(name).expect("name and number are within their limits");
    let put = transaction.put(Table::Namespaces, name.as_bytes(), &value);
    put.map_err(|error| Failure::Undone(error.into()))?;
    next.namespace = further;
    Ok(Outcome::Namespace(number))
}
