//! Blocks of the versions of a key, compressed together. The latest version is a row, so that it is
//! read as fast as without blocks; older ones are rows until they fill a block.

use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ibid_format::wire::{self, Reader};
use rusqlite::Connection;

use super::{INSERT, LATEST, TABLE, VALUE_BYTES, VERSION, body, bytes, connect, finish, version};
use crate::databases::compressed::Codec;
use crate::databases::input::Entry;
use crate::databases::line::KEPT_BYTES;
use crate::databases::subject::{CACHE_BYTES, Finished, Load, Read, Subject};

const BLOCK_TABLE: &str = "CREATE TABLE blocks (key BLOB, number INTEGER, bodies BLOB, PRIMARY KEY (key, number))";
const INSERT_BLOCK: &str = "INSERT INTO blocks VALUES (?1, ?2, ?3)";
const BLOCK: &str = "SELECT bodies FROM blocks WHERE key = ?1 AND number = ?2";
const BLOCK_VALUE_BYTES: &str = "SELECT coalesce(sum(length(bodies)), 0) FROM blocks";
const ROWS: &str = "SELECT body FROM records WHERE key = ?1 AND version BETWEEN ?2 AND ?3 ORDER BY version";
const DELETE: &str = "DELETE FROM records WHERE key = ?1 AND version BETWEEN ?2 AND ?3";
const LAST_VERSIONS: &str = "SELECT key, max(version) FROM records GROUP BY key HAVING count(*) > 1";

/// Versions of a block at most.
const VERSIONS: u32 = 16;

pub(crate) struct InBlocks;

struct Writer {
    connection: Connection,
    rows: Codec,
    blocks: Codec,
}

/// Keeps the blocks that were read last.
struct Reading {
    connection: Connection,
    codec: Codec,
    kept: HashMap<Name, Block>,
    /// The names of the kept blocks, oldest first.
    order: VecDeque<Name>,
    kept_bytes: usize,
}

/// A key and the number of one of its blocks.
type Name = (Vec<u8>, u32);

/// Returns the number of the block in which a version is when it is no longer a row.
fn block_of(version: u32) -> u32 {
    (version - 1) / VERSIONS
}

/// The versions of a block, from the first on.
struct Block {
    bodies: Vec<u8>,
    /// Where each body ends.
    ends: Vec<usize>,
}

impl Block {
    fn encode(bodies: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_varint(&mut out, bodies.len() as u64);
        for body in bodies {
            wire::put_varint(&mut out, body.len() as u64);
        }
        out.extend(bodies.concat());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Block> {
        let mut reader = Reader::new(bytes);
        let (mut end, mut ends) = (0, Vec::new());
        for _ in 0..reader.varint_in("count", 1, u64::from(VERSIONS))? {
            end += reader.varint_in("length", 0, bytes.len() as u64)? as usize;
            ends.push(end);
        }
        let bodies = reader.rest().to_vec();
        ensure!(bodies.len() == end, "a block has not the bytes of its versions");
        Ok(Block { bodies, ends })
    }

    fn body(&self, version: u32) -> Option<&[u8]> {
        let at = ((version - 1) % VERSIONS) as usize;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bodies.get(begin..*self.ends.get(at)?)
    }
}

impl Writer {
    /// Makes a block of rows. Their versions are the first ones of a block.
    fn pack(&mut self, key: &[u8], versions: RangeInclusive<u32>) -> Result<()> {
        let which = (key, versions.start(), versions.end());
        let mut bodies = Vec::new();
        let mut select = self.connection.prepare_cached(ROWS)?;
        let mut rows = select.query(which)?;
        while let Some(row) = rows.next()? {
            bodies.push(self.rows.decompress(row.get_ref(0)?.as_blob()?)?);
        }
        let block = self.blocks.compress(&Block::encode(&bodies))?;
        let mut insert = self.connection.prepare_cached(INSERT_BLOCK)?;
        insert.execute((key, block_of(*versions.start()), block))?;
        self.connection.prepare_cached(DELETE)?.execute(which)?;
        Ok(())
    }

    fn store(&mut self, entry: &Entry) -> Result<()> {
        let mut insert = self.connection.prepare_cached(INSERT)?;
        insert.execute((&entry.key, entry.version, self.rows.compress(&entry.body)?))?;
        drop(insert);
        let older = entry.version - 1;
        if older > 0 && older.is_multiple_of(VERSIONS) {
            self.pack(&entry.key, older - VERSIONS + 1..=older)?;
        }
        Ok(())
    }

    /// Runs this in one transaction.
    fn transaction(&mut self, run: impl FnOnce(&mut Writer) -> Result<()>) -> Result<()> {
        self.connection.execute_batch("BEGIN")?;
        run(self)?;
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    /// Makes blocks of all rows but the latest.
    fn pack_all(&mut self) -> Result<()> {
        let mut select = self.connection.prepare(LAST_VERSIONS)?;
        let last = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let last = last.collect::<Result<Vec<(Vec<u8>, u32)>, _>>()?;
        drop(select);
        for (key, version) in last {
            let older = version - 1;
            self.pack(&key, block_of(older) * VERSIONS + 1..=older)?;
        }
        Ok(())
    }
}

impl Subject for InBlocks {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        let connection = connect(folder, CACHE_BYTES)?;
        connection.execute(TABLE, [])?;
        connection.execute(BLOCK_TABLE, [])?;
        Ok(Box::new(Writer {
            connection,
            rows: Codec::new()?,
            blocks: Codec::with_long_window()?,
        }))
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        Ok(Box::new(Reading {
            connection: connect(folder, CACHE_BYTES - KEPT_BYTES)?,
            codec: Codec::new()?,
            kept: HashMap::new(),
            order: VecDeque::new(),
            kept_bytes: 0,
        }))
    }

    fn version(&self) -> Result<Option<String>> {
        Ok(Some(version()))
    }
}

impl Load for Writer {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        self.transaction(|writer| batch.iter().try_for_each(|entry| writer.store(entry)))
    }

    fn finish(mut self: Box<Self>) -> Result<Finished> {
        self.transaction(Writer::pack_all)?;
        finish(self.connection)
    }
}

impl Reading {
    fn keep(&mut self, name: Name, block: Block) {
        self.kept_bytes += block.bodies.len();
        while self.kept_bytes > KEPT_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.kept_bytes -= self.kept.remove(&oldest).map_or(0, |block| block.bodies.len());
        }
        self.order.push_back(name.clone());
        self.kept.insert(name, block);
    }
}

impl Read for Reading {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        body(&self.connection, &mut self.codec, LATEST, [key])
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        let name = (key.to_vec(), block_of(version));
        if !self.kept.contains_key(&name)
            && let Some(bytes) = body(&self.connection, &mut self.codec, BLOCK, (key, name.1))?
        {
            let block = Block::decode(&bytes).context("reading a block")?;
            self.keep(name.clone(), block);
        }
        match self.kept.get(&name).and_then(|block| block.body(version)) {
            Some(body) => Ok(Some(body.to_vec())),
            None => body(&self.connection, &mut self.codec, VERSION, (key, version)),
        }
    }

    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        let rows = bytes(&self.connection, VALUE_BYTES)?;
        Ok(Some(rows + bytes(&self.connection, BLOCK_VALUE_BYTES)?))
    }
}
