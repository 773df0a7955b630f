//! Windowed hashes at speed: the cuts of [`spec::windowed`](crate::spec::windowed).
//!
//! One hash needs the hash before, and that chain is what a plain loop waits for. But a hash is known
//! from its window alone, so it can be started anywhere: [`scan`] runs several lanes side by side.
//! Hashes ([`roll`]) and tests ([`fit`]) are types, so that each pair has a loop of its own.
//!
//! Boundaries in reserve count only in chunks that reach the maximum, which few do. They are looked
//! for in a second pass, from the maximum backwards.
//!
//! CRC-32 with a mask has a form with vector instructions, [`crc32`]. Gear's sums are not linear, and its
//! table of 256 random numbers of 64 bits would have to be gathered; with a mask that leaves the highest
//! bits out it goes by the loop of FastCDC, [`gear`](crate::gear).

mod crc32;
mod fit;
mod roll;
mod scan;

use ibid_simd::Backend;

use crate::gear::{self, Inverted};
use crate::{RollingHash, WindowedSettings};
use fit::{Divisor, Fit, Mask};
use roll::Roll;

/// Settings made ready to cut by.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    backend: Backend,
    size_min: usize,
    size_max: usize,
    hash: RollingHash,
    tests: Tests,
}

/// What a hash is asked for a boundary, and for one in reserve.
#[derive(Clone, Debug)]
enum Tests {
    Divisor(Divisor, Option<Divisor>),
    Mask(Mask, Option<Mask>),
}

impl Kernel {
    pub(crate) fn new(backend: Backend, settings: &WindowedSettings) -> Kernel {
        let reserve = settings.method.has_backup().then_some(settings.backup);
        let tests = if settings.method.has_mask() {
            Tests::Mask(Mask::new(settings.main), reserve.map(Mask::new))
        } else {
            Tests::Divisor(Divisor::new(settings.main), reserve.map(Divisor::new))
        };
        Kernel {
            backend,
            size_min: settings.size_min,
            size_max: settings.size_max,
            hash: settings.hash,
            tests,
        }
    }

    /// See [`spec::windowed`](crate::spec::windowed).
    pub(crate) fn cut(&self, data: &[u8]) -> usize {
        match self.hash {
            RollingHash::RabinKarp => self.cut_by::<roll::RabinKarp>(data),
            RollingHash::Cyclic => self.cut_by::<roll::Cyclic>(data),
            RollingHash::Rsync => self.cut_by::<roll::Rsync>(data),
            RollingHash::Rabin => self.cut_by::<roll::Rabin>(data),
            RollingHash::Crc32 => self.cut_by::<roll::Crc32>(data),
            RollingHash::Gear => self.cut_by::<roll::Gear>(data),
        }
    }

    fn cut_by<R: Roll>(&self, data: &[u8]) -> usize {
        match &self.tests {
            Tests::Divisor(main, reserve) => self.cut_where::<R, _>(data, main, reserve.as_ref()),
            Tests::Mask(main, reserve) => self.cut_where::<R, _>(data, main, reserve.as_ref()),
        }
    }

    fn cut_where<R: Roll, F: Fit>(&self, data: &[u8], main: &F, reserve: Option<&F>) -> usize {
        let end = data.len().min(self.size_max);
        if end < self.size_min {
            return end;
        }
        let data = &data[..end];
        let found = match main.as_mask() {
            Some(test) if R::IS_CRC32 => self.backend.run(crc32::First {
                data,
                least: self.size_min,
                test,
            }),
            Some(test) if R::IS_GEAR && gear::has_room(test.of_upper_half()) => {
                first_by_gear(data, self.size_min, test)
            }
            _ => scan::first::<R, F>(data, self.size_min, main),
        };
        if let Some(found) = found {
            return found;
        }
        match reserve {
            Some(reserve) if end == self.size_max => scan::last::<R, F>(data, self.size_min, reserve).unwrap_or(end),
            _ => end,
        }
    }
}

/// As [`scan::first`], by a loop for Gear.
fn first_by_gear(data: &[u8], least: usize, test: &Mask) -> Option<usize> {
    // The first length to be judged ends with the first byte that is scanned.
    let (before, after) = data.split_at(least - 1);
    let window = &before[before.len() - (roll::Gear::WINDOW - 1)..];
    let mut hash = gear::start::<Inverted>(window);
    Some(least + gear::scan::<Inverted>(after, &mut hash, test.of_upper_half())?)
}
