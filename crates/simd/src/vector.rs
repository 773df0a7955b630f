//! The traits that kernels are written with.

use crate::bits;

/// Bytes in a block: as many as a mask has bits, and a multiple of the size of every register.
pub const BLOCK: usize = 64;

/// Operations on registers of bytes. A value proves that the CPU has the instructions.
///
/// Only [`Backend::run`](crate::Backend::run) makes a value, in a function that is compiled for its
/// instructions. All methods are inlined there. Called from a closure or function that is not
/// inlined into [`Kernel::run`], they return the same results, slowly.
///
/// Bytes are unsigned. A mask has one bit for every byte, the lowest for the first; higher bits are
/// 0.
pub trait Vector: Copy + private::Sealed {
    /// A register.
    type Register: Copy;

    /// Bytes in a register: 16, 32 or 64.
    const LANES: usize;

    /// Loads the bytes `from[at..at + LANES]`, at any alignment.
    ///
    /// # Panics
    /// If `from` ends before that. The check costs nothing where the compiler can prove it: use
    /// arrays (`first_chunk`) in loops.
    fn load(self, from: &[u8], at: usize) -> Self::Register;

    /// Loads 16 bytes of `from` into every 16 bytes of a register: the first at `at`, the next at
    /// `at + stride`, and so on.
    ///
    /// # Panics
    /// If `from` ends before that.
    fn load_strided(self, from: &[u8], at: usize, stride: usize) -> Self::Register;

    /// Writes the register to `into[at..at + LANES]`, at any alignment.
    ///
    /// # Panics
    /// If `into` ends before that.
    fn store(self, register: Self::Register, into: &mut [u8], at: usize);

    /// Returns `byte` in every lane.
    fn splat(self, byte: u8) -> Self::Register;

    /// Returns `bytes` in every 16 bytes.
    fn splat_16(self, bytes: &[u8; 16]) -> Self::Register;

    /// Returns the bytes of `number`, least significant first, in every four lanes.
    fn splat_u32(self, number: u32) -> Self::Register;

    /// Computes `a * b + c` in every four lanes, modulo 2^32, least significant byte first.
    fn multiply_add_u32(self, a: Self::Register, b: Self::Register, c: Self::Register) -> Self::Register;

    /// Returns the smaller number in every four lanes, least significant byte first.
    fn min_u32(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Returns the exclusive or of `a` and `b`.
    fn xor(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Returns the bits that `a` and `b` both have.
    fn and(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Returns the upper four bits of every byte, moved to the lower four.
    fn upper_nibbles(self, a: Self::Register) -> Self::Register;

    /// Looks up each byte of `index`, which is below 16, in the 16 bytes of `table` at the same
    /// place.
    fn lookup(self, table: Self::Register, index: Self::Register) -> Self::Register;

    /// Interleaves the first eight bytes of `a` and `b`, in every 16 bytes.
    fn zip_low(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Interleaves the last eight bytes of `a` and `b`, in every 16 bytes.
    fn zip_high(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Returns the larger byte in every lane.
    fn max(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Returns the smaller byte in every lane.
    fn min(self, a: Self::Register, b: Self::Register) -> Self::Register;

    /// Returns the mask of the lanes where `a >= b`.
    fn at_least(self, a: Self::Register, b: Self::Register) -> u64;

    /// Returns the mask of the lanes where `a < b`.
    fn below(self, a: Self::Register, b: Self::Register) -> u64;

    /// Returns the mask of the lanes where `a == b`.
    fn equal(self, a: Self::Register, b: Self::Register) -> u64;

    /// Returns the mask of the places where `a[at_a..] < b[at_b..]`, for [`BLOCK`] bytes.
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

    /// Returns the largest byte.
    #[inline(always)]
    fn largest(self, register: Self::Register) -> u8 {
        let mut bytes = [0; BLOCK];
        self.store(register, &mut bytes, 0);
        bytes.iter().fold(0, |largest, byte| largest.max(*byte))
    }

    /// Returns the least 32-bit number, least significant byte first.
    #[inline(always)]
    fn least_u32(self, register: Self::Register) -> u32 {
        let mut bytes = [u8::MAX; BLOCK];
        self.store(register, &mut bytes, 0);
        let (numbers, _) = bytes.as_chunks();
        numbers
            .iter()
            .fold(u32::MAX, |least, number| least.min(u32::from_le_bytes(*number)))
    }

    /// Loads eight bytes of `from` into every eight bytes of a register: the first at `at`, the
    /// next at `at + stride`, and so on.
    ///
    /// # Panics
    /// When they are not all there.
    #[inline(always)]
    fn load_strided_u64(self, from: &[u8], at: usize, stride: usize) -> Self::Register {
        let mut bytes = [0; BLOCK];
        for (number, eight) in bytes[..Self::LANES].chunks_exact_mut(8).enumerate() {
            eight.copy_from_slice(&from[at + number * stride..][..8]);
        }
        self.load(&bytes, 0)
    }

    /// Returns the bytes of `number`, least significant first, in every eight lanes.
    #[inline(always)]
    fn splat_u64(self, number: u64) -> Self::Register {
        let bytes = [number.to_le_bytes(); BLOCK / 8];
        self.load(bytes.as_flattened(), 0)
    }

    /// Computes `a + b` in every eight lanes, modulo 2^64, least significant byte first.
    #[inline(always)]
    fn add_u64(self, a: Self::Register, b: Self::Register) -> Self::Register {
        let (mut sums, mut addends) = ([0; BLOCK], [0; BLOCK]);
        self.store(a, &mut sums, 0);
        self.store(b, &mut addends, 0);
        let (sums_of_eight, _) = sums.as_chunks_mut();
        let (addends, _) = addends.as_chunks();
        for (sum, addend) in sums_of_eight.iter_mut().zip(addends) {
            *sum = u64::from_le_bytes(*sum)
                .wrapping_add(u64::from_le_bytes(*addend))
                .to_le_bytes();
        }
        self.load(&sums, 0)
    }

    /// Looks up byte `place` of every eight lanes of `index` in `table`, and returns the numbers in
    /// the same lanes, least significant byte first. `place` is below 8.
    ///
    /// AVX-512 has an instruction for it. The other sets load one number after another, which is
    /// faster even on many CPUs with the instruction: see
    /// [`Backend::gathers`](crate::Backend::gathers).
    ///
    /// # Panics
    /// If `place` is 8 or more, on backends without the instruction. With it, the result is then
    /// unspecified.
    #[inline(always)]
    fn gather_u64(self, table: &[u64; 256], index: Self::Register, place: usize) -> Self::Register {
        let mut bytes = [0; BLOCK];
        self.store(index, &mut bytes, 0);
        let (eights, _) = bytes.as_chunks_mut::<8>();
        for eight in eights {
            *eight = table[usize::from(eight[place])].to_le_bytes();
        }
        self.load(&bytes, 0)
    }

    /// Returns one bit for every eight lanes: set where all of `a & b` is 0.
    #[inline(always)]
    fn disjoint_u64(self, a: Self::Register, b: Self::Register) -> u64 {
        let mut bytes = [0; BLOCK];
        self.store(self.and(a, b), &mut bytes, 0);
        let (eights, _) = bytes[..Self::LANES].as_chunks::<8>();
        let bits = eights.iter().enumerate();
        bits.fold(0, |mask, (at, eight)| mask | u64::from(*eight == [0; 8]) << at)
    }

    /// Returns the number of bits that are set.
    #[inline(always)]
    fn count_ones(self, bits: u64) -> u32 {
        bits.count_ones()
    }

    /// Returns the bits of `bits` at which `mask` is set, packed at the low end.
    #[inline(always)]
    fn extract_bits(self, bits: u64, mask: u64) -> u64 {
        bits::extract(bits, mask)
    }

    /// Returns the lowest bits of `bits`, moved to the places where `mask` is set: the inverse of
    /// [`Vector::extract_bits`].
    ///
    /// `deposit_bits(1 << n, mask)` is the `n`-th set bit of `mask`, counting from 0, or 0 when
    /// there are not that many.
    #[inline(always)]
    fn deposit_bits(self, bits: u64, mask: u64) -> u64 {
        bits::deposit(bits, mask)
    }
}

/// An algorithm that runs on any backend: its arguments.
pub trait Kernel {
    /// The result.
    type Output;

    /// Runs the algorithm without vectors.
    fn run_scalar(self) -> Self::Output;

    /// Runs the algorithm with vectors. Mark it, and every function that it hands `vector` to,
    /// `#[inline(always)]`: only inlined functions are compiled for the instructions.
    fn run<V: Vector>(self, vector: V) -> Self::Output;
}

pub(crate) mod private {
    /// Keeps other crates from making vectors that prove nothing.
    pub trait Sealed {}
}
