//! NEON, on 64-bit ARM.
//!
//! As on x86, only the entry function constructs the token.

use core::arch::aarch64::{
    uint8x16_t, vaddv_u8, vandq_u8, vceqq_u8, vcgeq_u8, vcltq_u8, vdupq_n_u8, vdupq_n_u32, veorq_u8, vget_high_u8,
    vget_low_u8, vgetq_lane_u64, vld1q_u8, vmaxq_u8, vminq_u8, vminq_u32, vmlaq_u32, vpaddq_u8, vqtbl1q_u8,
    vreinterpretq_u8_u32, vreinterpretq_u32_u8, vreinterpretq_u64_u8, vshrq_n_u8, vst1q_u8, vzip1q_u8, vzip2q_u8,
};

use crate::vector::private::Sealed;
use crate::{BLOCK, Kernel, Vector};

#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Sealed for Neon {}

/// # Safety
/// The CPU must have NEON.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn neon<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Neon(()))
}

/// The bit of each lane within its byte of a mask.
const BITS: [u8; 16] = [1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128];

impl Neon {
    /// Returns one bit for each lane of `flags`, whose lanes are 0 or 255.
    #[inline(always)]
    fn mask(self, flags: uint8x16_t) -> u64 {
        // SAFETY: `self` proves NEON; `BITS` has the 16 bytes loaded.
        let (low, high) = unsafe {
            let bits = vandq_u8(flags, vld1q_u8(BITS.as_ptr()));
            (vaddv_u8(vget_low_u8(bits)), vaddv_u8(vget_high_u8(bits)))
        };
        u64::from(low) | u64::from(high) << 8
    }
}

impl Vector for Neon {
    type Register = uint8x16_t;
    const LANES: usize = 16;

    #[inline(always)]
    fn load(self, from: &[u8], at: usize) -> uint8x16_t {
        let bytes = &from[at..at + 16];
        // SAFETY: `self` proves NEON, `bytes` has the 16 bytes loaded; no alignment is asked for.
        unsafe { vld1q_u8(bytes.as_ptr()) }
    }

    #[inline(always)]
    fn load_strided(self, from: &[u8], at: usize, _: usize) -> uint8x16_t {
        self.load(from, at)
    }

    #[inline(always)]
    fn splat_16(self, bytes: &[u8; 16]) -> uint8x16_t {
        self.load(bytes, 0)
    }

    #[inline(always)]
    fn store(self, register: uint8x16_t, into: &mut [u8], at: usize) {
        let bytes = &mut into[at..at + 16];
        // SAFETY: `self` proves NEON, `bytes` has the 16 bytes stored; no alignment is asked for.
        unsafe { vst1q_u8(bytes.as_mut_ptr(), register) }
    }

    #[inline(always)]
    fn xor(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { veorq_u8(a, b) }
    }

    #[inline(always)]
    fn and(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vandq_u8(a, b) }
    }

    #[inline(always)]
    fn upper_nibbles(self, a: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vshrq_n_u8::<4>(a) }
    }

    #[inline(always)]
    fn lookup(self, table: uint8x16_t, index: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vqtbl1q_u8(table, index) }
    }

    #[inline(always)]
    fn zip_low(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vzip1q_u8(a, b) }
    }

    #[inline(always)]
    fn zip_high(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vzip2q_u8(a, b) }
    }

    #[inline(always)]
    fn splat_u32(self, number: u32) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vreinterpretq_u8_u32(vdupq_n_u32(number)) }
    }

    #[inline(always)]
    fn multiply_add_u32(self, a: uint8x16_t, b: uint8x16_t, c: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe {
            let [a, b, c] = [
                vreinterpretq_u32_u8(a),
                vreinterpretq_u32_u8(b),
                vreinterpretq_u32_u8(c),
            ];
            vreinterpretq_u8_u32(vmlaq_u32(c, a, b))
        }
    }

    #[inline(always)]
    fn min_u32(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vreinterpretq_u8_u32(vminq_u32(vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b))) }
    }

    #[inline(always)]
    fn splat(self, byte: u8) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vdupq_n_u8(byte) }
    }

    #[inline(always)]
    fn max(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vmaxq_u8(a, b) }
    }

    #[inline(always)]
    fn min(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
        // SAFETY: `self` proves NEON.
        unsafe { vminq_u8(a, b) }
    }

    #[inline(always)]
    fn at_least(self, a: uint8x16_t, b: uint8x16_t) -> u64 {
        // SAFETY: `self` proves NEON.
        self.mask(unsafe { vcgeq_u8(a, b) })
    }

    #[inline(always)]
    fn below(self, a: uint8x16_t, b: uint8x16_t) -> u64 {
        // SAFETY: `self` proves NEON.
        self.mask(unsafe { vcltq_u8(a, b) })
    }

    #[inline(always)]
    fn equal(self, a: uint8x16_t, b: uint8x16_t) -> u64 {
        // SAFETY: `self` proves NEON.
        self.mask(unsafe { vceqq_u8(a, b) })
    }

    /// Three pairwise additions pack the bits of four registers into one.
    #[inline(always)]
    fn block_below(self, a: &[u8], at_a: usize, b: &[u8], at_b: usize) -> u64 {
        let (a, b) = (&a[at_a..at_a + BLOCK], &b[at_b..at_b + BLOCK]);
        // SAFETY: `self` proves NEON; `BITS` has the 16 bytes loaded.
        unsafe {
            let bits = vld1q_u8(BITS.as_ptr());
            let flags = |at| vandq_u8(vcltq_u8(self.load(a, at), self.load(b, at)), bits);
            let sums = vpaddq_u8(vpaddq_u8(flags(0), flags(16)), vpaddq_u8(flags(32), flags(48)));
            let sums = vpaddq_u8(sums, sums);
            vgetq_lane_u64::<0>(vreinterpretq_u64_u8(sums))
        }
    }
}
