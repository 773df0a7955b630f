//! Constant and periodic data have no content to cut by. Their chunk sizes are those that the
//! crate's front page states.

use ibid_chunk::{Chunker, Equal, Mode, NAMES, SeqCdcSettings, Settings, chunks};

use crate::data::random;

const AVERAGES: [usize; 4] = [1024, 4096, 8192, 65_536];

fn lengths(settings: &Settings, data: &[u8]) -> Vec<usize> {
    let chunker = Chunker::new(settings).unwrap();
    chunks(&chunker, data).map(<[u8]>::len).collect()
}

#[test]
fn constant_data_is_cut_at_the_maximum_by_seqcdc_whatever_the_byte() {
    for average in AVERAGES {
        let Settings::SeqCdc(base) = Settings::for_average("seqcdc", average).unwrap() else {
            panic!()
        };
        for settings in crate::data::seqcdc_variants(base).map(Settings::SeqCdc) {
            for byte in [0, 1, 127, 128, 255] {
                let data = vec![byte; 3 * settings.size_max()];
                assert_eq!(lengths(&settings, &data), [settings.size_max(); 3]);
            }
        }
    }
}

#[test]
fn constant_data_is_cut_at_the_maximum_by_fastcdc_from_4_kib_on() {
    for average in [4096, 8192, 16_384, 65_536] {
        let settings = Settings::for_average("fastcdc", average).unwrap();
        for byte in 0..=255 {
            let data = vec![byte; 2 * settings.size_max()];
            assert_eq!(lengths(&settings, &data), [settings.size_max(); 2], "{average} {byte}");
        }
    }
}

#[test]
fn constant_data_is_cut_by_fastcdc_soon_after_the_minimum_or_at_the_average_or_the_maximum() {
    let mut early = 0;
    for average in [256, 400, 512, 724, 1000, 1024] {
        for normalisation in 0..4 {
            let settings = Settings::from_words(2, &[64, average, 8192, normalisation]).unwrap();
            for byte in 0..=255 {
                let found = lengths(&settings, &vec![byte; 30_000]);
                assert!(found[..found.len() - 1].iter().all(|len| *len == found[0]), "one size");
                let soon = (64..=64 + 47).contains(&found[0]);
                assert!(
                    soon || found[0] == average as usize || found[0] == 8192,
                    "{settings:?} {byte} {found:?}"
                );
                early += usize::from(found[0] != 8192);
            }
        }
    }
    assert!(early > 0, "tiny averages do have such bytes");
}

#[test]
fn rising_teeth_are_cut_at_the_minimum_and_falling_ones_at_the_maximum() {
    let rising: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
    let falling: Vec<u8> = rising.iter().map(|byte| 255 - byte).collect();
    let base = SeqCdcSettings {
        size_min: 1000,
        size_average: 2000,
        size_max: 5000,
        mode: Mode::Increasing,
        equal: Equal::Absorb,
        seq_length: 5,
        skip_trigger: 50,
        skip_size: 256,
    };
    let down = SeqCdcSettings {
        mode: Mode::Decreasing,
        ..base
    };
    for (settings, teeth, others) in [(base, &rising, &falling), (down, &falling, &rising)] {
        let settings = Settings::SeqCdc(settings);
        // If the tooth's edge is just before the minimum, up to five more pairs are needed.
        assert!(
            lengths(&settings, teeth)
                .iter()
                .rev()
                .skip(1)
                .all(|len| (1000..=1005).contains(len))
        );
        assert!(lengths(&settings, others).iter().all(|len| *len == 5000));
    }
}

#[test]
fn constant_data_is_cut_at_the_minimum_or_the_maximum_by_hashless_algorithms() {
    for average in AVERAGES {
        for (name, least) in [
            ("ae", true),
            ("ae-min", true),
            ("ram", true),
            ("maxp", false),
            ("argmin", false),
            ("argmin8", false),
        ] {
            let settings = Settings::for_average(name, average).unwrap();
            let size = if least {
                settings.size_min()
            } else {
                settings.size_max()
            };
            for byte in [0, 1, 127, 128, 255] {
                assert_eq!(
                    lengths(&settings, &vec![byte; 3 * size]),
                    [size; 3],
                    "{name} {average} {byte}"
                );
            }
        }
    }
}

#[test]
fn short_periods_are_cut_near_the_minimum_or_the_maximum_by_hashless_algorithms() {
    for name in ["ae", "ae-min", "ram", "maxp", "argmin", "argmin8"] {
        let settings = Settings::for_average(name, 2048).unwrap();
        for period in [2, 3, 7, 64, 100, 255] {
            let data = random(3 + period as u64, period).repeat(400_000 / period);
            let mut found = lengths(&settings, &data);
            found.pop();
            let (least, most) = (settings.size_min(), settings.size_max());
            let expected = match name {
                "maxp" => most..=most,
                "argmin" | "argmin8" => most - period + 1..=most,
                _ => least..=least + period - 1,
            };
            assert!(
                found.iter().all(|len| expected.contains(len)),
                "{name} {period} {found:?}"
            );
        }
    }
}

#[test]
fn constant_data_is_cut_at_the_minimum_or_the_maximum_by_windowed_hashes() {
    for name in NAMES.into_iter().skip_while(|name| *name != "bsw/rabin-karp") {
        let settings = Settings::for_average(name, crate::data::at_least(name, 512)).unwrap();
        let (least, most) = (settings.size_min(), settings.size_max());
        for byte in 0..=255 {
            let mut found = lengths(&settings, &vec![byte; 2 * most]);
            assert!(found[0] == least || found[0] == most, "{name} {byte} {}", found[0]);
            if found[0] == least {
                found.pop_if(|last| *last < least);
            }
            assert!(found.iter().all(|len| *len == found[0]));
            let zero = byte == 0
                && ["rsync", "rabin", "crc32", "tttd"]
                    .iter()
                    .any(|hash| name.ends_with(hash));
            assert!(!zero || found[0] == most, "{name} makes zero of zeros");
        }
    }
}

#[test]
fn short_periods_are_cut_just_above_the_minimum_or_just_below_the_maximum_by_windowed_hashes() {
    for name in NAMES.into_iter().skip_while(|name| *name != "bsw/rabin-karp") {
        let settings = Settings::for_average(name, crate::data::at_least(name, 512)).unwrap();
        let (least, most) = (settings.size_min(), settings.size_max());
        for period in [2, 3, 7, 64, 100, 255] {
            let data = random(5 + period as u64, period).repeat(100_000 / period);
            let mut found = lengths(&settings, &data);
            found.pop();
            let near = |len: &usize| (least..least + period).contains(len) || (most - period + 1..=most).contains(len);
            assert!(found.iter().all(near), "{name} {period} {found:?}");
        }
    }
}

/// No cut falls inside a run of one byte that ends between minimum and maximum.
#[test]
fn argmin_does_not_end_a_chunk_within_a_run_that_ends_before_the_maximum() {
    let mut ends_with_the_run = 0;
    for name in ["argmin", "argmin8"] {
        let settings = Settings::for_average(name, 2048).unwrap();
        let chunker = Chunker::new(&settings).unwrap();
        for byte in 0..=255 {
            let mut data = random(u64::from(byte), 4 * settings.size_max());
            let run = settings.size_min() - 200..settings.size_max() - 50;
            data[run.clone()].fill(byte);
            let len = chunker.cut(&data);
            assert!(!(settings.size_min()..run.end).contains(&len), "{name} {byte} {len}");
            ends_with_the_run += usize::from(len == run.end);
        }
    }
    assert!(ends_with_the_run > 0, "some bytes have low hashes");
}

/// The place in the period at which a chunk starts decides where it ends, so lengths come in a
/// cycle no longer than the period.
#[test]
fn periodic_data_is_cut_in_a_cycle() {
    for name in NAMES {
        let settings = Settings::for_average(name, crate::data::at_least(name, 512)).unwrap();
        for period in [2, 3, 7, 64, 100, 255] {
            let data = random(period as u64, period).repeat(400_000 / period);
            let found = lengths(&settings, &data);
            let mut ends = 0;
            let mut seen = std::collections::HashMap::new();
            for (at, len) in found[..found.len() - 20].iter().enumerate() {
                if let Some(before) = seen.insert(ends % period, at) {
                    assert_eq!(found[before], *len, "{name} {period}");
                }
                ends += len;
            }
        }
    }
}
