//! How much compacting in the background may take.

use std::time::Duration;

/// How records are compressed together in the background, and unused space is given back.
///
/// Without it, a store grows until [`Store::compact`](crate::Store::compact) is called. What it does never changes the
/// bodies that you read.
///
/// ```
/// use ibid_record::{Compacting, Options};
/// let options = Options::default().with_compacting(Compacting::default().with_percent(25));
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacting {
    /// Whether it is done.
    pub enabled: bool,
    /// The part of one processor that it takes while others write, percent, 1 to 100. In a pause of the writers,
    /// and while they have to wait for it, it takes all of one.
    pub percent: u8,
    /// Records that are not compressed yet, because they may soon be replaced: the last ones, bytes of their bodies. It
    /// also takes up to twice so much memory.
    pub recent_bytes: usize,
    /// Records that are put into an order and compressed together, bytes; it takes as much memory, while it is done. Of
    /// fewer, similar ones are found less often.
    pub window_bytes: usize,
    /// After this time without a change everything is compressed, and all unused space is given back.
    pub idle_after: Duration,
}

impl Default for Compacting {
    /// Half of a processor while others write, 16 MiB of recent records, 32 MiB that are compressed together, idle
    /// after a second.
    fn default() -> Self {
        Compacting {
            enabled: true,
            percent: 50,
            recent_bytes: 16 << 20,
            window_bytes: 32 << 20,
            idle_after: Duration::from_secs(1),
        }
    }
}

impl Compacting {
    /// Sets [`enabled`](Self::enabled).
    #[must_use]
    pub fn with_enabled(self, enabled: bool) -> Self {
        Compacting { enabled, ..self }
    }

    /// Sets [`percent`](Self::percent).
    #[must_use]
    pub fn with_percent(self, percent: u8) -> Self {
        Compacting { percent, ..self }
    }

    /// Sets [`recent_bytes`](Self::recent_bytes).
    #[must_use]
    pub fn with_recent_bytes(self, recent_bytes: usize) -> Self {
        Compacting { recent_bytes, ..self }
    }

    /// Sets [`window_bytes`](Self::window_bytes).
    #[must_use]
    pub fn with_window_bytes(self, window_bytes: usize) -> Self {
        Compacting { window_bytes, ..self }
    }

    /// Sets [`idle_after`](Self::idle_after).
    #[must_use]
    pub fn with_idle_after(self, idle_after: Duration) -> Self {
        Compacting { idle_after, ..self }
    }
}
