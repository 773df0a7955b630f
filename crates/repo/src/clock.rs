//! The time of day.

use ibid_format::tree::Time;

#[cfg(feature = "breakable-rules")]
thread_local! {
    static WRONG_BY: std::cell::Cell<i64> = const { std::cell::Cell::new(0) };
}

/// Makes the clock of this thread, and of those that it starts, wrong by so many seconds. For simulations alone.
#[cfg(feature = "breakable-rules")]
pub fn set_clock_wrong_by(seconds: i64) {
    WRONG_BY.set(seconds);
}

/// Returns by how many seconds the clock of this thread is wrong.
#[cfg(feature = "breakable-rules")]
pub(crate) fn wrong_by() -> i64 {
    WRONG_BY.get()
}

/// Returns by how many seconds the clock of this thread is wrong: by none.
#[cfg(not(feature = "breakable-rules"))]
fn wrong_by() -> i64 {
    0
}

pub(crate) fn now() -> Time {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Time {
        seconds: (since.as_secs() as i64).saturating_add(wrong_by()),
        nanos: since.subsec_nanos(),
    }
}
