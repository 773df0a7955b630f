//! Medians and percentiles.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Times of operations, µs; 0 if there were none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// How many there were. Runs before there was this have 0.
    #[serde(default)]
    pub(crate) operations: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    #[serde(rename = "p99.9_us")]
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Latency {
    pub(crate) fn of(took_us: &[f64]) -> Latency {
        let sorted = sorted(took_us);
        let at = |percent| of_sorted(&sorted, percent).unwrap_or(0.0);
        Latency {
            operations: took_us.len() as u64,
            p50_us: at(50.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: at(100.0),
        }
    }
}

/// Returns a time in µs, with one digit behind the point.
pub(crate) fn microseconds(took: Duration) -> f64 {
    (took.as_nanos() as f64 / 100.0).round() / 10.0
}

/// Returns the median; [`None`] if there are no values.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Returns the smallest value that `percent` of all values don't exceed; [`None`] if there are
/// none.
pub(crate) fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    of_sorted(&sorted(values), percent)
}

fn of_sorted(sorted: &[f64], percent: f64) -> Option<f64> {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 9.0, 2.0]), Some(3.0));
    }

    #[test]
    fn a_percentile_is_a_value_that_was_seen() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(percentile(&values, 99.0), Some(198.0));
        assert_eq!(percentile(&values, 100.0), Some(200.0));
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&[7.0], 99.0), Some(7.0));
        assert_eq!(percentile(&[], 99.0), None);
    }
}
