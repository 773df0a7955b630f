//! SQLite: a row for each version, or blocks of versions.

mod blocks;
mod rows;

use std::path::Path;

use anyhow::Result;
pub(crate) use blocks::InBlocks;
pub(crate) use rows::Rows;
use rusqlite::{Connection, OptionalExtension, Params};

use super::compressed::Codec;
use super::subject::Finished;

// `rowid` tables keep large rows out of the tree that is searched.
const TABLE: &str = "CREATE TABLE records (key BLOB, version INTEGER, body BLOB, PRIMARY KEY (key, version))";
const INSERT: &str = "INSERT INTO records VALUES (?1, ?2, ?3)";
const LATEST: &str = "SELECT body FROM records WHERE key = ?1 ORDER BY version DESC LIMIT 1";
const VERSION: &str = "SELECT body FROM records WHERE key = ?1 AND version = ?2";
const VALUE_BYTES: &str = "SELECT coalesce(sum(length(body)), 0) FROM records";

fn connect(folder: &Path, cache_bytes: usize) -> Result<Connection> {
    let connection = Connection::open(folder.join("sqlite"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // Every transaction is on disk when it returns, as with the other stores.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Negative values are KiB.
    connection.pragma_update(None, "cache_size", -((cache_bytes >> 10) as i64))?;
    Ok(connection)
}

fn version() -> String {
    format!("SQLite {}", rusqlite::version())
}

/// Returns the value in the first row that a query finds, decompressed.
fn body(connection: &Connection, codec: &mut Codec, query: &str, parameters: impl Params) -> Result<Option<Vec<u8>>> {
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query(parameters)?;
    let Some(row) = rows.next()? else { return Ok(None) };
    codec.decompress(row.get_ref(0)?.as_blob()?).map(Some)
}

/// Returns the number that a query finds.
fn bytes(connection: &Connection, query: &str) -> Result<u64> {
    let bytes: i64 = connection.query_row(query, [], |row| row.get(0))?;
    Ok(bytes.try_into()?)
}

/// Returns free pages to the disk, and closes.
fn finish(connection: Connection) -> Result<Finished> {
    connection.execute_batch("VACUUM")?;
    // The statement returns a row, which `execute_batch` would not accept.
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .optional()?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(Finished::default())
}
