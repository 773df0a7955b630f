//! The log: commits after a stop, damage, and a disk without room.

use super::*;

#[test]
fn commits_are_there_after_a_stop_at_any_moment() {
    let (file, log) = stopped();
    assert!(!assert_none_is_lost(&file, &log, "stopped"));
}

#[test]
fn no_synced_commit_is_lost_silently_whichever_byte_of_the_log_changes() {
    let (file, log) = stopped();
    let end = log.len() - log.iter().rev().take_while(|byte| **byte == 0).count();
    let mut noticed = 0;
    for at in 0..end + 8 {
        let mut damaged = log.clone();
        damaged[at] ^= 1 << (at % 8);
        noticed += u32::from(assert_none_is_lost(&file, &damaged, &format!("byte {at}")));
    }
    // The header, and four commits with a key and a value each.
    assert!(noticed > 32 + 4 * 60, "{noticed}");
}

#[test]
fn no_synced_commit_is_lost_silently_wherever_the_log_is_cut() {
    let (file, log) = stopped();
    for length in (0..1600).chain([log.len() - 1]) {
        assert_none_is_lost(&file, &log[..length], &format!("{length} bytes"));
    }
    let longer = [&log[..], &[7; 100]].concat();
    assert!(!assert_none_is_lost(&file, &longer, "longer"));
}

#[test]
fn the_log_of_another_store_is_refused() {
    let (file, _) = stopped();
    let (_, log) = stopped();
    assert!(assert_none_is_lost(&file, &log, "another's"));
}

#[test]
fn a_read_that_fails_at_opening_is_said_and_loses_no_commit() {
    let (stopped, log) = stopped();
    for fails_at in 1.. {
        let memory = Memory::of(log.clone());
        let file = Copied::of(stopped.clone(), &memory);
        memory.disk.fails_at.store(fails_at, Ordering::SeqCst);
        let opened = keys_of(&file, &memory);
        memory.disk.fails_at.store(0, Ordering::SeqCst);
        assert_eq!(keys_of(&file, &memory).unwrap(), KEYS, "read {fails_at}");
        match opened {
            Err(EngineError::Io { .. }) => {}
            Err(error) => panic!("read {fails_at}: {error}"),
            Ok(keys) => {
                assert_eq!(keys, KEYS, "read {fails_at}");
                assert!(fails_at > 10, "{fails_at}");
                return;
            }
        }
    }
}

#[track_caller]
fn assert_full(said: Result<(), EngineError>) {
    let said = said.unwrap_err();
    assert!(
        matches!(&said, EngineError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
        "{said}"
    );
}

#[test]
fn every_write_to_a_full_disk_says_that_it_is_full() {
    let memory = Memory::default();
    let engine = Redb::open_on(memory.file(), memory.clone(), Path::new("full"), 0).unwrap();
    memory.disk.is_full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Meta, b"key", b"value");
        assert_full(engine.write(Commit::Synced, &mut put));
    }
}

/// How many keys take several times the room of redb's cache.
const MANY_KEYS: u32 = 40_000;
const EVERYTHING: KeyRange<'static> = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);

fn put_keys(engine: &Redb, keys: std::ops::Range<u32>) {
    let mut put = |transaction: &mut dyn Transaction| {
        let mut keys = keys.clone();
        keys.try_for_each(|key| transaction.put(Table::Keys, &key.to_be_bytes(), &[7; 100]))
    };
    engine.write(Commit::Synced, &mut put).unwrap();
}

/// Returns an engine with many keys, which are in redb.
fn with_many_keys(memory: &Memory, path: &str) -> Redb {
    let engine = Redb::open_on(memory.file(), memory.clone(), Path::new(path), 0).unwrap();
    put_keys(&engine, 0..MANY_KEYS);
    engine.shared.checkpoint(false).unwrap();
    engine
}

/// Reads all keys, each of which has to be the next one.
fn count_keys(snapshot: &dyn Snapshot) -> Result<u32, EngineError> {
    let (mut next, mut is_next) = (0_u32, true);
    let each = &mut |key: &[u8]| {
        is_next &= key == next.to_be_bytes();
        next += 1;
        ControlFlow::Continue(())
    };
    snapshot.keys(Table::Keys, EVERYTHING, Direction::Forward, each)?;
    assert!(is_next);
    Ok(next)
}

/// redb itself reads nothing more from its file once it could not be written.
#[test]
fn all_can_be_read_on_a_full_disk() {
    let memory = Memory::default();
    let engine = with_many_keys(&memory, "full");
    let early = engine.snapshot().unwrap();
    put_keys(&engine, 0..MANY_KEYS);
    engine.shared.checkpoint(false).unwrap();
    let before = engine.snapshot().unwrap();
    put_keys(&engine, MANY_KEYS..MANY_KEYS + 1);
    memory.disk.is_full.store(true, Ordering::SeqCst);
    engine.compact().unwrap_err();
    assert_eq!(count_keys(&*before).unwrap(), MANY_KEYS);
    let after = engine.snapshot().unwrap();
    for _ in 0..2 {
        assert_eq!(count_keys(&*after).unwrap(), MANY_KEYS + 1);
    }
    // In redb's file it would find what a later checkpoint has stored.
    assert_full(count_keys(&*early).map(drop));
    // Once it is closed, another process may write the file.
    let mut engine = Some(engine);
    let each = &mut |_: &[u8]| {
        engine = None;
        ControlFlow::Continue(())
    };
    assert!(after.keys(Table::Keys, EVERYTHING, Direction::Forward, each).is_err());
    assert!(count_keys(&*after).is_err());
}

/// redb itself reads nothing more once a page could not be read.
#[test]
fn a_page_that_can_not_be_read_costs_one_read() {
    let memory = Memory::default();
    let engine = with_many_keys(&memory, "sector");
    let snapshot = engine.snapshot().unwrap();
    for read in [1, 2, 100, 1] {
        let done = memory.disk.reads.load(Ordering::SeqCst);
        memory.disk.fails_at.store(done + read, Ordering::SeqCst);
        let said = count_keys(&*snapshot).unwrap_err();
        assert!(said.to_string().contains("read sector"), "{said}");
        assert!(format!("{said:?}").contains("a sector can't be read"), "{said:?}");
        for _ in 0..2 {
            assert_eq!(count_keys(&*snapshot).unwrap(), MANY_KEYS);
            assert_eq!(count_keys(&*engine.snapshot().unwrap()).unwrap(), MANY_KEYS);
        }
    }
}

#[test]
fn what_a_commit_took_that_found_no_room_is_given_back() {
    let memory = Memory::default();
    let file = memory.file();
    let open = || Redb::open_on(file.clone(), memory.clone(), Path::new("full"), 0).unwrap();
    let engine = open();
    put_records(&engine, [(1, value_of(1))]);
    engine.sync().unwrap();
    let mut put = |transaction: &mut dyn Transaction| {
        transaction.put(Table::Records, b"large", &vec![7; 5 << 20])?;
        memory.disk.is_full.store(true, Ordering::SeqCst);
        transaction.put(Table::Records, b"too much", &vec![7; 5 << 20])
    };
    engine.write(Commit::Synced, &mut put).unwrap_err();
    drop(engine);
    assert!(length_of(&memory.copy()) > 5 << 20);
    memory.disk.is_full.store(false, Ordering::SeqCst);
    let engine = open();
    assert!(length_of(&memory.copy()) < 10_000);
    assert!(record(&*engine.snapshot().unwrap(), 1) == Some(value_of(1)));
}

#[test]
fn a_log_of_a_later_program_is_refused_and_not_given_up() {
    let (file, mut log) = stopped();
    let later =
        b"ibidwal\x03\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x76\x2a\xf4\xef\xf3\x43\x64\x1c";
    log[..later.len()].copy_from_slice(later);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redb");
    let segment = folder.path().join("redb.segments").join("1");
    std::fs::write(&path, &file).unwrap();
    std::fs::create_dir(segment.parent().unwrap()).unwrap();
    std::fs::write(&segment, &log).unwrap();
    let opened = Redb::open(&path, 0).err();
    let given_up = Redb::give_up_lost_commits(&path).err();
    for error in [opened, given_up] {
        let Some(error @ EngineError::Version { .. }) = error else {
            panic!("{error:?}");
        };
        let text = error.to_string();
        assert!(
            text.contains("segment 1 of its log: version") && !text.contains("repair"),
            "{text}"
        );
    }
    assert!(std::fs::read(&segment).unwrap() == log, "nothing was changed");
}

#[test]
fn what_is_damaged_can_be_given_up_and_the_rest_is_kept() {
    let (file, log) = stopped();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redb");
    let segments = folder.path().join("redb.segments");
    std::fs::create_dir(&segments).unwrap();
    let open = || {
        let engine = Redb::open(&path, 0)?;
        keys(&engine)
    };
    // The second commit is damaged: two others come after it.
    let (id, _) = commit_log_id(log.first_chunk().unwrap()).unwrap();
    let second = CommitHead::find(&id, &log, 1025).unwrap();
    let mut damaged = log.clone();
    damaged[second.0 + 50] ^= 1;
    for (log, lost, left) in [
        (Some(damaged), LostCommits::Number(3), 1),
        (Some(log[..second.0].to_vec()), LostCommits::Number(3), 1),
        (Some(Vec::new()), LostCommits::Unknown, 0),
        (None, LostCommits::Unknown, 0),
        (Some(log), LostCommits::None, 4),
    ] {
        std::fs::write(&path, &file).unwrap();
        for segment in std::fs::read_dir(&segments).unwrap() {
            std::fs::remove_file(segment.unwrap().path()).unwrap();
        }
        if let Some(log) = log {
            std::fs::write(segments.join("1"), log).unwrap();
        }
        if lost != LostCommits::None {
            assert!(matches!(open(), Err(EngineError::Damaged { .. })));
        }
        assert_eq!(Redb::give_up_lost_commits(&path).unwrap(), lost);
        assert_eq!(open().unwrap(), KEYS[..left]);
        assert_eq!(Redb::give_up_lost_commits(&path).unwrap(), LostCommits::None);
    }
}

#[test]
fn a_commit_whose_predecessor_was_lost_never_comes_back_behind_a_new_one() {
    let (file, mut log) = stopped();
    let (id, hash) = commit_log_id(log.first_chunk().unwrap()).unwrap();
    let heads = std::iter::successors(CommitHead::find(&id, &log, 1024), |(at, _)| {
        CommitHead::find(&id, &log, at + 1)
    });
    let heads: Vec<usize> = heads.map(|(at, _)| at).collect();
    // As if nothing had been synced, and the second commit of those had not reached the disk.
    log[512..528].fill(0);
    let unsynced = |log: &mut Vec<u8>| {
        for (place, &at) in heads.iter().enumerate() {
            let encoded = *log[at..].first_chunk().unwrap();
            let head = CommitHead {
                synced: 0,
                ..CommitHead::decode(&id, &encoded).unwrap()
            };
            let encoded = head.encode(&id);
            let end = heads
                .get(place + 1)
                .map_or(at + encoded.len() + head.length as usize + 8, |end| *end);
            let mut hasher = ibid_format::record::CommitHasher::new(hash);
            hasher.update(&log[at + encoded.len()..end - 8]);
            let check = hasher.finish(&encoded);
            log[at..at + encoded.len()].copy_from_slice(&encoded);
            log[end - 8..end].copy_from_slice(&check);
        }
    };
    unsynced(&mut log);
    log[heads[1]..heads[2]].fill(0);
    let memory = Memory::of(log);
    let file = Copied::of(file, &memory);
    let engine = Redb::open_on(file.clone(), memory.clone(), Path::new("opened"), 0).unwrap();
    assert_eq!(keys(&engine).unwrap(), [b"a"]);
    let image = file.copy();
    // As long as the one that was lost, so the third and fourth would fit behind it.
    let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, b"e", b"in the same place");
    engine.write(Commit::Synced, &mut put).unwrap();
    let log = Memory::of(memory.copy().remove(&1).unwrap());
    assert_eq!(keys_of(&Copied::of(image, &log), &log).unwrap(), [b"a", b"e"]);
}

#[test]
fn a_file_that_is_older_than_its_log_gets_what_that_has_or_is_noticed() {
    const RECORDS: u32 = 2000;
    let memory = Memory::default();
    let file = memory.file();
    let engine = Redb::open_on(file.clone(), memory.clone(), Path::new("old"), 0).unwrap();
    let engine = engine.with_log_bytes(20_000).with_segment_bytes(100_000);
    let old = file.copy();
    for key in 0..RECORDS {
        put_records(&engine, [(key, value_of(key))]);
    }
    let late = file.copy();
    drop(engine);
    let all = memory.copy();
    assert!(all.len() > 10, "{} segments", all.len());
    // Without the last segments, the file and the log are like a copy of both from earlier.
    let last = all.len() - 2;
    for (at, without) in all.keys().enumerate() {
        let mut rest = all.clone();
        rest.remove(without);
        let memory = memory_of(&rest);
        let opened = Redb::open_on(Copied::of(old.clone(), &memory), memory.clone(), Path::new("old"), 0);
        let engine = match opened {
            Ok(engine) if at >= last => engine,
            Err(EngineError::Damaged { .. }) if at <= last => continue,
            opened => panic!("without segment {without}: {:?}", opened.err()),
        };
        let read = engine.snapshot().unwrap();
        let found = (0..RECORDS).take_while(|key| record(&*read, *key) == Some(value_of(*key)));
        let found = found.count() as u32;
        assert!(
            (0..RECORDS)
                .skip(found as usize)
                .all(|key| record(&*read, key).is_none())
        );
    }
    let memory = memory_of(&all);
    let engine = Redb::open_on(Copied::of(late, &memory), memory.clone(), Path::new("old"), 0).unwrap();
    let read = engine.snapshot().unwrap();
    (0..RECORDS).for_each(|key| assert_eq!(record(&*read, key), Some(value_of(key)), "{key}"));
}

#[test]
fn a_value_in_parts_is_there_within_its_commit_and_after_a_stop() {
    let memory = Memory::default();
    let file = memory.file();
    let engine = Redb::open_on(file.clone(), memory.clone(), Path::new("parts"), 0).unwrap();
    let body = vec![7; 1 << 20];
    let parts = [&b"head"[..], &body, b"check"];
    let key = 1_u32.to_be_bytes();
    let mut put = |transaction: &mut dyn Transaction| {
        transaction.put_parts(Table::Records, &key, &parts)?;
        let mut is_same = false;
        transaction.get(Table::Records, &key, &mut |value| is_same = value == parts.concat())?;
        assert!(is_same);
        Ok(())
    };
    engine.write(Commit::Synced, &mut put).unwrap();
    let log = Memory::of(memory.copy().remove(&1).unwrap());
    let opened = Redb::open_on(Copied::of(file.copy(), &log), log.clone(), Path::new("opened"), 0).unwrap();
    assert!(record(&*opened.snapshot().unwrap(), 1) == Some(parts.concat()));
}

#[test]
fn a_log_takes_no_room_behind_its_end_once_it_is_closed() {
    let (engine, _, memory, _) = held_engine();
    let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, b"ibid", b"in the same place");
    engine.write(Commit::Synced, &mut put).unwrap();
    engine.shared.checkpoint(false).unwrap();
    drop(engine);
    assert!(length_of(&memory.copy()) < 4096);
}

#[test]
fn no_synced_commit_is_lost_silently_whichever_byte_changes_where_the_log_goes_on() {
    let (engine, file, memory, syncs) = held_engine();
    let engine = engine.with_segment_bytes(300);
    syncs.hold();
    for (place, key) in KEYS.into_iter().enumerate() {
        let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, key, &[1; 150]);
        engine.write(Commit::Synced, &mut put).unwrap();
        if place == 1 {
            let journal = &mut *engine.shared.lock_journal();
            engine.shared.freeze(journal, false, false).unwrap();
        }
    }
    let (image, segments) = (file.copy(), memory.copy());
    syncs.allow_all();
    drop(engine);
    assert_eq!(segments.len(), 2, "the log goes on in another segment");
    let mut noticed = 0;
    for (number, bytes) in &segments {
        let end = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        for at in 0..end + 8 {
            let mut damaged = segments.clone();
            damaged.get_mut(number).unwrap()[at.min(bytes.len() - 1)] ^= 1 << (at % 8);
            let memory = memory_of(&damaged);
            let file = Copied::of(image.clone(), &memory);
            let case = format!("byte {at} of segment {number}");
            let mut is_damaged = false;
            for _ in 0..2 {
                match keys_of(&file, &memory) {
                    Ok(keys) => assert_eq!(keys, KEYS, "{case}"),
                    Err(EngineError::Damaged { .. }) => is_damaged = true,
                    Err(error) => panic!("{case}: {error}"),
                }
            }
            noticed += u32::from(is_damaged);
            if !is_damaged || !noticed.is_multiple_of(10) {
                continue;
            }
            // What comes before the damage can be had, by readers too, and everything goes on from there.
            let (_folder, path) = written(&image, &damaged);
            let is_read = RedbReader::open(&path, 0).is_ok();
            assert!(!is_read, "{case}: a reader sees less than was synced");
            let lost = Redb::give_up_lost_commits(&path).unwrap();
            assert_ne!(lost, LostCommits::None, "{case}");
            for _ in 0..2 {
                let engine = Redb::open(&path, 0).unwrap();
                let found = keys(&engine).unwrap();
                assert!(found.len() < KEYS.len() && found == KEYS[..found.len()], "{case}");
            }
        }
    }
    assert!(noticed > 500, "{noticed}");
}
