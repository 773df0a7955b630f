//! Parameters of RAM.

use alloc::vec;
use alloc::vec::Vec;

#[cfg(doc)]
use super::SIZE_MAX_MOST;
use super::{counted, windows_fit, word};
use crate::SettingsError;

/// Parameters of RAM; [`spec::ram`](crate::spec::ram) says what they do.
///
/// The window is also a minimum size: no chunk but the last has fewer than `window + 1` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RamSettings {
    /// Bytes at the start of a chunk whose largest sets the mark: 63 to [`SIZE_MAX_MOST`] - 1.
    pub window: usize,
    /// Bytes that the window was chosen to give on average. It moves no cut.
    pub size_average: usize,
    /// Bytes at which a chunk ends whatever it holds. At most [`SIZE_MAX_MOST`].
    pub size_max: usize,
}

impl RamSettings {
    /// Bytes below which no chunk ends unless the data does: one more than the window.
    #[must_use]
    pub fn size_min(&self) -> usize {
        self.window.saturating_add(1)
    }

    /// See [`Settings::validate`](crate::Settings::validate).
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        windows_fit(self.window, self.size_average, self.size_max)
    }

    pub(super) fn to_words(self) -> Vec<u32> {
        vec![word(self.window), word(self.size_average), word(self.size_max)]
    }

    pub(super) fn from_words(words: &[u32]) -> Result<RamSettings, SettingsError> {
        let [window, size_average, size_max] = counted("ram", words)?.map(|word| word as usize);
        Ok(RamSettings {
            window,
            size_average,
            size_max,
        })
    }
}
