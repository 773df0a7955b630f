//! Random histories with repeated power failures: any part of the unsynced writes reaches the disk,
//! some of it torn. After opening again, everything that was reported as synced is there, later
//! changes are there up to some batch, and the tables agree with each other.
//!
//! `IBID_RECORD_CRASHES=10000` runs more histories.

mod common;

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Kind, Model, Op, assert_counted, assert_same, batch, noise, open_spaces};
use ibid_record::engine::{Engine, Redb, StorageBackend};
use ibid_record::{Durability, Encoding, Options, Retrieval, Store};

/// Pseudo-random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Two files on a disk that loses unsynced writes, or a part of them, at a power failure: the engine's, and its log of
/// commits.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<[Content; 2]>>);

#[derive(Debug, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Each write since the last sync with its offset; [`None`] sets the length.
    unsynced: Vec<(u64, Option<Vec<u8>>)>,
}

/// Bytes that are written completely or not at all.
const SECTOR: usize = 512;

impl Content {
    /// Returns the file as it is after a power failure.
    fn after_power_failure(&self, random: &mut Random) -> Content {
        let mut image = self.synced.clone();
        // All unsynced writes survive, or some, or none.
        let part = random.below(4);
        let mut length = image.len();
        for (at, written) in &self.unsynced {
            let kept = random.below(3) < part;
            let at = *at as usize;
            match written {
                None => {
                    length = at;
                    if kept {
                        image.resize(at, 0);
                    }
                }
                Some(bytes) if kept => {
                    let torn = random.below(8) == 0;
                    let part = random.below(bytes.len() as u64 + 1) as usize / SECTOR * SECTOR;
                    let kept = if torn { part } else { bytes.len() };
                    if image.len() < at + kept {
                        // Nothing is beyond the end of the file, which had been extended before.
                        image.resize(length, 0);
                    }
                    image[at..at + kept].copy_from_slice(&bytes[..kept]);
                }
                Some(_) => {}
            }
        }
        Content {
            now: image.clone(),
            synced: image,
            unsynced: Vec::new(),
        }
    }
}

impl Disk {
    /// Returns the disk as it is after a power failure, which both files meet at the same moment.
    fn after_power_failure(&self, random: &mut Random) -> Disk {
        let files = self.0.lock().unwrap();
        let files = files.each_ref().map(|file| file.after_power_failure(random));
        Disk(Arc::new(Mutex::new(files)))
    }

    fn engine(&self, cache_bytes: usize) -> Redb {
        let [file, log] = [0, 1].map(|which| DiskFile {
            disk: self.clone(),
            which,
        });
        Redb::open_on(file, log, Path::new("disk"), cache_bytes).unwrap()
    }
}

/// A file of the disk.
#[derive(Debug)]
struct DiskFile {
    disk: Disk,
    which: usize,
}

impl DiskFile {
    fn with<T>(&self, work: impl FnOnce(&mut Content) -> T) -> T {
        work(&mut self.disk.0.lock().unwrap()[self.which])
    }
}

impl StorageBackend for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.with(|content| content.now.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with(|content| {
            let from = offset as usize;
            let found = content.now.get(from..from + out.len());
            out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with(|content| {
            content.now.resize(len as usize, 0);
            content.unsynced.push((len, None));
        });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.with(|content| {
            for (at, written) in std::mem::take(&mut content.unsynced) {
                let at = at as usize;
                match written {
                    None => content.synced.resize(at, 0),
                    Some(bytes) => content.synced[at..at + bytes.len()].copy_from_slice(&bytes),
                }
            }
        });
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with(|content| {
            let at = offset as usize;
            let place = content.now.get_mut(at..at + data.len());
            place.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
            content.unsynced.push((offset, Some(data.to_vec())));
            Ok(())
        })
    }
}

/// The number of batches in a state of the store.
const COUNT: &[u8] = b"count";
const KEYS: [&[u8]; 5] = [b"a", b"b", b"c", b"dd", b"dde"];

fn options(random: &mut Random) -> Options {
    let retrieval = match random.below(3) {
        0 => Retrieval::Chain,
        1 => Retrieval::Hop { distance: 2 },
        _ => Retrieval::Hop { distance: 4 },
    };
    Options::default()
        .with_cache_bytes(1 << 20)
        .with_frame_cache_bytes(10_000)
        .with_durability(Durability::None)
        .with_encoding(
            Encoding::default()
                .with_retrieval(retrieval)
                .with_source_cache_bytes([0, 7000, 1 << 20][random.below(3) as usize])
                .with_write_back_bytes([60, 1 << 20][random.below(2) as usize])
                .with_lossy(random.below(2) == 0)
                .with_idle_after(Duration::ZERO),
        )
}

fn ops(random: &mut Random, count: u32, model: &Model) -> Vec<Op> {
    let mut ops = vec![Op {
        space: 1,
        key: COUNT.to_vec(),
        kind: Kind::Put,
        body: count.to_be_bytes().to_vec(),
    }];
    for _ in 0..1 + random.below(3) {
        let (space, key) = (random.below(2) as usize, KEYS[random.below(5) as usize].to_vec());
        let live = model
            .after(&ops)
            .unwrap()
            .live(space)
            .iter()
            .any(|(live, _)| *live == key);
        let kind = match random.below(8) {
            0 if live => Kind::Delete,
            1 if live => Kind::Purge,
            _ => Kind::Put,
        };
        let mut body = noise(2000, random.below(2) as u32);
        let at = random.below(2000) as usize;
        body[at] ^= 1 + random.below(255) as u8;
        body.truncate(2000 - random.below(50) as usize);
        ops.push(Op { space, key, kind, body });
    }
    ops
}

fn open(disk: &Disk, options: Options, random: &mut Random) -> Store {
    // Often it begins its log anew after each commit or each few.
    let log_bytes = [0, 3000, 20_000, 16 << 20][random.below(4) as usize];
    let engine = disk.engine(options.cache_bytes).with_log_bytes(log_bytes);
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
            match random.below(12) {
                0 => store.finish_encoding().unwrap(),
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
            disk = disk.after_power_failure(&mut random);
        } else {
            // The failure comes while the encoder works.
            let failed = disk.after_power_failure(&mut random);
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
