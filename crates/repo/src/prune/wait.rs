//! Waiting until all machines see the same, and refusing to work beside others.

use std::time::Duration;

use super::PruneOptions;
use crate::layout::folder;
use crate::{Error, Repository, Result, SessionState, Warning, clock};

/// How often a wait looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(100);

impl Repository {
    /// Waits until every machine sees what was stored in a network folder before, `times` one after the other: for
    /// a backup that has not seen the last entry of the log to have stored its session, and for this machine to
    /// list it. Does nothing elsewhere: a list of another storage shows what was stored before it began.
    pub(super) fn wait_for_caches(&self, times: u32, options: &PruneOptions) -> Result<()> {
        let storage = &self.files.storage;
        let is_network_folder = storage.folder().is_some() && storage.is_remote();
        let time = options.cache_age * times;
        let is_rehearsal = self.files.rehearsal.is_some();
        if is_rehearsal || options.exclusive || !is_network_folder || time.is_zero() {
            return Ok(());
        }
        let seconds = time.as_secs();
        self.monitor.warn(Warning::WaitsForCaches { seconds });
        let begun = clock::instant();
        while let Some(left) = time.checked_sub(clock::since(begun)).filter(|left| !left.is_zero()) {
            self.monitor.check_cancelled()?;
            std::thread::sleep(left.min(LOOK));
        }
        Ok(())
    }

    /// Returns an error that names an open session, if there is one that is not given up on. Processes of this
    /// machine that are gone do not count.
    pub(super) fn refuse_open_sessions(&self, options: &PruneOptions) -> Result<()> {
        for (id, _) in self.files.list(folder::SESSIONS)? {
            if options.give_up_on.contains(&id) {
                continue;
            }
            let what = match self.session(id) {
                Err(Error::Storage(error)) if error.kind() == ibid_storage::ErrorKind::NotFound => continue,
                Err(error) if error.is_fault() => error.problem(),
                Err(error) => return Err(error),
                Ok(info) => match info.state {
                    SessionState::Dead | SessionState::Ended => continue,
                    SessionState::Running | SessionState::Unknown => {
                        format!("{} on {}", info.session.action, info.session.host)
                    }
                },
            };
            return Err(Error::SessionOpen { session: id, what });
        }
        Ok(())
    }
}
