//! A store that is written to keeps itself small: without anybody compacting it, its files never take much more than
//! what they take once compacted, and what waits.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ibid_record::engine::{Redb, Table};
use ibid_record::{Batch, Compacting, Durability, Encoding, Options, Store, Versions};

use crate::common::{folder, noise, set, with_engine};

/// A sixteenth of the defaults, so that little data is enough.
const SCALE: u64 = 16;
const RECENT_BYTES: u64 = (16 << 20) / SCALE;
const LAG_BYTES: u64 = (256 << 20) / SCALE;
const WINDOW_BYTES: u64 = (32 << 20) / SCALE;
const SEGMENT_BYTES: u64 = (16 << 20) / SCALE;
/// What the segments may take beyond the rest: 56 MiB by default. redb's own file does not depend on these settings.
const SLACK_BYTES: u64 = (56 << 20) / SCALE;
const REDB_BYTES: u64 = 16 << 20;

fn bytes_of(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let length = |path: &Path| match path.metadata() {
        Ok(found) if found.is_dir() => bytes_of(path),
        Ok(found) => found.len(),
        Err(_) => 0, // it was just removed
    };
    entries.flatten().map(|entry| length(&entry.path())).sum()
}

fn open(folder: &Path) -> Store {
    open_idle_after(folder, Duration::from_millis(200))
}

fn open_idle_after(folder: &Path, idle_after: Duration) -> Store {
    let engine = Redb::open(&folder.join("redb"), 4 << 20).unwrap();
    let engine = engine.with_segment_bytes(SEGMENT_BYTES).with_log_bytes(SEGMENT_BYTES);
    let options = Options::default()
        .with_durability(Durability::None)
        .with_encoding(Encoding::default().with_lag_bytes_max(LAG_BYTES))
        .with_compacting(
            Compacting::default()
                .with_recent_bytes(RECENT_BYTES as usize)
                .with_window_bytes(WINDOW_BYTES as usize)
                .with_idle_after(idle_after),
        );
    Store::with_engine(folder, Box::new(engine), options).unwrap()
}

/// A page of 12 KiB, each version of which differs from the one before in a few places.
fn page(key: u32, version: u32) -> Vec<u8> {
    let mut body = noise(12 << 10, key);
    for change in 0..=version {
        let at = (change.wrapping_mul(2_654_435_761) >> 20) as usize % body.len();
        body[at] ^= 1 + (change % 255) as u8;
    }
    body
}

#[test]
fn at_every_moment_and_at_rest() {
    const PAGES: u32 = 200;
    const VERSIONS: u32 = 40;
    let folder = folder();
    let store = open(folder.path());
    let pages = store.namespace("pages", Versions::Kept).unwrap();
    let (most, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let raw = u64::from(PAGES * VERSIONS) * (12 << 10);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                most.fetch_max(bytes_of(&folder.path().join("redb.segments")), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        for version in 0..VERSIONS {
            for keys in (0..PAGES).collect::<Vec<_>>().chunks(10) {
                let mut batch = Batch::new();
                for &key in keys {
                    batch.put(&pages, &key.to_be_bytes(), page(key, version));
                }
                store.commit(batch).unwrap();
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    let redb = folder.path().join("redb").metadata().unwrap().len();
    assert!(redb < REDB_BYTES, "{redb}");
    store.settle(&mut |_| ControlFlow::Continue(())).unwrap();
    let at_rest = bytes_of(folder.path());
    store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
    let compacted = bytes_of(folder.path());
    let most = most.into_inner();
    let allowed = compacted + compacted / 4 + SLACK_BYTES;
    assert!(
        most < allowed + LAG_BYTES,
        "{most}, {compacted} compacted, {raw} in all"
    );
    assert!(
        at_rest < compacted + compacted / 4 + SLACK_BYTES,
        "{at_rest}, {compacted} compacted"
    );
    // Otherwise this would hold for a store that does nothing.
    assert!(raw > 2 * (allowed + LAG_BYTES), "{raw}");
    for version in [1, 2, VERSIONS / 2, VERSIONS] {
        let found = pages.get_version(&7_u32.to_be_bytes(), version).unwrap();
        assert!(found == Some(page(7, version - 1)), "{version}");
    }
}

/// What leaves blocks is given back although the store is never idle.
#[test]
fn while_it_is_written_to_without_a_pause() {
    const PAGES: u32 = 300;
    let folder = folder();
    let store = open_idle_after(folder.path(), Duration::from_secs(3600));
    let pages = store.namespace("pages", Versions::Latest).unwrap();
    let live = u64::from(PAGES) * (12 << 10);
    let allowed = live + live / 4 + SLACK_BYTES + LAG_BYTES;
    let (mut most, mut written) = (0, 0);
    for round in 0..100 {
        for number in 0..PAGES {
            let key = (number * 7919 + round) % PAGES;
            pages
                .put(&key.to_be_bytes(), &noise(12 << 10, round * PAGES + number))
                .unwrap();
            written += 12 << 10;
        }
        most = most.max(bytes_of(&folder.path().join("redb.segments")));
    }
    assert!(most < allowed, "{most} of {allowed}");
    // Otherwise this would hold for a store that does nothing.
    assert!(written > 5 * allowed, "{written}");
}

/// Otherwise writers would wait for ever for a keeper that damage stops.
#[test]
fn a_store_with_damage_in_the_way_of_its_keeper_is_written_to() {
    let folder = folder();
    drop(open(folder.path()));
    // The places of records that come later: no block can be added.
    with_engine(folder.path(), |engine| {
        for group in 0_u64..40 {
            set(engine, Table::Places, &group.to_be_bytes(), Some(b"damaged"));
        }
    });
    let (done, ends) = std::sync::mpsc::channel();
    let path = folder.path().to_owned();
    std::thread::spawn(move || {
        let store = open(&path);
        let log = store.namespace("log", Versions::Latest).unwrap();
        for key in 0..4 * LAG_BYTES as u32 / (12 << 10) {
            log.put(&key.to_be_bytes(), &noise(12 << 10, key)).unwrap();
        }
        done.send(()).unwrap();
    });
    assert!(ends.recv_timeout(Duration::from_secs(300)).is_ok(), "it waits");
}
