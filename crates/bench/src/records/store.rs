//! The record store of this project, as it is by default, or without deduplication.

use super::input::Entry;
use super::subject::{CACHE_BYTES, Finished, Index, Load, Read, Subject};
use super::table;
use anyhow::Result;
use ibid_record::{Batch, Namespace, Options, Versions};
use std::path::{Path, PathBuf};

pub(crate) struct Store {
    /// Whether older records become deltas of newer ones.
    pub(crate) deltas: bool,
    /// Whether every version is a record of its own. Where versions are kept the latest of a key is never made a delta, and
    /// then all would be latest ones.
    pub(crate) distinct: bool,
}

/// What both halves hold.
struct Opened {
    folder: PathBuf,
    store: ibid_record::Store,
    records: Namespace,
}

impl Opened {
    /// The folder itself may hold nothing else, so the store has one of its own in it.
    fn new(folder: &Path, subject: &Store) -> Result<Box<Opened>> {
        let folder = folder.join("store");
        let mut options = Options::default();
        options.encoding.on = subject.deltas;
        let store = ibid_record::Store::open(&folder, options)?;
        let versions = if subject.distinct {
            Versions::Latest
        } else {
            Versions::Kept
        };
        let records = store.namespace("records", versions)?;
        Ok(Box::new(Opened { folder, store, records }))
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

    /// The store has no call that gives back what its file holds free. The other subjects on redb give theirs back, so that of the
    /// store, the file `redb` in its folder, is compacted behind its back.
    fn finish(self: Box<Self>) -> Result<Finished> {
        let Opened { folder, store, records } = *self;
        store.finish_encoding()?;
        let report = store.encoding();
        // The store closes with the last of the two.
        drop((store, records));
        let finished = table::compacted(table::database(&folder, CACHE_BYTES)?, &folder)?;
        let index = (report.index_bytes > 0).then_some(Index {
            entries: report.index_entries,
            bytes: report.index_bytes,
        });
        Ok(Finished { index, ..finished })
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

    fn value_bytes(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
}
