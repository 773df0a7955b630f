//! Measures how much deltas made in the background slow down reads and writes. Mixes reads and
//! writes as in dDedup §5.1, on a store with deltas and on one without.
//!
//! `cargo run --release -p ibid-record --example mixes FILE FOLDER [ROUNDS [ROW]]`, where FILE has
//! a JSON object a line, with `key` and `body`, and ROW begins the rows to show, such as `1:1`.
//!
//! Rounds alternate between the two stores, so that other work on the machine affects both. The
//! table shows medians, and the median of the ratios of adjacent rounds.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use ibid_record::{Durability, Encoding, Namespace, Options, Store, Versions};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Pair = (Vec<u8>, Vec<u8>);

/// Records stored before the measurement, as in the paper.
const BEFORE: usize = 10_000;
/// Most records that are stored in a round.
const WRITES_MAX: usize = 20_000;
/// Most reads in a round.
const READS_MAX: usize = 200_000;
/// Records of a batch before the measurement.
const BATCH: usize = 100;

/// A ratio of reads to writes.
#[derive(Clone, Copy)]
struct Mix {
    reads: usize,
    writes: usize,
}

/// The result of a round: operations a second, and the microseconds of each operation, ascending.
struct Round {
    rate: f64,
    reads: Vec<f64>,
    writes: Vec<f64>,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "mixes FILE FOLDER [ROUNDS [ROW]]";
    let records = read(&arguments.next().ok_or(usage)?)?;
    let folder = arguments.next().ok_or(usage)?;
    let rounds = arguments.next().map_or(Ok(5), |rounds| rounds.parse::<usize>())?;
    let row = arguments.next().unwrap_or_default();
    let durabilities = [
        Durability::Sync,
        Durability::Batched(Duration::from_millis(100)),
        Durability::None,
    ];
    println!("| mixture | durability | operations/s | read, µs: 50 %, 99.9 % | write, µs: 50 %, 99.9 % |");
    println!("|---|---|---|---|---|");
    for (reads, writes) in [(999, 1), (1, 1), (0, 1)] {
        for durability in durabilities {
            let name = format!("{reads}:{writes} | {durability:?}");
            if name.starts_with(&row) {
                let mix = Mix { reads, writes };
                compare(rounds, &name, |on| {
                    play(Path::new(&folder), &records, mix, durability, on)
                })?;
            }
        }
    }
    for compacted in [false, true] {
        let name = format!("1:0 | {}", if compacted { "compacted" } else { "as stored" });
        if !name.starts_with(&row) {
            continue;
        }
        let stores = [false, true].map(|on| {
            filled(
                &Path::new(&folder).join(format!("filled-{on}")),
                &records,
                on,
                compacted,
            )
        });
        let [without, with] = stores;
        let (without, with) = (without?, with?);
        compare(rounds, &name, |on| {
            let (_, space) = if on { &with } else { &without };
            look_up(space, &records)
        })?;
        compare(rounds, &format!("{name}, oldest of the longest chain"), |on| {
            let (_, space) = if on { &with } else { &without };
            look_back(space, &records)
        })?;
        drop((without, with));
        for on in [false, true] {
            fs::remove_dir_all(Path::new(&folder).join(format!("filled-{on}")))?;
        }
    }
    Ok(())
}

fn read(path: &str) -> Result<Vec<Pair>> {
    let mut records = Vec::new();
    for line in BufReader::new(fs::File::open(path)?).lines() {
        let line: serde_json::Value = serde_json::from_str(&line?)?;
        let field = |name: &str| {
            line[name]
                .as_str()
                .map(|text| text.as_bytes().to_vec())
                .ok_or("a line has no such field")
        };
        records.push((field("key")?, field("body")?));
    }
    Ok(records)
}

/// Runs rounds without deltas and with them in turn, and prints a row for each.
fn compare(rounds: usize, what: &str, mut round: impl FnMut(bool) -> Result<Round>) -> Result<()> {
    let mut found = [Vec::new(), Vec::new()];
    for number in 0..rounds {
        // The two take turns at being first.
        for on in [number % 2 == 0, number % 2 == 1] {
            found[usize::from(on)].push(round(on)?);
        }
    }
    let of = |round: &Round, figure: usize| {
        let (times, part) = match figure {
            0 => (&round.reads, 0.5),
            1 => (&round.reads, 0.999),
            2 => (&round.writes, 0.5),
            _ => (&round.writes, 0.999),
        };
        let last = times.len().saturating_sub(1);
        times
            .get((last as f64 * part).round() as usize)
            .copied()
            .unwrap_or(f64::NAN)
    };
    for (name, rounds) in ["whole", "deltas"].iter().zip(&found) {
        let rate = median(rounds.iter().map(|round| round.rate).collect());
        let times: Vec<f64> = (0..4)
            .map(|figure| median(rounds.iter().map(|round| of(round, figure)).collect()))
            .collect();
        println!(
            "| {what} | {name} | {rate:.0} | {:.1}, {:.1} | {:.1}, {:.1} |",
            times[0], times[1], times[2], times[3]
        );
    }
    let [without, with] = &found;
    let ratio = |figure: &dyn Fn(&Round) -> f64| {
        median(
            without
                .iter()
                .zip(with)
                .map(|(without, with)| figure(with) / figure(without))
                .collect(),
        )
    };
    let times: Vec<f64> = (0..4).map(|figure| ratio(&|round| of(round, figure))).collect();
    println!(
        "| {what} | ratio | {:.3} | {:.3}, {:.3} | {:.3}, {:.3} |",
        ratio(&|round| round.rate),
        times[0],
        times[1],
        times[2],
        times[3]
    );
    Ok(())
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_unstable_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

fn open(place: &Path, durability: Durability, on: bool) -> Result<(Store, Namespace)> {
    let encoding = Encoding::default().with_enabled(on);
    let store = Store::open(
        place,
        Options::default().with_durability(durability).with_encoding(encoding),
    )?;
    let space = store.namespace("pages", Versions::Kept)?;
    Ok((store, space))
}

fn put(store: &Store, space: &Namespace, records: &[Pair]) -> Result<()> {
    for records in records.chunks(BATCH) {
        let mut batch = ibid_record::Batch::new();
        for (key, body) in records {
            batch.put(space, key, body);
        }
        store.commit_with(batch, Durability::None)?;
    }
    Ok(())
}

/// Mixes reads and writes on a store that has records already.
fn play(folder: &Path, records: &[Pair], mix: Mix, durability: Durability, on: bool) -> Result<Round> {
    let place = folder.join("played");
    let (store, space) = open(&place, durability, on)?;
    let (before, new) = records.split_at(BEFORE.min(records.len() / 2));
    put(&store, &space, before)?;
    store.finish_encoding()?;
    store.sync()?;
    let mut random = Random(1);
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    let (mut new, mut last) = (new.iter().take(WRITES_MAX), None);
    let start = Instant::now();
    'play: while reads.len() < READS_MAX {
        for _ in 0..mix.writes {
            let Some((key, body)) = new.next() else { break 'play };
            let took = Instant::now();
            space.put(key, body)?;
            writes.push(took.elapsed().as_secs_f64() * 1e6);
            last = Some(key);
        }
        for _ in 0..mix.reads {
            // A read follows each write and reads what was written, as with mail.
            let key = match last {
                Some(key) if mix.reads == 1 => key,
                _ => &before[random.below(before.len())].0,
            };
            let took = Instant::now();
            assert!(space.get(key)?.is_some());
            reads.push(took.elapsed().as_secs_f64() * 1e6);
        }
    }
    let rate = (reads.len() + writes.len()) as f64 / start.elapsed().as_secs_f64();
    drop((space, store));
    fs::remove_dir_all(&place)?;
    Ok(sorted(rate, reads, writes))
}

fn sorted(rate: f64, mut reads: Vec<f64>, mut writes: Vec<f64>) -> Round {
    reads.sort_unstable_by(f64::total_cmp);
    writes.sort_unstable_by(f64::total_cmp);
    Round { rate, reads, writes }
}

fn filled(place: &Path, records: &[Pair], on: bool, compacted: bool) -> Result<(Store, Namespace)> {
    let (store, space) = open(place, Durability::None, on)?;
    put(&store, &space, records)?;
    store.finish_encoding()?;
    if compacted {
        store.compact(&mut |_| ControlFlow::Continue(()))?;
    }
    store.sync()?;
    Ok((store, space))
}

/// Reads latest versions.
fn look_up(space: &Namespace, records: &[Pair]) -> Result<Round> {
    let mut random = Random(2);
    let mut reads = Vec::with_capacity(READS_MAX);
    let start = Instant::now();
    for _ in 0..READS_MAX {
        let (key, _) = &records[random.below(records.len())];
        let took = Instant::now();
        assert!(space.get(key)?.is_some());
        reads.push(took.elapsed().as_secs_f64() * 1e6);
    }
    let rate = reads.len() as f64 / start.elapsed().as_secs_f64();
    Ok(sorted(rate, reads, Vec::new()))
}

/// Reads the first version of the key with the most versions, and other records in between, so that
/// it is not in a cache.
fn look_back(space: &Namespace, records: &[Pair]) -> Result<Round> {
    let mut versions: HashMap<&[u8], usize> = HashMap::new();
    for (key, _) in records {
        *versions.entry(key).or_default() += 1;
    }
    let longest = versions.iter().max_by_key(|&(key, versions)| (versions, key));
    let (longest, _) = longest.ok_or("there are no records")?;
    let mut random = Random(3);
    let mut reads = Vec::new();
    let mut spent = Duration::ZERO;
    for _ in 0..30 {
        for _ in 0..100 {
            let (key, _) = &records[random.below(records.len())];
            let last = space.versions(key)?.len() as u32;
            space.get_version(key, last.div_ceil(2))?;
        }
        let took = Instant::now();
        assert!(space.get_version(longest, 1)?.is_some());
        spent += took.elapsed();
        reads.push(took.elapsed().as_secs_f64() * 1e6);
    }
    Ok(sorted(reads.len() as f64 / spent.as_secs_f64(), reads, Vec::new()))
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    }
}
