//! Many threads at once: readers see complete batches, and writers wait only for their own commit
//! and share syncs.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ibid_record::engine::Direction;
use ibid_record::{Batch, Durability, Error, Namespace, Options, Snapshot, Store, Versions};

use crate::common::folder;

fn options() -> Options {
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_durability(Durability::None)
}

fn store(folder: &tempfile::TempDir) -> Store {
    Store::open(folder.path(), options()).unwrap()
}

/// Returns the sum of all accounts, by a scan or by single reads.
fn total(snapshot: &Snapshot, accounts: &Namespace, scanning: bool) -> u64 {
    let number = |body: Vec<u8>| u64::from_be_bytes(body.try_into().unwrap());
    if scanning {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let records = snapshot.scan(accounts, everything, Direction::Forward).unwrap();
        return records.map(|record| number(record.unwrap().body)).sum();
    }
    let keys: Vec<[u8; 1]> = (0..ACCOUNTS).map(|account| [account]).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let records = snapshot.get_many(accounts, &keys).unwrap();
    records.into_iter().map(|record| number(record.unwrap().body)).sum()
}

const ACCOUNTS: u8 = 100;
const EACH: u64 = 1000;

#[test]
fn readers_see_a_transfer_between_accounts_completely_or_not_at_all() {
    let folder = folder();
    let store = store(&folder);
    let accounts = store.namespace("accounts", Versions::Latest).unwrap();
    let mut batch = Batch::new();
    for account in 0..ACCOUNTS {
        batch.insert(&accounts, &[account], &EACH.to_be_bytes());
    }
    store.commit(batch).unwrap();

    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (store, accounts, ended) = (&store, &accounts, &ended);
            scope.spawn(move || {
                let mut looked = 0;
                while !ended.load(Ordering::Relaxed) || looked == 0 {
                    let snapshot = store.snapshot().unwrap();
                    assert_eq!(total(&snapshot, accounts, reader % 2 == 0), EACH * u64::from(ACCOUNTS));
                    looked += 1;
                }
            });
        }
        for round in 0..500_u64 {
            let (from, to) = (
                (round % 100) as u8,
                (round * 37 % 99 + round % 100 + 1) as u8 % ACCOUNTS,
            );
            let amount = |account: u8| {
                let body = accounts.get(&[account]).unwrap().unwrap();
                u64::from_be_bytes(body.try_into().unwrap())
            };
            if from == to || amount(from) == 0 {
                continue;
            }
            let mut batch = Batch::new();
            batch.update(&accounts, &[from], &(amount(from) - 1).to_be_bytes());
            batch.update(&accounts, &[to], &(amount(to) + 1).to_be_bytes());
            store.commit(batch).unwrap();
        }
        ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn each_of_many_writers_gets_its_own_outcome() {
    const THREADS: u32 = 8;
    const KEYS: u32 = 200;
    let folder = folder();
    let store = store(&folder);
    let space = store.namespace("keys", Versions::Kept).unwrap();
    let written: u32 = std::thread::scope(|scope| {
        let write = |thread: u32| {
            let space = space.clone();
            scope.spawn(move || {
                let mut won = 0;
                for key in 0..KEYS {
                    // Every thread tries to insert every key; one succeeds.
                    match space.insert(&key.to_be_bytes(), &thread.to_be_bytes()) {
                        Ok(_) => {
                            won += 1;
                            let body = space.get(&key.to_be_bytes()).unwrap().unwrap();
                            assert_eq!(body, thread.to_be_bytes(), "who was told so reads it");
                        }
                        Err(Error::KeyExists { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                won
            })
        };
        let writers: Vec<_> = (0..THREADS).map(write).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(written, KEYS);
    let records: Vec<_> = space.written_after(0).unwrap().map(Result::unwrap).collect();
    assert_eq!(records.len(), KEYS as usize);
    assert!(records.iter().all(|record| record.version == 1));
}

#[test]
fn a_batched_change_returns_before_its_sync_and_is_there_after_closing() {
    let folder = folder();
    let forever = Duration::from_secs(3600);
    {
        let store = store(&folder);
        let space = store.namespace("space", Versions::Latest).unwrap();
        let before = Instant::now();
        for (key, durability) in [(b"1", Durability::Batched(forever)), (b"2", Durability::None)] {
            let mut batch = Batch::new();
            batch.insert(&space, key, b"body");
            store.commit_with(batch, durability).unwrap();
        }
        assert!(before.elapsed() < forever);
    }
    let store = store(&folder);
    let space = store.namespace("space", Versions::Latest).unwrap();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(space.scan(everything, Direction::Forward).unwrap().count(), 2);
}

#[test]
fn records_encoded_and_compacted_under_load_are_read_as_written() {
    const KEYS: u32 = 6;
    const ROUNDS: u32 = 120;
    let body = |key: u32, version: u32| {
        let mut body = crate::common::noise(3000, key % 2);
        let at = (version as usize * 131) % 2900;
        body[at..at + 8].copy_from_slice(&(u64::from(key) << 32 | u64::from(version)).to_be_bytes());
        body
    };
    let folder = folder();
    let mut options = options();
    // With these settings every delta is written at once.
    (options.encoding.lossy, options.encoding.write_back_bytes) = (false, 0);
    let store = Store::open(folder.path(), options).unwrap();
    let (kept, latest) = (
        store.namespace("kept", Versions::Kept).unwrap(),
        store.namespace("latest", Versions::Latest).unwrap(),
    );
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (kept, latest) = (&kept, &latest);
                scope.spawn(move || {
                    for version in 1..=ROUNDS {
                        for key in (0..KEYS).filter(|key| key % 2 == writer) {
                            kept.put(&key.to_be_bytes(), &body(key, version)).unwrap();
                            latest.put(&key.to_be_bytes(), &body(key, version)).unwrap();
                            if (version + key) % 17 == 0 {
                                latest.delete(&key.to_be_bytes()).unwrap();
                            }
                        }
                    }
                })
            })
            .collect();
        for reader in 0..2_u32 {
            let (store, kept, latest, ended) = (&store, &kept, &latest, &ended);
            scope.spawn(move || {
                let mut looked = reader;
                while !ended.load(Ordering::Relaxed) {
                    looked = looked.wrapping_mul(7).wrapping_add(1);
                    let key = looked % KEYS;
                    let snapshot = store.snapshot().unwrap();
                    let versions = snapshot.versions(kept, &key.to_be_bytes()).unwrap();
                    for version in &versions {
                        let found = snapshot.get_version(kept, &key.to_be_bytes(), version.version).unwrap();
                        assert!(found.is_some_and(|found| found == body(key, version.version)));
                    }
                    if let Some(found) = snapshot.get(latest, &key.to_be_bytes()).unwrap() {
                        assert!((1..=ROUNDS).any(|version| found == body(key, version)));
                    }
                }
            });
        }
        let (store, ended) = (&store, &ended);
        scope.spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                store.compact(&mut |_| ControlFlow::Continue(())).unwrap();
                let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
                assert!(found.is_clean(), "{found:?}");
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        ended.store(true, Ordering::Relaxed);
    });
    assert!(
        store.encoding().deltas > u64::from(KEYS * ROUNDS / 2),
        "{:?}",
        store.encoding()
    );
}
