//! Chunks of one size.

/// Returns the length of the first chunk of `data`: `size` bytes, or all of `data` if it is
/// shorter.
#[must_use]
pub fn fixed(size: usize, data: &[u8]) -> usize {
    data.len().min(size)
}
