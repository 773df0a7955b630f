//! AE: a chunk ends one window after a byte that no byte before it, and no byte in the window,
//! passes.
//!
//! After Zhang and others, *AE: An Asymmetric Extremum Content Defined Chunking Algorithm for Fast
//! and Bandwidth-Efficient Data Deduplication* (INFOCOM 2015), as *SeqCDC* (Middleware '24, section
//! 2) sums it up: the extreme byte is greater than all bytes before it and not less than those in
//! the window after it. The readings:
//!
//! - "Before it" means from the start of the chunk. The first of equal bytes is the extreme one.
//! - The window does not count the extreme byte. Its last byte completes the condition and ends the
//!   chunk, so the shortest chunk has `window + 1` bytes.
//! - Chunks have a maximum length, unlike in the paper.

use crate::{AeSettings, Extremum};

/// Returns the length of the first chunk of `data` by AE.
///
/// ```
/// use ibid_chunk::{AeSettings, Extremum, spec};
///
/// let settings = AeSettings { window: 3, size_average: 4, size_max: 16, extremum: Extremum::Max };
/// // 8 passes 5 within three bytes; 8, 2 and 8 do not pass the first 8.
/// assert_eq!(spec::ae(&settings, &[5, 1, 8, 8, 2, 8, 9]), 6);
/// ```
#[must_use]
pub fn ae(settings: &AeSettings, data: &[u8]) -> usize {
    let end = data.len().min(settings.size_max);
    let mut extreme = 0;
    for at in 1..end {
        let passes = match settings.extremum {
            Extremum::Max => data[at] > data[extreme],
            Extremum::Min => data[at] < data[extreme],
        };
        if passes {
            extreme = at;
        } else if at == extreme + settings.window {
            return at + 1;
        }
    }
    end
}
