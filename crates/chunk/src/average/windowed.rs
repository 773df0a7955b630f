//! Divisors, masks and sizes for windowed hashes that give an average on random data.
//!
//! The expectations assume that hashes are random numbers. They choose parameters only, see
//! [`hashless`](super::hashless).

use super::hashless::{least_for, power};
use crate::settings::in_range;
use crate::{Method, RollingHash, SIZE_MAX_MOST, SettingsError, WindowedSettings};

/// Stands for no maximum: one chunk in nine million reaches it on random data.
const AVERAGES_WITHOUT_MAXIMUM: usize = 16;
const AVERAGES_TO_MAXIMUM: usize = 4;
const AVERAGE_MOST: usize = SIZE_MAX_MOST / AVERAGES_TO_MAXIMUM;

pub(super) fn windowed(method: Method, hash: RollingHash, average: usize) -> Result<WindowedSettings, SettingsError> {
    let least = hash.size_min_least();
    in_range("average chunk size", 4 * least, AVERAGE_MOST, average)?;
    // The paper's figure 4, found by hill climbing for 1000 bytes: minimum 460, maximum 2800.
    let size_max = match method {
        Method::Bsw | Method::Obsw => (AVERAGES_WITHOUT_MAXIMUM * average).min(SIZE_MAX_MOST),
        Method::Tt | Method::Ott => AVERAGES_TO_MAXIMUM * average,
        Method::Td | Method::Tttd | Method::Otd | Method::Otttd => average * 28 / 10,
    };
    let fitting = if method.has_minimum() {
        (average * 46 / 100).max(least)
    } else {
        least
    };
    let (size_min, main, backup) = match method {
        Method::Bsw | Method::Tt => {
            let divisor = least_for(average, 2, |divisor| expects(fitting, size_max, divisor, None));
            (fitting, divisor, 0)
        }
        Method::Td | Method::Tttd => {
            let half = least_for(average, 2, |half| expects(fitting, size_max, 2 * half, Some(half)));
            (fitting, 2 * half, half)
        }
        Method::Obsw | Method::Ott | Method::Otd | Method::Otttd => {
            let (size_min, bits) = with_mask(method, average, least, size_max);
            let backup = if method.has_backup() { mask(hash, bits - 1) } else { 0 };
            (size_min, mask(hash, bits), backup)
        }
    };
    let settings = WindowedSettings {
        size_min,
        size_average: average,
        size_max,
        method,
        hash,
        main: main as u32,
        backup: backup as u32,
    };
    settings.validate()?;
    Ok(settings)
}

/// Returns a mask of the highest bits: no others are better, and some of rsync's are worse. With
/// Gear, more bytes decide a higher bit, but masks with one of the highest eight bits are slower to
/// find.
fn mask(hash: RollingHash, bits: u32) -> usize {
    let highest = !(u32::MAX >> bits);
    (if hash == RollingHash::Gear {
        highest >> 8
    } else {
        highest
    }) as usize
}

/// Returns the minimum size and the number of bits in the mask. A mask only gives powers of two;
/// the minimum makes up for that.
fn with_mask(method: Method, average: usize, least: usize, size_max: usize) -> (usize, u32) {
    let length = |size_min, bits: u32| {
        let divisor = 1 << bits;
        let half = method.has_backup().then_some(divisor / 2);
        expects(size_min, size_max, divisor, half)
    };
    if method.has_minimum() {
        let bits = (average * 3 / 4).ilog2();
        return (least_for(average, least, |size_min| length(size_min, bits)), bits);
    }
    let target = average as f64;
    let above = (2..24).find(|bits| length(least, *bits) >= target).unwrap_or(24);
    // Nearest on the logarithmic scale.
    let below_is_nearer = above > 2 && length(least, above - 1) * length(least, above) > target * target;
    (least, if below_is_nearer { above - 1 } else { above })
}

/// Returns the expected length if one hash in `divisor` is a boundary, and one in `half`, which is
/// half of it, a boundary or in reserve.
fn expects(size_min: usize, size_max: usize, divisor: usize, half: Option<usize>) -> f64 {
    let room = size_max - size_min.min(size_max);
    let p = 1.0 / divisor as f64;
    let reaches_maximum = power(1.0 - p, room);
    let length = size_min as f64 + (1.0 - p) / p * (1.0 - reaches_maximum);
    let Some(half) = half else {
        return length;
    };
    // The share among places that are no boundaries. The bytes that the next chunk takes over, up
    // to this maximum, hold no boundary either, so only those within the next minimum are lost.
    let p = (1.0 / half as f64 - p) / (1.0 - p);
    let back = (1.0 - p) / p * (1.0 - power(1.0 - p, size_min.min(room)));
    length - reaches_maximum * back
}
