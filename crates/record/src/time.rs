//! Times of versions.

use std::fmt;
use std::time::{Duration, SystemTime};

use ibid_format::record::TIME_MAX;

use crate::error::Error;

/// A time to the millisecond, from 1970 to the end of the year 9999, in UTC.
///
/// ```
/// use ibid_record::Time;
///
/// let time = Time::from_millis(1_795_262_400_500)?;
/// assert_eq!(time.to_string(), "2026-11-21T12:00:00.500Z");
/// assert_eq!((time.as_millis(), time < Time::MAX), (1_795_262_400_500, true));
/// # Ok::<(), ibid_record::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The latest: the last millisecond of the year 9999.
    pub const MAX: Time = Time(TIME_MAX);

    /// Returns the time so many milliseconds after the beginning of 1970, at least 1.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for 0, and for a time after [`MAX`](Self::MAX).
    pub fn from_millis(millis: u64) -> Result<Time, Error> {
        match Time::stored(millis).filter(|&time| time <= Time::MAX) {
            Some(time) => Ok(time),
            None => Err(Error::OutOfRange {
                field: "milliseconds since 1970",
                min: 1,
                max: TIME_MAX,
                found: millis,
            }),
        }
    }

    /// Returns the time of the system's clock. A clock that is set to a time out of range shows the
    /// nearest one within.
    pub fn now() -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = since.map_or(1, |since| since.as_millis());
        Time(millis.clamp(1, TIME_MAX.into()) as u64)
    }

    /// Returns how many milliseconds it is after the beginning of 1970.
    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time so much later, or [`MAX`](Self::MAX).
    #[must_use]
    pub fn after(self, duration: Duration) -> Time {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(millis).min(TIME_MAX))
    }

    /// Returns a time as it is stored: [`None`] for 0, which stands for an unknown one.
    pub(crate) fn stored(millis: u64) -> Option<Time> {
        (millis > 0).then_some(Time(millis))
    }
}

/// Writes it as RFC 3339 says: `2026-11-21T12:00:00.500Z`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, millis) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = date(days);
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

/// Returns year, month and day of the day so many days after 1 January 1970. Years are counted from March on, so that
/// the day that only some years have is their last.
fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    /// From 1 March of the year 0 to 1 January 1970.
    const DAYS_BEFORE_1970: u64 = 719_468;
    let days = days + DAYS_BEFORE_1970;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next_year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_has_its_date() {
        for (millis, expected) in [
            (1, "1970-01-01T00:00:00.001Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (TIME_MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(Time(millis).to_string(), expected);
        }
        let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut days, max) = (0, TIME_MAX / 86_400_000);
        for year in 1970..10_000 {
            let february = if leap(year) { 29 } else { 28 };
            for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]) {
                assert_eq!(
                    (date(days), date(days + length - 1)),
                    ((year, month, 1), (year, month, length))
                );
                days += length;
            }
        }
        assert_eq!(days, max + 1);
    }

    #[test]
    fn times_are_within_their_range() {
        assert!(Time::from_millis(0).is_err() && Time::from_millis(TIME_MAX + 1).is_err());
        assert_eq!(Time::from_millis(TIME_MAX).unwrap(), Time::MAX);
        assert_eq!(Time::MAX.after(Duration::MAX), Time::MAX);
        assert!(Time::now() > Time(1));
    }
}
