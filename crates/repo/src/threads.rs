//! Thread creation, which the system may refuse.

use std::thread::{Builder, Scope};

use crate::{Error, Result};

/// Starts a thread in the scope.
///
/// # Errors
/// [`Error::Threads`]. The caller must then close the channels that the threads already started
/// wait for, so that they end.
pub(crate) fn spawn<'scope>(scope: &'scope Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) -> Result<()> {
    #[cfg(feature = "breakable-rules")]
    let work = {
        let wrong_by = crate::clock::wrong_by();
        move || {
            crate::clock::set_clock_wrong_by(wrong_by);
            work();
        }
    };
    let started = Builder::new().spawn_scoped(scope, work);
    started.map(drop).map_err(|source| Error::Threads { source })
}
