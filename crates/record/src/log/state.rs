//! The state of the log: where it begins and ends, and the role of the store.

use ibid_format::record::{LOG_KEY, LogState, Role};

use crate::engine::{Read, Table};
use crate::error::Error;

/// The log of a store, and the store's role among those with the same contents.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Log {
    /// The role of the store.
    pub role: Role,
    /// The number of the epoch, which grows with each promotion. That of the first primary is 1; that
    /// of a replica that has received nothing yet is 0.
    pub epoch: u64,
    /// The position of the first entry that is kept.
    pub first: u64,
    /// The position that the next entry gets.
    pub next: u64,
}

impl From<LogState> for Log {
    fn from(state: LogState) -> Self {
        Log {
            role: state.role,
            epoch: state.epoch.number,
            first: state.first,
            next: state.next,
        }
    }
}

/// Returns the state of the log; [`None`] if the store has no log.
pub(crate) fn read(read: &(impl Read + ?Sized)) -> Result<Option<LogState>, Error> {
    let mut state = None;
    read.get(Table::Meta, LOG_KEY, &mut |value| state = Some(LogState::decode(value)))?;
    let damaged = |error| Error::damaged(Table::Meta, LOG_KEY, error);
    state.transpose().map_err(damaged)
}

/// Returns the number of the first record that the log names; the largest number without a log.
pub(crate) fn first_record(engine: &(impl Read + ?Sized)) -> Result<u64, Error> {
    Ok(read(engine)?.map_or(u64::MAX, |state| state.record))
}

pub(crate) fn is_incomplete(log: Option<&LogState>) -> bool {
    log.is_some_and(|log| matches!(log.role, Role::Incomplete { .. }))
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
