//! A check tells what backups and prunes have begun and not ended from damage.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};

use ibid_repo::{
    CheckReport, FileId, InitOptions, Limit, PruneOptions, ReadData, RepairOptions, Repository, SessionState,
    Unfinished,
};
use ibid_storage::fault::{Flaky, ObjectFault};
use ibid_storage::{Error, ErrorKind, Memory, Name, Operation, Storage};

use crate::support::deltas::{Frame, Writer};
use crate::support::hooked::{Hooked, Hooks};
use crate::support::{Folder, backup, noise, options, quick};

fn small() -> InitOptions {
    quick()
        .chunker(ibid_repo::ChunkerSettings::for_average("argmin", 8 << 10).unwrap())
        .frame_size(32 << 10)
        .pack_size(1 << 20)
}

fn thorough() -> PruneOptions {
    PruneOptions::default().max_unused(Limit::Bytes(0))
}

/// Returns a repository with snapshots of so many versions of a tree.
fn versions(storage: Arc<dyn Storage>, count: u64) -> (Repository, Vec<FileId>) {
    let repository = Repository::init(storage, Some(b"secret"), &small()).unwrap();
    let folder = Folder::scratch();
    let version = |n| {
        folder.write("new", &noise(n, 300_000));
        folder.write(format!("file {n}"), &noise(100 + n, 50_000));
        backup(&repository, folder.path()).id.unwrap()
    };
    let ids = (0..count).map(version).collect();
    (repository, ids)
}

fn check(repository: &Repository) -> CheckReport {
    repository.check(ReadData::All).unwrap()
}

/// Checks, expects no fault, and returns what is unfinished.
#[track_caller]
fn unfinished(repository: &Repository) -> Unfinished {
    let report = check(repository);
    assert!(report.is_clean(), "{report:#?}");
    report.unfinished
}

fn entry(number: u64) -> Name {
    Name::new(&format!("prune/{}", FileId::numbered(number))).unwrap()
}

/// Stores a session of another machine, as a backup that runs there does.
fn session_elsewhere(storage: &Arc<Memory>) -> FileId {
    session_of(storage, ibid_repo::Process::default())
}

/// Stores a session of this process, if that is what it is.
fn session_of(storage: &Arc<Memory>, process: ibid_repo::Process) -> FileId {
    let session = ibid_repo::Session {
        time: ibid_repo::Time { seconds: 77, nanos: 0 },
        host: "elsewhere".into(),
        user: "ada".into(),
        program: "a test".into(),
        action: "backup".into(),
        paths: vec![],
        process,
    };
    let id = FileId::random();
    let bytes = session.encode(&Writer::of(storage.clone()).keys, id).unwrap();
    storage
        .put(&Name::new(&format!("sessions/{id}")).unwrap(), &[&bytes])
        .unwrap();
    id
}

#[test]
fn nothing_is_unfinished_after_backups_and_prunes_that_ended() {
    let (repository, ids) = versions(Arc::new(Memory::new()), 2);
    let before = unfinished(&repository);
    assert_eq!(
        (before.log_entry, before.sessions.len(), before.void_snapshots),
        (0, 0, 0)
    );
    repository.forget(&ids[..1]).unwrap();
    repository.prune(&thorough()).unwrap();
    let after = unfinished(&repository);
    assert_eq!(after.log_entry, 2, "condemned, doomed: {after:?}");
    assert_eq!(
        (after.condemned.packs, after.doomed.packs, after.orphaned_frames),
        (0, 0, 0)
    );
}

#[test]
fn an_open_session_and_the_packs_that_wait_for_it_are_no_fault() {
    let storage = Arc::new(Memory::new());
    let (repository, ids) = versions(storage.clone(), 2);
    let session = session_elsewhere(&storage);
    repository.forget(&ids[..1]).unwrap();
    repository.prune(&thorough()).unwrap();
    let found = unfinished(&repository);
    let sessions: Vec<_> = found.sessions.iter().map(|info| (info.id, info.state)).collect();
    assert_eq!(sessions, [(session, SessionState::Unknown)]);
    assert!(found.condemned.packs > 0 && found.condemned.bytes > 100, "{found:?}");
    assert_eq!((found.doomed.packs, found.void_snapshots), (0, 0));
    repository.prune(&thorough().give_up_on(vec![session])).unwrap();
    let found = unfinished(&repository);
    assert_eq!(
        (found.sessions.len(), found.condemned.packs, found.void_snapshots),
        (0, 0, 1)
    );
}

#[test]
fn sessions_of_this_machine_are_running_or_killed() {
    let storage = Arc::new(Memory::new());
    let (repository, _) = versions(storage.clone(), 1);
    let flaky = Arc::new(Flaky::new(storage.as_ref().clone()));
    let failing = Repository::open(flaky.clone(), Some(b"secret")).unwrap();
    let folder = Folder::scratch();
    folder.write("new", &noise(4, 100_000));
    // Nothing more is stored or deleted, as if it had been killed.
    flaky.fail(Operation::Put, 1, ObjectFault::Before(ErrorKind::PermissionDenied));
    flaky.fail_always(Operation::Delete, ObjectFault::Before(ErrorKind::PermissionDenied));
    failing.backup(&options(folder.path())).unwrap_err();
    let found = unfinished(&repository);
    assert_eq!(found.sessions.len(), 1);
    assert_eq!(
        found.sessions[0].state,
        SessionState::Running,
        "by this process, which still runs"
    );
    // Another process has its number now.
    let process = found.sessions[0].session.process.clone();
    let gone = session_of(
        &storage,
        ibid_repo::Process {
            started: process.started + 1,
            ..process
        },
    );
    let found = unfinished(&repository);
    assert_eq!(
        (found.sessions[0].id, found.sessions[0].state),
        (gone, SessionState::Dead)
    );
    assert_eq!(found.sessions.len(), 2, "the oldest first");
    // A session that can't be read is worth a note only.
    let name = Name::new(&format!("sessions/{}", FileId::random())).unwrap();
    storage.put(&name, &[b"no session"]).unwrap();
    let report = check(&repository);
    assert!(report.is_clean());
    assert!(
        report.notes.iter().any(|note| note.object == name.as_str()),
        "{report:#?}"
    );
}

#[test]
fn doomed_packs_that_were_not_deleted_yet_are_counted() {
    let mut met = 0;
    for skip in 0..12 {
        let memory = Memory::new();
        let flaky = Arc::new(Flaky::new(memory.clone()));
        let (repository, ids) = versions(flaky.clone(), 2);
        repository.forget(&ids[..1]).unwrap();
        flaky.fail(
            Operation::Delete,
            skip,
            ObjectFault::Before(ErrorKind::PermissionDenied),
        );
        let failed = repository.prune(&thorough()).is_err();
        flaky.heal();
        let repository = Repository::open(Arc::new(memory), Some(b"secret")).unwrap();
        let found = unfinished(&repository);
        met += u64::from(failed && found.doomed.packs > 0);
        assert_eq!(found.doomed.packs > 0, found.doomed.bytes > 0);
        repository.prune(&thorough()).unwrap();
        assert_eq!(unfinished(&repository).doomed.packs, 0);
    }
    assert!(met > 2, "{met}");
}

/// Returns a repository that was pruned three times, with its log: entries 1 to the last.
fn pruned() -> (Arc<Memory>, Repository, FileId, u64) {
    let storage = Arc::new(Memory::new());
    let (repository, ids) = versions(storage.clone(), 4);
    for id in &ids[..3] {
        repository.forget(&[*id]).unwrap();
        repository.prune(&thorough()).unwrap();
    }
    let last = unfinished(&repository).log_entry;
    assert!(last >= 6);
    (storage, repository, ids[3], last)
}

fn spoil(storage: &Memory, name: &Name) {
    let mut bytes = storage.get(name, u64::MAX).unwrap();
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    storage.delete(name).unwrap();
    storage.put(name, &[&bytes]).unwrap();
}

#[test]
fn only_the_end_of_the_log_matters() {
    let (storage, repository, _, last) = pruned();
    // One that is damaged and one that is missing, which are not read.
    spoil(&storage, &entry(last - 1));
    storage.delete(&entry(last - 3)).unwrap();
    let report = check(&repository);
    assert!(report.is_clean(), "{report:#?}");
    for number in [last - 1, last - 2] {
        let name = entry(number).to_string();
        assert!(
            report.notes.iter().any(|note| note.object == name),
            "{name}: {report:#?}"
        );
    }
    // The last one is the state.
    spoil(&storage, &entry(last));
    let report = check(&repository);
    let faults: Vec<_> = report.faults.iter().map(|fault| fault.object.as_str()).collect();
    assert!(!report.is_clean());
    assert!(faults.contains(&entry(last).as_str()), "{report:#?}");
    // A repair goes on after both.
    let dry_run = RepairOptions::default().dry_run(true);
    let foretold = repository.repair(&dry_run).unwrap();
    assert!(foretold.log_entries == 2 && foretold.left.is_empty(), "{foretold:#?}");
    let repaired = repository.repair(&RepairOptions::default()).unwrap();
    assert!(repaired.log_entries == 2 && repaired.left.is_empty() && !repaired.is_clean());
    assert!(repaired.check.is_clean(), "{repaired:#?}");
    assert!(repository.repair(&RepairOptions::default()).unwrap().is_clean());
}

#[test]
fn a_forgotten_snapshot_that_is_damaged_is_named() {
    let storage = Arc::new(Memory::new());
    let (repository, ids) = versions(storage.clone(), 3);
    repository.forget(&ids[..2]).unwrap();
    let name = Name::new(&format!("forgotten/{}", ids[0])).unwrap();
    spoil(&storage, &name);
    let mut damaged = Vec::new();
    let left = repository.forgotten(|id, _| damaged.push(id)).unwrap();
    assert_eq!((left[0].id, left.len(), &damaged[..]), (ids[1], 1, &ids[..1]));
    let report = check(&repository);
    assert!(
        report.is_clean() && report.notes[0].object == name.as_str(),
        "{report:#?}"
    );
}

#[test]
fn a_log_whose_end_is_gone_is_noticed_by_what_was_written_after_it() {
    let (storage, repository, _, last) = pruned();
    // An index file that was written after the last entry.
    let folder = Folder::scratch();
    folder.write("new", &noise(9, 50_000));
    backup(&repository, folder.path());
    unfinished(&repository);
    storage.delete(&entry(last)).unwrap();
    let report = check(&repository);
    let about_log: Vec<_> = report
        .faults
        .iter()
        .filter(|fault| fault.object == entry(last).as_str())
        .collect();
    assert_eq!(about_log.len(), 1, "{report:#?}");
    assert!(
        about_log[0].problem.contains(&format!("written after entry {last}")),
        "{report:#?}"
    );
}

/// A storage that stops before the first pack, and that fails whatever comes after the first index file.
struct Stopping {
    inner: Arc<Memory>,
    arrived: Barrier,
    released: Barrier,
    has_waited: Mutex<bool>,
    is_dead: AtomicBool,
}

impl Stopping {
    fn check(&self) -> Result<(), Error> {
        match self.is_dead.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::PermissionDenied, Operation::Put, None, "killed")),
        }
    }
}

impl Hooks for Stopping {
    fn inner(&self) -> &dyn Storage {
        self.inner.as_ref()
    }

    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.check()?;
        if name.as_str().starts_with("packs/") {
            // Another thread's pack waits for the lock.
            let mut has_waited = self.has_waited.lock().unwrap();
            if !std::mem::replace(&mut *has_waited, true) {
                self.arrived.wait();
                self.released.wait();
            }
        }
        if name.as_str().starts_with("index/") {
            self.is_dead.store(true, Ordering::SeqCst);
        }
        self.inner.put(name, parts)
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        self.check()?;
        self.inner.delete(name)
    }
}

/// Returns a repository in which a prune has ended a backup that then stored packs and an index file, and was
/// killed. What it stored are deltas against what the prune has deleted. Also returns the data of the backup, which
/// are one chunk.
fn with_orphans() -> (Arc<Memory>, Repository, Vec<u8>) {
    let inner = Arc::new(Memory::new());
    let other = Repository::init(inner.clone(), Some(b"secret"), &quick()).unwrap();
    let folder = Folder::scratch();
    let mut data = noise(1, 30_000);
    folder.write("data", &data);
    let before = backup(&other, folder.path()).id.unwrap();
    for at in (0..data.len() - 100).step_by(8 << 10) {
        data[at..at + 16].copy_from_slice(&noise(at as u64, 16));
    }
    folder.write("data", &data);
    let stopping = Arc::new(Hooked(Stopping {
        inner: inner.clone(),
        arrived: Barrier::new(2),
        released: Barrier::new(2),
        has_waited: Mutex::new(false),
        is_dead: AtomicBool::new(false),
    }));
    let repository = Repository::open(stopping.clone(), Some(b"secret")).unwrap();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| repository.backup(&options(folder.path())));
        stopping.arrived.wait();
        other.forget(&[before]).unwrap();
        let open = other.sessions(|_, error| panic!("{error}")).unwrap();
        let open: Vec<FileId> = open.iter().map(|session| session.id).collect();
        assert!(other.prune(&thorough().give_up_on(open)).unwrap().packs_deleted > 0);
        stopping.released.wait();
        running.join().unwrap().unwrap_err();
    });
    let repository = Repository::open(inner.clone(), Some(b"secret")).unwrap();
    (inner, repository, data)
}

#[test]
fn frames_without_bases_that_nothing_needs_are_no_damage() {
    let (storage, repository, _) = with_orphans();
    let report = check(&repository);
    assert!(report.is_clean(), "{report:#?}");
    let found = &report.unfinished;
    assert_eq!((found.untrusted_index_files, found.void_snapshots), (1, 1));
    assert!(found.orphaned_frames > 0 && found.orphaned_bytes > 0, "{found:?}");
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.problem.contains("no snapshot needs them")),
        "{report:#?}"
    );
    repository.prune(&thorough()).unwrap();
    let found = unfinished(&repository);
    assert_eq!((found.untrusted_index_files, found.orphaned_frames), (0, 0));
    let mut packs = 0;
    storage.list("packs", &mut |_, _| packs += 1).unwrap();
    assert_eq!(packs, 0, "no snapshot is left");
}

#[test]
fn frames_without_bases_that_a_snapshot_needs_are_damage() {
    let (storage, repository, data) = with_orphans();
    let orphans = unfinished(&repository).orphaned_frames;
    // A snapshot whose backup did not notice, as none does: of a chunk in such a frame.
    let writer = Writer::of(storage);
    let id = writer.snapshot_of(&data);
    let report = check(&repository);
    assert!(!report.is_clean());
    assert!(
        report.affected.iter().any(|affected| affected.snapshot == id),
        "{report:#?}"
    );
    assert!(
        report
            .faults
            .iter()
            .any(|fault| fault.problem.contains("are encoded against chunks that are in no pack")),
        "{report:#?}"
    );
    assert!(report.unfinished.orphaned_frames < orphans, "one is needed");
}

/// A backup relies on what a trusted index file lists, even if no snapshot needs it yet.
#[test]
fn frames_without_bases_that_a_backup_would_rely_on_are_damage() {
    let storage = Arc::new(Memory::new());
    let (repository, _) = versions(storage.clone(), 1);
    let writer = Writer::of(storage);
    let gone = noise(70, 9_000);
    let pack = writer.pack(&[Frame::delta(&[noise(71, 9_000)], 1, &[&gone])]);
    writer.index(&[pack]);
    let report = check(&repository);
    assert!(!report.is_clean());
    assert_eq!((report.affected_total, report.unfinished.orphaned_frames), (0, 0));
}
