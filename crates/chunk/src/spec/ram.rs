//! RAM: a chunk ends at the first byte that is as large as any in the window at its start.
//!
//! After Widodo, Lim and Atiquzzaman, *A New Content-Defined Chunking Algorithm for Data
//! Deduplication in Cloud Storage* (FGCS 71, 2017). *SeqCDC* (Middleware '24, section 2) says
//! "greater than the maximum". In a window of some KiB the maximum is nearly always 255, and no
//! byte is greater, so we follow the first paper: *not less*. The window is the first `window`
//! bytes of the chunk, and the byte that is not less is its last. Chunks have a maximum length.

use crate::RamSettings;

/// Returns the length of the first chunk of `data` by RAM.
///
/// ```
/// use ibid_chunk::{RamSettings, spec};
///
/// let settings = RamSettings { window: 3, size_average: 4, size_max: 16 };
/// assert_eq!(spec::ram(&settings, &[1, 7, 5, 6, 3, 7, 9]), 6);
/// ```
#[must_use]
pub fn ram(settings: &RamSettings, data: &[u8]) -> usize {
    let end = data.len().min(settings.size_max);
    let mut largest = 0;
    for (at, byte) in data[..end].iter().enumerate() {
        if at < settings.window {
            largest = largest.max(*byte);
        } else if *byte >= largest {
            return at + 1;
        }
    }
    end
}
