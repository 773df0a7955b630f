//! Hints about memory that will be read. Every CPU of a supported architecture has them.

/// Prefetches the cache line of `data[at]` for a read soon. `at` may be past the end.
#[inline(always)]
pub fn prefetch(data: &[u8], at: usize) {
    hint::<false>(data, at);
}

/// Prefetches into the second-level cache, for a later read than [`prefetch`]: more such fetches
/// can be in flight.
#[inline(always)]
pub fn prefetch_far(data: &[u8], at: usize) {
    hint::<true>(data, at);
}

#[inline(always)]
fn hint<const FAR: bool>(data: &[u8], at: usize) {
    let line = data.as_ptr().wrapping_add(at);
    // SAFETY: a prefetch reads no memory; the address need not exist.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        if FAR {
            _mm_prefetch::<_MM_HINT_T1>(line.cast());
        } else {
            _mm_prefetch::<_MM_HINT_T0>(line.cast());
        }
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        if FAR {
            core::arch::asm!("prfm pldl2keep, [{0}]", in(reg) line, options(nostack, preserves_flags, readonly));
        } else {
            core::arch::asm!("prfm pldl1keep, [{0}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
    }
    let _ = line;
}
