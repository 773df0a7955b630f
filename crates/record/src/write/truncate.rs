//! Removing the oldest entries of the log.

use ibid_format::record::{LogEntry, LogState, Role};

use super::{oplog, references};
use crate::engine::{Table, Transaction};
use crate::error::Error;
use crate::log::entries;
use crate::read::records::Records;

/// Entries that are removed in one commit.
pub(crate) const ENTRIES_AT_ONCE: u64 = 1 << 12;

/// Returns the first entry to keep of a primary's log that should have at most `entries_max`;
/// [`None`] while it has no more than a quarter beyond that. So not every commit removes an entry,
/// which would be logged each time.
pub(crate) fn first_to_keep(log: Option<&LogState>, entries_max: u64) -> Option<u64> {
    let log = log.filter(|log| log.role == Role::Primary)?;
    let kept = log.next - log.first;
    let first = (log.next - entries_max.min(kept)).min(log.first + ENTRIES_AT_ONCE);
    (kept > entries_max.saturating_add((entries_max / 4).max(1))).then_some(first)
}

/// Removes the entries before `first`, and the records that were kept only for them. Logs that.
pub(crate) fn truncate(
    transaction: &mut dyn Transaction,
    records: &Records,
    state: &mut LogState,
    first: u64,
) -> Result<(), Error> {
    oplog::append(transaction, state, &LogEntry::Truncated { first })?;
    for position in state.first..first {
        let (removed, digest) = entries::at(transaction, position)?;
        if let LogEntry::Batch { record, operations, .. } = removed {
            let written = operations.iter().filter(|operation| operation.change.writes()).count() as u64;
            for number in record..record + written {
                if references::group(transaction, number)?.is_obsolete(number) {
                    references::subtract(transaction, records, number)?;
                }
            }
            state.record = record + written;
        }
        transaction.delete(Table::Oplog, &position.to_be_bytes())?;
        state.before = digest;
    }
    state.first = first;
    // Later commands of the same transaction read it.
    Ok(oplog::put_state(transaction, state)?)
}
