//! The one thread that writes, and the group commit.
//!
//! Callers hand over a request and wait for its outcome. What has come in while a commit was under way is committed together,
//! with one sync; a caller waits for the commit that its own request is in, and for no other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Instant;

use ibid_format::record::{NAME_BYTES_MAX, NEXT_KEY, NamespaceEntry, Next};

use super::apply;
use super::batch::Operation;
use super::error::Error;
use super::{Durability, Versions, lookup};
use crate::engine::{Commit, Engine, EngineError, Table, Transaction};

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
    /// Nothing: for the sake of the sync.
    Sync,
}

pub(crate) enum Outcome {
    Written(Vec<Option<u64>>),
    Namespace(u32),
    Synced,
}

pub(crate) struct Writer {
    engine: Arc<dyn Engine>,
    requests: Receiver<Request>,
    next: Next,
    /// Whether something was committed that was not synced.
    unsynced: bool,
    /// When it has to be.
    sync_at: Option<Instant>,
}

impl Writer {
    pub(crate) fn new(engine: Arc<dyn Engine>, requests: Receiver<Request>, next: Next) -> Self {
        Writer {
            engine,
            requests,
            next,
            unsynced: false,
            sync_at: None,
        }
    }

    /// Works until nobody can ask for anything any more, or a commit fails.
    ///
    /// After a failure the engine's state is uncertain; the requests still waiting are dropped, which tells their callers.
    pub(crate) fn run(mut self) {
        loop {
            let request = match self.sync_at {
                None => self.requests.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => self.requests.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            let done = match request {
                Ok(request) => {
                    let group = self.gather(request);
                    self.commit(group)
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
        let mut next = self.next;
        let mut outcomes = Vec::with_capacity(group.len());
        let committed = self.engine.write(commit, &mut |transaction| {
            for request in &group {
                outcomes.push(carry_out(transaction, &mut next, &request.what)?);
            }
            if next == self.next {
                Ok(())
            } else {
                transaction.put(Table::Meta, NEXT_KEY, &next.encode())
            }
        });
        if let Err(error) = committed {
            for request in group {
                let _ = request.outcome.send(Err(error.clone().into()));
            }
            return Err(error);
        }
        self.next = next;
        self.unsynced = !synced;
        let latest = |request: &Request| match request.durability {
            Durability::Batched(delay) => Instant::now().checked_add(delay),
            Durability::Sync | Durability::None => None,
        };
        let asked = group.iter().filter_map(latest);
        self.sync_at = if synced { None } else { asked.chain(self.sync_at).min() };
        for (request, outcome) in group.into_iter().zip(outcomes) {
            // Who does not wait any more is not told.
            let _ = request.outcome.send(outcome);
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
            What::Namespace(..) | What::Sync => 0,
        }
    }
}

fn carry_out(
    transaction: &mut dyn Transaction,
    next: &mut Next,
    what: &What,
) -> Result<Result<Outcome, Error>, EngineError> {
    match what {
        What::Batch(operations) => {
            let written = apply::batch(transaction, next, operations)?;
            Ok(written.map(Outcome::Written))
        }
        What::Namespace(name, versions) => namespace(transaction, next, name, *versions),
        What::Sync => Ok(Ok(Outcome::Synced)),
    }
}

/// Finds a namespace, or makes it.
fn namespace(
    transaction: &mut dyn Transaction,
    next: &mut Next,
    name: &str,
    versions: Versions,
) -> Result<Result<Outcome, Error>, EngineError> {
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
        let (field, min) = ("name of a namespace", 1);
        let (max, found) = (NAME_BYTES_MAX as u64, name.len() as u64);
        return Ok(Err(Error::OutOfRange { field, min, max, found }));
    }
    match lookup::namespace(transaction, name, versions) {
        Ok(Some(number)) => return Ok(Ok(Outcome::Namespace(number))),
        Ok(None) => {}
        Err(Error::Engine(error)) => return Err(error),
        Err(refusal) => return Ok(Err(refusal)),
    }
    let number = next.namespace;
    let Some(further) = number.checked_add(1) else {
        let (field, min, found) = ("number of a namespace", 1, u64::from(number));
        let max = found - 1;
        return Ok(Err(Error::OutOfRange { field, min, max, found }));
    };
    let versions_kept = versions == Versions::Kept;
    let entry = NamespaceEntry { number, versions_kept };
    let value = entry.encode(name).expect("name and number are within their limits");
    transaction.put(Table::Namespaces, name.as_bytes(), &value)?;
    next.namespace = further;
    Ok(Ok(Outcome::Namespace(number)))
}
