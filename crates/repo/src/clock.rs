//! The time of day, and the time that passes.

use std::time::{Duration, Instant};

use ibid_format::tree::Time;

pub(crate) fn now() -> Time {
    #[cfg(feature = "simulation")]
    if let Some(time) = crate::simulation::now() {
        return time;
    }
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Time {
        seconds: since.as_secs() as i64,
        nanos: since.subsec_nanos(),
    }
}

/// Returns a moment from which [`since`] counts.
pub(crate) fn instant() -> Instant {
    #[cfg(feature = "simulation")]
    if let Some(instant) = crate::simulation::instant() {
        return instant;
    }
    Instant::now()
}

/// Returns the time that has passed.
pub(crate) fn since(instant: Instant) -> Duration {
    self::instant().saturating_duration_since(instant)
}
