//! The bytes that rivals store: figures 1 and 9.

use zstd::bulk::Compressor;

use super::stores::advance;
use super::{RecordsPlan, Rival, RivalRun};
use crate::traditional::{ChunkIndex, Stretch, encode};
use crate::{Error, Observer, Result};

/// The rivals of the paper.
pub(super) const RIVALS: [Rival; 3] = [
    Rival::Blocks,
    Rival::Traditional { chunk_bytes: 4096 },
    Rival::Traditional { chunk_bytes: 64 },
];

/// The block size of engines that compress their pages.
const BLOCK: usize = 32 << 10;
/// The level of zstd.
const LEVEL: i32 = 3;

/// Bytes in sequence, divided into blocks that are compressed and counted.
struct Line {
    compressor: Compressor<'static>,
    bytes: u64,
    block_bytes: u64,
    /// The contents of the last block.
    pending: Vec<u8>,
}

impl Line {
    fn new() -> Result<Line> {
        Ok(Line {
            compressor: Compressor::new(LEVEL).map_err(no_compressor)?,
            bytes: 0,
            block_bytes: 0,
            pending: Vec::with_capacity(BLOCK),
        })
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<Stretch> {
        let stretch = Stretch {
            position: self.bytes,
            length: bytes.len() as u64,
        };
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let (fits, rest) = bytes.split_at(bytes.len().min(BLOCK - self.pending.len()));
            self.pending.extend_from_slice(fits);
            if self.pending.len() == BLOCK {
                self.end_block()?;
            }
            bytes = rest;
        }
        Ok(stretch)
    }

    fn end_block(&mut self) -> Result<()> {
        self.block_bytes += self.compressor.compress(&self.pending).map_err(no_compressor)?.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Returns the bytes before compression, and the bytes of the compressed blocks.
    fn finish(mut self) -> Result<(u64, u64)> {
        if !self.pending.is_empty() {
            self.end_block()?;
        }
        Ok((self.bytes, self.block_bytes))
    }
}

fn no_compressor(source: std::io::Error) -> Error {
    Error::Compression(source)
}

/// Counts the bytes that a rival stores of all records.
pub(super) fn run(plan: &RecordsPlan, rival: Rival, observer: &mut dyn Observer) -> Result<RivalRun> {
    let mut index = match rival {
        Rival::Blocks => None,
        Rival::Traditional { chunk_bytes } => Some(ChunkIndex::new(chunk_bytes)),
    };
    let (mut bodies, mut recipes) = (Line::new()?, Line::new()?);
    for record in &plan.records {
        let (_, body) = record;
        match &mut index {
            None => drop(bodies.append(body)?),
            Some(index) => {
                let mut failed = Ok(());
                let stretches = index.store(body, |chunk| match bodies.append(chunk) {
                    Ok(stretch) => stretch,
                    Err(error) => {
                        failed = Err(error);
                        Stretch { position: 0, length: 0 }
                    }
                });
                failed?;
                recipes.append(&encode(&stretches))?;
            }
        }
        advance(std::slice::from_ref(record), observer)?;
    }
    let ((stored, blocks), (recipe_bytes, recipe_blocks)) = (bodies.finish()?, recipes.finish()?);
    Ok(RivalRun {
        rival,
        stored_bytes: stored + recipe_bytes,
        block_bytes: blocks + recipe_blocks,
        index_bytes: index.map_or(0, |index| index.bytes()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bursts, Random, Unobserved};

    fn plan(records: Vec<(Vec<u8>, Vec<u8>)>) -> RecordsPlan {
        RecordsPlan {
            records,
            folder: "nowhere".into(),
            traces: Vec::new(),
            bursts: Bursts::default(),
        }
    }

    #[test]
    fn chunks_that_come_again_are_stored_once() {
        let body = Random::new(1).bytes(50_000);
        let mut edited = body.clone();
        edited[25_000] ^= 1;
        let plan = plan(vec![(b"a".to_vec(), body), (b"a".to_vec(), edited)]);
        let found = RIVALS.map(|rival| run(&plan, rival, &mut Unobserved).unwrap());
        let [blocks, large, small] = found;
        assert_eq!((blocks.stored_bytes, blocks.index_bytes), (100_000, 0));
        // The chunks that contain the edit, and a few bytes of recipe.
        assert!((50_040..51_100).contains(&small.stored_bytes), "{small:?}");
        assert!((51_000..90_000).contains(&large.stored_bytes), "{large:?}");
        assert!(small.index_bytes > 10 * large.index_bytes, "{small:?} {large:?}");
        assert_eq!(large.index_bytes % 28, 0);
        // The bodies are noise.
        assert!(found.iter().all(|run| run.block_bytes > run.stored_bytes), "{found:?}");
    }

    #[test]
    fn blocks_are_compressed_by_themselves() {
        let text = "in the same place ".repeat(10_000).into_bytes();
        let length = text.len() as u64;
        let found = run(&plan(vec![(b"a".to_vec(), text)]), Rival::Blocks, &mut Unobserved).unwrap();
        assert_eq!(found.stored_bytes, length);
        // Each record stores its own repetitions once.
        assert!((6 * 20..6 * 100).contains(&found.block_bytes), "{found:?}");
    }
}
