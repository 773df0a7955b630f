//! Random histories with repeated power failures: any part of the unsynced writes reaches the disk,
//! some of it torn. After opening again, everything that was reported as synced is there, later
//! changes are there up to some batch, and the tables agree with each other.
//!
//! `IBID_RECORD_CRASHES=10000` runs more histories.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use ibid_record::engine::Engine;
use ibid_record::{Compacting, Durability, Encoding, Options, Retrieval, Store};

use crate::common::disk::Disk;
use crate::common::{Kind, Model, Op, Refusal, Values, assert_counted, assert_same, batch, noise, open_spaces};

/// Pseudo-random numbers from a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The number of batches in a state of the store.
pub(crate) const COUNT: &[u8] = b"count";
const KEYS: [&[u8]; 5] = [b"a", b"b", b"c", b"dd", b"dde"];

pub(crate) fn options(random: &mut Random) -> Options {
    let retrieval = match random.below(3) {
        0 => Retrieval::Chain,
        1 => Retrieval::Hop { distance: 2 },
        _ => Retrieval::Hop { distance: 4 },
    };
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_frame_cache_bytes(10_000)
        .with_durability(Durability::None)
        .with_whole_bytes_max([500, 4 << 20, 4 << 20][random.below(3) as usize])
        .with_compacting(
            Compacting::default()
                .with_enabled(random.below(4) > 0)
                .with_recent_bytes([0, 5000][random.below(2) as usize])
                .with_idle_after(Duration::from_millis([0, 20][random.below(2) as usize])),
        )
        .with_encoding(
            Encoding::default()
                .with_retrieval(retrieval)
                .with_source_cache_bytes([0, 7000, 1 << 20][random.below(3) as usize])
                .with_write_back_bytes([60, 1 << 20][random.below(2) as usize])
                .with_lossy(random.below(2) == 0)
                .with_idle_after(Duration::ZERO),
        )
}

pub(crate) fn ops(random: &mut Random, count: u32, model: &Model) -> Vec<Op> {
    let mut ops = vec![Op {
        space: 1,
        key: COUNT.to_vec(),
        kind: Kind::Put,
        body: count.to_be_bytes().to_vec(),
        time: None,
        expires: 0,
        values: Values::new(),
    }];
    for _ in 0..1 + random.below(3) {
        let (space, key) = (random.below(2) as usize, KEYS[random.below(5) as usize].to_vec());
        let live = model
            .after(&ops)
            .unwrap()
            .live(space)
            .iter()
            .any(|(live, _)| *live == key);
        let versions = model.after(&ops).unwrap().spaces[space].get(&key).map_or(0, Vec::len) as u64;
        let kind = match random.below(8) {
            0 if live => Kind::Delete,
            1 if live => Kind::Purge,
            2 if space == 0 && versions > 1 => {
                let to = 1 + random.below(versions - 1);
                Kind::PurgeVersions(1 + random.below(to) as u32, to as u32)
            }
            3 | 4 if live => Kind::SetValues,
            _ => Kind::Put,
        };
        let mut values = Values::new();
        for _ in 0..random.below(3) {
            values.insert((random.below(2) as usize, KEYS[random.below(5) as usize].to_vec()));
        }
        if !kind.has_values() {
            values.clear();
        }
        let mut body = noise(2000, random.below(2) as u32);
        let at = random.below(2000) as usize;
        if random.below(4) > 0 {
            body[at] ^= 1 + random.below(255) as u8;
            body.truncate(2000 - random.below(50) as usize);
        }
        ops.push(Op {
            space,
            key,
            kind,
            body,
            time: None,
            expires: 0,
            values,
        });
        if model.after(&ops) == Err(Refusal::ValueTaken) {
            let last = ops.last_mut().unwrap();
            last.values.retain(|(index, _)| *index == 0);
        }
    }
    ops
}

fn open(disk: &Disk, options: Options, random: &mut Random) -> Store {
    // Often it begins its log anew after each commit or each few.
    let log_bytes = [0, 3000, 20_000, 16 << 20][random.below(4) as usize];
    let segment_bytes = [3000, 30_000, 16 << 20][random.below(3) as usize];
    // Then commits go on while a checkpoint is synced, and the power fails meanwhile.
    let sync = Duration::from_millis([0, 0, 0, 1][random.below(4) as usize]);
    let engine = disk.slow_engine(options.cache_bytes, sync);
    let engine = engine.with_log_bytes(log_bytes).with_segment_bytes(segment_bytes);
    Store::with_engine(Path::new("disk"), Box::new(engine), options).unwrap()
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
                12 => store.settle().unwrap(),
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
        let found = spaces[1]
            .get(COUNT)
            .unwrap()
            .map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
        let state = possible.into_iter().find(|(count, _)| *count == found);
        (count, model) = state.unwrap_or_else(|| panic!("batch {found} is none of those that may be the last"));
        assert_same(&store.snapshot().unwrap(), &spaces, &model);
        let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.is_clean(), "{found:?}");
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
