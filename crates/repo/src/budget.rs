//! The memory budget of an operation.

use crate::{Error, Result};

/// Default memory budget of an operation, bytes.
pub const MEMORY_DEFAULT: u64 = 512 << 20;
/// Smallest memory budget that operations accept, bytes.
pub const MEMORY_MIN: u64 = 128 << 20;
/// Bytes of buffers that every operation needs.
pub(crate) const BUFFERS_MIN: u64 = 96 << 20;

/// Checks that an index of `index` bytes leaves room in `budget` for `buffers` bytes, and at least
/// for the buffers that every operation needs.
///
/// # Errors
/// [`Error::MemoryBudget`].
pub(crate) fn check(budget: u64, index: u64, buffers: u64) -> Result<()> {
    let needed = index + buffers.max(BUFFERS_MIN);
    if needed > budget {
        return Err(Error::MemoryBudget { budget, needed });
    }
    Ok(())
}
