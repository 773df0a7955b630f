//! Parameters of FastCDC.

use alloc::vec;
use alloc::vec::Vec;

use super::{SIZE_MAX_MOST, SIZE_MIN_LEAST, counted, in_order, in_range, is_even, word};
use crate::SettingsError;

/// Parameters of FastCDC; [`spec::fastcdc`](crate::spec::fastcdc) says what they do.
///
/// The limits are those of the `fastcdc` crate, whose cuts these are. Sizes are even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FastCdcSettings {
    /// Bytes below which no chunk ends unless the data does: 64 to 1 MiB.
    pub size_min: usize,
    /// Bytes around which chunk sizes gather: 256 to 4 MiB, not only powers of two.
    pub size_average: usize,
    /// Bytes at which a chunk ends whatever it holds: 1 KiB to 16 MiB.
    pub size_max: usize,
    /// How strongly sizes gather around the average, 0 (not at all) to 3 (paper, section 3.5).
    pub normalisation: u8,
}

impl FastCdcSettings {
    /// See [`Settings::validate`](crate::Settings::validate).
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let FastCdcSettings {
            size_min,
            size_average,
            size_max,
            normalisation,
        } = *self;
        in_range("minimum chunk size", SIZE_MIN_LEAST, 1 << 20, size_min)?;
        in_range("average chunk size", 256, 4 << 20, size_average)?;
        in_range("maximum chunk size", 1 << 10, SIZE_MAX_MOST, size_max)?;
        in_order(size_min, size_average, size_max)?;
        is_even("minimum chunk size", size_min)?;
        is_even("average chunk size", size_average)?;
        is_even("maximum chunk size", size_max)?;
        in_range("normalisation", 0, 3, usize::from(normalisation))
    }

    pub(super) fn to_words(self) -> Vec<u32> {
        vec![
            word(self.size_min),
            word(self.size_average),
            word(self.size_max),
            u32::from(self.normalisation),
        ]
    }

    pub(super) fn from_words(words: &[u32]) -> Result<FastCdcSettings, SettingsError> {
        let [size_min, size_average, size_max, level] = counted("fastcdc", words)?;
        Ok(FastCdcSettings {
            size_min: size_min as usize,
            size_average: size_average as usize,
            size_max: size_max as usize,
            // 255 is as invalid as anything that does not fit a byte.
            normalisation: u8::try_from(level).unwrap_or(u8::MAX),
        })
    }
}
