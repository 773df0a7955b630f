//! What a reader of redb's file sees beside the process that writes it, step by step.

use std::fs;
use std::ops::{Bound, ControlFlow};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ibid_format::record::{COMMIT_LOG_COMMITS_AT, ReadersNote};
use ibid_record::engine::{Commit, Direction, Engine, EngineError, Read, Redb, RedbReader, Table, Unused};

use crate::common::noise;

const CACHE: usize = 1 << 20;

fn file(folder: &Path) -> PathBuf {
    folder.join("redb")
}

fn writer(folder: &Path) -> Redb {
    Redb::open(&file(folder), CACHE).unwrap()
}

fn reader(folder: &Path) -> RedbReader {
    RedbReader::open(&file(folder), CACHE).unwrap()
}

/// Puts a value into a table whose values stay in redb's file, and into one whose values stay in the log.
fn put(engine: &Redb, commit: Commit, key: &[u8], value: &[u8]) {
    engine
        .write(commit, &mut |transaction| {
            transaction.put(Table::Keys, key, value)?;
            transaction.put(Table::Records, key, value)
        })
        .unwrap();
}

fn value(read: &(impl Read + ?Sized), table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
    let mut value = None;
    read.get(table, key, &mut |found| value = Some(found.to_vec()))?;
    Ok(value)
}

/// Returns what is under a key in both tables, which have the same.
fn get(engine: &RedbReader, key: &[u8]) -> Option<Vec<u8>> {
    let snapshot = engine.snapshot().unwrap();
    let found = value(&*snapshot, Table::Keys, key).unwrap();
    assert_eq!(found, value(&*snapshot, Table::Records, key).unwrap());
    found
}

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Returns all keys and values of a table.
fn all(read: &(impl Read + ?Sized), table: Table) -> Result<Pairs, EngineError> {
    let mut all = Vec::new();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    read.range(table, everything, Direction::Forward, &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

/// More pages than the smallest cache has.
const KEYS: u32 = 4000;

/// Gives all keys other values, in commits that are synced in redb's file.
fn fill(engine: Redb, round: u32) -> Redb {
    let engine = engine.with_log_bytes(1 << 20);
    for part in 0..16 {
        engine
            .write(Commit::Unsynced, &mut |transaction| {
                for key in (0..KEYS).filter(|key| key % 16 == part) {
                    let value = [&noise(500, key % 7)[..], &round.to_be_bytes(), &key.to_be_bytes()].concat();
                    transaction.put(Table::Keys, &key.to_be_bytes(), &value)?;
                    transaction.put(Table::Records, &key.to_be_bytes(), &value)?;
                }
                Ok(())
            })
            .unwrap();
    }
    engine.sync().unwrap();
    engine
}

/// Returns the round of which all keys of a snapshot have values.
fn round_of(read: &(impl Read + ?Sized)) -> Result<u32, EngineError> {
    let (keys, records) = (all(read, Table::Keys)?, all(read, Table::Records)?);
    assert!(keys == records, "both tables have the same");
    assert_eq!(keys.len() as u32, KEYS);
    let round = |value: &[u8]| u32::from_be_bytes(*value[value.len() - 8..].first_chunk().unwrap());
    let first = round(&keys[0].1);
    assert!(
        keys.iter().all(|(_, value)| round(value) == first),
        "all are of round {first}"
    );
    Ok(first)
}

/// Copies a store as a crash of its process leaves it.
fn crashed(folder: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    fs::create_dir(copy.path().join("redb.segments")).unwrap();
    fs::copy(file(folder), file(copy.path())).unwrap();
    fs::copy(folder.join("redb.readers"), copy.path().join("redb.readers")).unwrap();
    for entry in fs::read_dir(folder.join("redb.segments")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join("redb.segments").join(entry.file_name())).unwrap();
    }
    copy
}

#[test]
fn a_commit_is_seen_once_it_is_synced_and_a_snapshot_stays() {
    let folder = tempfile::tempdir().unwrap();
    let engine = writer(folder.path());
    let reader = reader(folder.path());
    for value in [&b"short"[..], &noise(500, 1), &noise(100_000, 2)] {
        let (before, snapshot) = (get(&reader, b"key"), reader.snapshot().unwrap());
        put(&engine, Commit::Unsynced, b"key", value);
        assert!(!reader.refresh().unwrap(), "it is not synced");
        assert_eq!(get(&reader, b"key"), before);
        engine.sync().unwrap();
        assert_eq!(get(&reader, b"key"), before, "it is not refreshed");
        assert!(reader.refresh().unwrap());
        assert_eq!(get(&reader, b"key").as_deref(), Some(value));
        assert!(!reader.refresh().unwrap(), "nothing is new");
        put(&engine, Commit::Synced, b"other", value);
        assert!(reader.refresh().unwrap());
        assert_eq!(get(&reader, b"other").as_deref(), Some(value));
        assert_eq!(value_of(&*snapshot, b"key"), before, "a snapshot stays");
    }
    engine
        .write(Commit::Synced, &mut |transaction| {
            transaction.delete(Table::Keys, b"key")
        })
        .unwrap();
    let snapshot = reader.snapshot().unwrap();
    reader.refresh().unwrap();
    assert_eq!(all(&*reader.snapshot().unwrap(), Table::Keys).unwrap().len(), 1);
    assert_eq!(all(&*snapshot, Table::Keys).unwrap().len(), 2);
}

fn value_of(read: &(impl Read + ?Sized), key: &[u8]) -> Option<Vec<u8>> {
    value(read, Table::Records, key).unwrap()
}

#[test]
fn what_is_written_anew_again_and_again_stays_for_a_reader_with_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = fill(writer(folder.path()), 0);
    let reader = reader(folder.path());
    let (unread, read) = (
        reader.snapshot().unwrap(),
        RedbReader::open(&file(folder.path()), CACHE).unwrap(),
    );
    assert_eq!(round_of(&*read.snapshot().unwrap()).unwrap(), 0);
    for round in 1..5 {
        engine = fill(engine, round);
        // What is not kept is given back.
        engine.reclaim(Unused::Any, &mut |_| ControlFlow::Continue(())).unwrap();
        engine.compact().unwrap();
        read.refresh().unwrap();
        assert_eq!(round_of(&*read.snapshot().unwrap()).unwrap(), round);
    }
    assert_eq!(round_of(&*unread).unwrap(), 0);
    assert!(!engine.wipe().unwrap(), "a reader has a snapshot");
    assert_eq!(round_of(&*unread).unwrap(), 0);
    drop((reader, unread, read));
    assert!(engine.wipe().unwrap(), "no reader has one any more");
}

#[test]
fn the_next_writer_keeps_the_last_state_for_a_reader_with_a_lock() {
    let folder = tempfile::tempdir().unwrap();
    drop(fill(writer(folder.path()), 0));
    let reader = reader(folder.path());
    let unread = reader.snapshot().unwrap();
    let mut engine = writer(folder.path());
    for round in 1..4 {
        engine = fill(engine, round);
    }
    assert_eq!(round_of(&*unread).unwrap(), 0);
    // It ends with this writer, and the one after it does not know of it.
    drop(engine);
    let note = fs::read(folder.path().join("redb.readers")).unwrap();
    let note = ReadersNote::decode(note.first_chunk().unwrap());
    assert_eq!(note, Ok(ReadersNote::CLOSED), "nothing is kept any more");
    drop(fill(writer(folder.path()), 4));
    let lost = RedbReader::open(&file(folder.path()), CACHE).unwrap();
    assert_eq!(round_of(&*lost.snapshot().unwrap()).unwrap(), 4);
    match round_of(&*unread) {
        Ok(round) => assert_eq!(round, 0, "all of it is in memory"),
        Err(error) => assert!(matches!(error, EngineError::Outdated { .. }), "{error}"),
    }
}

#[test]
fn a_reader_without_a_lock_is_told_that_its_pages_are_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = fill(writer(folder.path()), 0);
    let alias = without_locks(folder.path());
    let reader = reader(alias.path());
    let unread = reader.snapshot().unwrap();
    for round in 1..4 {
        engine = fill(engine, round);
    }
    let error = round_of(&*unread).unwrap_err();
    assert!(matches!(error, EngineError::Outdated { .. }), "{error}");
    assert!(reader.refresh().unwrap());
    // The last checkpoint may still be on its way to the disk, and move pages once more.
    let round = loop {
        match round_of(&*reader.snapshot().unwrap()) {
            Err(EngineError::Outdated { .. }) => drop(reader.refresh().unwrap()),
            round => break round.unwrap(),
        }
    };
    assert_eq!(round, 3);
    drop(engine);
}

#[test]
fn a_reader_that_comes_after_pages_were_moved_has_a_lock_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut engine = fill(writer(folder.path()), 0);
    let length = || fs::metadata(file(folder.path())).unwrap().len();
    for round in 1..4 {
        engine = fill(engine, round);
    }
    let before = length();
    engine.compact().unwrap();
    assert!(length() < before, "no reader is in the way");
    let reader = reader(folder.path());
    let unread = reader.snapshot().unwrap();
    for round in 4..7 {
        engine = fill(engine, round);
        engine.compact().unwrap();
    }
    assert_eq!(round_of(&*unread).unwrap(), 3);
}

/// Makes another name for a store, under which its file with locks is not found.
fn without_locks(folder: &Path) -> tempfile::TempDir {
    let alias = tempfile::tempdir().unwrap();
    for name in ["redb", "redb.segments"] {
        symlink(folder.join(name), alias.path().join(name)).unwrap();
    }
    alias
}

/// Each commit makes a checkpoint, after which the log goes on in another segment, and the one before is removed.
#[test]
fn what_is_opened_is_never_of_two_states() {
    let folder = tempfile::tempdir().unwrap();
    let engine = writer(folder.path()).with_log_bytes(1).with_segment_bytes(1);
    let alias = without_locks(folder.path());
    let value_of = |number: u32| {
        [
            &noise(200 + number as usize % 7 * 100, number)[..],
            &number.to_be_bytes(),
        ]
        .concat()
    };
    put(&engine, Commit::Synced, b"key", &value_of(0));
    let (is_done, acknowledged) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let read = |folder: &Path| {
            let mut opened = 0;
            while !is_done.load(Ordering::SeqCst) {
                let least = acknowledged.load(Ordering::SeqCst);
                let snapshot = reader(folder).snapshot().unwrap();
                let found = value(&*snapshot, Table::Keys, b"key");
                let found = found.and_then(|first| Ok((first, value(&*snapshot, Table::Records, b"key")?)));
                let (found, other) = match found {
                    Ok(found) => found,
                    Err(EngineError::Outdated { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                assert!(found == other, "both tables have the same");
                let found = found.expect("it is there at all times");
                let number = u32::from_be_bytes(*found.last_chunk().expect("it is whole"));
                assert!(found == value_of(number) && number >= least, "{number} after {least}");
                opened += 1;
            }
            assert!(opened > 10, "{opened} times");
        };
        let (folder, alias) = (folder.path(), alias.path());
        let readers = [folder, alias, alias].map(|folder| scope.spawn(move || read(folder)));
        for number in 1..600 {
            put(&engine, Commit::Synced, b"key", &value_of(number));
            acknowledged.store(number, Ordering::SeqCst);
            if readers.iter().any(|reader| reader.is_finished()) {
                break;
            }
        }
        is_done.store(true, Ordering::SeqCst);
    });
}

/// A checkpoint is nearly always under way when a reader takes its lock.
#[test]
fn a_lock_that_is_taken_at_any_moment_keeps_all_pages() {
    let folder = tempfile::tempdir().unwrap();
    let engine = fill(writer(folder.path()), 0).with_log_bytes(1);
    let (is_done, written) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let read = scope.spawn(|| {
            for _ in 0..12 {
                let reader = reader(folder.path());
                let snapshot = reader.snapshot().unwrap();
                let enough = written.load(Ordering::SeqCst) + 24;
                while written.load(Ordering::SeqCst) < enough && !is_done.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                let keys = all(&*snapshot, Table::Keys).unwrap();
                assert!(
                    keys == all(&*snapshot, Table::Records).unwrap(),
                    "both tables have the same"
                );
                assert_eq!(keys.len() as u32, KEYS);
                assert!(keys.iter().all(|(key, value)| value.ends_with(key)));
            }
        });
        for round in 1.. {
            let value = |key: u32| [&noise(500, key % 7)[..], &u32::to_be_bytes(round), &key.to_be_bytes()].concat();
            engine
                .write(Commit::Synced, &mut |transaction| {
                    for key in (0..KEYS).filter(|key| key % 16 == round % 16) {
                        transaction.put(Table::Keys, &key.to_be_bytes(), &value(key))?;
                        transaction.put(Table::Records, &key.to_be_bytes(), &value(key))?;
                    }
                    Ok(())
                })
                .unwrap();
            written.store(round, Ordering::SeqCst);
            if read.is_finished() {
                break;
            }
        }
        is_done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn what_no_writer_has_synced_yet_is_seen_as_by_the_next_writer() {
    let folder = tempfile::tempdir().unwrap();
    let engine = writer(folder.path());
    put(&engine, Commit::Synced, b"key", b"synced");
    put(&engine, Commit::Unsynced, b"key", b"not synced");
    let crashed = crashed(folder.path());
    assert_eq!(
        get(&reader(crashed.path()), b"key").as_deref(),
        Some(&b"not synced"[..])
    );
    let _next = writer(crashed.path());
    assert_eq!(
        get(&reader(crashed.path()), b"key").as_deref(),
        Some(&b"not synced"[..])
    );
}

/// Values that the log has, and redb not, are not written over by the next writer, which does not need them.
#[test]
fn a_snapshot_stays_when_a_writer_that_removed_all_crashes_and_the_next_one_begins_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let engine = writer(folder.path());
    put(&engine, Commit::Synced, b"key", &noise(5000, 1));
    let before = crashed(folder.path());
    let reader = reader(before.path());
    let snapshot = reader.snapshot().unwrap();
    let removed = |engine: &Redb| {
        engine.write(Commit::Synced, &mut |transaction| {
            transaction.delete(Table::Records, b"key")
        })
    };
    removed(&engine).unwrap();
    // What the writer has added to the log meanwhile.
    let after = crashed(folder.path());
    for entry in fs::read_dir(after.path().join("redb.segments")).unwrap() {
        let entry = entry.unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        fs::write(before.path().join("redb.segments").join(entry.file_name()), bytes).unwrap();
    }
    let next = writer(before.path()).with_log_bytes(1);
    // A checkpoint without any value in the log.
    next.write(Commit::Synced, &mut |transaction| {
        transaction.put(Table::Keys, b"key", b"short")
    })
    .unwrap();
    for number in 0..8 {
        put(&next, Commit::Synced, b"other", &noise(4000, number));
    }
    assert_eq!(value_of(&*snapshot, b"key"), Some(noise(5000, 1)));
}

#[test]
fn a_damaged_commit_that_was_synced_is_an_error_and_one_that_was_not_finished_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let engine = writer(folder.path());
    put(&engine, Commit::Synced, b"first", &noise(300, 1));
    put(&engine, Commit::Synced, b"second", &noise(300, 2));
    let whole = crashed(folder.path());
    let segments = fs::read_dir(whole.path().join("redb.segments")).unwrap();
    let segment = segments.last().unwrap().unwrap().path();
    let bytes = fs::read(&segment).unwrap();
    assert_eq!(get(&reader(whole.path()), b"second"), Some(noise(300, 2)));

    let mut damaged = bytes.clone();
    damaged[COMMIT_LOG_COMMITS_AT as usize + 100] ^= 1;
    fs::write(&segment, damaged).unwrap();
    let error = RedbReader::open(&file(whole.path()), CACHE).err().unwrap();
    assert!(matches!(error, EngineError::Damaged { .. }), "{error}");
    assert!(
        error.to_string().contains("were synced, and are damaged or missing"),
        "{error}"
    );
    assert!(Redb::open(&file(whole.path()), CACHE).is_err(), "a writer says so, too");

    fs::write(&segment, &bytes).unwrap();
    fs::remove_file(&segment).unwrap();
    let error = RedbReader::open(&file(whole.path()), CACHE).err().unwrap();
    assert!(error.to_string().contains("of its log is missing"), "{error}");

    // The note as it was before the second commit, and a part of that.
    put(&engine, Commit::Unsynced, b"third", &noise(3000, 3));
    let cut = crashed(folder.path());
    let segment = cut.path().join("redb.segments").join(segment.file_name().unwrap());
    let mut bytes = fs::read(&segment).unwrap();
    let third = bytes.windows(5).position(|window| window == b"third").unwrap();
    bytes[third + 1000..third + 2000].fill(0);
    fs::write(&segment, bytes).unwrap();
    let reader = reader(cut.path());
    assert_eq!(get(&reader, b"second"), Some(noise(300, 2)));
    assert_eq!(get(&reader, b"third"), None);
}

#[test]
fn a_file_that_lost_its_end_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    drop(fill(writer(folder.path()), 0));
    let bytes = fs::read(file(folder.path())).unwrap();
    for length in [bytes.len() / 2, 4096, 100, 0] {
        fs::write(file(folder.path()), &bytes[..length]).unwrap();
        let read = RedbReader::open(&file(folder.path()), CACHE).and_then(|reader| round_of(&*reader.snapshot()?));
        let error = read.expect_err("pages are missing");
        assert!(matches!(error, EngineError::Damaged { .. }), "{length}: {error}");
    }
}

#[test]
fn every_write_through_a_reader_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    drop(writer(folder.path()));
    let reader = reader(folder.path());
    let write = |commit| {
        reader.write(commit, &mut |transaction| {
            transaction.put(Table::Keys, b"key", b"value")
        })
    };
    let refused = [
        write(Commit::Synced),
        write(Commit::Unsynced),
        reader.sync(),
        reader.reclaim(Unused::Any, &mut |_| ControlFlow::Continue(())),
        reader.compact(),
        reader.wipe().map(drop),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(matches!(error, EngineError::ReadOnly { .. }), "{error}");
        assert!(error.to_string().ends_with("was opened read only"), "{error}");
    }
}
