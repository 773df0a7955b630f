//! The code that runs cuts where the specification says, on every short string and on long ones
//! with structure.

use ibid_chunk::spec::{self, FastCdcParameters};
use ibid_chunk::{Backend, Chunker, Equal, Mode, SeqCdcSettings, Settings, chunks, unlimited};
use proptest::prelude::*;

use crate::data::{KINDS, Random, random, seqcdc_variants, structured};

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

fn every_short_string_by_seqcdc(alphabet: &[u8], numbers: &[(usize, usize, u32, u32, u32)]) {
    for &(min, max, length, trigger, skip) in numbers {
        for settings in seqcdc_variants(seqcdc_with(min, max, length, trigger, skip)) {
            every_string(alphabet, 12, |text| {
                let expected = spec::seqcdc(&settings, text);
                for backend in Backend::available() {
                    let found = unlimited::seqcdc(backend, &settings, text);
                    assert_eq!(found, expected, "{backend} {settings:?} {text:?}");
                }
            });
        }
    }
}

#[test]
fn every_string_of_two_letters_by_seqcdc() {
    let numbers = [
        (2, 12, 1, 0, 0),
        (3, 9, 2, 1, 1),
        (3, 12, 2, 2, 3),
        (4, 12, 2, 0, 0),
        (4, 11, 3, 1, 2),
        (5, 12, 2, 2, 1),
    ];
    every_short_string_by_seqcdc(&[0, 255], &numbers);
}

#[test]
fn every_string_of_three_letters_by_seqcdc() {
    every_short_string_by_seqcdc(&[127, 128, 129], &[(3, 12, 2, 2, 1), (4, 11, 3, 1, 2)]);
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

/// What the system says of the CPU decides, not what the backends find: else the tests of one would silently not run.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn no_backend_that_this_cpu_can_run_goes_untested() {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = cpus.lines().find_map(|line| line.strip_prefix("flags")).unwrap();
    let has = |wanted: &str| {
        wanted
            .split(' ')
            .all(|flag| flags.split_whitespace().any(|other| other == flag))
    };
    let needed = [
        ("scalar", "fpu"),
        ("sse41", "sse4_1 popcnt"),
        ("avx2", "avx2 popcnt bmi1 bmi2"),
        ("avx512", "avx512f avx512bw popcnt bmi1 bmi2"),
    ];
    let can_run = needed.iter().filter(|(_, flags)| has(flags));
    let can_run: Vec<_> = can_run.map(|(name, _)| *name).collect();
    let found: Vec<_> = Backend::available().map(Backend::name).collect();
    assert_eq!(found, can_run);
}

/// Vectors are loaded from any address, and the end of the data may be at any distance.
#[test]
fn every_length_at_every_alignment_by_seqcdc() {
    let variants = seqcdc_variants(seqcdc_with(8, 190, 4, 11, 20));
    for (kind, settings) in (0..KINDS).zip(variants.into_iter().cycle()) {
        let room = structured(kind, 7 + kind as u64, 64 + 192);
        let base = room.as_ptr().addr();
        for alignment in 0..64 {
            let from = (alignment + 64 - base % 64) % 64;
            for len in 0..=192 {
                let data = &room[from..from + len];
                let expected = spec::seqcdc(&settings, data);
                for backend in Backend::available() {
                    let found = unlimited::seqcdc(backend, &settings, data);
                    assert_eq!(found, expected, "{backend} {settings:?} {kind} {alignment} {len}");
                }
            }
        }
    }
}

/// Short strings fill at most one block. These cover several blocks, their seams and their
/// remainders.
#[test]
fn every_length_of_structured_data_by_seqcdc() {
    for kind in 0..KINDS {
        let data = structured(kind, 42 + kind as u64, 300);
        for (length, trigger, skip) in [(1, 0, 0), (2, 3, 5), (3, 40, 64), (5, 0, 0), (5, 50, 61), (9, 64, 1)] {
            for settings in seqcdc_variants(seqcdc_with(10, 290, length, trigger, skip)) {
                for len in 0..=300 {
                    let data = &data[..len];
                    let expected = spec::seqcdc(&settings, data);
                    for backend in Backend::available() {
                        let found = unlimited::seqcdc(backend, &settings, data);
                        assert_eq!(found, expected, "{backend} {settings:?} {len}");
                    }
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
        // Half of the lengths are short, for the vector form, and half long, for the scalar form.
        let most = if source.below(2) == 0 { 16 } else { 63 };
        let length = 1 + source.below(most) as u32;
        for settings in seqcdc_variants(seqcdc_with(64, 690, length, 3, 7)) {
            let expected = spec::seqcdc(&settings, &data);
            for backend in Backend::available() {
                let found = unlimited::seqcdc(backend, &settings, &data);
                assert_eq!(found, expected, "{backend} {settings:?} {data:?}");
            }
        }
    }
}

/// The sizes at which FastCDC's fast path branches: blocks of two lanes, and the window that a lane
/// starts on.
const BLOCK: usize = 1024;
const LANE: usize = 512;
const WINDOW: usize = 64;

/// Masks that a few thousand random bytes do not fit by chance: low bits, which depend on few
/// bytes; the highest bits that settings allow, which depend on the most bytes; and a mask in use.
const RARE: [u64; 3] = [0xf_ffff, 0xffff_f000_0000, 0xd907_0753_7000];

fn assert_equal(parameters: &FastCdcParameters, data: &[u8]) -> usize {
    let fast = unlimited::fastcdc(parameters, data);
    assert_eq!(
        fast,
        spec::fastcdc(parameters, data),
        "{parameters:?}, {} bytes",
        data.len()
    );
    fast
}

/// Returns a window whose last byte is a boundary by `mask`: the first in random data.
fn bytes_before_a_boundary(mask: u64) -> [u8; WINDOW] {
    let data = random(mask, 16 << 20);
    let parameters = FastCdcParameters {
        size_min: 0,
        size_average: 0,
        size_max: data.len(),
        mask_strict: mask,
        mask_loose: mask,
    };
    let at = unlimited::fastcdc(&parameters, &data);
    *data[..=at].last_chunk().expect("a boundary past the first window")
}

/// Puts one boundary at every place of three blocks, and ends the data around it.
#[test]
fn a_boundary_anywhere_by_fastcdc() {
    let size_min = 6;
    for mask in RARE {
        let key = bytes_before_a_boundary(mask);
        let plain = random(!mask, size_min + 3 * BLOCK + 200);
        let parameters = FastCdcParameters {
            size_min,
            size_average: size_min,
            size_max: plain.len(),
            mask_strict: 0,
            mask_loose: mask,
        };
        assert_eq!(
            assert_equal(&parameters, &plain),
            plain.len(),
            "nothing in it by chance"
        );
        for at in WINDOW - 1..3 * BLOCK + 180 {
            let mut data = plain.clone();
            let at = size_min + at;
            data[at + 1 - WINDOW..=at].copy_from_slice(&key);
            assert_eq!(assert_equal(&parameters, &data), at);
            for len in at..at + 4 {
                let expected = if len - len % 2 > at { at } else { len };
                assert_eq!(assert_equal(&parameters, &data[..len]), expected);
            }
        }
    }
}

/// Puts two boundaries around every border between steps, windows, lanes and blocks. The first by
/// position counts, whichever lane meets one first.
#[test]
fn two_boundaries_by_fastcdc() {
    let size_min = 64;
    let mut places = Vec::new();
    for border in (WINDOW..=2 * BLOCK + LANE).step_by(WINDOW) {
        let near = border % LANE <= WINDOW || border % LANE >= LANE - WINDOW;
        if near {
            places.extend([border - 8, border - 1, border, border + 7]);
        }
        places.push(border + 31);
    }
    for mask in RARE {
        let key = bytes_before_a_boundary(mask);
        let plain = random(!mask, size_min + 3 * BLOCK);
        let parameters = FastCdcParameters {
            size_min,
            size_average: size_min,
            size_max: plain.len(),
            mask_strict: 0,
            mask_loose: mask,
        };
        for one in &places {
            for other in places.iter().filter(|other| **other >= one + WINDOW) {
                let mut data = plain.clone();
                for at in [size_min + one, size_min + other] {
                    data[at + 1 - WINDOW..=at].copy_from_slice(&key);
                }
                assert_eq!(assert_equal(&parameters, &data), size_min + one);
            }
        }
    }
}

/// The mask changes at the average, at any place in a block or a lane.
#[test]
fn the_average_anywhere_by_fastcdc() {
    let size_min = 64;
    let [mask, other, _] = RARE;
    let (key, other_key) = (bytes_before_a_boundary(mask), bytes_before_a_boundary(other));
    let mut data = random(3, size_min + 3 * BLOCK);
    // Boundaries by the two masks in turns.
    let mut places = Vec::new();
    for (turn, end) in (size_min + 100..data.len()).step_by(90).enumerate() {
        let key = if turn % 2 == 0 { key } else { other_key };
        data[end - WINDOW..end].copy_from_slice(&key);
        places.push((end - 1, turn % 2 == 0));
    }
    for size_average in (size_min..data.len()).step_by(2) {
        for (mask_strict, mask_loose, even_first) in [(mask, other, true), (other, mask, false)] {
            let parameters = FastCdcParameters {
                size_min,
                size_average,
                size_max: data.len() + 1,
                mask_strict,
                mask_loose,
            };
            let fits = |(at, even): &&(usize, bool)| (*even == even_first) == (*at < size_average);
            let expected = places.iter().find(fits).map_or(data.len(), |(at, _)| *at);
            assert_eq!(assert_equal(&parameters, &data), expected, "{size_average}");
            // If none may come before the average, only a later boundary fits.
            let parameters = FastCdcParameters {
                mask_strict: u64::MAX >> 8,
                ..parameters
            };
            assert!(assert_equal(&parameters, &data) >= size_average.min(data.len()));
        }
    }
}

/// The hash starts empty at the minimum, and covers fewer bytes than a window for a while.
#[test]
fn data_that_ends_soon_after_the_minimum_by_fastcdc() {
    for size_min in [0, 2, 64, 500] {
        for kind in 0..KINDS {
            let data = structured(kind, 23, size_min + 2 * BLOCK + 2);
            let borders = [LANE, BLOCK, BLOCK + LANE, 2 * BLOCK].map(|border| border - 3..border + 3);
            let ends = (0..=200).chain(borders.into_iter().flatten());
            for end in ends.map(|end| size_min + end) {
                for bits in 1..12 {
                    for mask in [
                        (1 << bits) - 1,
                        ((1 << bits) - 1) << (48 - bits),
                        0xd903_0353_7000 >> (4 * bits),
                    ] {
                        let parameters = FastCdcParameters {
                            size_min,
                            size_average: size_min + (end - size_min) / 4 * 2,
                            size_max: size_min + 2 * BLOCK,
                            mask_strict: mask | 1 << 20,
                            mask_loose: mask,
                        };
                        assert_equal(&parameters, &data[..end]);
                    }
                }
            }
        }
    }
}

/// No settings have bits so high that a step would shift them out, but such masks must cut
/// correctly.
#[test]
fn masks_with_any_bit_by_fastcdc() {
    for kind in 0..KINDS {
        let data = structured(kind, 31, 3 * BLOCK);
        for bit in 0..64 {
            for mask in [
                1 << bit,
                0x3ff << bit,
                1 << bit | 1,
                u64::MAX << bit,
                u64::MAX >> bit,
                0,
            ] {
                let parameters = FastCdcParameters {
                    size_min: 2,
                    size_average: BLOCK + 100,
                    size_max: data.len(),
                    mask_strict: u64::MAX,
                    mask_loose: mask,
                };
                assert_equal(&parameters, &data);
                assert_equal(
                    &FastCdcParameters {
                        mask_strict: mask,
                        ..parameters
                    },
                    &data,
                );
            }
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

/// Returns the lengths of all chunks, by the specification alone.
fn by_the_spec(settings: &Settings, data: &[u8]) -> Vec<usize> {
    let mut rest = data;
    let mut lengths = Vec::new();
    while !rest.is_empty() {
        let len = spec::cut(settings, rest);
        lengths.push(len);
        rest = &rest[len..];
    }
    lengths
}

proptest! {
    #[test]
    fn whole_inputs_are_cut_by_the_spec(
        settings in prop_oneof![any_seqcdc(), any_fastcdc(), crate::data::any_hashless(), crate::data::any_windowed()],
        kind in 0..KINDS, seed: u64, len in 0usize..20_000,
    ) {
        let data = structured(kind, seed, len);
        let expected = by_the_spec(&settings, &data);
        for backend in Backend::available() {
            let chunker = Chunker::with_backend(&settings, backend).unwrap();
            let lengths: Vec<usize> = chunks(&chunker, &data).map(<[u8]>::len).collect();
            prop_assert_eq!(&lengths, &expected, "{}", backend);
        }
    }
}
