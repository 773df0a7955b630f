use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ibid_format::record::{CommitHead, commit_log_id};
use redb::backends::InMemoryBackend;

use super::*;

/// A disk that can become full.
#[derive(Debug)]
struct Disk {
    memory: InMemoryBackend,
    is_full: Arc<AtomicBool>,
}

impl Disk {
    fn has_room(&self) -> io::Result<()> {
        match self.is_full.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.memory.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.has_room()?;
        self.memory.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.has_room()?;
        self.memory.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.has_room()?;
        self.memory.write(offset, data)
    }
}

/// A file in memory, of which a copy can be taken at any time.
#[derive(Debug, Clone, Default)]
struct Copied(Arc<Mutex<Vec<u8>>>);

impl Copied {
    fn copy(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    fn of(bytes: Vec<u8>) -> Copied {
        Copied(Arc::new(Mutex::new(bytes)))
    }
}

impl StorageBackend for Copied {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let found = bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }
}

const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];

/// Returns the files of an engine that was stopped after it had committed these keys one after the other.
fn stopped() -> (Vec<u8>, Vec<u8>) {
    let (file, log) = (Copied::default(), Copied::default());
    let engine = Redb::open_on(file.clone(), log.clone(), Path::new("stopped"), 0).unwrap();
    for key in KEYS {
        let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Keys, key, b"in the same place");
        engine.write(Commit::Synced, &mut put).unwrap();
    }
    (file.copy(), log.copy())
}

/// Returns the keys that an engine has which opens these files.
fn keys_of(file: &Copied, log: &Copied) -> Result<Vec<Vec<u8>>, EngineError> {
    keys(&Redb::open_on(file.clone(), log.clone(), Path::new("opened"), 0)?)
}

fn keys(engine: &Redb) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut found = Vec::new();
    let mut each = |key: &[u8], _: &[u8]| {
        found.push(key.to_vec());
        ControlFlow::Continue(())
    };
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let snapshot = engine.snapshot()?;
    snapshot.range(Table::Keys, everything, Direction::Forward, &mut each)?;
    Ok(found)
}

/// All commits were synced: they are there, or it is an error, as often as it is opened. Returns whether it is one.
#[track_caller]
fn assert_none_is_lost(file: &[u8], log: &[u8], what: &str) -> bool {
    let (file, log) = (Copied::of(file.to_vec()), Copied::of(log.to_vec()));
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
fn every_write_to_a_full_disk_says_that_it_is_full() {
    let is_full = Arc::new(AtomicBool::new(false));
    let disk = Disk {
        memory: InMemoryBackend::new(),
        is_full: is_full.clone(),
    };
    let log = Disk {
        memory: InMemoryBackend::new(),
        is_full: is_full.clone(),
    };
    let engine = Redb::open_on(disk, log, Path::new("full"), 0).unwrap();
    is_full.store(true, Ordering::SeqCst);
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
fn what_is_damaged_can_be_given_up_and_the_rest_is_kept() {
    let (file, log) = stopped();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redb");
    let log_path = folder.path().join("redb.log");
    let open = || {
        let engine = Redb::open(&path, 0)?;
        keys(&engine)
    };
    // The second commit is damaged: two others come after it.
    let second = CommitHead::find(&commit_log_id(log.first_chunk().unwrap()).unwrap(), &log, 1025).unwrap();
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
        match log {
            Some(log) => std::fs::write(&log_path, log).unwrap(),
            None => std::fs::remove_file(&log_path).unwrap(),
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
fn a_large_commit_leaves_no_long_log() {
    let (file, log) = (Copied::default(), Copied::default());
    let engine = Redb::open_on(file.clone(), log.clone(), Path::new("large"), 0).unwrap();
    let body = vec![7; 40 << 20];
    let mut put = |transaction: &mut dyn Transaction| transaction.put(Table::Records, b"a", &body);
    engine.write(Commit::Synced, &mut put).unwrap();
    assert_eq!(log.copy().len(), 1024);
}

#[test]
fn a_value_in_parts_is_there_after_a_stop() {
    let (file, log) = (Copied::default(), Copied::default());
    let engine = Redb::open_on(file.clone(), log.clone(), Path::new("parts"), 0).unwrap();
    let body = vec![7; 1 << 20];
    let parts = [&b"head"[..], &body, b"check"];
    let mut put = |transaction: &mut dyn Transaction| transaction.put_parts(Table::Records, b"a", &parts);
    engine.write(Commit::Synced, &mut put).unwrap();
    let (file, log) = (Copied::of(file.copy()), Copied::of(log.copy()));
    let opened = Redb::open_on(file, log, Path::new("opened"), 0).unwrap();
    let mut is_same = false;
    let mut found = |value: &[u8]| is_same = value == parts.concat();
    opened
        .snapshot()
        .unwrap()
        .get(Table::Records, b"a", &mut found)
        .unwrap();
    assert!(is_same);
}
