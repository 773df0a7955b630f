//! Block compression, and the paper's rival: records as stretches of a line of blocks.
//!
//! Without chunks a record is one stretch, as in an engine that compresses its blocks. With chunks
//! it is [traditional deduplication](ibid_bench::traditional): each chunk is looked up in an index
//! of all chunks, in memory, and added to the line if it is new. The lists of stretches are also in
//! blocks.
//!
//! The index is not written to disk: after a restart, a rival that stores more records would have
//! to read all chunks again.

use std::path::{Path, PathBuf};

use anyhow::Result;
use ibid_bench::traditional::{ChunkIndex, decode, encode};
use redb::{Database, TableDefinition};

use super::compressed::Codec;
use super::input::Entry;
use super::line::{Appender, Blocks, KEPT_BYTES, Line};
use super::subject::{CACHE_BYTES, Finished, Index, Load, Read, Subject};
use super::table::{ByVersion, compacted, database, value, value_bytes};

/// Key and version → the record's stretch of the recipes, or of the bodies if they are not cut.
const RECORDS: ByVersion = TableDefinition::new("records");
const BODIES: Blocks = TableDefinition::new("bodies");
/// Lists of stretches of the bodies.
const RECIPES: Blocks = TableDefinition::new("recipes");

/// How records are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chunking {
    /// Records are not cut.
    Whole,
    Average4KiB,
    Average64,
}

impl Chunking {
    fn index(self) -> Option<ChunkIndex> {
        match self {
            Chunking::Whole => None,
            Chunking::Average4KiB => Some(ChunkIndex::new(4096)),
            Chunking::Average64 => Some(ChunkIndex::new(64)),
        }
    }
}

pub(crate) struct InBlocks {
    pub(crate) chunking: Chunking,
    /// Whether blocks are compressed.
    pub(crate) compressed: bool,
}

struct Writer {
    folder: PathBuf,
    database: Database,
    bodies: Appender,
    recipes: Appender,
    /// The index of chunks; [`None`] if records are not cut.
    chunks: Option<ChunkIndex>,
}

struct Reader {
    database: Database,
    bodies: Line,
    /// The line of recipes; [`None`] if records are not cut.
    recipes: Option<Line>,
}

impl InBlocks {
    fn codec(&self) -> Result<Option<Codec>> {
        self.compressed.then(Codec::new).transpose()
    }
}

impl Subject for InBlocks {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        Ok(Box::new(Writer {
            folder: folder.to_owned(),
            database: database(folder, CACHE_BYTES)?,
            bodies: Appender::new(BODIES, self.codec()?),
            recipes: Appender::new(RECIPES, self.codec()?),
            chunks: self.chunking.index(),
        }))
    }

    fn open(&self, folder: &Path) -> Result<Box<dyn Read>> {
        let recipes = match self.chunking {
            Chunking::Whole => None,
            Chunking::Average4KiB | Chunking::Average64 => Some(Line::new(RECIPES, self.codec()?)),
        };
        Ok(Box::new(Reader {
            database: database(folder, CACHE_BYTES - 2 * KEPT_BYTES)?,
            bodies: Line::new(BODIES, self.codec()?),
            recipes,
        }))
    }
}

impl Load for Writer {
    fn load(&mut self, batch: &[Entry]) -> Result<()> {
        let transaction = self.database.begin_write()?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            for entry in batch {
                let stretch = match &mut self.chunks {
                    Some(chunks) => {
                        let stretches = chunks.store(&entry.body, |chunk| self.bodies.append(chunk));
                        self.recipes.append(&encode(&stretches))
                    }
                    None => self.bodies.append(&entry.body),
                };
                records.insert((&*entry.key, entry.version), &*encode(&[stretch]))?;
            }
        }
        self.bodies.write(&transaction)?;
        self.recipes.write(&transaction)?;
        Ok(transaction.commit()?)
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        let index = self.chunks.as_ref().map(|chunks| Index {
            entries: chunks.entries(),
            bytes: chunks.bytes(),
        });
        let finished = compacted(self.database, &self.folder)?;
        Ok(Finished { index, ..finished })
    }
}

impl Reader {
    fn body(&mut self, stretch: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let Some(stretch) = stretch else { return Ok(None) };
        let mut stretches = decode(&stretch)?;
        if let Some(recipes) = &mut self.recipes {
            stretches = decode(&recipes.read(&self.database, &stretches)?)?;
        }
        self.bodies.read(&self.database, &stretches).map(Some)
    }
}

impl Read for Reader {
    fn latest(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let stretch = value(&self.database, RECORDS, key, None)?;
        self.body(stretch)
    }

    fn version(&mut self, key: &[u8], version: u32) -> Result<Option<Vec<u8>>> {
        let stretch = value(&self.database, RECORDS, key, Some(version))?;
        self.body(stretch)
    }

    /// Returns the bytes of the blocks and of the entries that lead to them.
    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        let blocks = value_bytes(&self.database, BODIES)? + value_bytes(&self.database, RECIPES)?;
        Ok(Some(blocks + value_bytes(&self.database, RECORDS)?))
    }
}
