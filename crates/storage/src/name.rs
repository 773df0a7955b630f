//! Names of objects, and which are allowed.

use std::fmt;
use std::str::FromStr;

/// The longest name, in bytes.
pub const NAME_LENGTH_MAX: usize = 255;
/// The longest segment of a name, in bytes.
pub const SEGMENT_LENGTH_MAX: usize = 128;
/// The most segments a name has.
pub const SEGMENTS_MAX: usize = 5;
/// The first segment that no name may have: local folders keep their unfinished files there.
pub const RESERVED: &str = "tmp";

/// The name of an object: one to five segments of `[a-z0-9._-]`, joined by `/`.
///
/// A segment has 1 to 128 bytes and does not start with `.`; the whole name has at most 255 bytes;
/// the first segment is not `tmp`. A name that passes can be used as a relative path on every file
/// system and as a key in every object store: it cannot climb out of its folder, and no two names
/// become one where upper and lower case are the same.
///
/// One name is never used both for an object and for a folder of objects (`a` and `a/b`); see
/// [`Storage::put`](crate::Storage::put).
///
/// ```
/// use ibid_storage::Name;
/// let name = Name::new("packs/3f/3fa9c1")?;
/// assert_eq!(name.as_str(), "packs/3f/3fa9c1");
/// assert_eq!(name.folder(), "packs/3f");
/// assert!(Name::new("../etc/passwd").is_err());
/// # Ok::<(), ibid_storage::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a text is no [`Name`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no bytes at all.
    #[error("an object name cannot be empty")]
    Empty,
    /// The name is longer than [`NAME_LENGTH_MAX`].
    #[error("an object name has at most {NAME_LENGTH_MAX} bytes, this one has {found}")]
    TooLong {
        /// Its length in bytes.
        found: usize,
    },
    /// The name has more than [`SEGMENTS_MAX`] segments.
    #[error("an object name has at most {SEGMENTS_MAX} segments, {name:?} has {found}")]
    TooDeep {
        /// The text that was refused.
        name: String,
        /// How many segments it has.
        found: usize,
    },
    /// Two slashes in a row, or one at an end.
    #[error("the object name {name:?} has an empty segment; use single slashes, and none at either end")]
    EmptySegment {
        /// The text that was refused.
        name: String,
    },
    /// A segment is longer than [`SEGMENT_LENGTH_MAX`].
    #[error("a segment of an object name has at most {SEGMENT_LENGTH_MAX} bytes, {name:?} has one of {found}")]
    SegmentTooLong {
        /// The text that was refused.
        name: String,
        /// The length of the segment in bytes.
        found: usize,
    },
    /// A segment starts with a dot, as `..` does.
    #[error("the object name {name:?} has a segment that starts with a dot")]
    LeadingDot {
        /// The text that was refused.
        name: String,
    },
    /// A byte outside `[a-z0-9._-]`.
    #[error("the object name {name:?} contains {found:?}; only a-z, 0-9, '.', '_' and '-' are allowed")]
    Character {
        /// The text that was refused.
        name: String,
        /// The first character that is not allowed.
        found: char,
    },
    /// The first segment is [`RESERVED`].
    #[error("the object name {name:?} starts with {RESERVED:?}, which is kept for unfinished files")]
    Reserved {
        /// The text that was refused.
        name: String,
    },
}

impl Name {
    /// Checks `name` and takes a copy.
    ///
    /// # Errors
    /// Says which rule the text breaks.
    pub fn new(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > NAME_LENGTH_MAX {
            return Err(NameError::TooLong { found: name.len() });
        }
        for segment in name.split('/') {
            check_segment(name, segment)?;
        }
        let found = name.split('/').count();
        if found > SEGMENTS_MAX {
            return Err(NameError::TooDeep {
                name: name.to_owned(),
                found,
            });
        }
        if name.split('/').next() == Some(RESERVED) {
            return Err(NameError::Reserved { name: name.to_owned() });
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the whole name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns all segments but the last, joined by `/`; empty for a name of one segment.
    #[must_use]
    pub fn folder(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Returns the last segment.
    #[must_use]
    pub fn last_segment(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.as_str(), |(_, last)| last)
    }

    /// Whether [`Storage::list`](crate::Storage::list) of `folder` gives this name: it starts with
    /// `folder` + `/`, or `folder` is empty.
    ///
    /// ```
    /// # use ibid_storage::Name;
    /// let name = Name::new("packs/3f/3fa9c1")?;
    /// assert!(name.is_in("packs") && name.is_in("packs/3f") && name.is_in(""));
    /// assert!(!name.is_in("pack") && !name.is_in("packs/3f/3fa9c1"));
    /// # Ok::<(), ibid_storage::NameError>(())
    /// ```
    #[must_use]
    pub fn is_in(&self, folder: &str) -> bool {
        folder.is_empty() || self.0.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
    }
}

fn check_segment(name: &str, segment: &str) -> Result<(), NameError> {
    let owned = || name.to_owned();
    if segment.is_empty() {
        return Err(NameError::EmptySegment { name: owned() });
    }
    if segment.len() > SEGMENT_LENGTH_MAX {
        return Err(NameError::SegmentTooLong {
            name: owned(),
            found: segment.len(),
        });
    }
    if segment.starts_with('.') {
        return Err(NameError::LeadingDot { name: owned() });
    }
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-');
    match segment.chars().find(|&c| !allowed(c)) {
        Some(found) => Err(NameError::Character { name: owned(), found }),
        None => Ok(()),
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl TryFrom<&str> for Name {
    type Error = NameError;

    fn try_from(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}
