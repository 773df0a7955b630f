//! Values as people type them: sizes and shares.
//!
//! Each function returns the error as text for the user.

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

/// Parses a size in bytes: `64KiB`, `1.5GiB`, `1MB`, `4096`.
///
/// # Errors
/// The text is not a size, or the size does not fit into 64 bits.
pub fn size(text: &str) -> Result<u64, String> {
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

/// Parses a size of something in memory.
///
/// # Errors
/// As [`size`], or the size is more than this machine can address.
pub fn size_in_memory(text: &str) -> Result<usize, String> {
    usize::try_from(size(text)?).map_err(|_| format!("{text:?} is more than this machine can address"))
}

/// Parses a share, `10%` or `0.1`: more than 0, at most 1.
///
/// # Errors
/// The text is not a share.
pub fn share(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|number| number / whole);
    match share {
        Some(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("expected a share such as 10% or 0.1, found {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
