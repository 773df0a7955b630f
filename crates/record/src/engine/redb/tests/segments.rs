//! Values in segments: what becomes unused, and what is moved.

use super::*;

#[test]
fn a_large_value_that_is_deleted_gives_its_place_back() {
    let memory = Memory::default();
    let engine = Redb::open_on(memory.file(), memory.clone(), Path::new("large"), 0).unwrap();
    put_records(&engine, [(1, vec![7; 40 << 20])]);
    assert!(length_of(&memory.copy()) > 40 << 20);
    delete_records(&engine, [1]);
    engine.compact().unwrap();
    assert_eq!(length_of(&memory.copy()), COMMIT_LOG_COMMITS_AT as usize);
}

#[test]
fn of_what_is_worth_moving_the_most_worn_is_chosen_and_little_at_once() {
    const SEGMENT: u64 = 16 << 20;
    let accounts = |used: &dyn Fn(u64) -> u64| Accounts {
        used: (1..=100).map(|segment| (segment, used(segment))).collect(),
        lengths: (1..=100).map(|segment| (segment, SEGMENT)).collect(),
        ..Accounts::default()
    };
    let chosen = |accounts: &Accounts, worth| accounts.worth_moving(101, SEGMENT, worth);

    let worn = accounts(&|segment| SEGMENT / 100 * (segment - 1));
    let left = |chosen: &BTreeSet<u64>| chosen.iter().map(|segment| worn.used(*segment)).sum::<u64>();
    let very_much = chosen(&worn, Unused::VeryMuch);
    assert_eq!(very_much.first(), Some(&1));
    assert!(very_much.len() as u64 == *very_much.last().unwrap(), "{very_much:?}");
    assert!(
        left(&very_much) > 3 * SEGMENT && left(&very_much) <= 4 * SEGMENT,
        "{very_much:?}"
    );
    assert_eq!(chosen(&worn, Unused::Any), very_much);

    // 32 MiB of 1600 are not used: too little to be given back amid other work.
    let hardly = accounts(&|segment| if segment <= 2 { 0 } else { SEGMENT });
    assert_eq!(chosen(&hardly, Unused::VeryMuch), BTreeSet::new());
    assert_eq!(chosen(&hardly, Unused::Any), BTreeSet::from([1]));

    // One that has more left than that is moved, too.
    let long = Accounts {
        used: BTreeMap::from([(1, 100 * SEGMENT)]),
        lengths: BTreeMap::from([(1, 200 * SEGMENT)]),
        ..Accounts::default()
    };
    assert_eq!(chosen(&long, Unused::VeryMuch), BTreeSet::from([1]));
}

#[test]
fn what_is_left_of_segments_is_moved_and_read_from_every_snapshot() {
    let memory = Memory::default();
    let file = memory.file();
    let open = || Redb::open_on(file.clone(), memory.clone(), Path::new("moved"), 0).unwrap();
    let engine = open();
    put_records(&engine, (0..30_000).map(|key| (key, value_of(key))));
    let before = engine.snapshot().unwrap();
    delete_records(&engine, (0..30_000).filter(|key| key % 5 != 0));
    let full = length_of(&memory.copy());
    let mut moved = 0;
    let mut pause = |bytes| {
        moved += bytes;
        ControlFlow::Continue(())
    };
    engine.reclaim(Unused::Much, &mut pause).unwrap();
    let used: usize = (0..30_000).step_by(5).map(|key| value_of(key).len()).sum();
    assert!(moved > 0 && moved as usize <= used, "{moved} of {used}");
    let length = length_of(&memory.copy());
    assert!(
        full > 5 * used && length < used + used / 8 + (50 << 20),
        "{full}, {length} for {used}"
    );
    for key in 0..30_000 {
        assert!(record(&*before, key) == Some(value_of(key)), "{key}");
    }
    drop(before);
    engine.compact().unwrap();
    assert!(length_of(&memory.copy()) < used + used / 32 + (3 << 20));
    drop(engine);
    let engine = open();
    let after = engine.snapshot().unwrap();
    for key in 0..30_000 {
        let expected = (key % 5 == 0).then(|| value_of(key));
        assert!(record(&*after, key) == expected, "{key}");
    }
}

#[test]
fn a_segment_that_is_lost_takes_only_its_own_values_along() {
    let memory = Memory::default();
    let file = memory.file();
    let open = || Redb::open_on(file.clone(), memory.clone(), Path::new("lost"), 0).unwrap();
    let engine = open();
    put_records(&engine, (0..20_000).map(|key| (key, value_of(key))));
    drop(engine);
    let segments = memory.copy();
    assert!(segments.len() > 2);
    memory.segments.lock().unwrap().remove(segments.keys().next().unwrap());
    let engine = open();
    let read = engine.snapshot().unwrap();
    let found = (0..20_000).map(|key| record(&*read, key).unwrap());
    let lost = found.enumerate().filter(|(key, value)| {
        assert!(value.is_empty() || *value == value_of(*key as u32));
        value.is_empty()
    });
    let lost = lost.count();
    assert!((1000..15_000).contains(&lost), "{lost}");
    drop(read);
    // Others are still moved, and nothing turns round in circles.
    delete_records(&engine, 10_000..20_000);
    engine.compact().unwrap();
    assert!(record(&*engine.snapshot().unwrap(), 9999).unwrap() == value_of(9999));
}
