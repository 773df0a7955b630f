//! Values as people write them: sizes, shares, times.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use ibid_bench::{ChunkSizes, Trace};
use ibid_chunk::locality::{Criterion, CriterionError, LIST_MOST};
use ibid_format::slot::Argon2Cost;
use ibid_format::tree::{Time, check_name};
use ibid_repo::{Compression, Hints, Similarity};

use super::VersionName;

const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// `99.9:0.1`, `1:1`: so many reads for so many writes, in thousandths at the finest.
pub(crate) fn trace(text: &str) -> Result<Trace, String> {
    let expected = || format!("expected reads and writes such as 99.9:0.1 or 1:1, found {text:?}");
    let thousandths = |number: &str| match number.trim().parse::<f64>() {
        Ok(number) if (0.0..=1e6).contains(&number) => Ok((number * 1000.0).round() as u64),
        _ => Err(expected()),
    };
    let (reads, writes) = text.split_once(':').ok_or_else(expected)?;
    let (reads, writes) = (thousandths(reads)?, thousandths(writes)?);
    let divisor = greatest_common_divisor(reads, writes);
    if divisor == 0 {
        return Err(expected());
    }
    Ok(Trace {
        reads: reads / divisor,
        writes: writes / divisor,
    })
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// `64KiB`, `1.5GiB`, `1MB`, `4096`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let expected = || format!("expected a size such as 64KiB, 1.5GiB, 1MB or 4096, found {text:?}");
    let text_trimmed = text.trim();
    let split = text_trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text_trimmed.len());
    let (number, unit) = text_trimmed.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|(_, factor)| *factor)
        .ok_or_else(expected)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() {
        return Err(expected());
    }
    let too_large = || format!("{text:?} is more than any size can be");
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let fraction: f64 = format!("0.{fraction}").parse().map_err(|_| expected())?;
    let bytes = whole.checked_mul(factor).ok_or_else(too_large)?;
    bytes
        .checked_add((fraction * factor as f64) as u64)
        .ok_or_else(too_large)
}

/// The same where 32 bits hold it.
pub(crate) fn size_u32(text: &str) -> Result<u32, String> {
    u32::try_from(size(text)?).map_err(|_| format!("expected less than 4GiB, found {text:?}"))
}

/// The same where memory is addressed by it.
pub(crate) fn size_in_memory(text: &str) -> Result<usize, String> {
    usize::try_from(size(text)?).map_err(|_| format!("{text:?} is more than this machine can address"))
}

/// `4KiB,8KiB,12KiB`: minimum, average and maximum.
pub(crate) fn chunk_sizes(text: &str) -> Result<ChunkSizes, String> {
    let expected = || format!("expected MIN,AVERAGE,MAX such as 4KiB,8KiB,12KiB, found {text:?}");
    let sizes = text.split(',').map(size_in_memory).collect::<Result<Vec<_>, _>>()?;
    let [min, average, max] = sizes.try_into().map_err(|_| expected())?;
    Ok(ChunkSizes { min, average, max })
}

/// `ff+mt`.
pub(crate) fn criterion(text: &str) -> Result<Criterion, CriterionError> {
    Criterion::from_name(text)
}

/// `3`, or `latest`.
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

/// How many hints are kept of a chunk.
pub(crate) fn list_length(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(length @ 1..=LIST_MOST) => Ok(length),
        _ => Err(format!("expected a number from 1 to {LIST_MOST}, found {text:?}")),
    }
}

/// `seq_length=6`, `skip_size=1KiB`, `equal=strict`: a name and a value, sizes as plain numbers.
pub(crate) fn parameter(text: &str) -> Result<(String, String), String> {
    let expected = || format!("expected NAME=VALUE such as skip_size=512, found {text:?}");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || value.is_empty() {
        return Err(expected());
    }
    let has_unit = value.starts_with(|c: char| c.is_ascii_digit()) && value.ends_with(|c: char| c.is_alphabetic());
    let value = if has_unit {
        size(value)?.to_string()
    } else {
        value.to_owned()
    };
    Ok((name.to_owned(), value))
}

/// The name of one file.
pub(crate) fn file_name(name: OsString) -> Result<OsString, String> {
    match check_name(name.as_bytes()) {
        Ok(()) => Ok(name),
        Err(error) => Err(format!("expected the name of one file, such as mill.sql: {error}")),
    }
}

/// `10%` or `0.1`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|number| number / whole);
    match share {
        Some(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("expected a share such as 10% or 0.1, found {text:?}")),
    }
}

/// `64MiB:3:4`.
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

/// `auto`, `off` or `max`.
pub(crate) fn similarity(text: &str) -> Result<Similarity, String> {
    match text {
        "auto" => Ok(Similarity::Auto),
        "off" => Ok(Similarity::Off),
        "max" => Ok(Similarity::Max),
        _ => Err(format!("expected auto, off or max, found {text:?}")),
    }
}

/// `auto`, `off` or `always`.
pub(crate) fn hints(text: &str) -> Result<Hints, String> {
    match text {
        "auto" => Ok(Hints::Auto),
        "off" => Ok(Hints::Off),
        "always" => Ok(Hints::Always),
        _ => Err(format!("expected auto, off or always, found {text:?}")),
    }
}

/// `auto`, `off`, or a level of zstd.
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

/// `400ms`, `10s`, `2m`: from a millisecond to an hour.
pub(crate) fn time_span(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a time such as 400ms, 10s or 2m, an hour at most, found {text:?}");
    let text_trimmed = text.trim();
    let split = text_trimmed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(expected)?;
    let (number, unit) = text_trimmed.split_at(split);
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("min", 60.0)];
    let unit = units.into_iter().find(|(name, _)| *name == unit.trim());
    let (_, seconds) = unit.ok_or_else(expected)?;
    let number: f64 = number.parse().map_err(|_| expected())?;
    match number * seconds {
        seconds @ 1e-3..=3600.0 => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(expected()),
    }
}

/// `2026-11-21T12:00:00Z`, `2026-11-21 12:00:00` in local time, or `@` and seconds since 1970.
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
    let timestamp = timestamp.map_err(|_: jiff::Error| expected())?;
    let nanos = timestamp.as_nanosecond();
    Ok(Time {
        seconds: nanos.div_euclid(1_000_000_000) as i64,
        nanos: nanos.rem_euclid(1_000_000_000) as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixtures_are_brought_to_their_least_numbers() {
        let mixture = |reads, writes| Ok(Trace { reads, writes });
        assert_eq!(trace("99.9:0.1"), mixture(999, 1));
        assert_eq!(trace("2:2"), mixture(1, 1));
        assert_eq!(trace("0:7"), mixture(0, 1));
        for text in ["", "1", ":", "1:-1", "0:0", "1:nan", "1:inf", "1:2:3", "0.0001:0"] {
            assert!(trace(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_of_time_have_units() {
        for (text, ms) in [
            ("400ms", 400),
            ("1.5s", 1500),
            ("10 s", 10_000),
            ("2m", 120_000),
            ("60min", 3_600_000),
        ] {
            assert_eq!(time_span(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "1", "0s", "0.1ms", "-1s", "61m", "1h", "1.2.3s", "1 s s"] {
            assert!(time_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        let expected = [
            ("64KiB", 65_536),
            ("1.5GiB", 3 << 29),
            ("1MB", 1_000_000),
            ("4096", 4096),
            ("2 k", 2048),
            ("1t", 1 << 40),
        ];
        for (text, bytes) in expected {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "K",
            "1.",
            ".5",
            "-1",
            "1XB",
            "1e3",
            "99999999999999999999",
            "99999999TiB",
            "1.2.3",
        ] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shares_are_above_nothing_and_at_most_all() {
        assert_eq!(share("10%"), Ok(0.1));
        assert_eq!(share("1"), Ok(1.0));
        for text in ["0", "101%", "-5%", "ten", "NaN", ""] {
            assert!(share(text).is_err(), "{text}");
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
    fn parameters_are_names_and_values() {
        let read = |text| parameter(text).map(|(name, value)| format!("{name} {value}"));
        assert_eq!(read("skip_size=1KiB"), Ok("skip_size 1024".into()));
        assert_eq!(read("equal = strict"), Ok("equal strict".into()));
        assert_eq!(read("seq_length=5"), Ok("seq_length 5".into()));
        for text in ["", "equal", "=5", "equal=", "size=5XB"] {
            assert!(parameter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn chunk_sizes_are_three() {
        assert_eq!(chunk_sizes("4KiB,8KiB,12KiB"), Ok(ChunkSizes::DATA_DOMAIN));
        assert_eq!(chunk_sizes("2k, 16k, 65536"), Ok(ChunkSizes::LBFS));
        for text in ["8KiB", "4KiB,8KiB", "1,2,3,4", "4KiB,,8KiB", ""] {
            let refused = chunk_sizes(text).unwrap_err();
            assert!(refused.starts_with("expected "), "{refused}");
        }
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
