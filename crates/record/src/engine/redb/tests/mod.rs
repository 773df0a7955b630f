//! What the engine does over files that fail, end early, or are full.

mod checkpoints;
mod log;
mod segments;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ibid_format::record::{COMMIT_LOG_COMMITS_AT, CommitHead, commit_log_id};

use super::commit_log::LONG_CHANGES;
use super::*;
use crate::engine::{Direction, KeyRange, Transaction, Unused};

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
