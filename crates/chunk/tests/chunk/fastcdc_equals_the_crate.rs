//! FastCDC cuts where the `fastcdc` crate cuts: for averages that are powers of two and others, for
//! every normalisation and every kind of data.

use fastcdc::v2020::{FastCDC, Normalization};
use ibid_chunk::{Chunker, FastCdcSettings, Settings, chunks};
use proptest::prelude::*;

use crate::data::{KINDS, random, structured};

fn assert_equal_cuts(settings: FastCdcSettings, data: &[u8]) {
    let level = match settings.normalisation {
        0 => Normalization::Level0,
        1 => Normalization::Level1,
        2 => Normalization::Level2,
        _ => Normalization::Level3,
    };
    let FastCdcSettings {
        size_min,
        size_average,
        size_max,
        ..
    } = settings;
    let theirs = FastCDC::with_level(data, size_min, size_average, size_max, level).map(|chunk| chunk.length);
    let chunker = Chunker::new(&Settings::FastCdc(settings)).unwrap();
    let ours = chunks(&chunker, data).map(<[u8]>::len);
    assert!(ours.eq(theirs), "{settings:?}, {} bytes", data.len());
}

fn around(size_average: usize, normalisation: u8) -> FastCdcSettings {
    let even = |size: usize| size - size % 2;
    FastCdcSettings {
        size_min: even(size_average / 4).max(64),
        size_average,
        size_max: (8 * size_average).clamp(1024, 16 << 20),
        normalisation,
    }
}

/// Every average from 256 bytes to 4 MiB that is a power of two, one beside it, or near the
/// geometric middle of two, where the crate's rounded logarithm goes from one mask to the next.
#[test]
fn at_every_power_of_two_and_between_them() {
    let data = random(2020, 3 << 20);
    for bits in 8..22u32 {
        let power = 1usize << bits;
        let middle = (f64::from(power as u32) * std::f64::consts::SQRT_2) as usize & !1;
        for average in [power, power + 2, middle - 2, middle, middle + 2, 2 * power - 2] {
            for normalisation in 0..4 {
                // Small chunks need less data for the same number of cuts.
                let len = data.len().min(average * 600);
                assert_equal_cuts(around(average, normalisation), &data[..len]);
            }
        }
    }
    assert_equal_cuts(around(4 << 20, 3), &data);
}

#[test]
fn for_every_kind_and_length_of_data() {
    for kind in 0..KINDS {
        let data = structured(kind, 5, 60_000);
        for average in [256, 300, 1000, 5000, 16_384] {
            for normalisation in 0..4 {
                assert_equal_cuts(around(average, normalisation), &data);
            }
        }
        for len in 0..700 {
            assert_equal_cuts(around(256, 1), &data[..len]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn for_any_valid_settings(
        size_min in 32usize..2000, more in 0usize..4000, much_more in 0usize..20_000, normalisation in 0u8..4,
        kind in 0..KINDS, seed: u64, len in 0usize..100_000,
    ) {
        let size_average = (2 * (size_min + more)).max(256);
        let settings = FastCdcSettings {
            size_min: 2 * size_min,
            size_average,
            size_max: (size_average + 2 * much_more).max(1024),
            normalisation,
        };
        assert_equal_cuts(settings, &structured(kind, seed, len));
    }
}
