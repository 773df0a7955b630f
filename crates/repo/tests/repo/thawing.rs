//! A wait for packs of an archive outlives a storage that does not answer, and what others do meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_repo::{
    ArchivedPacks, CopyOptions, CopyOutcome, Error, Limit, Monitor, PruneOptions, Repository, Result, Warning,
};
use ibid_storage::{ArchiveState, Archives, ErrorKind, Memory, Name, Operation, Storage, Thaw, ThawTier};

use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, backup, noise, quick};

/// Memory whose packs are all in an archive, and that answers as it is told.
#[derive(Default)]
struct Cold {
    inner: Memory,
    /// Whether nothing is in the archive.
    warm: AtomicBool,
    /// The answers to the next looks, the last of them first, and then that it is thawed.
    looks: Mutex<Vec<std::result::Result<ArchiveState, ErrorKind>>>,
    /// The next requests to thaw that fail.
    refused: Mutex<u32>,
    asked: Mutex<u64>,
}

impl Cold {
    fn error(&self, kind: ErrorKind) -> ibid_storage::Error {
        ibid_storage::Error::new(kind, Operation::Size, None, "a cold place")
    }
}

impl Hooks for Cold {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn archives(&self) -> Option<&dyn Archives> {
        Some(self)
    }
}

impl Archives for Cold {
    fn class_of_data(&self) -> Option<&str> {
        None
    }

    fn list_archived(
        &self,
        folder: &str,
        each: &mut dyn FnMut(Name, u64, &str),
    ) -> std::result::Result<(), ibid_storage::Error> {
        match self.warm.load(Ordering::Relaxed) {
            true => Ok(()),
            false => self.inner.list(folder, &mut |name, size| each(name, size, "COLD")),
        }
    }

    fn states(&self, names: &[Name]) -> std::result::Result<Vec<ArchiveState>, ibid_storage::Error> {
        let look = self.looks.lock().unwrap().pop();
        match look.unwrap_or(Ok(ArchiveState::Readable(None))) {
            Ok(state) => Ok(vec![state; names.len()]),
            Err(kind) => Err(self.error(kind)),
        }
    }

    fn thaw(
        &self,
        names: &[Name],
        _: Thaw,
        each: &(dyn Fn(u64) -> bool + Sync),
    ) -> std::result::Result<(), ibid_storage::Error> {
        let mut refused = self.refused.lock().unwrap();
        if *refused > 0 {
            *refused -= 1;
            return Err(self.error(ErrorKind::Io));
        }
        *self.asked.lock().unwrap() += names.len() as u64;
        each(names.len() as u64);
        Ok(())
    }
}

/// Waits for the packs of a backup, while the storage answers so. Returns what was warned of, and how the wait ended.
fn wait(
    looks: &[std::result::Result<ArchiveState, ErrorKind>],
    refused: u32,
) -> (Arc<Hooked<Cold>>, Vec<String>, Result<ArchivedPacks>) {
    let storage = Arc::new(Hooked(Cold {
        refused: Mutex::new(refused),
        ..Cold::default()
    }));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::new();
    folder.write("file", &noise(1, 100_000));
    backup(&repository, folder.path());
    let latest = repository.snapshots().unwrap().pop().unwrap();
    let file = folder.path().join("file");
    // The first look is that of the rehearsal.
    let first = [Ok(ArchiveState::Thawing)];
    *storage.looks.lock().unwrap() = first.iter().chain(looks).rev().copied().collect();
    let rehearse = |rehearsal: &Repository| rehearsal.plan_dump(latest.at(&file), 0..u64::MAX);
    let mut packs = repository.archived_for(rehearse).unwrap();
    assert_eq!((packs.all().packs, packs.waiting().packs), (1, 1));

    let warned: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = warned.clone();
    let monitor = Monitor::new(move |warning| match warning {
        Warning::ThawUnknown { waiting, error } => noted.lock().unwrap().push(format!("{}: {error}", waiting.packs)),
        other => panic!("{other:?}"),
    });
    let watched = repository.watched_by(&Arc::new(monitor));
    let thaw = Thaw::new(1, ThawTier::Bulk).unwrap();
    let waited = watched.wait_until_thawed(&mut packs, thaw, Duration::from_millis(1), |_| {});
    let warned = warned.lock().unwrap().clone();
    (storage, warned, waited.map(|()| packs))
}

const DOWN: std::result::Result<ArchiveState, ErrorKind> = Err(ErrorKind::Io);
const THAWING: std::result::Result<ArchiveState, ErrorKind> = Ok(ArchiveState::Thawing);

#[test]
fn a_wait_goes_on_while_the_storage_does_not_answer_and_says_what_it_waits_for() {
    let (storage, warned, waited) = wait(&[THAWING, DOWN, DOWN, DOWN, THAWING], 0);
    assert_eq!(waited.unwrap().waiting().packs, 0);
    assert_eq!(warned.len(), 3, "{warned:?}");
    assert!(
        warned
            .iter()
            .all(|said| said.starts_with("1: ") && said.contains("a cold place")),
        "{warned:?}"
    );
    assert_eq!(*storage.asked.lock().unwrap(), 0, "nothing is asked for twice");
}

#[test]
fn looks_that_fail_are_counted_in_a_row_and_are_not_too_many() {
    // Twice 20 of them, with an answer between.
    let often = [&[DOWN; 20][..], &[THAWING], &[DOWN; 20]].concat();
    let (_, warned, waited) = wait(&often, 0);
    assert_eq!((waited.is_ok(), warned.len()), (true, 40));
    let (_, warned, waited) = wait(&[DOWN; 21], 0);
    match waited {
        Err(Error::Storage(error)) => assert_eq!(error.kind(), ErrorKind::Io),
        other => panic!("{other:?}"),
    }
    assert_eq!(warned.len(), 20);
}

#[test]
fn what_is_frozen_again_is_asked_for_again_also_if_the_storage_does_not_answer_then() {
    let (storage, warned, waited) = wait(&[THAWING, Ok(ArchiveState::Frozen), Ok(ArchiveState::Frozen)], 1);
    assert!(waited.is_ok(), "{waited:?}");
    assert_eq!((warned.len(), *storage.asked.lock().unwrap()), (1, 1), "{warned:?}");
}

#[test]
fn what_does_not_pass_ends_a_wait_at_once() {
    let (_, warned, waited) = wait(&[THAWING, Err(ErrorKind::PermissionDenied)], 0);
    match waited {
        Err(Error::Storage(error)) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
        other => panic!("{other:?}"),
    }
    assert_eq!(warned, Vec::<String>::new());
}

#[test]
fn what_a_prune_has_moved_during_a_wait_is_asked_for_where_it_is_then() {
    let storage = Arc::new(Hooked(Cold::default()));
    let repository = Repository::init(storage.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::new();
    folder.write("kept", &noise(1, 100_000));
    folder.write("forgotten", &noise(2, 100_000));
    let first = backup(&repository, folder.path()).id.unwrap();
    std::fs::remove_file(folder.path().join("forgotten")).unwrap();
    backup(&repository, folder.path());
    let latest = repository.snapshots().unwrap().pop().unwrap();
    let file = folder.path().join("kept");
    let rehearse = |rehearsal: &Repository| rehearsal.plan_dump(latest.at(&file), 0..u64::MAX);
    // First of the rehearsal, then of the wait.
    *storage.looks.lock().unwrap() = vec![THAWING; 2];
    let mut packs = repository.archived_for(rehearse).unwrap();
    assert_eq!(packs.waiting().packs, 1);

    let other = Repository::open(storage.clone(), Some(b"secret")).unwrap();
    let thaw = Thaw::new(1, ThawTier::Bulk).unwrap();
    let mut looks = 0;
    let waited = repository.wait_until_thawed(&mut packs, thaw, Duration::from_millis(1), |_| {
        looks += 1;
        if looks == 1 {
            storage.warm.store(true, Ordering::Relaxed);
            other.forget(&[first]).unwrap();
            let all = PruneOptions::default().max_unused(Limit::Bytes(0));
            assert!(
                other
                    .prune(&all.patience(Duration::ZERO))
                    .unwrap()
                    .estimate
                    .packs_deleted
                    > 0
            );
            storage.warm.store(false, Ordering::Relaxed);
        }
    });
    waited.unwrap();
    assert_eq!(looks, 2);
    *storage.looks.lock().unwrap() = vec![Ok(ArchiveState::Frozen)];
    let packs = repository.archived_for(rehearse).unwrap();
    assert_eq!(packs.frozen().packs, 1, "that to which the prune has moved it");
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    HasNoArchives,
    NothingIsArchived,
    /// All packs are, and are thawed.
    AllIsThawed,
}

/// Memory that notes what it is asked.
struct Noted {
    inner: Memory,
    side: &'static str,
    kind: Kind,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Noted {
    fn note(&self, call: &str, place: &str) {
        // Names of files are random.
        let folder = place.split('/').next().unwrap_or_default();
        self.calls
            .lock()
            .unwrap()
            .push(format!("{call} {folder} of the {}", self.side));
    }
}

impl Hooks for Noted {
    fn inner(&self) -> &dyn Storage {
        &self.inner
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> std::result::Result<(), ibid_storage::Error> {
        self.note("put", name.as_str());
        self.inner.put(name, parts)
    }

    fn get(&self, name: &Name, limit: u64) -> std::result::Result<Vec<u8>, ibid_storage::Error> {
        self.note("get", name.as_str());
        self.inner.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> std::result::Result<(), ibid_storage::Error> {
        self.note("read", name.as_str());
        self.inner.read_at(name, offset, buffer)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> std::result::Result<(), ibid_storage::Error> {
        self.note("list", folder);
        self.inner.list(folder, each)
    }

    fn archives(&self) -> Option<&dyn Archives> {
        (self.kind != Kind::HasNoArchives).then_some(self)
    }
}

impl Archives for Noted {
    fn class_of_data(&self) -> Option<&str> {
        None
    }

    fn list_archived(
        &self,
        folder: &str,
        each: &mut dyn FnMut(Name, u64, &str),
    ) -> std::result::Result<(), ibid_storage::Error> {
        match self.kind {
            Kind::AllIsThawed => self.inner.list(folder, &mut |name, size| each(name, size, "COLD")),
            _ => Ok(()),
        }
    }

    fn states(&self, names: &[Name]) -> std::result::Result<Vec<ArchiveState>, ibid_storage::Error> {
        Ok(vec![ArchiveState::Readable(None); names.len()])
    }

    fn thaw(
        &self,
        _: &[Name],
        _: Thaw,
        _: &(dyn Fn(u64) -> bool + Sync),
    ) -> std::result::Result<(), ibid_storage::Error> {
        panic!("nothing has to be thawed")
    }
}

/// Returns what a copy of two snapshots asks of both storages, in this order: until it begins its first session, and
/// from then on.
fn asked_by_a_copy(kind: Kind) -> (Vec<String>, Vec<String>) {
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let made = |side, kind| {
        let storage = Arc::new(Hooked(Noted {
            inner: Memory::new(),
            side,
            kind,
            calls: calls.clone(),
        }));
        Repository::init(storage, Some(b"secret"), &quick()).unwrap()
    };
    let (source, destination) = (made("source", kind), made("destination", Kind::HasNoArchives));
    let folder = Folder::new();
    for number in 0..2 {
        folder.write("file", &noise(number, 10_000));
        backup(&source, folder.path());
    }
    let snapshots = source.snapshots().unwrap();
    calls.lock().unwrap().clear();
    let copied = source
        .copy_to(&destination, &snapshots, &CopyOptions::default())
        .unwrap();
    for one in copied.snapshots {
        assert!(matches!(one.outcome, CopyOutcome::Copied(_)), "{one:?}");
    }
    let mut before = std::mem::take(&mut *calls.lock().unwrap());
    let first_put = before.iter().position(|call| call.starts_with("put "));
    let since = before.split_off(first_put.expect("its session"));
    assert_eq!(since[0], "put sessions of the destination");
    (before, since)
}

#[test]
fn a_copy_asks_the_same_before_its_session_where_there_can_be_archives() {
    let (expected, _) = asked_by_a_copy(Kind::HasNoArchives);
    assert!(
        expected.contains(&"list index of the source".to_owned()),
        "{expected:?}"
    );
    let (asked, _) = asked_by_a_copy(Kind::NothingIsArchived);
    assert_eq!(in_turn(asked), in_turn(expected));
}

/// Puts the two folders in order that an index is loaded from at the same time, where the one list follows the other.
fn in_turn(mut calls: Vec<String>) -> Vec<String> {
    let at_once = ["list damaged of the source", "list packs of the source"];
    for at in 1..calls.len() {
        let pair = &mut calls[at - 1..=at];
        if pair.iter().all(|call| at_once.contains(&call.as_str())) {
            pair.sort();
        }
    }
    calls
}

#[test]
fn what_a_copy_has_seen_of_its_destination_when_it_looked_what_is_archived_it_reads_again_in_its_session() {
    let (before, since) = asked_by_a_copy(Kind::AllIsThawed);
    for folder in ["prune", "index", "packs"] {
        let list = format!("list {folder} of the destination");
        assert!(before.contains(&list), "{list}: {before:?}");
        assert!(since.contains(&list), "{list}: {since:?}");
    }
}
