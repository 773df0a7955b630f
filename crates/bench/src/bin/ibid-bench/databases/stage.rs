//! The stages that run in a process of their own: filling a store, or reading it and comparing it
//! with the file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use ibid_bench::Random;
use serde::{Deserialize, Serialize};

use super::input::Input;
use super::kind::Kind;
use super::subject::{Finished, Index, Read};
use crate::files;
use crate::measure::{read_json, write_json};
use crate::statistics::{Latency, microseconds};

/// A stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    Load,
    Read,
}

/// The order for the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) stage: Stage,
    pub(crate) subject: Kind,
    pub(crate) file: PathBuf,
    pub(crate) distinct: bool,
    pub(crate) reads: u32,
    /// The folder of the store.
    pub(crate) folder: PathBuf,
    /// The file for the answer.
    pub(crate) answer: PathBuf,
}

/// Runs the order in a file.
pub(crate) fn run(order: &Path) -> Result<()> {
    let order: Order = read_json(order)?;
    let what = || format!("{:?} {}", order.stage, order.subject.name());
    match order.stage {
        Stage::Load => write_json(&order.answer, &order.load().with_context(what)?),
        Stage::Read => write_json(&order.answer, &order.read().with_context(what)?),
    }
}

/// The result of loading.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Loaded {
    pub(crate) records: u64,
    pub(crate) keys: u64,
    pub(crate) body_bytes: u64,
    /// Seconds in the store alone, without reading the file.
    pub(crate) insert_s: f64,
    /// Seconds of finishing.
    pub(crate) finish_s: f64,
    pub(crate) disk_bytes: u64,
    /// The most that there was on disk after a transaction, or when all was finished.
    pub(crate) disk_bytes_max: u64,
    pub(crate) index: Option<Index>,
}

/// The result of reading.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ReadBack {
    pub(crate) value_bytes: Option<u64>,
    pub(crate) latency: Option<Latency>,
    pub(crate) latency_of_any: Option<Latency>,
}

impl Order {
    fn load(&self) -> Result<Loaded> {
        let subject = self.subject.subject(self.distinct);
        let mut store = subject.map(|subject| subject.create(&self.folder)).transpose()?;
        let mut input = Input::open(&self.file, self.distinct)?;
        let (mut records, mut body_bytes, mut insert_s, mut disk_bytes_max) = (0, 0, 0.0, 0);
        loop {
            let batch = input.next_batch()?;
            if batch.is_empty() {
                break;
            }
            records += batch.len() as u64;
            body_bytes += batch.iter().map(|entry| entry.body.len() as u64).sum::<u64>();
            if let Some(store) = &mut store {
                let start = Instant::now();
                store.load(&batch)?;
                insert_s += start.elapsed().as_secs_f64();
                disk_bytes_max = disk_bytes_max.max(files::occupied_bytes(&self.folder)?);
            }
        }
        let start = Instant::now();
        let finished = store.map_or_else(|| Ok(Finished::default()), |store| store.finish())?;
        let finish_s = start.elapsed().as_secs_f64();
        let all_bytes = files::occupied_bytes(&self.folder)?;
        Ok(Loaded {
            records,
            keys: input.into_keys().len() as u64,
            body_bytes,
            insert_s,
            finish_s,
            disk_bytes: finished.disk_bytes.unwrap_or(all_bytes),
            disk_bytes_max: disk_bytes_max.max(all_bytes),
            index: finished.index,
        })
    }

    fn read(&self) -> Result<ReadBack> {
        let subject = self.subject.subject(self.distinct).context("nothing is stored by it")?;
        let mut store = subject.open(&self.folder)?;
        let keys = self.keys()?;
        let (mut latency, mut latency_of_any) = (None, None);
        if self.subject.has_keys() {
            latency = Some(self.latency(&mut *store, &keys)?);
            latency_of_any = Some(self.latency_of_any(&mut *store)?);
        }
        self.compare(&mut *store, &keys)?;
        let value_bytes = store.value_bytes()?;
        Ok(ReadBack {
            value_bytes,
            latency,
            latency_of_any,
        })
    }

    /// Returns all keys with their numbers of versions, sorted.
    fn keys(&self) -> Result<Vec<(Vec<u8>, u32)>> {
        let mut input = Input::open(&self.file, self.distinct)?;
        while input.next()?.is_some() {}
        Ok(input.into_keys())
    }

    /// Measures reads of the latest versions of random records, which are the same for every
    /// subject.
    fn latency(&self, store: &mut dyn Read, keys: &[(Vec<u8>, u32)]) -> Result<Latency> {
        ensure!(!keys.is_empty(), "no records are in {}", self.file.display());
        self.times(keys, |(key, _)| {
            let found = store.latest(key)?;
            ensure!(found.is_some(), "{} is not there", key.escape_ascii());
            Ok(())
        })
    }

    /// Measures reads of random versions, each as likely as any other of the file.
    fn latency_of_any(&self, store: &mut dyn Read) -> Result<Latency> {
        let mut input = Input::open(&self.file, self.distinct)?;
        let mut all = Vec::new();
        while let Some(entry) = input.next()? {
            all.push((entry.key, entry.version));
        }
        self.times(&all, |(key, version)| {
            let found = store.version(key, *version)?;
            ensure!(found.is_some(), "{} {version} is not there", key.escape_ascii());
            Ok(())
        })
    }

    /// Measures a read of each of so many random ones.
    fn times<T>(&self, of: &[T], mut read: impl FnMut(&T) -> Result<()>) -> Result<Latency> {
        let mut random = Random::new(1);
        let mut took_us = Vec::new();
        for _ in 0..self.reads {
            let chosen = &of[random.below(of.len() as u64) as usize];
            let start = Instant::now();
            read(chosen)?;
            took_us.push(microseconds(start.elapsed()));
        }
        Ok(Latency::of(&took_us))
    }

    /// Fails unless every version of every record equals that of the file, and each latest one is
    /// the last there.
    fn compare(&self, store: &mut dyn Read, keys: &[(Vec<u8>, u32)]) -> Result<()> {
        let mut input = Input::open(&self.file, self.distinct)?;
        while let Some(entry) = input.next()? {
            let (key, version) = (&entry.key, entry.version);
            let is = |found: Option<Vec<u8>>, what: &str| {
                let same = found.as_ref() == Some(&entry.body);
                ensure!(
                    same,
                    "{} {version}, read {what}, is not what was stored",
                    key.escape_ascii()
                );
                Ok(())
            };
            is(store.version(key, version)?, "by its version")?;
            let last = keys.binary_search_by_key(&key, |(key, _)| key).map(|at| keys[at].1);
            if self.subject.has_keys() && last == Ok(version) {
                is(store.latest(key)?, "as the latest")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of one record with two versions, `one` and `two`, that returns other bytes on
    /// request.
    struct Wrong {
        version: Option<u32>,
        latest: bool,
    }

    impl Read for Wrong {
        fn latest(&mut self, _: &[u8]) -> Result<Option<Vec<u8>>> {
            Ok(Some(if self.latest { b"one".to_vec() } else { b"two".to_vec() }))
        }

        fn version(&mut self, _: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
            let body = if version == 1 { b"one".to_vec() } else { b"two".to_vec() };
            Ok((self.version != Some(version)).then_some(body))
        }

        fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
            Ok(None)
        }
    }

    #[test]
    fn a_record_that_comes_back_with_other_bytes_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.jsonl");
        let lines = ["one", "two"].map(|body| format!("{{\"key\":\"a\",\"rev\":1,\"body\":\"{body}\"}}\n"));
        std::fs::write(&file, lines.concat()).unwrap();
        let order = Order {
            stage: Stage::Read,
            subject: Kind::Plain,
            file,
            distinct: false,
            reads: 1,
            folder: folder.path().to_owned(),
            answer: folder.path().join("answer"),
        };
        let keys = order.keys().unwrap();
        let compare = |version, latest| order.compare(&mut Wrong { version, latest }, &keys);
        compare(None, false).unwrap();
        let said = |result: Result<()>| result.unwrap_err().to_string();
        assert_eq!(
            said(compare(Some(1), false)),
            "a 1, read by its version, is not what was stored"
        );
        assert_eq!(
            said(compare(Some(2), false)),
            "a 2, read by its version, is not what was stored"
        );
        assert_eq!(
            said(compare(None, true)),
            "a 2, read as the latest, is not what was stored"
        );
    }
}
