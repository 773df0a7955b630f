//! Random calls beside a map, while connections are lost at random and puts land late.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

use ibid_storage::{Error, ErrorKind, Memory, Name, Storage};

use crate::{Cut, Host, Random, name, noise, objects};

/// A storage that takes its time now and then, so that what a lost connection has asked for is done after what the next
/// one asks for.
struct Late {
    memory: Memory,
    calls: AtomicU64,
}

impl Late {
    fn wait(&self) {
        let call = self.calls.fetch_add(1, Relaxed);
        if call % 7 == 3 {
            sleep(Duration::from_millis(call % 4));
        }
    }
}

impl Storage for Late {
    fn put(&self, name: &Name, parts: &[&[u8]]) -> Result<(), Error> {
        self.wait();
        self.memory.put(name, parts)
    }

    fn get(&self, name: &Name, limit: u64) -> Result<Vec<u8>, Error> {
        self.wait();
        self.memory.get(name, limit)
    }

    fn read_at(&self, name: &Name, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        self.memory.read_at(name, offset, buffer)
    }

    fn size(&self, name: &Name) -> Result<u64, Error> {
        self.memory.size(name)
    }

    fn list(&self, folder: &str, each: &mut dyn FnMut(Name, u64)) -> Result<(), Error> {
        self.memory.list(folder, each)
    }

    fn settle(&self, name: &Name) -> Result<(), Error> {
        self.memory.settle(name)
    }

    fn delete(&self, name: &Name) -> Result<(), Error> {
        self.wait();
        self.memory.delete(name)
    }

    fn location(&self) -> String {
        self.memory.location()
    }
}

/// Makes random calls with names of its own; compares each answer with a map, which is returned.
fn thread(client: &dyn Storage, own: u64, random: &mut Random) -> BTreeMap<String, Vec<u8>> {
    let mut stored: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for step in 0..60 {
        let fresh = format!("t{own}/{step}");
        let at = random.below(stored.len().max(1) as u64) as usize;
        let some = stored.iter().nth(at).map(|(name, bytes)| (name.clone(), bytes.clone()));
        match (random.below(10), some) {
            (0..4, _) | (_, None) => {
                let length = [0, 5, 700, 70_000, 200_000][random.below(5) as usize];
                let bytes = noise(length, own * 1000 + step);
                let (a, b) = bytes.split_at(length / 3);
                client.put(&name(&fresh), &[a, b]).unwrap();
                stored.insert(fresh, bytes);
            }
            (4, Some((taken, _))) => {
                let error = client.put(&name(&taken), &[b"others"]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
            }
            (5 | 6, Some((taken, bytes))) => assert!(client.get(&name(&taken), 1 << 20).unwrap() == bytes, "{taken}"),
            (7, Some((taken, bytes))) => {
                let from = random.below(bytes.len() as u64 + 1) as usize;
                let mut part = vec![0; random.below((bytes.len() - from) as u64 + 1) as usize];
                client.read_at(&name(&taken), from as u64, &mut part).unwrap();
                assert!(part == bytes[from..from + part.len()], "{taken}");
            }
            (8, Some((taken, bytes))) => {
                client.delete(&name(&taken)).unwrap();
                stored.remove(&taken);
                // An earlier try to store it may come late, and bring back what was stored.
                match client.size(&name(&taken)) {
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound),
                    Ok(size) => assert_eq!(size, bytes.len() as u64, "{taken}"),
                }
            }
            (_, Some((taken, bytes))) => {
                assert_eq!(client.size(&name(&taken)).unwrap(), bytes.len() as u64);
                client.settle(&name(&taken)).unwrap();
                let mut listed = BTreeMap::new();
                client
                    .list(&format!("t{own}"), &mut |name, size| {
                        let last = listed.insert(name.to_string(), size);
                        assert_eq!(last, None, "{name} was listed twice");
                    })
                    .unwrap();
                // What was deleted may be there again where an earlier try to store it comes late: names are used once.
                for (name, bytes) in &stored {
                    assert_eq!(listed.get(name), Some(&(bytes.len() as u64)), "{name}");
                }
            }
        }
    }
    stored
}

#[test]
fn no_acknowledged_byte_is_lost_in_bad_weather() {
    let mut again = 0;
    for seed in 0..6 {
        let mut random = Random::new(seed + 1);
        let memory = Memory::new();
        let host = Host::new(Late {
            memory: memory.clone(),
            calls: AtomicU64::new(seed),
        });
        // Most connections live for a while, some hardly, and the last one for good.
        let cuts = (0..12).map(|_| {
            let range = [100, 2000, 600_000][random.below(3) as usize];
            let at = 40 + random.below(range);
            match random.below(2) {
                0 => Cut::up(at),
                _ => Cut::down(at),
            }
        });
        let cuts: Vec<Cut> = cuts.collect();
        host.cut(cuts);
        let client = Arc::new(host.client());
        let stored: Vec<BTreeMap<String, Vec<u8>>> = std::thread::scope(|scope| {
            let run = |own| {
                let (client, mut random) = (client.clone(), Random::new(seed * 31 + own + 1));
                scope.spawn(move || thread(&*client, own, &mut random))
            };
            let threads: Vec<_> = (0..4).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        again += client.requests().again;
        let found: BTreeMap<String, Vec<u8>> = objects(&memory).into_iter().collect();
        for (name, bytes) in stored.into_iter().flatten() {
            assert!(found.get(&name) == Some(&bytes), "seed {seed}: {name}");
        }
    }
    assert!(again > 50, "{again} requests were made again: the weather was too good");
}
