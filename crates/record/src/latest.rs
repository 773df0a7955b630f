//! How a namespace stores the latest versions of its keys.

use std::fmt;

use ibid_format::record::LatestEntry;

/// How a namespace stores the latest versions of its keys. It is about what is stored from now on, and never changes
/// what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Latest {
    /// As suits the records: [`Shared`](Self::Shared) where versions are kept, unless hardly any key gets a second one;
    /// [`Deltas`](Self::Deltas) otherwise. Nothing is older than the latest version of a key that has only one, so
    /// without deltas each would be stored whole.
    #[default]
    Automatic,
    /// Whole. They are read as fast as possible, also if many keys have the same bytes.
    Whole,
    /// Whole, but the same bytes only once, in whatever keys and versions they are. To read another copy looks up one
    /// record more, or a few if there are many copies.
    Shared,
    /// As deltas of similar records under other keys, if that takes at most an eighth. This takes least space. To read
    /// one may need as many other records as an old version does.
    Deltas,
}

impl Latest {
    pub(crate) fn entry(self) -> LatestEntry {
        match self {
            Latest::Automatic => LatestEntry::Automatic,
            Latest::Whole => LatestEntry::Whole,
            Latest::Shared => LatestEntry::Shared,
            Latest::Deltas => LatestEntry::Deltas,
        }
    }

    pub(crate) fn of(entry: LatestEntry) -> Self {
        match entry {
            LatestEntry::Automatic => Latest::Automatic,
            LatestEntry::Whole => Latest::Whole,
            LatestEntry::Shared => Latest::Shared,
            LatestEntry::Deltas => Latest::Deltas,
        }
    }
}

impl fmt::Display for Latest {
    /// `shared`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Latest::Automatic => "automatic",
            Latest::Whole => "whole",
            Latest::Shared => "shared",
            Latest::Deltas => "deltas",
        })
    }
}
