//! Random histories on a disk that is full at some byte. What is not stored is an error that says so, and so is all
//! that is to be stored after it, while everything can be read. Once there is room, the store can be opened again. All
//! that was reported as synced is there then, later changes are there up to some batch, and the tables agree with each
//! other.
//!
//! `IBID_RECORD_FULL=10000` runs more histories.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use ibid_record::engine::Engine;
use ibid_record::{Durability, Error, Namespace, Options, Store};

use crate::any_power_failure_keeps_what_was_synced::{COUNT, Random, ops, options};
use crate::common::disk::Disk;
use crate::common::{Model, assert_counted, assert_same, batch, open_spaces};

/// What became of the histories.
#[derive(Debug, Default)]
struct Seen {
    /// Stores that could not be opened.
    not_opened: u32,
    /// Stores that refused something.
    refused: u32,
}

/// Whether an error says that the disk is full.
fn is_full(error: &(dyn std::error::Error + 'static)) -> bool {
    let full = |error: &io::Error| error.kind() == io::ErrorKind::StorageFull;
    let mut error = Some(error);
    while let Some(cause) = error {
        if cause.downcast_ref::<io::Error>().is_some_and(full) || cause.to_string().contains("no storage space") {
            return true;
        }
        error = cause.source();
    }
    false
}

#[track_caller]
fn assert_full(error: &(dyn std::error::Error + 'static)) {
    assert!(is_full(error), "{error}: {:?}", error.source());
}

fn open(disk: &Disk, options: Options, log_bytes: u64, segment_bytes: u64) -> Result<Store, Error> {
    let engine = disk.try_engine(options.cache_bytes, Duration::ZERO)?;
    let engine = engine.with_log_bytes(log_bytes).with_segment_bytes(segment_bytes);
    Store::with_engine(Path::new("disk"), Box::new(engine), options)
}

/// Returns how many batches are in the store.
fn count(spaces: &[Namespace; 2]) -> u32 {
    let count = spaces[1].get(COUNT).unwrap();
    count.map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()))
}

fn assert_is(store: &Store, spaces: &[Namespace; 2], model: &Model) {
    assert_same(&store.snapshot().unwrap(), spaces, model);
    let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.is_clean(), "{found:?}");
}

/// A disk with room for so many bytes more than a new store of two namespaces needs, [`None`] for any number. Returns
/// how many were written.
fn history(seed: u64, room: Option<u64>, seen: &mut Seen) -> u64 {
    const MUCH: u64 = u64::MAX / 2;
    let mut random = Random(seed);
    let options = options(&mut random);
    let log_bytes = [0, 3000, 20_000, 16 << 20][random.below(4) as usize];
    let segment_bytes = [3000, 30_000, 16 << 20][random.below(3) as usize];
    let mut disk = Disk::default();
    drop(open_spaces(&open(&disk, options, log_bytes, segment_bytes).unwrap()));
    disk.set_room(room.unwrap_or(MUCH));
    let store = open(&disk, options, log_bytes, segment_bytes);
    let mut model = Model::default();
    let mut possible = vec![(0, model.clone())];
    // The first that was refused: whether it took place is known once the store was opened again.
    let mut in_doubt = None;
    match store {
        Err(error) => {
            assert_full(&error);
            seen.not_opened += 1;
        }
        Ok(store) => {
            let spaces = open_spaces(&store);
            let (mut number, mut has_refused) = (0, false);
            for _ in 0..12 {
                let done = match random.below(13) {
                    0 => store.finish_encoding(),
                    12 => store.settle(),
                    1 => store.compact(&mut |_| ControlFlow::Continue(())).map(drop),
                    2 => {
                        let synced = store.sync();
                        if synced.is_ok() {
                            possible.drain(..possible.len() - 1);
                        }
                        synced
                    }
                    choice => {
                        number += 1;
                        let ops = ops(&mut random, number, &model);
                        let after = model.after(&ops).unwrap();
                        let durability = if choice < 6 { Durability::Sync } else { Durability::None };
                        match store.commit_with(batch(&spaces, &ops), durability) {
                            Ok(written) => {
                                model = after.numbered(&ops, &written);
                                possible.push((number, model.clone()));
                                if durability == Durability::Sync {
                                    possible.drain(..possible.len() - 1);
                                }
                                assert!(in_doubt.is_none(), "it follows one that may not be there");
                                Ok(())
                            }
                            Err(error) => {
                                in_doubt.get_or_insert((number, after));
                                Err(error)
                            }
                        }
                    }
                };
                if let Err(error) = done {
                    assert_full(&error);
                    assert_same(&store.snapshot().unwrap(), &spaces, &model);
                    seen.refused += u32::from(!has_refused);
                    has_refused = true;
                    disk.set_room(MUCH);
                }
            }
            if random.below(2) == 0 {
                disk = match random.below(2) {
                    0 => disk.after_a_kill(),
                    _ => disk.after_power_failure(&mut |bound| random.below(bound)),
                };
            }
        }
    }
    let written = room.unwrap_or(MUCH).saturating_sub(disk.room());
    disk.set_room(u64::MAX);
    let store = open(&disk, options, log_bytes, segment_bytes).unwrap();
    let spaces = open_spaces(&store);
    let found = count(&spaces);
    let state = possible.into_iter().chain(in_doubt).find(|(count, _)| *count == found);
    let (_, model) = state.unwrap_or_else(|| panic!("batch {found} is none of those that may be the last"));
    assert_is(&store, &spaces, &model);
    drop((spaces, store));
    assert_counted(&disk.engine(1 << 20) as &dyn Engine);
    written
}

#[test]
fn at_any_byte() {
    let asked = std::env::var("IBID_RECORD_FULL").ok();
    let cases: u64 = asked.map_or(150, |cases| cases.parse().expect("a number of histories"));
    let mut seen = Seen::default();
    for seed in 0..cases {
        let mut one = || {
            let written = history(seed, None, &mut Seen::default());
            let room = Random(seed ^ 0x5eed).below(written.max(1));
            history(seed, Some(room), &mut seen);
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut one));
        assert!(outcome.is_ok(), "seed {seed}");
    }
    assert!(seen.not_opened > 0 && seen.refused > 0, "{seen:?}");
}
