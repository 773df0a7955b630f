//! Prints how much smaller a folder is when equal chunks of its files are stored once.
//!
//! `cargo run --release -p ibid-chunk --example dedup_ratio FOLDER [ALGORITHM [AVERAGE]]`
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::collections::HashSet;
use std::error::Error;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};

use ibid_chunk::{Chunker, Settings, Stream};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("expected: FOLDER [ALGORITHM [AVERAGE]]")?;
    let algorithm = arguments.next().unwrap_or("seqcdc".into());
    let average: usize = arguments.next().map_or(Ok(16 << 10), |average| average.parse())?;
    let chunker = Chunker::new(&Settings::for_average(&algorithm, average)?)?;

    // 64 bits of hash are enough to measure; a store needs a collision-resistant one.
    let (hasher, mut known) = (RandomState::new(), HashSet::new());
    let (mut bytes, mut stored, mut chunks) = (0_u64, 0_u64, 0_u64);
    let mut folders = vec![folder.into()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir::<std::path::PathBuf>(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if entry.file_type()?.is_file() {
                let mut stream = Stream::new(&chunker, File::open(entry.path())?);
                while let Some(chunk) = stream.next_chunk()? {
                    chunks += 1;
                    bytes += chunk.len() as u64;
                    stored += if known.insert(hasher.hash_one(chunk)) {
                        chunk.len() as u64
                    } else {
                        0
                    };
                }
            }
        }
    }
    println!("{chunks} chunks, {bytes} bytes; {stored} bytes without duplicates");
    println!("ratio {:.2}", bytes as f64 / stored.max(1) as f64);
    Ok(())
}
