//! What a store does by itself neither keeps old states for long, nor goes on for long when it is to end.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use ibid_record::engine::{
    Commit, Direction, EachKey, EachPair, Engine, EngineError, KeyRange, Read, Redb, Snapshot, Table, Work,
};
use ibid_record::{Batch, Compacting, Durability, Encoding, Options, Retention, Store, Time, Versions};

use crate::common::{entries, folder, noise, with_engine};

/// What an engine has done.
#[derive(Default)]
struct Counts {
    /// Snapshots that are open.
    snapshots: AtomicU64,
    commits: AtomicU64,
    /// Commits while a snapshot was open.
    held_up: AtomicU64,
    /// Heads of blocks that were read.
    heads: AtomicU64,
    /// How long it takes to read one, milliseconds.
    head_ms: AtomicU64,
    /// Whether blocks are counted.
    counts_removed: AtomicBool,
    /// Most blocks that one commit has removed since.
    removed_at_once: AtomicU64,
    /// The threads that have taken snapshots, and the nice value of each.
    threads: Mutex<BTreeMap<String, i64>>,
    /// How long 256 entries of chains take, milliseconds.
    chains_ms: AtomicU64,
    /// A thread whose snapshots and reads take a millisecond each, as if others left it little of the processors.
    starved: Mutex<&'static str>,
    /// How many these were.
    starved_reads: AtomicU64,
    /// Whether the engine's file is being shortened, and snapshots of keepers that are open.
    is_shrinking: AtomicBool,
    of_keepers: AtomicU64,
    /// Snapshots of keepers while the file was being shortened, and how often it was.
    in_the_way: AtomicU64,
    shrunk: AtomicU64,
}

/// Whether this is a thread that compresses in the background.
fn is_keeper() -> bool {
    matches!(std::thread::current().name(), Some("ibid-compact" | "ibid-catch-up"))
}

impl Counts {
    fn note_thread(&self) {
        let thread = std::thread::current();
        // The nineteenth field of Linux's line about this thread; the second, its name, is in parentheses.
        let line = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        let nice = line.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(16));
        let nice = nice.map_or(0, |nice| nice.parse().unwrap());
        let name = thread.name().unwrap_or_default().to_owned();
        self.threads.lock().unwrap().insert(name, nice);
    }

    fn starve(&self) {
        if std::thread::current().name() == Some(*self.starved.lock().unwrap()) {
            std::thread::sleep(Duration::from_millis(1));
            self.starved_reads.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn blocks_of(engine: &Redb) -> u64 {
    entries(engine, Table::Blocks).len() as u64
}

struct Counting {
    engine: Redb,
    counts: Arc<Counts>,
    /// Is told when the first head of a block is read.
    looks: Option<mpsc::Sender<()>>,
}

struct CountingSnapshot {
    snapshot: Box<dyn Snapshot>,
    counts: Arc<Counts>,
    looks: Option<mpsc::Sender<()>>,
    is_of_keeper: bool,
}

impl Drop for CountingSnapshot {
    fn drop(&mut self) {
        self.counts.snapshots.fetch_sub(1, Ordering::SeqCst);
        self.counts
            .of_keepers
            .fetch_sub(self.is_of_keeper.into(), Ordering::SeqCst);
    }
}

impl Engine for Counting {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        self.counts.note_thread();
        self.counts.starve();
        let snapshot = self.engine.snapshot()?;
        self.counts.snapshots.fetch_add(1, Ordering::SeqCst);
        let is_of_keeper = is_keeper();
        self.counts.of_keepers.fetch_add(is_of_keeper.into(), Ordering::SeqCst);
        if is_of_keeper && self.counts.is_shrinking.load(Ordering::SeqCst) {
            self.counts.in_the_way.fetch_add(1, Ordering::SeqCst);
        }
        Ok(Box::new(CountingSnapshot {
            snapshot,
            counts: self.counts.clone(),
            looks: self.looks.clone(),
            is_of_keeper,
        }))
    }

    fn write(&self, commit: Commit, work: Work<'_>) -> Result<(), EngineError> {
        self.counts.commits.fetch_add(1, Ordering::SeqCst);
        if self.counts.snapshots.load(Ordering::SeqCst) > 0 {
            self.counts.held_up.fetch_add(1, Ordering::SeqCst);
        }
        if !self.counts.counts_removed.load(Ordering::SeqCst) {
            return self.engine.write(commit, work);
        }
        let before = blocks_of(&self.engine);
        self.engine.write(commit, work)?;
        let removed = before.saturating_sub(blocks_of(&self.engine));
        self.counts.removed_at_once.fetch_max(removed, Ordering::SeqCst);
        Ok(())
    }

    fn sync(&self) -> Result<(), EngineError> {
        self.engine.sync()
    }

    /// Takes long, so that keepers have time to come between.
    fn shrink(&self) -> Result<(), EngineError> {
        let counts = &self.counts;
        counts.is_shrinking.store(true, Ordering::SeqCst);
        let open = counts.of_keepers.load(Ordering::SeqCst);
        counts.in_the_way.fetch_add(open, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(200));
        counts.is_shrinking.store(false, Ordering::SeqCst);
        counts.shrunk.fetch_add(1, Ordering::SeqCst);
        self.engine.shrink()
    }

    fn compact(&self) -> Result<(), EngineError> {
        self.engine.compact()
    }
}

impl Snapshot for CountingSnapshot {}

impl Read for CountingSnapshot {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        self.counts.starve();
        self.snapshot.get(table, key, found)
    }

    fn get_part(
        &self,
        table: Table,
        key: &[u8],
        at: u64,
        length: usize,
        found: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, EngineError> {
        if table == Table::Blocks && at == 0 {
            if self.counts.heads.fetch_add(1, Ordering::SeqCst) == 0
                && let Some(looks) = &self.looks
            {
                looks.send(()).unwrap();
            }
            std::thread::sleep(Duration::from_millis(self.counts.head_ms.load(Ordering::SeqCst)));
        }
        self.snapshot.get_part(table, key, at, length, found)
    }

    fn reads_parts(&self) -> bool {
        self.snapshot.reads_parts()
    }

    fn keys(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachKey<'_>,
    ) -> Result<(), EngineError> {
        self.snapshot.keys(table, range, direction, each)
    }

    fn range(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
        each: EachPair<'_>,
    ) -> Result<(), EngineError> {
        let mut shown = 0;
        self.snapshot.range(table, range, direction, &mut |key, value| {
            shown += 1;
            if table == Table::Chains && shown % 256 == 0 {
                std::thread::sleep(Duration::from_millis(self.counts.chains_ms.load(Ordering::SeqCst)));
            }
            each(key, value)
        })
    }
}

/// Nothing works in the background.
fn options() -> Options {
    Options::default()
        .with_durability(Durability::None)
        .with_encoding(Encoding::default().with_enabled(false))
        .with_compacting(Compacting::default().with_enabled(false))
        .with_retention_interval(None)
}

/// Opens a store in a folder. Returns what its engine has done since.
fn open(folder: &std::path::Path, options: Options, looks: Option<mpsc::Sender<()>>) -> (Store, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let engine = Counting {
        engine: Redb::open(&folder.join("redb"), 4 << 20).unwrap(),
        counts: counts.clone(),
        looks,
    };
    (Store::with_engine(folder, Box::new(engine), options).unwrap(), counts)
}

const KEYS: u32 = 3000;

/// Stores `KEYS` records of 4 KB that hardly compress.
fn fill(store: &Store, round: u32) {
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for keys in (0..KEYS).collect::<Vec<_>>().chunks(100) {
        let mut batch = Batch::new();
        for &key in keys {
            batch.put(&pages, &key.to_be_bytes(), noise(4 << 10, round * KEYS + key));
        }
        store.commit(batch).unwrap();
    }
}

/// Does `work`, which changes a store, and sees that no snapshot is open at any of its commits. As long as one is, redb
/// gives no page back that a commit replaces: its file grew to twenty times its size while the keeper compressed what
/// random updates of two million keys had left.
fn commits_without_a_snapshot(counts: &Counts, work: impl FnOnce()) {
    let commits = counts.commits.load(Ordering::SeqCst);
    counts.held_up.store(0, Ordering::SeqCst);
    work();
    let commits = counts.commits.load(Ordering::SeqCst) - commits;
    assert!(commits > 10, "{commits} commits");
    assert_eq!(
        counts.held_up.load(Ordering::SeqCst),
        0,
        "of {commits} commits while a snapshot was open"
    );
}

#[test]
fn no_snapshot_is_open_while_records_are_moved_into_blocks() {
    let folder = folder();
    let (store, counts) = open(folder.path(), options(), None);
    fill(&store, 0);
    commits_without_a_snapshot(&counts, || store.settle(&mut |_| ControlFlow::Continue(())).unwrap());
    fill(&store, 1);
    // This also compresses the blocks anew that are there.
    commits_without_a_snapshot(&counts, || {
        store.compact(&mut |_| ControlFlow::Continue(())).map(drop).unwrap()
    });
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for version in [1, 2] {
        let found = pages.get_version(&7_u32.to_be_bytes(), version).unwrap();
        assert!(found == Some(noise(4 << 10, (version - 1) * KEYS + 7)), "{version}");
    }
}

/// redb can't give up the end of its file while there is a snapshot that may need it. Of a million keys that were
/// loaded with updates, the file took 328 MiB instead of 194 where the keeper had one just then.
#[test]
fn keepers_have_no_snapshot_while_the_file_is_shortened() {
    let folder = folder();
    let compacting = Compacting::default()
        .with_recent_bytes(128 << 10)
        .with_idle_after(Duration::from_millis(1));
    let (store, counts) = open(folder.path(), options().with_compacting(compacting), None);
    let log = store.namespace("log", Versions::Latest).unwrap();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // It gives keepers something to do all the time.
        scope.spawn(|| {
            for key in (0..KEYS).cycle().take_while(|_| !has_ended.load(Ordering::SeqCst)) {
                log.put(&key.to_be_bytes(), &noise(4 << 10, key)).unwrap();
            }
        });
        while !counts.threads.lock().unwrap().contains_key("ibid-compact") {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            store.settle(&mut |_| ControlFlow::Continue(())).unwrap();
        }
        has_ended.store(true, Ordering::SeqCst);
    });
    assert_eq!(counts.shrunk.load(Ordering::SeqCst), 3);
    assert_eq!(counts.in_the_way.load(Ordering::SeqCst), 0, "snapshots of keepers");
}

#[test]
fn no_snapshot_is_open_while_what_is_not_kept_is_removed() {
    let folder = folder();
    let (store, counts) = open(folder.path(), options(), None);
    fill(&store, 0);
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let retention = Retention::default().with_lifetime(Duration::from_millis(1));
    pages.set_retention(retention).unwrap();
    let mut removed = 0;
    commits_without_a_snapshot(&counts, || {
        let mut each = |_| {
            removed += 1;
            ControlFlow::Continue(())
        };
        store.expire(Time::MAX, &mut each).unwrap();
    });
    assert_eq!(removed, KEYS);
    assert_eq!(pages.get(&7_u32.to_be_bytes()).unwrap(), None);
}

/// The heads of all blocks of a store of ten million records are 10 000 reads, a minute on a slow disk.
#[test]
fn a_store_that_is_closed_looks_at_no_more_blocks() {
    let folder = folder();
    {
        let (store, _) = open(folder.path(), options(), None);
        fill(&store, 0);
        store.settle(&mut |_| ControlFlow::Continue(())).unwrap();
    }
    let blocks = with_engine(folder.path(), blocks_of);
    assert!(blocks > 50, "{blocks}");
    let (looks, look) = mpsc::channel();
    let compacting = Compacting::default().with_idle_after(Duration::from_millis(1));
    let (store, counts) = open(folder.path(), options().with_compacting(compacting), Some(looks));
    counts.head_ms.store(20, Ordering::SeqCst);
    store
        .namespace("pages", Versions::Kept)
        .unwrap()
        .put(b"one", b"more")
        .unwrap();
    look.recv().unwrap();
    drop(store);
    let heads = counts.heads.load(Ordering::SeqCst);
    assert!(heads < blocks, "{heads} of {blocks}");
}

/// A store of which all blocks are worn needs minutes to compress them anew. New records do not wait for all of that.
#[test]
fn few_worn_blocks_are_redone_at_once() {
    let folder = folder();
    let compacting = options().compacting.with_recent_bytes(128 << 10);
    let (store, counts) = open(folder.path(), options().with_compacting(compacting), None);
    let log = store.namespace("log", Versions::Latest).unwrap();
    for key in 0..KEYS {
        log.put(&key.to_be_bytes(), &noise(4 << 10, key)).unwrap();
    }
    store.settle(&mut |_| ControlFlow::Continue(())).unwrap();
    let blocks = || {
        store
            .statistics(&mut |_| ControlFlow::Continue(()))
            .unwrap()
            .blocks
            .count
    };
    let before = blocks();
    assert!(before > 50, "{before}");
    for key in (0..KEYS).step_by(2) {
        log.put(&key.to_be_bytes(), &noise(4 << 10, KEYS + key)).unwrap();
    }
    counts.counts_removed.store(true, Ordering::SeqCst);
    store.settle(&mut |_| ControlFlow::Continue(())).unwrap();
    let removed = counts.removed_at_once.load(Ordering::SeqCst);
    assert!((1..=before / 4).contains(&removed), "{removed} of {before} at once");
    // But all of them were.
    let after = blocks();
    assert!(after < before + before / 5, "{before} and then {after}");
    for key in [0, 1, KEYS - 2, KEYS - 1] {
        let seed = if key % 2 == 0 { KEYS + key } else { key };
        assert!(
            log.get(&key.to_be_bytes()).unwrap() == Some(noise(4 << 10, seed)),
            "{key}"
        );
    }
}

/// The keeper's thread yields to all others on the machine. Where these left it nothing, 1600 records were stored a
/// second instead of 12 000.
#[cfg(target_os = "linux")]
#[test]
fn writers_wait_for_no_thread_that_yields_to_others() {
    const LAG_BYTES: u32 = 2 << 20;
    let folder = folder();
    let options = options()
        .with_compacting(Compacting::default().with_recent_bytes(128 << 10))
        .with_encoding(options().encoding.with_lag_bytes_max(LAG_BYTES.into()));
    let (store, counts) = open(folder.path(), options, None);
    *counts.starved.lock().unwrap() = "ibid-compact";
    let log = store.namespace("log", Versions::Latest).unwrap();
    let put = |keys: std::ops::Range<u32>| {
        for key in keys {
            log.put(&key.to_be_bytes(), &noise(4 << 10, key)).unwrap();
        }
    };
    let few = LAG_BYTES / 4 / (4 << 10);
    put(0..few);
    while !counts.threads.lock().unwrap().contains_key("ibid-compact") {
        std::thread::yield_now();
    }
    put(few..16 * few);
    counts.note_thread();
    let threads = counts.threads.lock().unwrap().clone();
    let own = std::thread::current();
    let nice = |name: &str| threads.get(name).copied();
    assert!(nice("ibid-compact") > nice(own.name().unwrap()), "{threads:?}");
    assert_eq!(nice("ibid-catch-up"), nice(own.name().unwrap()), "{threads:?}");
}

/// After `kill -9` there may be 256 MiB of bodies that are not encoded. A program that stores one record must not wait
/// for all of them.
#[test]
fn a_store_that_is_closed_encodes_no_more_records() {
    let folder = folder();
    fill(&open(folder.path(), options(), None).0, 0);
    let (store, counts) = open(folder.path(), options().with_encoding(Encoding::default()), None);
    *counts.starved.lock().unwrap() = "ibid-encode";
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    pages.put(b"one", b"more").unwrap();
    // It looks at the fourth record by then, or a later one.
    while counts.starved_reads.load(Ordering::SeqCst) < 20 {
        std::thread::yield_now();
    }
    drop((store, pages));
    let (store, _) = open(folder.path(), options(), None);
    let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.namespaces[0].unencoded > 0, "all records were encoded");
    drop(store);
    // The next opening goes on.
    let (store, _) = open(folder.path(), options().with_encoding(Encoding::default()), None);
    store.finish_encoding().unwrap();
    let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(found.namespaces[0].unencoded, 0);
}

/// Of a store of ten million keys, the encoder reads for seconds what all are like. A program that stores one record
/// and ends does not wait for that, however often it runs; but it does not leave more and more either.
#[test]
fn little_is_left_where_the_index_is_large() {
    const KEYS: u32 = 40_000;
    let encoding = || options().with_encoding(Encoding::default());
    let put_one_more = |store: &Store, key: u32| {
        let pages = store.namespace("pages", Versions::Kept).unwrap();
        pages.put(&key.to_be_bytes(), &noise(70, KEYS + key)).unwrap();
        store.finish_or_leave_encoding().unwrap();
    };
    let unencoded = |store: &Store| {
        let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
        found.namespaces[0].unencoded
    };
    let folder = folder();
    {
        let (store, _) = open(folder.path(), encoding(), None);
        let pages = store.namespace("pages", Versions::Kept).unwrap();
        for keys in (0..KEYS).collect::<Vec<_>>().chunks(1000) {
            let mut batch = Batch::new();
            for &key in keys {
                batch.put(&pages, &key.to_be_bytes(), noise(70, key));
            }
            store.commit(batch).unwrap();
        }
        store.finish_encoding().unwrap();
    }
    for run in 0..3 {
        let (store, counts) = open(folder.path(), encoding(), None);
        counts.chains_ms.store(10, Ordering::SeqCst);
        put_one_more(&store, run);
        assert_eq!(store.encoding().records, 0, "it has read all");
        drop(store);
    }
    let (store, _) = open(folder.path(), options(), None);
    assert_eq!(unencoded(&store), 3);
    for key in 3..64 {
        put_one_more(&store, key);
    }
    drop(store);
    let (store, _) = open(folder.path(), encoding(), None);
    put_one_more(&store, 64);
    assert_eq!(unencoded(&store), 0);
}

/// The same after `kill -9`, which may leave very many.
#[test]
fn what_is_much_is_left_after_a_second() {
    let folder = folder();
    fill(&open(folder.path(), options(), None).0, 0);
    let unencoded = |store: &Store| {
        let found = store.statistics(&mut |_| ControlFlow::Continue(())).unwrap();
        found.namespaces[0].unencoded
    };
    let mut left = u64::from(KEYS);
    for version in 0..2 {
        let (store, counts) = open(folder.path(), options().with_encoding(Encoding::default()), None);
        *counts.starved.lock().unwrap() = "ibid-encode";
        let pages = store.namespace("pages", Versions::Kept).unwrap();
        pages.put(b"one", format!("more {version}").as_bytes()).unwrap();
        store.finish_or_leave_encoding().unwrap();
        drop((store, pages));
        // Each goes on where the one before ended.
        let (store, _) = open(folder.path(), options(), None);
        let now = unencoded(&store);
        assert!((1..left).contains(&now), "{now} of {left}");
        left = now;
    }
}

type Progress<'p> = &'p mut dyn FnMut(u64) -> ControlFlow<()>;

/// Stops `work` at its first call back, at its second, and so on, in the same store, until it comes to its end. Returns
/// how often it was stopped.
fn stopped_again_and_again(work: impl Fn(&Store, Progress<'_>)) -> usize {
    let folder = folder();
    let (store, _) = open(folder.path(), options(), None);
    fill(&store, 0);
    fill(&store, 1);
    let (mut stops, mut bytes) = (0_usize, 0);
    loop {
        let mut left = stops;
        let mut is_stopped = false;
        work(&store, &mut |done| {
            assert!(!is_stopped, "asked again after it was stopped");
            bytes += done;
            is_stopped = left == 0;
            left = left.saturating_sub(1);
            if is_stopped {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if !is_stopped {
            break;
        }
        stops += 1;
    }
    assert!(bytes > u64::from(KEYS) * (4 << 10), "{bytes} bytes");
    let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.faults.is_empty(), "{:?}", found.faults);
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    for (key, version) in (0..KEYS).flat_map(|key| [(key, 1), (key, 2)]) {
        let found = pages.get_version(&key.to_be_bytes(), version).unwrap();
        assert!(
            found == Some(noise(4 << 10, (version - 1) * KEYS + key)),
            "{key}@{version}"
        );
    }
    stops
}

/// It may take minutes, and a user does not wait for it.
#[test]
fn settling_stops_wherever_it_is_told() {
    let stops = stopped_again_and_again(|store, progress| store.settle(progress).unwrap());
    assert!(stops > 2, "{stops} stops");
}

#[test]
fn compacting_stops_wherever_it_is_told() {
    let stops = stopped_again_and_again(|store, progress| store.compact(progress).map(drop).unwrap());
    assert!(stops > 2, "{stops} stops");
}
