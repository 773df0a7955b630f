//! Why settings are refused.

use alloc::string::String;
use core::fmt;

use ibid_simd::BackendError;

use crate::settings::NUMBER_MOST;
use crate::{NAMES, Parameter};

/// Why [`Settings`](crate::Settings) were refused: what was expected and what was found.
///
/// ```
/// use ibid_chunk::Settings;
///
/// let error = Settings::from_words(1, &[32]).unwrap_err();
/// assert_eq!(error.to_string(), "chunk size: expected 64 to 16777216, found 32");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// No algorithm has this number; a newer release may know it.
    UnknownNumber {
        /// The number asked for.
        found: u16,
    },
    /// No algorithm has this name.
    UnknownName {
        /// The name asked for.
        found: String,
    },
    /// A list of parameters is too short or too long for its algorithm.
    WordCount {
        /// The name of the algorithm.
        algorithm: &'static str,
        /// How many words it has.
        expected: usize,
        /// How many words there were.
        found: usize,
    },
    /// A number is too small or too large.
    OutOfRange {
        /// Which number, in words.
        what: &'static str,
        /// The least that is accepted.
        min: usize,
        /// The most that is accepted.
        max: usize,
        /// What it was.
        found: usize,
    },
    /// Sizes are not in the order minimum, average, maximum.
    OutOfOrder {
        /// Bytes below which no chunk ends.
        size_min: usize,
        /// Bytes hoped for on average.
        size_average: usize,
        /// Bytes above which no chunk goes.
        size_max: usize,
    },
    /// Argmin hashes four bytes or eight.
    Window {
        /// How many it was asked to.
        found: usize,
    },
    /// FastCDC judges bytes in pairs and takes even sizes only.
    Odd {
        /// Which number, in words.
        what: &'static str,
        /// What it was.
        found: usize,
    },
    /// A skip needs both a trigger and a size; either both are zero or none is.
    HalfASkip {
        /// Opposing pairs that start a skip.
        skip_trigger: u32,
        /// Bytes skipped.
        skip_size: u32,
    },
    /// The algorithm has no parameter of this name.
    UnknownParameter {
        /// The name of the algorithm.
        algorithm: &'static str,
        /// The parameters that it has.
        known: &'static [Parameter],
        /// The name asked for.
        found: String,
    },
    /// A parameter was given a value that it does not take.
    BadValue {
        /// Which one.
        parameter: Parameter,
        /// The value.
        found: String,
    },
    /// The environment asks for vector instructions that are not there.
    Backend(BackendError),
}

impl From<BackendError> for SettingsError {
    fn from(error: BackendError) -> SettingsError {
        SettingsError::Backend(error)
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::UnknownNumber { found } => {
                write!(
                    out,
                    "chunking algorithm number: expected 1 to {NUMBER_MOST}, found {found}; a newer release may know it"
                )
            }
            SettingsError::UnknownName { found } => {
                write!(
                    out,
                    "chunking algorithm: expected one of {}, found {found:?}",
                    NAMES.join(", ")
                )
            }
            SettingsError::WordCount {
                algorithm,
                expected,
                found,
            } => {
                write!(
                    out,
                    "parameters of {algorithm}: expected {expected} words, found {found}"
                )
            }
            SettingsError::OutOfRange { what, min, max, found } => {
                write!(out, "{what}: expected {min} to {max}, found {found}")
            }
            SettingsError::OutOfOrder {
                size_min,
                size_average,
                size_max,
            } => write!(
                out,
                "chunk sizes: expected minimum <= average <= maximum, found {size_min}, {size_average}, {size_max}"
            ),
            SettingsError::Window { found } => {
                write!(out, "window of argmin: expected 4 or 8, found {found}")
            }
            SettingsError::Odd { what, found } => {
                write!(out, "{what}: expected an even number for fastcdc, found {found}")
            }
            SettingsError::HalfASkip {
                skip_trigger,
                skip_size,
            } => write!(
                out,
                "skip trigger and skip size: expected both zero or none, found {skip_trigger} and {skip_size}"
            ),
            SettingsError::UnknownParameter {
                algorithm,
                known,
                found,
            } => {
                write!(out, "parameter of {algorithm}: expected one of")?;
                known
                    .iter()
                    .try_for_each(|parameter| write!(out, " {}", parameter.name))?;
                write!(out, ", found {found:?}")
            }
            SettingsError::BadValue { parameter, found } => {
                write!(out, "{}: expected ", parameter.name)?;
                match parameter.choices {
                    [] => write!(out, "a number below {}", 1u64 << 32)?,
                    choices => out.write_str(&choices.join(" or "))?,
                }
                write!(out, ", found {found:?}")
            }
            SettingsError::Backend(error) => {
                write!(out, "{}: {error}", ibid_simd::ENVIRONMENT_VARIABLE)
            }
        }
    }
}

impl core::error::Error for SettingsError {}
