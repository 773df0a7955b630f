//! Records that were read stay in memory for a while. Readers still see the state of the store, and
//! a verification reads the disk.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ibid_record::engine::{
    Commit, Direction, EachPair, Engine, EngineError, KeyRange, Read, Redb, Snapshot, Table, Work,
};
use ibid_record::replicate::{Receiver, Sender};
use ibid_record::{Durability, Options, Store, Versions};

/// Reads the latest version twice, so that the second read comes from memory.
macro_rules! read_twice {
    ($from:expr, $key:expr) => {{
        let read = || $from.get($key).unwrap().map(|body| String::from_utf8(body).unwrap());
        let first = read();
        assert_eq!(read(), first);
        first
    }};
}

fn compact(store: &Store) {
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
}

fn options(oplog: bool) -> Options {
    Options::default().with_durability(Durability::None).with_oplog(oplog)
}

fn take_all(from: &Store, to: &Store) {
    let (mut sender, mut receiver) = (Sender::new(from).unwrap(), Receiver::new(to).unwrap());
    let mut answers = 0;
    while !receiver
        .take(&sender.answer(&receiver.ask().unwrap()).unwrap())
        .unwrap()
        .is_current()
    {
        answers += 1;
        assert!(answers < 1000, "it gets nowhere");
    }
}

#[test]
fn each_reader_sees_the_version_of_its_moment() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options(false)).unwrap();
    for (name, versions) in [("kept", Versions::Kept), ("latest", Versions::Latest)] {
        let pages = store.namespace(name, versions).unwrap();
        pages.put(b"ibid", b"in the same place").unwrap();
        compact(&store);
        assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("in the same place"));
        let before = store.snapshot().unwrap();
        pages.put(b"ibid", b"in the very same place").unwrap();
        compact(&store);
        assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("in the very same place"));
        assert_eq!(
            before.get(&pages, b"ibid").unwrap().as_deref(),
            Some(&b"in the same place"[..])
        );
        pages.delete(b"ibid").unwrap();
        assert_eq!(read_twice!(pages, b"ibid"), None);
        pages.put(b"ibid", b"again").unwrap();
        compact(&store);
        assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("again"));
    }
}

#[test]
fn a_store_that_takes_the_contents_of_another_drops_its_cache() {
    let folder = tempfile::tempdir().unwrap();
    let one = Store::open(folder.path().join("one"), options(true)).unwrap();
    let pages = one.namespace("pages", Versions::Kept).unwrap();
    pages.put(b"ibid", b"in the same place").unwrap();
    let two = Store::open(folder.path().join("two"), options(false)).unwrap();
    two.follow().unwrap();
    take_all(&one, &two);
    two.promote().unwrap();

    // Both stores write a record of the same number, as the same version of the same key.
    pages.put(b"ibid", b"what nobody else has").unwrap();
    compact(&one);
    assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("what nobody else has"));
    let held = one.snapshot().unwrap();
    let promoted = two.namespace("pages", Versions::Kept).unwrap();
    promoted.put(b"ibid", b"what was promoted").unwrap();
    let numbers = [&pages, &promoted].map(|pages| {
        let versions = pages.versions(b"ibid").unwrap().into_iter();
        versions
            .map(|version| (version.version, version.number))
            .collect::<Vec<_>>()
    });
    assert_eq!(numbers[0], numbers[1]);

    one.follow().unwrap();
    take_all(&two, &one);
    // A snapshot from before still shows the old contents, and leaves none of them in the cache.
    assert_eq!(
        held.get(&pages, b"ibid").unwrap().as_deref(),
        Some(&b"what nobody else has"[..])
    );
    compact(&one);
    assert_eq!(read_twice!(pages, b"ibid").as_deref(), Some("what was promoted"));
}

/// An engine whose blocks are damaged from some moment on, as by a disk.
struct Harmed {
    engine: Redb,
    harmed: Arc<AtomicBool>,
}

struct HarmedSnapshot {
    snapshot: Box<dyn Snapshot>,
    harmed: Arc<AtomicBool>,
}

impl Engine for Harmed {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(HarmedSnapshot {
            snapshot: self.engine.snapshot()?,
            harmed: self.harmed.clone(),
        }))
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        self.engine.write(commit, work)
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.engine.sync()
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.engine.compact()
    }
}

impl Snapshot for HarmedSnapshot {}

impl Read for HarmedSnapshot {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        let harmed = table == Table::Blocks && self.harmed.load(Ordering::SeqCst);
        self.snapshot.get(table, key, &mut |value| {
            let mut value = value.to_vec();
            let middle = value.len() / 2;
            value[middle] ^= u8::from(harmed);
            found(&value);
        })
    }

    fn range(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        self.snapshot.range(table, range, direction, each)
    }
}

#[test]
fn a_verification_reads_the_disk_and_not_the_cache_of_readers() {
    let folder = tempfile::tempdir().unwrap();
    let harmed = Arc::new(AtomicBool::new(false));
    let engine = Harmed {
        engine: Redb::open(&folder.path().join("redb"), 1 << 20).unwrap(),
        harmed: harmed.clone(),
    };
    let store = Store::with_engine(folder.path(), Box::new(engine), options(false)).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for version in 0..20_u32 {
        pages
            .put(
                b"ibid",
                format!("{version} {}", "in the same place ".repeat(100)).as_bytes(),
            )
            .unwrap();
    }
    compact(&store);
    let read = || {
        (1..=20)
            .map(|version| pages.get_version(b"ibid", version).unwrap())
            .collect::<Vec<_>>()
    };
    let (before, latest) = (read(), read_twice!(pages, b"ibid"));
    let verify = || store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(verify().is_clean());
    harmed.store(true, Ordering::SeqCst);
    assert_eq!((read(), read_twice!(pages, b"ibid")), (before, latest));
    assert!(!verify().is_clean());
}

#[test]
fn a_store_that_has_just_become_a_replica_can_be_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let one = Store::open(folder.path().join("one"), options(true)).unwrap();
    let pages = one.namespace("pages", Versions::Kept).unwrap();
    let two = Store::open(folder.path().join("two"), options(false)).unwrap();
    two.follow().unwrap();
    for version in 0..20_u32 {
        pages
            .put(
                b"ibid",
                format!("{version} {}", "in the same place ".repeat(100)).as_bytes(),
            )
            .unwrap();
        one.finish_encoding().unwrap();
        take_all(&one, &two);
        compact(&two);
    }
    let copy = two.find_namespace("pages").unwrap().unwrap();
    for version in 1..=20 {
        let of = |pages: &ibid_record::Namespace| pages.get_version(b"ibid", version).unwrap();
        assert_eq!(of(&copy), of(&pages));
    }
    assert!(two.verify(&mut |_| ControlFlow::Continue(())).unwrap().is_clean());
}

/// A process that reads caches frames by the numbers of their blocks, also while others come and write.
#[test]
fn a_reader_never_takes_a_block_for_one_that_was_removed() {
    let folder = tempfile::tempdir().unwrap();
    let body = |number: u32| format!("{number} in the same place").repeat(20);
    let filled = |first: u32| {
        let store = Store::open(folder.path(), Options::default()).unwrap();
        let pages = store.namespace("pages", Versions::Kept).unwrap();
        for number in first..first + 8 {
            pages.put(&number.to_be_bytes(), body(number).as_bytes()).unwrap();
        }
        compact(&store);
        (store, pages)
    };
    drop(filled(0));
    let reader = Store::open(folder.path(), Options::default().with_read_only(true)).unwrap();
    let pages = reader.find_namespace("pages").unwrap().unwrap();
    let is_read = |first: u32| {
        (first..first + 8).all(|number| pages.get(&number.to_be_bytes()).unwrap() == Some(body(number).into_bytes()))
    };
    assert!(is_read(0));

    let store = Store::open(folder.path(), Options::default()).unwrap();
    let written = store.find_namespace("pages").unwrap().unwrap();
    for number in 0..8_u32 {
        written.purge(&number.to_be_bytes()).unwrap();
    }
    compact(&store);
    drop((written, store));
    drop(filled(8));
    assert!(reader.refresh().unwrap());
    assert!(is_read(8));
}

/// While a compaction moves records, a frame has records that were stored anew without what was purged, as deltas of
/// what is gone.
#[test]
fn what_a_frame_keeps_beside_its_records_gives_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options(false)).unwrap();
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    const VERSIONS: u32 = 60;
    let body = |version: u32| -> Vec<u8> {
        // Each version has 5 KB that no other has, so a frame has a few of them.
        let noise = |seed: u32| {
            let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
            std::iter::repeat_with(move || {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state as u8
            })
        };
        noise(0).take(20_000).chain(noise(version).take(5_000)).collect()
    };
    for version in 1..=VERSIONS {
        pages.put(b"ibid", &body(version)).unwrap();
    }
    compact(&store);
    let purged = |version: u32| version.is_multiple_of(3) && version < VERSIONS;
    for version in (1..=VERSIONS).filter(|&version| purged(version)) {
        pages.purge_versions(b"ibid", version..=version).unwrap();
    }
    let mut looked = 0;
    let mut look = |_| {
        for version in (1..=VERSIONS).filter(|&version| !purged(version)) {
            let read = pages.get_version(b"ibid", version).unwrap();
            assert!(read == Some(body(version)), "version {version}");
        }
        looked += 1;
        ControlFlow::Continue(())
    };
    store.compact(&mut look).unwrap();
    assert!(looked > 0);
}
