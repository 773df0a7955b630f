//! The hint: the size of the chunk that followed.

/// The most hints that are kept of one chunk.
pub const LIST_MOST: usize = 8;

/// How the chunk ended that followed another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// Its length, bytes.
    pub size: usize,
    /// Its last byte.
    pub marker: u8,
    /// Whether it ended because the data did. Such a hint is followed only at the end of data.
    pub at_end: bool,
}

impl Hint {
    /// Returns the hint that this chunk gives to the chunk before it. `at_end` says that only the
    /// end of the data cut it off.
    #[must_use]
    pub fn of(chunk: &[u8], at_end: bool) -> Hint {
        Hint {
            size: chunk.len(),
            marker: chunk.last().copied().unwrap_or_default(),
            at_end,
        }
    }
}
