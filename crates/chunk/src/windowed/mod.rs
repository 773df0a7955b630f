//! Windowed hashes at speed: the cuts of [`spec::windowed`](crate::spec::windowed).
//!
//! Each hash needs the hash before, and a plain loop waits for that chain. But a hash depends on
//! its window alone, so it can be started anywhere: [`scan`] runs several lanes side by side.
//! Hashes ([`roll`]) and tests ([`fit`]) are types, so that the compiler makes one loop for each
//! pair.
//!
//! Boundaries in reserve count only in the few chunks that reach the maximum. A second pass
//! searches for them from the maximum backwards.
//!
//! CRC-32 with a mask has a vector form, [`crc32`]. So has Gear, [`gear`], but it gathers from a
//! table of 256 random 64-bit numbers, and only the backend `avx512-gather` uses it. On the others,
//! Gear with a mask without the highest bits uses the loop of FastCDC, [`crate::gear`].

mod crc32;
mod fit;
mod gear;
mod roll;
mod scan;

use fit::{Divisor, Fit, Mask};
use ibid_simd::{Backend, Kernel as _};
use roll::Roll;

use crate::gear::has_room;
use crate::{RollingHash, WindowedSettings};

/// Settings prepared for cutting.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    backend: Backend,
    size_min: usize,
    size_max: usize,
    hash: RollingHash,
    tests: Tests,
}

/// The tests for a boundary and for a boundary in reserve.
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

    /// Whether the window at the end of `chunk` fits; see [`spec::fits_at`](crate::spec::fits_at).
    pub(crate) fn fits_at_end_of(&self, chunk: &[u8]) -> bool {
        match self.hash {
            RollingHash::RabinKarp => self.fits_by::<roll::RabinKarp>(chunk),
            RollingHash::Cyclic => self.fits_by::<roll::Cyclic>(chunk),
            RollingHash::Rsync => self.fits_by::<roll::Rsync>(chunk),
            RollingHash::Rabin => self.fits_by::<roll::Rabin>(chunk),
            RollingHash::Crc32 => self.fits_by::<roll::Crc32>(chunk),
            RollingHash::Gear => self.fits_by::<roll::Gear>(chunk),
        }
    }

    fn fits_by<R: Roll>(&self, chunk: &[u8]) -> bool {
        let Some(window) = chunk.len().checked_sub(R::WINDOW).map(|start| &chunk[start..]) else {
            return false;
        };
        let hash = R::of_window(window).hash();
        match &self.tests {
            Tests::Divisor(main, _) => main.fits(hash),
            Tests::Mask(main, _) => main.fits(hash),
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
        let (data, least) = (&data[..end], self.size_min);
        let found = match main.as_mask() {
            Some(test) if R::IS_CRC32 => self.backend.run(crc32::First { data, least, test }),
            Some(test) if R::IS_GEAR && self.backend.gathers() => self.backend.run(gear::First { data, least, test }),
            Some(test) if R::IS_GEAR && has_room(test.of_upper_half()) => {
                gear::First { data, least, test }.run_scalar()
            }
            _ => scan::first::<R, F>(data, least, main),
        };
        if let Some(found) = found {
            return found;
        }
        match reserve {
            Some(reserve) if end == self.size_max => scan::last::<R, F>(data, least, reserve).unwrap_or(end),
            _ => end,
        }
    }
}
