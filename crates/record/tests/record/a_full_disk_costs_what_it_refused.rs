//! Random histories on a disk that is full at some byte. What is not stored is an error that says so, and so is all
//! that is to be stored after it, while everything can be read. Once there is room, the store can be opened again. All
//! that was reported as synced is there then, later changes are there up to some batch, and the tables agree with each
//! other.
//!
//! `IBID_RECORD_FULL=10000` runs more histories.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use ibid_record::Durability;
use ibid_record::engine::Engine;

use crate::common::disk::Disk;
use crate::common::histories::{self, Random, assert_is_one_of, lengths, ops, options};
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

/// A disk with room for so many bytes more than a new store needs. Returns how many were written until it had room.
fn history(seed: u64, room: u64, seen: &mut Seen) -> u64 {
    /// More than a history writes.
    const MUCH: u64 = u64::MAX / 2;
    let mut random = Random(seed);
    let (options, lengths) = (options(&mut random), lengths(&mut random));
    let open = |disk: &Disk| histories::open(disk, options, lengths, Duration::ZERO);
    let mut disk = Disk::default();
    drop(open_spaces(&open(&disk).unwrap()));
    disk.set_room(room);
    let mut model = Model::default();
    let mut possible = vec![(0, model.clone())];
    // The first that was refused: whether it took place is known once the store was opened again.
    let mut in_doubt = None;
    let mut written = None;
    match open(&disk) {
        Err(error) => {
            assert_full(&error);
            seen.not_opened += 1;
        }
        Ok(store) => {
            let spaces = open_spaces(&store);
            for number in 1..=12 {
                let done = match random.below(13) {
                    0 => store.finish_encoding(),
                    12 => store.settle(&mut |_| ControlFlow::Continue(())),
                    1 => store.compact(&mut |_| ControlFlow::Continue(())).map(drop),
                    2 => {
                        let synced = store.sync();
                        if synced.is_ok() {
                            possible.drain(..possible.len() - 1);
                        }
                        synced
                    }
                    choice => {
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
                    seen.refused += u32::from(written.is_none());
                    written.get_or_insert(room);
                    disk.set_room(MUCH);
                }
            }
            written.get_or_insert(room - disk.room().min(room));
            disk = match random.below(4) {
                0 => disk.after_a_kill(),
                1 => disk.after_power_failure(&mut |bound| random.below(bound)),
                _ => disk,
            };
        }
    }
    disk.set_room(MUCH);
    let store = open(&disk).unwrap();
    let spaces = open_spaces(&store);
    assert_is_one_of(&store, &spaces, possible.into_iter().chain(in_doubt));
    drop((spaces, store));
    assert_counted(&disk.engine(1 << 20) as &dyn Engine);
    written.unwrap_or(room)
}

#[test]
fn at_any_byte() {
    /// About twice what is written while a store is opened.
    const OPENING: u64 = 640;
    let asked = std::env::var("IBID_RECORD_FULL").ok();
    let cases: u64 = asked.map_or(150, |cases| cases.parse().expect("a number of histories"));
    let mut seen = Seen::default();
    for seed in 0..cases {
        let mut one = || {
            let written = history(seed, u64::MAX / 2, &mut Seen::default());
            let mut random = Random(seed ^ 0x5eed);
            // Of what a history writes, little is written while the store is opened.
            let most = [OPENING, written.max(1)][(random.below(8) > 0) as usize];
            history(seed, random.below(most), &mut seen);
        };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut one));
        assert!(outcome.is_ok(), "seed {seed}");
    }
    assert!(seen.not_opened > 0 && seen.refused > 0, "{seen:?}");
}
