//! Writes the golden vectors, cut by the specification, to standard output.
//!
//! `cargo run -p ibid-chunk --example golden > crates/chunk/tests/chunk/golden/cuts.txt`: only ever to
//! *add* vectors. A line that changes is a published cut that moved.
#![allow(clippy::print_stdout, reason = "a program whose output is the result")]

use ibid_chunk::spec;

#[path = "../tests/chunk/data/mod.rs"]
mod data;
#[path = "../tests/chunk/golden/mod.rs"]
mod golden;

fn main() {
    let text = golden::vectors(spec::cut);
    print!("{text}");
}
