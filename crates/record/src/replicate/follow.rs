//! Following a log: a replica asks for new entries until it is told to stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Progress, Receiver};
use crate::error::Error;
use crate::store::Store;

/// How often a waiting thread checks whether to stop.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often a replica that has all entries asks again.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// How long a replica waits after an error that may pass.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The log of a primary: in this process ([`Sender`](super::Sender)), at the other end of a
/// connection ([`net::Connection`](super::net::Connection)), or published in a stream
/// ([`nats::Published`](super::nats::Published)).
///
/// It may be asked again after an error. A connection that failed is made again then.
pub trait Oplog {
    /// Answers a request of a [`Receiver`]; [`None`] if `stop` was set before there was an answer.
    ///
    /// # Errors
    /// [`Error::Network`], [`Error::Nats`], [`Error::NothingPublished`] and [`Error::Message`],
    /// after which asking again may help; other errors, after which it will not.
    fn answer(&mut self, request: &[u8], stop: &AtomicBool) -> Result<Option<Vec<u8>>, Error>;
}

/// Makes a replica follow a log until `stop` is set. Calls `on_progress` with what each answer
/// brought, and with errors that may pass; after such an error the log is asked again a second
/// later.
///
/// # Errors
/// Errors that asking again does not help: [`Error::Refused`], [`Error::StalePrimary`],
/// [`Error::Diverged`], [`Error::Certificate`]; [`Error::Damaged`], [`Error::Engine`],
/// [`Error::WriterEnded`], [`Error::NoLog`] of the replica itself.
pub fn follow(
    store: &Store,
    log: &mut dyn Oplog,
    stop: &AtomicBool,
    on_progress: &mut dyn FnMut(Result<Progress, &Error>),
) -> Result<(), Error> {
    let mut receiver = Receiver::new(store)?;
    let mut got_nothing = false;
    while !stop.load(Ordering::Relaxed) {
        let answer = log.answer(&receiver.ask()?, stop);
        let done = match answer.and_then(|answer| answer.map(|answer| receiver.take(&answer)).transpose()) {
            Ok(Some(done)) => done,
            Ok(None) => continue,
            Err(error) if error.may_pass() => {
                on_progress(Err(&error));
                wait(RETRY_AFTER, stop);
                continue;
            }
            Err(error) => return Err(error),
        };
        on_progress(Ok(done));
        // After one answer with nothing the replica asks in another way; after two it waits.
        let again = done == Progress::Nothing && std::mem::replace(&mut got_nothing, true);
        got_nothing &= done == Progress::Nothing;
        if done.is_current() || again {
            wait(ASK_EVERY, stop);
        }
    }
    Ok(())
}

pub(super) fn wait(time: Duration, stop: &AtomicBool) {
    let begun = Instant::now();
    while begun.elapsed() < time && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY.min(time));
    }
}
