//! The record store of this project, as it is by default.

use super::input::Entry;
use super::subject::{CACHE_BYTES, Finished, Load, Read, Subject};
use super::table;
use anyhow::Result;
use ibid_record::{Batch, Namespace, Options, Versions};
use std::path::{Path, PathBuf};

pub(crate) struct Store;

/// What both halves hold.
struct Opened {
    folder: PathBuf,
    store: ibid_record::Store,
    records: Namespace,
}

impl Opened {
    /// The folder itself may hold nothing else, so the store has one of its own in it.
    fn new(folder: &Path) -> Result<Box<Opened>> {
        let folder = folder.join("store");
        let store = ibid_record::Store::open(&folder, Options::default())?;
        let records = store.namespace("records", Versions::Kept)?;
        Ok(Box::new(Opened { folder, store, records }))
    }
}

impl Subject for Store {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        Ok(Opened::new(folder)?)
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        Ok(Opened::new(folder)?)
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
        // The store closes with the last of the two.
        drop((store, records));
        table::compacted(table::database(&folder, CACHE_BYTES)?, &folder)
    }
}

impl Read for Opened {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.records.get(key)?)
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        Ok(self.records.get_version(key, version)?)
    }

    fn value_bytes(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
}
