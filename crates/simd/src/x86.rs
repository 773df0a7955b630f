//! SSE4.1, AVX2 and AVX-512.
//!
//! Only the entry functions construct the tokens, and [`Backend::run`](crate::Backend::run) calls
//! an entry function only if the CPU has its features. A token therefore proves that the intrinsics
//! it calls exist.

use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_add_epi32, _mm_and_si128, _mm_cmpeq_epi8, _mm_cvtsi64_si128, _mm_loadu_si128,
    _mm_max_epu8, _mm_min_epu8, _mm_min_epu32, _mm_movemask_epi8, _mm_mullo_epi32, _mm_set1_epi8, _mm_set1_epi32,
    _mm_shuffle_epi8, _mm_srli_epi16, _mm_storeu_si128, _mm_unpackhi_epi8, _mm_unpacklo_epi8, _mm_xor_si128,
    _mm256_add_epi32, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256,
    _mm256_max_epu8, _mm256_min_epu8, _mm256_min_epu32, _mm256_movemask_epi8, _mm256_mullo_epi32, _mm256_set_m128i,
    _mm256_set1_epi8, _mm256_set1_epi32, _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_storeu_si256,
    _mm256_unpackhi_epi8, _mm256_unpacklo_epi8, _mm256_xor_si256, _mm512_add_epi32, _mm512_add_epi64, _mm512_and_si512,
    _mm512_broadcast_i32x4, _mm512_castsi128_si512, _mm512_cmpeq_epi8_mask, _mm512_cmpge_epu8_mask,
    _mm512_cmplt_epu8_mask, _mm512_i64gather_epi64, _mm512_inserti32x4, _mm512_loadu_si512, _mm512_max_epu8,
    _mm512_min_epu8, _mm512_min_epu32, _mm512_mullo_epi32, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_setr_epi64, _mm512_shuffle_epi8, _mm512_srl_epi64, _mm512_srli_epi16, _mm512_storeu_si512,
    _mm512_testn_epi64_mask, _mm512_unpackhi_epi8, _mm512_unpacklo_epi8, _mm512_xor_si512, _pdep_u64, _pext_u64,
    _popcnt64,
};

use crate::vector::private::Sealed;
use crate::{Kernel, Vector};

#[derive(Clone, Copy)]
pub(crate) struct Sse41(());
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

impl Sealed for Sse41 {}
impl Sealed for Avx2 {}
impl Sealed for Avx512 {}

/// Defines the entry functions: each is compiled for a set of instructions, and kernels are inlined
/// into it.
macro_rules! instantiate {
    ($($entry:ident: $vector:ident, $features:literal;)+) => {$(
        /// # Safety
        /// The CPU must have the features.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $entry<K: Kernel>(kernel: K) -> K::Output {
            kernel.run($vector(()))
        }
    )+};
}

instantiate! {
    sse41: Sse41, "sse4.1,popcnt";
    avx2: Avx2, "avx2,popcnt,bmi1,bmi2";
    avx512: Avx512, "avx512f,avx512bw,popcnt,bmi1,bmi2";
}

/// Returns the mask, hiding from the compiler that it came from a comparison.
///
/// If LLVM sees the comparison, it moves the arithmetic on masks back into vectors of booleans,
/// which is ten times slower.
#[inline(always)]
fn hidden(mask: i32) -> u32 {
    let mut mask = mask;
    // SAFETY: the assembly is a comment, so the operand stays as it is.
    unsafe { core::arch::asm!("/* {0:e} */", inlateout(reg) mask, options(pure, nomem, nostack, preserves_flags)) };
    mask.cast_unsigned()
}

/// The methods that differ between the three sets only in the names of their intrinsics.
macro_rules! registers {
    (
        $register:ident, $lanes:literal, $load:ident, $store:ident, $splat:ident, $max:ident, $min:ident,
        $splat_u32:ident, $multiply_u32:ident, $add_u32:ident, $min_u32:ident,
        $xor:ident, $and:ident, $shift_right:ident, $lookup:ident, $zip_low:ident, $zip_high:ident
    ) => {
        type Register = $register;
        const LANES: usize = $lanes;

        #[inline(always)]
        fn load(self, from: &[u8], at: usize) -> $register {
            let bytes = &from[at..at + $lanes];
            // SAFETY: `self` proves the features, `bytes` has as many bytes as are loaded, and the
            // instruction asks for no alignment.
            unsafe { $load(bytes.as_ptr().cast()) }
        }

        #[inline(always)]
        fn store(self, register: $register, into: &mut [u8], at: usize) {
            let bytes = &mut into[at..at + $lanes];
            // SAFETY: `self` proves the features, `bytes` has as many bytes as are stored, and the
            // instruction asks for no alignment.
            unsafe { $store(bytes.as_mut_ptr().cast(), register) }
        }

        #[inline(always)]
        fn xor(self, a: $register, b: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $xor(a, b) }
        }

        #[inline(always)]
        fn and(self, a: $register, b: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $and(a, b) }
        }

        #[inline(always)]
        fn upper_nibbles(self, a: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $and($shift_right::<4>(a), $splat(0x0f)) }
        }

        #[inline(always)]
        fn lookup(self, table: $register, index: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $lookup(table, index) }
        }

        #[inline(always)]
        fn zip_low(self, a: $register, b: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $zip_low(a, b) }
        }

        #[inline(always)]
        fn zip_high(self, a: $register, b: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $zip_high(a, b) }
        }

        #[inline(always)]
        fn splat_u32(self, number: u32) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $splat_u32(number.cast_signed()) }
        }

        #[inline(always)]
        fn multiply_add_u32(self, a: $register, b: $register, c: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $add_u32($multiply_u32(a, b), c) }
        }

        #[inline(always)]
        fn min_u32(self, a: $register, b: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $min_u32(a, b) }
        }

        #[inline(always)]
        fn splat(self, byte: u8) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $splat(byte.cast_signed()) }
        }

        #[inline(always)]
        fn max(self, a: $register, b: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $max(a, b) }
        }

        #[inline(always)]
        fn min(self, a: $register, b: $register) -> $register {
            // SAFETY: `self` proves the features.
            unsafe { $min(a, b) }
        }
    };
}

/// POPCNT, BMI1 and BMI2, which come with AVX2.
macro_rules! bit_fields {
    () => {
        #[inline(always)]
        fn count_ones(self, bits: u64) -> u32 {
            // SAFETY: `self` proves the features.
            unsafe { _popcnt64(bits.cast_signed()) as u32 }
        }

        #[inline(always)]
        fn extract_bits(self, bits: u64, mask: u64) -> u64 {
            // SAFETY: `self` proves the features.
            unsafe { _pext_u64(bits, mask) }
        }

        #[inline(always)]
        fn deposit_bits(self, bits: u64, mask: u64) -> u64 {
            // SAFETY: `self` proves the features.
            unsafe { _pdep_u64(bits, mask) }
        }
    };
}

impl Vector for Sse41 {
    registers!(
        __m128i,
        16,
        _mm_loadu_si128,
        _mm_storeu_si128,
        _mm_set1_epi8,
        _mm_max_epu8,
        _mm_min_epu8,
        _mm_set1_epi32,
        _mm_mullo_epi32,
        _mm_add_epi32,
        _mm_min_epu32,
        _mm_xor_si128,
        _mm_and_si128,
        _mm_srli_epi16,
        _mm_shuffle_epi8,
        _mm_unpacklo_epi8,
        _mm_unpackhi_epi8
    );

    #[inline(always)]
    fn load_strided(self, from: &[u8], at: usize, stride: usize) -> __m128i {
        let _ = stride;
        self.load(from, at)
    }

    #[inline(always)]
    fn splat_16(self, bytes: &[u8; 16]) -> __m128i {
        self.load(bytes, 0)
    }

    #[inline(always)]
    fn at_least(self, a: __m128i, b: __m128i) -> u64 {
        // SAFETY: `self` proves the features.
        u64::from(hidden(unsafe {
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_max_epu8(a, b), a))
        }))
    }

    #[inline(always)]
    fn below(self, a: __m128i, b: __m128i) -> u64 {
        self.at_least(a, b) ^ (u64::MAX >> (64 - Self::LANES))
    }

    #[inline(always)]
    fn equal(self, a: __m128i, b: __m128i) -> u64 {
        // SAFETY: `self` proves the features.
        u64::from(hidden(unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) }))
    }

    #[inline(always)]
    fn count_ones(self, bits: u64) -> u32 {
        // SAFETY: `self` proves the features.
        unsafe { _popcnt64(bits.cast_signed()) as u32 }
    }
}

impl Vector for Avx2 {
    registers!(
        __m256i,
        32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_set1_epi8,
        _mm256_max_epu8,
        _mm256_min_epu8,
        _mm256_set1_epi32,
        _mm256_mullo_epi32,
        _mm256_add_epi32,
        _mm256_min_epu32,
        _mm256_xor_si256,
        _mm256_and_si256,
        _mm256_srli_epi16,
        _mm256_shuffle_epi8,
        _mm256_unpacklo_epi8,
        _mm256_unpackhi_epi8
    );
    bit_fields!();

    #[inline(always)]
    fn load_strided(self, from: &[u8], at: usize, stride: usize) -> __m256i {
        // A CPU with the wider registers has SSE4.1.
        let sixteen = |number: usize| Sse41(()).load(from, at + number * stride);
        // SAFETY: `self` proves the features.
        unsafe { _mm256_set_m128i(sixteen(1), sixteen(0)) }
    }

    #[inline(always)]
    fn splat_16(self, bytes: &[u8; 16]) -> __m256i {
        // SAFETY: `self` proves the features.
        unsafe { _mm256_broadcastsi128_si256(Sse41(()).load(bytes, 0)) }
    }

    #[inline(always)]
    fn at_least(self, a: __m256i, b: __m256i) -> u64 {
        // SAFETY: `self` proves the features.
        u64::from(hidden(unsafe {
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_max_epu8(a, b), a))
        }))
    }

    #[inline(always)]
    fn below(self, a: __m256i, b: __m256i) -> u64 {
        self.at_least(a, b) ^ (u64::MAX >> (64 - Self::LANES))
    }

    #[inline(always)]
    fn equal(self, a: __m256i, b: __m256i) -> u64 {
        // SAFETY: `self` proves the features.
        u64::from(hidden(unsafe { _mm256_movemask_epi8(_mm256_cmpeq_epi8(a, b)) }))
    }
}

impl Vector for Avx512 {
    registers!(
        __m512i,
        64,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_set1_epi8,
        _mm512_max_epu8,
        _mm512_min_epu8,
        _mm512_set1_epi32,
        _mm512_mullo_epi32,
        _mm512_add_epi32,
        _mm512_min_epu32,
        _mm512_xor_si512,
        _mm512_and_si512,
        _mm512_srli_epi16,
        _mm512_shuffle_epi8,
        _mm512_unpacklo_epi8,
        _mm512_unpackhi_epi8
    );
    bit_fields!();

    #[inline(always)]
    fn load_strided(self, from: &[u8], at: usize, stride: usize) -> __m512i {
        // A CPU with the wider registers has SSE4.1.
        let sixteen = |number: usize| Sse41(()).load(from, at + number * stride);
        // SAFETY: `self` proves the features.
        unsafe {
            let two = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(sixteen(0)), sixteen(1));
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(two, sixteen(2)), sixteen(3))
        }
    }

    #[inline(always)]
    fn splat_16(self, bytes: &[u8; 16]) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_broadcast_i32x4(Sse41(()).load(bytes, 0)) }
    }

    #[inline(always)]
    fn load_strided_u64(self, from: &[u8], at: usize, stride: usize) -> __m512i {
        let eight = |number: usize| {
            let bytes = from[at + number * stride..].first_chunk().expect("eight bytes");
            i64::from_le_bytes(*bytes)
        };
        // SAFETY: `self` proves the features.
        unsafe {
            _mm512_setr_epi64(
                eight(0),
                eight(1),
                eight(2),
                eight(3),
                eight(4),
                eight(5),
                eight(6),
                eight(7),
            )
        }
    }

    #[inline(always)]
    fn splat_u64(self, number: u64) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_set1_epi64(number.cast_signed()) }
    }

    #[inline(always)]
    fn add_u64(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_add_epi64(a, b) }
    }

    #[inline(always)]
    fn gather_u64(self, table: &[u64; 256], index: __m512i, place: usize) -> __m512i {
        // SAFETY: `self` proves the features. The numbers of entries are no more than 255, for nothing
        // but a byte of each is left, and the table has 256 of the eight bytes that they are scaled by.
        unsafe {
            let shifted = _mm512_srl_epi64(index, _mm_cvtsi64_si128(8 * place as i64));
            let number = _mm512_and_si512(shifted, _mm512_set1_epi64(0xff));
            _mm512_i64gather_epi64::<8>(number, table.as_ptr().cast())
        }
    }

    #[inline(always)]
    fn disjoint_u64(self, a: __m512i, b: __m512i) -> u64 {
        // SAFETY: `self` proves the features.
        u64::from(unsafe { _mm512_testn_epi64_mask(a, b) })
    }

    #[inline(always)]
    fn at_least(self, a: __m512i, b: __m512i) -> u64 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_cmpge_epu8_mask(a, b) }
    }

    #[inline(always)]
    fn below(self, a: __m512i, b: __m512i) -> u64 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_cmplt_epu8_mask(a, b) }
    }

    #[inline(always)]
    fn block_below(self, a: &[u8], at_a: usize, b: &[u8], at_b: usize) -> u64 {
        self.below(self.load(a, at_a), self.load(b, at_b))
    }

    #[inline(always)]
    fn equal(self, a: __m512i, b: __m512i) -> u64 {
        // SAFETY: `self` proves the features.
        unsafe { _mm512_cmpeq_epi8_mask(a, b) }
    }
}
