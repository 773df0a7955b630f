//! The output of commands: `document` returns the JSON of a command, `text` prints its tables.

mod chunk;
mod chunker;
pub(crate) mod chunkers;
pub(crate) mod duplicate_locality;
pub(crate) mod generate;
pub(crate) mod locality;
pub(crate) mod measured;
pub(crate) mod records;
pub(crate) mod tune;

pub(crate) use chunk::ChunkPrinter;
