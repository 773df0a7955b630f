//! What do the usual settings save? Prints the deduplication ratio (all bytes over bytes of
//! distinct chunks) of ten versions of random data, each with an edit every 200 KiB or so.
//!
//! `cargo run --release -p ibid-chunk --example savings [MiB a version]`. Judge speeds from
//! `speed.rs` together with these savings, at equal realised averages.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::collections::HashSet;

use ibid_chunk::{Chunker, Equal, Mode, SeqCdcSettings, Settings, chunks};

#[path = "../tests/chunk/data/mod.rs"]
mod data;

const VERSIONS: usize = 10;
const BYTES_BETWEEN_EDITS: usize = 200 << 10;
const EDIT_BYTES: usize = 100;

fn main() {
    let size = std::env::args()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(48usize)
        << 20;
    let versions = versions(size);
    println!("{:>8} {:>24} {:>9} {:>7}", "average", "settings", "realised", "ratio");
    for average in [8 << 10, 16 << 10, 32 << 10, 64 << 10] {
        for name in ["fastcdc", "seqcdc"] {
            let settings = Settings::for_average(name, average).expect("an average within the limits");
            show(average, name, &settings, &versions);
        }
    }
    // The other ways to a realised average of 64 KiB: longer skips, and none.
    show(
        64 << 10,
        "seqcdc, 5 pairs, 4000",
        &seqcdc_64_kib(32 << 10, 5, 50, 4000),
        &versions,
    );
    show(
        64 << 10,
        "seqcdc, 7 pairs, no skip",
        &seqcdc_64_kib(24 << 10, 7, 0, 0),
        &versions,
    );
}

fn seqcdc_64_kib(size_min: usize, seq_length: u32, skip_trigger: u32, skip_size: u32) -> Settings {
    Settings::SeqCdc(SeqCdcSettings {
        size_min,
        size_average: 64 << 10,
        size_max: 128 << 10,
        mode: Mode::Increasing,
        equal: Equal::Absorb,
        seq_length,
        skip_trigger,
        skip_size,
    })
}

/// Every version is the one before with some bytes replaced by as many others, more or fewer.
fn versions(size: usize) -> Vec<Vec<u8>> {
    let mut source = data::Random(5);
    let mut versions = vec![data::random(1, size)];
    while versions.len() < VERSIONS {
        let mut next = Vec::with_capacity(size + size / 64);
        let mut rest = &versions[versions.len() - 1][..];
        while rest.len() > 2 * BYTES_BETWEEN_EDITS {
            let (kept, after) = rest.split_at(source.below(2 * BYTES_BETWEEN_EDITS));
            next.extend_from_slice(kept);
            next.extend_from_slice(&data::random(source.next(), EDIT_BYTES));
            rest = &after[source.below(2 * EDIT_BYTES)..];
        }
        next.extend_from_slice(rest);
        versions.push(next);
    }
    versions
}

fn show(average: usize, name: &str, settings: &Settings, versions: &[Vec<u8>]) {
    let chunker = Chunker::new(settings).expect("valid settings");
    let mut different = HashSet::new();
    let (mut bytes, mut bytes_different, mut count) = (0, 0, 0);
    for chunk in versions.iter().flat_map(|version| chunks(&chunker, version)) {
        count += 1;
        bytes += chunk.len();
        if different.insert(chunk) {
            bytes_different += chunk.len();
        }
    }
    let realised = bytes as f64 / 1024.0 / f64::from(count);
    let ratio = bytes as f64 / bytes_different as f64;
    println!("{:>7}K {name:>24} {realised:>8.1}K {ratio:>7.2}", average >> 10);
}
