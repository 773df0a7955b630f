use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ibid_format::record::{COMMIT_LOG_COMMITS_AT, CommitHead, commit_log_id};

use super::commit_log::LONG_CHANGES;
use super::*;
use crate::engine::{Direction, Transaction, Unused};

/// Files in memory, of which copies can be taken at any time, on a disk that can become full, and whose reads can fail.
#[derive(Debug, Clone, Default)]
struct Memory {
    segments: Arc<Mutex<BTreeMap<u64, Copied>>>,
    disk: Arc<Disk>,
}

#[derive(Debug, Default)]
struct Disk {
    is_full: AtomicBool,
    reads: AtomicUsize,
    /// Which read fails, counted from 1.
    fails_at: AtomicUsize,
}

impl Disk {
    fn has_room(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    fn can_read(&self) -> io::Result<()> {
        match self.reads.fetch_add(1, Ordering::SeqCst) + 1 == self.fails_at.load(Ordering::SeqCst) {
            true => Err(io::Error::other("a sector can't be read")),
            false => Ok(()),
        }
    }
}

impl Memory {
    /// Returns the files of a log that has one segment.
    fn of(segment: Vec<u8>) -> Memory {
        let memory = Memory::default();
        memory.segments.lock().unwrap().insert(1, Copied::of(segment, &memory));
        memory
    }

    fn file(&self) -> Copied {
        Copied::of(Vec::new(), self)
    }

    /// Returns the contents of all segments.
    fn copy(&self) -> BTreeMap<u64, Vec<u8>> {
        let segments = self.segments.lock().unwrap();
        segments.iter().map(|(number, file)| (*number, file.copy())).collect()
    }
}

impl SegmentFiles for Memory {
    fn create(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>> {
        self.disk.has_room()?;
        let file = self.file();
        self.segments.lock().unwrap().insert(number, file.clone());
        Ok(Arc::new(file))
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn StorageBackend>> {
        let file = self.segments.lock().unwrap().get(&number).cloned();
        Ok(Arc::new(file.ok_or(io::ErrorKind::NotFound)?))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        self.segments.lock().unwrap().remove(&number);
        Ok(())
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        Ok(self.segments.lock().unwrap().keys().copied().collect())
    }
}

#[derive(Debug, Clone)]
struct Copied {
    bytes: Arc<Mutex<Vec<u8>>>,
    disk: Arc<Disk>,
}

impl Copied {
    fn of(bytes: Vec<u8>, memory: &Memory) -> Copied {
        Copied {
            bytes: Arc::new(Mutex::new(bytes)),
            disk: memory.disk.clone(),
        }
    }

    fn copy(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl StorageBackend for Copied {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.can_read()?;
        let bytes = self.bytes.lock().unwrap();
        let found = bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.disk.has_room()?;
        self.bytes.lock().unwrap().resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.has_room()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.has_room()?;
        self.bytes.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// A file whose syncs take as long as they are held up: those of redb's commits, and not those by which it makes sure
/// that the file has become longer.
#[derive(Debug, Clone)]
struct Held {
    file: Copied,
    syncs: Arc<Syncs>,
}

/// How many syncs are allowed, and done.
#[derive(Debug)]
struct Syncs {
    allowed: AtomicUsize,
    done: AtomicUsize,
    is_length_set: AtomicBool,
}

impl Syncs {
    /// Holds up each that comes from now on.
    fn hold(&self) {
        self.allowed.store(self.done.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    fn allow_one(&self) {
        self.allowed.fetch_add(1, Ordering::SeqCst);
    }

    fn allow_all(&self) {
        self.allowed.store(usize::MAX, Ordering::SeqCst);
    }
}

impl StorageBackend for Held {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.syncs.is_length_set.store(true, Ordering::SeqCst);
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.syncs.is_length_set.swap(false, Ordering::SeqCst) {
            return self.file.sync_data();
        }
        while self.syncs.allowed.load(Ordering::SeqCst) <= self.syncs.done.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let synced = self.file.sync_data();
        self.syncs.done.fetch_add(1, Ordering::SeqCst);
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }
}

const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// Returns the files of an engine that was stopped after it had committed these keys one after the other.
fn stopped() -> (Vec<u8>, Vec<u8>) {
    let memory = Memory::default();
    let file = memory.file();
    let engine = Redb::open_on(file.clone(), memory.clone(), Path::new("stopped"), 0).unwrap();
    for key in KEYS {
        let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, key, b"in the same place");
        engine.write(Commit::Synced, &mut put).unwrap();
    }
    (file.copy(), memory.copy().remove(&1).unwrap())
}

/// Returns the keys that an engine has which opens these files.
fn keys_of(file: &Copied, log: &Memory) -> Result<Vec<Vec<u8>>, EngineError> {
    keys(&Redb::open_on(file.clone(), log.clone(), Path::new("opened"), 0)?)
}

fn keys(engine: &Redb) -> Result<Vec<Vec<u8>>, EngineError> {
    keys_in(&*engine.snapshot()?)
}

fn keys_in(snapshot: &dyn Snapshot) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut found = Vec::new();
    let mut each = |key: &[u8], _: &[u8]| {
        found.push(key.to_vec());
        ControlFlow::Continue(())
    };
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    snapshot.range(Table::Keys, everything, Direction::Forward, &mut each)?;
    Ok(found)
}

/// All commits were synced: they are there, or it is an error, as often as it is opened. Returns whether it is one.
#[track_caller]
fn assert_none_is_lost(file: &[u8], log: &[u8], what: &str) -> bool {
    let log = Memory::of(log.to_vec());
    let file = Copied::of(file.to_vec(), &log);
    let open = || match keys_of(&file, &log) {
        Ok(keys) => {
            assert_eq!(keys, KEYS, "{what}");
            false
        }
        Err(EngineError::Damaged { .. }) => true,
        Err(error) => panic!("{what}: {error}"),
    };
    let is_error = open();
    assert_eq!(open(), is_error, "{what}");
    is_error
}

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

#[test]
fn every_write_to_a_full_disk_says_that_it_is_full() {
    let memory = Memory::default();
    let engine = Redb::open_on(memory.file(), memory.clone(), Path::new("full"), 0).unwrap();
    memory.disk.is_full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Meta, b"key", b"value");
        let said = engine.write(Commit::Synced, &mut put).unwrap_err();
        assert!(
            matches!(&said, EngineError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull),
            "{said}"
        );
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

/// Puts values under keys, in a commit each.
fn put_records(engine: &Redb, records: impl IntoIterator<Item = (u32, Vec<u8>)>) {
    for (key, value) in records {
        let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Records, &key.to_be_bytes(), &value);
        engine.write(Commit::Unsynced, &mut put).unwrap();
    }
}

fn delete_records(engine: &Redb, keys: impl IntoIterator<Item = u32>) {
    for key in keys {
        let mut delete = |transaction: &mut dyn Transaction| transaction.delete(Table::Records, &key.to_be_bytes());
        engine.write(Commit::Unsynced, &mut delete).unwrap();
    }
}

fn record(read: &dyn Snapshot, key: u32) -> Option<Vec<u8>> {
    let mut value = None;
    let mut found = |bytes: &[u8]| value = Some(bytes.to_vec());
    read.get(Table::Records, &key.to_be_bytes(), &mut found).unwrap();
    value
}

/// A value of its own for each key, of some KiB.
fn value_of(key: u32) -> Vec<u8> {
    let length = 1000 + key as usize % 7 * 1000;
    (0..length as u32)
        .map(|at| (at ^ key).wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect()
}

fn length_of(segments: &BTreeMap<u64, Vec<u8>>) -> usize {
    segments.values().map(Vec::len).sum()
}

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

/// Returns memory with these segments.
fn memory_of(segments: &BTreeMap<u64, Vec<u8>>) -> Memory {
    let memory = Memory::default();
    let files = segments
        .iter()
        .map(|(number, bytes)| (*number, Copied::of(bytes.clone(), &memory)));
    let files = files.collect();
    *memory.segments.lock().unwrap() = files;
    memory
}

/// Returns an engine, its files, and what holds up the syncs of redb's.
fn held_engine() -> (Redb, Copied, Memory, Arc<Syncs>) {
    let memory = Memory::default();
    let syncs = Arc::new(Syncs {
        allowed: AtomicUsize::new(usize::MAX),
        done: AtomicUsize::new(0),
        is_length_set: AtomicBool::new(false),
    });
    let file = memory.file();
    let held = Held {
        file: file.clone(),
        syncs: syncs.clone(),
    };
    let engine = Redb::open_on(held, memory.clone(), Path::new("held"), 128 << 20).unwrap();
    (engine, file, memory, syncs)
}

/// Whether a checkpoint is under way.
fn is_under_way(engine: &Redb) -> bool {
    engine.shared.lock_journal().frozen.is_some()
}

/// Writes the files of an engine into a folder. Returns the folder, and the path of redb's file.
fn written(file: &[u8], segments: &BTreeMap<u64, Vec<u8>>) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redb");
    std::fs::write(&path, file).unwrap();
    std::fs::create_dir(beside(&path, ".segments")).unwrap();
    for (number, bytes) in segments {
        std::fs::write(beside(&path, ".segments").join(number.to_string()), bytes).unwrap();
    }
    (folder, path)
}

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
fn a_log_takes_no_room_behind_its_end_once_it_is_closed() {
    let (engine, _, memory, _) = held_engine();
    let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, b"ibid", b"in the same place");
    engine.write(Commit::Synced, &mut put).unwrap();
    engine.shared.checkpoint(false).unwrap();
    drop(engine);
    assert!(length_of(&memory.copy()) < 4096);
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
