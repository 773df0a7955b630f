//! `ibid chunk`.

use ibid_chunk::{Chunker, Stream};

use super::input;
use super::open::Context;
use crate::args::ChunkArgs;
use crate::failure::{Failure, Outcome, Result};
use crate::print::ChunkPrinter;

/// What is read at once, unless a chunk can be larger.
const BUFFER: usize = 1 << 20;

pub(crate) fn run(context: &mut Context, args: &ChunkArgs) -> Result<Outcome> {
    let settings = args.chunker.settings();
    let settings = settings.map_err(|error| Failure::Usage(error.to_string()))?;
    let chunker = Chunker::new(&settings).map_err(|error| Failure::Usage(error.to_string()))?;
    let input = input::open(&args.file)?;
    let mut printer = ChunkPrinter::begin(&mut context.out, &settings)?;
    let mut stream = Stream::with_buffer_size(&chunker, input, BUFFER);
    let mut offset = 0;
    loop {
        let chunk = stream.next_chunk();
        let Some(chunk) = chunk.map_err(|source| Failure::local("read", &args.file, source))? else {
            break;
        };
        printer.chunk(offset, chunk.len(), blake3::hash(chunk))?;
        offset += chunk.len() as u64;
    }
    printer.end()?;
    Ok(Outcome::Done)
}
