//! Locks of objects, and storages as they were.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ibid_remote::ObjectStorage;
use ibid_s3_server::{LOCKABLE, Operation, Server, VERSIONED};
use ibid_storage::{DueLock, ErrorKind, Lock, LockMode, Locks, Name, Storage};

use crate::{name, storage};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn is_kept(name: &Name) -> bool {
    !name.as_str().starts_with("passing")
}

/// Returns the storage as it keeps objects for 30 days.
fn keeping(server: &Server, mode: LockMode) -> ObjectStorage {
    let storage = storage(server, &format!("{LOCKABLE}/a"));
    storage.keep(Lock::new(30, mode).unwrap(), is_kept);
    storage
}

/// Returns for how many days an object is locked from now on.
fn days_left(server: &Server, key: &str) -> Option<u64> {
    let (_, until) = server.locked_until(LOCKABLE, key)?;
    let left = until.duration_since(SystemTime::now()).unwrap_or_default();
    Some(left.as_secs() / DAY.as_secs())
}

fn names(due: &[DueLock]) -> Vec<&str> {
    due.iter().map(|due| due.name.as_str()).collect()
}

#[test]
fn what_is_kept_is_locked_as_it_is_stored() {
    for mode in [LockMode::Governance, LockMode::Compliance] {
        let server = Server::start();
        let storage = keeping(&server, mode);
        assert_eq!(server.faults().asked(), [], "to keep asks nothing");
        storage.check().unwrap();
        storage.put(&name("packs/1"), &[b"one"]).unwrap();
        storage.put_data(&name("packs/2"), &[b"two"]).unwrap();
        storage.put(&name("passing/1"), &[b"gone soon"]).unwrap();
        let text = mode.to_string().to_uppercase();
        for key in ["a/packs/1", "a/packs/2"] {
            assert_eq!(server.locked_until(LOCKABLE, key).unwrap().0, text);
            assert_eq!(days_left(&server, key), Some(30), "{key}: to the end of the day");
        }
        assert_eq!(server.locked_until(LOCKABLE, "a/passing/1"), None);

        // Deleted, they are not seen, and still there.
        storage.delete(&name("packs/1")).unwrap();
        assert_eq!(storage.size(&name("packs/1")).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(server.destroy(LOCKABLE), 2, "both packs");
        server.pass(32 * DAY);
        assert_eq!(server.destroy(LOCKABLE), 0);
    }
}

#[test]
fn a_bucket_without_locks_is_refused_before_anything_is_stored() {
    let server = Server::start();
    let storage = storage(&server, "bucket/a");
    let error = storage.check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("Make one with object lock"), "{error}");
    storage.keep(Lock::new(30, LockMode::Governance).unwrap(), is_kept);
    let error = storage.put(&name("packs/1"), &[b"one"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("this bucket has no object lock"), "{error}");
    assert_eq!(server.keys("bucket"), Vec::<String>::new());
}

#[test]
fn only_locks_with_less_than_half_of_their_time_are_renewed_and_only_once() {
    let server = Server::start();
    let storage = keeping(&server, LockMode::Governance);
    for old in ["packs/1", "packs/2", "packs/3", "passing/1"] {
        storage.put(&name(old), &[b"old"]).unwrap();
    }
    server.pass(16 * DAY);
    storage.put(&name("packs/new"), &[b"new"]).unwrap();
    let wanted = |name: &Name| is_kept(name) && name.as_str() != "packs/3";
    let _ = server.faults().asked();
    let mut due = storage.due(false, &wanted).unwrap();
    due.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(names(&due), ["packs/1", "packs/2"]);
    let asked = server.faults().asked();
    assert_eq!(
        asked,
        [Operation::List, Operation::Head, Operation::Head],
        "none about what is new"
    );

    let renewed = AtomicU64::new(0);
    let each = || renewed.fetch_add(1, Ordering::Relaxed) < u64::MAX;
    // One that is gone meanwhile costs nothing.
    due.push(DueLock {
        name: name("packs/gone"),
        ..due[0].clone()
    });
    storage.renew(&due, &each).unwrap();
    assert_eq!(renewed.into_inner(), 3);
    assert_eq!(days_left(&server, "a/packs/1"), Some(30));
    assert_eq!(days_left(&server, "a/packs/3"), Some(14), "not wanted");
    assert_eq!(storage.due(false, &wanted).unwrap(), [], "no second time");
    server.set(LOCKABLE, "a/packs/unlocked", Some(b"by someone else".to_vec()));
    assert_eq!(storage.due(false, &wanted).unwrap(), [], "it is young");
    assert_eq!(names(&storage.due(true, &wanted).unwrap()), ["packs/unlocked"]);
    assert_eq!(storage.requests().put, 5 + 3);

    let until = storage.until(&[name("packs/1"), name("packs/3"), name("passing/1"), name("packs/gone")]);
    let days = (until.unwrap().unwrap() - now()) / DAY.as_secs() as i64;
    assert_eq!(days, 30);
    assert_eq!(storage.until(&[name("passing/1")]).unwrap(), None);
}

#[test]
fn a_stronger_lock_replaces_a_weaker_one() {
    let server = Server::start();
    keeping(&server, LockMode::Governance)
        .put(&name("packs/1"), &[b"one"])
        .unwrap();
    let storage = keeping(&server, LockMode::Governance);
    storage.keep(Lock::new(90, LockMode::Compliance).unwrap(), is_kept);
    assert_eq!(storage.kept(), Lock::new(90, LockMode::Compliance));
    storage.keep(Lock::new(1, LockMode::Governance).unwrap(), is_kept);
    assert_eq!(storage.kept(), Lock::new(90, LockMode::Compliance));
    server.pass(46 * DAY);
    let due = storage.due(false, &is_kept).unwrap();
    assert_eq!(names(&due), ["packs/1"]);
    storage.renew(&due, &|| true).unwrap();
    let (mode, _) = server.locked_until(LOCKABLE, "a/packs/1").unwrap();
    assert_eq!(
        (mode.as_str(), days_left(&server, "a/packs/1")),
        ("COMPLIANCE", Some(90))
    );

    // What has more than it needs keeps it: the time when the mode is too weak, and the mode when it ends too soon.
    keeping(&server, LockMode::Governance)
        .put(&name("packs/2"), &[b"two"])
        .unwrap();
    let short = self::storage(&server, &format!("{LOCKABLE}/a"));
    short.keep(Lock::new(1, LockMode::Compliance).unwrap(), is_kept);
    let due = short.due(true, &is_kept).unwrap();
    assert_eq!(names(&due), ["packs/2"]);
    short.renew(&due, &|| true).unwrap();
    assert_eq!(days_left(&server, "a/packs/2"), Some(30));
    server.pass(16 * DAY);
    let usual = keeping(&server, LockMode::Governance);
    usual.renew(&usual.due(false, &is_kept).unwrap(), &|| true).unwrap();
    let (mode, _) = server.locked_until(LOCKABLE, "a/packs/2").unwrap();
    assert_eq!(
        (mode.as_str(), days_left(&server, "a/packs/2")),
        ("COMPLIANCE", Some(30))
    );
}

#[test]
fn a_storage_is_read_as_it_was() {
    let server = Server::start();
    for bucket in [VERSIONED, LOCKABLE] {
        let storage = Arc::new(storage(&server, &format!("{bucket}/a")));
        // More than a page.
        for number in 0..5 {
            storage.put(&name(&format!("packs/{number}")), &[b"first"]).unwrap();
        }
        storage.put(&name("packs/early"), &[b"early"]).unwrap();
        storage.delete(&name("packs/early")).unwrap();
        server.set(bucket, "other/packs/1", Some(b"of another".to_vec()));
        server.pass(DAY);
        let before = now() - 12 * 60 * 60;
        storage.put(&name("packs/late"), &[b"late"]).unwrap();
        server.set(bucket, "a/packs/0", Some(b"of a thief".to_vec()));
        for number in 1..5 {
            storage.delete(&name(&format!("packs/{number}"))).unwrap();
        }

        let past = storage.as_of(before).unwrap();
        let mut listed = Vec::new();
        past.list("packs", &mut |name, size| listed.push((name.to_string(), size)))
            .unwrap();
        listed.sort_unstable();
        let first: Vec<_> = (0..5).map(|number| (format!("packs/{number}"), 5)).collect();
        assert_eq!(listed, first);
        assert_eq!(past.get(&name("packs/0"), 10).unwrap(), b"first");
        let mut part = [0; 2];
        past.read_at(&name("packs/1"), 3, &mut part).unwrap();
        assert_eq!(&part, b"st");
        assert_eq!(past.size(&name("packs/2")).unwrap(), 5);
        let beyond = past.read_at(&name("packs/1"), 4, &mut part).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::Truncated);
        for gone in ["packs/late", "packs/early"] {
            assert_eq!(past.get(&name(gone), 10).unwrap_err().kind(), ErrorKind::NotFound);
        }
        assert_eq!(
            past.put(&name("packs/9"), &[b"x"]).unwrap_err().kind(),
            ErrorKind::ReadOnly
        );
        assert_eq!(past.delete(&name("packs/0")).unwrap_err().kind(), ErrorKind::ReadOnly);

        // Now it is as it is, and before everything there was nothing.
        let present = storage.as_of(now()).unwrap();
        assert_eq!(present.get(&name("packs/0"), 10).unwrap(), b"of a thief");
        assert_eq!(
            present.get(&name("packs/1"), 10).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        let mut listed = 0;
        let nothing = storage.as_of(now() - 3 * DAY.as_secs() as i64).unwrap();
        nothing.list("", &mut |_, _| listed += 1).unwrap();
        assert_eq!(listed, 0);
    }
}

#[test]
fn versions_are_listed_over_many_pages() {
    let traits = ibid_s3_server::Traits {
        page: 3,
        ..ibid_s3_server::Traits::default()
    };
    let server = Server::start_with(traits, 0);
    let storage = Arc::new(storage(&server, &format!("{VERSIONED}/a & b")));
    for round in 0..4 {
        for number in 0..5 {
            let stored = storage.put(&name(&format!("packs/{number}")), &[&[round; 7]]);
            stored.unwrap();
            storage.delete(&name(&format!("packs/{number}"))).unwrap();
        }
        server.pass(DAY);
    }
    for number in 0..5 {
        storage.put(&name(&format!("packs/{number}")), &[b"last"]).unwrap();
    }
    let past = storage.as_of(now()).unwrap();
    let mut listed = 0;
    past.list("", &mut |_, size| listed += size).unwrap();
    assert_eq!(listed, 5 * 4);
    assert_eq!(past.get(&name("packs/4"), 10).unwrap(), b"last");
}

#[test]
fn a_bucket_without_versions_is_not_read_as_it_was() {
    let server = Server::start();
    let storage = Arc::new(storage(&server, "bucket/a"));
    storage.put(&name("packs/1"), &[b"one"]).unwrap();
    let error = storage.as_of(now()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("keeps no versions"), "{error}");
}
