//! Parameters of fixed-size chunking.

use super::{SIZE_MAX_MOST, SIZE_MIN_LEAST, counted, in_range};
use crate::SettingsError;

/// Parameters of fixed-size chunking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedSettings {
    /// Bytes of every chunk but the last: [`SIZE_MIN_LEAST`] to [`SIZE_MAX_MOST`].
    pub size: usize,
}

impl FixedSettings {
    /// See [`Settings::validate`](crate::Settings::validate).
    ///
    /// # Errors
    /// When the size is outside its limits.
    pub fn validate(&self) -> Result<(), SettingsError> {
        in_range("chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, self.size)
    }

    pub(super) fn from_words(words: &[u32]) -> Result<FixedSettings, SettingsError> {
        let [size] = counted("fixed", words)?;
        Ok(FixedSettings { size: size as usize })
    }
}
