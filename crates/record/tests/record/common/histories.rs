//! Random histories of batches, on a disk that fails, and what may be left of them.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use ibid_record::{Compacting, Durability, Encoding, Error, Namespace, Options, Retrieval, Store};

use super::disk::Disk;
use super::{Kind, Model, Op, Refusal, Values, assert_same, noise};

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
const COUNT: &[u8] = b"count";
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

/// When a checkpoint begins, and how it is made.
#[derive(Clone, Copy)]
pub(crate) struct Lengths {
    /// Of the log, bytes.
    log: u64,
    /// Of its segments, bytes.
    segments: u64,
    /// Of the steps of a checkpoint, changes.
    steps: usize,
}

/// Returns lengths of the log, of its segments and of steps. Often there is a checkpoint after each commit or each few.
pub(crate) fn lengths(random: &mut Random) -> Lengths {
    Lengths {
        log: [0, 3000, 20_000, 16 << 20][random.below(4) as usize],
        segments: [3000, 30_000, 16 << 20][random.below(3) as usize],
        steps: [1, 3, 10, 4096][random.below(4) as usize],
    }
}

/// Opens the store of a disk, with a log and steps of these lengths, where a sync of redb's file takes so long.
pub(crate) fn open(disk: &Disk, options: Options, lengths: Lengths, sync: Duration) -> Result<Store, Error> {
    let engine = disk.try_engine(options.cache_bytes, sync)?;
    let engine = engine.with_log_bytes(lengths.log).with_segment_bytes(lengths.segments);
    let engine = engine.with_step_changes(lengths.steps);
    Store::with_engine(Path::new("disk"), Box::new(engine), options)
}

/// Checks that a store is in one of the states in which it may be, each with its number of batches, and has no fault.
/// Returns that state.
pub(crate) fn assert_is_one_of(
    store: &Store,
    spaces: &[Namespace; 2],
    possible: impl IntoIterator<Item = (u32, Model)>,
) -> (u32, Model) {
    let count = spaces[1].get(COUNT).unwrap();
    let count = count.map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
    let state = possible.into_iter().find(|state| state.0 == count);
    let state = state.unwrap_or_else(|| panic!("batch {count} is none of those that may be the last"));
    assert_same(&store.snapshot().unwrap(), spaces, &state.1);
    let found = store.verify(&mut |_| ControlFlow::Continue(())).unwrap();
    assert!(found.is_clean(), "{found:?}");
    state
}
