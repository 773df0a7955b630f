//! PostgreSQL: a row for each version; long bodies are compressed by lz4 and stored beside the
//! table (TOAST).

mod cluster;
mod wire;

use std::path::Path;

use anyhow::{Context, Result};
use cluster::{Programs, Server};
use wire::{Client, Column};

use super::input::Entry;
use super::subject::{Finished, Load, Read, Subject};

const TABLE: &str = "CREATE TABLE records (key bytea, version int, body bytea, PRIMARY KEY (key, version))";
const INSERT: &str = "INSERT INTO records VALUES ($1, $2, $3)";
const LATEST: &str = "SELECT body FROM records WHERE key = $1 ORDER BY version DESC LIMIT 1";
const VERSION: &str = "SELECT body FROM records WHERE key = $1 AND version = $2";
/// Bytes of rows, TOAST and indexes.
const DISK_BYTES: &str = "SELECT pg_total_relation_size('records')";
/// Bytes of bodies as compressed.
const VALUE_BYTES: &str = "SELECT coalesce(sum(pg_column_size(body)), 0)::bigint FROM records";

pub(crate) struct Postgres;

/// A running server and its client. The connection ends before the server.
struct Opened {
    client: Client,
    server: Server,
}

impl Opened {
    fn new(programs: &Programs, folder: &Path) -> Result<Box<Opened>> {
        let mut server = programs.start(folder)?;
        let client = server.connect()?;
        Ok(Box::new(Opened { client, server }))
    }

    fn body(&mut self, statement: &str, parameters: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        self.client.execute(statement, parameters);
        Ok(self.client.commit()?.pop())
    }
}

fn number(column: Column) -> Result<u64> {
    let value = column.into_iter().next().context("no row")?;
    let value = <[u8; 8]>::try_from(value).ok().context("no bigint")?;
    Ok(u64::from_be_bytes(value))
}

impl Subject for Postgres {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        let programs = Programs::find()?;
        programs.create(folder)?;
        let mut opened = Opened::new(&programs, folder)?;
        opened.client.run(TABLE)?;
        opened.client.prepare("insert", INSERT)?;
        Ok(opened)
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        let mut opened = Opened::new(&Programs::find()?, folder)?;
        opened.client.prepare("latest", LATEST)?;
        opened.client.prepare("version", VERSION)?;
        Ok(opened)
    }

    fn version(&self) -> Result<Option<String>> {
        Programs::find()?.version().map(Some)
    }
}

impl Load for Opened {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        for entry in batch {
            let version = entry.version.to_be_bytes();
            self.client.execute("insert", &[&entry.key, &version, &entry.body]);
        }
        self.client.commit()?;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        let Opened { mut client, server } = *self;
        client.run("VACUUM FULL records")?;
        client.run("CHECKPOINT")?;
        let disk_bytes = Some(number(client.run(DISK_BYTES)?)?);
        server.stop()?;
        Ok(Finished {
            disk_bytes,
            ..Finished::default()
        })
    }
}

impl Read for Opened {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.body("latest", &[key])
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        self.body("version", &[key, &version.to_be_bytes()])
    }

    fn value_bytes(mut self: Box<Self>) -> Result<Option<u64>> {
        number(self.client.run(VALUE_BYTES)?).map(Some)
    }
}
