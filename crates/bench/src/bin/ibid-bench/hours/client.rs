//! A client of the store: it reads and writes keys of its own, and knows what they must have.

use std::collections::VecDeque;
use std::ops::Bound;
use std::time::Instant;

use anyhow::{Result, ensure};
use ibid_bench::Random;
use ibid_record::{Direction, Namespace, Versions};

use super::text::{edited, new_body};

/// Versions of a key that the store is told to keep.
pub(super) const KEPT: u32 = 20;
/// Of a hundred operations.
const LATEST: u64 = 55;
const ANY: u64 = 15;
const UPDATES: u64 = 25;
const SCANS: u64 = 1;
/// Keys that a scan reads.
const SCANNED: usize = 20;

/// What kind of operation was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Latest,
    Any,
    Commit,
    Scan,
}

/// A version of a key.
struct Known {
    check: u64,
    bytes: u64,
}

/// A key that is there.
struct Key {
    name: Vec<u8>,
    /// The number of its latest version.
    version: u32,
    /// Its last versions, the latest at the end.
    known: VecDeque<Known>,
}

pub(super) struct Client {
    records: Namespace,
    random: Random,
    number: u64,
    keys: Vec<Key>,
    /// Keys that there ever were.
    named: u64,
    /// Bytes of all bodies that can be read.
    pub(super) body_bytes: u64,
}

fn check(body: &[u8]) -> u64 {
    let hash = blake3::hash(body);
    let (first, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    u64::from_le_bytes(*first)
}

impl Client {
    pub(super) fn new(records: Namespace, seed: u64, number: u64) -> Self {
        Client {
            records,
            random: Random::stream(seed, number),
            number,
            keys: Vec::new(),
            named: 0,
            body_bytes: 0,
        }
    }

    /// Stores keys with a few versions each.
    pub(super) fn begin(&mut self, keys: u64) -> Result<()> {
        for _ in 0..keys {
            self.insert()?;
            for _ in 0..self.random.below(8) {
                self.update(self.keys.len() - 1)?;
            }
        }
        Ok(())
    }

    /// Does one operation. Returns what it was, and when it was done: what was read is compared after that.
    pub(super) fn operate(&mut self) -> Result<(Kind, Instant)> {
        let key = self.random.below(self.keys.len() as u64) as usize;
        let choice = self.random.below(100);
        if choice < LATEST {
            return self.read_latest(key);
        }
        if choice < LATEST + ANY {
            return self.read_any(key);
        }
        if choice < LATEST + ANY + UPDATES {
            return self.update(key);
        }
        if choice < LATEST + ANY + UPDATES + SCANS {
            return self.scan(key);
        }
        // As many keys come as go.
        if self.random.below(2) == 0 {
            return self.insert();
        }
        let gone = self.keys.swap_remove(key);
        self.records.purge(&gone.name)?;
        let done = Instant::now();
        self.body_bytes -= gone.known.iter().map(|known| known.bytes).sum::<u64>();
        if self.keys.is_empty() {
            self.insert()?;
        }
        Ok((Kind::Commit, done))
    }

    fn insert(&mut self) -> Result<(Kind, Instant)> {
        self.named += 1;
        let name = format!("client {}/{:08x}", self.number, self.named).into_bytes();
        let body = new_body(&mut self.random);
        self.records.insert(&name, &body)?;
        let done = Instant::now();
        self.keys.push(Key {
            name,
            version: 0,
            known: VecDeque::new(),
        });
        self.note(self.keys.len() - 1, &body);
        Ok((Kind::Commit, done))
    }

    fn update(&mut self, key: usize) -> Result<(Kind, Instant)> {
        let found = self.records.get(&self.keys[key].name)?;
        let body = self.expect(key, 0, found)?;
        let next = edited(&mut self.random, &body);
        self.records.update(&self.keys[key].name, &next)?;
        let done = Instant::now();
        self.note(key, &next);
        Ok((Kind::Commit, done))
    }

    fn read_latest(&mut self, key: usize) -> Result<(Kind, Instant)> {
        let found = self.records.get(&self.keys[key].name)?;
        let done = Instant::now();
        self.expect(key, 0, found)?;
        Ok((Kind::Latest, done))
    }

    fn read_any(&mut self, key: usize) -> Result<(Kind, Instant)> {
        let Key { name, version, known } = &self.keys[key];
        let before = self.random.below(known.len() as u64) as usize;
        let found = self.records.get_version(name, version - before as u32)?;
        let done = Instant::now();
        self.expect(key, before, found)?;
        Ok((Kind::Any, done))
    }

    fn scan(&mut self, key: usize) -> Result<(Kind, Instant)> {
        let range = (Bound::Included(&self.keys[key].name[..]), Bound::Unbounded);
        let found = self.records.scan(range, Direction::Forward)?.take(SCANNED);
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let done = Instant::now();
        let first = found.into_iter().next().map(|record| record.body);
        self.expect(key, 0, first)?;
        Ok((Kind::Scan, done))
    }

    /// Fails unless a body is that of the version so many before the latest.
    fn expect(&self, key: usize, before: usize, found: Option<Vec<u8>>) -> Result<Vec<u8>> {
        let Key { name, version, known } = &self.keys[key];
        let expected = &known[known.len() - 1 - before];
        let found = found.filter(|body| check(body) == expected.check);
        let version = *version as usize - before;
        ensure!(
            found.is_some(),
            "{} {version} is not what was stored",
            name.escape_ascii()
        );
        Ok(found.unwrap_or_default())
    }

    /// Notes a new version, and that the store may remove another one.
    fn note(&mut self, key: usize, body: &[u8]) {
        let Key { version, known, .. } = &mut self.keys[key];
        *version += 1;
        known.push_back(Known {
            check: check(body),
            bytes: body.len() as u64,
        });
        self.body_bytes += body.len() as u64;
        if known.len() > KEPT as usize
            && let Some(gone) = known.pop_front()
        {
            self.body_bytes -= gone.bytes;
        }
    }

    /// Fails unless every version of every key is what was stored.
    pub(super) fn compare_all(&self) -> Result<()> {
        ensure!(self.records.keeps() == Versions::Kept, "versions are not kept");
        for (key, Key { name, version, known }) in self.keys.iter().enumerate() {
            for before in 0..known.len() {
                let found = self.records.get_version(name, version - before as u32)?;
                self.expect(key, before, found)?;
            }
        }
        Ok(())
    }
}
