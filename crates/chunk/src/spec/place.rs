//! The test of one place: could a chunk end here, apart from the places before it?
//!
//! After Ni and Jiang, *RapidCDC: Leveraging Duplicate Locality to Accelerate Chunking in CDC-based
//! Deduplication Systems* (SoCC '19), section 3.2: the test of the rolling window. It is the
//! algorithm's own condition at that place. It ignores the places before: whether one of them was a
//! boundary, and where SeqCDC skipped. So a chunk ends at a place that fits only if no earlier
//! place is a boundary.

use super::{FastCdcParameters, window_hash};
use crate::{Equal, MaxpSettings, Mode, RamSettings, SeqCdcSettings, Settings, WindowedSettings};

/// Whether `data`, which starts where a chunk starts, fits the algorithm's condition at `len`.
/// `None` if the algorithm cannot judge a single place ([`Settings::tests_places`]).
///
/// No place fits below the minimum or past the maximum or the data; the maximum always fits.
/// FastCDC decides by the first byte of the next chunk, so `data` must hold that byte.
///
/// # Panics
/// When the settings do not pass [`Settings::validate`].
#[must_use]
pub fn fits_at(settings: &Settings, data: &[u8], len: usize) -> Option<bool> {
    if !settings.tests_places() {
        return None;
    }
    if len < settings.size_min() || len > settings.size_max() || len > data.len() {
        return Some(false);
    }
    Some(len == settings.size_max() || fits(settings, data, len))
}

fn fits(settings: &Settings, data: &[u8], len: usize) -> bool {
    match settings {
        Settings::Fixed(s) => len == s.size,
        Settings::FastCdc(s) => fastcdc(&FastCdcParameters::new(s), data, len),
        Settings::SeqCdc(s) => seqcdc(s, &data[..len]),
        Settings::Ram(s) => ram(s, &data[..len]),
        Settings::Maxp(s) => maxp(s, &data[..len]),
        Settings::Windowed(s) => windowed(s, &data[..len]),
        Settings::Ae(_) | Settings::Argmin(_) => unreachable!("they test no places"),
    }
}

/// Whether the hash of the bytes from the minimum on, at most the last 64, has no bit of the mask.
fn fastcdc(parameters: &FastCdcParameters, data: &[u8], len: usize) -> bool {
    let end = data.len().min(parameters.size_max);
    if len >= end - end % 2 {
        return false;
    }
    let first = parameters.size_min.max((len + 1).saturating_sub(64));
    let hash = data[first..=len].iter().fold(0u64, |hash, byte| {
        (hash << 1).wrapping_add(super::GEAR[usize::from(*byte)])
    });
    let mask = if len < parameters.size_average {
        parameters.mask_strict
    } else {
        parameters.mask_loose
    };
    hash & mask == 0
}

/// Whether the last `seq_length` pairs go the right way, equal bytes counted as the variant says.
fn seqcdc(settings: &SeqCdcSettings, chunk: &[u8]) -> bool {
    let first = settings.size_min - settings.seq_length as usize;
    let mut run = 0;
    for (at, pair) in chunk.windows(2).enumerate().skip(first - 1).rev() {
        let (left, right) = match settings.mode {
            Mode::Increasing => (pair[0], pair[1]),
            Mode::Decreasing => (pair[1], pair[0]),
        };
        let is_last = at + 2 == chunk.len();
        if left < right {
            run += 1;
        } else if left > right || settings.equal == Equal::Strict || is_last {
            return false;
        }
        if run == settings.seq_length {
            return true;
        }
    }
    false
}

fn ram(settings: &RamSettings, chunk: &[u8]) -> bool {
    let (window, after) = chunk.split_at(settings.window);
    let largest = window.iter().fold(0, |largest, byte| *byte.max(&largest));
    after.last().is_some_and(|last| *last >= largest)
}

fn maxp(settings: &MaxpSettings, chunk: &[u8]) -> bool {
    let around = &chunk[chunk.len() - (2 * settings.radius + 1)..];
    let peak = around[settings.radius];
    around.iter().filter(|byte| **byte >= peak).count() == 1
}

fn windowed(settings: &WindowedSettings, chunk: &[u8]) -> bool {
    let hash = window_hash(settings.hash, &chunk[chunk.len() - settings.hash.window()..]);
    if settings.method.has_mask() {
        hash & settings.main == settings.main
    } else {
        hash % settings.main == settings.main - 1
    }
}
