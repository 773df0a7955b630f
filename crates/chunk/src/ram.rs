//! RAM at speed: the cuts of [`spec::ram`](crate::spec::ram), a block of bytes at a time.

use crate::RamSettings;
use crate::bytes::{first_from, largest};

/// See [`spec::ram`](crate::spec::ram).
pub(crate) fn cut(settings: &RamSettings, data: &[u8]) -> usize {
    let data = &data[..data.len().min(settings.size_max)];
    let Some((window, after)) = data.split_at_checked(settings.window) else {
        return data.len();
    };
    match first_from(after, largest(window)) {
        Some(found) => window.len() + found + 1,
        None => data.len(),
    }
}
