//! Parameters of the algorithms that hash a window.

use alloc::vec;
use alloc::vec::Vec;

use super::{SIZE_MAX_MOST, SIZE_MIN_LEAST, counted, in_order, in_range, word};
use crate::SettingsError;

/// The greatest divisor: at most one boundary in so many bytes.
const DIVISOR_MOST: usize = SIZE_MAX_MOST;

/// Parameters of the algorithms that hash a window; [`spec::windowed`](crate::spec::windowed) says
/// what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WindowedSettings {
    /// Bytes below which no chunk ends unless the data does. At least [`SIZE_MIN_LEAST`] and the
    /// [window](RollingHash::window) of the hash, and just that if the method has no minimum.
    pub size_min: usize,
    /// Bytes that the other parameters were chosen to give on average. It moves no cut.
    pub size_average: usize,
    /// Bytes at which a chunk ends whatever it holds. At most [`SIZE_MAX_MOST`].
    pub size_max: usize,
    /// The test of a hash, and which sizes have limits.
    pub method: Method,
    /// The hash and its window.
    pub hash: RollingHash,
    /// The divisor, 2 to 2^24; or the mask, not 0 (paper, figure 4: D).
    pub main: u32,
    /// The same for boundaries in reserve; a divisor is smaller than `main`, a mask has fewer bits.
    /// 0 if the method has none (paper, figure 4: D').
    pub backup: u32,
}

/// The condition that ends a chunk, by the names of *Throughput: A Key Performance Measure of
/// Content-Defined Chunking Algorithms*, section IV.
///
/// | | divisor | mask | least size | most size | boundaries in reserve |
/// |---|---|---|---|---|---|
/// | basic sliding window | `bsw` | `obsw` | – | – | – |
/// | two thresholds | `tt` | `ott` | yes | yes | – |
/// | two divisors | `td` | `otd` | – | yes | yes |
/// | two thresholds, two divisors | `tttd` | `otttd` | yes | yes | yes |
///
/// A method without a least size takes the smallest possible [`WindowedSettings::size_min`]. There
/// is always a most size: if the paper's method has none, choose one that chunks hardly ever reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Basic sliding window with a divisor.
    Bsw,
    /// Two thresholds with a divisor.
    Tt,
    /// Two divisors.
    Td,
    /// Two thresholds, two divisors.
    Tttd,
    /// Basic sliding window with a mask.
    Obsw,
    /// Two thresholds with a mask.
    Ott,
    /// Two masks.
    Otd,
    /// Two thresholds, two masks.
    Otttd,
}

impl Method {
    /// All of them; a repository writes down the place in this list.
    pub const ALL: [Method; 8] = [
        Method::Bsw,
        Method::Tt,
        Method::Td,
        Method::Tttd,
        Method::Obsw,
        Method::Ott,
        Method::Otd,
        Method::Otttd,
    ];

    /// Whether the user chooses a least size.
    #[must_use]
    pub fn has_minimum(self) -> bool {
        matches!(self, Method::Tt | Method::Tttd | Method::Ott | Method::Otttd)
    }

    /// Whether there are boundaries in reserve for chunks that would reach the maximum.
    #[must_use]
    pub fn has_backup(self) -> bool {
        matches!(self, Method::Td | Method::Tttd | Method::Otd | Method::Otttd)
    }

    /// Whether the test is a mask rather than a divisor.
    #[must_use]
    pub fn has_mask(self) -> bool {
        matches!(self, Method::Obsw | Method::Ott | Method::Otd | Method::Otttd)
    }
}

/// A hash of a window; [`spec::window_hash`](crate::spec::window_hash) computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RollingHash {
    /// Rabin-Karp with random numbers for bytes: 48 bytes.
    RabinKarp,
    /// Cyclic polynomial: 48 bytes.
    Cyclic,
    /// The sums of rsync: 48 bytes.
    Rsync,
    /// Rabin's fingerprint, the remainder by an irreducible polynomial: 48 bytes, as in LBFS.
    Rabin,
    /// CRC-32: 256 bytes.
    Crc32,
    /// Gear: 64 bytes.
    Gear,
}

impl RollingHash {
    /// All of them; a repository writes down the place in this list.
    pub const ALL: [RollingHash; 6] = [
        RollingHash::RabinKarp,
        RollingHash::Cyclic,
        RollingHash::Rsync,
        RollingHash::Rabin,
        RollingHash::Crc32,
        RollingHash::Gear,
    ];

    /// Returns the number of bytes that decide a hash.
    #[must_use]
    pub fn window(self) -> usize {
        match self {
            RollingHash::RabinKarp | RollingHash::Cyclic | RollingHash::Rsync | RollingHash::Rabin => 48,
            RollingHash::Crc32 => 256,
            RollingHash::Gear => 64,
        }
    }

    /// Returns the least minimum chunk size, which must hold a window.
    pub(crate) fn size_min_least(self) -> usize {
        self.window().max(SIZE_MIN_LEAST)
    }
}

impl WindowedSettings {
    /// See [`Settings::validate`](crate::Settings::validate).
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let least = self.hash.size_min_least();
        let most = if self.method.has_minimum() {
            SIZE_MAX_MOST
        } else {
            least
        };
        in_range("minimum chunk size", least, most, self.size_min)?;
        in_range("maximum chunk size", SIZE_MIN_LEAST, SIZE_MAX_MOST, self.size_max)?;
        in_order(self.size_min, self.size_average, self.size_max)?;
        let (main, backup) = (self.main as usize, self.backup as usize);
        match (self.method.has_mask(), self.method.has_backup()) {
            (false, false) => in_range("divisor", 2, DIVISOR_MOST, main)?,
            (false, true) => {
                in_range("divisor", 3, DIVISOR_MOST, main)?;
                in_range("divisor in reserve", 2, main - 1, backup)?;
            }
            (true, false) => in_range("bits in the mask", 1, 32, bits(self.main))?,
            (true, true) => {
                in_range("bits in the mask", 2, 32, bits(self.main))?;
                in_range("bits in the mask in reserve", 1, bits(self.main) - 1, bits(self.backup))?;
            }
        }
        if self.method.has_backup() {
            return Ok(());
        }
        in_range("divisor or mask in reserve", 0, 0, backup)
    }

    pub(super) fn to_words(self) -> Vec<u32> {
        vec![
            word(self.size_min),
            word(self.size_average),
            word(self.size_max),
            self.method as u32,
            self.hash as u32,
            self.main,
            self.backup,
        ]
    }

    pub(super) fn from_words(words: &[u32]) -> Result<WindowedSettings, SettingsError> {
        let [size_min, size_average, size_max, method, hash, main, backup] = counted("windowed hashes", words)?;
        in_range("method", 0, Method::ALL.len() - 1, method as usize)?;
        in_range("hash", 0, RollingHash::ALL.len() - 1, hash as usize)?;
        Ok(WindowedSettings {
            size_min: size_min as usize,
            size_average: size_average as usize,
            size_max: size_max as usize,
            method: Method::ALL[method as usize],
            hash: RollingHash::ALL[hash as usize],
            main,
            backup,
        })
    }
}

fn bits(mask: u32) -> usize {
    mask.count_ones() as usize
}
