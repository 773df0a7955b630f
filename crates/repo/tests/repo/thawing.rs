//! A wait for packs of an archive outlives a storage that does not answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ibid_repo::{ArchivedPacks, Error, Monitor, Repository, Result, Warning};
use ibid_storage::{ArchiveState, Archives, ErrorKind, Memory, Name, Operation, Storage, Thaw, ThawTier};

use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, backup, noise, quick};

/// Memory whose packs are all in an archive, and that answers as it is told.
struct Cold {
    inner: Memory,
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
        self.inner.list(folder, &mut |name, size| each(name, size, "COLD"))
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
        inner: Memory::new(),
        looks: Mutex::default(),
        refused: Mutex::new(refused),
        asked: Mutex::default(),
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
