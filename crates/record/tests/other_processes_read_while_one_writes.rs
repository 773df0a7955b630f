//! A process writes to a store, with checkpoints, new segments and compactions all the time, and others read it. What
//! they see is always the state after some batch, with all that was acknowledged before they looked, and no snapshot
//! changes. Readers and the writer are killed meanwhile.

#[path = "record/common/mod.rs"]
mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::ops::{Bound, ControlFlow};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::noise;
use ibid_record::engine::{EngineError, Fjall, Redb};
use ibid_record::{Batch, Compacting, Direction, Durability, Error, Namespace, Options, Snapshot, Store, Versions};

/// What the child process does, and with which folder.
const CHILD: &str = "IBID_RECORD_READERS_CHILD";
/// Keys of which all versions are kept.
const KEYS: u64 = 7;

fn body(number: u64) -> Vec<u8> {
    // Some are stored in redb's file, others in segments.
    let length = [8, 40, 100, 900, 3000][number as usize % 5];
    [&noise(length, number as u32 % 3)[..], &number.to_be_bytes()].concat()
}

fn key(number: u64) -> Vec<u8> {
    format!("key {}", number % KEYS).into_bytes()
}

fn options() -> Options {
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::Sync)
        .with_compacting(
            Compacting::default()
                .with_recent_bytes(0)
                .with_idle_after(Duration::ZERO),
        )
}

fn to_read() -> Options {
    options().with_read_only(true)
}

fn find_spaces(store: &Store) -> Result<[Namespace; 2], Error> {
    let find = |name| store.find_namespace(name);
    let found = [find("latest")?, find("kept")?];
    Ok(found.map(|space| space.expect("the writer has made it")))
}

fn spaces(store: &Store) -> [Namespace; 2] {
    find_spaces(store).unwrap()
}

/// The file in which the writer notes what it has acknowledged.
fn acknowledged_file(folder: &Path) -> PathBuf {
    folder.join("acknowledged")
}

fn acknowledged(folder: &Path) -> u64 {
    let mut number = [0; 8];
    let read = File::open(acknowledged_file(folder)).and_then(|file| file.read_exact_at(&mut number, 0));
    read.map_or(0, |()| u64::from_le_bytes(number))
}

fn counter(snapshot: &Snapshot, latest: &Namespace) -> u64 {
    let found = snapshot.get(latest, b"counter").unwrap();
    found.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

/// Tells the parent. Without one, the process ends.
fn say(what: &str) {
    std::io::stdout().write_all(format!("{what}\n").as_bytes()).unwrap();
}

/// Writes batches until it is killed.
fn write(folder: &Path) {
    let place = folder.join("store");
    fs::create_dir_all(&place).unwrap();
    let engine = Redb::open(&place.join("redb"), 1 << 20).unwrap();
    let engine = engine
        .with_log_bytes(24 << 10)
        .with_segment_bytes(32 << 10)
        .with_step_changes(20);
    let store = Store::with_engine(&place, Box::new(engine), options()).unwrap();
    let latest = store.namespace("latest", Versions::Latest).unwrap();
    let kept = store.namespace("kept", Versions::Kept).unwrap();
    let notes = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(acknowledged_file(folder))
        .unwrap();
    let first = counter(&store.snapshot().unwrap(), &latest) + 1;
    say("begins");
    for number in first.. {
        let mut batch = Batch::new();
        batch.put(&latest, b"left", body(number));
        batch.put(&kept, &key(number), body(number));
        batch.put(&latest, b"counter", &number.to_be_bytes());
        batch.put(&latest, b"right", body(number));
        // So that there are keys that come and go.
        match number % 2 {
            0 => batch.put(&latest, b"now and then", body(number)),
            _ if number > 1 => batch.delete(&latest, b"now and then"),
            _ => &mut batch,
        };
        let durability = match number % 3 {
            0 => Durability::None,
            _ => Durability::Sync,
        };
        store.commit_with(batch, durability).unwrap();
        if durability == Durability::Sync {
            notes.write_all_at(&number.to_le_bytes(), 0).unwrap();
        }
        match number % 64 {
            20 => store.settle(&mut |_| ControlFlow::Continue(())).unwrap(),
            50 => drop(store.compact(&mut |_| ControlFlow::Continue(())).unwrap()),
            _ => {}
        }
    }
}

/// Whether reading failed only because the writer keeps nothing for this reader any more.
fn is_outdated(error: &Error) -> bool {
    matches!(error, Error::Engine(EngineError::Outdated { .. }))
}

/// Checks that a snapshot is the state after a batch, and returns its number.
fn check(snapshot: &Snapshot, [latest, kept]: &[Namespace; 2]) -> Result<u64, Error> {
    let number = snapshot
        .get(latest, b"counter")?
        .map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
    if number == 0 {
        return Ok(0);
    }
    let expected = Some(body(number));
    assert!(snapshot.get(latest, b"left")? == expected, "left of batch {number}");
    assert!(snapshot.get(latest, b"right")? == expected, "right of batch {number}");
    let now_and_then = number.is_multiple_of(2).then(|| body(number));
    assert!(
        snapshot.get(latest, b"now and then")? == now_and_then,
        "now and then of batch {number}"
    );
    let mut latest_keys = vec![&b"counter"[..], b"left", b"right"];
    if number.is_multiple_of(2) {
        latest_keys.insert(2, b"now and then");
    }
    for direction in [Direction::Forward, Direction::Backward] {
        let scanned = snapshot.scan(latest, (Bound::Unbounded, Bound::Unbounded), direction)?;
        let scanned = scanned
            .map(|record| record.map(|record| record.key))
            .collect::<Result<Vec<_>, _>>()?;
        assert_eq!(scanned, latest_keys, "batch {number}");
        latest_keys.reverse();
    }
    for last in (number.saturating_sub(KEYS - 1)).max(1)..=number {
        let key = key(last);
        assert!(
            snapshot.get(kept, &key)? == Some(body(last)),
            "batch {last} of {number}"
        );
        let versions = snapshot.versions(kept, &key)?.len() as u64;
        assert_eq!(versions, last.div_ceil(KEYS), "versions of batch {last} of {number}");
        for version in [1, versions.div_ceil(2)] {
            let first = if last % KEYS == 0 { KEYS } else { last % KEYS };
            let stored = snapshot.get_version(kept, &key, version as u32)?;
            assert!(
                stored == Some(body(first + KEYS * (version - 1))),
                "version {version} of {number}"
            );
        }
    }
    Ok(number)
}

/// Reads again and again: what was acknowledged, one snapshot that is held, and everything. If it `may_lose` snapshots,
/// it may be told that one is not kept, and needs another one.
fn read(folder: &Path, place: &Path, may_lose: bool) {
    let mut last = 0;
    let mut lost = 0;
    for round in 0.. {
        let at_least = acknowledged(folder);
        let store = Store::open(place, to_read()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let spaces = match find_spaces(&store) {
            Ok(spaces) => spaces,
            Err(error) if may_lose && is_outdated(&error) => {
                lost += 1;
                continue;
            }
            Err(error) => panic!("round {round}: {error}"),
        };
        // It has no page in memory when it is read, after the writer has gone on.
        let unread = Store::open(place, to_read()).unwrap();
        let mut expected = at_least.max(last);
        let mut held: Option<(Snapshot, u64)> = None;
        for refreshed in 0..20 {
            let snapshot = store.snapshot().unwrap();
            match check(&snapshot, &spaces) {
                Ok(number) => {
                    assert!(number >= expected, "round {round}: {number} after {expected}");
                    last = number;
                    held.get_or_insert((snapshot, number));
                }
                Err(error) if may_lose && is_outdated(&error) => lost += 1,
                Err(error) => panic!("round {round}, refreshed {refreshed} times: {error}"),
            }
            if let Some((snapshot, number)) = &held {
                match check(snapshot, &spaces) {
                    Ok(found) => assert_eq!(found, *number, "a snapshot does not change"),
                    Err(error) if may_lose && is_outdated(&error) => {
                        lost += 1;
                        held = None;
                    }
                    Err(error) => panic!("round {round}: a snapshot is lost: {error}"),
                }
            }
            expected = acknowledged(folder).max(last);
            store.refresh().unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        for (name, store) in [("refreshed", &store), ("unread", &unread)] {
            let snapshot = store.snapshot().unwrap();
            let spaces = find_spaces(store);
            let read = spaces.and_then(|spaces| check(&snapshot, &spaces));
            match read.and_then(|_| store.verify(&mut |_| ControlFlow::Continue(()))) {
                Ok(found) => assert!(found.is_clean(), "round {round}, {name}: {:?}", found.faults),
                Err(error) if may_lose && is_outdated(&error) => lost += 1,
                Err(error) => panic!("round {round}, {name}: {error}"),
            }
        }
        say(&format!("read up to {last}, lost {lost}"));
    }
}

#[test]
#[ignore = "the process that the other tests start and kill"]
fn child_process() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let (role, folder) = child.split_once(':').unwrap();
    let folder = Path::new(folder);
    match role {
        "writer" => write(folder),
        "reader" => read(folder, &folder.join("store"), false),
        "reader that may lose" => read(folder, &folder.join("store"), true),
        "reader without a lock" => read(folder, &folder.join("alias"), true),
        "reader without rights" => read_once(&folder.join("store")),
        _ => panic!("no role {role}"),
    }
}

fn command(program: &Path, role: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--exact", "child_process", "--nocapture", "--include-ignored"])
        .env(CHILD, format!("{role}:{}", folder.display()))
        .stdout(Stdio::piped());
    command
}

struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    fn start(role: &str, folder: &Path) -> Self {
        let mut child = command(&std::env::current_exe().unwrap(), role, folder)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { child, lines }
    }

    fn writer(folder: &Path) -> Self {
        let mut writer = Running::start("writer", folder);
        writer.wait_for("begins");
        writer
    }

    /// Waits for a line that begins so. Panics if the process ends before.
    fn wait_for(&mut self, beginning: &str) -> String {
        for line in &mut self.lines {
            let line = line.unwrap();
            if line.starts_with(beginning) {
                return line;
            }
        }
        panic!("the process has ended: {:?}", self.child.wait());
    }

    /// Kills the process, which has gone on until then.
    fn kill(mut self) {
        assert!(self.child.try_wait().unwrap().is_none(), "it has ended by itself");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until_acknowledged(folder: &Path, number: u64) {
    while acknowledged(folder) < number {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn readers_see_what_was_acknowledged_and_keep_what_they_see() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Running::writer(folder.path());
    wait_until_acknowledged(folder.path(), 1);
    let mut readers: Vec<_> = (0..2).map(|_| Running::start("reader", folder.path())).collect();
    for round in 0..12 {
        for reader in &mut readers {
            reader.wait_for("read");
        }
        // One that is killed leaves nothing that is in the way.
        let killed = std::mem::replace(&mut readers[round % 2], Running::start("reader", folder.path()));
        killed.kill();
    }
    writer.kill();
    for reader in &mut readers {
        reader.wait_for("read");
    }
    readers.into_iter().for_each(Running::kill);
}

#[test]
fn readers_outlive_writers() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Running::writer(folder.path());
    wait_until_acknowledged(folder.path(), 1);
    let mut readers: Vec<_> = (0..2)
        .map(|_| Running::start("reader that may lose", folder.path()))
        .collect();
    for _ in 0..12 {
        let before = acknowledged(folder.path());
        wait_until_acknowledged(folder.path(), before + 40);
        writer.kill();
        readers[0].wait_for("read");
        writer = Running::writer(folder.path());
        readers[1].wait_for("read");
    }
    readers.into_iter().for_each(Running::kill);
}

/// Makes a folder in which the store has no file with locks.
fn make_alias(folder: &Path) {
    fs::create_dir(folder.join("alias")).unwrap();
    for name in ["redb", "redb.segments"] {
        symlink(folder.join("store").join(name), folder.join("alias").join(name)).unwrap();
    }
}

#[test]
fn readers_without_locks_are_told_of_what_they_lose_and_see_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Running::writer(folder.path());
    wait_until_acknowledged(folder.path(), 1);
    make_alias(folder.path());
    let mut readers: Vec<_> = (0..2)
        .map(|_| Running::start("reader without a lock", folder.path()))
        .collect();
    let (mut rounds, mut has_lost) = (0, false);
    while rounds < 4 || !has_lost {
        for reader in &mut readers {
            has_lost |= !reader.wait_for("read").ends_with("lost 0");
        }
        rounds += 1;
        assert!(rounds < 10_000, "the writer goes on");
    }
    readers.into_iter().for_each(Running::kill);
    drop(writer);
}

/// Reads a store, and tries to change it.
fn read_once(place: &Path) {
    let denied = File::create(place.join("new")).unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
    let denied = File::options().write(true).open(place.join("redb")).unwrap_err();
    assert_eq!(denied.kind(), std::io::ErrorKind::PermissionDenied);
    let store = Store::open(place, to_read()).unwrap();
    let number = check(&store.snapshot().unwrap(), &spaces(&store)).unwrap();
    assert!(store.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
    say(&format!("read {number}"));
}

/// Permissions do not bind root. So its child is another user.
#[test]
fn a_store_is_read_without_the_right_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Running::writer(folder.path());
    wait_until_acknowledged(folder.path(), 30);
    let place = folder.path().join("store");
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let is_root = fs::metadata(folder.path())
        .map(|found| std::os::unix::fs::MetadataExt::uid(&found))
        .unwrap()
        == 0;
    let program = folder.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    set(&program, 0o755);
    set(folder.path(), 0o755);
    for writer in [Some(writer), None] {
        let mut reader = command(&program, "reader without rights", folder.path());
        if is_root {
            reader.uid(65534).gid(65534).current_dir("/");
        } else {
            set(&place, 0o555);
            set(&place.join("redb"), 0o444);
        }
        let before = acknowledged(folder.path());
        let out = reader.stderr(Stdio::inherit()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
        let out = String::from_utf8(out.stdout).unwrap();
        let read = out
            .lines()
            .find_map(|line| line.split("read ").nth(1))
            .expect("it has read");
        assert!(read.trim().parse::<u64>().unwrap() >= before, "{read} after {before}");
        // The second time no process writes, and the last one did not close it.
        drop(writer);
        set(&place, 0o755);
        set(&place.join("redb"), 0o644);
    }
}

#[test]
fn every_change_of_a_store_that_is_only_read_is_an_error_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (place, all) = (folder.path(), &mut |_| ControlFlow::Continue(()));
    {
        let store = Store::open(place, options()).unwrap();
        store
            .namespace("kept", Versions::Kept)
            .unwrap()
            .put(b"key", b"body")
            .unwrap();
    }
    let files = || {
        let mut files = Vec::new();
        for folder in [place.to_owned(), place.join("redb.segments")] {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let content = path.is_file().then(|| fs::read(&path).unwrap());
                files.push((path, content));
            }
        }
        files.sort();
        files
    };
    let before = files();
    {
        let store = Store::open(place, to_read()).unwrap();
        let kept = store.find_namespace("kept").unwrap().unwrap();
        let refused = |result: Result<(), Error>| {
            assert!(matches!(result, Err(Error::ReadOnly)), "{result:?}");
        };
        let batch = || {
            let mut batch = Batch::new();
            batch.put(&kept, b"key", b"other");
            batch
        };
        refused(store.commit(batch()).map(drop));
        refused(store.commit_with(batch(), Durability::None).map(drop));
        refused(kept.put(b"key", b"other").map(drop));
        refused(kept.delete(b"key").map(drop));
        refused(kept.purge(b"key").map(drop));
        refused(kept.set_retention(kept.retention().unwrap()));
        refused(store.namespace("new", Versions::Kept).map(drop));
        refused(store.sync());
        refused(store.finish_encoding());
        refused(store.settle(&mut |_| ControlFlow::Continue(())));
        refused(store.compact(all).map(drop));
        refused(store.expire(ibid_record::Time::now(), &mut |_| ControlFlow::Continue(())));
        refused(store.follow());
        assert_eq!(
            store
                .namespace("kept", Versions::Kept)
                .unwrap()
                .get(b"key")
                .unwrap()
                .unwrap(),
            b"body"
        );
        assert!(!store.refresh().unwrap(), "nothing is new");
        assert!(store.verify(all).unwrap().is_clean());
        assert!(store.statistics(all).unwrap().namespaces[0].keys == 1);
    }
    assert!(files() == before, "nothing on disk has changed");
    assert!(!Store::open(place, options()).unwrap().refresh().unwrap());
}

#[test]
fn what_was_closed_opens_again_while_processes_are_begun() {
    // Until such a process becomes another program, it has the files that this one had, and their locks.
    let folder = tempfile::tempdir().unwrap();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    assert!(Command::new("true").status().unwrap().success());
                }
            });
        }
        let end = Duration::from_secs(2);
        let begun = Instant::now();
        let mut failed = None;
        while failed.is_none() && begun.elapsed() < end {
            let redb = || Redb::open(&folder.path().join("redb"), 1 << 20).map(drop);
            let fjall = || Fjall::open(&folder.path().join("fjall"), 1 << 20).map(drop);
            failed = [redb(), redb(), fjall(), fjall()].into_iter().find_map(Result::err);
        }
        has_ended.store(true, Ordering::Relaxed);
        assert!(failed.is_none(), "{failed:?}");
    });
}

#[test]
fn a_store_that_is_not_there_is_not_made() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("store");
    assert!(Store::open(&place, to_read()).is_err());
    assert!(!place.exists());
    fs::create_dir(&place).unwrap();
    let error = Store::open(&place, to_read()).err();
    assert!(matches!(error, Some(Error::NotAStore { .. })), "{error:?}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
fn an_encrypted_store_is_read_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let cost = ibid_record::Argon2Cost::default();
    let open = |options| Store::open_encrypted(folder.path(), options, b"password", cost);
    let written = open(options()).unwrap().namespace("kept", Versions::Kept).unwrap();
    written.put(b"key", b"body").unwrap();
    let store = open(to_read()).unwrap();
    let read = store.find_namespace("kept").unwrap().unwrap();
    assert_eq!(read.get(b"key").unwrap().unwrap(), b"body");
    written.put(b"key", &body(4)).unwrap();
    assert_eq!(read.get(b"key").unwrap().unwrap(), b"body", "until it is refreshed");
    assert!(store.refresh().unwrap());
    assert_eq!(read.get(b"key").unwrap().unwrap(), body(4));
    assert!(matches!(
        Store::open(folder.path(), to_read()),
        Err(Error::Encrypted { .. })
    ));
}

#[cfg(feature = "fjall")]
#[test]
fn a_store_in_fjall_says_that_it_can_not_be_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let options = options().with_engine(ibid_record::EngineKind::Fjall);
    drop(Store::open(folder.path(), options).unwrap());
    let error = Store::open(folder.path(), options.with_read_only(true)).err();
    assert!(
        matches!(error, Some(Error::Engine(EngineError::NotReadOnly { .. }))),
        "{error:?}"
    );
}
