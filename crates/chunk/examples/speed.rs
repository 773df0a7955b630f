//! How fast are the cuts? Ours beside the `fastcdc` crate, on the same random data, by turns.
//!
//! `cargo run --release -p ibid-chunk --example speed [MiB] [rounds]`; the figures are medians.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::hint::black_box;
use std::time::Instant;

use ibid_chunk::{Chunker, FastCdcSettings, Settings, chunks};

#[path = "../tests/data/mod.rs"]
mod data;

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|number| number.parse::<usize>().ok());
    let size = numbers.next().unwrap_or(64) << 20;
    let rounds = numbers.next().unwrap_or(9).max(1);
    let data = data::random(1, size);
    println!(
        "GB/s (realised average), {} MiB of random data, median of {rounds} rounds",
        size >> 20
    );
    println!(
        "{:>8} {:>18} {:>18} {:>7} {:>18}",
        "average", "fastcdc crate", "fastcdc", "ratio", "seqcdc"
    );
    for average in [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10] {
        let fastcdc = Settings::for_average("fastcdc", average).expect("an average within the limits");
        let seqcdc = Settings::for_average("seqcdc", average).expect("an average within the limits");
        let Settings::FastCdc(rival) = &fastcdc else {
            unreachable!("asked for by name")
        };
        let ours = Chunker::new(&fastcdc).expect("valid settings");
        let seqcdc = Chunker::new(&seqcdc).expect("valid settings");

        let mut times = [const { Vec::new() }; 3];
        let mut counts = [0; 3];
        for _ in 0..rounds {
            let measure = |cut: &dyn Fn() -> usize| {
                let start = Instant::now();
                let count = black_box(cut());
                (start.elapsed().as_secs_f64(), count)
            };
            let results = [
                measure(&|| by_the_crate(rival, &data)),
                measure(&|| chunks(&ours, &data).count()),
                measure(&|| chunks(&seqcdc, &data).count()),
            ];
            for (which, (seconds, count)) in results.into_iter().enumerate() {
                times[which].push(seconds);
                counts[which] = count;
            }
        }
        assert_eq!(counts[0], counts[1], "the crate and ours cut alike");
        let speeds = times.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            size as f64 / 1e9 / seconds[seconds.len() / 2]
        });
        let shown = |which: usize| {
            format!(
                "{:.2} ({:.1}K)",
                speeds[which],
                size as f64 / 1024.0 / counts[which] as f64
            )
        };
        let ratio = speeds[1] / speeds[0];
        println!(
            "{:>7}K {:>18} {:>18} {ratio:>7.2} {:>18}",
            average >> 10,
            shown(0),
            shown(1),
            shown(2)
        );
    }
}

fn by_the_crate(settings: &FastCdcSettings, data: &[u8]) -> usize {
    use fastcdc::v2020::{FastCDC, Normalization};
    let FastCdcSettings {
        size_min,
        size_average,
        size_max,
        ..
    } = *settings;
    FastCDC::with_level(data, size_min, size_average, size_max, Normalization::Level2).count()
}
