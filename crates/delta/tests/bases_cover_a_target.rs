//! Of many bases, those stretches are taken that have what the target has, each part once, and no
//! more than that needs.

mod data;

use std::ops::Range;

use data::{Random, any_pair, edited};
use ibid_delta::{Backend, Cover, CoverSettings, Interval};
use proptest::prelude::*;

fn offered(cover: &mut Cover, base: &[u8]) -> (usize, Vec<Range<u32>>) {
    let mut stretches = stretch(7, 9);
    let anchors = cover.offer(base, &mut stretches).expect("a base within the limits");
    (anchors, stretches)
}

fn stretch(start: u32, end: u32) -> Vec<Range<u32>> {
    std::iter::once(start..end).collect()
}

fn length(stretches: &[Range<u32>]) -> usize {
    stretches.iter().map(ExactSizeIterator::len).sum()
}

#[test]
fn a_target_made_of_parts_of_many_bases_is_covered_by_these_parts() {
    let mut random = Random(1);
    let bases: Vec<Vec<u8>> = (0..10).map(|_| random.bytes(200_000)).collect();
    let parts: Vec<&[u8]> = bases.iter().map(|base| &base[90_000..98_000]).collect();
    let target = parts.concat();
    let mut cover = Cover::new();
    cover.begin(&target).unwrap();
    assert!(cover.uncovered() > 0.99);
    for base in &bases {
        let (anchors, stretches) = offered(&mut cover, base);
        assert!((80..200).contains(&anchors), "{anchors} of 8000 / 64");
        let [stretch] = &stretches[..] else {
            panic!("one stretch expected, found {stretches:?}");
        };
        assert!(stretch.start < 90_000 && stretch.end > 98_000, "{stretch:?}");
        assert!(stretch.len() <= 8000 + 2 * (2048 + 32), "{stretch:?}");
    }
    assert!(
        cover.uncovered() < 0.02,
        "but for windows across two parts: {}",
        cover.uncovered()
    );
}

#[test]
fn what_one_base_covers_the_next_does_not() {
    let mut random = Random(2);
    let (first, second) = (random.bytes(50_000), random.bytes(50_000));
    let both = [&first[..], &second].concat();
    let mut cover = Cover::new();
    cover.begin(&both).unwrap();
    assert_eq!(offered(&mut cover, &first).1, stretch(0, 50_000));
    assert_eq!(offered(&mut cover, &first), (0, Vec::new()));
    let (_, stretches) = offered(&mut cover, &both);
    assert_eq!(stretches.len(), 1);
    assert!(
        (50_000 - 2048 - 64..50_000).contains(&(stretches[0].start as usize)),
        "{stretches:?}"
    );
    assert_eq!(stretches[0].end, 100_000);
}

/// A base whose anchors were kept is not looked through again: whatever was covered meanwhile, they
/// give the same.
#[test]
fn anchors_stand_for_their_base() {
    let mut random = Random(4);
    let bases: Vec<Vec<u8>> = (0..4).map(|_| random.bytes(100_000)).collect();
    let (mut cover, mut by_anchors) = (Cover::new(), Cover::new());
    let kept: Vec<_> = bases.iter().map(|base| by_anchors.anchors(base).unwrap()).collect();
    assert!((1000..2500).contains(&(kept[0].memory() / 8)), "100 000 / 64");
    for target in 0..3 {
        let parts = bases.iter().map(|base| &base[target * 20_000..][..30_000]);
        let target = parts.collect::<Vec<_>>().concat();
        cover.begin(&target).unwrap();
        by_anchors.begin(&target).unwrap();
        for (base, anchors) in bases.iter().zip(&kept).chain([(&bases[0], &kept[0])]) {
            let mut stretches = stretch(7, 9);
            let new = by_anchors.offer_anchors(anchors, &mut stretches);
            assert_eq!((new, stretches), offered(&mut cover, base));
        }
        assert_eq!(cover.uncovered().to_bits(), by_anchors.uncovered().to_bits());
    }
}

/// A refused base leaves its anchors to the next one.
#[test]
fn a_base_with_little_that_is_new_is_refused() {
    let target = Random(3).bytes(20_000);
    let settings = CoverSettings {
        anchors_min: 50,
        ..CoverSettings::default()
    };
    let mut cover = Cover::with_settings(Backend::best(), settings);
    cover.begin(&target).unwrap();
    assert_eq!(offered(&mut cover, &target[..1000]), (0, Vec::new()));
    assert!(cover.uncovered() > 0.99);
    assert_eq!(offered(&mut cover, &target).1, stretch(0, 20_000));
    assert!(cover.uncovered() < 0.01);
}

#[test]
fn anchors_that_are_repeated_count_once() {
    let block = Random(4).bytes(5000);
    let mut base = Random(5).bytes(100_000);
    for at in (0..100_000).step_by(20_000) {
        base[at..at + 5000].copy_from_slice(&block);
    }
    let mut cover = Cover::new();
    cover.begin(&block.repeat(4)).unwrap();
    let (_, stretches) = offered(&mut cover, &base);
    assert_eq!(stretches.len(), 1, "{stretches:?}");
    assert!(length(&stretches) < 10_000);
}

#[test]
fn a_target_without_anchors_needs_no_base() {
    let mut cover = Cover::new();
    for target in [&[][..], &[0; 5000], b"short"] {
        cover.begin(target).unwrap();
        assert!(cover.uncovered() == 0.0);
        assert_eq!(offered(&mut cover, target), (0, Vec::new()));
    }
}

proptest! {
    #[test]
    fn stretches_lie_in_the_base_apart_and_in_order(
        (base, target) in any_pair(),
        other: u64,
        (interval, anchors_min, margin, gap_max) in (0usize..4, 0usize..5, 0u32..3000, 0u32..3000),
    ) {
        let settings = CoverSettings { interval: Interval::ALL[interval], anchors_min, margin, gap_max };
        let mut covers: Vec<Cover> = Backend::available().map(|backend| Cover::with_settings(backend, settings)).collect();
        let mut expected = None;
        for cover in &mut covers {
            cover.begin(&target).unwrap();
            let mut chosen = Vec::new();
            let mut before = cover.uncovered();
            for base in [&base, &edited(&base, other, 3), &target] {
                let (anchors, stretches) = offered(cover, base);
                prop_assert_eq!(anchors == 0, stretches.is_empty());
                prop_assert!(anchors == 0 || anchors >= anchors_min);
                prop_assert!(stretches.iter().all(|stretch| stretch.start < stretch.end && stretch.end as usize <= base.len()));
                prop_assert!(stretches.windows(2).all(|pair| pair[0].end + gap_max < pair[1].start));
                prop_assert_eq!(cover.uncovered() < before, anchors > 0);
                before = cover.uncovered();
                chosen.push((anchors, stretches));
            }
            // The target has all its own anchors; fewer than are worth it may be left.
            prop_assert!(anchors_min > 1 || cover.uncovered() == 0.0);
            prop_assert_eq!(expected.get_or_insert_with(|| chosen.clone()), &chosen, "every backend chooses the same");
        }
    }
}
