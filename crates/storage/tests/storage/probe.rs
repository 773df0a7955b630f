//! A probe finds the promises that a storage breaks, and leaves nothing behind.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ibid_storage::fault::{Flaky, ObjectFault};
use ibid_storage::probe::{self, Promise, Race, Report};
use ibid_storage::{Error, ErrorKind, Local, Memory, Name, Operation, Storage};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    /// A put replaces what is there, and succeeds.
    Overwrites,
    /// A put says that the name is taken, but replaces what is there.
    OverwritesSecretly,
    /// A put looks whether the name is taken, and stores a moment later.
    LooksFirst,
    /// A list is as it was some calls ago.
    StaleList,
    /// A list has what was deleted.
    ListsDeleted,
    /// What was stored can be read only after a while.
    ReadsLate,
    /// A deleted object is still there.
    KeepsDeleted,
    /// A sync fails.
    NoSync,
}

/// A storage with a flaw.
struct Wrong {
    inner: Memory,
    flaw: Flaw,
    lists: Mutex<Vec<Vec<(Name, u64)>>>,
    calls: AtomicU64,
}

impl Wrong {
    fn new(flaw: Flaw) -> Wrong {
        Wrong {
            inner: Memory::new(),
            flaw,
            lists: Mutex::default(),
            calls: AtomicU64::new(0),
        }
    }

    fn replace(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        loop {
            let _ = self.inner.delete(name);
            match self.inner.put(name, parts) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                put => return put,
            }
        }
    }
}

impl Storage for Wrong {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        let is_taken = || self.inner.size(name).is_ok();
        let taken = || Error::new(ErrorKind::AlreadyExists, Operation::Put, Some(name), "wrong");
        match self.flaw {
            Flaw::Overwrites => self.replace(name, parts),
            Flaw::OverwritesSecretly if is_taken() => {
                self.replace(name, parts)?;
                Err(taken())
            }
            Flaw::LooksFirst if is_taken() => Err(taken()),
            Flaw::LooksFirst => {
                std::thread::sleep(Duration::from_millis(1));
                self.replace(name, parts)
            }
            _ => self.inner.put(name, parts),
        }
    }
    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.inner.get(name, limit)
    }
    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        if self.flaw == Flaw::ReadsLate && self.calls.fetch_add(1, Ordering::Relaxed) % 3 == 1 {
            return Err(Error::new(ErrorKind::NotFound, Operation::ReadAt, Some(name), "wrong"));
        }
        self.inner.read_at(name, offset, buffer)
    }
    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.inner.size(name)
    }
    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        let mut now = Vec::new();
        self.inner.list(folder, &mut |name, size| now.push((name, size)))?;
        let mut lists = self.lists.lock().unwrap();
        let before = lists.last().cloned().unwrap_or_default();
        let shown = match self.flaw {
            Flaw::StaleList => before.clone(),
            Flaw::ListsDeleted => {
                let gone = before.iter().filter(|one| !now.contains(one)).cloned();
                now.iter().cloned().chain(gone).collect()
            }
            _ => now.clone(),
        };
        lists.push(now);
        drop(lists);
        shown.into_iter().for_each(|(name, size)| each(name, size));
        Ok(())
    }
    fn settle(&self, name: &Name) -> Result<(), Error> {
        match self.flaw {
            Flaw::NoSync => Err(Error::new(
                ErrorKind::PermissionDenied,
                Operation::Settle,
                Some(name),
                "wrong",
            )),
            _ => self.inner.settle(name),
        }
    }
    fn delete(&self, name: &Name) -> Result<(), Error> {
        match self.flaw {
            Flaw::KeepsDeleted => self.inner.size(name).map(drop),
            _ => self.inner.delete(name),
        }
    }
    fn location(&self) -> String {
        self.inner.location()
    }
}

fn broken(report: &Report) -> Vec<Promise> {
    let of = |promise: &Promise| !report.keeps(*promise);
    Promise::ALL.into_iter().filter(of).collect()
}

fn is_empty(storage: &dyn Storage) -> bool {
    let mut objects = 0;
    storage.list("", &mut |_, _| objects += 1).unwrap();
    objects == 0
}

#[test]
fn a_storage_that_keeps_its_promises_passes_and_nothing_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::create(folder.path()).unwrap();
    let memory = Memory::new();
    let storages: [&dyn Storage; 2] = [&local, &memory];
    for storage in storages {
        for folder in ["keys", ""] {
            let report = probe::run(storage, folder);
            assert!(report.is_ok() && report.left.is_empty(), "{report:?}");
            assert_eq!(report.findings.len(), Promise::ALL.len());
            assert!(is_empty(storage));
        }
    }
}

#[test]
fn several_probes_at_once_do_not_disturb_each_other() {
    let storage = Memory::new();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!(probe::run(&storage, "keys").is_ok()));
        }
    });
    assert!(is_empty(&storage));
}

#[test]
fn each_broken_promise_is_found() {
    let cases = [
        (Flaw::Overwrites, vec![Promise::OneWins, Promise::NoOverwrite]),
        (Flaw::OverwritesSecretly, vec![Promise::OneWins, Promise::NoOverwrite]),
        (Flaw::LooksFirst, vec![Promise::OneWins]),
        (Flaw::StaleList, vec![Promise::List]),
        (Flaw::ListsDeleted, vec![Promise::List]),
        (Flaw::ReadsLate, vec![Promise::ReadAfterWrite]),
        (Flaw::NoSync, vec![Promise::Durable]),
    ];
    for (flaw, promises) in cases {
        let storage = Wrong::new(flaw);
        let report = probe::run(&storage, "keys");
        assert_eq!(broken(&report), promises, "{flaw:?}: {report:?}");
        assert!(is_empty(&storage.inner), "{flaw:?}");
    }
}

#[test]
fn a_race_that_two_win_or_none_is_found() {
    let won = |storage: &Wrong, race: &Race| {
        std::thread::scope(|scope| {
            let runs = [0, 1].map(|writer| scope.spawn(move || race.run(storage, writer).unwrap()));
            runs.map(|run| run.join().unwrap())
        })
    };
    let race = Race::new("keys", &probe::random_tag()).unwrap();
    for (flaw, is_found) in [
        (Flaw::NoSync, false),
        (Flaw::Overwrites, true),
        (Flaw::LooksFirst, true),
    ] {
        let storage = Wrong::new(flaw);
        let problem = race.judge(&storage, &won(&storage, &race)).unwrap();
        assert_eq!(problem.is_some(), is_found, "{flaw:?}: {problem:?}");
        assert!(is_empty(&storage.inner));
    }
    let storage = Wrong::new(Flaw::NoSync);
    let [mut first, second] = won(&storage, &race);
    first[0] = second[0];
    let problem = race.judge(&storage, &[first, second]).unwrap().unwrap();
    assert!(
        problem.ends_with("of 2 processes that put one name at once succeeded"),
        "{problem}"
    );
    assert!(Race::new("keys", "No name").is_err());
}

#[test]
fn objects_that_cannot_be_deleted_are_named() {
    let storage = Wrong::new(Flaw::KeepsDeleted);
    assert!(!probe::run(&storage, "keys").keeps(Promise::Delete));
    let storage = Flaky::new(Memory::new());
    storage.fail_always(Operation::Delete, ObjectFault::Before(ErrorKind::PermissionDenied));
    let report = probe::run(&storage, "keys");
    assert!(!report.keeps(Promise::Delete));
    let mut left = Vec::new();
    storage.inner().list("", &mut |name, _| left.push(name)).unwrap();
    assert!(!left.is_empty() && left.iter().all(|name| report.left.contains(name)));
}

#[test]
fn a_storage_that_is_not_to_be_written_to_keeps_no_promise() {
    let storage = Flaky::new(Memory::new());
    storage.fail_always(Operation::Put, ObjectFault::Before(ErrorKind::PermissionDenied));
    let report = probe::run(&storage, "keys");
    assert_eq!(broken(&report), Promise::ALL);
    assert!(report.left.is_empty());
}
