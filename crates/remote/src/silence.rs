//! How long a server has been silent to what was asked of it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Nothing has come from a server or gone to it, though something was asked. It is asked again, for as long as
/// [`Options::patience`](crate::Options::patience) says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Silence {
    /// For how long.
    pub lasts: Duration,
    /// What the last request met, if one has ended since then, as in "connection refused".
    pub why: Option<String>,
}

/// Notes what is asked and what comes.
#[derive(Debug, Default)]
pub(crate) struct Silences(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Calls that wait for the server, or for their next try.
    calls: usize,
    /// Since when nothing has moved, or will have.
    since: Option<Instant>,
    why: Option<String>,
}

/// A call that waits, until it is dropped.
pub(crate) struct Asking<'a>(&'a Silences);

impl Silences {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn asking(&self) -> Asking<'_> {
        let mut state = self.state();
        if state.calls == 0 {
            state.since = Some(Instant::now());
            state.why = None;
        }
        state.calls += 1;
        Asking(self)
    }

    /// Notes that bytes move at this time, which may be later than now, or that an answer has come.
    pub(crate) fn moved(&self, at: Instant) {
        let mut state = self.state();
        state.since = state.since.max(Some(at));
        state.why = None;
    }

    /// Notes that the server is there.
    pub(crate) fn answered(&self) {
        self.moved(Instant::now());
    }

    /// Notes how a request has ended that must be sent again.
    pub(crate) fn failed(&self, why: String) {
        self.state().why = Some(why);
    }

    pub(crate) fn get(&self) -> Option<Silence> {
        let state = self.state();
        let since = state.since.filter(|_| state.calls > 0)?;
        let lasts = Instant::now().checked_duration_since(since)?;
        let why = state.why.clone();
        Some(Silence { lasts, why })
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.state().calls -= 1;
    }
}
