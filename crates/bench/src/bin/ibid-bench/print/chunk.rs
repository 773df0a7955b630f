//! Chunks, one a line.

use std::io::Result;

use ibid_chunk::Settings;
use ibid_terminal::message;
use ibid_terminal::number::{counted, size};
use serde::Serialize;

use super::chunker::JsonChunker;
use crate::output::Out;

#[derive(Serialize)]
struct JsonBegin {
    chunker: JsonChunker,
}

#[derive(Serialize)]
struct JsonChunk<'a> {
    offset: u64,
    length: usize,
    fingerprint: &'a str,
}

#[derive(Serialize)]
struct JsonEnd {
    chunks: u64,
    bytes: u64,
}

/// Prints the output of `chunk` as it comes, without keeping it.
pub(crate) struct ChunkPrinter<'a> {
    out: &'a mut Out,
    chunks: u64,
    bytes: u64,
}

impl<'a> ChunkPrinter<'a> {
    pub(crate) fn begin(out: &'a mut Out, settings: &Settings) -> Result<ChunkPrinter<'a>> {
        if out.json {
            let chunker = JsonChunker::new(settings);
            out.begin("chunk", &JsonBegin { chunker })?;
        }
        Ok(ChunkPrinter {
            out,
            chunks: 0,
            bytes: 0,
        })
    }

    pub(crate) fn chunk(&mut self, offset: u64, length: usize, fingerprint: blake3::Hash) -> Result<()> {
        self.chunks += 1;
        self.bytes += length as u64;
        let fingerprint = &*fingerprint.to_hex();
        if self.out.json {
            let body = JsonChunk {
                offset,
                length,
                fingerprint,
            };
            return self.out.item("chunk", body);
        }
        self.out.line(format!("{offset:>12} {length:>9} {fingerprint}"))
    }

    /// Prints the number of chunks: to standard error, where programs do not take it for a chunk,
    /// or as the last JSON object.
    pub(crate) fn end(self, quiet: bool) -> Result<()> {
        let ChunkPrinter { out, chunks, bytes } = self;
        if out.json {
            return out.item("end", JsonEnd { chunks, bytes });
        }
        if !quiet {
            out.output.flush()?;
            let average = bytes.checked_div(chunks);
            let average = average.map_or_else(String::new, |average| format!(", {} on average", size(average)));
            message(&format!(
                "{} of {}{average}",
                counted(chunks, "chunk", "chunks"),
                size(bytes)
            ));
        }
        Ok(())
    }
}
