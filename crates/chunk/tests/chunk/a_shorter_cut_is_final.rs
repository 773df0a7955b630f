//! A cut before the end of the data is final: no bytes that follow move it. A reader can take it at
//! once, without waiting for the maximum size.

use ibid_chunk::spec::{self, FastCdcParameters};
use ibid_chunk::{Backend, Chunker, Equal, Mode, SeqCdcSettings, Settings, unlimited};
use proptest::prelude::*;

use crate::data::{KINDS, seqcdc_variants, structured};

/// Checks every prefix of `data`: the bytes after a cut must not matter.
fn every_prefix(data: &[u8], what: &dyn std::fmt::Debug, cut: impl Fn(&[u8]) -> usize) {
    let all = cut(data);
    let mut found = 0;
    for len in 0..data.len() {
        let early = cut(&data[..len]);
        assert!(early == len || early == all, "{early} of {len}, {all} of all: {what:?}");
        found += usize::from(early != len);
        assert!(found == 0 || early != len, "once found, never lost: {len}, {what:?}");
    }
}

#[test]
fn every_prefix_by_seqcdc() {
    for kind in 0..KINDS {
        let data = structured(kind, 5 + kind as u64, 330);
        for (seq_length, skip_trigger, skip_size) in
            [(1, 0, 0), (2, 3, 5), (3, 40, 64), (5, 0, 0), (5, 9, 61), (3, 1, 300)]
        {
            let base = SeqCdcSettings {
                size_min: 10,
                size_average: 20,
                size_max: 290,
                mode: Mode::Increasing,
                equal: Equal::Absorb,
                seq_length,
                skip_trigger,
                skip_size,
            };
            for settings in seqcdc_variants(base) {
                for backend in Backend::available() {
                    every_prefix(&data, &settings, |data| unlimited::seqcdc(backend, &settings, data));
                }
                every_prefix(&data, &settings, |data| spec::seqcdc(&settings, data));
            }
        }
    }
}

/// FastCDC does not judge the last byte of a prefix of odd length, so it finds a boundary there one
/// byte later. Boundaries found before stay.
#[test]
fn every_prefix_by_fastcdc() {
    for kind in 0..KINDS {
        let data = structured(kind, 9 + kind as u64, 2300);
        for (size_min, size_average, size_max) in [(2, 64, 256), (10, 10, 2290), (30, 1500, 1700), (2, 2200, 2200)] {
            for mask in [0xf, 0x1ff, 0x1010_0101_0000, 1 << 47, 0xffff_ff00_0000] {
                let parameters = FastCdcParameters {
                    size_min,
                    size_average,
                    size_max,
                    mask_strict: mask | 1,
                    mask_loose: mask,
                };
                every_prefix(&data, &parameters, |data| unlimited::fastcdc(&parameters, data));
                every_prefix(&data[..400], &parameters, |data| spec::fastcdc(&parameters, data));
            }
        }
    }
}

prop_compose! {
    fn sizes()(min in 32usize..1500, to_average in 0usize..2500, to_max in 0usize..6000) -> (usize, usize, usize) {
        (2 * min, 2 * (min + to_average), 2 * (min + to_average + to_max))
    }
}

prop_compose! {
    fn any_seqcdc()(
        (size_min, size_average, size_max) in sizes(), odd in 0usize..2,
        mode in 0u32..2, equal in 0u32..2,
        seq_length in prop_oneof![1u32..9, 1u32..64],
        (trigger, skip) in prop_oneof![Just((0, 0)), (1u32..100, 1u32..700), (1u32..5, 1u32..5)],
    ) -> Settings {
        let [min, average, max] = [size_min, size_average, size_max].map(|size| (size + odd) as u32);
        Settings::from_words(3, &[min, average, max, mode, equal, seq_length, trigger, skip]).unwrap()
    }
}

prop_compose! {
    fn any_fastcdc()((size_min, size_average, size_max) in sizes(), normalisation in 0u32..4) -> Settings {
        let words = [size_min, size_average.max(256), size_max.max(1024)].map(|size| size as u32);
        Settings::from_words(2, &[words[0], words[1], words[2], normalisation]).unwrap()
    }
}

fn any_fixed() -> impl Strategy<Value = Settings> {
    (64u32..20_000).prop_map(|size| Settings::from_words(1, &[size]).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Any bytes may follow the cut, before and after the end of the shorter data.
    #[test]
    fn a_cut_shorter_than_the_data_is_that_of_any_longer_data(
        settings in prop_oneof![
            3 => any_seqcdc(),
            3 => any_fastcdc(),
            4 => crate::data::any_hashless(),
            4 => crate::data::any_windowed(),
            1 => any_fixed(),
        ],
        kind in 0..KINDS, seed: u64, len in 0usize..20_000,
        follow_kind in 0..KINDS, follow in prop_oneof![1usize..10, 1usize..20_000],
    ) {
        let chunker = Chunker::new(&settings).unwrap();
        let mut data = structured(kind, seed, len);
        let cut = chunker.cut(&data);
        // The shortest data with the same cut, and the data as it is.
        for known in [cut + 1, cut + 2, len] {
            if known > len || chunker.cut(&data[..known]) == known {
                continue;
            }
            prop_assert_eq!(chunker.cut(&data[..known]), cut);
            let mut longer = data[..known].to_vec();
            longer.extend(structured(follow_kind, !seed, follow));
            prop_assert_eq!(chunker.cut(&longer), cut, "{} known of {}, {} follow", known, len, follow);
        }
        // The same for a full chunk at the end of the data.
        if cut == chunker.size_max() {
            data.truncate(cut);
            data.extend(structured(follow_kind, seed, follow));
            prop_assert_eq!(chunker.cut(&data), cut);
        }
    }
}
