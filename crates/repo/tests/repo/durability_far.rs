//! What `durability.rs` promises, where a backup stores several files at once: its snapshot beside the index files and
//! the sketches.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_repo::{MemoryStorage, Monitor, ReadData, Repository, Warning};
use ibid_storage::{ErrorKind, Name, Operation, Storage};

use crate::support::crash::restores;
use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Contents, Folder, backup, contents, noise, options, quick};

/// A far storage that comes to an end after some puts and deletions, as if the process were killed.
struct Far {
    inner: Arc<MemoryStorage>,
    /// Puts and deletions that still succeed.
    left: AtomicU64,
    is_over: AtomicBool,
    /// The folder in which puts come last: after all others, and after the end of the session if a snapshot is there.
    last: &'static str,
}

impl Far {
    fn count(&self, folder: &str) -> usize {
        let mut count = 0;
        self.inner.list(folder, &mut |_, _| count += 1).unwrap();
        count
    }

    /// Fails if the storage has come to an end.
    fn change(&self, operation: Operation, name: &Name) -> Result<(), ibid_storage::Error> {
        let one_less = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.is_over.store(true, Ordering::Relaxed);
                Err(ibid_storage::Error::new(
                    ErrorKind::Io,
                    operation,
                    Some(name),
                    "far away",
                ))
            }
        }
    }

    /// Waits until all else is there.
    fn come_last(&self) {
        let are_others_there = || match self.last {
            "snapshots" => self.count("index") == 2 && self.count("sketches") == 2,
            _ => self.count("snapshots") == 2 && self.count("sessions") == 0,
        };
        while !self.is_over.load(Ordering::Relaxed) && !are_others_there() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Hooks for Far {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), ibid_storage::Error> {
        if name.is_in(self.last) {
            self.come_last();
        }
        self.change(Operation::Put, name)?;
        if name.is_in("snapshots") {
            let packs = 2 * (self.count("snapshots") + 1);
            assert_eq!(self.count("packs"), packs, "a snapshot before its packs");
        }
        self.inner.put(name, parts)
    }

    fn delete(&self, name: &Name) -> Result<(), ibid_storage::Error> {
        self.change(Operation::Delete, name)?;
        self.inner.delete(name)
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// A repository in a far storage with one snapshot, and a tree that has changed since.
struct Scene {
    storage: Arc<MemoryStorage>,
    folder: Folder,
    first: (String, Contents),
}

impl Scene {
    fn new() -> Scene {
        let storage = Arc::new(MemoryStorage::new());
        Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
        let folder = Folder::scratch();
        folder.write("a", &noise(1, 200_000));
        folder.write("deep/b", b"some text");
        let scene = Scene {
            storage,
            folder,
            first: (String::new(), Contents::new()),
        };
        let far = scene.far(u64::MAX, "none");
        let repository = Repository::open(far, Some(b"secret")).unwrap();
        let first = backup(&repository, scene.folder.path()).id.unwrap().to_string();
        let first = (first, contents(scene.folder.path()));
        scene.folder.write("c", &noise(2, 150_000));
        scene.folder.write("deep/b", b"some other text");
        Scene { first, ..scene }
    }

    fn far(&self, left: u64, last: &'static str) -> Arc<Hooked<Far>> {
        Arc::new(Hooked(Far {
            inner: self.storage.clone(),
            left: left.into(),
            is_over: false.into(),
            last,
        }))
    }

    /// Checks that all snapshots are whole, and that the next backup succeeds.
    fn is_intact(&self, acknowledged: Option<&str>, context: &str) {
        let repository = Repository::open(self.storage.clone(), Some(b"secret")).unwrap();
        let report = repository.check(ReadData::All).unwrap();
        assert!(report.is_clean(), "{context}: {report:?}");
        restores(&repository, &self.first.0, self.folder.path(), &self.first.1, context);
        let now = contents(self.folder.path());
        let snapshots = repository.snapshots().unwrap();
        let ids: Vec<String> = snapshots.iter().map(|info| info.id.to_string()).collect();
        for id in ids.iter().filter(|id| **id != self.first.0) {
            restores(&repository, id, self.folder.path(), &now, context);
        }
        assert!(
            acknowledged.is_none_or(|id| ids.iter().any(|other| other == id)),
            "{context}"
        );
        let third = backup(&repository, self.folder.path()).id.unwrap().to_string();
        repository.refresh();
        restores(&repository, &third, self.folder.path(), &now, context);
    }
}

#[test]
fn whatever_comes_last_and_wherever_a_backup_is_killed_its_snapshots_are_whole() {
    for last in ["index", "sketches", "snapshots"] {
        let mut acknowledged_without = 0;
        for left in 0.. {
            let scene = Scene::new();
            let far = scene.far(left, last);
            let made = Repository::open(far.clone(), Some(b"secret"))
                .unwrap()
                .backup(&options(scene.folder.path()));
            let id = made
                .as_ref()
                .ok()
                .and_then(|summary| summary.id)
                .map(|id| id.to_string());
            let context = format!("{last} last, {left} calls");
            acknowledged_without += usize::from(id.is_some() && far.count(last) == 1);
            scene.is_intact(id.as_deref(), &context);
            if !far.is_over.load(Ordering::Relaxed) {
                assert!(left > 6, "{context}");
                break;
            }
        }
        // The snapshot does not wait for the others, and is never acknowledged before it is there.
        assert_eq!(acknowledged_without > 0, last != "snapshots", "{last}");
    }
}

/// A storage that refuses what goes into a folder.
struct Refusing {
    inner: Arc<MemoryStorage>,
    folder: &'static str,
}

impl Hooks for Refusing {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), ibid_storage::Error> {
        match name.is_in(self.folder) {
            true => Err(ibid_storage::Error::new(
                ErrorKind::NoSpace,
                Operation::Put,
                Some(name),
                "far away",
            )),
            false => self.inner.put(name, parts),
        }
    }

    fn is_remote(&self) -> bool {
        true
    }
}

#[test]
fn a_backup_succeeds_and_says_so_if_only_its_index_file_cannot_be_stored() {
    for folder in ["index", "sketches"] {
        let scene = Scene::new();
        let inner = scene.storage.clone();
        let told = Arc::new(Mutex::new(Vec::new()));
        let tells = told.clone();
        let monitor = Arc::new(Monitor::new(move |warning| match warning {
            Warning::Unlisted { error } => tells.lock().unwrap().push(error.to_string()),
            other => panic!("{other:?}"),
        }));
        let refusing = Arc::new(Hooked(Refusing { inner, folder }));
        let repository = Repository::open(refusing, Some(b"secret"))
            .unwrap()
            .watched_by(&monitor);
        let summary = repository.backup(&options(scene.folder.path())).unwrap();
        let told = told.lock().unwrap();
        assert!(told.len() == 1 && told[0].contains(folder), "{told:?}");
        scene.is_intact(Some(&summary.id.unwrap().to_string()), folder);
    }
}
