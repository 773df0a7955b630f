//! Values as users type them: mixtures, criteria, parameters, times.

use std::time::Duration;

use ibid_bench::{ChunkSizes, Trace};
use ibid_chunk::locality::{Criterion, CriterionError, LIST_MOST};
use ibid_terminal::value::{size, size_in_memory};

/// Parses a number of things: `1000`, `100k`, `800M`, `1G`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let text_trimmed = text.trim();
    let factor = match text_trimmed.chars().last() {
        Some('k' | 'K') => 1_000,
        Some('M') => 1_000_000,
        Some('G') => 1_000_000_000,
        _ => 1,
    };
    let digits = text_trimmed.trim_end_matches(['k', 'K', 'M', 'G']);
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    match number {
        Some(number) if number > 0 && text_trimmed.len() - digits.len() <= 1 => Ok(number),
        _ => Err(format!("expected a number such as 1000, 100k or 800M, found {text:?}")),
    }
}

/// Parses a mixture of reads and writes, in thousandths at the finest: `99.9:0.1`, `1:1`.
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

/// Parses minimum, average and maximum: `4KiB,8KiB,12KiB`.
pub(crate) fn chunk_sizes(text: &str) -> Result<ChunkSizes, String> {
    let expected = || format!("expected MIN,AVERAGE,MAX such as 4KiB,8KiB,12KiB, found {text:?}");
    let sizes = text.split(',').map(size_in_memory).collect::<Result<Vec<_>, _>>()?;
    let [min, average, max] = sizes.try_into().map_err(|_| expected())?;
    Ok(ChunkSizes { min, average, max })
}

/// Parses a criterion: `ff+mt`.
pub(crate) fn criterion(text: &str) -> Result<Criterion, CriterionError> {
    Criterion::from_name(text)
}

/// Parses the number of hints for a chunk.
pub(crate) fn list_length(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(length @ 1..=LIST_MOST) => Ok(length),
        _ => Err(format!("expected a number from 1 to {LIST_MOST}, found {text:?}")),
    }
}

/// Parses a name and a value, with sizes in bytes or with a unit: `seq_length=6`, `skip_size=1KiB`,
/// `equal=strict`.
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

/// Parses a time from a millisecond to an hour: `400ms`, `10s`, `2m`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_decimal_units() {
        for (text, number) in [("7", 7), ("10k", 10_000), ("800M", 800_000_000), ("1G", 1_000_000_000)] {
            assert_eq!(count(text), Ok(number), "{text}");
        }
        for text in ["", "0", "k", "1kk", "1MiB", "-1", "1.5M", "99999999999G"] {
            assert!(count(text).is_err(), "{text}");
        }
    }

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
}
