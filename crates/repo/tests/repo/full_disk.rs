//! What frees space must work where none is left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ibid_repo::{Error, Limit, Monitor, PruneOptions, ReadData, Repository, Warning};
use ibid_storage::{Error as StorageError, ErrorKind, Memory, Name, Operation, Storage};

use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, backup, noise, quick};

/// As file systems do, this gives each object whole blocks.
const BLOCK: u64 = 4096;

/// Storage with so many blocks.
struct Small {
    memory: Memory,
    blocks: AtomicU64,
}

impl Small {
    fn used(&self) -> u64 {
        let mut blocks = 0;
        let mut add = |_: Name, size: u64| blocks += size.div_ceil(BLOCK);
        self.memory.list("", &mut add).unwrap();
        blocks
    }
}

impl Hooks for Small {
    fn inner(&self) -> &dyn Storage {
        &self.memory
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), StorageError> {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        if self.used() + (size as u64).div_ceil(BLOCK) > self.blocks.load(Ordering::Relaxed) {
            let place = self.memory.location();
            return Err(StorageError::new(
                ErrorKind::NoSpace,
                Operation::Put,
                Some(name),
                &place,
            ));
        }
        self.memory.put(name, parts)
    }
}

fn is_full(error: &Error) -> bool {
    matches!(error, Error::Storage(error) if error.kind() == ErrorKind::NoSpace)
}

#[test]
fn what_a_forgotten_snapshot_took_is_freed_where_no_block_is_left() {
    let storage = Arc::new(Hooked(Small {
        memory: Memory::new(),
        blocks: AtomicU64::new(u64::MAX),
    }));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    let mut ids = Vec::new();
    for version in 0..3 {
        folder.write("file", &noise(version, 2_000_000));
        ids.push(backup(&repository, folder.path()).id.unwrap());
    }
    storage.blocks.store(storage.used(), Ordering::Relaxed);
    let refused = repository.forget(&ids[..1]).unwrap_err();
    assert!(is_full(&refused), "{refused}");
    assert_eq!(repository.snapshots().unwrap().len(), 3, "it is still there");

    repository.forget_for_good(&ids[..1]).unwrap();
    assert!(repository.forgotten(|_, _| ()).unwrap().is_empty());
    let warned: Arc<Mutex<u32>> = Arc::default();
    let noted = warned.clone();
    let monitor = Monitor::new(move |warning| {
        *noted.lock().unwrap() += u32::from(matches!(warning, Warning::DropsSketches));
    });
    let summary = repository
        .watched_by(&Arc::new(monitor))
        .prune(&PruneOptions::default())
        .unwrap();
    assert!(summary.deleted > 1_900_000, "{summary:?}");
    assert_eq!(*warned.lock().unwrap(), 1);
    assert!(repository.check(ReadData::All).unwrap().is_clean());
    // The sketches come back.
    let sketches = || {
        let mut count = 0;
        storage.list("sketches", &mut |_, _| count += 1).unwrap();
        count
    };
    assert_eq!(sketches(), 0);
    folder.write("other", b"more");
    backup(&repository, folder.path());
    assert!(sketches() > 0);
}

/// The log of prunes has space, but no index file without the packs that go.
#[test]
fn packs_are_deleted_before_the_index_files_that_can_not_be_written() {
    let storage = Arc::new(Hooked(Small {
        memory: Memory::new(),
        blocks: AtomicU64::new(u64::MAX),
    }));
    let options = quick().pack_size(1 << 20);
    let repository = Repository::init(storage.clone(), Some(b"secret"), &options).unwrap();
    let folder = Folder::scratch();
    folder.write("goes", &noise(2, 10_000_000));
    folder.write("stays", &noise(1, 3_000_000));
    // One index file lists the packs of both.
    let id = backup(&repository, folder.path()).id.unwrap();
    std::fs::remove_file(folder.path().join("goes")).unwrap();
    backup(&repository, folder.path());
    repository.forget_for_good(&[id]).unwrap();
    let mut sketches = Vec::new();
    storage.list("sketches", &mut |name, _| sketches.push(name)).unwrap();
    sketches.iter().for_each(|name| storage.delete(name).unwrap());
    // Three entries of the log.
    storage.blocks.store(storage.used() + 3, Ordering::Relaxed);
    let options = PruneOptions::default().max_repack(Some(Limit::Bytes(0)));
    let summary = repository.prune(&options).unwrap();
    assert!(summary.deleted > 8_000_000 && summary.files_merged > 0, "{summary:?}");
    assert!(repository.check(ReadData::All).unwrap().is_clean());
}
