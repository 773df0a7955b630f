//! LMDB: key and version → the body, compressed on its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use heed::types::Bytes;
use heed::{CompactionOption, Database, Env, EnvOpenOptions};

use super::compressed::Codec;
use super::input::Entry;
use super::ordered::{place, prefix};
use super::subject::{Finished, Load, Read, Subject};

/// Addresses that are set aside for the file, which can have no more bytes. They cost nothing.
const MAP_BYTES: usize = 64 << 30;
/// The file name, which LMDB gives.
const FILE: &str = "data.mdb";

pub(crate) struct Lmdb;

/// An open file. LMDB has no cache but the system's.
struct Opened {
    folder: PathBuf,
    environment: Env,
    bodies: Database<Bytes, Bytes>,
    codec: Codec,
}

#[allow(unsafe_code)]
fn environment(folder: &Path) -> Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES);
    // SAFETY: The file is mapped into memory, so no other program may change it. It is in a folder that
    // this program has just made for this store, one process after the other opens it, and LMDB's own
    // locks are not switched off.
    Ok(unsafe { options.open(folder) }?)
}

impl Opened {
    fn new(folder: &Path) -> Result<Box<Opened>> {
        let environment = environment(folder)?;
        let mut transaction = environment.write_txn()?;
        let bodies = environment.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Box::new(Opened {
            folder: folder.to_owned(),
            environment,
            bodies,
            codec: Codec::new()?,
        }))
    }
}

impl Subject for Lmdb {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        Ok(Opened::new(folder)?)
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        Ok(Opened::new(folder)?)
    }

    fn version(&self) -> Result<Option<String>> {
        let version = heed::lmdb_version();
        Ok(Some(format!(
            "LMDB {}.{}.{}",
            version.major, version.minor, version.patch
        )))
    }
}

impl Load for Opened {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        let mut transaction = self.environment.write_txn()?;
        for entry in batch {
            let (place, stored) = (place(&entry.key, entry.version), self.codec.compress(&entry.body)?);
            let put = self.bodies.put(&mut transaction, &place, &stored);
            put.with_context(|| format!("storing {} {}", entry.key.escape_ascii(), entry.version))?;
        }
        Ok(transaction.commit()?)
    }

    /// Writes a copy without free pages in place of the file, which never shrinks.
    fn finish(self: Box<Self>) -> Result<Finished> {
        let compacted = self.folder.join("compacted.mdb");
        let copy = self.environment.copy_to_path(&compacted, CompactionOption::Enabled)?;
        copy.sync_all()?;
        self.environment.prepare_for_closing().wait();
        std::fs::rename(&compacted, self.folder.join(FILE))?;
        Ok(Finished::default())
    }
}

impl Read for Opened {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.environment.read_txn()?;
        let prefix = prefix(key);
        let found = self.bodies.get_greater_than_or_equal_to(&transaction, &prefix)?;
        let of_key = found.filter(|(place, _)| place.starts_with(&prefix));
        of_key.map(|(_, stored)| self.codec.decompress(stored)).transpose()
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        let transaction = self.environment.read_txn()?;
        let found = self.bodies.get(&transaction, &place(key, version))?;
        found.map(|stored| self.codec.decompress(stored)).transpose()
    }

    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        let transaction = self.environment.read_txn()?;
        let bytes = self.bodies.iter(&transaction)?.map(|pair| Ok(pair?.1.len() as u64));
        bytes.sum::<Result<u64>>().map(Some)
    }
}
