//! How much does a prefix of selected ranges save compared with one of whole bases?
//!
//! `ranges EVERY OLD NEW` cuts two versions of a file into chunks of 64 KiB, and takes every
//! EVERY-th group of 16 consecutive chunks of the new one that the old one does not have.
//! Candidates for a group are the old chunks that share features with its chunks, most shared
//! first. The first few are its bases, whole or as the ranges that a `RangeSelector` selects. It
//! prints the bytes of all prefixes and of all deltas (anchor-zstd, level 3), the encoding speed in
//! MB/s of targets, and the selector's speed in MB/s of targets and bases.
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::time::{Duration, Instant};

use ibid_chunk::{Chunker, Settings};
use ibid_delta::advanced::RangeSelector;
use ibid_delta::{DeltaEncoder, FeatureIndex, Interval, Method, Sketcher};

const GROUP: usize = 16;
const METHOD: Method = Method::AnchorZstd {
    level: 3,
    interval: Interval::I64,
};

#[derive(Default)]
struct Row {
    prefixes: usize,
    deltas: usize,
    selecting: Duration,
    looked_at: usize,
    encoding: Duration,
}

fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *total += start.elapsed();
    result
}

/// Returns the prefix that a group is encoded against, made of bases in the order of preference.
fn prefix_of(
    selector: Option<&mut RangeSelector>,
    bases: &[&[u8]],
    target: &[u8],
    row: &mut Row,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let Some(selector) = selector else {
        return Ok(bases.concat());
    };
    let (mut prefix, mut ranges) = (Vec::new(), Vec::new());
    timed(&mut row.selecting, || selector.set_target(target))?;
    row.looked_at += target.len();
    for base in bases {
        timed(&mut row.selecting, || selector.select(base, &mut ranges))?;
        row.looked_at += base.len();
        for range in &ranges {
            prefix.extend_from_slice(&base[range.start as usize..range.end as usize]);
        }
    }
    Ok(prefix)
}

/// Old chunks that share features with a chunk of the group, most shared first.
fn candidates(sketcher: &mut Sketcher, index: &FeatureIndex, group: &[&[u8]]) -> Vec<u32> {
    let (mut found, mut shared) = (Vec::new(), HashMap::<u32, u32>::new());
    for chunk in group {
        index.candidates(0, &sketcher.sketch(chunk), &mut found);
        for candidate in &found {
            *shared.entry(candidate.place).or_default() += candidate.shared;
        }
    }
    let mut ranked: Vec<(u32, u32)> = shared.into_iter().collect();
    ranked.sort_unstable_by_key(|&(place, shared)| (std::cmp::Reverse(shared), place));
    ranked.into_iter().map(|(place, _)| place).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [every, old, new] = &arguments[..] else {
        return Err("expected: ranges EVERY OLD NEW".into());
    };
    let (every, old, new) = (every.parse()?, std::fs::read(old)?, std::fs::read(new)?);
    let chunker = Chunker::new(&Settings::for_average("fastcdc", 64 << 10)?)?;
    let old: Vec<&[u8]> = ibid_chunk::chunks(&chunker, &old).collect();
    let (mut sketcher, mut index) = (Sketcher::new(), FeatureIndex::new());
    index.add_partition(0, 8 * old.len())?;
    for (place, chunk) in old.iter().enumerate() {
        index.insert(0, &sketcher.sketch(chunk), place as u32);
    }
    let known: HashSet<&[u8]> = old.iter().copied().collect();
    let unknown: Vec<&[u8]> = ibid_chunk::chunks(&chunker, &new)
        .filter(|chunk| !known.contains(chunk))
        .collect();

    let (mut encoder, mut selector, mut delta) = (DeltaEncoder::new(), RangeSelector::new(), Vec::new());
    let mut rows: Vec<(usize, bool, Row)> = [16, 64]
        .into_iter()
        .flat_map(|most| [false, true].map(|selected| (most, selected, Row::default())))
        .collect();
    let mut bytes = 0;
    for group in unknown.chunks(GROUP).step_by(every) {
        let target = group.concat();
        bytes += target.len();
        let bases: Vec<&[u8]> = candidates(&mut sketcher, &index, group)
            .iter()
            .map(|&place| old[place as usize])
            .collect();
        for (most, selected, row) in &mut rows {
            let bases = &bases[..bases.len().min(*most)];
            let prefix = prefix_of(selected.then_some(&mut selector), bases, &target, row)?;
            delta.clear();
            timed(&mut row.encoding, || {
                encoder.encode(METHOD, &prefix, &target, &mut delta)
            })?;
            row.prefixes += prefix.len();
            row.deltas += delta.len();
        }
    }
    println!("{bytes} bytes\n| bases | prefixes | deltas | encode MB/s | select MB/s |\n|---|---|---|---|---|");
    for (most, selected, row) in &rows {
        let speed = |bytes: usize, time: Duration| bytes as f64 / time.as_secs_f64() / 1e6;
        let taken = if *selected { "selected" } else { "whole" };
        let selecting = if *selected {
            format!("{:.0}", speed(row.looked_at, row.selecting))
        } else {
            String::new()
        };
        println!(
            "| {most}, {taken} | {} | {} | {:.0} | {selecting} |",
            row.prefixes,
            row.deltas,
            speed(bytes, row.encoding)
        );
    }
    Ok(())
}
