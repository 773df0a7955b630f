//! CRC-32 with vector instructions (SS-CRC in *Vectorized Sequence-Based Chunking*; the idea is
//! from Ni, Lin and Jiang, *SS-CDC: A Two-stage Parallel Content-Defined Chunking*, SYSTOR 2019):
//! many heads mark places that fit side by side, and the first place is the cut.
//!
//! Each byte of a register is a head, which reads [`STEPS`] bytes of its own. Its CRC is spread
//! over four registers, one for each byte of it. A table of 256 numbers would have to be gathered
//! from memory. But a CRC is linear: the contribution of a byte is that of its upper four bits xor
//! that of its lower four bits, and tables of 16 bytes fit in registers.
//!
//! 1. The bytes are loaded 16 at a time from each head's place and transposed.
//! 2. Every head computes the CRC of its own bytes alone.
//! 3. The CRC of the window before a head combines those of the four heads before it, each advanced
//!    by as many zeros as there are bytes after it. That is one more linear function.
//! 4. Every head then rolls its window over its bytes. The bytes that leave are those that the head
//!    four places before read. A head that meets a place that fits ends the search for the heads
//!    after it.
//!
//! The first four heads have no window before them and only serve the others.

use ibid_simd::{Kernel, Vector};

use super::fit::Mask;
use super::roll::Crc32;
use super::{Roll, scan};
use crate::spec::shift_in_crc32;

/// Bytes that a head reads.
const STEPS: usize = 64;
/// Heads whose bytes make up a window.
const HEADS_BEFORE: usize = Crc32::WINDOW / STEPS;
/// The most heads: bytes in the largest register.
const HEADS_MOST: usize = 64;
/// Bytes loaded at once for each head.
const GROUP: usize = 16;

/// The search for the first length, from `least` on, whose hash fits.
pub(super) struct First<'a> {
    pub(super) data: &'a [u8],
    pub(super) least: usize,
    pub(super) test: &'a Mask,
}

impl Kernel for First<'_> {
    type Output = Option<usize>;

    fn run_scalar(self) -> Option<usize> {
        scan::first::<Crc32, Mask>(self.data, self.least, self.test)
    }

    #[inline(always)]
    fn run<V: Vector>(self, vector: V) -> Option<usize> {
        let mut heads = Heads::new(vector, self.test.mask());
        let mut least = self.least;
        // A head's first hash is that of the window before its bytes, so the heads that serve the
        // others read the window before `least`.
        while let Some(bytes) = self.data[least - Crc32::WINDOW..].get(..V::LANES * STEPS) {
            if let Some(found) = heads.first(bytes) {
                return Some(least - Crc32::WINDOW + found);
            }
            least += V::LANES * STEPS - Crc32::WINDOW;
        }
        scan::first::<Crc32, Mask>(self.data, least, self.test)
    }
}

/// A linear function from a byte to four, as tables for its lower and upper four bits.
type Linear = [[[u8; 16]; 2]; 4];

/// The contribution of a byte to a CRC as it enters.
static ENTERING: Linear = after_zeros(0, 0);
/// The contribution of a byte to a CRC as it leaves.
static LEAVING: Linear = after_zeros(0, Crc32::WINDOW);
/// The bytes of a CRC advanced by the zeros of all steps of a head.
static PASSING: [Linear; 4] = {
    let steps = STEPS - 1;
    [
        after_zeros(0, steps),
        after_zeros(1, steps),
        after_zeros(2, steps),
        after_zeros(3, steps),
    ]
};

/// Returns the function that advances a byte of a CRC, counted from the lowest, by `zeros` + 1
/// zeros.
const fn after_zeros(byte: u32, zeros: usize) -> Linear {
    let mut tables = [[[0; 16]; 2]; 4];
    let mut entry = 0;
    while entry < 32 {
        let (upper, nibble) = (entry / 16, entry % 16);
        let mut crc = (nibble as u32) << (4 * upper) << (8 * byte);
        let mut zero = 0;
        while zero <= zeros {
            crc = shift_in_crc32(crc, 0);
            zero += 1;
        }
        let mut place = 0;
        while place < 4 {
            tables[place][upper][nibble] = (crc >> (8 * place)) as u8;
            place += 1;
        }
        entry += 1;
    }
    tables
}

/// A [`Linear`] in registers.
type Tables<V> = [[<V as Vector>::Register; 2]; 4];
/// The CRCs of all heads, lowest bytes first.
type Crcs<V> = [<V as Vector>::Register; 4];

/// The bytes of all heads, one row for each step. The first entries of a row are free, so that a
/// head can load the bytes of the head four before it.
type Rows = [[u8; HEADS_BEFORE + HEADS_MOST]; STEPS];

struct Heads<V: Vector> {
    vector: V,
    rows: Rows,
    mask: [V::Register; 4],
    /// The lower four bits of every byte.
    lower: V::Register,
    zero: V::Register,
    entering: Tables<V>,
    leaving: Tables<V>,
}

impl<V: Vector> Heads<V> {
    #[inline(always)]
    fn new(vector: V, mask: u32) -> Heads<V> {
        Heads {
            vector,
            rows: [[0; HEADS_BEFORE + HEADS_MOST]; STEPS],
            mask: mask.to_le_bytes().map(|byte| vector.splat(byte)),
            lower: vector.splat(0x0f),
            zero: vector.splat(0),
            entering: tables(vector, &ENTERING),
            leaving: tables(vector, &LEAVING),
        }
    }

    /// Returns the first length, from a window on, at which the hash of the last window of
    /// `bytes[..length]` fits.
    #[inline(always)]
    fn first(&mut self, bytes: &[u8]) -> Option<usize> {
        self.transpose(bytes);
        let mut crcs = self.windows_before();
        // The heads that can still find an earlier place.
        let mut heads = u64::MAX >> (64 - V::LANES) & (u64::MAX << HEADS_BEFORE);
        let mut best = None;
        for (step, row) in self.rows.iter().enumerate() {
            let fits = self.fits(crcs) & heads;
            if fits != 0 {
                let head = fits.trailing_zeros();
                best = Some(head as usize * STEPS + step);
                heads &= (1 << head) - 1;
            }
            let entered = self.enter(crcs, self.vector.load(row, HEADS_BEFORE));
            let left = self.apply(&self.leaving, self.vector.load(row, 0));
            crcs = self.xor(entered, left);
        }
        best
    }

    /// Fills the rows.
    #[inline(always)]
    fn transpose(&mut self, bytes: &[u8]) {
        let vector = self.vector;
        for group in (0..STEPS).step_by(GROUP) {
            // Register n has head n and the heads 16, 32 and 48 after it.
            let mut registers = [self.zero; GROUP];
            for (head, register) in registers.iter_mut().enumerate() {
                *register = vector.load_strided(bytes, head * STEPS + group, GROUP * STEPS);
            }
            // Each zip interleaves registers that are half of all apart; four zips transpose.
            for _ in 0..4 {
                let (low, high) = registers.split_at(GROUP / 2);
                let mut zipped = [self.zero; GROUP];
                for (pair, (low, high)) in low.iter().zip(high).enumerate() {
                    zipped[2 * pair] = vector.zip_low(*low, *high);
                    zipped[2 * pair + 1] = vector.zip_high(*low, *high);
                }
                registers = zipped;
            }
            for (row, register) in self.rows[group..].iter_mut().zip(registers) {
                vector.store(register, row, HEADS_BEFORE);
            }
        }
    }

    /// Returns the CRC of the window before each head.
    #[inline(always)]
    fn windows_before(&self) -> Crcs<V> {
        let vector = self.vector;
        let mut own = [self.zero; 4];
        for row in &self.rows {
            own = self.enter(own, vector.load(row, HEADS_BEFORE));
        }
        // They are stored so that they can be loaded at an offset of some heads.
        let mut stored = [[0; HEADS_BEFORE + HEADS_MOST]; 4];
        for (bytes, register) in stored.iter_mut().zip(own) {
            vector.store(register, bytes, HEADS_BEFORE);
        }
        let mut crcs = [self.zero; 4];
        for head in 0..HEADS_BEFORE {
            let mut passed = [self.zero; 4];
            for (tables_of_byte, byte) in PASSING.iter().zip(crcs) {
                passed = self.xor(passed, self.apply(&tables(vector, tables_of_byte), byte));
            }
            let mut next = [self.zero; 4];
            for (register, bytes) in next.iter_mut().zip(&stored) {
                *register = vector.load(bytes, head);
            }
            crcs = self.xor(passed, next);
        }
        crcs
    }

    /// Returns the CRCs with one more byte.
    #[inline(always)]
    fn enter(&self, crcs: Crcs<V>, bytes: V::Register) -> Crcs<V> {
        let [first, second, third, fourth] = crcs;
        let added = self.apply(&self.entering, self.vector.xor(first, bytes));
        self.xor([second, third, fourth, self.zero], added)
    }

    #[inline(always)]
    fn apply(&self, tables: &Tables<V>, bytes: V::Register) -> Crcs<V> {
        let vector = self.vector;
        let (lower, upper) = (vector.and(bytes, self.lower), vector.upper_nibbles(bytes));
        let mut result = [self.zero; 4];
        for (register, [of_lower, of_upper]) in result.iter_mut().zip(tables) {
            *register = vector.xor(vector.lookup(*of_lower, lower), vector.lookup(*of_upper, upper));
        }
        result
    }

    #[inline(always)]
    fn xor(&self, a: Crcs<V>, b: Crcs<V>) -> Crcs<V> {
        let mut result = a;
        for (register, other) in result.iter_mut().zip(b) {
            *register = self.vector.xor(*register, other);
        }
        result
    }

    /// Returns the heads whose CRC has all bits of the mask.
    #[inline(always)]
    fn fits(&self, crcs: Crcs<V>) -> u64 {
        let vector = self.vector;
        let mut least = vector.splat(u8::MAX);
        for (register, mask) in crcs.into_iter().zip(self.mask) {
            // 255 if the byte has all bits of its mask: the bits outside count as set.
            let outside = vector.xor(mask, vector.splat(u8::MAX));
            least = vector.and(least, vector.xor(vector.and(register, mask), outside));
        }
        vector.equal(least, vector.splat(u8::MAX))
    }
}

#[inline(always)]
fn tables<V: Vector>(vector: V, linear: &Linear) -> Tables<V> {
    let mut tables = [[vector.splat(0); 2]; 4];
    for (registers, bytes) in tables.iter_mut().zip(linear) {
        for (register, bytes) in registers.iter_mut().zip(bytes) {
            *register = vector.splat_16(bytes);
        }
    }
    tables
}
