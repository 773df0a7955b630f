//! A read of many records looks up keys in order, and decompresses each frame once.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ibid_format::record::Places;
use ibid_record::engine::{
    Commit, Direction, EachPair, Engine, EngineError, KeyRange, Read, Redb, Snapshot, Table, Work,
};
use ibid_record::{Durability, Namespace, Options, Store, Versions};

use crate::common::{entries, folder, noise, with_engine};

/// The table and key of each single read.
type Seen = Arc<Mutex<Vec<(Table, Vec<u8>)>>>;

/// An engine that notes what is read from it.
struct Watched {
    engine: Redb,
    seen: Seen,
}

struct WatchedSnapshot {
    snapshot: Box<dyn Snapshot>,
    seen: Seen,
}

impl Engine for Watched {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, EngineError> {
        Ok(Box::new(WatchedSnapshot {
            snapshot: self.engine.snapshot()?,
            seen: self.seen.clone(),
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

impl Snapshot for WatchedSnapshot {}

impl Read for WatchedSnapshot {
    fn get(&self, table: Table, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool, EngineError> {
        self.seen.lock().unwrap().push((table, key.to_vec()));
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
        // The heads of a block, at its beginning, are no frame.
        if at > 0 {
            self.seen.lock().unwrap().push((table, key.to_vec()));
        }
        self.snapshot.get_part(table, key, at, length, found)
    }

    fn reads_parts(&self) -> bool {
        self.snapshot.reads_parts()
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

/// No cache of frames or latest versions.
fn options() -> Options {
    Options::default()
        .with_durability(Durability::None)
        .with_frame_cache_bytes(0)
}

const KEYS: u32 = 300;

/// Fills a store with records that resemble those of other keys, and compacts it. Most become
/// deltas, whose bases are in other frames.
fn fill(folder: &Path, versions: Versions, rounds: u32) {
    let store = Store::open(folder, options()).unwrap();
    let pages = store.namespace("pages", versions).unwrap();
    for round in 0..rounds {
        for key in 0..KEYS {
            let mut body = noise(4000, key % 10);
            let at = (key * 13 + round * 7) as usize % 4000;
            body[at] ^= 0x55;
            pages.put(format!("{key:03}").as_bytes(), &body).unwrap();
        }
    }
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
}

/// Returns how many frames there are with records in them.
fn frames(folder: &Path) -> usize {
    let groups = with_engine(folder, |engine| entries(engine, Table::Places));
    let mut frames = BTreeSet::new();
    for (key, value) in groups {
        let group = u64::from_be_bytes(key[..].try_into().unwrap());
        let places = Places::decode(group, &value).unwrap();
        frames.extend(places.iter(group).map(|(_, place)| (place.block, place.frame)));
    }
    frames.len()
}

#[test]
fn each_frame_is_decompressed_once() {
    for (versions, rounds) in [(Versions::Latest, 1), (Versions::Kept, 4)] {
        let folder = folder();
        fill(folder.path(), versions, rounds);
        let frames = frames(folder.path());
        let seen = Seen::default();
        let engine = Watched {
            engine: Redb::open(&folder.path().join("redb"), 1 << 20).unwrap(),
            seen: seen.clone(),
        };
        let store = Store::with_engine(folder.path(), Box::new(engine), options()).unwrap();
        let pages: Namespace = store.namespace("pages", versions).unwrap();
        // In an order that has nothing to do with the order of keys or of storing.
        let keys: Vec<String> = (0..KEYS).map(|key| format!("{:03}", key * 77 % KEYS)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
        let blocks_read = |from: usize| {
            let seen = seen.lock().unwrap();
            seen[from..].iter().filter(|(table, _)| *table == Table::Blocks).count()
        };

        let one_by_one: Vec<_> = keys.iter().map(|key| pages.get(key).unwrap().unwrap()).collect();
        let singly = blocks_read(0);
        assert!(
            singly >= keys.len(),
            "without a cache each read decompresses a frame: {singly}"
        );

        let from = seen.lock().unwrap().len();
        let many = pages.get_many(&keys).unwrap();
        let at_once = blocks_read(from);
        assert!(
            0 < at_once && at_once <= frames,
            "{at_once} of {frames} frames, {versions}"
        );
        let looked_up: Vec<_> = {
            let seen = seen.lock().unwrap();
            let looked_up = seen[from..].iter().filter(|(table, _)| *table == Table::Keys);
            looked_up.map(|(_, key)| key.clone()).collect()
        };
        assert!(looked_up.len() == keys.len() && looked_up.is_sorted(), "{versions}");
        let bodies: Vec<_> = many.into_iter().map(|record| record.unwrap().body).collect();
        assert!(bodies == one_by_one, "{versions}");
    }
}
