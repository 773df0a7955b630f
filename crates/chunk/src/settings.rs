//! What a chunker is asked to do, and how a repository writes that down.

use alloc::vec;
use alloc::vec::Vec;

use crate::SettingsError;

/// The least minimum chunk size, in bytes.
pub const SIZE_MIN_LEAST: usize = 64;
/// The greatest maximum chunk size, in bytes (16 MiB).
pub const SIZE_MAX_MOST: usize = 16 << 20;

/// The greatest [`SeqCdcSettings::seq_length`]; random data would never show such a run.
const SEQ_LENGTH_MOST: usize = 63;
/// The greatest [`SeqCdcSettings::skip_trigger`].
const SKIP_TRIGGER_MOST: usize = 1 << 16;

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
}

/// Parameters of SeqCDC; [`spec::seqcdc`](crate::spec::seqcdc) says what they do (paper, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeqCdcSettings {
    /// Bytes below which no chunk ends unless the data does. At least [`SIZE_MIN_LEAST`].
    pub size_min: usize,
    /// Bytes that the other parameters were chosen to give on average. It moves no cut.
    pub size_average: usize,
    /// Bytes at which a chunk ends whatever it holds. At most [`SIZE_MAX_MOST`].
    pub size_max: usize,
    /// Which way the bytes of a sequence go.
    pub mode: Mode,
    /// What two equal neighbours do.
    pub equal: Equal,
    /// Pairs in the wanted order that end a chunk, 1 to 63 and below `size_min` (the paper's
    /// SeqLength).
    pub seq_length: u32,
    /// Opposing pairs that start a skip, up to 65536; 0 for no skips (the paper's SkipTrigger).
    pub skip_trigger: u32,
    /// Bytes that a skip passes over, up to [`SIZE_MAX_MOST`]; 0 if and only if `skip_trigger` is
    /// (the paper's SkipSize).
    pub skip_size: u32,
}

/// Which way SeqCDC's sequences go. The two are mirror images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Every byte larger than the one before.
    Increasing,
    /// Every byte smaller than the one before.
    Decreasing,
}

/// What two equal neighbours do to a sequence of SeqCDC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Equal {
    /// They neither extend nor break it (as the authors' program has it).
    Absorb,
    /// They break it (as the vector text of the paper has it). They never count as opposing.
    Strict,
}

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

/// Parameters of fixed-size chunking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedSettings {
    /// Bytes of every chunk but the last: [`SIZE_MIN_LEAST`] to [`SIZE_MAX_MOST`].
    pub size: usize,
}

impl Settings {
    /// The algorithm's number in repository formats: 1 fixed, 2 FastCDC of 2020, 3 SeqCDC.
    ///
    /// A number never changes its meaning: with the same words it cuts at the same places in every
    /// release.
    #[must_use]
    pub fn number(&self) -> u16 {
        match self {
            Settings::Fixed(_) => 1,
            Settings::FastCdc(_) => 2,
            Settings::SeqCdc(_) => 3,
        }
    }

    /// The algorithm's name, which [`Settings::for_average`] takes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Settings::Fixed(_) => "fixed",
            Settings::FastCdc(_) => "fastcdc",
            Settings::SeqCdc(_) => "seqcdc",
        }
    }

    /// Bytes below which no chunk ends unless the data does.
    #[must_use]
    pub fn size_min(&self) -> usize {
        self.sizes().0
    }

    /// Bytes that chunks are meant to have on average. What is realised depends on the data.
    #[must_use]
    pub fn size_average(&self) -> usize {
        self.sizes().1
    }

    /// Bytes above which no chunk goes.
    #[must_use]
    pub fn size_max(&self) -> usize {
        self.sizes().2
    }

    fn sizes(&self) -> (usize, usize, usize) {
        match self {
            Settings::SeqCdc(s) => (s.size_min, s.size_average, s.size_max),
            Settings::FastCdc(s) => (s.size_min, s.size_average, s.size_max),
            Settings::Fixed(s) => (s.size, s.size, s.size),
        }
    }

    /// How many bytes past the end of a chunk decided that it ends there: 1 for FastCDC, whose
    /// deciding byte is the first of the next chunk, else 0.
    ///
    /// Whoever knows a chunk by its bytes alone must compare that many more before trusting that
    /// the same bytes elsewhere are cut off at the same place.
    #[must_use]
    pub fn lookahead(&self) -> usize {
        match self {
            Settings::FastCdc(_) => 1,
            Settings::SeqCdc(_) | Settings::Fixed(_) => 0,
        }
    }

    /// The parameters as a repository's configuration holds them, in this order:
    ///
    /// | number | words |
    /// |---|---|
    /// | 1 | size |
    /// | 2 | minimum, average, maximum, normalisation |
    /// | 3 | minimum, average, maximum, mode (0 increasing, 1 decreasing), equal (0 absorb, 1 strict), sequence length, skip trigger, skip size |
    ///
    /// A size that no word can hold comes out as the largest word, which
    /// [`Settings::from_words`] refuses as it would have refused the size.
    #[must_use]
    pub fn to_words(&self) -> Vec<u32> {
        let word = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
        match self {
            Settings::Fixed(s) => vec![word(s.size)],
            Settings::FastCdc(s) => vec![
                word(s.size_min),
                word(s.size_average),
                word(s.size_max),
                u32::from(s.normalisation),
            ],
            Settings::SeqCdc(s) => vec![
                word(s.size_min),
                word(s.size_average),
                word(s.size_max),
                match s.mode {
                    Mode::Increasing => 0,
                    Mode::Decreasing => 1,
                },
                match s.equal {
                    Equal::Absorb => 0,
                    Equal::Strict => 1,
                },
                s.seq_length,
                s.skip_trigger,
                s.skip_size,
            ],
        }
    }

    /// The settings that [`Settings::to_words`] wrote. The words may come from anywhere: whatever
    /// they are, the result is valid settings or an error.
    ///
    /// # Errors
    /// When the number is unknown, the count of words is not that of the algorithm, or the
    /// settings do not pass [`Settings::validate`].
    pub fn from_words(number: u16, words: &[u32]) -> Result<Settings, SettingsError> {
        let settings = match number {
            1 => {
                let [size] = counted("fixed", words)?;
                Settings::Fixed(FixedSettings { size: size as usize })
            }
            2 => {
                let [size_min, size_average, size_max, level] = counted("fastcdc", words)?;
                Settings::FastCdc(FastCdcSettings {
                    size_min: size_min as usize,
                    size_average: size_average as usize,
                    size_max: size_max as usize,
                    // 255 is as invalid as anything that does not fit a byte.
                    normalisation: u8::try_from(level).unwrap_or(u8::MAX),
                })
            }
            3 => Settings::SeqCdc(seqcdc_from_words(counted("seqcdc", words)?)?),
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
        }
    }
}

impl FixedSettings {
    /// See [`Settings::validate`].
    ///
    /// # Errors
    /// When the size is outside its limits.
    pub fn validate(&self) -> Result<(), SettingsError> {
        in_range("chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, self.size)
    }
}

impl FastCdcSettings {
    /// See [`Settings::validate`].
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
}

impl SeqCdcSettings {
    /// See [`Settings::validate`].
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let SeqCdcSettings {
            size_min,
            size_average,
            size_max,
            ..
        } = *self;
        let SeqCdcSettings {
            seq_length,
            skip_trigger,
            skip_size,
            ..
        } = *self;
        in_range("minimum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, size_min)?;
        in_range("average chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, size_average)?;
        in_range("maximum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, size_max)?;
        in_order(size_min, size_average, size_max)?;
        // 63 is below every valid minimum, so a whole sequence always fits before the first cut.
        in_range("sequence length", 1, SEQ_LENGTH_MOST, seq_length as usize)?;
        in_range("skip trigger", 0, SKIP_TRIGGER_MOST, skip_trigger as usize)?;
        in_range("skip size", 0, SIZE_MAX_MOST, skip_size as usize)?;
        if (skip_trigger == 0) != (skip_size == 0) {
            return Err(SettingsError::HalfASkip {
                skip_trigger,
                skip_size,
            });
        }
        Ok(())
    }
}

fn seqcdc_from_words(words: [u32; 8]) -> Result<SeqCdcSettings, SettingsError> {
    let [
        size_min,
        size_average,
        size_max,
        mode,
        equal,
        seq_length,
        skip_trigger,
        skip_size,
    ] = words;
    in_range("sequence mode", 0, 1, mode as usize)?;
    in_range("equal neighbours", 0, 1, equal as usize)?;
    Ok(SeqCdcSettings {
        size_min: size_min as usize,
        size_average: size_average as usize,
        size_max: size_max as usize,
        mode: if mode == 0 { Mode::Increasing } else { Mode::Decreasing },
        equal: if equal == 0 { Equal::Absorb } else { Equal::Strict },
        seq_length,
        skip_trigger,
        skip_size,
    })
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
