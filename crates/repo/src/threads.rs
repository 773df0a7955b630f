//! Starting threads, which the system may refuse.

use std::thread::{Builder, Scope};

use crate::{Error, Result};

/// Starts a thread that the scope waits for.
///
/// # Errors
/// [`Error::Threads`]. What the threads before it wait for must then be let go, so that they end.
pub(crate) fn spawn<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> Result<()> {
    let started = Builder::new().spawn_scoped(scope, work);
    started.map(drop).map_err(|source| Error::Threads { source })
}
