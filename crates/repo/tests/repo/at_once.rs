//! Processes that make the same snapshot from another one at the same time. See `src/derived.rs`.

use std::sync::{Arc, Barrier, Mutex};

use ibid_repo::{
    CopyOptions, CopyOutcome, Error, Excludes, FileId, Monitor, ReadData, Repository, RewriteOptions, SnapshotInfo,
    Warning,
};
use ibid_storage::{Error as StorageError, Memory, Name, Storage};

use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, backup, quick};

type Meanwhile = Box<dyn FnOnce() + Send>;
/// The beginnings of two ids: that of a process that warns, and that of another one.
type Named = Arc<Mutex<Vec<(String, String)>>>;

/// Storage of a process beside which others do something.
#[derive(Default)]
struct Beside {
    memory: Arc<Memory>,
    /// What happens before the first object of this folder is stored.
    meanwhile: Mutex<Option<(&'static str, Meanwhile)>>,
    /// Where this process waits for another one, before and after each snapshot that it stores.
    together: Option<Arc<Barrier>>,
    /// Snapshots that were made durable or deleted.
    calls: Mutex<Vec<(&'static str, String)>>,
}

impl Beside {
    fn note(&self, call: &'static str, name: &Name) {
        if name.as_str().starts_with("snapshots/") {
            let id = name.as_str().rsplit('/').next().unwrap().to_owned();
            self.calls.lock().unwrap().push((call, id));
        }
    }
}

impl Hooks for Beside {
    fn inner(&self) -> &dyn Storage {
        self.memory.as_ref()
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), StorageError> {
        let is_in = |folder: &str| name.as_str().starts_with(folder);
        let due = self.meanwhile.lock().unwrap().take_if(|(folder, _)| is_in(folder));
        if let Some((_, meanwhile)) = due {
            meanwhile();
        }
        let wait = || {
            if let Some(barrier) = self.together.as_ref().filter(|_| is_in("snapshots/")) {
                barrier.wait();
            }
        };
        // Both have looked before either of them stores its own, and store them before either looks again.
        wait();
        let put = self.memory.put(name, parts);
        wait();
        put
    }

    fn settle(&self, name: &Name) -> Result<(), StorageError> {
        self.note("settle", name);
        self.memory.settle(name)
    }

    fn delete(&self, name: &Name) -> Result<(), StorageError> {
        self.note("delete", name);
        self.memory.delete(name)
    }
}

fn open(storage: Arc<dyn Storage>) -> Repository {
    Repository::open(storage, Some(b"secret")).unwrap()
}

/// Returns a repository with snapshots of so many versions of a folder.
fn with_snapshots(count: u8) -> (Arc<Memory>, Repository) {
    let memory = Arc::new(Memory::new());
    let repository = Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    folder.write("secret", b"a password");
    for version in 0..count {
        folder.write("file", &[version]);
        backup(&repository, folder.path());
    }
    (memory, repository)
}

fn ids(repository: &Repository) -> Vec<FileId> {
    let ids = repository.snapshots().unwrap();
    ids.into_iter().map(|info| info.id).collect()
}

/// Returns what each of two processes returns that store their snapshots at the same moment.
fn both<T: Send>(memory: &Arc<Memory>, act: impl Fn(Repository) -> T + Sync) -> [T; 2] {
    let barrier = Arc::new(Barrier::new(2));
    let process = || {
        let storage = Beside {
            memory: memory.clone(),
            together: Some(barrier.clone()),
            ..Beside::default()
        };
        act(open(Arc::new(Hooked(storage))))
    };
    std::thread::scope(|scope| {
        let two = [scope.spawn(process), scope.spawn(process)];
        two.map(|one| one.join().unwrap())
    })
}

/// Returns a process during which something happens, before it stores its first object in a folder.
fn beside(
    memory: &Arc<Memory>,
    folder: &'static str,
    meanwhile: impl FnOnce() + Send + 'static,
) -> Arc<Hooked<Beside>> {
    Arc::new(Hooked(Beside {
        memory: memory.clone(),
        meanwhile: Mutex::new(Some((folder, Box::new(meanwhile)))),
        ..Beside::default()
    }))
}

/// Returns a handle, and the snapshots that it warns of.
fn watched(repository: &Repository) -> (Repository, Named) {
    let warned = Named::default();
    let noted = warned.clone();
    let monitor = Monitor::new(move |warning| {
        if let Warning::StoredAtOnce { snapshot, other } = warning {
            noted.lock().unwrap().push((snapshot, other));
        }
    });
    (repository.watched_by(&Arc::new(monitor)), warned)
}

fn is_clean(repository: &Repository) {
    assert!(repository.check(ReadData::All).unwrap().is_clean());
}

/// Returns the ids of the copies that a copy names, whether it has stored them or found them.
fn copy(source: &Repository, to: &Repository) -> Vec<FileId> {
    let all = source.snapshots().unwrap();
    let summary = source.copy_to(to, &all, &CopyOptions::default()).unwrap();
    let id = |outcome: &CopyOutcome| match outcome {
        CopyOutcome::Copied(summary) => summary.id.unwrap(),
        CopyOutcome::IsThere(id) => *id,
        other => panic!("{other:?}"),
    };
    summary.snapshots.iter().map(|one| id(&one.outcome)).collect()
}

#[test]
fn of_two_copies_that_are_stored_at_once_one_stays() {
    let (_, source) = with_snapshots(3);
    let memory = Arc::new(Memory::new());
    Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let named = both(&memory, |destination| copy(&source, &destination));
    let repository = open(memory);
    assert_eq!(named, [ids(&repository), ids(&repository)]);
    assert_eq!(named[0].len(), 3);
    is_clean(&repository);
}

#[test]
fn a_copy_that_another_process_has_stored_meanwhile_is_not_stored_again() {
    let (_, source) = with_snapshots(2);
    let memory = Arc::new(Memory::new());
    Repository::init(memory.clone(), Some(b"secret"), &quick()).unwrap();
    let (other, other_source) = (memory.clone(), source.clone());
    let storage = beside(&memory, "packs/", move || drop(copy(&other_source, &open(other))));
    let named = copy(&source, &open(storage));
    assert_eq!(named, ids(&open(memory)));
    assert_eq!(named.len(), 2);
}

#[test]
fn of_two_that_bring_back_a_snapshot_at_once_one_stays() {
    let (memory, repository) = with_snapshots(1);
    let forgotten = ids(&repository)[0];
    repository.forget(&[forgotten]).unwrap();
    let [a, b] = both(&memory, |process| process.remember(forgotten, "").unwrap());
    assert_eq!((a, ids(&repository)), (b, vec![b]));
    assert!(repository.forgotten(|_, _| ()).unwrap().is_empty());
    is_clean(&repository);
}

#[test]
fn a_snapshot_that_is_back_already_does_not_come_back_again() {
    let (memory, repository) = with_snapshots(1);
    let forgotten = ids(&repository)[0];
    repository.forget(&[forgotten]).unwrap();
    let mut file = None;
    memory.list("forgotten", &mut |name, _| file = Some(name)).unwrap();
    let file = file.unwrap();
    let bytes = memory.get(&file, 1 << 20).unwrap();
    let back = repository.remember(forgotten, "").unwrap();
    // As if the process had been killed before it deleted this.
    memory.put(&file, &[&bytes]).unwrap();
    assert_eq!(repository.remember(forgotten, "").unwrap(), back);
    assert_eq!(ids(&repository), [back]);
    let gone = repository.remember(forgotten, "").unwrap_err();
    assert!(matches!(gone, Error::NotForgotten { .. }), "{gone}");
}

#[test]
fn a_snapshot_is_deleted_only_once_the_one_that_stays_is_durable() {
    // Which of the two ids is smaller is chance: a process deletes its own in about every second round.
    let mut deleted = 0;
    while deleted < 4 {
        let (memory, repository) = with_snapshots(1);
        let forgotten = ids(&repository)[0];
        repository.forget(&[forgotten]).unwrap();
        let other = memory.clone();
        let storage = beside(&memory, "snapshots/", move || {
            open(other).remember(forgotten, "").unwrap();
        });
        let (process, warned) = watched(&open(storage.clone()));
        let back = process.remember(forgotten, "").unwrap();
        let there = ids(&repository);
        let calls = storage.calls.lock().unwrap().clone();
        if let [only] = there[..] {
            assert_eq!(back, only);
            assert_eq!(calls[0], ("settle", only.to_string()));
            assert_eq!((calls[1].0, calls.len()), ("delete", 2));
            deleted += 1;
        } else {
            // The other process has looked before this one stored its own, and ended.
            assert_eq!((there.len(), Some(&back)), (2, there.iter().min()));
            assert!(calls.is_empty(), "{calls:?}");
            let named = there.iter().map(|id| id.to_string()[..8].to_owned());
            let (own, other): (Vec<_>, Vec<_>) = named.partition(|id| back.to_string().starts_with(id));
            assert_eq!(*warned.lock().unwrap(), [(own[0].clone(), other[0].clone())]);
        }
        is_clean(&repository);
    }
}

fn without_the_password() -> RewriteOptions {
    let excludes = Excludes::default().patterns(vec!["secret".into()]);
    RewriteOptions::default().excludes(excludes).forget(true)
}

fn latest(repository: &Repository) -> SnapshotInfo {
    repository.snapshot("latest").unwrap()
}

fn add_tag(repository: &Repository, info: &SnapshotInfo) -> Result<Option<FileId>, Error> {
    repository.set_tags(info, &["x".to_owned()], "")
}

#[test]
fn what_another_process_has_changed_meanwhile_is_not_changed_again() {
    let (memory, repository) = with_snapshots(1);
    let info = latest(&repository);
    let (other, its) = (memory.clone(), info.clone());
    let storage = beside(&memory, "packs/", move || {
        add_tag(&open(other), &its).unwrap();
    });
    let refused = open(storage).rewrite(&info, &without_the_password()).unwrap_err();
    assert!(matches!(refused, Error::SnapshotGone { .. }), "{refused}");
    let left = latest(&repository);
    assert_eq!(
        (ids(&repository), left.snapshot.tags),
        (vec![left.id], vec!["x".to_owned()])
    );
    is_clean(&repository);

    let (memory, repository) = with_snapshots(1);
    let info = latest(&repository);
    let (other, its) = (memory.clone(), info.clone());
    let storage = beside(&memory, "sessions/", move || {
        open(other).rewrite(&its, &without_the_password()).unwrap();
    });
    let refused = add_tag(&open(storage), &info).unwrap_err();
    assert!(matches!(refused, Error::SnapshotGone { .. }), "{refused}");
    let left = latest(&repository);
    assert_eq!((ids(&repository), left.snapshot.counters.files), (vec![left.id], 1));
    is_clean(&repository);
}

#[test]
fn changes_that_are_stored_at_once_are_named() {
    let (memory, repository) = with_snapshots(1);
    let info = latest(&repository);
    let (other, its) = (memory.clone(), info.clone());
    let storage = beside(&memory, "snapshots/", move || {
        add_tag(&open(other), &its).unwrap();
    });
    let (process, warned) = watched(&open(storage));
    let own = process.rewrite(&info, &without_the_password()).unwrap().id.unwrap();
    let there = ids(&repository);
    let other = there.iter().find(|id| **id != own).unwrap().to_string()[..8].to_owned();
    assert_eq!(there.len(), 2);
    assert_eq!(*warned.lock().unwrap(), [(own.to_string()[..8].to_owned(), other)]);
}
