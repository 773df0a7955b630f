//! A line: bytes in sequence, in blocks of 32 KiB.

use std::collections::{HashMap, VecDeque};

use anyhow::{Context, Result};
use ibid_bench::traditional::Stretch;
use redb::{Database, ReadableDatabase, TableDefinition, WriteTransaction};

use super::compressed::Codec;
use super::subject::CACHE_BYTES;

/// 32 KiB, less redb's overhead for a value in a page of that size.
const BLOCK: usize = (32 << 10) - 64;
/// Memory for the blocks of a line that were read last.
pub(crate) const KEPT_BYTES: usize = CACHE_BYTES / 4;

/// Blocks by their numbers.
pub(crate) type Blocks = TableDefinition<'static, u64, &'static [u8]>;

/// The end of the line, where bytes are added.
pub(crate) struct Appender {
    blocks: Blocks,
    codec: Option<Codec>,
    /// The number of the first block that is not written, or was not full when it was written.
    first: u64,
    /// The bytes from there on.
    pending: Vec<u8>,
}

impl Appender {
    /// Returns the end of an empty line. With a codec its blocks are compressed.
    pub(crate) fn new(blocks: Blocks, codec: Option<Codec>) -> Appender {
        Appender {
            blocks,
            codec,
            first: 0,
            pending: Vec::new(),
        }
    }

    /// Adds bytes to the line.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Stretch {
        let position = self.first * BLOCK as u64 + self.pending.len() as u64;
        self.pending.extend_from_slice(bytes);
        Stretch {
            position,
            length: bytes.len() as u64,
        }
    }

    /// Writes the bytes that were added. The last block is written even if it is not full, and
    /// again when it has grown.
    pub(crate) fn write(&mut self, transaction: &WriteTransaction) -> Result<()> {
        let mut table = transaction.open_table(self.blocks)?;
        for (number, block) in (self.first..).zip(self.pending.chunks(BLOCK)) {
            match &mut self.codec {
                Some(codec) => table.insert(number, &*codec.compress(block)?)?,
                None => table.insert(number, block)?,
            };
        }
        let full = self.pending.len() / BLOCK;
        self.first += full as u64;
        self.pending.drain(..full * BLOCK);
        Ok(())
    }
}

/// Reads stretches, and keeps the blocks that were read last.
pub(crate) struct Line {
    blocks: Blocks,
    codec: Option<Codec>,
    kept: HashMap<u64, Vec<u8>>,
    /// The numbers of the kept blocks, oldest first.
    order: VecDeque<u64>,
}

impl Line {
    pub(crate) fn new(blocks: Blocks, codec: Option<Codec>) -> Line {
        Line {
            blocks,
            codec,
            kept: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Returns the bytes of several stretches in order.
    pub(crate) fn read(&mut self, database: &Database, stretches: &[Stretch]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for stretch in stretches {
            let mut position = stretch.position;
            while position < stretch.end() {
                let block = self.block(database, position / BLOCK as u64)?;
                let from = (position % BLOCK as u64) as usize;
                let length = (stretch.end() - position).min((BLOCK - from) as u64);
                let bytes = block.get(from..from + length as usize);
                out.extend_from_slice(bytes.context("a stretch ends beyond the line")?);
                position += length;
            }
        }
        Ok(out)
    }

    fn block(&mut self, database: &Database, number: u64) -> Result<&[u8]> {
        if !self.kept.contains_key(&number) {
            let table = database.begin_read()?.open_table(self.blocks)?;
            let stored = table
                .get(number)?
                .with_context(|| format!("there is no block {number}"))?;
            let block = match &mut self.codec {
                Some(codec) => codec.decompress(stored.value())?,
                None => stored.value().to_owned(),
            };
            if self.order.len() >= KEPT_BYTES / BLOCK
                && let Some(oldest) = self.order.pop_front()
            {
                self.kept.remove(&oldest);
            }
            self.order.push_back(number);
            self.kept.insert(number, block);
        }
        Ok(&self.kept[&number])
    }
}
