//! AE at speed: the cuts of [`spec::ae`](crate::spec::ae).
//!
//! Only the bytes that pass the extreme one need a look of their own. They are searched for a block
//! at a time, and on random data there are about six in a chunk.

use crate::bytes::{first_from, first_upto};
use crate::{AeSettings, Extremum};

/// See [`spec::ae`](crate::spec::ae).
pub(crate) fn cut(settings: &AeSettings, data: &[u8]) -> usize {
    let data = &data[..data.len().min(settings.size_max)];
    match settings.extremum {
        Extremum::Max => scan(settings.window, data, |bytes, byte| {
            first_from(bytes, byte.checked_add(1)?)
        }),
        Extremum::Min => scan(settings.window, data, |bytes, byte| {
            first_upto(bytes, byte.checked_sub(1)?)
        }),
    }
}

/// `first_past` finds the first byte that passes the one given.
#[inline(always)]
fn scan(window: usize, data: &[u8], first_past: impl Fn(&[u8], u8) -> Option<usize>) -> usize {
    let Some(mut extreme) = data.first().copied() else {
        return 0;
    };
    let mut after = 1usize;
    loop {
        let end = data.len().min(after.saturating_add(window));
        let Some(found) = first_past(&data[after..end], extreme) else {
            return end;
        };
        extreme = data[after + found];
        after += found + 1;
    }
}
