//! After a purge and a compaction, no file of the store has any bytes of what was purged: neither of versions that were
//! purged alone, although others were stored as deltas of them, nor of whole keys, nor of what retention let go. All
//! that was not purged can still be read.
//!
//! Each version has bytes of its own that cannot be compressed. They are found in the files before the purge.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use ibid_record::replicate::{Receiver, Sender};
use ibid_record::{
    Batch, Compaction, Durability, Encoding, Error, Namespace, Options, Retention, Retrieval, Store, Time, Unique,
    Versions,
};
use memchr::memmem;

use crate::common::{assert_counted, folder, random, with_engine};

/// Length of the bytes that a version has of its own.
const OWN: usize = 200;
/// Bytes that are looked for.
const WINDOW: usize = 24;

/// Returns what only this version of this key has.
fn own(key: &str, version: u32) -> Vec<u8> {
    let seed = key
        .bytes()
        .fold(u64::from(version), |seed, byte| seed * 257 + u64::from(byte));
    random(seed, OWN)
}

/// Returns the body of a version: what all have, with something of its own at a place of its own.
fn body(key: &str, version: u32) -> Vec<u8> {
    let mut body = random(7, 6000);
    let place = 200 + (version as usize * 611) % 5000;
    body.splice(place..place, own(key, version));
    body
}

fn options() -> Options {
    let encoding = Encoding::default()
        .with_retrieval(Retrieval::Hop { distance: 4 })
        .with_idle_after(Duration::ZERO);
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::None)
        .with_encoding(encoding)
        .with_retention_interval(None)
}

fn compact(store: &Store) -> Compaction {
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap()
}

/// Stores versions from one to another.
fn put(namespace: &Namespace, key: &str, versions: std::ops::RangeInclusive<u32>) {
    for version in versions {
        namespace.put(key.as_bytes(), &body(key, version)).unwrap();
    }
}

/// Returns the contents of all files in a folder, and in those within.
fn files_in(path: &Path) -> Vec<Vec<u8>> {
    let paths = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let contents = paths.flat_map(|path| match path.is_dir() {
        true => files_in(&path),
        false => vec![fs::read(path).unwrap()],
    });
    contents.collect()
}

/// Returns how many pieces of the bytes that a version has of its own are in the files of a store.
fn pieces_in(path: &Path, key: &str, version: u32) -> usize {
    let own = own(key, version);
    let files = files_in(path);
    let is_there = |piece: &&[u8]| files.iter().any(|file| memmem::find(file, piece).is_some());
    own.chunks_exact(WINDOW).filter(is_there).count()
}

#[track_caller]
fn assert_gone(path: &Path, key: &str, version: u32) {
    assert_eq!(pieces_in(path, key, version), 0, "version {version} of {key}");
}

#[track_caller]
fn assert_there(path: &Path, key: &str, version: u32) {
    assert!(pieces_in(path, key, version) > 0, "version {version} of {key}");
}

fn assert_sound(store: Store, path: &Path) {
    let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.is_clean(), "{found:?}");
    drop(store);
    with_engine(path, |engine| assert_counted(engine));
}

/// Purges versions of a key with 40, after it was compacted so many times, and looks at the files.
fn purge_of_40(options: Options, compactions: usize, purged: &[std::ops::RangeInclusive<u32>]) {
    let folder = folder();
    let path = folder.path();
    let store = Store::open(path, options).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for part in 0..4 {
        put(&pages, "a", part * 10 + 1..=part * 10 + 10);
        put(&pages, "b", part * 2 + 1..=part * 2 + 2);
        store.finish_encoding().unwrap();
        if part + compactions as u32 >= 4 {
            compact(&store);
        }
    }
    store.sync().unwrap();
    let is_purged = |version| purged.iter().any(|range| range.contains(&version));
    (1..=40).for_each(|version| assert_there(path, "a", version));
    for range in purged {
        pages.purge_versions(b"a", range.clone()).unwrap();
    }
    let done = compact(&store);
    assert!(done.wiped && done.purged_for_log == 0, "{done:?}");
    for version in 1..=40 {
        let found = pages.get_version(b"a", version);
        if is_purged(version) {
            assert!(matches!(found, Err(Error::Purged { .. })));
            assert_gone(path, "a", version);
        } else {
            assert_eq!(found.unwrap().unwrap(), body("a", version), "version {version}");
            assert_there(path, "a", version);
        }
    }
    for version in 1..=8 {
        assert_eq!(pages.get_version(b"b", version).unwrap().unwrap(), body("b", version));
    }
    let counted = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    let all: u64 = purged
        .iter()
        .map(|range| u64::from(range.end() - range.start()) + 1)
        .sum();
    assert_eq!(
        (counted.namespaces[0].purged, counted.namespaces[0].obsolete.count),
        (all, 0)
    );
    if counted.pieces.is_none() {
        // What needed them was stored against others: only the latest of each key is whole.
        assert_eq!(counted.namespaces[0].whole.count, 2);
    }
    assert!(!compact(&store).wiped, "nothing is left to wipe");
    drop(pages);
    assert_sound(store, path);
}

#[test]
fn of_versions_that_were_never_in_a_block() {
    purge_of_40(options(), 0, &[3..=3, 20..=25, 39..=39]);
}

#[test]
fn of_versions_in_pieces() {
    for compactions in [0, 2] {
        purge_of_40(
            options().with_whole_bytes_max(3000),
            compactions,
            &[3..=3, 20..=25, 39..=39],
        );
    }
}

#[test]
fn of_versions_in_blocks() {
    purge_of_40(options(), 1, &[7..=7]);
    purge_of_40(options(), 3, &[8..=8, 16..=16, 24..=24, 32..=32]);
}

#[test]
fn of_all_but_the_latest_version() {
    purge_of_40(options(), 2, &[1..=39]);
}

#[test]
fn of_a_key_that_records_of_others_needed() {
    let folder = folder();
    let path = folder.path();
    let store = Store::open(path, options()).unwrap();
    let log = store.namespace("log", Versions::Latest).unwrap();
    let keys: Vec<String> = (0..12).map(|number| format!("key {number}")).collect();
    for key in &keys {
        put(&log, key, 1..=1);
    }
    store.finish_encoding().unwrap();
    compact(&store);
    let deltas = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap().namespaces[0]
        .deltas
        .count;
    assert!(deltas > 8, "they resemble each other: {deltas}");
    for key in [&keys[11], &keys[6], &keys[7], &keys[0]] {
        log.purge(key.as_bytes()).unwrap();
    }
    assert!(compact(&store).wiped);
    for (place, key) in keys.iter().enumerate() {
        if [0, 6, 7, 11].contains(&place) {
            assert_gone(path, key, 1);
        } else {
            assert_eq!(log.get(key.as_bytes()).unwrap().unwrap(), body(key, 1));
            assert_there(path, key, 1);
        }
    }
    drop(log);
    assert_sound(store, path);
}

#[test]
fn of_what_retention_lets_go() {
    let folder = folder();
    let path = folder.path();
    let store = Store::open(path, options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    put(&pages, "a", 1..=30);
    compact(&store);
    pages.set_retention(Retention::default().with_versions(3)).unwrap();
    store.expire(Time::now(), &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(compact(&store).wiped);
    (1..=27).for_each(|version| assert_gone(path, "a", version));
    for version in 28..=30 {
        assert_eq!(pages.get_version(b"a", version).unwrap().unwrap(), body("a", version));
        assert_there(path, "a", version);
    }
    drop(pages);
    assert_sound(store, path);
}

#[test]
fn of_index_values_of_purged_versions_and_keys() {
    let folder = folder();
    let path = folder.path();
    let store = Store::open(path, options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let by_value = pages.index("value", Unique::No).unwrap();
    for (key, version) in [("a", 1), ("a", 2), ("b", 1)] {
        let mut batch = Batch::new();
        let put = batch.put(&pages, key.as_bytes(), b"body");
        put.index(&by_value, &own(key, version));
        store.commit(batch).unwrap();
    }
    store.sync().unwrap();
    for (key, version) in [("a", 1), ("a", 2), ("b", 1)] {
        assert_there(path, key, version);
    }
    pages.purge_versions(b"a", 1..=1).unwrap();
    pages.purge(b"b").unwrap();
    assert!(compact(&store).wiped);
    assert_gone(path, "a", 1);
    assert_gone(path, "b", 1);
    assert_there(path, "a", 2);
    assert_eq!(by_value.get(&own("a", 2)).unwrap().as_deref(), Some(&b"a"[..]));
    drop((pages, by_value));
    assert_sound(store, path);
}

#[test]
fn of_a_store_with_a_log_once_that_is_truncated_and_of_its_replica() {
    with_a_replica(true);
    // It lacks the entries that were removed, and takes all contents.
    with_a_replica(false);
}

fn with_a_replica(follows_the_purge: bool) {
    let (folder, other) = (folder(), folder());
    let path = folder.path();
    let store = Store::open(path, options().with_oplog(true)).unwrap();
    let replica = Store::open(other.path(), options()).unwrap();
    replica.follow().unwrap();
    let (mut sender, mut receiver) = (Sender::new(&store).unwrap(), Receiver::new(&replica).unwrap());
    let mut follow = |sender: &mut Sender| {
        while !receiver
            .take(&sender.answer(&receiver.ask().unwrap()).unwrap())
            .unwrap()
            .is_current()
        {}
    };
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    put(&pages, "a", 1..=20);
    compact(&store);
    follow(&mut sender);
    compact(&replica);
    pages.purge_versions(b"a", 5..=9).unwrap();
    let done = compact(&store);
    assert_eq!(done.purged_for_log, 5, "a replica may still ask for them");
    (5..=9).for_each(|version| assert_there(path, "a", version));
    if follows_the_purge {
        follow(&mut sender);
    }
    store.truncate_log(store.log().unwrap().unwrap().next).unwrap();
    assert!(compact(&store).wiped);
    follow(&mut sender);
    // The sender and the receiver may hold snapshots.
    drop((sender, receiver));
    let done = compact(&replica);
    assert!(done.wiped, "{done:?}");
    let copies = replica.find_namespace("pages").unwrap().unwrap();
    for version in 1..=20 {
        if (5..=9).contains(&version) {
            assert_gone(path, "a", version);
            assert_gone(other.path(), "a", version);
            assert!(matches!(copies.get_version(b"a", version), Err(Error::Purged { .. })));
        } else {
            assert_eq!(pages.get_version(b"a", version).unwrap().unwrap(), body("a", version));
            assert_eq!(copies.get_version(b"a", version).unwrap().unwrap(), body("a", version));
        }
    }
    drop((pages, copies));
    assert_sound(replica, other.path());
    assert_sound(store, path);
}

#[test]
fn not_while_a_snapshot_needs_them() {
    let folder = folder();
    let path = folder.path();
    let store = Store::open(path, options()).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    put(&pages, "a", 1..=5);
    let before = store.snapshot().unwrap();
    pages.purge_versions(b"a", 2..=2).unwrap();
    assert!(!compact(&store).wiped);
    assert_eq!(before.get_version(&pages, b"a", 2).unwrap().unwrap(), body("a", 2));
    drop(before);
    assert!(compact(&store).wiped, "the next one does it");
    assert_gone(path, "a", 2);
}
