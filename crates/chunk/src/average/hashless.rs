//! Windows for AE, RAM, MAXP and argmin that give an average on random data.
//!
//! The expectations assume independent, equally likely bytes, and use basic floating-point
//! arithmetic only. They choose parameters; cuts follow from the parameters in integers.

use crate::settings::in_range;
use crate::{AeSettings, ArgminSettings, ArgminWindow, Extremum, MaxpSettings, RamSettings};
use crate::{SIZE_MAX_MOST, SettingsError};

/// The maximum, in averages.
const AVERAGES_TO_MAXIMUM: usize = 4;

/// The least and the largest average.
const AVERAGE_LEAST: usize = 256;
const AVERAGE_MOST: usize = SIZE_MAX_MOST / AVERAGES_TO_MAXIMUM;

pub(super) fn ae(average: usize, extremum: Extremum) -> Result<AeSettings, SettingsError> {
    in_range("average chunk size", AVERAGE_LEAST, AVERAGE_MOST, average)?;
    let settings = AeSettings {
        window: least_for(average, 63, ae_expects),
        size_average: average,
        size_max: AVERAGES_TO_MAXIMUM * average,
        extremum,
    };
    settings.validate()?;
    Ok(settings)
}

pub(super) fn ram(average: usize) -> Result<RamSettings, SettingsError> {
    in_range("average chunk size", AVERAGE_LEAST, AVERAGE_MOST, average)?;
    let settings = RamSettings {
        window: least_for(average, 63, ram_expects),
        size_average: average,
        size_max: AVERAGES_TO_MAXIMUM * average,
    };
    settings.validate()?;
    Ok(settings)
}

pub(super) fn maxp(average: usize) -> Result<MaxpSettings, SettingsError> {
    in_range("average chunk size", AVERAGE_LEAST, AVERAGE_MOST, average)?;
    let size_max = AVERAGES_TO_MAXIMUM * average;
    let settings = MaxpSettings {
        radius: least_for(average, 32, |radius| maxp_expects(radius, size_max)),
        size_average: average,
        size_max,
    };
    settings.validate()?;
    Ok(settings)
}

/// The minimum is half the average, which saved more than a smaller or a slightly larger one.
/// Lengths do not spread quite evenly from there to the maximum: the places up to the last chunk's
/// maximum lost against its cut, so later places are likelier. On random data the mean, found by
/// trial, is 0.5236 of the way from minimum to maximum instead of half.
pub(super) fn argmin(average: usize, window: ArgminWindow) -> Result<ArgminSettings, SettingsError> {
    in_range("average chunk size", AVERAGE_LEAST, SIZE_MAX_MOST / 2, average)?;
    let size_min = average / 2;
    let settings = ArgminSettings {
        size_min,
        size_average: average,
        size_max: size_min + average * 955 / 1000,
        window,
    };
    settings.validate()?;
    Ok(settings)
}

/// Returns the least parameter, from `least` on, whose expected length is `average` or more.
/// Lengths grow with the parameter and are longer than it.
pub(super) fn least_for(average: usize, least: usize, expects: impl Fn(usize) -> f64) -> usize {
    let (mut below, mut enough) = (least - 1, average.max(least));
    while enough - below > 1 {
        let middle = below + (enough - below) / 2;
        if expects(middle) < average as f64 {
            below = middle;
        } else {
            enough = middle;
        }
    }
    enough
}

/// Returns a power of `base`, by squaring.
pub(super) fn power(base: f64, exponent: usize) -> f64 {
    let (mut result, mut base, mut exponent) = (1.0, base, exponent);
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}

/// Returns the expected length by AE. After an extreme byte v, the next byte past it is the k-th
/// with probability p (1 - p)^(k - 1), where p is the share of values past v, and each of these
/// values is equally likely. So it computes, from the last value to the first, how many bytes are
/// still to come after an extreme byte.
fn ae_expects(window: usize) -> f64 {
    // No byte passes 255, so only the window follows it.
    let mut to_come = window as f64;
    let mut sum = to_come;
    let mut sum_of_all = to_come;
    for past in 1..256u32 {
        let p = f64::from(past) / 256.0;
        let passed = 1.0 - power(1.0 - p, window);
        to_come = passed / p + passed * sum / f64::from(past);
        sum += to_come;
        sum_of_all = sum;
    }
    1.0 + sum_of_all / 256.0
}

/// Returns the expected length by RAM: the window, and the wait for a byte not less than its
/// largest.
fn ram_expects(window: usize) -> f64 {
    let at_most = |value: u32| power(f64::from(value + 1) / 256.0, window);
    let mut wait = at_most(0);
    for value in 1..256u32 {
        let is_largest = at_most(value) - at_most(value - 1);
        wait += is_largest * 256.0 / f64::from(256 - value);
    }
    window as f64 + wait
}

/// Returns the approximate expected length by MAXP.
///
/// A share s of all places are peaks. Most peaks are of the largest byte value, whose occurrences
/// are 256 bytes apart on average, and further apart than the radius with probability p. Two such
/// gaps in a row make a peak. The second gap is the first of the next pair, so peaks come in
/// clusters. From the start of a chunk, which has no gap yet, the next peak is (1 + p)/s bytes
/// away, if the second gap is counted to its end. That is 256 (1 - p) bytes too many, on average
/// over all sizes of peaks. The maximum cuts the length short.
fn maxp_expects(radius: usize, size_max: usize) -> f64 {
    let share: f64 = (1..256u32)
        .map(|value| power(f64::from(value) / 256.0, 2 * radius) / 256.0)
        .sum();
    let p = power(255.0 / 256.0, radius);
    let sides = (2 * radius + 1) as f64;
    // Lengths past any maximum change nothing, and would cost precision.
    let wait = ((1.0 + p) / share - 256.0 * (1.0 - p) - sides).clamp(1.0, 1e9);
    let room = size_max.saturating_sub(2 * radius + 1);
    sides + wait * (1.0 - power(1.0 - 1.0 / wait, room))
}
