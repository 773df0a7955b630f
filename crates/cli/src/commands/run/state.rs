//! What a profile remembers between runs, and the lock that keeps two runs of it apart.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::failure::{Failure, Result};

/// The longest file of a state, bytes.
const LENGTH_MAX: u64 = 64 << 10;
/// A step may come early by this part of its period. A timer does not start at the same second each
/// time, and a weekly check at the eighth day would be late by one.
const EARLY: u32 = 20;

/// The lock of a profile on this machine. It ends with the process.
pub(super) struct Lock {
    _file: File,
    /// Where the state of the profile is.
    state: PathBuf,
}

impl Lock {
    /// Takes the lock of a profile; `None` if another process has it.
    pub(super) fn take(folder: &Path, config: &Path, profile: &str) -> Result<Option<Lock>> {
        let mut builder = DirBuilder::new();
        let created = builder.recursive(true).mode(0o700).create(folder);
        created.map_err(|source| Failure::local("create", folder, source))?;
        // Two config files may have profiles of the same name.
        let name = format!("{profile}-{:016x}", fingerprint(config.as_os_str().as_bytes()));
        let path = folder.join(format!("{name}.lock"));
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|source| Failure::local("open", &path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock {
                _file: file,
                state: folder.join(format!("{name}.json")),
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(Failure::local("lock", &path, source)),
        }
    }
}

/// When each step of a profile last succeeded, in seconds since 1970.
#[derive(Debug, Default, PartialEq)]
pub(super) struct State(BTreeMap<String, u64>);

impl State {
    /// Returns the folder for states: as systemd or the XDG base directories name it.
    pub(super) fn folder() -> Result<PathBuf> {
        let absolute = |name| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let of_user = || {
            Some(
                absolute("XDG_STATE_HOME")
                    .or_else(|| Some(absolute("HOME")?.join(".local/state")))?
                    .join("ibid"),
            )
        };
        absolute("STATE_DIRECTORY")
            .or_else(of_user)
            .ok_or_else(|| Failure::Fatal("there is no place to remember runs: set HOME or XDG_STATE_HOME".into()))
    }

    /// Reads the state of a profile. One that can't be read is empty: then every step is due.
    pub(super) fn read(lock: &Lock) -> State {
        let mut text = Vec::new();
        let read = File::open(&lock.state).and_then(|file| file.take(LENGTH_MAX).read_to_end(&mut text));
        let parsed = read.ok().and_then(|_| serde_json::from_slice(&text).ok());
        parsed.map(State).unwrap_or_default()
    }

    /// Replaces the stored state.
    pub(super) fn write(&self, lock: &Lock) -> Result<()> {
        let new = lock.state.with_extension("new");
        let failed = |source| Failure::local("write", &new, source);
        let text = serde_json::to_vec(&self.0).map_err(|error| failed(error.into()))?;
        let mut file = File::create(&new).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&new, &lock.state).map_err(|source| Failure::local("replace", &lock.state, source))
    }

    /// Notes that a step that began then has succeeded.
    pub(super) fn succeeded(&mut self, command: &str, began: SystemTime) {
        self.0.insert(command.to_owned(), seconds(began));
    }

    /// Returns when a step is due, if that is later than `now`.
    pub(super) fn not_before(&self, command: &str, every: Duration, now: SystemTime) -> Option<SystemTime> {
        let last = *self.0.get(command)?;
        // A clock that was wrong must not put a step off for years.
        let due = last
            .checked_add((every - every / EARLY).as_secs())
            .filter(|_| last <= seconds(now))?;
        (due > seconds(now))
            .then(|| UNIX_EPOCH.checked_add(Duration::from_secs(due)))
            .flatten()
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Returns the FNV-1a hash, which stays the same in every version of the program.
fn fingerprint(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86400);

    #[test]
    fn a_weekly_step_is_due_after_a_week_or_a_few_hours_less() {
        let began = UNIX_EPOCH + 1000 * DAY;
        let mut state = State::default();
        assert_eq!(state.not_before("prune", 7 * DAY, began), None, "never done");
        state.succeeded("prune", began);
        let is_due = |later| state.not_before("prune", 7 * DAY, began + later).is_none();
        assert!(!is_due(DAY) && !is_due(6 * DAY) && is_due(7 * DAY - DAY / 24) && is_due(8 * DAY));
        assert_eq!(state.not_before("check", 7 * DAY, began), None);
        assert_eq!(
            state.not_before("prune", 7 * DAY, began - DAY),
            None,
            "the clock was wrong then, or is now"
        );
        assert_eq!(state.not_before("prune", Duration::ZERO, began), None);
    }

    #[test]
    fn a_lock_is_held_once_and_a_damaged_state_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let take = |config: &str| Lock::take(folder.path(), Path::new(config), "home").unwrap();
        let lock = take("/a").unwrap();
        assert!(take("/a").is_none() && take("/b").is_some());
        let mut state = State::default();
        state.succeeded("check", UNIX_EPOCH + DAY);
        state.write(&lock).unwrap();
        assert_eq!(State::read(&lock), state);
        std::fs::write(&lock.state, "{\"check\": ").unwrap();
        assert_eq!(State::read(&lock), State::default());
        drop(lock);
        assert!(take("/a").is_some());
    }
}
