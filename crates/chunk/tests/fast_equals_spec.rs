//! The code that runs cuts where the specification says, on every short string and on long ones
//! with structure.

mod data;

use data::{KINDS, Random, seqcdc_variants, structured};
use ibid_chunk::spec::{self, FastCdcParameters};
use ibid_chunk::{Chunker, Equal, Mode, SeqCdcSettings, Settings, chunks, unlimited};
use proptest::prelude::*;

fn seqcdc_with(size_min: usize, size_max: usize, length: u32, trigger: u32, skip: u32) -> SeqCdcSettings {
    SeqCdcSettings {
        size_min,
        size_average: size_min,
        size_max,
        mode: Mode::Increasing,
        equal: Equal::Absorb,
        seq_length: length,
        skip_trigger: trigger,
        skip_size: skip,
    }
}

/// Calls `check` with every string over the first `letters` of `alphabet` up to `longest` bytes.
fn every_string(alphabet: &[u8], longest: usize, mut check: impl FnMut(&[u8])) {
    for len in 0..=longest {
        for number in 0..alphabet.len().pow(len as u32) {
            let mut rest = number;
            let mut text = [0; 16];
            for byte in &mut text[..len] {
                *byte = alphabet[rest % alphabet.len()];
                rest /= alphabet.len();
            }
            check(&text[..len]);
        }
    }
}

fn every_short_string_by_seqcdc(alphabet: &[u8]) {
    for (min, max, length, trigger, skip) in [
        (2, 12, 1, 0, 0),
        (3, 9, 2, 1, 1),
        (3, 12, 2, 2, 3),
        (4, 12, 2, 0, 0),
        (4, 11, 3, 1, 2),
        (5, 12, 2, 2, 1),
    ] {
        for settings in seqcdc_variants(seqcdc_with(min, max, length, trigger, skip)) {
            every_string(alphabet, 12, |text| {
                let (fast, slow) = (unlimited::seqcdc(&settings, text), spec::seqcdc(&settings, text));
                assert_eq!(fast, slow, "{settings:?} {text:?}");
            });
        }
    }
}

#[test]
fn every_string_of_two_letters_by_seqcdc() {
    every_short_string_by_seqcdc(&[0, 255]);
}

#[test]
fn every_string_of_three_letters_by_seqcdc() {
    every_short_string_by_seqcdc(&[127, 128, 129]);
}

#[test]
fn every_string_of_two_and_three_letters_by_fastcdc() {
    for (size_min, size_average, size_max) in [(2, 4, 12), (2, 8, 10), (4, 4, 12), (2, 6, 6)] {
        for (mask_strict, mask_loose) in [(0b111, 0b1), (0b1010_0000, 0b0010_0000), (0b11, 0b1111)] {
            let parameters = FastCdcParameters {
                size_min,
                size_average,
                size_max,
                mask_strict,
                mask_loose,
            };
            for alphabet in [&[0, 255][..], &[1, 2, 3]] {
                every_string(alphabet, 12, |text| {
                    let (fast, slow) = (unlimited::fastcdc(&parameters, text), spec::fastcdc(&parameters, text));
                    assert_eq!(fast, slow, "{parameters:?} {text:?}");
                });
            }
        }
    }
}

/// Short strings fill one block at most; here blocks, their seams and their remainders are met.
#[test]
fn every_length_of_structured_data_by_seqcdc() {
    for kind in 0..KINDS {
        let data = structured(kind, 42 + kind as u64, 300);
        for (length, trigger, skip) in [(1, 0, 0), (2, 3, 5), (3, 40, 64), (5, 0, 0), (5, 50, 61), (9, 64, 1)] {
            for settings in seqcdc_variants(seqcdc_with(10, 290, length, trigger, skip)) {
                for len in 0..=300 {
                    let data = &data[..len];
                    assert_eq!(
                        unlimited::seqcdc(&settings, data),
                        spec::seqcdc(&settings, data),
                        "{settings:?} {len}"
                    );
                }
            }
        }
    }
}

#[test]
fn every_length_of_structured_data_by_fastcdc() {
    for kind in 0..KINDS {
        let data = structured(kind, 17 + kind as u64, 300);
        for (size_min, size_average, size_max) in [(2, 64, 256), (10, 10, 290), (30, 288, 288)] {
            for mask in [0xff, 0x1010_0101_0000, 1 << 47] {
                let parameters = FastCdcParameters {
                    size_min,
                    size_average,
                    size_max,
                    mask_strict: mask | 1,
                    mask_loose: mask,
                };
                for len in 0..=300 {
                    let data = &data[..len];
                    assert_eq!(unlimited::fastcdc(&parameters, data), spec::fastcdc(&parameters, data));
                }
            }
        }
    }
}

/// A run that crosses any number of block seams, with equals in between, ends where it should.
#[test]
fn long_sequences_with_equals_between_them() {
    let mut source = Random(9);
    for _ in 0..2000 {
        let mut data = Vec::new();
        let mut byte = 0u8;
        while data.len() < 700 {
            data.resize(data.len() + 1 + source.below(40) * source.below(5), byte);
            byte = if source.below(30) == 0 { 0 } else { byte.wrapping_add(1) };
        }
        let length = 1 + source.below(63) as u32;
        for settings in seqcdc_variants(seqcdc_with(64, 690, length, 3, 7)) {
            assert_eq!(
                unlimited::seqcdc(&settings, &data),
                spec::seqcdc(&settings, &data),
                "{settings:?} {data:?}"
            );
        }
    }
}

prop_compose! {
    fn any_seqcdc()(
        size_min in 64usize..600, more in 0usize..3000,
        decreasing: bool, strict: bool,
        seq_length in prop_oneof![1u32..9, 1u32..64],
        skip in prop_oneof![Just((0, 0)), (1u32..100, 1u32..700), (1u32..5, 1u32..5)],
    ) -> Settings {
        Settings::SeqCdc(SeqCdcSettings {
            size_min,
            size_average: size_min + more / 2,
            size_max: size_min + more,
            mode: if decreasing { Mode::Decreasing } else { Mode::Increasing },
            equal: if strict { Equal::Strict } else { Equal::Absorb },
            seq_length,
            skip_trigger: skip.0,
            skip_size: skip.1,
        })
    }
}

prop_compose! {
    fn any_fastcdc()(
        size_min in 32usize..300, average in 128usize..1000, more in 0usize..2000, normalisation in 0u8..4,
    ) -> Settings {
        let size_average = 2 * average.max(size_min);
        Settings::FastCdc(ibid_chunk::FastCdcSettings {
            size_min: 2 * size_min,
            size_average,
            size_max: (size_average + 2 * more).max(1024),
            normalisation,
        })
    }
}

/// The lengths of all chunks, by the specification alone.
fn by_the_spec(settings: &Settings, data: &[u8]) -> Vec<usize> {
    let mut rest = data;
    let mut lengths = Vec::new();
    while !rest.is_empty() {
        let len = match settings {
            Settings::SeqCdc(seqcdc) => spec::seqcdc(seqcdc, rest),
            Settings::FastCdc(fastcdc) => spec::fastcdc(&FastCdcParameters::new(fastcdc), rest),
            Settings::Fixed(fixed) => spec::fixed(fixed.size, rest),
            other => panic!("no specification of {other:?}"),
        };
        lengths.push(len);
        rest = &rest[len..];
    }
    lengths
}

proptest! {
    #[test]
    fn whole_inputs_are_cut_by_the_spec(
        settings in prop_oneof![any_seqcdc(), any_fastcdc()],
        kind in 0..KINDS, seed: u64, len in 0usize..20_000,
    ) {
        let data = structured(kind, seed, len);
        let chunker = Chunker::new(&settings).unwrap();
        let lengths: Vec<usize> = chunks(&chunker, &data).map(<[u8]>::len).collect();
        prop_assert_eq!(lengths, by_the_spec(&settings, &data));
    }
}
