//! One setting of the system's memory allocator.

/// Makes glibc take large buffers from the system, and give each back when it is freed.
///
/// This is how glibc begins. Once such a buffer is freed, however, it keeps buffers of up to that
/// size, at most 32 MiB, in heaps of its own, and gives back no more than the end of a heap. Buffers
/// of many sizes then leave gaps: with 256 MiB, a backup of 5.2 GiB took 456 MiB instead of 216.
///
/// Call this before any thread starts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "there is no safe interface to the allocator's settings")]
pub(crate) fn give_back_large_buffers() {
    /// glibc's own initial value, bytes. Setting it ends its growth.
    const LARGE: i32 = 128 << 10;
    // SAFETY: mallopt takes two integers and returns one. It may be called while there is only one
    // thread, which the caller promises.
    let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    debug_assert_eq!(is_set, 1, "glibc takes values up to 32 MiB");
}

/// Leaves other allocators as they are.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back_large_buffers() {}
