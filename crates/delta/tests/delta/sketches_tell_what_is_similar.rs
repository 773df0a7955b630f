//! Sketches of similar data share features, and those of unrelated data share none. All backends
//! make the same sketches.

use ibid_chunk::{Chunker, Settings};
use ibid_delta::{Backend, FeatureBytes, Interval, Sketch, Sketcher};
use proptest::prelude::*;

use crate::data::{Random, any_pair, edited, text};

fn chunked() -> Sketcher {
    let settings = Settings::for_average("gear", 256).expect("an average within the limits");
    Sketcher::chunked(Chunker::new(&settings).expect("settings of an average"))
}

proptest! {
    #[test]
    fn every_backend_gives_the_same((first, second) in any_pair()) {
        let data = [first, second].concat();
        for interval in Interval::ALL {
            for bytes in FeatureBytes::ALL {
                let expected = Sketcher::sampled(interval, bytes).with_backend(Backend::scalar()).sketch(&data);
                for backend in Backend::available() {
                    prop_assert_eq!(Sketcher::sampled(interval, bytes).with_backend(backend).sketch(&data), expected);
                }
            }
        }
    }

    #[test]
    fn a_sketch_is_the_largest_distinct_features(features in prop::collection::vec(0u64..30, 0..40)) {
        let mut expected = features.clone();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        expected.dedup();
        expected.truncate(Sketch::FEATURES_MAX);
        let sketch = Sketch::of(features);
        prop_assert_eq!(sketch.features(), &expected);
    }

    #[test]
    fn of_short_data_the_largest_are_kept(
        length in 0usize..20_000,
        bytes in 0usize..2000,
        least in 0usize..40,
        most in 0usize..40,
    ) {
        let data = &text(3, 20_000)[..length];
        let all = Sketcher::new().with_features(most).sketch(data);
        let fewer = Sketcher::new().with_features(most).with_fewer_of_short_data(bytes, least).sketch(data);
        let (most, bytes) = (most.clamp(1, Sketch::FEATURES_MAX), bytes.max(1));
        let expected = (length / bytes).clamp(least.clamp(1, most), most).min(all.features().len());
        prop_assert_eq!(fewer.features(), &all.features()[..expected]);
        prop_assert_eq!(all.largest(expected), fewer);
    }

    #[test]
    fn where_data_begins_does_not_matter(seed: u64, before in 1usize..100) {
        let data = Random(seed).bytes(40_000);
        let moved = [&vec![7; before][..], &data].concat();
        // Chunks need some bytes until their boundaries agree again.
        for (mut sketcher, least) in [(Sketcher::new(), 6), (chunked(), 4)] {
            prop_assert!(sketcher.sketch(&data).shared(&sketcher.sketch(&moved)) >= least);
        }
    }
}

#[test]
fn edits_leave_most_features_and_other_data_has_none() {
    let sixteen = Sketcher::new().with_features(16);
    for (mut sketcher, features) in [(Sketcher::new(), 8), (sixteen, 16), (chunked(), 8)] {
        let mut shared = 0;
        for seed in 0..50 {
            let data = Random(seed).bytes(64 << 10);
            let sketch = sketcher.sketch(&data);
            assert_eq!(sketch.features().len(), features);
            let mut changed = data.clone();
            for at in (0..10).map(|edit| edit * 6000) {
                changed[at] ^= 1;
            }
            shared += sketch.shared(&sketcher.sketch(&changed));
            let other = Random(seed + 1000).bytes(64 << 10);
            assert_eq!(sketch.shared(&sketcher.sketch(&other)), 0);
        }
        assert!(shared >= 50 * features * 7 / 8, "{shared} of {}", 50 * features);
    }
}

#[test]
fn data_that_is_short_or_constant_has_no_sampled_features() {
    let mut sketcher = Sketcher::new();
    for data in [&[][..], &[1; 31], &[0; 100_000], &[255; 5000]] {
        assert_eq!(sketcher.sketch(data).features(), []);
    }
}

#[test]
fn a_lineage_is_a_feature() {
    let mut sketcher = Sketcher::new();
    let [first, second] = [1, 2].map(|seed| sketcher.sketch(&text(seed, 3000)));
    for hint in [0, 1, u64::MAX] {
        let (first, second) = (first.with_lineage(hint), second.with_lineage(hint));
        assert!(first.shared(&second) >= 1);
        assert!(first.features().len() <= Sketch::FEATURES_MAX);
        assert_eq!(first.with_lineage(hint), first);
    }
}

#[test]
fn features_are_as_far_apart_as_they_are_long() {
    let data = Random(5).bytes(1 << 20);
    for bytes in FeatureBytes::ALL {
        // Pieces of sixteen expected features, so that all of them can be counted, and few are cut
        // off at the ends.
        let pieces = data.chunks(16 * bytes.count());
        let mut sketcher = Sketcher::spaced(bytes).with_features(Sketch::FEATURES_MAX);
        let features: usize = pieces.map(|piece| sketcher.sketch(piece).features().len()).sum();
        let expected = data.len() / bytes.count() * 15 / 16;
        assert!(
            features.abs_diff(expected) < expected / 8,
            "{bytes:?}: {features} of {expected}"
        );
        for backend in Backend::available() {
            let of = |backend| Sketcher::spaced(bytes).with_backend(backend).sketch(&data[..50_000]);
            assert_eq!(of(backend), of(Backend::scalar()), "{backend} {bytes:?}");
        }
    }
    let of_64 = Sketcher::spaced(FeatureBytes::B64).sketch(&data);
    assert_eq!(of_64, Sketcher::new().sketch(&data));
}

/// Sketches are stored, so features must never change.
#[test]
fn features_never_change() {
    let data = edited(&text(11, 20_000), 12, 5);
    let sampled = Sketcher::sampled(Interval::I64, FeatureBytes::B32).sketch(&data);
    let longer = Sketcher::sampled(Interval::I16, FeatureBytes::B64).sketch(&data);
    let spaced = Sketcher::spaced(FeatureBytes::B1024).sketch(&data);
    let chunked = chunked().sketch(&data);
    let found = [sampled, longer, spaced, chunked, Sketch::of([]).with_lineage(42)].map(|sketch| sketch.features()[0]);
    let expected = [
        0xfe9b_d2cc_79a9_4f68,
        0xffd2_b545_81de_1d88,
        0xf41e_291f_ae56_4f03,
        0xfc3b_af55_bf46_f1bc,
        0xa2b2_8d24_f206_6859,
    ];
    assert_eq!(found, expected, "found {found:#x?}");
}
