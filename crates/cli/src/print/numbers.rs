//! Numbers for people.

/// `1.5 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    ibid_repo::Size(bytes).to_string()
}

/// `1,234,567`.
pub(crate) fn count(n: u64) -> String {
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

/// `1 file`, `2 files`.
pub(crate) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// `3.2 s`, `4 min 5 s`, `2 h 10 min`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = (ms + 500) / 1000;
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..59_950 => format!("{:.1} s", ms as f64 / 1000.0),
        59_950..3_599_500 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Bytes a second.
pub(crate) fn rate(bytes: u64, ms: u64) -> String {
    format!("{}/s", size((bytes as f64 * 1000.0 / ms.max(1) as f64) as u64))
}

/// `12.3 %` of a whole; a dash where there is none.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "–".to_owned()
    } else {
        format!("{:.1} %", part as f64 * 100.0 / whole as f64)
    }
}

/// How many times `part` goes into `whole`.
pub(crate) fn ratio(whole: u64, part: u64) -> Option<f64> {
    (part > 0).then(|| whole as f64 / part as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

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
