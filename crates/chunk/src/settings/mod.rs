//! The settings of a chunker, and their form in a repository.

use alloc::vec;
use alloc::vec::Vec;

use crate::SettingsError;
use crate::names;

mod ae;
mod argmin;
mod fastcdc;
mod fixed;
mod maxp;
mod ram;
mod seqcdc;
mod windowed;

pub use ae::{AeSettings, Extremum};
pub use argmin::{ArgminSettings, ArgminWindow};
pub use fastcdc::FastCdcSettings;
pub use fixed::FixedSettings;
pub use maxp::MaxpSettings;
pub use ram::RamSettings;
pub use seqcdc::{Equal, Mode, SeqCdcSettings};
pub use windowed::{Method, RollingHash, WindowedSettings};

/// The least minimum chunk size, in bytes.
pub const SIZE_MIN_LEAST: usize = 64;
/// The greatest maximum chunk size, in bytes (16 MiB).
pub const SIZE_MAX_MOST: usize = 16 << 20;

/// The greatest [`Settings::number`].
pub(crate) const NUMBER_MOST: u16 = 8;

/// An algorithm with its parameters: everything that decides where data is cut.
///
/// ```
/// use ibid_chunk::Settings;
///
/// let settings = Settings::for_average("fastcdc", 64 << 10)?;
/// assert_eq!((settings.number(), settings.name()), (2, "fastcdc"));
/// assert_eq!(settings.size_max(), 512 << 10);
/// assert_eq!(Settings::from_words(settings.number(), &settings.to_words())?, settings);
/// # Ok::<(), ibid_chunk::SettingsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Settings {
    /// Monotone runs of bytes.
    SeqCdc(SeqCdcSettings),
    /// A rolling hash with normalised chunk sizes.
    FastCdc(FastCdcSettings),
    /// Equal sizes.
    Fixed(FixedSettings),
    /// An extreme byte and a window after it (asymmetric extremum).
    Ae(AeSettings),
    /// A byte as large as any in a window at the start (rapid asymmetric maximum).
    Ram(RamSettings),
    /// A byte larger than all around it (local maximum).
    Maxp(MaxpSettings),
    /// The least of all hashes between minimum and maximum.
    Argmin(ArgminSettings),
    /// The hash of a window: Rabin, CRC-32, Gear and others.
    Windowed(WindowedSettings),
}

impl Settings {
    /// The algorithm's number in repository formats: 1 fixed, 2 FastCDC of 2020, 3 SeqCDC, 4 AE,
    /// 5 RAM, 6 MAXP, 7 argmin, 8 windowed hashes.
    ///
    /// A number never changes its meaning: with the same words it cuts at the same places in every
    /// release.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            Settings::Fixed(_) => 1,
            Settings::FastCdc(_) => 2,
            Settings::SeqCdc(_) => 3,
            Settings::Ae(_) => 4,
            Settings::Ram(_) => 5,
            Settings::Maxp(_) => 6,
            Settings::Argmin(_) => 7,
            Settings::Windowed(_) => 8,
        }
    }

    /// The algorithm's name, one of [`NAMES`](crate::NAMES), which [`Settings::for_average`] takes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Settings::Fixed(_) => "fixed",
            Settings::FastCdc(_) => "fastcdc",
            Settings::SeqCdc(_) => "seqcdc",
            Settings::Ae(s) => match s.extremum {
                Extremum::Max => "ae",
                Extremum::Min => "ae-min",
            },
            Settings::Ram(_) => "ram",
            Settings::Maxp(_) => "maxp",
            Settings::Argmin(s) => match s.window {
                ArgminWindow::Bytes4 => "argmin",
                ArgminWindow::Bytes8 => "argmin8",
            },
            Settings::Windowed(s) => names::windowed(s.method, s.hash),
        }
    }

    /// Bytes below which no chunk ends unless the data does.
    #[must_use]
    pub fn size_min(&self) -> usize {
        self.sizes().0
    }

    /// Average size that the settings aim at, bytes. The realised average depends on the data.
    #[must_use]
    pub fn size_average(&self) -> usize {
        self.sizes().1
    }

    /// Maximum size of a chunk, bytes.
    #[must_use]
    pub fn size_max(&self) -> usize {
        self.sizes().2
    }

    fn sizes(&self) -> (usize, usize, usize) {
        match self {
            Settings::SeqCdc(s) => (s.size_min, s.size_average, s.size_max),
            Settings::FastCdc(s) => (s.size_min, s.size_average, s.size_max),
            Settings::Fixed(s) => (s.size, s.size, s.size),
            Settings::Ae(s) => (s.size_min(), s.size_average, s.size_max),
            Settings::Ram(s) => (s.size_min(), s.size_average, s.size_max),
            Settings::Maxp(s) => (s.size_min(), s.size_average, s.size_max),
            Settings::Argmin(s) => (s.size_min, s.size_average, s.size_max),
            Settings::Windowed(s) => (s.size_min, s.size_average, s.size_max),
        }
    }

    /// Returns the most bytes past the end of a chunk that can decide its end: 1 for FastCDC, whose
    /// deciding byte is the first of the next chunk; the maximum less the minimum for argmin, which
    /// compares all places up to the maximum, and for methods with a second divisor; else 0.
    ///
    /// To predict that the same bytes elsewhere end in the same place, compare that many bytes more
    /// (but none past the maximum size).
    #[must_use]
    pub fn lookahead(&self) -> usize {
        match self {
            Settings::FastCdc(_) => 1,
            Settings::Argmin(s) => s.size_max.saturating_sub(s.size_min),
            Settings::Windowed(s) if s.method.has_backup() => s.size_max.saturating_sub(s.size_min),
            Settings::Windowed(_)
            | Settings::SeqCdc(_)
            | Settings::Fixed(_)
            | Settings::Ae(_)
            | Settings::Ram(_)
            | Settings::Maxp(_) => 0,
        }
    }

    /// Whether the algorithm can test a single place for the end of a chunk
    /// ([`Chunker::fits_at`](crate::Chunker::fits_at)).
    ///
    /// False for argmin and AE, which compare all bytes of a chunk, and for methods with a second
    /// divisor, whose places in reserve count only if no better one follows.
    #[must_use]
    pub fn tests_places(&self) -> bool {
        match self {
            Settings::Argmin(_) | Settings::Ae(_) => false,
            Settings::Windowed(s) => !s.method.has_backup(),
            Settings::SeqCdc(_) | Settings::FastCdc(_) | Settings::Fixed(_) | Settings::Ram(_) | Settings::Maxp(_) => {
                true
            }
        }
    }

    /// Returns the parameters as a repository's configuration stores them, in this order:
    ///
    /// | number | words |
    /// |---|---|
    /// | 1 | size |
    /// | 2 | minimum, average, maximum, normalisation |
    /// | 3 | minimum, average, maximum, mode (0 increasing), equal (0 absorb), length, skip trigger, skip size |
    /// | 4 | window, average, maximum, extremum (0 max, 1 min) |
    /// | 5 | window, average, maximum |
    /// | 6 | radius, average, maximum |
    /// | 7 | minimum, average, maximum, window (4 or 8) |
    /// | 8 | minimum, average, maximum, [`Method::ALL`], [`RollingHash::ALL`], divisor or mask, reserve or 0 |
    ///
    /// A size over the largest word is written as that word, which [`Settings::from_words`] refuses
    /// as it would have refused the size.
    #[must_use]
    pub fn to_words(&self) -> Vec<u32> {
        match self {
            Settings::Fixed(s) => vec![word(s.size)],
            Settings::FastCdc(s) => s.to_words(),
            Settings::SeqCdc(s) => s.to_words(),
            Settings::Ae(s) => s.to_words(),
            Settings::Ram(s) => s.to_words(),
            Settings::Maxp(s) => s.to_words(),
            Settings::Argmin(s) => s.to_words(),
            Settings::Windowed(s) => s.to_words(),
        }
    }

    /// Returns the settings that [`Settings::to_words`] wrote. The words may be any: the result is
    /// valid settings or an error.
    ///
    /// # Errors
    /// When the number is unknown, the count of words is not that of the algorithm, or the
    /// settings do not pass [`Settings::validate`].
    pub fn from_words(number: u16, words: &[u32]) -> Result<Settings, SettingsError> {
        let settings = match number {
            1 => Settings::Fixed(FixedSettings::from_words(words)?),
            2 => Settings::FastCdc(FastCdcSettings::from_words(words)?),
            3 => Settings::SeqCdc(SeqCdcSettings::from_words(words)?),
            4 => Settings::Ae(AeSettings::from_words(words)?),
            5 => Settings::Ram(RamSettings::from_words(words)?),
            6 => Settings::Maxp(MaxpSettings::from_words(words)?),
            7 => Settings::Argmin(ArgminSettings::from_words(words)?),
            8 => Settings::Windowed(WindowedSettings::from_words(words)?),
            found => return Err(SettingsError::UnknownNumber { found }),
        };
        settings.validate()?;
        Ok(settings)
    }

    /// Checks every limit that the fields of the settings state.
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        match self {
            Settings::SeqCdc(s) => s.validate(),
            Settings::FastCdc(s) => s.validate(),
            Settings::Fixed(s) => s.validate(),
            Settings::Ae(s) => s.validate(),
            Settings::Ram(s) => s.validate(),
            Settings::Maxp(s) => s.validate(),
            Settings::Argmin(s) => s.validate(),
            Settings::Windowed(s) => s.validate(),
        }
    }
}

fn word(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn counted<const N: usize>(algorithm: &'static str, words: &[u32]) -> Result<[u32; N], SettingsError> {
    words.try_into().map_err(|_| SettingsError::WordCount {
        algorithm,
        expected: N,
        found: words.len(),
    })
}

pub(crate) fn in_range(what: &'static str, min: usize, max: usize, found: usize) -> Result<(), SettingsError> {
    if (min..=max).contains(&found) {
        Ok(())
    } else {
        Err(SettingsError::OutOfRange { what, min, max, found })
    }
}

/// Checks the sizes of an algorithm whose window, plus one byte, is its minimum size.
fn windows_fit(window: usize, size_average: usize, size_max: usize) -> Result<(), SettingsError> {
    in_range("window", SIZE_MIN_LEAST - 1, SIZE_MAX_MOST - 1, window)?;
    in_range("maximum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, size_max)?;
    in_order(window + 1, size_average, size_max)
}

fn in_order(size_min: usize, size_average: usize, size_max: usize) -> Result<(), SettingsError> {
    if size_min <= size_average && size_average <= size_max {
        Ok(())
    } else {
        Err(SettingsError::OutOfOrder {
            size_min,
            size_average,
            size_max,
        })
    }
}

fn is_even(what: &'static str, found: usize) -> Result<(), SettingsError> {
    if found.is_multiple_of(2) {
        Ok(())
    } else {
        Err(SettingsError::Odd { what, found })
    }
}
