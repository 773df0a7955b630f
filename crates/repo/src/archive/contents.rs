//! The contents of a file of a snapshot, as a reader.

use std::io::Read;

use ibid_format::content::{Content, Item};

use crate::read::ChunkReader;
use crate::tree::PlannedItems;
use crate::{Error, Monitor, ProgressCounters, Result};

/// The bytes of a file, in order. Each chunk is verified before any byte of it is passed on, and there
/// are exactly as many bytes as the entry says, or an error.
pub(super) struct Contents<'r> {
    /// Number of bytes.
    pub(super) length: u64,
    /// Why a read failed.
    pub(super) failure: Option<Error>,
    items: PlannedItems<'r>,
    data: &'r ChunkReader<'r>,
    monitor: &'r Monitor,
    chunk: Vec<u8>,
    /// Bytes of the chunk that were passed on.
    passed: usize,
    /// Bytes of the current hole that are left.
    hole: u64,
}

impl<'r> Contents<'r> {
    /// `trees` reads lists of chunks, `data` the chunks.
    pub(super) fn new(
        trees: &'r ChunkReader<'r>,
        data: &'r ChunkReader<'r>,
        content: &Content,
        monitor: &'r Monitor,
    ) -> Contents<'r> {
        Contents {
            length: content.length,
            failure: None,
            items: PlannedItems::new(trees, data, content, 0..u64::MAX),
            data,
            monitor,
            chunk: Vec::new(),
            passed: 0,
            hole: 0,
        }
    }

    /// Goes on to the next chunk or hole. Returns false at the end.
    fn next(&mut self) -> Result<bool> {
        self.monitor.check_cancelled()?;
        match self.items.next().transpose()? {
            None => return Ok(false),
            Some((_, Item::Hole { length })) => self.hole = length,
            Some((_, Item::Chunk { id, length })) => {
                self.chunk.clear();
                self.passed = 0;
                self.data.read(&id, length, &mut self.chunk)?;
            }
        }
        Ok(true)
    }
}

impl Read for Contents<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.hole == 0 && self.passed == self.chunk.len() {
            match self.next() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(error) => {
                    let text = error.to_string();
                    self.failure = Some(error);
                    return Err(std::io::Error::other(text));
                }
            }
        }
        let length = if self.hole > 0 {
            let length = self.hole.min(buffer.len() as u64) as usize;
            buffer[..length].fill(0);
            self.hole -= length as u64;
            length
        } else {
            let rest = &self.chunk[self.passed..];
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            self.passed += length;
            length
        };
        ProgressCounters::add(&self.monitor.counters.bytes, length as u64);
        Ok(length)
    }
}
