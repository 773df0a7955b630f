//! A table of redb: key and version → the body, compressed on its own.

use std::path::{Path, PathBuf};

use anyhow::Result;
use redb::{Database, Key, ReadableDatabase, ReadableTable, TableDefinition};

use super::compressed::Codec;
use super::input::Entry;
use super::subject::{CACHE_BYTES, Finished, Load, Read, Subject};

/// Values under a key and a version.
pub(crate) type ByVersion = TableDefinition<'static, (&'static [u8], u32), &'static [u8]>;

const BODIES: ByVersion = TableDefinition::new("bodies");

/// The file name, as in the record store.
const FILE: &str = "redb";

/// Opens the database in a folder, or makes it.
pub(crate) fn database(folder: &Path, cache_bytes: usize) -> Result<Database> {
    let mut builder = Database::builder();
    builder.set_cache_size(cache_bytes);
    Ok(builder.create(folder.join(FILE))?)
}

/// Returns free pages of the database to the disk, which can be more than half of the file. Returns
/// the size of the file after that.
///
/// When redb closes the file, it may double the file to store the list of free pages. Whether it
/// does is unrelated to the contents, so it is not counted.
pub(crate) fn compacted(mut database: Database, folder: &Path) -> Result<Finished> {
    while database.compact()? {}
    let disk_bytes = Some(folder.join(FILE).metadata()?.len());
    Ok(Finished {
        disk_bytes,
        ..Finished::default()
    })
}

/// Returns the value under a key and a version, or without a version the one under the highest.
pub(crate) fn value(
    database: &Database,
    table: ByVersion,
    key: &[u8],
    version: Option<u32>,
) -> Result<Option<Vec<u8>>> {
    let table = database.begin_read()?.open_table(table)?;
    let found = match version {
        Some(version) => table.get((key, version))?,
        None => {
            let last = table.range((key, 0)..=(key, u32::MAX))?.next_back().transpose()?;
            last.map(|(_, value)| value)
        }
    };
    Ok(found.map(|value| value.value().to_owned()))
}

/// Returns the bytes of all values of a table.
pub(crate) fn value_bytes<K: Key>(
    database: &Database,
    table: TableDefinition<'static, K, &'static [u8]>,
) -> Result<u64> {
    let table = database.begin_read()?.open_table(table)?;
    table.iter()?.map(|pair| Ok(pair?.1.value().len() as u64)).sum()
}

pub(crate) struct Table;

struct Opened {
    folder: PathBuf,
    database: Database,
    codec: Codec,
}

impl Opened {
    fn new(folder: &Path) -> Result<Box<Opened>> {
        Ok(Box::new(Opened {
            folder: folder.to_owned(),
            database: database(folder, CACHE_BYTES)?,
            codec: Codec::new()?,
        }))
    }
}

impl Subject for Table {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        Ok(Opened::new(folder)?)
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        Ok(Opened::new(folder)?)
    }
}

impl Load for Opened {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        let transaction = self.database.begin_write()?;
        {
            let mut table = transaction.open_table(BODIES)?;
            for entry in batch {
                let stored = self.codec.compress(&entry.body)?;
                table.insert((&*entry.key, entry.version), &*stored)?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        compacted(self.database, &self.folder)
    }
}

impl Read for Opened {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let stored = value(&self.database, BODIES, key, None)?;
        stored.map(|stored| self.codec.decompress(&stored)).transpose()
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        let stored = value(&self.database, BODIES, key, Some(version))?;
        stored.map(|stored| self.codec.decompress(&stored)).transpose()
    }

    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        value_bytes(&self.database, BODIES).map(Some)
    }
}
