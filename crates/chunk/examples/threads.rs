//! How much faster do several threads cut? Cuts the same data by one thread and by several, by
//! turns.
//!
//! `cargo run --release -p ibid-chunk --example threads -- [MiB [rounds [file]]]`: random bytes, or
//! a file's. Use many rounds on a busy machine.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::convert::Infallible;
use std::error::Error;
use std::num::NonZeroUsize;
use std::time::Instant;

use ibid_chunk::{Chunker, Settings, chunks, for_each_chunk};

#[path = "../tests/chunk/data/mod.rs"]
mod data;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let size = arguments.next().map_or(Ok(256), |size| size.parse::<usize>())? << 20;
    let rounds = arguments.next().map_or(Ok(7), |rounds| rounds.parse::<usize>())?;
    let mut data = arguments
        .next()
        .map_or_else(|| Ok(data::random(1, size)), std::fs::read)?;
    data.truncate(size);
    let most = std::thread::available_parallelism()?.get();
    println!("GB/s, {} MiB, best of {rounds} rounds", data.len() >> 20);
    println!("{:>8} {:>10} {:>8}  threads: GB/s (x alone)", "average", "", "alone");
    for average in [8 << 10, 64 << 10] {
        for name in ["fastcdc", "seqcdc", "tttd", "gear", "argmin", "ram"] {
            let chunker = Chunker::new(&Settings::for_average(name, average)?)?;
            let count = chunks(&chunker, &data).count();
            let mut alone = f64::INFINITY;
            let mut shared = vec![f64::INFINITY; most];
            for _ in 0..rounds {
                let start = Instant::now();
                assert_eq!(chunks(&chunker, &data).count(), count);
                alone = alone.min(start.elapsed().as_secs_f64());
                for (threads, best) in shared.iter_mut().enumerate() {
                    let mut found = 0;
                    let note = |_: &[u8]| {
                        found += 1;
                        Ok::<(), Infallible>(())
                    };
                    let threads = NonZeroUsize::MIN.saturating_add(threads);
                    let start = Instant::now();
                    for_each_chunk(&chunker, &data, threads, note)?;
                    *best = best.min(start.elapsed().as_secs_f64());
                    assert_eq!(found, count);
                }
            }
            print!(
                "{:>7}K {name:>10} {:>8.2} ",
                average >> 10,
                data.len() as f64 / 1e9 / alone
            );
            for (threads, best) in shared.iter().enumerate() {
                let speed = data.len() as f64 / 1e9 / best;
                print!(" {}: {speed:.2} ({:.2})", threads + 1, alone / best);
            }
            println!();
        }
    }
    Ok(())
}
