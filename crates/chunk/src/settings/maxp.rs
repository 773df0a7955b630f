//! Parameters of MAXP.

use alloc::vec;
use alloc::vec::Vec;

use super::{SIZE_MAX_MOST, SIZE_MIN_LEAST, counted, in_order, in_range, word};
use crate::SettingsError;

/// Parameters of MAXP; [`spec::maxp`](crate::spec::maxp) says what they do.
///
/// The radius is also a minimum size: no chunk but the last has fewer than `2 * radius + 1` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MaxpSettings {
    /// Bytes on either side of a peak that are smaller than it: 32 to half of [`SIZE_MAX_MOST`],
    /// less one.
    pub radius: usize,
    /// Bytes that the radius was chosen to give on average. It moves no cut.
    pub size_average: usize,
    /// Bytes at which a chunk ends whatever it holds. At most [`SIZE_MAX_MOST`].
    pub size_max: usize,
}

impl MaxpSettings {
    /// Bytes below which no chunk ends unless the data does: a peak with both its sides.
    #[must_use]
    pub fn size_min(&self) -> usize {
        self.radius.saturating_mul(2).saturating_add(1)
    }

    /// See [`Settings::validate`](crate::Settings::validate).
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        in_range("radius", SIZE_MIN_LEAST / 2, SIZE_MAX_MOST / 2 - 1, self.radius)?;
        in_range("maximum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, self.size_max)?;
        in_order(self.size_min(), self.size_average, self.size_max)
    }

    pub(super) fn to_words(self) -> Vec<u32> {
        vec![word(self.radius), word(self.size_average), word(self.size_max)]
    }

    pub(super) fn from_words(words: &[u32]) -> Result<MaxpSettings, SettingsError> {
        let [radius, size_average, size_max] = counted("maxp", words)?.map(|word| word as usize);
        Ok(MaxpSettings {
            radius,
            size_average,
            size_max,
        })
    }
}
