//! MAXP at speed: the cuts of [`spec::maxp`](crate::spec::maxp).
//!
//! A byte is no peak if another within the radius is as large. So only the largest of `radius + 1`
//! neighbours can be a peak, or the first of several equal ones: the kernel tests one byte in a
//! block. The first byte after it that is as large, its rival, decides where the search resumes. No
//! byte between the two is a peak. If both are 255, neither is any byte within the radius after the
//! rival.

use ibid_simd::Backend;

use crate::MaxpSettings;
use crate::bytes::{BySearch, Cut, Search};

/// See [`spec::maxp`](crate::spec::maxp).
pub(crate) fn cut(backend: Backend, settings: &MaxpSettings, data: &[u8]) -> usize {
    backend.run(Cut { settings, data })
}

impl BySearch for Cut<'_, MaxpSettings> {
    #[inline(always)]
    fn find(self, search: impl Search) -> usize {
        let radius = self.settings.radius;
        let data = &self.data[..self.data.len().min(self.settings.size_max)];
        // From here on too few bytes follow to complete the condition.
        let peaks_end = data.len().saturating_sub(radius);
        let mut at = radius;
        let mut passed = at;
        while at < peaks_end {
            search.fetch(self.data, passed.saturating_add(AHEAD), at - passed);
            passed = at;
            let block = &data[at..peaks_end.min(at + radius + 1)];
            let byte = search.largest(block);
            let Some(found) = search.first_from(block, byte) else {
                break;
            };
            let peak = at + found;
            let after = &data[peak + 1..=peak + radius];
            at = match search.first_from(after, byte) {
                Some(distance) if byte == u8::MAX => peak + 1 + distance + radius + 1,
                Some(distance) => (at + block.len()).max(peak + 1 + distance),
                None if search.first_from(&data[peak - radius..peak], byte).is_none() => {
                    return peak + radius + 1;
                }
                None => peak + radius + 1,
            };
        }
        data.len()
    }
}

/// Bytes to prefetch ahead of the search.
const AHEAD: usize = 4096;
