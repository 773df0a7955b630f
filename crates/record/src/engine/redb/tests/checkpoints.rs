//! Checkpoints: what is in memory until then, and stops and losses amid their steps.

use super::*;

#[test]
fn commits_go_on_while_a_checkpoint_is_synced_and_none_is_lost_if_it_never_is() {
    const LONG: usize = 2000;
    let (engine, file, memory, syncs) = held_engine();
    let engine = engine.with_log_bytes(LONG as u64).with_segment_bytes(3 * LONG as u64);
    let name = |number: u32| number.to_be_bytes().to_vec();
    let expected = |count: u32| (0..count).map(name).collect::<Vec<_>>();
    let put = |number: u32| {
        let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, &name(number), &[1; 100]);
        engine.write(Commit::Synced, &mut put).unwrap();
    };
    let mut images = Vec::new();
    // So often a checkpoint begins and the log moves on.
    let mut number = 0;
    for _ in 0..6 {
        syncs.hold();
        while !is_under_way(&engine) {
            put(number);
            number += 1;
            images.push((number, file.copy(), memory.copy()));
        }
        for _ in 0..LONG / 4 / 100 {
            put(number);
            number += 1;
            images.push((number, file.copy(), memory.copy()));
            assert_eq!(keys(&engine).unwrap(), expected(number));
        }
        assert!(is_under_way(&engine), "a checkpoint that was not synced is done");
        syncs.allow_all();
        while is_under_way(&engine) {
            std::thread::yield_now();
        }
        images.push((number, file.copy(), memory.copy()));
    }
    let mut followed = 0;
    for (count, file, segments) in &images {
        let memory = memory_of(segments);
        let file = Copied::of(file.clone(), &memory);
        assert_eq!(
            keys_of(&file, &memory).unwrap(),
            expected(*count),
            "stopped after {count}"
        );
        // As often as it is opened, and stopped again without having written.
        assert_eq!(
            keys_of(&file, &memory).unwrap(),
            expected(*count),
            "stopped after {count}"
        );
        followed += u32::from(segments.len() > 1);
    }
    assert!(followed > 10, "{followed}");
    // And so sees a process that only reads.
    for (count, file, segments) in images.iter().filter(|(_, _, segments)| segments.len() > 1) {
        let (_folder, path) = written(file, segments);
        let reader = RedbReader::open(&path, 0).unwrap();
        assert_eq!(
            keys_in(&*reader.snapshot().unwrap()).unwrap(),
            expected(*count),
            "stopped after {count}"
        );
    }
}

/// So that opening the store after a crash takes no longer, and they take no more memory.
#[test]
fn so_many_changes_are_followed_by_a_checkpoint_and_writers_wait_before_there_are_twice_as_many() {
    const AT_ONCE: u64 = 1000;
    let (engine, _, _, syncs) = held_engine();
    let put = |from: u64| {
        let mut put = |transaction: &mut dyn Transaction| {
            (from..from + AT_ONCE).try_for_each(|number| transaction.delete(Table::Keys, &number.to_be_bytes()))
        };
        engine.write(Commit::Unsynced, &mut put).unwrap();
    };
    let recent = || engine.shared.layers().recent_changes() as u64;
    syncs.hold();
    let mut count = 0;
    while !is_under_way(&engine) {
        put(count);
        count += AT_ONCE;
    }
    assert_eq!(count, LONG_CHANGES);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (count..2 * count).step_by(AT_ONCE as usize).for_each(put));
        while recent() < LONG_CHANGES / 2 {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(recent() <= LONG_CHANGES / 2 + AT_ONCE && !writer.is_finished());
        syncs.allow_all();
    });
}

/// All keys and values of two tables: one whose values are in redb's file, and one whose values are in segments.
type State = [BTreeMap<Vec<u8>, Vec<u8>>; 2];
const TABLES: [Table; 2] = [Table::Keys, Table::Records];

fn state_of(snapshot: &dyn Snapshot) -> Result<State, EngineError> {
    let mut state = State::default();
    for (table, pairs) in TABLES.into_iter().zip(&mut state) {
        let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        snapshot.range(table, everything, Direction::Forward, &mut |key, value| {
            pairs.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })?;
    }
    Ok(state)
}

/// Puts and removes values of some of a few keys, in one commit, and notes that.
fn change(engine: &Redb, state: &mut State, round: u32) {
    let mut change = |transaction: &mut dyn Transaction| {
        for number in 0..12_u32 {
            let key = [(number * 7 + round * 5) as u8 % 40 + 1];
            let value = value_of(round * 100 + number);
            let value = &value[..[3, 70, 900][(number + round) as usize % 3]];
            for (table, pairs) in TABLES.into_iter().zip(&mut *state) {
                if (number + round).is_multiple_of(4) {
                    transaction.delete(table, &key)?;
                    pairs.remove(&key[..]);
                } else {
                    transaction.put(table, &key, value)?;
                    pairs.insert(key.to_vec(), value.to_vec());
                }
            }
        }
        Ok(())
    };
    engine.write(Commit::Synced, &mut change).unwrap();
}

#[test]
fn a_checkpoint_that_is_stopped_after_any_step_shows_in_nothing() {
    let (engine, file, memory, syncs) = held_engine();
    let engine = engine.with_step_changes(3).with_segment_bytes(20_000);
    let mut state = State::default();
    let mut images = Vec::new();
    let mut round = 0;
    while round < 40 {
        round += 1;
        change(&engine, &mut state, round);
        let moves_on = round.is_multiple_of(5);
        syncs.hold();
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| engine.shared.checkpoint(moves_on));
            while !checkpoint.is_finished() {
                images.push((state.clone(), file.copy(), memory.copy()));
                assert!(state_of(&*engine.snapshot().unwrap()).unwrap() == state);
                let done = syncs.done.load(Ordering::SeqCst);
                if done.is_multiple_of(7) {
                    round += 1;
                    change(&engine, &mut state, round);
                    images.push((state.clone(), file.copy(), memory.copy()));
                }
                syncs.allow_one();
                while syncs.done.load(Ordering::SeqCst) == done && !checkpoint.is_finished() {
                    std::thread::yield_now();
                }
            }
            checkpoint.join().unwrap().unwrap();
        });
        syncs.allow_all();
        assert!(state_of(&*engine.snapshot().unwrap()).unwrap() == state);
    }
    assert!(images.len() > 200, "{}", images.len());
    for (place, (state, file, segments)) in images.iter().enumerate() {
        let (_folder, path) = written(file, segments);
        let reader = RedbReader::open(&path, 0).unwrap();
        let read = state_of(&*reader.snapshot().unwrap()).unwrap();
        assert!(read == *state, "a reader of image {place}");
        let memory = memory_of(segments);
        let file = Copied::of(file.clone(), &memory);
        for time in 1..=2 {
            // The first has stored all when it is closed.
            let engine = Redb::open_on(file.clone(), memory.clone(), Path::new("opened"), 0).unwrap();
            let found = state_of(&*engine.snapshot().unwrap()).unwrap();
            assert!(found == *state, "image {place}, opened {time} times");
        }
    }
}

#[test]
fn a_checkpoint_is_done_once_it_is_synced_and_no_sooner() {
    let (engine, _, _, syncs) = held_engine();
    let engine = engine.with_log_bytes(1);
    syncs.hold();
    let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, b"ibid", b"in the same place");
    engine.write(Commit::Synced, &mut put).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(is_under_way(&engine));
    syncs.allow_all();
    // Nothing else has to happen for it to be done.
    while is_under_way(&engine) {
        std::thread::yield_now();
    }
    assert!(engine.shared.layers().is_empty());
}

/// A load of random updates doubles redb's file, which is longer than what is compacted by the way.
#[test]
fn a_file_that_has_grown_is_made_small_at_any_size_and_another_is_left() {
    /// With a page each, more than that.
    const VALUES: u32 = 20 << 10;
    const AT_ONCE: usize = 2 << 10;
    let each = |engine: &Redb, keys: std::ops::Range<u32>, value: Option<&[u8]>| {
        for keys in keys.collect::<Vec<_>>().chunks(AT_ONCE) {
            let change = &mut |transaction: &mut dyn Transaction| {
                for key in keys {
                    match value {
                        Some(value) => transaction.put(Table::Keys, &key.to_be_bytes(), value)?,
                        None => transaction.delete(Table::Keys, &key.to_be_bytes())?,
                    }
                }
                Ok(())
            };
            engine.write(Commit::Unsynced, change).unwrap();
        }
        engine.sync().unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redb");
    let value = vec![7; 3000];
    let engine = Redb::open(&path, 16 << 20).unwrap();
    each(&engine, 0..VALUES, Some(&value));
    engine.compact().unwrap();
    let full = engine.shared.occupied_bytes().unwrap();
    assert!(full > 64 << 20, "{full}");
    drop(engine);

    let engine = Redb::open(&path, 16 << 20).unwrap();
    let is_compacted = || engine.shared.accounts().compacted_bytes > 0;
    engine.reclaim(Unused::Any, &mut |_| ControlFlow::Continue(())).unwrap();
    engine.shrink().unwrap();
    assert!(!is_compacted(), "it has not grown");

    each(&engine, VALUES..2 * VALUES, Some(&value));
    each(&engine, VALUES..2 * VALUES, None);
    engine.reclaim(Unused::Any, &mut |_| ControlFlow::Continue(())).unwrap();
    let grown = engine.shared.occupied_bytes().unwrap();
    assert!(!is_compacted() && grown > full + full / 4, "{grown} of {full}");
    engine.shrink().unwrap();
    let shrunk = engine.shared.occupied_bytes().unwrap();
    assert!(is_compacted() && shrunk < full + full / 4, "{shrunk} of {full}");
    assert_eq!(keys(&engine).unwrap().len(), VALUES as usize);
}
