//! The usual parameters for an average size.

use alloc::borrow::ToOwned;

use crate::names;
use crate::settings::in_range;
use crate::{ArgminWindow, Equal, Extremum, FastCdcSettings, FixedSettings, Mode, SIZE_MAX_MOST};
use crate::{SeqCdcSettings, Settings, SettingsError};

mod hashless;
mod windowed;

/// How often random bytes complete a sequence of `pairs` ascents, with equal neighbours absorbed.
struct Rarity {
    /// The length of the sequence.
    pairs: u32,
    /// Pairs scanned on average before it is complete.
    scanned: usize,
    /// Sequences completed per million skips, if 50 opposing pairs start a skip: the inverse of the
    /// mean number of stretches between skips until one holds the sequence.
    sequences_per_million_skips: usize,
}

const fn rarity(pairs: u32, scanned: usize, sequences_per_million_skips: usize) -> Rarity {
    Rarity {
        pairs,
        scanned,
        sequences_per_million_skips,
    }
}

/// From frequent sequences to rare ones.
///
/// The second column was solved exactly from the linear equations of (ascents so far, last byte);
/// `examples/search.rs` finds it again with random data. With `s` pairs scanned, and 100.4 of them
/// between skips (50 opposing ones), the third is `exp(100.4 / s) - 1`.
const RARITIES: [Rarity; 6] = [
    rarity(4, 147, 983_500),
    rarity(5, 873, 121_830),
    rarity(6, 6114, 16_557),
    rarity(7, 49_312, 2038),
    rarity(8, 450_682, 223),
    rarity(9, 4_606_067, 22),
];

/// Opposing pairs before a skip, as in SeqCDC, Table 1.
const SKIP_TRIGGER: u32 = 50;

impl Settings {
    /// Returns settings that realise about `average` bytes a chunk on random data, by algorithm
    /// name.
    ///
    /// | name | minimum | maximum | average, limits | otherwise |
    /// |---|---|---|---|---|
    /// | `seqcdc` | 1/2 | 2 | 256 bytes to 8 MiB | increasing, equal neighbours absorbed; see below |
    /// | `fastcdc` | 1/4 | 8, at most 16 MiB | 256 bytes to 4 MiB | normalisation 2; even sizes, rounded down |
    /// | `fixed` | 1 | 1 | 64 bytes to 16 MiB | |
    /// | `ae`, `ae-min` | by the window | 4 | 256 bytes to 4 MiB | window about 256 bytes below the average |
    /// | `ram` | by the window | 4 | 256 bytes to 4 MiB | the window about 256 bytes below the average |
    /// | `maxp` | by the radius | 4 | 256 bytes to 4 MiB | |
    /// | `argmin`, `argmin8` | 1/2 | 1.455 | 256 bytes to 8 MiB | hashes of 4, of 8 bytes |
    /// | `bsw/…` | 64 bytes | 16, at most 16 MiB | 256 bytes to 4 MiB | the divisor |
    /// | `tt/…` | 0.46 | 4 | the same | the divisor |
    /// | `td/…`, `tttd/…` | 64 bytes, 0.46 | 2.8 | the same | the divisor and its half |
    /// | `obsw/…` | 64 bytes | 16, at most 16 MiB | the same | the number of bits in the mask |
    /// | `ott/…` | 1/4 to 5/8 | 4 | the same | bits in the mask, and the minimum to make up for powers of two |
    /// | `otd/…`, `otttd/…` | 64 bytes, 1/4 to 5/8 | 2.8 | the same | the same, and one bit less in reserve |
    ///
    /// With CRC-32, whose window is 256 bytes, all minima are at least that, and the least average
    /// is 1 KiB. `obsw` and `otd` cannot make up for powers of two: they come within a factor of
    /// 1.45. Rsync's hashes are not uniform (*CDC Throughput*, figure 3), so their realised
    /// averages are further from the requested ones.
    ///
    /// Windows and radii of the hashless algorithms follow from expectations over random bytes.
    ///
    /// **SeqCDC.** 4096, 8192 and 16384 are the settings that the paper published (Table 1: five
    /// pairs, and a minimum of 1 KiB at 4096), whose realised averages on random data are 3.5, 6.9
    /// and 13.0 KiB. Every other average takes the longest sequence that is frequent enough in
    /// random data, and the skip after 50 opposing pairs that brings the realised average to within
    /// 10 % of the requested one. That keeps skips near SeqCDC's 256 to 512 bytes (32 KiB: six
    /// pairs, skip 186; 64 KiB: six pairs, skip 473). A longer skip with a shorter sequence
    /// resynchronises less often after an edit.
    ///
    /// Skips trade savings for speed, more so at larger averages. `examples/savings.rs` finds, for
    /// ten edited versions of random data at 64 KiB, deduplication ratios of 1.4 with these
    /// settings, 1.1 with five pairs and skips of 4000, 2.1 with seven pairs, no skips and a
    /// minimum of 24 KiB, and 2.4 with `fastcdc`.
    ///
    /// # Errors
    /// When no algorithm has that name or the average is outside its limits.
    pub fn for_average(name: &str, average: usize) -> Result<Settings, SettingsError> {
        match name {
            "seqcdc" => seqcdc_for_average(average).map(Settings::SeqCdc),
            "fastcdc" => fastcdc_for_average(average).map(Settings::FastCdc),
            "fixed" => {
                let settings = FixedSettings { size: average };
                settings.validate()?;
                Ok(Settings::Fixed(settings))
            }
            "ae" => hashless::ae(average, Extremum::Max).map(Settings::Ae),
            "ae-min" => hashless::ae(average, Extremum::Min).map(Settings::Ae),
            "ram" => hashless::ram(average).map(Settings::Ram),
            "maxp" => hashless::maxp(average).map(Settings::Maxp),
            "argmin" => hashless::argmin(average, ArgminWindow::Bytes4).map(Settings::Argmin),
            "argmin8" => hashless::argmin(average, ArgminWindow::Bytes8).map(Settings::Argmin),
            found => match names::find_windowed(found) {
                Some((method, hash)) => windowed::windowed(method, hash, average).map(Settings::Windowed),
                None => Err(SettingsError::UnknownName {
                    found: found.to_owned(),
                }),
            },
        }
    }
}

fn fastcdc_for_average(average: usize) -> Result<FastCdcSettings, SettingsError> {
    in_range("average chunk size", 256, 4 << 20, average)?;
    let even = |size: usize| size - size % 2;
    let settings = FastCdcSettings {
        size_min: even(average / 4),
        size_average: even(average),
        size_max: (even(average) * 8).min(SIZE_MAX_MOST),
        normalisation: 2,
    };
    settings.validate()?;
    Ok(settings)
}

fn seqcdc_for_average(average: usize) -> Result<SeqCdcSettings, SettingsError> {
    in_range("average chunk size", 256, SIZE_MAX_MOST / 2, average)?;
    let (size_min, seq_length, skip_trigger, skip_size) = match average {
        4096 => (1024, 5, 55, 256),
        8192 => (4096, 5, 50, 256),
        16_384 => (8192, 5, 50, 512),
        _ => {
            let (seq_length, skip_size) = sequence_for_average(average);
            let skip_trigger = if skip_size == 0 { 0 } else { SKIP_TRIGGER };
            (average / 2, seq_length, skip_trigger, skip_size)
        }
    };
    let settings = SeqCdcSettings {
        size_min,
        size_average: average,
        size_max: 2 * average,
        mode: Mode::Increasing,
        equal: Equal::Absorb,
        seq_length,
        skip_trigger,
        skip_size,
    };
    settings.validate()?;
    Ok(settings)
}

/// Returns the sequence length and skip size at which boundaries come on average half of `average`
/// after the minimum.
///
/// The distance is close to exponentially distributed and is cut short at the maximum, three halves
/// of `average` on; its mean before that must then be 0.53 of `average` for half of it to remain.
/// The sequence needs some of that distance as scanned pairs; skips fill the rest.
fn sequence_for_average(average: usize) -> (u32, u32) {
    let distance = average * 53 / 100;
    let rarity = RARITIES
        .iter()
        .rev()
        // A sequence that is slightly too rare stays within the tolerance without any skip.
        .find(|rarity| rarity.scanned <= distance + distance / 8)
        .unwrap_or(&RARITIES[0]);
    let skipped = distance.saturating_sub(rarity.scanned) as u64;
    let skip_size = skipped * rarity.sequences_per_million_skips as u64 / 1_000_000;
    // A skip of a few bytes costs more than it saves.
    (rarity.pairs, if skip_size < 16 { 0 } else { skip_size as u32 })
}
