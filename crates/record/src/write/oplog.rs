//! Writing the log.

use std::path::Path;

use ibid_delta::Interval;
use ibid_format::record::{Epoch, LOG_KEY, LogChange, LogEntry, LogOperation, LogState, NextNumbers, Role};

use super::request::{Change, Operation, Written};
use crate::engine::{Commit, Engine, EngineError, Table, Transaction};
use crate::error::Error;
use crate::log::state;
use crate::versions::Versions;

/// Most bytes of keys and bodies of a batch in a store with a log, so that it fits into a message.
const BATCH_BYTES_MAX: usize = 448 << 20;
/// Most bytes of keys of such a batch.
const KEYS_BYTES_MAX: usize = 32 << 20;
/// Most rewrites in one entry.
const REWRITES_MAX: usize = 1 << 16;

/// Returns the state of a store's log, and begins a log if there is none and one is `wanted`.
pub(crate) fn begin(engine: &dyn Engine, next: NextNumbers, wanted: bool) -> Result<Option<LogState>, Error> {
    let found = state::read(&*engine.snapshot()?)?;
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
        // Earlier changes are not in the log, so an empty replica must ask for all contents. The
        // log begins with an entry that counts as removed, which makes the replica ask.
        let (_, digest) = entry
            .seal(state.next, state.digest)
            .map_err(|error| Error::damaged(Table::Oplog, b"", error))?;
        (state.first, state.next) = (2, 2);
        (state.before, state.digest) = (digest, digest);
        engine.write(Commit::Synced, &mut |transaction| put_state(transaction, &state))?;
    }
    state::read(&*engine.snapshot()?)
}

/// Writes the state of the log.
pub(crate) fn put_state(transaction: &mut dyn Transaction, state: &LogState) -> Result<(), EngineError> {
    transaction.put(Table::Meta, LOG_KEY, &state.encode())
}

fn engine_error(error: Error) -> EngineError {
    match error {
        Error::Engine(error) => error,
        _ => EngineError::abandoned(),
    }
}

/// Returns a random number.
pub(crate) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        let error = std::io::Error::other(error);
        EngineError::io("get random bytes for", Path::new("the log"), error).into()
    })
}

/// Appends an entry, and counts it in `state`.
pub(crate) fn append(transaction: &mut dyn Transaction, state: &mut LogState, entry: &LogEntry) -> Result<(), Error> {
    let key = state.next.to_be_bytes();
    let (value, digest) = entry
        .seal(state.next, state.digest)
        .map_err(|error| Error::damaged(Table::Oplog, &key, error))?;
    transaction.put(Table::Oplog, &key, &value)?;
    state.next += 1;
    state.digest = digest;
    Ok(())
}

/// Refuses a batch that is too long for a message to a replica.
pub(crate) fn check_size(log: Option<&LogState>, operations: &[Operation]) -> Result<(), Error> {
    if log.is_none() {
        return Ok(());
    }
    let keys: usize = operations.iter().map(|operation| operation.key_bytes() + 48).sum();
    let bodies: usize = operations.iter().map(Operation::body_bytes).sum();
    for (field, found, max) in [
        (
            "bytes of the keys and index values of a batch in a store with a log",
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

/// Appends the entry of a batch.
pub(crate) fn log_batch(
    transaction: &mut dyn Transaction,
    state: &mut LogState,
    record: u64,
    time: u64,
    operations: &[Operation],
    written: &[Option<Written>],
) -> Result<(), Error> {
    // A piece that was there already is nothing new.
    let is_done = |(operation, written): &(&Operation, &Option<Written>)| {
        written.is_some() || !matches!(operation.change, Change::PutIfAbsent(_))
    };
    let done = operations.iter().zip(written).filter(is_done);
    let logged = done.map(|(operation, written)| LogOperation {
        namespace: operation.target.number,
        change: logged_change(operation, written.as_ref()),
        // What removes a record has none of its own.
        time: written.as_ref().map_or(0, |_| operation.time),
        expires: operation.expires,
        values: operation.values.clone(),
        key: operation.key.clone(),
    });
    let operations: Vec<_> = logged.collect();
    if operations.is_empty() {
        return Ok(());
    }
    let entry = LogEntry::Batch {
        record,
        time,
        operations,
    };
    append(transaction, state, &entry)
}

/// Returns whether two changes are of the same kind. Their priors may differ: a replica does not
/// know which record the caller named as similar.
pub(crate) fn is_same(one: LogChange, other: LogChange) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

/// Returns the form of an operation in the log.
pub(crate) fn logged_change(operation: &Operation, written: Option<&Written>) -> LogChange {
    match (&operation.change, written) {
        (Change::Insert(_) | Change::Update(_) | Change::Put(_) | Change::PutIfAbsent(_), Some(written)) => {
            LogChange::Body {
                prior: written.prior.map_or(0, |prior| prior.number),
                in_pieces: operation.in_pieces,
            }
        }
        (Change::Delete, Some(_)) => LogChange::Deletion,
        (Change::Delete, None) => LogChange::Removal,
        (&Change::PurgeVersions { from, to }, _) => LogChange::PurgeVersions { from, to },
        (Change::SetIndexValues, _) => LogChange::IndexValues,
        _ => LogChange::Purge,
    }
}

/// Appends the entry of a new namespace.
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

/// Appends the records that became deltas, each with its base.
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
