//! How fast are the cuts? Every algorithm on every backend, beside the `fastcdc` crate and a plain
//! read of the same bytes, by turns.
//!
//! `cargo run --release -p ibid-chunk --example speed -- [key=value ...]`
//!
//! | key | value | otherwise |
//! |---|---|---|
//! | `algorithms` | names that `Settings::for_average` takes, with commas | `seqcdc,fastcdc` |
//! | `averages` | KiB, with commas | `4,8,16,64` |
//! | `backends` | names, with commas | all of this machine |
//! | `data` | a file | random bytes |
//! | `bytes` | how much of it, KiB: 256 stay in the cache, 1048576 do not | `65536` |
//! | `rounds` | how often each is measured; the figures are the best | `9` |
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::io::Read;
use std::time::Instant;

use ibid_chunk::{Backend, Chunker, FastCdcSettings, Settings, chunks};

#[path = "../tests/chunk/data/mod.rs"]
mod data;

/// A contestant: its name, and a function that cuts all of the data and returns the number of
/// chunks.
type Contestant<'a> = (String, Box<dyn Fn() -> usize + 'a>);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut options: HashMap<&str, &str> = [
        ("algorithms", "seqcdc,fastcdc"),
        ("averages", "4,8,16,64"),
        ("backends", ""),
        ("data", ""),
        ("bytes", "65536"),
        ("rounds", "9"),
    ]
    .into();
    for argument in &arguments {
        let (key, value) = argument.split_once('=').ok_or("expected key=value")?;
        *options.get_mut(key).ok_or(format!("no option is called {key}"))? = value;
    }
    let bytes = options["bytes"].parse::<usize>()? << 10;
    let rounds = options["rounds"].parse::<usize>()?.max(1);
    let data = match options["data"] {
        "" => data::random(1, bytes),
        path => {
            let mut data = Vec::with_capacity(bytes);
            std::fs::File::open(path)?.take(bytes as u64).read_to_end(&mut data)?;
            data
        }
    };
    let backends = match options["backends"] {
        "" => Backend::available().collect(),
        names => names.split(',').map(str::parse).collect::<Result<Vec<Backend>, _>>()?,
    };

    println!("GB/s, {} KiB, best of {rounds} rounds", data.len() >> 10);
    for average in options["averages"].split(',') {
        let average = average.parse::<usize>()? << 10;
        let fastcdc = Settings::for_average("fastcdc", average)?;
        let mut contestants: Vec<Contestant> = vec![
            ("plain read".to_owned(), Box::new(|| read(&data))),
            ("fastcdc crate".to_owned(), Box::new(|| by_the_crate(&fastcdc, &data))),
        ];
        for algorithm in options["algorithms"].split(',') {
            for backend in &backends {
                let chunker = Chunker::with_backend(&Settings::for_average(algorithm, average)?, *backend)?;
                let name = format!("{algorithm} {backend}");
                let data = &data;
                contestants.push((name, Box::new(move || chunks(&chunker, data).count())));
            }
        }
        compete(average, &contestants, data.len(), rounds);
    }
    Ok(())
}

/// Measures all contestants by turns, in several rounds, and prints the best of each.
fn compete(average: usize, contestants: &[Contestant], bytes: usize, rounds: usize) {
    // Enough passes for the clock.
    let passes = (64usize << 20).div_ceil(bytes);
    let mut best = vec![(f64::INFINITY, 0); contestants.len()];
    for _ in 0..rounds {
        for ((_, cut), best) in contestants.iter().zip(&mut best) {
            let start = Instant::now();
            for _ in 0..passes {
                best.1 = black_box(cut());
            }
            best.0 = best.0.min(start.elapsed().as_secs_f64() / passes as f64);
        }
    }
    println!(
        "\n{:>5} KiB {:>20} {:>9} {:>9}",
        average >> 10,
        "GB/s",
        "x fastcdc",
        "KiB"
    );
    for ((name, _), (seconds, count)) in contestants.iter().zip(&best) {
        println!(
            "{name:>20} {:>9.2} {:>9.2} {:>9.2}",
            bytes as f64 / 1e9 / seconds,
            best[1].0 / seconds,
            bytes as f64 / 1024.0 / *count as f64
        );
    }
}

/// Reads every byte once, in the widest steps that the compiler knows, as one "chunk".
fn read(data: &[u8]) -> usize {
    let mut sums = [0u64; 16];
    let (blocks, _) = black_box(data).as_chunks::<128>();
    for block in blocks {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum ^= u64::from_le_bytes(*word);
        }
    }
    black_box(sums);
    1
}

fn by_the_crate(settings: &Settings, data: &[u8]) -> usize {
    use fastcdc::v2020::{FastCDC, Normalization};
    let Settings::FastCdc(settings) = settings else {
        unreachable!("asked for by name")
    };
    let FastCdcSettings {
        size_min,
        size_average,
        size_max,
        ..
    } = *settings;
    FastCDC::with_level(data, size_min, size_average, size_max, Normalization::Level2).count()
}
