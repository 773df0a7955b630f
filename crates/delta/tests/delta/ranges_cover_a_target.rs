//! The selected ranges of many bases cover each part of the target once, with little else.

use std::ops::Range;

use ibid_delta::advanced::{RangeSelector, RangeSettings};
use ibid_delta::{Backend, Interval};
use proptest::prelude::*;

use crate::data::{Random, any_pair, edited};

fn offered(selector: &mut RangeSelector, base: &[u8]) -> (usize, Vec<Range<u32>>) {
    let mut ranges = range(7, 9);
    let anchors = selector.select(base, &mut ranges).expect("a base within the limits");
    (anchors, ranges)
}

fn range(start: u32, end: u32) -> Vec<Range<u32>> {
    std::iter::once(start..end).collect()
}

fn length(ranges: &[Range<u32>]) -> usize {
    ranges.iter().map(ExactSizeIterator::len).sum()
}

#[test]
fn a_target_made_of_parts_of_many_bases_is_covered_by_these_parts() {
    let mut random = Random(1);
    let bases: Vec<Vec<u8>> = (0..10).map(|_| random.bytes(200_000)).collect();
    let parts: Vec<&[u8]> = bases.iter().map(|base| &base[90_000..98_000]).collect();
    let target = parts.concat();
    let mut selector = RangeSelector::new();
    selector.set_target(&target).unwrap();
    assert!(selector.uncovered_share() > 0.99);
    for base in &bases {
        let (anchors, ranges) = offered(&mut selector, base);
        assert!((80..200).contains(&anchors), "{anchors} of 8000 / 64");
        let [range] = &ranges[..] else {
            panic!("one range expected, found {ranges:?}");
        };
        assert!(range.start < 90_000 && range.end > 98_000, "{range:?}");
        assert!(range.len() <= 8000 + 2 * (2048 + 32), "{range:?}");
    }
    assert!(
        selector.uncovered_share() < 0.02,
        "but for windows across two parts: {}",
        selector.uncovered_share()
    );
}

#[test]
fn a_second_base_covers_only_the_rest() {
    let mut random = Random(2);
    let (first, second) = (random.bytes(50_000), random.bytes(50_000));
    let both = [&first[..], &second].concat();
    let mut selector = RangeSelector::new();
    selector.set_target(&both).unwrap();
    assert_eq!(offered(&mut selector, &first).1, range(0, 50_000));
    assert_eq!(offered(&mut selector, &first), (0, Vec::new()));
    let (_, ranges) = offered(&mut selector, &both);
    assert_eq!(ranges.len(), 1);
    assert!(
        (50_000 - 2048 - 64..50_000).contains(&(ranges[0].start as usize)),
        "{ranges:?}"
    );
    assert_eq!(ranges[0].end, 100_000);
}

/// The anchors of a base select the same ranges as the base itself, whatever was covered meanwhile.
#[test]
fn anchors_stand_for_their_base() {
    let mut random = Random(4);
    let bases: Vec<Vec<u8>> = (0..4).map(|_| random.bytes(100_000)).collect();
    let (mut selector, mut by_anchors) = (RangeSelector::new(), RangeSelector::new());
    let kept: Vec<_> = bases.iter().map(|base| by_anchors.anchors_of(base).unwrap()).collect();
    assert!((1000..2500).contains(&(kept[0].memory() / 8)), "100 000 / 64");
    for target in 0..3 {
        let parts = bases.iter().map(|base| &base[target * 20_000..][..30_000]);
        let target = parts.collect::<Vec<_>>().concat();
        selector.set_target(&target).unwrap();
        by_anchors.set_target(&target).unwrap();
        for (base, anchors) in bases.iter().zip(&kept).chain([(&bases[0], &kept[0])]) {
            let mut ranges = range(7, 9);
            let new = by_anchors.select_by_anchors(anchors, &mut ranges);
            assert_eq!((new, ranges), offered(&mut selector, base));
        }
        assert_eq!(
            selector.uncovered_share().to_bits(),
            by_anchors.uncovered_share().to_bits()
        );
    }
}

/// A refused base leaves its anchors to the next one.
#[test]
fn a_base_with_little_that_is_new_is_refused() {
    let target = Random(3).bytes(20_000);
    let settings = RangeSettings::new().with_anchors_min(50);
    let mut selector = RangeSelector::new().with_settings(settings);
    selector.set_target(&target).unwrap();
    assert_eq!(offered(&mut selector, &target[..1000]), (0, Vec::new()));
    assert!(selector.uncovered_share() > 0.99);
    assert_eq!(offered(&mut selector, &target).1, range(0, 20_000));
    assert!(selector.uncovered_share() < 0.01);
}

#[test]
fn anchors_that_are_repeated_count_once() {
    let block = Random(4).bytes(5000);
    let mut base = Random(5).bytes(100_000);
    for at in (0..100_000).step_by(20_000) {
        base[at..at + 5000].copy_from_slice(&block);
    }
    let mut selector = RangeSelector::new();
    selector.set_target(&block.repeat(4)).unwrap();
    let (_, ranges) = offered(&mut selector, &base);
    assert_eq!(ranges.len(), 1, "{ranges:?}");
    assert!(length(&ranges) < 10_000);
}

#[test]
fn a_target_without_anchors_needs_no_base() {
    let mut selector = RangeSelector::new();
    for target in [&[][..], &[0; 5000], b"short"] {
        selector.set_target(target).unwrap();
        assert!(selector.uncovered_share() == 0.0);
        assert_eq!(offered(&mut selector, target), (0, Vec::new()));
    }
}

proptest! {
    #[test]
    fn ranges_lie_in_the_base_apart_and_in_order(
        (base, target) in any_pair(),
        other: u64,
        (interval, anchors_min, margin, gap_max) in (0usize..4, 0usize..5, 0u32..3000, 0u32..3000),
    ) {
        let settings = RangeSettings::new()
            .with_interval(Interval::ALL[interval])
            .with_anchors_min(anchors_min)
            .with_margin(margin)
            .with_gap_max(gap_max);
        let by = |backend| RangeSelector::new().with_settings(settings).with_backend(backend);
        let mut selectors: Vec<RangeSelector> = Backend::available().map(by).collect();
        let mut expected = None;
        for selector in &mut selectors {
            selector.set_target(&target).unwrap();
            let mut chosen = Vec::new();
            let mut before = selector.uncovered_share();
            for base in [&base, &edited(&base, other, 3), &target] {
                let (anchors, ranges) = offered(selector, base);
                prop_assert_eq!(anchors == 0, ranges.is_empty());
                prop_assert!(anchors == 0 || anchors >= anchors_min);
                prop_assert!(ranges.iter().all(|range| range.start < range.end && range.end as usize <= base.len()));
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end + gap_max < pair[1].start));
                prop_assert_eq!(selector.uncovered_share() < before, anchors > 0);
                before = selector.uncovered_share();
                chosen.push((anchors, ranges));
            }
            // The target offered as a base has all its own anchors; only too few to be worth it may
            // be left.
            prop_assert!(anchors_min > 1 || selector.uncovered_share() == 0.0);
            prop_assert_eq!(expected.get_or_insert_with(|| chosen.clone()), &chosen, "every backend chooses the same");
        }
    }
}
