//! Words from a repository's configuration become valid settings or an error, whatever they are.

use ibid_chunk::{Chunker, FastCdcSettings, NAMES, Settings, SettingsError};
use proptest::prelude::*;

const SEQCDC: [u32; 8] = [4096, 8192, 16_384, 0, 0, 5, 50, 256];
const FASTCDC: [u32; 4] = [2048, 8192, 65_536, 2];

fn changed<const N: usize>(words: [u32; N], at: usize, to: u32) -> [u32; N] {
    let mut words = words;
    words[at] = to;
    words
}

fn refusal(number: u16, words: &[u32]) -> String {
    Settings::from_words(number, words).expect_err("refused").to_string()
}

#[test]
fn numbers_and_words_never_change_their_meaning() {
    for (name, number, words) in [
        ("fixed", 1, &[8192][..]),
        ("fastcdc", 2, &[2048, 8192, 65_536, 2]),
        ("seqcdc", 3, &[4096, 8192, 16_384, 0, 0, 5, 50, 256]),
        ("ae", 4, &[7937, 8192, 32_768, 0]),
        ("ae-min", 4, &[7937, 8192, 32_768, 1]),
        ("ram", 5, &[7937, 8192, 32_768]),
        ("maxp", 6, &[431, 8192, 32_768]),
        ("argmin", 7, &[4096, 8192, 11_919, 4]),
        ("argmin8", 7, &[4096, 8192, 11_919, 8]),
        ("gear", 8, &[4101, 8192, 32_768, 5, 5, 0x00ff_f000, 0]),
        ("rabin", 8, &[4101, 8192, 32_768, 5, 3, 0xfff0_0000, 0]),
        ("tttd", 8, &[3768, 8192, 22_937, 3, 3, 4528, 2264]),
        ("bsw/rabin-karp", 8, &[64, 8192, 131_072, 0, 0, 8130, 0]),
        ("otttd/crc32", 8, &[4166, 8192, 22_937, 7, 4, 0xfff0_0000, 0xffe0_0000]),
    ] {
        let settings = Settings::for_average(name, 8192).unwrap();
        assert_eq!((settings.name(), settings.number()), (name, number));
        assert_eq!(settings.to_words(), words);
        assert_eq!(Settings::from_words(number, words), Ok(settings));
    }
}

#[test]
fn an_unknown_number_or_name_is_refused() {
    for number in [0, 9, u16::MAX] {
        assert_eq!(
            Settings::from_words(number, &[8192]),
            Err(SettingsError::UnknownNumber { found: number })
        );
    }
    let error = Settings::for_average("SeqCDC", 8192).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "chunking algorithm: expected one of {}, found \"SeqCDC\"",
            NAMES.join(", ")
        )
    );
}

#[test]
fn too_few_or_too_many_words_are_refused() {
    for (number, expected) in [(1, 1), (2, 4), (3, 8), (4, 4), (5, 3), (6, 3), (7, 4), (8, 7)] {
        for count in (0..20).filter(|count| *count != expected) {
            let error = Settings::from_words(number, &vec![1024; count]).unwrap_err();
            assert!(
                matches!(error, SettingsError::WordCount { expected: e, found, .. } if (e, found) == (expected, count)),
                "{error}"
            );
        }
    }
}

#[test]
fn every_limit_of_seqcdc_is_checked() {
    assert!(Settings::from_words(3, &SEQCDC).is_ok());
    for (at, to, error) in [
        (0, 63, "minimum chunk size: expected 64 to 16777216, found 63"),
        (
            0,
            8193,
            "chunk sizes: expected minimum <= average <= maximum, found 8193, 8192, 16384",
        ),
        (
            1,
            16_385,
            "chunk sizes: expected minimum <= average <= maximum, found 4096, 16385, 16384",
        ),
        (
            2,
            (16 << 20) + 1,
            "maximum chunk size: expected 64 to 16777216, found 16777217",
        ),
        (3, 2, "sequence mode: expected 0 to 1, found 2"),
        (4, 2, "equal neighbours: expected 0 to 1, found 2"),
        (5, 0, "sequence length: expected 1 to 63, found 0"),
        (5, 64, "sequence length: expected 1 to 63, found 64"),
        (6, 65_537, "skip trigger: expected 0 to 65536, found 65537"),
        (
            6,
            0,
            "skip trigger and skip size: expected both zero or none, found 0 and 256",
        ),
        (
            7,
            0,
            "skip trigger and skip size: expected both zero or none, found 50 and 0",
        ),
        (7, u32::MAX, "skip size: expected 0 to 16777216, found 4294967295"),
    ] {
        assert_eq!(refusal(3, &changed(SEQCDC, at, to)), error);
    }
}

#[test]
fn every_limit_of_fastcdc_and_fixed_is_checked() {
    assert!(Settings::from_words(2, &FASTCDC).is_ok());
    for (at, to, error) in [
        (0, 62, "minimum chunk size: expected 64 to 1048576, found 62"),
        (
            0,
            2049,
            "minimum chunk size: expected an even number for fastcdc, found 2049",
        ),
        (1, 254, "average chunk size: expected 256 to 4194304, found 254"),
        (
            1,
            8193,
            "average chunk size: expected an even number for fastcdc, found 8193",
        ),
        (
            1,
            65_538,
            "chunk sizes: expected minimum <= average <= maximum, found 2048, 65538, 65536",
        ),
        (
            2,
            65_535,
            "maximum chunk size: expected an even number for fastcdc, found 65535",
        ),
        (2, 1022, "maximum chunk size: expected 1024 to 16777216, found 1022"),
        (3, 4, "normalisation: expected 0 to 3, found 4"),
        (3, 256, "normalisation: expected 0 to 3, found 255"),
    ] {
        assert_eq!(refusal(2, &changed(FASTCDC, at, to)), error);
    }
    assert_eq!(refusal(1, &[63]), "chunk size: expected 64 to 16777216, found 63");
    assert_eq!(
        refusal(1, &[u32::MAX]),
        "chunk size: expected 64 to 16777216, found 4294967295"
    );
}

#[test]
fn every_limit_of_the_hashless_algorithms_is_checked() {
    let most = 16 << 20;
    for (number, words) in [
        (4, &[63, 64, 64, 0][..]),
        (4, &[most - 1, most, most, 1]),
        (5, &[63, 64, 64]),
        (5, &[most - 1, most, most]),
        (6, &[32, 65, 65]),
        (6, &[most / 2 - 1, most, most]),
        (7, &[64, 64, 64, 4]),
        (7, &[most, most, most, 8]),
    ] {
        assert!(Settings::from_words(number, words).is_ok(), "{number} {words:?}");
    }
    for (number, words, error) in [
        (4, &[62, 100, 200, 0][..], "window: expected 63 to 16777215, found 62"),
        (
            4,
            &[most, most, most, 0],
            "window: expected 63 to 16777215, found 16777216",
        ),
        (
            4,
            &[100, 100, 200, 0],
            "chunk sizes: expected minimum <= average <= maximum, found 101, 100, 200",
        ),
        (4, &[100, 200, 300, 2], "extremum: expected 0 to 1, found 2"),
        (
            4,
            &[u32::MAX, 200, 300, 0],
            "window: expected 63 to 16777215, found 4294967295",
        ),
        (5, &[62, 100, 200], "window: expected 63 to 16777215, found 62"),
        (
            5,
            &[99, 100, most + 1],
            "maximum chunk size: expected 64 to 16777216, found 16777217",
        ),
        (6, &[31, 100, 200], "radius: expected 32 to 8388607, found 31"),
        (
            6,
            &[50, 100, 200],
            "chunk sizes: expected minimum <= average <= maximum, found 101, 100, 200",
        ),
        (
            7,
            &[63, 100, 200, 4],
            "minimum chunk size: expected 64 to 16777216, found 63",
        ),
        (
            7,
            &[64, 201, 200, 4],
            "chunk sizes: expected minimum <= average <= maximum, found 64, 201, 200",
        ),
        (7, &[64, 100, 200, 5], "window of argmin: expected 4 or 8, found 5"),
    ] {
        assert_eq!(refusal(number, words), error);
    }
}

#[test]
fn every_limit_of_windowed_hashes_is_checked() {
    const TTTD: [u32; 7] = [460, 1000, 2800, 3, 0, 540, 270];
    const OTTTD: [u32; 7] = [460, 1000, 2800, 7, 0, 0xff80_0000, 0xff00_0000];
    for words in [
        TTTD,
        OTTTD,
        changed(TTTD, 6, 2),
        changed(TTTD, 5, 1 << 24),
        changed(OTTTD, 5, u32::MAX),
        changed(changed(OTTTD, 5, 3), 6, 4),
    ] {
        assert!(Settings::from_words(8, &words).is_ok(), "{words:?}");
    }
    for (words, at, to, error) in [
        (TTTD, 0, 63, "minimum chunk size: expected 64 to 16777216, found 63"),
        (
            TTTD,
            0,
            1001,
            "chunk sizes: expected minimum <= average <= maximum, found 1001, 1000, 2800",
        ),
        (
            TTTD,
            2,
            u32::MAX,
            "maximum chunk size: expected 64 to 16777216, found 4294967295",
        ),
        (TTTD, 3, 8, "method: expected 0 to 7, found 8"),
        (TTTD, 4, 6, "hash: expected 0 to 5, found 6"),
        (TTTD, 5, 2, "divisor: expected 3 to 16777216, found 2"),
        (
            TTTD,
            5,
            (1 << 24) + 1,
            "divisor: expected 3 to 16777216, found 16777217",
        ),
        (TTTD, 6, 540, "divisor in reserve: expected 2 to 539, found 540"),
        (TTTD, 6, 0, "divisor in reserve: expected 2 to 539, found 0"),
        // CRC-32 has a longer window; a method without a minimum has the least one; without reserve.
        (
            changed(TTTD, 4, 4),
            0,
            255,
            "minimum chunk size: expected 256 to 16777216, found 255",
        ),
        (
            changed(TTTD, 3, 2),
            0,
            65,
            "minimum chunk size: expected 64 to 64, found 65",
        ),
        (
            changed(TTTD, 3, 1),
            6,
            1,
            "divisor or mask in reserve: expected 0 to 0, found 1",
        ),
        (
            changed(changed(TTTD, 3, 1), 6, 0),
            5,
            1,
            "divisor: expected 2 to 16777216, found 1",
        ),
        (OTTTD, 5, 0, "bits in the mask: expected 2 to 32, found 0"),
        (OTTTD, 6, 0, "bits in the mask in reserve: expected 1 to 8, found 0"),
        (OTTTD, 6, 0x1ff, "bits in the mask in reserve: expected 1 to 8, found 9"),
        (
            changed(OTTTD, 3, 5),
            6,
            0x1ff,
            "divisor or mask in reserve: expected 0 to 0, found 511",
        ),
        (
            changed(changed(OTTTD, 3, 5), 6, 0),
            5,
            0,
            "bits in the mask: expected 1 to 32, found 0",
        ),
    ] {
        assert_eq!(refusal(8, &changed(words, at, to)), error);
    }
}

#[test]
fn every_name_is_understood_and_comes_back() {
    let mut seen = std::collections::HashSet::new();
    for name in NAMES {
        let settings = Settings::for_average(name, 4096).unwrap();
        assert_eq!(settings.name(), name);
        assert!(seen.insert(name));
    }
    for (long, short) in [
        ("ott/rabin", "rabin"),
        ("ott/crc32", "crc32"),
        ("ott/gear", "gear"),
        ("tttd/rabin", "tttd"),
    ] {
        assert_eq!(Settings::for_average(long, 4096), Settings::for_average(short, 4096));
    }
    for wrong in ["", "/", "bsw", "bsw/", "gear/bsw", "tttd/rabin/", "TTTD"] {
        assert!(
            matches!(
                Settings::for_average(wrong, 4096),
                Err(SettingsError::UnknownName { .. })
            ),
            "{wrong}"
        );
    }
}

#[test]
fn averages_outside_the_limits_are_refused_and_those_inside_are_valid() {
    for (name, least, most) in [
        ("seqcdc", 256, 8 << 20),
        ("fastcdc", 256, 4 << 20),
        ("fixed", 64, 16 << 20),
        ("ae", 256, 4 << 20),
        ("ae-min", 256, 4 << 20),
        ("ram", 256, 4 << 20),
        ("maxp", 256, 4 << 20),
        ("argmin", 256, 8 << 20),
        ("argmin8", 256, 8 << 20),
        ("bsw/cyclic", 256, 4 << 20),
        ("tt/rsync", 256, 4 << 20),
        ("td/rabin", 256, 4 << 20),
        ("tttd", 256, 4 << 20),
        ("obsw/gear", 256, 4 << 20),
        ("gear", 256, 4 << 20),
        ("otd/rabin-karp", 256, 4 << 20),
        ("otttd/crc32", 1024, 4 << 20),
    ] {
        for outside in [0, least - 1, most + 1, usize::MAX] {
            assert!(Settings::for_average(name, outside).is_err(), "{name} {outside}");
        }
        let mut average = least;
        while average <= most {
            let settings = Settings::for_average(name, average).unwrap();
            settings.validate().unwrap();
            assert_eq!(settings.name(), name);
            assert!(settings.size_average().abs_diff(average) <= 1);
            assert_eq!(
                Settings::from_words(settings.number(), &settings.to_words()),
                Ok(settings)
            );
            average += 1 + average / 50;
        }
        assert!(Settings::for_average(name, most).is_ok());
    }
}

#[test]
fn a_chunker_is_made_of_valid_settings_only() {
    let wrong = FastCdcSettings {
        size_min: 65,
        size_average: 256,
        size_max: 1024,
        normalisation: 0,
    };
    let error = Chunker::new(&Settings::FastCdc(wrong)).unwrap_err();
    assert_eq!(
        error,
        SettingsError::Odd {
            what: "minimum chunk size",
            found: 65
        }
    );
}

#[test]
fn a_chunker_can_be_shared() {
    fn shared<T: Clone + Send + Sync>() {}
    shared::<Chunker>();
}

/// Words near the limits, where checks go wrong, and any others.
fn word() -> impl Strategy<Value = u32> {
    let near = prop::sample::select(vec![
        0,
        1,
        2,
        63,
        64,
        256,
        1024,
        1 << 16,
        1 << 20,
        4 << 20,
        16 << 20,
        u32::MAX,
    ]);
    prop_oneof![
        any::<u32>(),
        0u32..300,
        (near, 0u32..3).prop_map(|(near, past)| near.saturating_add(past))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]

    #[test]
    fn any_words_give_an_error_or_settings_that_cut_and_are_written_the_same(
        number in 0u16..10, words in prop::collection::vec(word(), 0..10), ordered: bool,
    ) {
        let mut words = words;
        words.truncate(match number { 1 => 1, 2 | 4 | 7 => 4, 3 => 8, 5 | 6 => 3, 8 => 7, _ => 10 });
        if ordered && words.len() >= 3 {
            words[..3].sort_unstable();
        }
        if let Ok(settings) = Settings::from_words(number, &words) {
            prop_assert_eq!(settings.number(), number);
            prop_assert_eq!(settings.to_words(), words);
            let chunker = Chunker::new(&settings).unwrap();
            let len = chunker.cut(&[1, 2, 3].repeat(1000));
            prop_assert!((1..=3000.min(settings.size_max())).contains(&len));
        }
    }
}
