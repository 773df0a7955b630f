//! Chunkers by the three sizes that papers state: minimum, average, maximum.

use ibid_chunk::{ArgminSettings, FastCdcSettings, SIZE_MAX_MOST, SeqCdcSettings, WindowedSettings};
use ibid_chunk::{Settings, SettingsError};

/// The smallest and the largest average for which parameters of SeqCDC are known.
const SEQCDC_AVERAGES: (usize, usize) = (256, SIZE_MAX_MOST / 2);

/// Sizes of chunks, as RapidCDC states them: "4KB-8KB-12KB (for the minimum, expected average, and
/// maximum chunk sizes)".
///
/// [`Settings::for_average`] corrects for minimum and maximum so that the average comes out. This
/// type takes all three sizes as they are: past the minimum, the expected distance to a boundary is
/// `average - min` bytes, and the maximum cuts some chunks short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChunkSizes {
    /// Smallest chunk, bytes; only the last chunk of the data may be smaller.
    pub min: usize,
    /// The minimum and the expected distance from there to a boundary if there were no maximum,
    /// bytes.
    pub average: usize,
    /// Largest chunk, bytes.
    pub max: usize,
}

impl ChunkSizes {
    /// 4, 8 and 12 KiB: the sizes of RapidCDC (§2 and §4.1) and of Data Domain. On random bytes, a
    /// windowed hash gives chunks of 7.5 KiB on average with them.
    pub const DATA_DOMAIN: ChunkSizes = ChunkSizes {
        min: 4 << 10,
        average: 8 << 10,
        max: 12 << 10,
    };

    /// 2, 16 and 64 KiB: the other sizes of RapidCDC (§4.1), which LBFS has.
    pub const LBFS: ChunkSizes = ChunkSizes {
        min: 2 << 10,
        average: 16 << 10,
        max: 64 << 10,
    };

    /// Returns the settings of the chunker `name`, one of [`NAMES`](ibid_chunk::NAMES), with these
    /// sizes.
    ///
    /// - Windowed hashes with a divisor: the divisor is `average - min`, the backup divisor half of
    ///   it.
    /// - Windowed hashes with a mask (`rabin`, `gear`, `crc32` …): the number of bits in the mask
    ///   gives the power of two nearest to `average - min`; the backup mask has one bit less.
    /// - Of these, `bsw`, `td`, `obsw` and `otd` have no minimum; they use the smallest possible
    ///   one.
    /// - `fastcdc`: all three, rounded down to even numbers, and normalisation 2. Sizes concentrate
    ///   above the average: 9.3 KiB with [`ChunkSizes::DATA_DOMAIN`].
    /// - `seqcdc`: all three. Sequence and skips are the usual ones for `2 * (average - min)`,
    ///   which put a boundary `average - min` after the minimum.
    /// - `argmin`, `argmin8`: minimum and maximum; the average chunk size is halfway between them.
    ///   The requested average has no effect.
    /// - `fixed`, `ae`, `ae-min`, `ram`, `maxp`: the average alone, as in [`Settings::for_average`].
    ///
    /// ```
    /// use ibid_bench::ChunkSizes;
    ///
    /// let rabin = ChunkSizes::DATA_DOMAIN.settings("rabin")?;
    /// assert_eq!((rabin.size_min(), rabin.size_average(), rabin.size_max()), (4096, 8192, 12_288));
    /// # Ok::<(), ibid_chunk::SettingsError>(())
    /// ```
    ///
    /// # Errors
    /// No chunker has that name, the sizes are not in order, or they are outside the chunker's
    /// limits.
    pub fn settings(self, name: &str) -> Result<Settings, SettingsError> {
        let ChunkSizes { min, average, max } = self;
        if min > average || average > max {
            return Err(SettingsError::OutOfOrder {
                size_min: min,
                size_average: average,
                size_max: max,
            });
        }
        let settings = match Settings::for_average(name, average)? {
            Settings::Windowed(usual) => Settings::Windowed(self.windowed(usual)),
            Settings::FastCdc(usual) => Settings::FastCdc(FastCdcSettings {
                size_min: even(min),
                size_average: even(average),
                size_max: even(max),
                ..usual
            }),
            Settings::Argmin(usual) => Settings::Argmin(ArgminSettings {
                size_min: min,
                size_average: average,
                size_max: max,
                ..usual
            }),
            Settings::SeqCdc(_) => self.seqcdc()?,
            by_average => by_average,
        };
        settings.validate()?;
        Ok(settings)
    }

    fn windowed(self, usual: WindowedSettings) -> WindowedSettings {
        let method = usual.method;
        let size_min = if method.has_minimum() { self.min } else { usual.size_min };
        // At least 4, so that a backup divisor or mask is possible.
        let distance = self.average.saturating_sub(size_min).max(4);
        let (main, backup) = if method.has_mask() {
            let bits = nearest_power(distance);
            (mask(usual.main, bits), mask(usual.main, bits - 1))
        } else {
            (distance as u32, distance as u32 / 2)
        };
        WindowedSettings {
            size_min,
            size_average: self.average,
            size_max: self.max,
            main,
            backup: if method.has_backup() { backup } else { 0 },
            ..usual
        }
    }

    fn seqcdc(self) -> Result<Settings, SettingsError> {
        let (least, most) = SEQCDC_AVERAGES;
        let twice = (2 * (self.average - self.min)).clamp(least, most);
        Ok(match Settings::for_average("seqcdc", twice)? {
            Settings::SeqCdc(usual) => Settings::SeqCdc(SeqCdcSettings {
                size_min: self.min,
                size_average: self.average,
                size_max: self.max,
                ..usual
            }),
            other => other,
        })
    }
}

fn even(size: usize) -> usize {
    size - size % 2
}

/// Returns the exponent of the power of two that is nearest on the logarithmic scale. It uses whole
/// numbers only, so that every machine gets the same.
fn nearest_power(n: usize) -> u32 {
    let below = n.ilog2();
    let square = (n as u128) * (n as u128);
    below + u32::from(square >> (2 * below + 1) != 0)
}

/// Returns a mask of `bits` bits that begins where the usual mask of the hash begins.
fn mask(usual: u32, bits: u32) -> u32 {
    !(u32::MAX >> bits) >> usual.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_power_is_nearest_on_the_logarithmic_scale() {
        let found = [2, 3, 4, 5, 6, 4096, 5792, 5793, 14 << 10].map(nearest_power);
        assert_eq!(found, [1, 2, 2, 2, 3, 12, 12, 13, 14]);
    }
}
