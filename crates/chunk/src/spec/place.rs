//! Whether one place looks like the end of a chunk, without a look at the places before it.
//!
//! After Ni and Jiang, *RapidCDC: Leveraging Duplicate Locality to Accelerate Chunking in CDC-based
//! Deduplication Systems* (SoCC '19), section 3.2: the test of the rolling window. It is the
//! algorithm's own condition at that place. What an algorithm asks of all places before (that none
//! of them was a boundary; where SeqCDC's skips came to lie) is left out, so a place that fits is
//! an end of a chunk only if nothing before it is.

use super::{FastCdcParameters, window_hash};
use crate::{Equal, MaxpSettings, Mode, RamSettings, SeqCdcSettings, Settings, WindowedSettings};

/// Whether `data`, which starts where a chunk starts, fits the condition of the algorithm at `len`:
/// `None` if the algorithm has none that a single place can be asked ([`Settings::tests_places`]).
///
/// Nothing fits below the minimum and past the maximum or the data, everything does at the maximum.
/// For FastCDC, whose deciding byte is the first of the next chunk, that byte has to be there.
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

/// The sum of the bytes from the minimum on, at most the last 64 of them, has no bit of the mask.
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

/// The last pairs go the right way, as many as it takes; those of equal bytes as the variant says.
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
