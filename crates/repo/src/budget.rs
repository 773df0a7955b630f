//! The memory budget of an operation.

/// Default memory budget of an operation, bytes.
pub const MEMORY_DEFAULT: u64 = 512 << 20;
/// Smallest memory budget that operations accept, bytes.
pub const MEMORY_MIN: u64 = 128 << 20;
/// Bytes of buffers that every operation needs.
pub(crate) const BUFFERS_MIN: u64 = 96 << 20;
