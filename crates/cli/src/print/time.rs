//! Times: local for people, UTC for programs.

use ibid_format::tree::Time;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats a time as `2026-11-21 12:00:00` in the local time zone.
pub(crate) fn local(time: Time) -> String {
    match timestamp(time) {
        Some(timestamp) => timestamp
            .to_zoned(TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        None => far_away(time),
    }
}

/// Formats a time as `2026-11-21T12:00:00.123456789Z`.
pub(crate) fn rfc3339(time: Time) -> String {
    timestamp(time).map_or_else(|| far_away(time), |timestamp| timestamp.to_string())
}

fn timestamp(time: Time) -> Option<Timestamp> {
    // Before 1970, the seconds are negative and the nanoseconds positive, but a `Timestamp` wants
    // one sign.
    let whole = Timestamp::from_second(time.seconds).ok()?;
    whole
        .checked_add(jiff::SignedDuration::from_nanos(i64::from(time.nanos)))
        .ok()
}

/// Formats a time in a year with more than four digits as seconds since 1970, as `date -d @…` reads
/// them.
fn far_away(time: Time) -> String {
    format!("@{}", time.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_has_a_text() {
        assert_eq!(
            rfc3339(Time {
                seconds: 1,
                nanos: 500_000_000
            }),
            "1970-01-01T00:00:01.5Z"
        );
        assert_eq!(
            rfc3339(Time {
                seconds: -1,
                nanos: 250_000_000
            }),
            "1969-12-31T23:59:59.25Z"
        );
        assert_eq!(
            rfc3339(Time {
                seconds: i64::MAX,
                nanos: 0
            }),
            "@9223372036854775807"
        );
        assert_eq!(
            local(Time {
                seconds: i64::MIN,
                nanos: 999_999_999
            }),
            "@-9223372036854775808"
        );
    }
}
