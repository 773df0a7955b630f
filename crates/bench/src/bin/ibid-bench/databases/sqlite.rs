//! SQLite: a row for each version, with each body compressed on its own.

use std::path::Path;

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, Params};

use super::compressed::Codec;
use super::input::Entry;
use super::subject::{CACHE_BYTES, Finished, Load, Read, Subject};

// `rowid` tables keep large rows out of the tree that is searched.
const TABLE: &str = "CREATE TABLE records (key BLOB, version INTEGER, body BLOB, PRIMARY KEY (key, version))";
const INSERT: &str = "INSERT INTO records VALUES (?1, ?2, ?3)";
const LATEST: &str = "SELECT body FROM records WHERE key = ?1 ORDER BY version DESC LIMIT 1";
const VERSION: &str = "SELECT body FROM records WHERE key = ?1 AND version = ?2";
const VALUE_BYTES: &str = "SELECT coalesce(sum(length(body)), 0) FROM records";

pub(crate) struct Sqlite;

struct Opened {
    connection: Connection,
    codec: Codec,
}

impl Opened {
    fn new(folder: &Path) -> Result<Box<Opened>> {
        let connection = Connection::open(folder.join("sqlite"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // Every transaction is on disk when it returns, as with the other stores.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Negative values are KiB.
        connection.pragma_update(None, "cache_size", -((CACHE_BYTES >> 10) as i64))?;
        let codec = Codec::new()?;
        Ok(Box::new(Opened { connection, codec }))
    }

    fn body(&mut self, query: &str, parameters: impl Params) -> Result<Option<Vec<u8>>> {
        let mut statement = self.connection.prepare_cached(query)?;
        let mut rows = statement.query(parameters)?;
        let Some(row) = rows.next()? else { return Ok(None) };
        self.codec.decompress(row.get_ref(0)?.as_blob()?).map(Some)
    }
}

impl Subject for Sqlite {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        let opened = Opened::new(folder)?;
        opened.connection.execute(TABLE, [])?;
        Ok(opened)
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        Ok(Opened::new(folder)?)
    }

    fn version(&self) -> Result<Option<String>> {
        Ok(Some(format!("SQLite {}", rusqlite::version())))
    }
}

impl Load for Opened {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        let transaction = self.connection.transaction()?;
        {
            let mut statement = transaction.prepare_cached(INSERT)?;
            for entry in batch {
                statement.execute((&entry.key, entry.version, self.codec.compress(&entry.body)?))?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        self.connection.execute_batch("VACUUM")?;
        // The statement returns a row, which `execute_batch` would not accept.
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .optional()?;
        self.connection.close().map_err(|(_, error)| error)?;
        Ok(Finished::default())
    }
}

impl Read for Opened {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.body(LATEST, [key])
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        self.body(VERSION, (key, version))
    }

    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        let bytes: i64 = self.connection.query_row(VALUE_BYTES, [], |row| row.get(0))?;
        Ok(Some(bytes.try_into()?))
    }
}
