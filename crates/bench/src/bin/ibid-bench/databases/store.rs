//! The record store of this project with its defaults or without deltas, compacted or as it keeps itself.

use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};

use anyhow::Result;
use ibid_record::engine::{Direction, Engine, Redb, Table};
use ibid_record::{Batch, Namespace, Options, Versions};

use super::input::Entry;
use super::subject::{CACHE_BYTES, Finished, Index, Load, Read, Subject};
use crate::files;

/// The name of the engine's file.
const FILE: &str = "redb";

pub(crate) struct Store {
    /// Whether older records become deltas of newer ones.
    pub(crate) deltas: bool,
    /// Whether it is compacted at the end.
    pub(crate) compacted: bool,
    /// Whether every version is a record of its own. Versions are not kept then: where they are
    /// kept, the latest version of a key never becomes a delta, and all would be latest versions.
    pub(crate) distinct: bool,
}

/// An open store and its namespace.
struct Opened {
    folder: PathBuf,
    compacted: bool,
    store: ibid_record::Store,
    records: Namespace,
}

impl Opened {
    /// The store has a folder of its own inside `folder`, because it may contain nothing else.
    fn new(folder: &Path, subject: &Store) -> Result<Box<Opened>> {
        let folder = folder.join("store");
        let mut options = Options::default();
        options.cache_bytes = CACHE_BYTES - options.frame_cache_bytes;
        options.encoding.enabled = subject.deltas;
        // The store is filled at full speed: deltas that cannot be written in time must cost time,
        // not bytes.
        options.encoding.lossy = false;
        let store = ibid_record::Store::open(&folder, options)?;
        let versions = if subject.distinct {
            Versions::Latest
        } else {
            Versions::Kept
        };
        let records = store.namespace("records", versions)?;
        Ok(Box::new(Opened {
            folder,
            compacted: subject.compacted,
            store,
            records,
        }))
    }
}

impl Subject for Store {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        Ok(Opened::new(folder, self)?)
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        Ok(Opened::new(folder, self)?)
    }
}

impl Load for Opened {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        let mut changes = Batch::new();
        for entry in batch {
            changes.put(&self.records, &entry.key, &entry.body);
        }
        self.store.commit(changes)?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        if self.compacted {
            self.store.compact(&mut |_| ControlFlow::Continue(()))?;
        } else {
            self.store.settle(&mut |_| ControlFlow::Continue(()))?;
            self.store.sync()?;
        }
        let report = self.store.encoding();
        Ok(Finished {
            // Measured before the store is closed, as for the other stores on this engine.
            disk_bytes: Some(files::occupied_bytes(&self.folder)?),
            index: (report.index_bytes > 0).then_some(Index {
                entries: report.index_entries,
                bytes: report.index_bytes,
            }),
        })
    }
}

impl Read for Opened {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.records.get(key)?)
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        Ok(match self.records.keeps() {
            Versions::Latest => self.records.get(key)?,
            Versions::Kept => self.records.get_version(key, version)?,
        })
    }

    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        let Opened {
            folder, store, records, ..
        } = *self;
        // The store closes when both are dropped; only one process can have its engine open.
        drop((store, records));
        let engine = Redb::open(&folder.join(FILE), CACHE_BYTES)?;
        let snapshot = engine.snapshot()?;
        let mut bytes = 0;
        for table in Table::ALL {
            let mut each = |_: &[u8], value: &[u8]| {
                bytes += value.len() as u64;
                ControlFlow::Continue(())
            };
            let everything = (Bound::Unbounded, Bound::Unbounded);
            snapshot.range(table, everything, Direction::Forward, &mut each)?;
        }
        Ok(Some(bytes))
    }
}
