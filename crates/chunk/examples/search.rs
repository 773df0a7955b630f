//! What do SeqCDC's parameters realise on random data?
//!
//! `cargo run --release -p ibid-chunk --example search [MiB]` prints, by Monte-Carlo simulation,
//! the pairs scanned before a sequence of each length (the table behind
//! `Settings::for_average("seqcdc", ...)`) and the realised chunk size of each requested average.
//! The random data is splitmix64, so that a run can be repeated.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use ibid_chunk::{Chunker, Equal, Mode, SIZE_MAX_MOST, SIZE_MIN_LEAST, SeqCdcSettings, Settings, chunks};

#[path = "../tests/chunk/data/mod.rs"]
mod data;

fn main() {
    let size = std::env::args()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(64usize)
        << 20;
    let data = data::random(7, size);

    println!("pairs of random bytes before a sequence, {} MiB", size >> 20);
    println!("{:>6} {:>12} {:>12} {:>9}", "pairs", "absorb", "strict", "chunks");
    for seq_length in 3..=8 {
        let base = SeqCdcSettings {
            size_min: SIZE_MIN_LEAST,
            size_average: SIZE_MIN_LEAST,
            size_max: SIZE_MAX_MOST,
            mode: Mode::Increasing,
            equal: Equal::Absorb,
            seq_length,
            skip_trigger: 0,
            skip_size: 0,
        };
        let (absorb, count) = pairs_before_sequence(base, &data);
        let (strict, _) = pairs_before_sequence(
            SeqCdcSettings {
                equal: Equal::Strict,
                ..base
            },
            &data,
        );
        println!("{seq_length:>6} {absorb:>12.1} {strict:>12.1} {count:>9}");
    }

    println!("\naverages realised");
    println!(
        "{:>8} {:>6} {:>8} {:>6} {:>10} {:>6}",
        "asked", "pairs", "trigger", "skip", "realised", "ratio"
    );
    let halves = (8..20).flat_map(|bits| [1usize << bits, 3 << (bits - 1)]);
    for asked in halves.chain([1000, 10_000, 50_000, 100_000]) {
        let settings = Settings::for_average("seqcdc", asked).expect("an average within the limits");
        let Settings::SeqCdc(seqcdc) = &settings else {
            unreachable!("asked for by name")
        };
        let chunker = Chunker::new(&settings).expect("valid settings");
        let realised = size as f64 / chunks(&chunker, &data).count() as f64;
        println!(
            "{asked:>8} {:>6} {:>8} {:>6} {realised:>10.0} {:>6.3}",
            seqcdc.seq_length,
            seqcdc.skip_trigger,
            seqcdc.skip_size,
            realised / asked as f64
        );
    }
}

/// Returns the mean over all chunks, and their number. The scan of every chunk starts `seq_length`
/// pairs before its minimum.
fn pairs_before_sequence(settings: SeqCdcSettings, data: &[u8]) -> (f64, usize) {
    let chunker = Chunker::new(&Settings::SeqCdc(settings)).expect("valid settings");
    let count = chunks(&chunker, data).count();
    let unscanned = settings.size_min - settings.seq_length as usize;
    (data.len() as f64 / count as f64 - unscanned as f64, count)
}
