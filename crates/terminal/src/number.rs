//! Numbers formatted for people.

/// Formats bytes: `1.5 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be rounded to 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value < 99.95 { 1 } else { 0 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Formats a count: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a count with its noun: `1 file`, `2 files`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Formats milliseconds: `3.2 s`, `4 min 5 s`, `2 h 10 min`.
pub fn duration(ms: u64) -> String {
    let seconds = (ms + 500) / 1000;
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..59_950 => format!("{:.1} s", ms as f64 / 1000.0),
        59_950..3_599_500 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a rate in bytes a second.
pub fn rate(bytes: u64, ms: u64) -> String {
    format!("{}/s", size((bytes as f64 * 1000.0 / ms.max(1) as f64) as u64))
}

/// Formats a share of a whole: `12.3 %`, or a dash if the whole is 0.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "–".to_owned()
    } else {
        format!("{:.1} %", part as f64 * 100.0 / whole as f64)
    }
}

/// Returns `whole` divided by `part`; [`None`] if `part` is 0.
pub fn ratio(whole: u64, part: u64) -> Option<f64> {
    (part > 0).then(|| whole as f64 / part as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_change_their_unit_in_time() {
        let expected = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (100 << 10, "100 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in expected {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn counts_are_grouped_by_threes() {
        assert_eq!(
            (count(0), count(999), count(1000), count(1_234_567)),
            ("0".into(), "999".into(), "1,000".into(), "1,234,567".into())
        );
    }

    #[test]
    fn durations_use_two_units_at_most() {
        let expected = [
            (0, "0 ms"),
            (1234, "1.2 s"),
            (59_999, "1 min 0 s"),
            (245_000, "4 min 5 s"),
            (3_599_999, "1 h 0 min"),
            (7_800_000, "2 h 10 min"),
        ];
        for (ms, text) in expected {
            assert_eq!(duration(ms), text);
        }
    }
}
