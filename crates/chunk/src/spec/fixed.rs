//! Chunks of one size.

/// Length of the first chunk of `data`: `size` bytes, or all of `data` when it is shorter.
#[must_use]
pub fn fixed(size: usize, data: &[u8]) -> usize {
    data.len().min(size)
}
