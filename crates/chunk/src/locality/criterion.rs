//! When the place that a hint names is taken.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

/// When a hint is accepted (RapidCDC §3.2), from the fastest criterion to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criterion {
    /// Always (FF). After an edit this makes a chunk that no chunker would, once for each edit.
    FastForward,
    /// When the chunk would end with the byte that the one before ended with (FF+MT).
    Marker,
    /// When the chunker's own condition holds at that place (FF+RWT;
    /// [`Chunker::fits_at`](crate::Chunker::fits_at)). An algorithm that can't tell for one
    /// place is refused.
    Window,
    /// When it holds, the last byte is the same, too, and the chunk was there before (FF+RWT+FPT;
    /// the byte is no test of the paper's, and saves most fingerprints of chunks that are not
    /// known).
    ///
    /// **Cuts are then exactly those of the chunker alone**, whatever the hints say, if all chunks
    /// that are known were cut by it, with the same settings, and not cut short by the end of
    /// their data ([`Known::find_cut`](super::Known::find_cut)): a chunk that was cut off where its
    /// bytes said so has no boundary before its end, and that there is one now the test of the
    /// place has shown.
    WindowAndFingerprint,
}

impl Criterion {
    /// All of them.
    pub const ALL: [Criterion; 4] = [
        Criterion::FastForward,
        Criterion::Marker,
        Criterion::Window,
        Criterion::WindowAndFingerprint,
    ];

    /// Its name, as the paper has it: `ff`, `ff+mt`, `ff+rwt`, `ff+rwt+fpt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Criterion::FastForward => "ff",
            Criterion::Marker => "ff+mt",
            Criterion::Window => "ff+rwt",
            Criterion::WindowAndFingerprint => "ff+rwt+fpt",
        }
    }

    /// The criterion of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn from_name(name: &str) -> Result<Criterion, CriterionError> {
        let found = Criterion::ALL.into_iter().find(|criterion| criterion.name() == name);
        found.ok_or_else(|| CriterionError::Unknown { found: name.to_owned() })
    }

    /// Whether it asks the chunker about the place.
    #[must_use]
    pub fn tests_places(self) -> bool {
        matches!(self, Criterion::Window | Criterion::WindowAndFingerprint)
    }
}

/// Why a criterion can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CriterionError {
    /// There is none of this name.
    Unknown {
        /// The name asked for.
        found: String,
    },
    /// The algorithm can't tell for a single place if a chunk ends there.
    NoTest {
        /// The name of the algorithm.
        algorithm: &'static str,
        /// The criterion that needs it.
        criterion: Criterion,
    },
}

impl fmt::Display for CriterionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CriterionError::Unknown { found } => {
                let known = Criterion::ALL.map(Criterion::name).join(", ");
                write!(out, "criterion: expected one of {known}, found {found:?}")
            }
            CriterionError::NoTest { algorithm, criterion } => write!(
                out,
                "{} can't be used with {algorithm}, which compares all bytes of a chunk and can't tell for one \
                 place if it is a boundary; ff and ff+mt can",
                criterion.name()
            ),
        }
    }
}

impl core::error::Error for CriterionError {}
