//! Tests of the formats, in one program.

mod common;
mod documents;
mod hostile;
mod records;
mod refusals;
mod round_trips;
mod runs;
mod sealing;
mod sketches;
mod worked_examples;
mod writers;
