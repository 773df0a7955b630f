//! Parsers of values: sizes, shares, times.

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use ibid_format::slot::Argon2Cost;
use ibid_format::tree::{Time, check_name};
use ibid_record::Condition;
use ibid_repo::{Compression, Hints, Similarity};
use ibid_terminal::value::size;

use super::VersionName;

/// Parses a size that fits into 32 bits.
pub(crate) fn size_u32(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| format!("expected less than 4GiB, found {text:?}"))
}

/// The largest budget of memory: tables take a share of it at once.
const MEMORY_MAX: u64 = 1 << 40;

/// Parses a budget of memory.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    match size(text)? {
        size if size > MEMORY_MAX => Err(format!("expected at most 1TiB, found {text:?}")),
        size => Ok(size),
    }
}

/// The slowest limit of a connection: less was probably meant as KiB or MiB, and a command would seem to hang.
const RATE_MIN: u64 = 1 << 10;

/// Parses bytes per second, or 0 for no limit.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    match size(text)? {
        rate @ (0 | RATE_MIN..) => Ok(rate),
        _ => Err(format!(
            "expected bytes per second, at least 1KiB, with a unit such as 500KiB or 2MiB, or 0 for no limit, \
             found {text:?}"
        )),
    }
}

/// Parses an address of this machine with a port. The address may be a name, such as `localhost`.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map(|mut addresses| addresses.next());
    match found {
        Ok(Some(address)) => Ok(address),
        _ => Err(format!(
            "expected an address of this machine and a port, such as 127.0.0.1:7117 or [::]:7117, found {text:?}"
        )),
    }
}

/// Parses `3` or `latest`.
pub(crate) fn record_version(text: &str) -> Result<VersionName, String> {
    match (text, text.parse()) {
        ("latest", _) => Ok(VersionName::Latest),
        (_, Ok(number @ 1..)) => Ok(VersionName::Number(number)),
        _ => Err(format!(
            "expected a version from 1 to {}, or latest, found {text:?}",
            u32::MAX
        )),
    }
}

/// Parses `3`, `0` for no version, or `deleted`.
pub(crate) fn record_condition(text: &str) -> Result<Condition, String> {
    match (text, text.parse()) {
        ("deleted", _) => Ok(Condition::Deleted),
        (_, Ok(0)) => Ok(Condition::Absent),
        (_, Ok(version)) => Ok(Condition::Version(version)),
        (_, Err(_)) => Err(format!(
            "expected a version from 0 to {}, or deleted, found {text:?}",
            u32::MAX
        )),
    }
}

/// Parses `3` or `3-7`.
pub(crate) fn record_versions(text: &str) -> Result<(u32, u32), String> {
    let expected = || format!("expected a version such as 3, or a range such as 3-7, found {text:?}");
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse().map_err(|_| expected());
    match (number(from)?, number(to)?) {
        (from @ 1.., to) if from <= to => Ok((from, to)),
        _ => Err(expected()),
    }
}

/// Parses `90s`, `15m`, `12h` or `30d`.
pub(crate) fn record_span(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a span such as 90s, 15m, 12h or 30d, found {text:?}");
    let unit = [("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)].into_iter();
    let mut found = unit.filter_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, seconds) = found.next().ok_or_else(expected)?;
    match number.parse::<u32>() {
        Ok(number @ 1..) => Ok(Duration::from_secs(u64::from(number) * seconds)),
        _ => Err(expected()),
    }
}

/// Parses a time of a version, as [`time`] does, to the millisecond.
pub(crate) fn record_time(text: &str) -> Result<ibid_record::Time, String> {
    record_time_of(time(text)?).ok_or_else(|| format!("expected a time from 1970 to 9999, found {text:?}"))
}

/// Parses the time of a record in a line of JSON: as in RFC 3339, or `@` and seconds since 1970.
pub(crate) fn record_time_in_json(text: &str) -> Result<ibid_record::Time, String> {
    let expected = || {
        format!(
            "expected a time from 1970 to 9999, such as 2026-11-21T12:00:00Z, or seconds since 1970, found {text:?}"
        )
    };
    let timestamp = match text.strip_prefix('@') {
        Some(seconds) => {
            // As a decimal fraction, not in floating point, so that no millisecond is lost.
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let nanos = format!("{fraction:0<9}");
            let is_fraction = nanos.bytes().all(|digit| digit.is_ascii_digit());
            let nanos = nanos
                .get(..9)
                .filter(|_| is_fraction)
                .and_then(|nanos| nanos.parse().ok());
            let seconds = whole.parse().map_err(|_| expected())?;
            let nanos = nanos.ok_or_else(expected)?;
            Time { seconds, nanos }
        }
        None => {
            let timestamp: jiff::Timestamp = text.parse().map_err(|_| expected())?;
            time_of(timestamp)
        }
    };
    record_time_of(timestamp).ok_or_else(expected)
}

fn record_time_of(time: Time) -> Option<ibid_record::Time> {
    let millis = u64::try_from(time.seconds).ok()?.checked_mul(1000)?;
    ibid_record::Time::from_millis(millis.checked_add(u64::from(time.nanos) / 1_000_000)?).ok()
}

/// Parses the name of one file.
pub(crate) fn file_name(name: OsString) -> Result<OsString, String> {
    one_name(name, "the name of one file, such as mill.sql")
}

/// Parses the name of a file or folder that leaves out the folder that it is in.
pub(crate) fn marker_name(name: OsString) -> Result<OsString, String> {
    one_name(name, "the name of one file or folder, such as .nobackup")
}

fn one_name(name: OsString, expected: &str) -> Result<OsString, String> {
    match check_name(name.as_bytes()) {
        Ok(()) => Ok(name),
        Err(error) => Err(format!("expected {expected}: {error}")),
    }
}

/// Parses `64MiB:3:4`.
pub(crate) fn argon2(text: &str) -> Result<Argon2Cost, String> {
    let expected = || format!("expected MEMORY:PASSES:LANES such as 64MiB:3:4, found {text:?}");
    let parts: Vec<&str> = text.split(':').collect();
    let [memory, passes, lanes] = parts.as_slice() else {
        return Err(expected());
    };
    let cost = Argon2Cost {
        memory_kib: u32::try_from(size(memory)? >> 10).map_err(|_| expected())?,
        passes: passes.parse().map_err(|_| expected())?,
        lanes: lanes.parse().map_err(|_| expected())?,
    };
    cost.check_new().map_err(|error| error.to_string())?;
    Ok(cost)
}

/// Parses `auto`, `off` or `max`.
pub(crate) fn similarity(text: &str) -> Result<Similarity, String> {
    match text {
        "auto" => Ok(Similarity::Auto),
        "off" => Ok(Similarity::Off),
        "max" => Ok(Similarity::Max),
        _ => Err(format!("expected auto, off or max, found {text:?}")),
    }
}

/// Parses `auto`, `off` or `always`.
pub(crate) fn hints(text: &str) -> Result<Hints, String> {
    match text {
        "auto" => Ok(Hints::Auto),
        "off" => Ok(Hints::Off),
        "always" => Ok(Hints::Always),
        _ => Err(format!("expected auto, off or always, found {text:?}")),
    }
}

/// Parses `auto`, `off`, or a level of zstd.
pub(crate) fn compression(text: &str) -> Result<Compression, String> {
    match (text, text.parse::<i32>()) {
        ("auto", _) => Ok(Compression::Auto),
        ("off", _) => Ok(Compression::Off),
        (_, Ok(level @ 1..=22)) => Ok(Compression::Level(level)),
        _ => Err(format!(
            "expected auto, off, or a level from 1 (fast) to 22 (small), found {text:?}"
        )),
    }
}

/// Parses `2026-11-21T12:00:00Z`, `2026-11-21 12:00:00` in local time, or `@` and seconds since
/// 1970.
pub(crate) fn time(text: &str) -> Result<Time, String> {
    let expected = || {
        format!("expected a time such as \"2026-11-21 12:00:00\", 2026-11-21T12:00:00Z or @1795262400, found {text:?}")
    };
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds = seconds.parse().map_err(|_| expected())?;
        return Ok(Time { seconds, nanos: 0 });
    }
    let local = || {
        let civil: jiff::civil::DateTime = text.parse()?;
        civil
            .to_zoned(jiff::tz::TimeZone::system())
            .map(|zoned| zoned.timestamp())
    };
    let timestamp = text.parse::<jiff::Timestamp>().or_else(|_| local());
    timestamp.map(time_of).map_err(|_: jiff::Error| expected())
}

fn time_of(timestamp: jiff::Timestamp) -> Time {
    let nanos = timestamp.as_nanosecond();
    Time {
        seconds: nanos.div_euclid(1_000_000_000) as i64,
        nanos: nanos.rem_euclid(1_000_000_000) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A larger one would end in a failed allocation, or take seconds to fill.
    #[test]
    fn a_budget_of_memory_is_at_most_a_tebibyte() {
        assert_eq!(memory("1TiB"), Ok(1 << 40));
        assert!(memory("1025GiB").is_err());
    }

    /// With `--limit-upload 4`, a backup would seem to hang. Other programs take it for KiB.
    #[test]
    fn a_rate_without_a_unit_is_refused() {
        assert_eq!(rate("2MiB"), Ok(2 << 20));
        assert_eq!(rate("1KiB"), Ok(1 << 10));
        assert_eq!(rate("0"), Ok(0));
        assert!(rate("1000").is_err_and(|error| error.contains("500KiB")));
    }

    #[test]
    fn a_server_listens_at_an_address_or_a_name() {
        assert_eq!(listen("[::]:7117"), Ok("[::]:7117".parse().unwrap()));
        let named = listen("localhost:0").unwrap();
        assert!(named.ip().is_loopback() && named.port() == 0, "{named}");
        for text in ["127.0.0.1", ":7117", "127.0.0.1:99999", ""] {
            assert!(
                listen(text).is_err_and(|error| error.contains("127.0.0.1:7117")),
                "{text}"
            );
        }
    }

    #[test]
    fn times_say_their_zone_or_are_local() {
        assert_eq!(
            time("1970-01-01T00:00:01.5Z"),
            Ok(Time {
                seconds: 1,
                nanos: 500_000_000
            })
        );
        assert_eq!(
            time("1969-12-31T23:59:59.5Z"),
            Ok(Time {
                seconds: -1,
                nanos: 500_000_000
            })
        );
        assert_eq!(time("2026-11-21T12:00:00+02:00"), time("2026-11-21T10:00:00Z"));
        assert!(time("2026-11-21 12:00:00").is_ok());
        assert_eq!(time("@1795262400"), time("2026-11-21T12:00:00Z"));
        let far = Time {
            seconds: i64::MAX,
            nanos: 0,
        };
        assert_eq!(time("@9223372036854775807"), Ok(far), "as JSON prints it");
        for text in ["yesterday", "@", "@1.5", "@x", "2026-13-01 00:00:00"] {
            let refused = time(text).unwrap_err();
            assert!(refused.starts_with("expected a time such as") && refused.ends_with(&format!("found {text:?}")));
        }
    }

    #[test]
    fn times_of_records_are_to_the_millisecond() {
        let millis = |text| record_time_in_json(text).map(ibid_record::Time::as_millis);
        assert_eq!(millis("1970-01-01T00:00:00.0019Z"), Ok(1));
        assert_eq!(millis("2026-11-21T12:00:00+02:00"), Ok(1_795_255_200_000));
        assert_eq!(
            (millis("@1795262400"), millis("@1.25")),
            (Ok(1_795_262_400_000), Ok(1250))
        );
        assert_eq!(millis("@1795262400.123456789123"), Ok(1_795_262_400_123));
        for text in [
            "@0",
            "@-1",
            "@1e9",
            "@1.x",
            "@253402300800",
            "2026-11-21 12:00:00",
            "1969-12-31T23:59:59Z",
        ] {
            assert!(millis(text).unwrap_err().ends_with(&format!("found {text:?}")));
        }
        assert!(record_time("1969-12-31T23:59:59Z").is_err() && record_time("@1").is_ok());
    }

    #[test]
    fn spans_and_versions_are_read() {
        assert_eq!(record_span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(record_span("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert!(
            ["", "d", "0h", "1.5h", "-1d", "3w", "7"]
                .iter()
                .all(|text| record_span(text).is_err())
        );
        assert_eq!((record_versions("3"), record_versions("3-7")), (Ok((3, 3)), Ok((3, 7))));
        assert!(
            ["", "0", "0-3", "7-3", "3-", "-3", "a"]
                .iter()
                .all(|text| record_versions(text).is_err())
        );
    }

    #[test]
    fn costs_have_three_parts() {
        assert_eq!(
            argon2("64MiB:3:4"),
            Ok(Argon2Cost {
                memory_kib: 65_536,
                passes: 3,
                lanes: 4
            })
        );
        for text in ["64MiB", "64MiB:3", "64MiB:0:4", "1KiB:1:1", "64MiB:3:4:5", "2GiB:1:1"] {
            assert!(argon2(text).is_err(), "{text}");
        }
    }
}
