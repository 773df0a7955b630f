//! A feature index may differ from a plain map in two ways. It may return places that were not
//! inserted with a feature, but only places in the partition. And it may forget entries, but only
//! those that it reported as evicted.

use std::collections::{BTreeMap, BTreeSet};

use ibid_delta::{FeatureIndex, Sketch};
use proptest::prelude::*;

use crate::data::Random;

fn places(index: &FeatureIndex, feature: u64) -> BTreeSet<u32> {
    let mut candidates = Vec::new();
    index.candidates(0, &Sketch::of([feature]), &mut candidates);
    candidates.iter().map(|candidate| candidate.place).collect()
}

fn index_of(entries: usize) -> FeatureIndex {
    let mut index = FeatureIndex::new();
    index.add_partition(0, entries).expect("few entries");
    index
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u8, u8),
    Remove(u8, u8),
    Touch(u8, u8),
    SaveAndLoad,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (any::<u8>(), 0u8..40).prop_map(|(feature, place)| Step::Insert(feature, place)),
        3 => (any::<u8>(), 0u8..40).prop_map(|(feature, place)| Step::Remove(feature, place)),
        2 => (any::<u8>(), 0u8..40).prop_map(|(feature, place)| Step::Touch(feature, place)),
        1 => Just(Step::SaveAndLoad),
    ]
}

fn reloaded(index: &FeatureIndex) -> FeatureIndex {
    let (mut bytes, mut again) = (Vec::new(), Vec::new());
    index.save(&mut bytes);
    let loaded = FeatureIndex::load_from(&bytes, index.memory()).expect("what was saved loads");
    loaded.save(&mut again);
    assert!(again == bytes, "what was loaded is what was saved");
    loaded
}

proptest! {
    /// With room for all entries and few places for each feature, no entry is forgotten, and the
    /// extra places belong to other features.
    #[test]
    fn as_a_map_but_for_what_it_evicts(steps in prop::collection::vec(any_step(), 0..600), small: bool) {
        let mut index = index_of(if small { 50 } else { 20_000 });
        let mut map = BTreeMap::<u8, BTreeSet<u32>>::new();
        let mut evicted = 0;
        for step in steps {
            match step {
                Step::Insert(feature, place) => {
                    let report = index.insert(0, &Sketch::of([feature.into()]), place.into());
                    evicted += report.evicted;
                    map.entry(feature).or_default().insert(place.into());
                    prop_assert!(places(&index, feature.into()).contains(&place.into()), "the latest is there");
                }
                Step::Remove(feature, place) => {
                    index.remove(0, &Sketch::of([feature.into()]), place.into());
                    map.entry(feature).or_default().remove(&place.into());
                }
                Step::Touch(feature, place) => index.touch(0, &Sketch::of([feature.into()]), place.into()),
                Step::SaveAndLoad => index = reloaded(&index),
            }
            let (len, room) = index.load(0).unwrap();
            prop_assert!(len <= room);
            prop_assert_eq!(index.memory(), room * FeatureIndex::BYTES_PER_ENTRY);
        }
        let inserted: BTreeSet<u32> = map.values().flatten().copied().collect();
        let mut forgotten = 0;
        for (&feature, expected) in &map {
            let found = places(&index, feature.into());
            prop_assert!(found.len() <= 4 * 4);
            forgotten += expected.difference(&found).count();
            prop_assert!(found.is_subset(&inserted));
        }
        prop_assert!(forgotten <= evicted, "{} forgotten, {} evicted", forgotten, evicted);
    }

    #[test]
    fn any_bytes_load_safely(bytes in prop::collection::vec(any::<u8>(), 0..300), damage: u64) {
        let _ = FeatureIndex::load_from(&bytes, 1 << 20);
        let mut index = index_of(60);
        for &byte in &bytes {
            index.insert(0, &Sketch::of([byte.into()]), byte.into());
        }
        let mut saved = Vec::new();
        index.save(&mut saved);
        let mut source = Random(damage);
        let at = source.below(saved.len());
        saved[at] = source.next() as u8;
        if let Ok(mut index) = FeatureIndex::load_from(&saved, 1 << 20) {
            for number in 0..200 {
                index.insert(0, &Sketch::of([number]), number as u32);
            }
            prop_assert!(index.memory() <= 1 << 20);
        }
        saved.truncate(at);
        prop_assert!(FeatureIndex::load_from(&saved, 1 << 20).is_err());
    }
}

/// No entry is evicted until nine tenths are taken.
#[test]
fn nine_tenths_can_be_filled() {
    for entries in [58, 1800, 230_000] {
        let mut index = index_of(entries);
        let mut source = Random(entries as u64);
        let (mut len, room) = index.load(0).unwrap();
        while 10 * len < 9 * room {
            let report = index.insert(0, &Sketch::of([source.next()]), len as u32);
            assert_eq!(report.evicted, 0, "{len} of {room}");
            len += 1;
        }
        assert_eq!(index.load(0), Some((len, room)));
    }
}

/// Features of sketches are the largest of many hashes, so their top bits are the same.
#[test]
fn strangers_are_found_one_time_in_some_thousands() {
    let mut index = index_of(100_000);
    let (_, room) = index.load(0).unwrap();
    let mut source = Random(5);
    let mut feature = || source.next() | 0xff << 56;
    for place in 0..room * 9 / 10 {
        index.insert(0, &Sketch::of([feature()]), place as u32);
    }
    let found: usize = (0..100_000).map(|_| places(&index, feature()).len()).sum();
    assert!(found < 100, "{found} of 100000");
}

#[test]
fn a_hot_feature_keeps_the_places_that_were_of_use() {
    let mut index = index_of(60);
    let (hot, rare) = (Sketch::of([1]), Sketch::of([2]));
    for place in 0..FeatureIndex::POSTING_MAX as u32 {
        index.insert(0, &hot, place);
        // The clock of so small a table advances with every third entry.
        index.insert(0, &rare, 1000);
        index.insert(0, &rare, 1000);
    }
    index.touch(0, &hot, 0);
    index.insert(0, &hot, 100);
    let expected: BTreeSet<u32> = (0..FeatureIndex::POSTING_MAX as u32)
        .filter(|&place| place != 1)
        .chain([100])
        .collect();
    assert_eq!(places(&index, 1), expected, "1 was not used for longest");

    let mut candidates = Vec::new();
    index.candidates(0, &Sketch::of([1, 2]), &mut candidates);
    for candidate in candidates {
        let expected = if candidate.place == 1000 { (1, 0) } else { (0, 1) };
        assert_eq!((candidate.shared, candidate.hot), expected, "{candidate:?}");
    }
}

/// Inserts one version of a record after another, in a table so large that its clock does not
/// advance meanwhile.
#[test]
fn a_hot_feature_keeps_the_places_that_came_last() {
    let mut index = index_of(100_000);
    let most = FeatureIndex::POSTING_MAX as u32;
    for place in 0..3 * most {
        index.insert(0, &Sketch::of([1]), place);
    }
    assert_eq!(places(&index, 1), (2 * most..3 * most).collect());
}

#[test]
fn times_keep_their_order_however_long_it_runs() {
    let mut index = index_of(60);
    let (kept, passing) = (Sketch::of([u64::MAX]), 1_000_000);
    index.insert(0, &kept, 1);
    for number in 0..passing {
        index.insert(0, &Sketch::of([number]), number as u32);
        if number % 8 == 0 {
            index.touch(0, &kept, 1);
        }
    }
    assert!(
        places(&index, u64::MAX).contains(&1),
        "what is used again and again stays"
    );
    assert!(!places(&index, 0).contains(&0) || passing < 100, "what is not goes");
}

#[test]
fn a_partition_is_dropped_alone() {
    let mut index = FeatureIndex::new();
    for number in [3, 1, 2] {
        index.add_partition(number, 100).unwrap();
        index.insert(number, &Sketch::of([7]), number as u32);
    }
    assert!(index.drop_partition(2));
    assert!(!index.drop_partition(2));
    assert_eq!(index.partitions().collect::<Vec<_>>(), [1, 3]);
    let mut candidates = Vec::new();
    for (number, expected) in [(1, 1), (2, 0), (3, 1)] {
        index.candidates(number, &Sketch::of([7]), &mut candidates);
        assert_eq!(candidates.len(), expected);
    }
    assert_eq!(index.insert(2, &Sketch::of([7]), 2).new, 0);
    assert_eq!(reloaded(&index).partitions().collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn more_than_the_memory_given_is_refused_before_it_is_taken() {
    let mut saved = Vec::new();
    index_of(1000).save(&mut saved);
    let memory = index_of(1000).memory();
    assert!(FeatureIndex::load_from(&saved, memory).is_ok());
    assert!(FeatureIndex::load_from(&saved, memory - 1).is_err());
    // 2^31 entries, by ten bytes.
    let claimed = [&saved[..9], &[0, 29, 0]].concat();
    assert!(FeatureIndex::load_from(&claimed, usize::MAX).is_err());
}
