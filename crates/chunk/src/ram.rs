//! RAM at speed: the cuts of [`spec::ram`](crate::spec::ram), a block of bytes at a time.
//!
//! Once a byte of the window is 255, the rest of the window is not read.

use ibid_simd::Backend;

use crate::RamSettings;
use crate::bytes::{BySearch, Cut, Search};

/// See [`spec::ram`](crate::spec::ram).
pub(crate) fn cut(backend: Backend, settings: &RamSettings, data: &[u8]) -> usize {
    backend.run(Cut { settings, data })
}

impl BySearch for Cut<'_, RamSettings> {
    #[inline(always)]
    fn find(self, search: impl Search) -> usize {
        search.fetch(self.data, self.settings.window.saturating_mul(2), FETCHED);
        let data = &self.data[..self.data.len().min(self.settings.size_max)];
        let Some((window, after)) = data.split_at_checked(self.settings.window) else {
            return data.len();
        };
        match search.first_from(after, search.largest(window)) {
            Some(found) => window.len() + found + 1,
            None => data.len(),
        }
    }
}

/// Bytes to prefetch: on random data, the chunk ends at most so many bytes past the window. The
/// next chunk is searched after its own window.
const FETCHED: usize = 1024;
