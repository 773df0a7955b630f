//! MAXP at speed: the cuts of [`spec::maxp`](crate::spec::maxp).
//!
//! Of `radius + 1` neighbours only the largest can be a peak, and only if it is the largest alone:
//! the others have it within their radius. So the places at which a peak may be are taken in blocks
//! of that many, and each block has at most one byte whose surroundings need a look.

use crate::MaxpSettings;
use crate::bytes::{first_from, largest};

/// See [`spec::maxp`](crate::spec::maxp).
pub(crate) fn cut(settings: &MaxpSettings, data: &[u8]) -> usize {
    let radius = settings.radius;
    let data = &data[..data.len().min(settings.size_max)];
    // Past this there are too few bytes to complete the condition.
    let peaks_end = data.len().saturating_sub(radius);
    let mut at = radius;
    while at < peaks_end {
        let block = &data[at..peaks_end.min(at + radius + 1)];
        let byte = largest(block);
        if let Some(found) = first_from(block, byte)
            && is_peak(data, at + found, radius)
        {
            return at + found + radius + 1;
        }
        at += block.len();
    }
    data.len()
}

/// Whether the byte at `peak` is larger than all `radius` bytes on either side.
#[inline]
fn is_peak(data: &[u8], peak: usize, radius: usize) -> bool {
    let byte = data[peak];
    let (before, after) = (&data[peak - radius..peak], &data[peak + 1..=peak + radius]);
    first_from(after, byte).is_none() && first_from(before, byte).is_none()
}
