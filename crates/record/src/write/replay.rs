//! Repeating on a replica what its primary did.
//!
//! A replica's contents are a function of the log: at the same position it has what its primary
//! had, except for compression and the encoder's state. The removal of log entries is logged for
//! that reason.

use ibid_delta::{DeltaEncoder, Interval, Method};
use ibid_format::record::{BodyCheck, LogEntry, LogOperation, LogState, NextNumbers, Role};

use super::apply::{self, Failure};
use super::request::{ReceivedEntries, ReceivedEntry, Rewrite, Setting};
use super::{index, namespace, oplog, rewrite, truncate};
use crate::engine::{Read, Table, Transaction};
use crate::error::Error;
use crate::index::Unique;
use crate::read::records::Records;
use crate::versions::Versions;

fn diverged(position: u64, what: &'static str) -> Failure {
    Failure::Undone(Error::Diverged { position, what })
}

/// Makes a refusal a failure after which nothing may be committed: the primary was not refused.
fn undone(failure: Failure) -> Failure {
    match failure {
        Failure::Refused(error) | Failure::Undone(error) => Failure::Undone(error),
    }
}

/// Repeats the entries of the primary, and logs them. Ignores entries that do not follow the
/// replica's last.
///
/// # Errors
/// [`Error::Diverged`] if the replica has other contents than its primary had.
pub(crate) fn replay(
    transaction: &mut dyn Transaction,
    records: &Records,
    next: &mut NextNumbers,
    state: &mut LogState,
    received: &ReceivedEntries,
) -> Result<(), Failure> {
    match state.role {
        Role::Replica => {}
        // The answer is late.
        Role::Primary | Role::Fenced { .. } | Role::Incomplete { .. } => return Ok(()),
    }
    if received.from != state.next {
        return Ok(()); // they were done before, or entries before them are missing
    }
    if state.store == [0; 16] {
        state.store = received.store;
    }
    for received in &received.entries {
        replay_entry(transaction, records, next, state, received)?;
    }
    if state.digest != received.digest {
        return Err(diverged(state.next, "the entries have another digest"));
    }
    Ok(())
}

fn replay_entry(
    transaction: &mut dyn Transaction,
    records: &Records,
    next: &mut NextNumbers,
    state: &mut LogState,
    received: &ReceivedEntry,
) -> Result<(), Failure> {
    let position = state.next;
    match &received.entry {
        LogEntry::Batch {
            record,
            time,
            operations,
        } => {
            if next.record != *record {
                return Err(diverged(position, "the next record has another number"));
            }
            replay_batch(transaction, records, next, *time, received, operations, position)?;
        }
        LogEntry::Retention { namespace, retention } => {
            namespace::set(transaction, *namespace, Setting::Retention(*retention)).map_err(Failure::Undone)?;
        }
        LogEntry::Latest { namespace, latest } => {
            namespace::set(transaction, *namespace, Setting::Latest(*latest)).map_err(Failure::Undone)?;
        }
        LogEntry::Namespace { versions_kept, name } => {
            let before = *next;
            let versions = Versions::from_kept(*versions_kept);
            namespace::find_or_make(transaction, next, name, versions).map_err(undone)?;
            if before == *next {
                return Err(diverged(position, "the namespace exists already"));
            }
        }
        LogEntry::Index {
            namespace,
            unique,
            name,
        } => {
            let (number, unique) = (*namespace, Unique::from_unique(*unique));
            if !index::find_or_make(transaction, number, "", name, unique)
                .map_err(undone)?
                .is_new
            {
                return Err(diverged(position, "the index exists already"));
            }
        }
        LogEntry::Rewrites { interval, rewrites } => {
            let mut known = Interval::ALL.into_iter();
            let interval = known.find(|known| known.positions() == u32::from(*interval));
            let interval = interval.ok_or_else(|| diverged(position, "records were encoded in another way"))?;
            let rewrites = encode(transaction, records, interval, rewrites).map_err(Failure::Undone)?;
            let written = rewrite::apply_rewrites(transaction, records, &rewrites).map_err(Failure::Undone)?;
            if written.len() != rewrites.len() {
                return Err(diverged(position, "a record that became a delta is gone"));
            }
        }
        LogEntry::Truncated { first } => {
            if !(state.first..=state.next).contains(first) {
                return Err(diverged(position, "the log begins elsewhere"));
            }
            // The truncation logs itself.
            return truncate::truncate(transaction, records, state, *first).map_err(Failure::Undone);
        }
        LogEntry::Promoted { epoch } => state.epoch = *epoch,
    }
    oplog::append(transaction, state, &received.entry).map_err(Failure::Undone)
}

fn replay_batch(
    transaction: &mut dyn Transaction,
    records: &Records,
    next: &mut NextNumbers,
    time: u64,
    received: &ReceivedEntry,
    logged: &[LogOperation],
    position: u64,
) -> Result<(), Failure> {
    let operations = &received.operations;
    // The primary did them, so what it required was so.
    let written = apply::apply_batch(transaction, records, next, time, operations, &[]);
    let written = written.map_err(|failure| match failure {
        Failure::Refused(Error::ValueTaken { .. }) => diverged(position, "an index value is of another key"),
        failure => undone(failure),
    })?;
    let mut done = operations.iter().zip(&written).zip(logged);
    let same = |((operation, written), logged): ((_, &Option<_>), &LogOperation)| {
        oplog::is_same(oplog::logged_change(operation, written.as_ref()), logged.change)
    };
    if done.all(same) {
        Ok(())
    } else {
        Err(diverged(position, "a key is in another state"))
    }
}

/// Makes the deltas that the primary made, and the bodies of what it stored whole.
fn encode(
    read: &dyn Read,
    records: &Records,
    interval: Interval,
    rewrites: &[(u64, u64)],
) -> Result<Vec<Rewrite>, Error> {
    let mut encoder = DeltaEncoder::new();
    let mut encoded = Vec::with_capacity(rewrites.len());
    for &(number, base) in rewrites {
        let older = records.body_of_any(read, number)?;
        if base == number {
            let check = BodyCheck::of(&older);
            let delta = older;
            encoded.push(Rewrite {
                number,
                base,
                check,
                delta,
            });
            continue;
        }
        let newer = records.body_of_any(read, base)?;
        let mut delta = Vec::new();
        let made = encoder.encode(Method::Anchor { interval }, &newer, &older, &mut delta);
        made.map_err(|error| Error::damaged(Table::Records, &number.to_be_bytes(), error))?;
        encoded.push(Rewrite {
            number,
            base,
            check: BodyCheck::of(&older),
            delta,
        });
    }
    Ok(encoded)
}
