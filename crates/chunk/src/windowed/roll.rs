//! Rolling hashes of a window, by tables.
//!
//! Each is a sum over the bytes of the window, of one kind or another, so the contribution of the
//! byte that leaves can be subtracted by itself.

use crate::spec::{GEAR, RABIN_KARP_MULTIPLIER, shift_in_crc32, shift_in_rabin};

/// A hash of the last [`Roll::WINDOW`] bytes.
pub(super) trait Roll: Copy {
    /// Bytes that decide a hash.
    const WINDOW: usize;
    /// Whether it is CRC-32, which has a vector form.
    const IS_CRC32: bool = false;
    /// Whether it is Gear, for which FastCDC has a loop.
    const IS_GEAR: bool = false;
    /// The hash of no bytes, or of zeros.
    const START: Self;

    /// Returns the hash with one more byte.
    fn enter(self, byte: u8) -> Self;

    /// Returns the hash of a whole window.
    #[inline(always)]
    fn of_window(window: &[u8]) -> Self {
        window.iter().fold(Self::START, |roll, byte| roll.enter(*byte))
    }

    /// Returns the hash after another byte entered and this one left.
    fn leave(self, byte: u8) -> Self;

    /// Returns the number that is tested.
    fn hash(self) -> u32;
}

/// Defines a table of the contribution of each byte to a hash after some steps, such as by the time
/// that it leaves.
macro_rules! leaving_table {
    ($name:ident: $number:ty, $byte:ident => $start:expr, $hash:ident => $shift:expr, $steps:expr) => {
        static $name: [$number; 256] = {
            let mut table = [0; 256];
            let mut byte = 0;
            while byte < 256 {
                let $byte = byte as u8;
                let mut $hash: $number = $start;
                let mut step = 0;
                while step < $steps {
                    $hash = $shift;
                    step += 1;
                }
                table[byte] = $hash;
                byte += 1;
            }
            table
        };
    };
}

#[derive(Clone, Copy)]
pub(super) struct RabinKarp(u32);

leaving_table!(RABIN_KARP: u32, byte => (GEAR[byte as usize] >> 32) as u32, hash => hash, 0);
leaving_table!(RABIN_KARP_LEAVING: u32, byte => (GEAR[byte as usize] >> 32) as u32,
    hash => hash.wrapping_mul(RABIN_KARP_MULTIPLIER), RabinKarp::WINDOW);

impl Roll for RabinKarp {
    const WINDOW: usize = 48;
    const START: RabinKarp = RabinKarp(0);

    #[inline(always)]
    fn enter(self, byte: u8) -> RabinKarp {
        let entering = RABIN_KARP[usize::from(byte)];
        RabinKarp(self.0.wrapping_mul(RABIN_KARP_MULTIPLIER).wrapping_add(entering))
    }

    #[inline(always)]
    fn leave(self, byte: u8) -> RabinKarp {
        RabinKarp(self.0.wrapping_sub(RABIN_KARP_LEAVING[usize::from(byte)]))
    }

    #[inline(always)]
    fn hash(self) -> u32 {
        self.0
    }
}

#[derive(Clone, Copy)]
pub(super) struct Cyclic(u64);

impl Roll for Cyclic {
    const WINDOW: usize = 48;
    const START: Cyclic = Cyclic(0);

    #[inline(always)]
    fn enter(self, byte: u8) -> Cyclic {
        Cyclic(self.0.rotate_left(1) ^ GEAR[usize::from(byte)])
    }

    #[inline(always)]
    fn leave(self, byte: u8) -> Cyclic {
        Cyclic(self.0 ^ GEAR[usize::from(byte)].rotate_left(Cyclic::WINDOW as u32))
    }

    #[inline(always)]
    fn hash(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The sum, and the sum of sums modulo 2^16.
#[derive(Clone, Copy)]
pub(super) struct Rsync(u32, u32);

impl Roll for Rsync {
    const WINDOW: usize = 48;
    const START: Rsync = Rsync(0, 0);

    #[inline(always)]
    fn enter(self, byte: u8) -> Rsync {
        let sum = self.0 + u32::from(byte);
        Rsync(sum, self.1.wrapping_add(sum))
    }

    /// The sum of sums counts the byte once for each of the window's bytes, and once more for the
    /// byte that has entered.
    #[inline(always)]
    fn leave(self, byte: u8) -> Rsync {
        let byte = u32::from(byte);
        Rsync(self.0 - byte, self.1.wrapping_sub((Rsync::WINDOW as u32 + 1) * byte))
    }

    #[inline(always)]
    fn hash(self) -> u32 {
        self.0 | self.1 << 16
    }
}

#[derive(Clone, Copy)]
pub(super) struct Rabin(u64);

leaving_table!(RABIN_LEAVING: u64, byte => byte as u64, hash => shift_in_rabin(hash, 0), Rabin::WINDOW);
// The remainder of the eight bits that an entering byte shifts past the polynomial. Bit 63 is still
// set in the hash when the entry is applied, so the entry clears it.
leaving_table!(
    RABIN_OVERFLOW: u64,
    byte => shift_in_rabin((byte as u64) << 55, 0) ^ (byte as u64) << 63,
    hash => hash,
    0
);

impl Roll for Rabin {
    const WINDOW: usize = 48;
    const START: Rabin = Rabin(0);

    #[inline(always)]
    fn enter(self, byte: u8) -> Rabin {
        // Of the hash's 63 bits, seven are shifted out, and the table clears the eighth, which
        // stays.
        let overflow = RABIN_OVERFLOW[(self.0 >> 55) as usize & 0xff];
        Rabin((self.0 << 8 | u64::from(byte)) ^ overflow)
    }

    #[inline(always)]
    fn leave(self, byte: u8) -> Rabin {
        Rabin(self.0 ^ RABIN_LEAVING[usize::from(byte)])
    }

    #[inline(always)]
    fn hash(self) -> u32 {
        self.0 as u32
    }
}

#[derive(Clone, Copy)]
pub(super) struct Crc32(u32);

leaving_table!(CRC32: u32, byte => shift_in_crc32(0, byte), hash => hash, 0);
leaving_table!(CRC32_LEAVING: u32, byte => shift_in_crc32(0, byte), hash => shift_in_crc32(hash, 0), Crc32::WINDOW);

/// The contribution of a byte that so many zeros follow, for eight bytes at a time.
static CRC32_BEFORE: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut zeros = 0;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = if zeros == 0 {
                byte as u32
            } else {
                tables[zeros - 1][byte]
            };
            tables[zeros][byte] = shift_in_crc32(before, 0);
            byte += 1;
        }
        zeros += 1;
    }
    tables
};

impl Roll for Crc32 {
    const WINDOW: usize = 256;
    const IS_CRC32: bool = true;
    const START: Crc32 = Crc32(0);

    /// Takes eight bytes at a time, each by a table of its own, so that the lookups do not wait for
    /// one another.
    fn of_window(window: &[u8]) -> Crc32 {
        let (steps, rest) = window.as_chunks::<8>();
        let crc = steps.iter().fold(0u32, |crc, step| {
            let register = u64::from_le_bytes(*step) ^ u64::from(crc);
            (0..8).fold(0, |crc, at| {
                crc ^ CRC32_BEFORE[7 - at][usize::from((register >> (8 * at)) as u8)]
            })
        });
        rest.iter().fold(Crc32(crc), |roll, byte| roll.enter(*byte))
    }

    #[inline(always)]
    fn enter(self, byte: u8) -> Crc32 {
        Crc32(self.0 >> 8 ^ CRC32[usize::from(self.0 as u8 ^ byte)])
    }

    #[inline(always)]
    fn leave(self, byte: u8) -> Crc32 {
        Crc32(self.0 ^ CRC32_LEAVING[usize::from(byte)])
    }

    #[inline(always)]
    fn hash(self) -> u32 {
        self.0
    }
}

#[derive(Clone, Copy)]
pub(super) struct Gear(u64);

impl Roll for Gear {
    const WINDOW: usize = 64;
    const IS_GEAR: bool = true;
    const START: Gear = Gear(0);

    #[inline(always)]
    fn enter(self, byte: u8) -> Gear {
        Gear((self.0 << 1).wrapping_add(GEAR[usize::from(byte)]))
    }

    /// The byte has been shifted out already.
    #[inline(always)]
    fn leave(self, _: u8) -> Gear {
        self
    }

    #[inline(always)]
    fn hash(self) -> u32 {
        (self.0 >> 32) as u32
    }
}
