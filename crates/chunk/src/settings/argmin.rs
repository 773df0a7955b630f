//! Parameters of argmin.

use alloc::vec;
use alloc::vec::Vec;

use super::{SIZE_MAX_MOST, SIZE_MIN_LEAST, counted, in_order, in_range, word};
use crate::SettingsError;

/// Parameters of argmin; [`spec::argmin`](crate::spec::argmin) says what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArgminSettings {
    /// Bytes below which no chunk ends unless the data does. At least [`SIZE_MIN_LEAST`].
    pub size_min: usize,
    /// Average size that the limits were chosen to give, bytes: on most data a little more than
    /// halfway from minimum to maximum. It moves no cut.
    pub size_average: usize,
    /// Maximum size of a chunk, bytes. A cut needs so many bytes of data. At most
    /// [`SIZE_MAX_MOST`].
    pub size_max: usize,
    /// The bytes that are hashed.
    pub window: ArgminWindow,
}

/// How many bytes argmin hashes: the last ones of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgminWindow {
    /// Four.
    Bytes4,
    /// Eight, for data in which the same four bytes are frequent.
    Bytes8,
}

impl ArgminWindow {
    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            ArgminWindow::Bytes4 => 4,
            ArgminWindow::Bytes8 => 8,
        }
    }
}

impl ArgminSettings {
    /// See [`Settings::validate`](crate::Settings::validate).
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        in_range("minimum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, self.size_min)?;
        in_range("maximum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, self.size_max)?;
        in_order(self.size_min, self.size_average, self.size_max)
    }

    pub(super) fn to_words(self) -> Vec<u32> {
        vec![
            word(self.size_min),
            word(self.size_average),
            word(self.size_max),
            word(self.window.bytes()),
        ]
    }

    pub(super) fn from_words(words: &[u32]) -> Result<ArgminSettings, SettingsError> {
        let [size_min, size_average, size_max, window] = counted("argmin", words)?.map(|word| word as usize);
        Ok(ArgminSettings {
            size_min,
            size_average,
            size_max,
            window: match window {
                4 => ArgminWindow::Bytes4,
                8 => ArgminWindow::Bytes8,
                found => return Err(SettingsError::Window { found }),
            },
        })
    }
}
