//! Argmin at speed: the cuts of [`spec::argmin`](crate::spec::argmin).

use crate::spec::{ADDEND, MULTIPLIER_FIRST, MULTIPLIER_LAST};
use crate::{ArgminSettings, ArgminWindow};

/// See [`spec::argmin`](crate::spec::argmin).
pub(crate) fn cut(settings: &ArgminSettings, data: &[u8]) -> usize {
    let ArgminSettings {
        size_min,
        size_max,
        window,
        ..
    } = *settings;
    let Some(data) = data.get(..size_max) else {
        return data.len();
    };
    let compared = &data[size_min - window.bytes()..];
    let found = match window {
        ArgminWindow::Bytes4 => last_least(compared, |window: &[u8; 4]| {
            u32::from_le_bytes(*window).wrapping_mul(MULTIPLIER_LAST)
        }),
        ArgminWindow::Bytes8 => last_least(compared, |window: &[u8; 8]| {
            // Both halves in one multiplication of 64 bits would mix them differently.
            let [first, last] = [0, 32].map(|shift| (u64::from_le_bytes(*window) >> shift) as u32);
            first
                .wrapping_mul(MULTIPLIER_FIRST)
                .wrapping_add(last.wrapping_mul(MULTIPLIER_LAST))
        }),
    };
    size_min + found
}

/// Position of the last window whose hash, with the addend, is least.
#[inline(always)]
fn last_least<const N: usize>(bytes: &[u8], hash: impl Fn(&[u8; N]) -> u32) -> usize {
    let mut best = 0;
    let mut least = u32::MAX;
    for (at, window) in bytes.windows(N).enumerate() {
        let Some(window) = window.first_chunk() else {
            break;
        };
        let hash = hash(window).wrapping_add(ADDEND);
        if hash <= least {
            least = hash;
            best = at;
        }
    }
    best
}
