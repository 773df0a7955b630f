//! The compact form of hints.

use super::Hint;
use crate::Settings;

/// Packs a hint into few bytes: the marker, whether the data ended, and how much longer than the
/// minimum the chunk was.
///
/// Three bytes if the maximum is less than 32 KiB above the minimum, else four. The absence of a
/// hint is all zeros. The length tells whether the maximum cut the chunk off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packing {
    size_min: usize,
    size_max: usize,
    /// Bytes of a hint.
    pub(crate) width: usize,
}

impl Packing {
    pub(crate) fn new(settings: &Settings) -> Packing {
        let (size_min, size_max) = (settings.size_min(), settings.size_max());
        // One value more stands for no hint.
        let width = if size_max - size_min + 1 < 1 << 15 { 3 } else { 4 };
        Packing {
            size_min,
            size_max,
            width,
        }
    }

    /// Returns `None` for a hint that cannot be followed: a length out of bounds, or more than 8
    /// MiB above the minimum.
    pub(crate) fn pack(self, hint: Hint) -> Option<u32> {
        if hint.size < self.size_min || hint.size > self.size_max {
            return None;
        }
        let above = u32::try_from(hint.size - self.size_min + 1).ok()?;
        let bits = 8 * self.width as u32 - 9;
        (above >> bits == 0).then_some(above << 9 | u32::from(hint.at_end) << 8 | u32::from(hint.marker))
    }

    /// Returns `None` if there is no hint. The length may be any.
    pub(crate) fn unpack(self, packed: u32) -> Option<Hint> {
        let above = (packed >> 9).checked_sub(1)?;
        Some(Hint {
            size: self.size_min + above as usize,
            marker: packed as u8,
            at_end: packed >> 8 & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FixedSettings;

    fn packing(size_min: usize, size_max: usize, width: usize) -> Packing {
        Packing {
            size_min,
            size_max,
            width,
        }
    }

    #[test]
    fn a_hint_is_what_was_packed() {
        for packing in [packing(4096, 12_288, 3), packing(64, 16 << 20, 4), packing(64, 64, 3)] {
            for size in (packing.size_min..=packing.size_max)
                .step_by(777)
                .chain([packing.size_max])
            {
                for (marker, at_end) in [(0, false), (255, true), (7, true)] {
                    let hint = Hint { size, marker, at_end };
                    match packing.pack(hint) {
                        Some(packed) => {
                            assert!(packed != 0 && packed >> (8 * packing.width as u64).min(31) <= 1);
                            assert_eq!(packing.unpack(packed), Some(hint));
                        }
                        None => assert!(size - packing.size_min >= (1 << 23) - 1, "{size}"),
                    }
                }
            }
        }
    }

    #[test]
    fn hints_with_impossible_sizes_are_not_kept() {
        let packing = Packing::new(&Settings::Fixed(FixedSettings { size: 4096 }));
        let hint = |size| Hint {
            size,
            marker: 1,
            at_end: false,
        };
        assert_eq!(packing.pack(hint(4095)), None);
        assert_eq!(packing.pack(hint(4097)), None);
        assert!(packing.pack(hint(4096)).is_some());
        assert_eq!(packing.unpack(0), None);
        assert_eq!(packing.unpack(0x1ff), None, "a marker alone is no hint");
    }

    #[test]
    fn the_settings_of_the_paper_take_three_bytes() {
        let width = |name, average| Packing::new(&Settings::for_average(name, average).unwrap()).width;
        assert_eq!(width("rabin", 8192), 3);
        assert_eq!(width("argmin", 128 << 10), 4);
    }
}
