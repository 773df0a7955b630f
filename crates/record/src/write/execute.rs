//! Executing one command within a transaction.

use ibid_delta::Interval;
use ibid_format::record::{Epoch, LogEntry, LogState, NextNumbers, RETENTION_CLOCK_KEY, RetentionClock, Role, key_of};

use super::apply::Failure;
use super::request::{Changes, Command, EncodedBatch, Expirations, LogCommand, Outcome, Rewrite, Setting, Target};
use super::{apply, block, index, namespace, oplog, references, replay, rewrite, transfer, truncate};
use crate::engine::{Table, Transaction};
use crate::error::Error;
use crate::index::Unique;
use crate::log::state;
use crate::read::lookup;
use crate::read::records::Records;
use crate::time::Time;
use crate::versions::Versions;

/// The state beside the tables that commands change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// The numbers that come next.
    pub(crate) next: NextNumbers,
    pub(crate) log: Option<LogState>,
}

/// Executes a command. `interval` is how densely the encoder searched for copies; replicas need it
/// to make the same deltas.
pub(crate) fn execute(
    transaction: &mut dyn Transaction,
    records: &Records,
    state: &mut State,
    interval: Interval,
    command: &Command,
) -> Result<Outcome, Failure> {
    match command {
        Command::Batch(changes) => batch(transaction, records, state, changes),
        Command::Namespace(name, versions) => find_or_make_namespace(transaction, state, name, *versions),
        Command::Index(target, name, unique) => find_or_make_index(transaction, state, target, name, *unique),
        Command::Set(target, setting) => set(transaction, state, target, *setting),
        Command::Expire(expirations) => expire(transaction, records, state, expirations),
        Command::Rebase(rewrites) => {
            state::check_primary(state.log.as_ref()).map_err(Failure::Refused)?;
            rebase(transaction, records, state, interval, rewrites).map_err(Failure::Undone)
        }
        Command::ForgetPurges(seen) => {
            let forgotten = references::forget_purges(transaction, *seen);
            forgotten.map(|()| Outcome::Done).map_err(Failure::Undone)
        }
        Command::Encode(encoded) => {
            state::check_primary(state.log.as_ref()).map_err(Failure::Refused)?;
            encode(transaction, records, state, interval, encoded).map_err(Failure::Undone)
        }
        Command::Log(LogCommand::Fence { by }) => fence(state.log.as_mut(), *by).map_err(Failure::Refused),
        Command::Log(command) => execute_log(transaction, records, state, command).map(|()| Outcome::Done),
        Command::AddBlock(block) => {
            let added = block::add(transaction, records, block);
            added.map(|()| Outcome::Done).map_err(Failure::Undone)
        }
        Command::RemoveBlocks(blocks) => {
            let removed = block::remove_unused(transaction, blocks);
            removed.map(|()| Outcome::Done).map_err(Failure::Undone)
        }
        Command::Sync => Ok(Outcome::Done),
    }
}

fn batch(
    transaction: &mut dyn Transaction,
    records: &Records,
    state: &mut State,
    changes: &Changes,
) -> Result<Outcome, Failure> {
    let operations = &changes.operations;
    state::check_primary(state.log.as_ref()).map_err(Failure::Refused)?;
    oplog::check_size(state.log.as_ref(), operations).map_err(Failure::Refused)?;
    let record = state.next.record;
    let now = match changes.undated {
        true => 0,
        false => Time::now().as_millis(),
    };
    let requirements = &changes.requirements;
    let written = apply::apply_batch(transaction, records, &mut state.next, now, operations, requirements)?;
    if let Some(log) = &mut state.log {
        let logged = oplog::log_batch(transaction, log, record, now, operations, &written);
        logged.map_err(Failure::Undone)?;
    }
    Ok(Outcome::Written(written))
}

fn find_or_make_namespace(
    transaction: &mut dyn Transaction,
    state: &mut State,
    name: &str,
    versions: Versions,
) -> Result<Outcome, Failure> {
    let before = state.next;
    let number = namespace::find_or_make(transaction, &mut state.next, name, versions)?;
    if before != state.next {
        // Only a primary makes a namespace; a replica may find one.
        state::check_primary(state.log.as_ref()).map_err(Failure::Undone)?;
        if let Some(log) = &mut state.log {
            oplog::log_namespace(transaction, log, name, versions).map_err(Failure::Undone)?;
        }
    }
    Ok(Outcome::Namespace(number))
}

fn find_or_make_index(
    transaction: &mut dyn Transaction,
    state: &mut State,
    target: &Target,
    name: &str,
    unique: Unique,
) -> Result<Outcome, Failure> {
    let namespace = target.number;
    let found = index::find_or_make(transaction, namespace, &target.name, name, unique)?;
    if found.is_new {
        // Only a primary makes an index; a replica may find one.
        state::check_primary(state.log.as_ref()).map_err(Failure::Undone)?;
        if let Some(log) = &mut state.log {
            let entry = LogEntry::Index {
                namespace,
                unique: unique == Unique::Yes,
                name: name.to_owned(),
            };
            oplog::append(transaction, log, &entry).map_err(Failure::Undone)?;
        }
    }
    Ok(Outcome::Index(found.number))
}

fn set(
    transaction: &mut dyn Transaction,
    state: &mut State,
    target: &Target,
    setting: Setting,
) -> Result<Outcome, Failure> {
    state::check_primary(state.log.as_ref()).map_err(Failure::Refused)?;
    let is_new = namespace::set(transaction, target.number, setting).map_err(Failure::Undone)?;
    if is_new && let Some(log) = &mut state.log {
        oplog::append(transaction, log, &setting.log_entry(target.number)).map_err(Failure::Undone)?;
    }
    Ok(Outcome::Done)
}

/// Removes what namespaces no longer keep, of keys that have not changed since that was found out.
fn expire(
    transaction: &mut dyn Transaction,
    records: &Records,
    state: &mut State,
    expirations: &Expirations,
) -> Result<Outcome, Failure> {
    state::check_primary(state.log.as_ref()).map_err(Failure::Refused)?;
    let mut operations = Vec::new();
    for (latest, operation) in &expirations.operations {
        let stored_key = key_of(operation.target.number, &operation.key);
        let entry = lookup::key_entry(transaction, &stored_key).map_err(Failure::Refused)?;
        if entry.is_some_and(|entry| entry.latest == *latest) {
            operations.push(operation.clone());
        }
    }
    let clock = RetentionClock {
        time: expirations.clock,
    };
    let put = transaction.put(Table::Meta, RETENTION_CLOCK_KEY, &clock.encode());
    put.map_err(|error| Failure::Undone(error.into()))?;
    let changes = Changes {
        operations,
        ..Changes::default()
    };
    batch(transaction, records, state, &changes).map_err(|failure| match failure {
        Failure::Refused(error) | Failure::Undone(error) => Failure::Undone(error),
    })
}

/// Stores records without those that they needed.
fn rebase(
    transaction: &mut dyn Transaction,
    records: &Records,
    state: &mut State,
    interval: Interval,
    rewrites: &[Rewrite],
) -> Result<Outcome, Error> {
    let written = rewrite::apply_rewrites(transaction, records, rewrites)?;
    if let Some(log) = &mut state.log {
        oplog::log_rewrites(transaction, log, interval, &written)?;
    }
    Ok(Outcome::Done)
}

fn encode(
    transaction: &mut dyn Transaction,
    records: &Records,
    state: &mut State,
    interval: Interval,
    encoded: &EncodedBatch,
) -> Result<Outcome, Error> {
    let written = rewrite::apply_encoded(transaction, records, encoded)?;
    if let Some(log) = &mut state.log {
        oplog::log_rewrites(transaction, log, interval, &written)?;
    }
    Ok(Outcome::Done)
}

fn execute_log(
    transaction: &mut dyn Transaction,
    records: &Records,
    state: &mut State,
    command: &LogCommand,
) -> Result<(), Failure> {
    let State { next, log } = state;
    if let LogCommand::Follow = command {
        return follow(*next, log).map_err(Failure::Refused);
    }
    let log = log.as_mut().ok_or(Failure::Refused(Error::NoLog))?;
    match command {
        LogCommand::Follow | LogCommand::Fence { .. } => Ok(()), // done before
        LogCommand::Promote { number, id } => promote(transaction, log, *number, *id),
        LogCommand::Truncate { first } => {
            state::check_primary(Some(log)).map_err(Failure::Refused)?;
            let first = (*first).clamp(log.first, log.next);
            if first == log.first {
                return Ok(());
            }
            truncate::truncate(transaction, records, log, first).map_err(Failure::Undone)
        }
        LogCommand::Replay(received) => replay::replay(transaction, records, next, log, received),
        LogCommand::BeginTransfer { transfer, store, epoch } => {
            transfer::begin(transaction, log, *transfer, (*store, *epoch)).map_err(Failure::Undone)
        }
        LogCommand::StorePart(part) => transfer::store_part(transaction, next, log, part).map_err(Failure::Undone),
    }
}

/// Makes a replica of an empty store, or of one that has a log.
fn follow(next: NextNumbers, log: &mut Option<LogState>) -> Result<(), Error> {
    match log {
        None if next == NextNumbers::FIRST => *log = Some(LogState::new(Role::Replica, [0; 16], next.record)),
        // It has records that are in no log.
        None => return Err(Error::NoLog),
        Some(state) => {
            if matches!(state.role, Role::Primary | Role::Fenced { .. }) {
                state.role = Role::Replica;
            }
        }
    }
    Ok(())
}

/// Ends the writing of a primary of an earlier epoch. Returns by which epoch that was done before.
fn fence(log: Option<&mut LogState>, by: u64) -> Result<Outcome, Error> {
    let log = log.ok_or(Error::NoLog)?;
    let (before, known) = match log.role {
        Role::Primary => (None, log.epoch.number),
        Role::Fenced { by: before } => (Some(before), before),
        Role::Replica | Role::Incomplete { .. } => return Err(Error::IsReplica),
    };
    if by > known {
        log.role = Role::Fenced { by };
    }
    Ok(Outcome::Fenced(before))
}

/// Makes a replica the primary of a new epoch; a fenced store, too, if that epoch is later than the
/// one for which it was fenced.
fn promote(transaction: &mut dyn Transaction, log: &mut LogState, number: Option<u64>, id: u64) -> Result<(), Failure> {
    let known = match log.role {
        Role::Primary => return Ok(()),
        Role::Replica => log.epoch.number,
        Role::Fenced { by } if number.is_some_and(|number| number > by) => by,
        Role::Fenced { by } => return Err(Failure::Refused(Error::Fenced { by })),
        Role::Incomplete { .. } => return Err(Failure::Refused(Error::Incomplete)),
    };
    if log.store == [0; 16] {
        return Err(Failure::Refused(Error::Incomplete)); // it has received nothing from a primary
    }
    let number = number.unwrap_or(known + 1);
    if number <= known {
        let (field, min, max, found) = ("number of an epoch", known + 1, u64::MAX, number);
        return Err(Failure::Refused(Error::OutOfRange { field, min, max, found }));
    }
    let epoch = Epoch { number, id };
    oplog::append(transaction, log, &LogEntry::Promoted { epoch }).map_err(Failure::Undone)?;
    (log.epoch, log.role) = (epoch, Role::Primary);
    Ok(())
}
