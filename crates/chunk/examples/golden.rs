//! Writes the golden vectors, cut by the specification, to standard output.
//!
//! `cargo run -p ibid-chunk --example golden > crates/chunk/tests/golden/cuts.txt`: only ever to
//! *add* vectors. A line that changes is a published cut that moved.
#![allow(clippy::print_stdout, reason = "a program whose output is the result")]

use ibid_chunk::{Settings, spec};

#[path = "../tests/data/mod.rs"]
mod data;
#[path = "../tests/golden/mod.rs"]
mod golden;

fn main() {
    let text = golden::vectors(|settings, data| match settings {
        Settings::SeqCdc(seqcdc) => spec::seqcdc(seqcdc, data),
        Settings::FastCdc(fastcdc) => spec::fastcdc(&spec::FastCdcParameters::new(fastcdc), data),
        Settings::Fixed(fixed) => spec::fixed(fixed.size, data),
        other => panic!("no specification of {other:?}"),
    });
    print!("{text}");
}
