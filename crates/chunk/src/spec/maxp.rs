//! MAXP: a chunk ends where a byte is larger than all bytes around it.
//!
//! Local maxima as in Bjørner, Blass and Gurevich, *Content-Dependent Chunking for Differential
//! Compression, the Local Maximum Approach* (Journal of Computer and System Sciences 76, 2010), by
//! the name that Anand and others use in *Redundancy in Network Traffic* (SIGMETRICS 2009). The
//! readings:
//!
//! - A peak is strictly larger than each of the `radius` bytes before it and each of the `radius`
//!   bytes after it. Equal bytes within the radius are no peaks.
//! - Both sides are in the chunk. The last byte of the side after the peak completes the condition
//!   and ends the chunk, so the shortest chunk has `2 * radius + 1` bytes.
//! - Chunks have a maximum length.

use crate::MaxpSettings;

/// Returns the length of the first chunk of `data` by MAXP.
///
/// ```
/// use ibid_chunk::{MaxpSettings, spec};
///
/// let settings = MaxpSettings { radius: 2, size_average: 5, size_max: 16 };
/// // The two 9s rule each other out; 8 has two smaller bytes on either side.
/// assert_eq!(spec::maxp(&settings, &[1, 2, 9, 9, 1, 2, 8, 7, 7, 5]), 9);
/// ```
#[must_use]
pub fn maxp(settings: &MaxpSettings, data: &[u8]) -> usize {
    let end = data.len().min(settings.size_max);
    let radius = settings.radius;
    for peak in radius..end.saturating_sub(radius) {
        let before = &data[peak - radius..peak];
        let after = &data[peak + 1..=peak + radius];
        if before.iter().chain(after).all(|byte| *byte < data[peak]) {
            return peak + radius + 1;
        }
    }
    end
}
