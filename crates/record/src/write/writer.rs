//! The one thread that writes, and its group commit.
//!
//! Requests that arrive while a commit is under way are committed together next, with one sync. A
//! caller waits for the commit that its own request is in, and for no other.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Instant;

use ibid_delta::Interval;
use ibid_format::record::{FORMAT, FORMAT_KEY, NEXT_KEY};

use super::apply::Failure;
use super::execute::{State, execute};
use super::feed::{Feed, NewRecord};
use super::handle::WriterFailure;
use super::request::{Change, Command, Durability, LogCommand, Operation, Outcome, Request, Setting, Written};
use super::{oplog, truncate};
use crate::compact::{Activity, Waiting};
use crate::engine::{Commit, Engine, EngineError, Table, Transaction};
use crate::error::Error;
use crate::log::{Completeness, state};
use crate::read::records::Records;

/// Changes in one commit, beyond the first request. Who opens the store after a crash repeats at least one commit.
const GROUP_CHANGES: usize = 1024;
/// Bytes of bodies in one commit, beyond the first request.
const GROUP_BYTES: usize = 64 << 20;

pub(crate) struct Writer {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) records: Arc<Records>,
    pub(crate) requests: Receiver<Request>,
    /// The queue of committed records for the encoder.
    pub(crate) feed: Option<Arc<Feed>>,
    pub(crate) state: State,
    /// Whether the store is of an earlier version of the format, until its first change.
    pub(crate) is_of_earlier_version: bool,
    pub(crate) completeness: Arc<Completeness>,
    /// How densely the encoder searches for copies: it is logged for replicas.
    pub(crate) interval: Interval,
    /// Entries of the log to keep; all without a number.
    pub(crate) log_entries_max: Option<u64>,
    pub(crate) sync: PendingSync,
    pub(crate) activity: Arc<Activity>,
    pub(crate) failure: WriterFailure,
}

/// The commits that are not synced yet.
#[derive(Debug, Default)]
pub(crate) struct PendingSync {
    is_needed: bool,
    /// When it is due; [`None`] if no caller was promised a time.
    due: Option<Instant>,
}

/// A request of a group, and why it failed if it did.
struct Grouped {
    request: Request,
    failed: Option<Error>,
}

/// The result of a group commit.
struct Committed {
    state: State,
    outcomes: Vec<Result<Outcome, Error>>,
}

impl Writer {
    /// Works until all handles are dropped or a commit fails.
    ///
    /// After a failure the state of the engine is uncertain. The requests that still wait are
    /// dropped, and their callers told which it was.
    pub(crate) fn run(mut self) {
        loop {
            if let Err(error) = self.truncate_log() {
                return self.failure.note(error);
            }
            let request = match self.sync.due {
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
            if let Err(error) = done {
                return self.failure.note(error);
            }
        }
        if self.sync.is_needed {
            // There is no caller left to tell. Callers that must know use `Store::sync`.
            let _ = self.sync();
        }
    }

    /// Removes the oldest entries of the log if there are too many.
    fn truncate_log(&mut self) -> Result<(), EngineError> {
        while let Some(entries_max) = self.log_entries_max
            && let Some(first) = truncate::first_to_keep(self.state.log.as_ref(), entries_max)
        {
            let (outcome, done) = sync_channel(1);
            let request = Request {
                command: Command::Log(LogCommand::Truncate { first }),
                // A crash undoes the removal and nothing else.
                durability: Durability::None,
                outcome,
            };
            self.commit(vec![request])?;
            if !matches!(done.try_recv(), Ok(Ok(_))) {
                // An entry is damaged, which `Store::verify` reports. The entries stay.
                self.log_entries_max = None;
            }
        }
        Ok(())
    }

    /// Returns the first request with those that wait behind it.
    fn gather(&self, first: Request) -> Vec<Request> {
        let (mut changes, mut bytes) = (first.command.changes(), first.command.bytes());
        let mut group = vec![first];
        while changes < GROUP_CHANGES
            && bytes < GROUP_BYTES
            && let Ok(request) = self.requests.try_recv()
        {
            changes += request.command.changes();
            bytes += request.command.bytes();
            group.push(request);
        }
        group
    }

    /// Commits a group, and tells the callers.
    fn commit(&mut self, group: Vec<Request>) -> Result<(), EngineError> {
        let is_overdue = self.sync.due.is_some_and(|due| due <= Instant::now());
        let is_synced = is_overdue || group.iter().any(|request| request.durability == Durability::Sync);
        let commit = if is_synced { Commit::Synced } else { Commit::Unsynced };
        let begins_transfer =
            |request: &Request| matches!(request.command, Command::Log(LogCommand::BeginTransfer { .. }));
        if group.iter().any(begins_transfer) {
            // Set before a reader can see an incomplete store.
            self.completeness.set(true);
        }
        let ungrouped = |request| Grouped { request, failed: None };
        let mut group: Vec<Grouped> = group.into_iter().map(ungrouped).collect();
        let committed = match self.write(commit, &mut group) {
            Ok(committed) => committed,
            Err(error) => {
                for Grouped { request, .. } in group {
                    let _ = request.outcome.send(Err(error.clone().into()));
                }
                return Err(error);
            }
        };
        self.state = committed.state;
        self.is_of_earlier_version &= !changes_something(&group);
        self.completeness.set(state::is_incomplete(self.state.log.as_ref()));
        self.set_sync(is_synced, &group);
        let changed: u64 = group
            .iter()
            .map(|Grouped { request, .. }| request.command.changed_bytes())
            .sum();
        if changed > 0 {
            self.activity.committed(changed, self.state.next.record);
        }
        self.tell(group, committed.outcomes);
        Ok(())
    }

    /// Executes all requests of a group in one transaction. A request that fails after it wrote
    /// something undoes the transaction, and the others are executed again without it.
    fn write(&self, commit: Commit, group: &mut [Grouped]) -> Result<Committed, EngineError> {
        loop {
            let mut state = self.state.clone();
            let mut outcomes = Vec::with_capacity(group.len());
            let mut undone = None;
            let committed = self.engine.write(commit, &mut |transaction| {
                for (place, Grouped { request, failed }) in group.iter().enumerate() {
                    let outcome = match failed {
                        Some(error) => Err(Failure::Refused(error.clone())),
                        None => execute(transaction, &self.records, &mut state, self.interval, &request.command),
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
                if self.is_of_earlier_version && changes_something(group) {
                    transaction.put(Table::Meta, FORMAT_KEY, &FORMAT)?;
                }
                self.put_changed(transaction, &state)
            });
            match (committed, undone) {
                (Ok(()), _) => return Ok(Committed { state, outcomes }),
                (Err(_), Some((place, error))) => group[place].failed = Some(error),
                (Err(error), None) => return Err(error),
            }
        }
    }

    /// Writes what has changed of the state.
    fn put_changed(&self, transaction: &mut dyn Transaction, state: &State) -> Result<(), EngineError> {
        if state.log != self.state.log
            && let Some(log) = &state.log
        {
            oplog::put_state(transaction, log)?;
        }
        if state.next != self.state.next {
            transaction.put(Table::Meta, NEXT_KEY, &state.next.encode())?;
        }
        Ok(())
    }

    /// Notes whether and when the commit has to be synced.
    fn set_sync(&mut self, is_synced: bool, group: &[Grouped]) {
        let due = |Grouped { request, .. }: &Grouped| match request.durability {
            Durability::Batched(delay) => Instant::now().checked_add(delay),
            Durability::Sync | Durability::None => None,
        };
        let due = group.iter().filter_map(due).chain(self.sync.due).min();
        self.sync = PendingSync {
            is_needed: !is_synced,
            due: due.filter(|_| !is_synced),
        };
    }

    /// Sends the outcomes to the callers, and the written records to the encoder.
    fn tell(&self, group: Vec<Grouped>, outcomes: Vec<Result<Outcome, Error>>) {
        for (Grouped { request, .. }, outcome) in group.into_iter().zip(outcomes) {
            if let (Some(feed), Command::Set(_, Setting::Latest(_)), Ok(_)) = (&self.feed, &request.command, &outcome) {
                feed.settings_change();
            }
            if let (Some(feed), Command::Batch(changes), Ok(Outcome::Written(written))) =
                (&self.feed, request.command, &outcome)
            {
                let new = changes.operations.into_iter().zip(written).filter_map(new_record);
                feed.push(new.inspect(|new| self.activity.wait_for_encoder(new.lag)));
            }
            // A caller that has gone away needs no answer.
            let _ = request.outcome.send(outcome);
        }
        if let Some(feed) = &self.feed {
            // Wakes the encoder after the callers, so that they do not wait for it to leave their
            // processor.
            feed.wake();
        }
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.engine.sync()?;
        self.sync = PendingSync::default();
        Ok(())
    }
}

fn changes_something(group: &[Grouped]) -> bool {
    group
        .iter()
        .any(|grouped| !matches!(grouped.request.command, Command::Sync))
}

/// Returns the record that an operation wrote, for the encoder; [`None`] if it wrote no body.
fn new_record((operation, written): (Operation, &Option<Written>)) -> Option<NewRecord> {
    let written = written.as_ref()?;
    let (Change::Insert(body) | Change::Update(body) | Change::Put(body) | Change::PutIfAbsent(body)) =
        operation.change
    else {
        return None;
    };
    Some(NewRecord {
        number: written.number,
        namespace: operation.target.number,
        versions_kept: operation.target.versions_kept,
        prior: written.prior,
        length: body.len(),
        lag: Waiting {
            bytes: body.len() as u64,
            records: 1,
        },
        body: Some(body),
    })
}
