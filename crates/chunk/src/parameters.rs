//! Parameters by name, for users to type and tables to show.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{Settings, SettingsError};

/// One parameter of an algorithm, named as the field of its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, such as `size_min`.
    pub name: &'static str,
    /// The words that it takes, the first for 0; none if it takes a number.
    pub choices: &'static [&'static str],
}

const fn number(name: &'static str) -> Parameter {
    Parameter { name, choices: &[] }
}

const FIXED: &[Parameter] = &[number("size")];

const FASTCDC: &[Parameter] = &[
    number("size_min"),
    number("size_average"),
    number("size_max"),
    number("normalisation"),
];

const SEQCDC: &[Parameter] = &[
    number("size_min"),
    number("size_average"),
    number("size_max"),
    Parameter {
        name: "mode",
        choices: &["increasing", "decreasing"],
    },
    Parameter {
        name: "equal",
        choices: &["absorb", "strict"],
    },
    number("seq_length"),
    number("skip_trigger"),
    number("skip_size"),
];

const AE: &[Parameter] = &[
    number("window"),
    number("size_average"),
    number("size_max"),
    Parameter {
        name: "extremum",
        choices: &["max", "min"],
    },
];

const RAM: &[Parameter] = &[number("window"), number("size_average"), number("size_max")];

const MAXP: &[Parameter] = &[number("radius"), number("size_average"), number("size_max")];

const ARGMIN: &[Parameter] = &[
    number("size_min"),
    number("size_average"),
    number("size_max"),
    number("window"),
];

const WINDOWED: &[Parameter] = &[
    number("size_min"),
    number("size_average"),
    number("size_max"),
    Parameter {
        name: "method",
        choices: &["bsw", "tt", "td", "tttd", "obsw", "ott", "otd", "otttd"],
    },
    Parameter {
        name: "hash",
        choices: &["rabin-karp", "cyclic", "rsync", "rabin", "crc32", "gear"],
    },
    number("main"),
    number("backup"),
];

impl Settings {
    /// Returns the parameters of the algorithm, in the order of [`Settings::to_words`].
    #[must_use]
    pub fn parameters(&self) -> &'static [Parameter] {
        match self {
            Settings::Fixed(_) => FIXED,
            Settings::FastCdc(_) => FASTCDC,
            Settings::SeqCdc(_) => SEQCDC,
            Settings::Ae(_) => AE,
            Settings::Ram(_) => RAM,
            Settings::Maxp(_) => MAXP,
            Settings::Argmin(_) => ARGMIN,
            Settings::Windowed(_) => WINDOWED,
        }
    }

    /// Returns every parameter's name and value, as [`Settings::with_parameters`] takes them.
    ///
    /// ```
    /// use ibid_chunk::Settings;
    ///
    /// let settings = Settings::for_average("seqcdc", 8192)?;
    /// let values = settings.parameter_values();
    /// assert_eq!(values[3], ("mode", "increasing".to_owned()));
    /// assert_eq!(values[5], ("seq_length", "5".to_owned()));
    /// # Ok::<(), ibid_chunk::SettingsError>(())
    /// ```
    #[must_use]
    pub fn parameter_values(&self) -> Vec<(&'static str, String)> {
        let value = |(parameter, word): (&Parameter, u32)| {
            let choice = parameter.choices.get(word as usize);
            let text = choice.map_or_else(|| word.to_string(), |choice| (*choice).to_owned());
            (parameter.name, text)
        };
        self.parameters().iter().zip(self.to_words()).map(value).collect()
    }

    /// Returns the settings with other values for some parameters: decimal numbers, or one of the
    /// [choices](Parameter::choices). All values are set before the limits are checked.
    ///
    /// ```
    /// use ibid_chunk::Settings;
    ///
    /// let settings = Settings::for_average("seqcdc", 8192)?;
    /// let unskipped = settings.with_parameters([("skip_trigger", "0"), ("skip_size", "0")])?;
    /// assert_eq!(unskipped.to_words(), [4096, 8192, 16384, 0, 0, 5, 0, 0]);
    /// assert!(settings.with_parameters([("skip_trigger", "0")]).is_err()); // half a skip
    /// # Ok::<(), ibid_chunk::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// If the algorithm has no such parameter, the parameter does not take the value, or the
    /// settings do not pass [`Settings::validate`].
    pub fn with_parameters<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Settings, SettingsError> {
        let mut words = self.to_words();
        for (name, value) in values {
            let parameters = self.parameters();
            let Some(at) = parameters.iter().position(|parameter| parameter.name == name) else {
                return Err(SettingsError::UnknownParameter {
                    algorithm: self.name(),
                    known: parameters,
                    found: name.to_owned(),
                });
            };
            words[at] = word(&parameters[at], value)?;
        }
        Settings::from_words(self.number(), &words)
    }
}

fn word(parameter: &Parameter, value: &str) -> Result<u32, SettingsError> {
    let choice = parameter.choices.iter().position(|choice| *choice == value);
    let word = match parameter.choices {
        [] => value.parse().ok(),
        _ => choice.map(|at| at as u32),
    };
    word.ok_or_else(|| SettingsError::BadValue {
        parameter: *parameter,
        found: value.to_owned(),
    })
}
