//! Taking the place of a primary without a loss.

use std::sync::atomic::{AtomicBool, Ordering};

use ibid_format::record::{Fenced, LogState, Query, Refusal, Request, Response, Role};

use super::follow::{RETRY_AFTER, wait};
use super::{Oplog, Progress, Receiver};
use crate::error::Error;
use crate::log::state;
use crate::store::Store;

/// The end of an old primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenOver {
    /// The position after the last entry of its log.
    pub position: u64,
    /// Its epoch.
    pub epoch: u64,
}

/// Puts a replica in the place of its primary: ends the writing of the primary, receives what it
/// has acknowledged until then, and promotes the replica. The primary refuses changes from then on,
/// also after it is opened again. A store that is a primary already only ends the writing of the
/// older one.
///
/// Calls `on_progress` with what each answer brought, and with errors that may pass, after which it
/// tries again a second later. Returns [`None`] if `stop` was set before the replica was promoted.
/// The primary may be fenced then; a later call needs `force` to continue.
///
/// If the primary was fenced before, another store may have been promoted, and taking the place
/// once more would make two primaries. With `force` it is done nevertheless.
///
/// # Errors
/// [`Error::FencedBefore`]; [`Error::Refused`] if the other store is no primary of these replicas;
/// [`Error::StalePrimary`] if it is not the one that this replica follows; [`Error::Incomplete`] and
/// [`Error::Fenced`] of this store; the errors of [`follow`](super::follow).
///
/// ```
/// use std::sync::atomic::AtomicBool;
/// use ibid_record::replicate::{self, Sender};
/// use ibid_record::{Error, Options, Role, Store, Versions};
/// # let folder = tempfile::tempdir()?;
/// let old = Store::open(folder.path().join("old"), Options::default().with_oplog(true))?;
/// let pages = old.namespace("pages", Versions::Kept)?;
/// pages.insert(b"ibid", b"in the same place")?;
/// let new = Store::open(folder.path().join("new"), Options::default())?;
/// new.follow()?;
/// # let never = AtomicBool::new(false);
/// # let mut receiver = replicate::Receiver::new(&new)?;
/// # let mut sender = Sender::new(&old)?;
/// # receiver.take(&sender.answer(&receiver.ask()?)?)?;
///
/// replicate::take_over(&new, &mut Sender::new(&old)?, false, &never, &mut |_| {})?;
/// assert_eq!(new.log()?.map(|log| log.role), Some(Role::Primary));
/// assert!(matches!(pages.insert(b"idem", b"the same"), Err(Error::Fenced { by: 2 })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn take_over(
    store: &Store,
    primary: &mut dyn Oplog,
    force: bool,
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(Result<Progress, &Error>),
) -> Result<Option<TakenOver>, Error> {
    let mut successor = Successor {
        store,
        primary,
        force,
        stop,
        on_progress,
        fenced_for: None,
    };
    while !stop.load(Ordering::Relaxed) {
        match successor.take_over() {
            // The connection failed after the primary was fenced: another must fence it again.
            Err(Error::Refused(Refusal::Fenced)) if successor.fenced_for.is_some() => wait(RETRY_AFTER, stop),
            Err(error) if error.may_pass() => {
                (successor.on_progress)(Err(&error));
                wait(RETRY_AFTER, stop);
            }
            done => return done,
        }
    }
    Ok(None)
}

struct Successor<'s> {
    store: &'s Store,
    primary: &'s mut dyn Oplog,
    force: bool,
    stop: &'s AtomicBool,
    on_progress: &'s mut dyn FnMut(Result<Progress, &Error>),
    /// The epoch for which this call has fenced the primary.
    fenced_for: Option<u64>,
}

impl Successor<'_> {
    fn take_over(&mut self) -> Result<Option<TakenOver>, Error> {
        let state = self.state()?;
        let is_promoted = match state.role {
            Role::Primary => true,
            Role::Replica if state.store != [0; 16] => false,
            Role::Replica | Role::Incomplete { .. } => return Err(Error::Incomplete),
            Role::Fenced { by } => return Err(Error::Fenced { by }),
        };
        // Most of it is received while the primary still writes.
        if !is_promoted && self.fenced_for.is_none() {
            match self.catch_up() {
                Ok(true) | Err(Error::Refused(Refusal::Fenced)) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let state = self.state()?;
        let epoch = state.epoch.number + u64::from(!is_promoted);
        let Some(mut fenced) = self.fence(&state, self.fenced_for.unwrap_or(epoch))? else {
            return Ok(None);
        };
        if is_promoted {
            return match fenced.before > epoch {
                true => Err(Error::FencedBefore { by: fenced.before }),
                false => Ok(Some(fenced.into())),
            };
        }
        if fenced.epoch != state.epoch {
            let (expected, found) = (state.epoch.number, fenced.epoch.number);
            return Err(match expected == found {
                true => Error::Refused(Refusal::OtherEpoch),
                false => Error::StalePrimary { expected, found },
            });
        }
        if fenced.before != 0 && self.fenced_for != Some(fenced.before) {
            let by = fenced.before;
            if !self.force {
                return Err(Error::FencedBefore { by });
            }
            self.fenced_for = Some(by + 1);
            match self.fence(&state, by + 1)? {
                Some(again) => fenced = again,
                None => return Ok(None),
            }
        }
        let epoch = *self.fenced_for.get_or_insert(epoch);
        if !self.catch_up()? {
            return Ok(None);
        }
        self.store.promote_to(epoch)?;
        Ok(Some(fenced.into()))
    }

    fn state(&self) -> Result<LogState, Error> {
        state::read(&*self.store.shared.engine.snapshot()?)?.ok_or(Error::NoLog)
    }

    /// Follows the primary until the replica has all that it has; `false` if `stop` was set before.
    fn catch_up(&mut self) -> Result<bool, Error> {
        let mut receiver = Receiver::new(self.store)?;
        loop {
            let Some(answer) = self.primary.answer(&receiver.ask()?, self.stop)? else {
                return Ok(false);
            };
            let done = receiver.take(&answer)?;
            (self.on_progress)(Ok(done));
            if done.is_current() {
                return Ok(true);
            }
        }
    }

    /// Tells the primary that another store is the primary of this epoch. Returns its answer;
    /// [`None`] if `stop` was set before it came.
    fn fence(&mut self, state: &LogState, by: u64) -> Result<Option<Fenced>, Error> {
        let (store, epoch, query) = (state.store, state.epoch, Query::Fence { by });
        let request = Request { store, epoch, query }.encode();
        let Some(answer) = self.primary.answer(&request, self.stop)? else {
            return Ok(None);
        };
        match Response::decode(&answer)? {
            Response::Fenced(fenced) if fenced.store == state.store => Ok(Some(fenced)),
            Response::Refused(refusal) => Err(Error::Refused(refusal)),
            _ => {
                let (field, expected, found) = ("answer to a fence", 1, 0);
                Err(Error::Message(ibid_format::Error::Mismatch { field, expected, found }))
            }
        }
    }
}

impl From<Fenced> for TakenOver {
    fn from(fenced: Fenced) -> Self {
        TakenOver {
            position: fenced.next,
            epoch: fenced.epoch.number,
        }
    }
}
