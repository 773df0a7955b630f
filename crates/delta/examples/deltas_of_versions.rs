//! How small and how fast are deltas between versions of large files?
//!
//! `deltas_of_versions TARGET-KIB BASE-KIB EVERY FILE FILE...` takes every EVERY-th stretch of TARGET-KIB of
//! each file but the first, and encodes it against the BASE-KIB around the same place of the file
//! before. It prints for every method the size of all deltas and the speed in MB/s of targets, the
//! best of three runs of each pair.
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::error::Error;
use std::time::{Duration, Instant};

use ibid_delta::{DeltaDecoder, DeltaEncoder, Interval, Method};

/// The results of one method.
struct Row {
    method: Method,
    written: usize,
    encoding: Duration,
    decoding: Duration,
}

fn methods() -> Vec<Method> {
    let levels = [1, 3, 6];
    let prefix = levels.map(|level| Method::ZstdPrefix { level });
    let anchors = [Interval::I32, Interval::I64]
        .into_iter()
        .flat_map(|interval| levels.map(|level| Method::AnchorZstd { level, interval }));
    let anchor = Method::Anchor {
        interval: Interval::I64,
    };
    prefix.into_iter().chain(anchors).chain([anchor]).collect()
}

fn name(method: Method) -> String {
    let codec = method.codec().name();
    match method {
        Method::ZstdPrefix { level } => format!("{codec}, level {level}"),
        Method::Anchor { interval } => format!("{codec}, interval {}", interval.positions()),
        Method::AnchorZstd { level, interval } => {
            format!("{codec}, level {level}, interval {}", interval.positions())
        }
    }
}

/// Returns the least time of three runs.
fn fastest<T>(mut work: impl FnMut() -> Result<T, ibid_delta::Error>) -> Result<Duration, ibid_delta::Error> {
    let mut least = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        work()?;
        least = least.min(start.elapsed());
    }
    Ok(least)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [target_kib, base_kib, every, files @ ..] = &arguments[..] else {
        return Err("expected: deltas_of_versions TARGET-KIB BASE-KIB EVERY FILE FILE...".into());
    };
    let (target_len, base_len) = (target_kib.parse::<usize>()? << 10, base_kib.parse::<usize>()? << 10);
    let every: usize = every.parse()?;
    let (mut encoder, mut decoder) = (DeltaEncoder::new(), DeltaDecoder::new());
    let mut rows: Vec<Row> = methods()
        .into_iter()
        .map(|method| Row {
            method,
            written: 0,
            encoding: Duration::ZERO,
            decoding: Duration::ZERO,
        })
        .collect();
    let (mut pairs, mut bytes) = (0, 0);
    let mut before: Vec<u8> = Vec::new();
    for file in files {
        let data = std::fs::read(file)?;
        for (number, target) in data.chunks(target_len).enumerate() {
            if before.is_empty() || number % every != 0 {
                continue;
            }
            let start = (number * target_len).saturating_sub((base_len - target_len.min(base_len)) / 2);
            let start = start.min(before.len());
            let base = &before[start..before.len().min(start + base_len)];
            (pairs, bytes) = (pairs + 1, bytes + target.len());
            for row in &mut rows {
                let (mut delta, mut decoded) = (Vec::new(), Vec::new());
                row.encoding += fastest(|| {
                    delta.clear();
                    encoder.encode(row.method, base, target, &mut delta)
                })?;
                row.decoding += fastest(|| {
                    decoded.clear();
                    decoder.decode(base, &delta, target.len(), &mut decoded)
                })?;
                assert!(decoded == target, "what was encoded decodes");
                row.written += delta.len();
            }
        }
        before = data;
    }
    println!("{pairs} pairs, {bytes} bytes");
    println!("| method | bytes | encode MB/s | decode MB/s |\n|---|---|---|---|");
    for row in &rows {
        let speed = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e6;
        println!(
            "| {} | {} | {:.0} | {:.0} |",
            name(row.method),
            row.written,
            speed(row.encoding),
            speed(row.decoding)
        );
    }
    Ok(())
}
