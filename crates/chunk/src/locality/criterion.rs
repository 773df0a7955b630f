//! The criteria by which hints are accepted.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

/// When a hint is accepted (RapidCDC §3.2), from the fastest criterion to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Criterion {
    /// Always (FF). After an edit this makes a chunk that no chunker would, once for each edit.
    FastForward,
    /// If the chunk would end with the byte that the hint's chunk ended with (FF+MT).
    Marker,
    /// If the chunker's own condition holds at that place (FF+RWT;
    /// [`Chunker::fits_at`](crate::Chunker::fits_at)). Algorithms that cannot test a place are
    /// refused.
    Window,
    /// If it holds, the last byte is the same, and the chunk is known (FF+RWT+FPT). The test of the
    /// byte is not in the paper. It saves most fingerprints of unknown chunks.
    ///
    /// **Cuts are then exactly those of the chunker alone**, whatever the hints say, if all known
    /// chunks were cut by it with the same settings, and none was cut short by the end of its data
    /// ([`Known::find_cut`](super::Known::find_cut)). A known chunk that its bytes cut off has no
    /// boundary before its end, and the test of the place shows that its end is a boundary here.
    WindowAndFingerprint,
}

impl Criterion {
    /// All criteria.
    pub const ALL: [Criterion; 4] = [
        Criterion::FastForward,
        Criterion::Marker,
        Criterion::Window,
        Criterion::WindowAndFingerprint,
    ];

    /// Returns its name in the paper: `ff`, `ff+mt`, `ff+rwt`, `ff+rwt+fpt`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Criterion::FastForward => "ff",
            Criterion::Marker => "ff+mt",
            Criterion::Window => "ff+rwt",
            Criterion::WindowAndFingerprint => "ff+rwt+fpt",
        }
    }

    /// Returns the criterion of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_name(name: &str) -> Result<Criterion, CriterionError> {
        let found = Criterion::ALL.into_iter().find(|criterion| criterion.name() == name);
        found.ok_or_else(|| CriterionError::Unknown { found: name.to_owned() })
    }

    /// Whether it needs the chunker's test of the place.
    #[must_use]
    pub fn tests_places(self) -> bool {
        matches!(self, Criterion::Window | Criterion::WindowAndFingerprint)
    }
}

/// Why a criterion cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CriterionError {
    /// No criterion has this name.
    Unknown {
        /// The name asked for.
        found: String,
    },
    /// The algorithm cannot test a single place for the end of a chunk.
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
