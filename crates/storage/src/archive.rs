//! Objects that can't be read before the storage has thawed them: what services call archive classes.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Name};

/// How fast objects are thawed, and for how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThawTier {
    /// In half a day or two, for the least.
    #[default]
    Bulk,
    /// In hours.
    Standard,
    /// In minutes, where the service has capacity for that.
    Expedited,
}

impl ThawTier {
    /// All tiers, the cheapest first.
    pub const ALL: [ThawTier; 3] = [ThawTier::Bulk, ThawTier::Standard, ThawTier::Expedited];
    /// Their names.
    pub const NAMES: [&str; 3] = ["bulk", "standard", "expedited"];
}

impl fmt::Display for ThawTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ThawTier::NAMES[*self as usize])
    }
}

impl FromStr for ThawTier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = ThawTier::NAMES.iter().position(|name| *name == text);
        at.map(|at| ThawTier::ALL[at])
            .ok_or_else(|| format!("expected bulk, standard or expedited, found {text:?}"))
    }
}

/// How to thaw objects.
///
/// ```
/// use ibid_storage::{Thaw, ThawTier};
/// assert!(Thaw::new(7, ThawTier::Bulk).is_some());
/// assert!(Thaw::new(0, ThawTier::Bulk).is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thaw {
    days: u32,
    tier: ThawTier,
}

impl Thaw {
    /// The longest time for which objects stay thawed, days.
    pub const DAYS_MAX: u32 = 3650;

    /// Returns how to thaw objects for so many days; `None` if these are 0, or more than [`DAYS_MAX`](Thaw::DAYS_MAX).
    #[must_use]
    pub fn new(days: u32, tier: ThawTier) -> Option<Thaw> {
        (1..=Thaw::DAYS_MAX).contains(&days).then_some(Thaw { days, tier })
    }

    /// Returns for how many days objects can be read once they are thawed.
    #[must_use]
    pub fn days(self) -> u32 {
        self.days
    }

    /// Returns how fast.
    #[must_use]
    pub fn tier(self) -> ThawTier {
        self.tier
    }
}

/// Whether an object of an archive class can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArchiveState {
    /// It can't, and the storage was not asked to thaw it.
    Frozen,
    /// The storage is thawing it.
    Thawing,
    /// It can, until this time, seconds since 1970; always, if there is none.
    Readable(Option<i64>),
    /// There is no such object.
    Gone,
}

/// A storage of which a part can't be read at once. What is there can be listed, asked for its size and deleted as
/// everywhere; a read of what is not thawed fails with [`Archived`](crate::ErrorKind::Archived).
pub trait Archives: Send + Sync {
    /// Returns the class in which [`put_data`](crate::Storage::put_data) stores, if that is an archive.
    fn class_of_data(&self) -> Option<&str>;

    /// Calls `each` with the name, the size in bytes and the class of every object in a folder that is kept in an
    /// archive, thawed or not. `each` may call this storage again.
    ///
    /// # Errors
    /// As [`list`](crate::Storage::list).
    fn list_archived(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error>;

    /// Does the same for a caller that only reads. The answer may be from a list that this storage made up to a minute
    /// before.
    ///
    /// # Errors
    /// As [`list`](crate::Storage::list).
    fn list_archived_lately(&self, folder: &str, each: &mut dyn FnMut(Name, u64, &str)) -> Result<(), Error> {
        self.list_archived(folder, each)
    }

    /// Returns whether these objects can be read now, in this order.
    ///
    /// # Errors
    /// Those of the storage.
    fn states(&self, names: &[Name]) -> Result<Vec<ArchiveState>, Error>;

    /// Asks the storage to thaw these objects, and does not wait for that. What is thawed stays so for the days that
    /// are asked for from now on; what is being thawed, is gone, or is in no archive is passed over. `each` is called
    /// after some requests with the number of objects that they were about; if it returns `false`, the rest is left.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the storage can't thaw like that, or not now; those of the
    /// storage. Some may have been asked for: the call can be repeated.
    fn thaw(&self, names: &[Name], thaw: Thaw, each: &(dyn Fn(u64) -> bool + Sync)) -> Result<(), Error>;
}
