//! The errors of deltas and indexes, by meaning.

use zstd::zstd_safe::{self, zstd_sys::ZSTD_ErrorCode};

/// Why a delta could not be written or read, or a persisted index not be loaded.
///
/// `field` names the place as `docs/format/delta.md` does. Sizes are bytes unless the name says
/// otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the value does.
    #[error("{field}: the bytes end too early; the data is damaged or cut off")]
    Truncated {
        /// What was being read.
        field: &'static str,
    },
    /// A varint that is longer than its value needs, or than 64 bits.
    #[error("{field}: an integer written in more bytes than needed; the data is damaged")]
    NotMinimal {
        /// What was being read.
        field: &'static str,
    },
    /// A number, length or count outside its limits.
    #[error("{field}: between {min} and {max} expected, found {found}")]
    OutOfRange {
        /// What was read, or was to be written.
        field: &'static str,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
        /// The value itself.
        found: u64,
    },
    /// Two statements of the same number disagree.
    #[error("{field}: {expected} expected, found {found}; the data is damaged, or belongs to another base")]
    Mismatch {
        /// What was read.
        field: &'static str,
        /// The number that follows from everything else.
        expected: u64,
        /// The number stated.
        found: u64,
    },
    /// A number that this version does not define.
    #[error("{field}: {found} has no meaning in this version; a newer ibid may know it")]
    Unknown {
        /// What was read.
        field: &'static str,
        /// The number found.
        found: u64,
    },
    /// A delta that was to be turned round does not turn the given base into the given target.
    #[error("a copy to byte {position} of the target gives other bytes; give the two ends that the delta was made of")]
    OtherEnds {
        /// Where in the target the copy begins.
        position: u64,
    },
    /// zstd failed.
    #[error("{field}: zstd says {reason:?}")]
    Zstd {
        /// What was being done.
        field: &'static str,
        /// zstd's name for it.
        reason: &'static str,
    },
}

impl Error {
    /// Returns whether there was not enough memory. The data may be sound.
    pub fn lacks_memory(&self) -> bool {
        matches!(self, Error::Zstd { reason, .. } if *reason == no_memory())
    }
}

/// Returns zstd's name for an allocation that failed.
pub(crate) fn no_memory() -> &'static str {
    let code = ZSTD_ErrorCode::ZSTD_error_memory_allocation as usize;
    zstd_safe::get_error_name(code.wrapping_neg())
}

/// Returns `found` if it is within the limits.
pub(crate) fn in_range(field: &'static str, found: u64, min: u64, max: u64) -> Result<u64, Error> {
    if (min..=max).contains(&found) {
        Ok(found)
    } else {
        Err(Error::OutOfRange { field, min, max, found })
    }
}

/// Checks that two numbers agree.
pub(crate) fn equal(field: &'static str, expected: u64, found: u64) -> Result<(), Error> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::Mismatch { field, expected, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_allocation_is_told_from_damage() {
        assert!(no_memory().contains("not enough memory"));
        let field = "a delta by zstd";
        let reason = no_memory();
        assert!(Error::Zstd { field, reason }.lacks_memory());
        let reason = "Data corruption detected";
        assert!(!Error::Zstd { field, reason }.lacks_memory());
        assert!(!Error::Truncated { field }.lacks_memory());
    }
}
