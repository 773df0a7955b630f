//! Objects that are kept from being deleted for a time: what services call object lock.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Name};

/// Who can end a lock before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockMode {
    /// Those who have a right of its own for that.
    Governance,
    /// No one, not even the owner of the account.
    Compliance,
}

impl LockMode {
    /// The names of all modes.
    pub const NAMES: [&str; 2] = ["governance", "compliance"];
}

impl fmt::Display for LockMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LockMode::Governance => LockMode::NAMES[0],
            LockMode::Compliance => LockMode::NAMES[1],
        })
    }
}

impl FromStr for LockMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "governance" => Ok(LockMode::Governance),
            "compliance" => Ok(LockMode::Compliance),
            _ => Err(format!("expected governance or compliance, found {text:?}")),
        }
    }
}

/// For how long new objects are locked, and how.
///
/// ```
/// use ibid_storage::{Lock, LockMode};
/// let lock = Lock::new(30, LockMode::Governance).expect("within the limits");
/// assert_eq!(lock.to_string(), "30 days (governance)");
/// assert!(Lock::new(0, LockMode::Governance).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    days: u32,
    mode: LockMode,
}

impl Lock {
    /// The longest lock, days: what Amazon has as the longest.
    pub const DAYS_MAX: u32 = 36_500;

    /// Returns a lock of so many days; `None` if these are 0, or more than [`DAYS_MAX`](Lock::DAYS_MAX).
    #[must_use]
    pub fn new(days: u32, mode: LockMode) -> Option<Lock> {
        (1..=Lock::DAYS_MAX).contains(&days).then_some(Lock { days, mode })
    }

    /// Returns for how many days at least an object is locked.
    #[must_use]
    pub fn days(self) -> u32 {
        self.days
    }

    /// Returns who can end it.
    #[must_use]
    pub fn mode(self) -> LockMode {
        self.mode
    }

    /// Returns what has the longer time of both, and the stronger mode.
    #[must_use]
    pub fn and(self, other: Lock) -> Lock {
        Lock {
            days: self.days.max(other.days),
            mode: self.mode.max(other.mode),
        }
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = if self.days == 1 { "day" } else { "days" };
        write!(f, "{} {days} ({})", self.days, self.mode)
    }
}

/// An object whose lock is to be renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueLock {
    /// Its name.
    pub name: Name,
    /// The mode that it is to have: at least the one that it has.
    pub mode: LockMode,
    /// Until when it is to be locked, seconds since 1970: at least as long as it is.
    pub until: i64,
}

/// A storage that can lock objects. A locked object can be deleted, and then is there no longer for those who list and
/// read; but the storage keeps what it was until the lock ends.
pub trait Locks: Send + Sync {
    /// Locks what is stored from now on, those objects of whose names `is_kept` says so. If there were calls before,
    /// the longest time and the stronger mode hold. Nothing is asked of the storage.
    fn keep(&self, lock: Lock, is_kept: fn(&Name) -> bool);

    /// Returns how new objects are locked, if they are.
    fn kept(&self) -> Option<Lock>;

    /// Asks whether objects can be locked in this place. If it may not ask that, it is `Ok`: a put says it.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if not; those of other requests.
    fn check(&self) -> Result<(), Error>;

    /// Returns which of the objects that are there are not locked as [`keep`](Locks::keep) has it for at least half of
    /// its time from now on. Of what was stored within half of its time it is only asked if `young_too`: else these
    /// count as locked. `is_wanted` says of which names.
    ///
    /// # Errors
    /// Those of the storage.
    fn due(&self, young_too: bool, is_wanted: &dyn Fn(&Name) -> bool) -> Result<Vec<DueLock>, Error>;

    /// Locks objects anew. What is gone meanwhile is passed over. `each` is called for each
    /// object; if it returns `false`, the rest is left.
    ///
    /// # Errors
    /// Those of the storage.
    fn renew(&self, due: &[DueLock], each: &(dyn Fn() -> bool + Sync)) -> Result<(), Error>;

    /// Returns when the last of the locks of these objects ends, seconds since 1970; `None` if none is locked. What is
    /// not there is passed over.
    ///
    /// # Errors
    /// Those of the storage.
    fn until(&self, names: &[Name]) -> Result<Option<i64>, Error>;
}
