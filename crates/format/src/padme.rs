//! Padmé: rounds file sizes so that they reveal little about the content, at a small cost.
//!
//! A size keeps only its leading bits, as many as the length of its own exponent. It reveals
//! `O(log log L)` bits, and grows by at most 12 % (3 % from 16 MiB on). From the PURBs paper
//! (Nikitin et al., 2019).

/// Returns the granule of which sizes around `len` are multiples, bytes; 1 below 8.
///
/// ```
/// assert_eq!(ibid_format::padme::granule(16 << 20), 512 << 10);
/// ```
pub fn granule(len: u64) -> u64 {
    if len < 2 {
        return 1;
    }
    let exponent = len.ilog2();
    let kept = exponent.ilog2() + 1;
    1 << exponent.saturating_sub(kept)
}

/// Returns the size to which a file of `len` bytes is padded: the next multiple of its [`granule`].
///
/// Sizes so close to 2⁶⁴ that the next multiple does not fit stay as they are; no file has one.
///
/// ```
/// use ibid_format::padme::padded;
///
/// assert_eq!(padded(9), 10);
/// assert_eq!(padded(1000), 1024);
/// assert_eq!(padded(padded(12_345)), padded(12_345));
/// ```
pub fn padded(len: u64) -> u64 {
    len.checked_next_multiple_of(granule(len)).unwrap_or(len)
}
