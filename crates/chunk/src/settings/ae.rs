//! Parameters of AE.

use alloc::vec;
use alloc::vec::Vec;

#[cfg(doc)]
use super::SIZE_MAX_MOST;
use super::{counted, in_range, windows_fit, word};
use crate::SettingsError;

/// Parameters of AE; [`spec::ae`](crate::spec::ae) says what they do.
///
/// The window is also a minimum size: no chunk but the last has fewer than `window + 1` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AeSettings {
    /// Bytes after the extreme one that do not pass it: 63 to [`SIZE_MAX_MOST`] - 1.
    pub window: usize,
    /// Bytes that the window was chosen to give on average. It moves no cut.
    pub size_average: usize,
    /// Bytes at which a chunk ends whatever it holds. At most [`SIZE_MAX_MOST`].
    pub size_max: usize,
    /// Which bytes are extreme.
    pub extremum: Extremum,
}

/// Which bytes AE looks for. The two are mirror images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extremum {
    /// Those larger than every byte before.
    Max,
    /// Those smaller than every byte before.
    Min,
}

impl AeSettings {
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
        vec![
            word(self.window),
            word(self.size_average),
            word(self.size_max),
            match self.extremum {
                Extremum::Max => 0,
                Extremum::Min => 1,
            },
        ]
    }

    pub(super) fn from_words(words: &[u32]) -> Result<AeSettings, SettingsError> {
        let [window, size_average, size_max, extremum] = counted("ae", words)?;
        in_range("extremum", 0, 1, extremum as usize)?;
        Ok(AeSettings {
            window: window as usize,
            size_average: size_average as usize,
            size_max: size_max as usize,
            extremum: if extremum == 0 { Extremum::Max } else { Extremum::Min },
        })
    }
}
