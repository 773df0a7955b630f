//! Random histories with repeated power failures: any part of the unsynced writes reaches the disk,
//! some of it torn. After opening again, everything that was reported as synced is there, later
//! changes are there up to some batch, and the tables agree with each other.
//!
//! `IBID_RECORD_CRASHES=10000` runs more histories.

use std::ops::ControlFlow;
use std::time::Duration;

use ibid_record::engine::Engine;
use ibid_record::{Durability, Options, Store};

use crate::common::disk::Disk;
use crate::common::histories::{self, Random, assert_is_one_of, lengths, ops, options};
use crate::common::{Model, assert_counted, batch, open_spaces};

fn open(disk: &Disk, options: Options, random: &mut Random) -> Store {
    let lengths = lengths(random);
    // Then commits go on while a checkpoint is synced, and the power fails meanwhile.
    let sync = Duration::from_millis([0, 0, 0, 1][random.below(4) as usize]);
    histories::open(disk, options, lengths, sync).unwrap()
}

fn history(seed: u64) {
    let mut random = Random(seed);
    let mut disk = Disk::default();
    let mut model = Model::default();
    let mut count = 0;
    for _ in 0..4 {
        let options = options(&mut random);
        let store = open(&disk, options, &mut random);
        let spaces = open_spaces(&store);
        // After a failure the store may have the last synced state or any later one.
        let mut possible = vec![(count, model.clone())];
        for _ in 0..random.below(12) {
            match random.below(13) {
                0 => store.finish_encoding().unwrap(),
                12 => store.settle(&mut |_| ControlFlow::Continue(())).unwrap(),
                1 => drop(store.compact(&mut |_| ControlFlow::Continue(())).unwrap()),
                2 => {
                    store.sync().unwrap();
                    possible.drain(..possible.len() - 1);
                }
                choice => {
                    count += 1;
                    let ops = ops(&mut random, count, &model);
                    let durability = if choice < 6 { Durability::Sync } else { Durability::None };
                    let written = store.commit_with(batch(&spaces, &ops), durability).unwrap();
                    model = model.after(&ops).unwrap().numbered(&ops, &written);
                    possible.push((count, model.clone()));
                    if durability == Durability::Sync {
                        possible.drain(..possible.len() - 1);
                    }
                }
            }
        }
        if random.below(4) == 0 {
            drop((spaces, store));
            possible.drain(..possible.len() - 1);
            disk = disk.after_power_failure(&mut |bound| random.below(bound));
        } else {
            // The failure comes while the encoder works.
            let failed = disk.after_power_failure(&mut |bound| random.below(bound));
            drop((spaces, store));
            disk = failed;
        }
        let store = open(&disk, options, &mut random);
        let spaces = open_spaces(&store);
        (count, model) = assert_is_one_of(&store, &spaces, possible);
    }
    assert_counted(&disk.engine(1 << 20) as &dyn Engine);
}

#[test]
fn of_the_disk() {
    let asked = std::env::var("IBID_RECORD_CRASHES").ok();
    let cases: u64 = asked.map_or(150, |cases| cases.parse().expect("a number of histories"));
    for seed in 0..cases {
        let outcome = std::panic::catch_unwind(|| history(seed));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
