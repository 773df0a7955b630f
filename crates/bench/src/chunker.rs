//! The chunkers that experiments measure.

use ibid_chunk::{Backend, Chunker, Settings, SettingsError};

/// Returns a chunker on the vector instructions that `IBID_SIMD` asks for, or else the best.
///
/// # Errors
/// [`SettingsError`] if a parameter is out of range, or if `IBID_SIMD` names instructions that this
/// CPU does not have.
pub fn preferred_chunker(settings: &Settings) -> Result<Chunker, SettingsError> {
    Chunker::with_backend(settings, Backend::preferred()?)
}
