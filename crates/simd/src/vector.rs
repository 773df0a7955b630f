//! What kernels are written in.

use crate::bits;

/// Bytes in a block: as many as a mask has bits, and a whole number of every kind of register.
pub const BLOCK: usize = 64;

/// Registers of bytes, and a proof that the CPU has them.
///
/// A value comes only from [`Backend::run`](crate::Backend::run), within a function that is compiled
/// for its instructions. All methods are inlined there; called from elsewhere (a closure or function
/// that is not inlined into [`Kernel::run`]) they give the same answers, slowly.
///
/// Bytes are unsigned. A mask has one bit for every byte, the first byte's lowest; bits beyond are 0.
pub trait Vector: Copy + private::Sealed {
    /// A register.
    type Register: Copy;

    /// Bytes in a register: 16, 32 or 64.
    const LANES: usize;

    /// The bytes `from[at..at + LANES]`, at any alignment.
    ///
    /// # Panics
    /// When they are not all there. The check costs nothing where the compiler sees that they are:
    /// take arrays (`first_chunk`) in loops.
    fn load(self, from: &[u8], at: usize) -> Self::Register;

    /// In every 16 bytes of a register, 16 bytes of `from`: the first from `at` on, the next from
    /// `at + stride` on, and so forth.
    ///
    /// # Panics
    /// When they are not all there.
    fn load_strided(self, from: &[u8], at: usize, stride: usize) -> Self::Register;

    /// Writes the register to `into[at..at + LANES]`, at any alignment.
    ///
    /// # Panics
    /// When there is no room.
    fn store(self, register: Self::Register, into: &mut [u8], at: usize);

    /// `byte` in every place.
    fn splat(self, byte: u8) -> Self::Register;

    /// `bytes` in every 16 bytes.
    fn splat_16(self, bytes: &[u8; 16]) -> Self::Register;

    /// The bytes of `number`, least significant first, in every four places.
    fn splat_u32(self, number: u32) -> Self::Register;

    /// `a * b + c` in every four places, as numbers modulo 2^32, least significant byte first.
    fn multiply_add_u32(self, a: Self::Register, b: Self::Register, c: Self::Register) -> Self::Register;

    /// The smaller number in every four places, least significant byte first.
    fn min_u32(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The exclusive or.
    fn xor(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The bits that `a` and `b` both have.
    fn and(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The upper four bits of every byte, moved to the lower four.
    fn upper_nibbles(self, a: Self::Register) -> Self::Register;

    /// In every 16 bytes, the bytes of `table` that those of `index` number; `index` is below 16.
    fn lookup(self, table: Self::Register, index: Self::Register) -> Self::Register;

    /// In every 16 bytes, the first eight of `a` and of `b` by turns.
    fn zip_low(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// In every 16 bytes, the last eight of `a` and of `b` by turns.
    fn zip_high(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The larger byte in every place.
    fn max(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// The smaller byte in every place.
    fn min(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Where `a >= b`.
    fn at_least(self, a: Self::Register, b: Self::Register) -> u64;

    /// Where `a < b`.
    fn below(self, a: Self::Register, b: Self::Register) -> u64;

    /// Where `a == b`.
    fn equal(self, a: Self::Register, b: Self::Register) -> u64;

    /// Where `a[at_a..] < b[at_b..]`, for [`BLOCK`] bytes.
    ///
    /// # Panics
    /// When they are not all there.
    #[inline(always)]
    fn block_below(self, a: &[u8], at_a: usize, b: &[u8], at_b: usize) -> u64 {
        let mut mask = 0;
        let mut at = 0;
        while at < BLOCK {
            mask |= self.at_least(self.load(a, at_a + at), self.load(b, at_b + at)) << at;
            at += Self::LANES;
        }
        !mask
    }

    /// The largest byte.
    #[inline(always)]
    fn largest(self, register: Self::Register) -> u8 {
        let mut bytes = [0; BLOCK];
        self.store(register, &mut bytes, 0);
        bytes.iter().fold(0, |largest, byte| largest.max(*byte))
    }

    /// The least number of four bytes, least significant first.
    #[inline(always)]
    fn least_u32(self, register: Self::Register) -> u32 {
        let mut bytes = [u8::MAX; BLOCK];
        self.store(register, &mut bytes, 0);
        let (numbers, _) = bytes.as_chunks();
        numbers
            .iter()
            .fold(u32::MAX, |least, number| least.min(u32::from_le_bytes(*number)))
    }

    /// The bits that are set.
    #[inline(always)]
    fn count_ones(self, bits: u64) -> u32 {
        bits.count_ones()
    }

    /// The bits of `bits` where `mask` is set, moved together at the low end.
    #[inline(always)]
    fn extract_bits(self, bits: u64, mask: u64) -> u64 {
        bits::extract(bits, mask)
    }

    /// The lowest bits of `bits`, moved to where `mask` is set: the inverse of
    /// [`Vector::extract_bits`].
    ///
    /// `deposit_bits(1 << n, mask)` is the `n`-th set bit of `mask`, counting from 0, or 0 when there
    /// are not that many.
    #[inline(always)]
    fn deposit_bits(self, bits: u64, mask: u64) -> u64 {
        bits::deposit(bits, mask)
    }

    /// Says that the cache line of `data[at]` will be read soon. `at` may lie beyond the end.
    #[inline(always)]
    fn prefetch(self, data: &[u8], at: usize) {
        let _ = (data, at);
    }

    /// As [`Vector::prefetch`], into the second-level cache: more can be under way, for later.
    #[inline(always)]
    fn prefetch_far(self, data: &[u8], at: usize) {
        let _ = (data, at);
    }
}

/// An algorithm that runs on any backend: its arguments.
pub trait Kernel {
    /// What it finds.
    type Output;

    /// The algorithm without vectors.
    fn run_scalar(self) -> Self::Output;

    /// The algorithm with vectors. Mark it, and every function that it hands `vector` to,
    /// `#[inline(always)]`: only what is inlined is compiled for the instructions.
    fn run<V: Vector>(self, vector: V) -> Self::Output;
}

pub(crate) mod private {
    /// Keeps other crates from making vectors that prove nothing.
    pub trait Sealed {}
}
