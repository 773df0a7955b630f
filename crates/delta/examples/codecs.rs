//! How small and how fast are deltas between consecutive revisions?
//!
//! `codecs FILE.jsonl [KEY-PREFIX [EVERY]]` reads one JSON object a line, `{"key": …, "body": …}`,
//! in the order of time. Each revision is encoded against the one of the same key before it, of
//! every EVERY-th pair; `-` reads from standard input. Printed for every codec: the ratio of bodies
//! to deltas, that of bodies to deltas packed into blocks of 32 KiB that are compressed with zstd
//! 3, and speeds in MB/s of bodies, the best of three runs of each pair. Bodies alone, packed
//! alike, come first.
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use ibid_delta::advanced::Reversal;
use ibid_delta::{DeltaDecoder, DeltaEncoder, Interval, Method};

const BLOCK: usize = 32 << 10;

/// Packs deltas into blocks.
#[derive(Default)]
struct Blocks {
    block: Vec<u8>,
    written: usize,
}

impl Blocks {
    fn push(&mut self, delta: &[u8]) -> std::io::Result<()> {
        self.block.extend_from_slice(delta);
        if self.block.len() >= BLOCK {
            self.flush()
        } else {
            Ok(())
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.written += zstd::bulk::compress(&self.block, 3)?.len();
        self.block.clear();
        Ok(())
    }
}

/// The results of one way of encoding.
#[derive(Default)]
struct Row {
    written: usize,
    blocks: Blocks,
    encoding: Duration,
    decoding: Duration,
    encoded_from_scratch: usize,
}

/// A way of encoding: forwards, or backwards by reversing the forward delta, which may leave at
/// most so many bytes uncovered.
#[derive(Clone, Copy)]
enum Way {
    Forwards(Method),
    Backwards(Method, fn(usize) -> usize),
}

fn ways() -> Vec<(String, Way)> {
    let mut ways = Vec::new();
    for level in [1, 3] {
        ways.push((
            format!("zstd-prefix {level}"),
            Way::Forwards(Method::ZstdPrefix { level }),
        ));
    }
    for interval in Interval::ALL {
        let method = Method::Anchor { interval };
        ways.push((format!("anchor {}", interval.positions()), Way::Forwards(method)));
    }
    let method = Method::Anchor {
        interval: Interval::I64,
    };
    ways.push(("backward, turned round".into(), Way::Backwards(method, |_| usize::MAX)));
    ways.push((
        "backward, with fall-back".into(),
        Way::Backwards(method, Reversal::uncovered_max),
    ));
    ways.push(("backward, from scratch".into(), Way::Backwards(method, |_| 0)));
    ways
}

struct Measurement {
    encoder: DeltaEncoder,
    decoder: DeltaDecoder,
    rows: Vec<(String, Way, Row)>,
    bodies: Row,
}

impl Measurement {
    fn pair(&mut self, base: &[u8], target: &[u8]) -> Result<(), Box<dyn Error>> {
        self.bodies.written += target.len();
        self.bodies.blocks.push(target)?;
        let (mut delta, mut forward, mut decoded) = (Vec::new(), Vec::new(), Vec::new());
        for (_, way, row) in &mut self.rows {
            delta.clear();
            forward.clear();
            let (from, to) = match *way {
                Way::Forwards(method) => {
                    row.encoding += fastest(|| {
                        delta.clear();
                        self.encoder.encode(method, base, target, &mut delta)
                    })?;
                    (base, target)
                }
                Way::Backwards(method, uncovered_max) => {
                    self.encoder.encode(method, base, target, &mut forward)?;
                    let mut reversal = Reversal::Encoded;
                    self.encoder = std::mem::take(&mut self.encoder).with_uncovered_max(uncovered_max(base.len()));
                    row.encoding += fastest(|| {
                        delta.clear();
                        reversal = self.encoder.reverse(method, base, target, &forward, &mut delta)?;
                        Ok(())
                    })?;
                    row.encoded_from_scratch += usize::from(reversal == Reversal::Encoded);
                    (target, base)
                }
            };
            row.written += delta.len();
            row.blocks.push(&delta)?;
            row.decoding += fastest(|| {
                decoded.clear();
                self.decoder.decode(from, &delta, to.len(), &mut decoded)
            })?;
            assert!(decoded == to, "what was encoded decodes");
        }
        Ok(())
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
    let mut arguments = std::env::args().skip(1);
    let file = arguments
        .next()
        .ok_or("expected: codecs FILE.jsonl [KEY-PREFIX [EVERY]]")?;
    let prefix = arguments.next().unwrap_or_default();
    let every: usize = arguments.next().map_or(Ok(1), |every| every.parse())?;
    let input: Box<dyn Read> = match file.as_str() {
        "-" => Box::new(std::io::stdin()),
        _ => Box::new(std::fs::File::open(file)?),
    };
    let mut measurement = Measurement {
        encoder: DeltaEncoder::new(),
        decoder: DeltaDecoder::new(),
        rows: ways()
            .into_iter()
            .map(|(name, way)| (name, way, Row::default()))
            .collect(),
        bodies: Row::default(),
    };
    let mut latest = HashMap::new();
    let mut pairs = 0;
    for line in BufReader::with_capacity(1 << 20, input).lines() {
        let mut record: serde_json::Value = serde_json::from_str(&line?)?;
        let (Some(key), Some(body)) = (record["key"].as_str(), record["body"].as_str()) else {
            return Err("a line without key or body".into());
        };
        if !key.starts_with(&prefix) {
            continue;
        }
        let (key, body) = (key.to_owned(), body.to_owned());
        record.take();
        if let Some(base) = latest.get(&key) {
            pairs += 1;
            if pairs % every == 0 {
                measurement.pair(String::as_bytes(base), body.as_bytes())?;
            }
        }
        latest.insert(key, body);
    }

    let bodies = measurement.bodies.written as f64;
    measurement.bodies.blocks.flush()?;
    println!("{} pairs, {} bytes", pairs / every, measurement.bodies.written);
    println!("| codec | ratio | in blocks | encode MB/s | decode MB/s |\n|---|---|---|---|---|");
    println!(
        "| whole | 1.0 | {:.1} | | |",
        bodies / measurement.bodies.blocks.written as f64
    );
    for (name, _, row) in &mut measurement.rows {
        row.blocks.flush()?;
        let speed = |time: Duration| bodies / time.as_secs_f64() / 1e6;
        let note = match row.encoded_from_scratch {
            0 => String::new(),
            count => format!(" ({count} from scratch)"),
        };
        println!(
            "| {name}{note} | {:.1} | {:.1} | {:.0} | {:.0} |",
            bodies / row.written as f64,
            bodies / row.blocks.written as f64,
            speed(row.encoding),
            speed(row.decoding)
        );
    }
    Ok(())
}
