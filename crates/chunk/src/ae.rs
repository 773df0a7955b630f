//! AE at speed: the cuts of [`spec::ae`](crate::spec::ae).
//!
//! The kernel searches for bytes that pass the extreme one, a block at a time. On random data a
//! chunk has about six of them. No byte can pass 255 (or 0, for a minimum): the search ends there,
//! and the window after it is not read.

use ibid_simd::Backend;

use crate::bytes::{BySearch, Cut, Search};
use crate::{AeSettings, Extremum};

/// See [`spec::ae`](crate::spec::ae).
pub(crate) fn cut(backend: Backend, settings: &AeSettings, data: &[u8]) -> usize {
    backend.run(Cut { settings, data })
}

impl BySearch for Cut<'_, AeSettings> {
    #[inline(always)]
    fn find(self, search: impl Search) -> usize {
        let window = self.settings.window;
        search.fetch(self.data, window.saturating_mul(2), FETCHED);
        let data = &self.data[..self.data.len().min(self.settings.size_max)];
        let Some(mut extreme) = data.first().copied() else {
            return 0;
        };
        let mut after = 1usize;
        loop {
            let end = data.len().min(after.saturating_add(window));
            let Some(found) = self.first_past(search, &data[after..end], extreme) else {
                return end;
            };
            extreme = data[after + found];
            after += found + 1;
        }
    }
}

impl Cut<'_, AeSettings> {
    /// Returns the position of the first byte that passes `byte`.
    #[inline(always)]
    fn first_past(&self, search: impl Search, bytes: &[u8], byte: u8) -> Option<usize> {
        match self.settings.extremum {
            Extremum::Max => search.first_from(bytes, byte.checked_add(1)?),
            Extremum::Min => search.first_upto(bytes, byte.checked_sub(1)?),
        }
    }
}

/// Bytes to prefetch: on random data, the chunk after the next starts at most so many bytes past
/// two windows.
const FETCHED: usize = 1536;
