//! `ibid-bench chunk`.

use ibid_bench::preferred_chunker;
use ibid_chunk::Stream;
use ibid_terminal::{FileError, input};

use crate::args::ChunkArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::output::Out;
use crate::print::ChunkPrinter;

/// Bytes that are read at once, unless a chunk can be larger.
const BUFFER: usize = 1 << 20;

pub(crate) fn run(args: &ChunkArgs, quiet: bool) -> Result<Outcome> {
    let settings = args.chunker.settings();
    let settings = settings.map_err(|error| Failure::Usage(error.to_string()))?;
    let chunker = preferred_chunker(&settings).map_err(|error| Failure::Usage(error.to_string()))?;
    let input = input::open(&args.file)?;
    let mut out = Out::new(args.json);
    let mut printer = ChunkPrinter::begin(&mut out, &settings)?;
    let mut stream = Stream::with_buffer_size(&chunker, input, BUFFER);
    let mut offset = 0;
    loop {
        let chunk = stream.next_chunk();
        let Some(chunk) = chunk.map_err(|source| FileError::new("read", &args.file, source))? else {
            break;
        };
        printer.chunk(offset, chunk.len(), blake3::hash(chunk))?;
        offset += chunk.len() as u64;
    }
    printer.end(quiet)?;
    out.output.flush()?;
    Ok(Outcome::Done)
}
