//! What followed a chunk.

/// The most hints that are kept of one chunk.
pub const LIST_MOST: usize = 8;

/// How the chunk ended that followed another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// Its length, bytes.
    pub size: usize,
    /// Its last byte.
    pub marker: u8,
    /// Whether it ended because the data did. Such a hint is followed only where the data ends,
    /// too.
    pub at_end: bool,
}

impl Hint {
    /// The hint that this chunk is for whatever comes before it; `at_end` says that the data ended
    /// with it and nothing else cut it off.
    #[must_use]
    pub fn of(chunk: &[u8], at_end: bool) -> Hint {
        Hint {
            size: chunk.len(),
            marker: chunk.last().copied().unwrap_or_default(),
            at_end,
        }
    }
}
