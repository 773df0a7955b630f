//! Block compression, and the paper's rival: records as stretches of a line of blocks.
//!
//! Without chunks a record is one stretch, which is what an engine does that compresses its blocks. With chunks it is
//! traditional deduplication: each chunk is looked for by its SHA-1 in an index of all chunks, in memory, and added to the line
//! if it is new. Chunks that follow each other in the line make one stretch, so that references take as little as they can;
//! the lists of stretches lie in blocks as well.
//!
//! The index is written nowhere: after a restart, a rival that goes on storing would have to read all chunks again.

use super::compressed::Codec;
use super::input::Entry;
use super::line::{self, Appender, Blocks, KEPT_BYTES, Line, Stretch};
use super::rabin::Rabin;
use super::subject::{CACHE_BYTES, Finished, Index, Load, Read, Subject};
use super::table::{ByVersion, compacted, database, value, value_bytes};
use anyhow::{Result, ensure};
use redb::{Database, TableDefinition};
use sha1::{Digest, Sha1};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Key and version → its stretch of the recipes, or of the bodies if they are not cut.
const RECORDS: ByVersion = TableDefinition::new("records");
const BODIES: Blocks = TableDefinition::new("bodies");
/// Lists of stretches of the bodies.
const RECIPES: Blocks = TableDefinition::new("recipes");

/// SHA-1.
type Name = [u8; 20];
/// A place in the line, 40 bits of position and 24 of length, without alignment.
type Place = [u8; 8];
const LENGTH_BITS: u32 = 24;

/// How records are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Chunking {
    /// Not at all.
    Whole,
    Average4KiB,
    Average64,
}

impl Chunking {
    fn rabin(self) -> Option<Rabin> {
        match self {
            Chunking::Whole => None,
            Chunking::Average4KiB => Some(Rabin::new(4096)),
            Chunking::Average64 => Some(Rabin::new(64)),
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
    chunks: Option<Chunks>,
}

/// What deduplication adds.
struct Chunks {
    rabin: Rabin,
    index: HashMap<Name, Place>,
}

struct Reader {
    database: Database,
    bodies: Line,
    /// None if records are not cut.
    recipes: Option<Line>,
}

impl InBlocks {
    fn codec(&self) -> Result<Option<Codec>> {
        self.compressed.then(Codec::new).transpose()
    }
}

impl Subject for InBlocks {
    fn create(&self, folder: &Path) -> Result<Box<dyn Load>> {
        let index = HashMap::new();
        Ok(Box::new(Writer {
            folder: folder.to_owned(),
            database: database(folder, CACHE_BYTES)?,
            bodies: Appender::new(BODIES, self.codec()?),
            recipes: Appender::new(RECIPES, self.codec()?),
            chunks: self.chunking.rabin().map(|rabin| Chunks { rabin, index }),
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

impl Chunks {
    /// The stretches of a record's chunks, of which those that are new are added to the line.
    fn store(&mut self, body: &[u8], line: &mut Appender) -> Result<Vec<Stretch>> {
        let mut stretches = Vec::new();
        for chunk in self.rabin.chunks(body) {
            let name: Name = Sha1::digest(chunk).into();
            let stretch = match self.index.get(&name) {
                Some(place) => stretch(*place),
                None => {
                    let stretch = line.append(chunk);
                    self.index.insert(name, place(stretch)?);
                    stretch
                }
            };
            line::push(&mut stretches, stretch);
        }
        Ok(stretches)
    }
}

fn place(stretch: Stretch) -> Result<Place> {
    let fits = stretch.position >> (u64::BITS - LENGTH_BITS) == 0 && stretch.length >> LENGTH_BITS == 0;
    ensure!(fits, "a chunk lies further on than the index can say");
    Ok((stretch.position << LENGTH_BITS | stretch.length).to_le_bytes())
}

fn stretch(place: Place) -> Stretch {
    let place = u64::from_le_bytes(place);
    Stretch {
        position: place >> LENGTH_BITS,
        length: place & ((1 << LENGTH_BITS) - 1),
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
                        let stretches = chunks.store(&entry.body, &mut self.bodies)?;
                        self.recipes.append(&line::encode(&stretches))
                    }
                    None => self.bodies.append(&entry.body),
                };
                records.insert((&*entry.key, entry.version), &*line::encode(&[stretch]))?;
            }
        }
        self.bodies.write(&transaction)?;
        self.recipes.write(&transaction)?;
        Ok(transaction.commit()?)
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        let index = self.chunks.as_ref().map(|chunks| Index {
            entries: chunks.index.len() as u64,
            // Without the free places of the hash table.
            bytes: (chunks.index.len() * (size_of::<Name>() + size_of::<Place>())) as u64,
        });
        let finished = compacted(self.database, &self.folder)?;
        Ok(Finished { index, ..finished })
    }
}

impl Reader {
    fn body(&mut self, stretch: Option<Vec<u8>>) -> Result<Option<Vec<u8>>> {
        let Some(stretch) = stretch else { return Ok(None) };
        let mut stretches = line::decode(&stretch)?;
        if let Some(recipes) = &mut self.recipes {
            stretches = line::decode(&recipes.read(&self.database, &stretches)?)?;
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

    /// What the blocks take, and what leads there.
    fn value_bytes(self: Box<Self>) -> Result<Option<u64>> {
        let blocks = value_bytes(&self.database, BODIES)? + value_bytes(&self.database, RECIPES)?;
        Ok(Some(blocks + value_bytes(&self.database, RECORDS)?))
    }
}
