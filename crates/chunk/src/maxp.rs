//! MAXP at speed: the cuts of [`spec::maxp`](crate::spec::maxp).
//!
//! A byte is no peak if one within the radius is as large. So of `radius + 1` neighbours only the
//! largest can be a peak, the first of them if there are several: one byte in a block needs a look
//! at its surroundings. The first byte after it that is as large, its rival, says where to go on:
//! what lies between is no peak, and if both are 255, nothing within the radius after the rival is.

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
        // Past this there are too few bytes to complete the condition.
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

/// How far ahead memory is read.
const AHEAD: usize = 4096;
