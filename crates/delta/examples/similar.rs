//! How much do deltas save if versions of one record are not known to belong together?
//!
//! `similar FILE.jsonl [RECORDS [HOT-WEIGHT [KEYS]]]` reads one JSON object a line,
//! `{"key": …, "body": …}`. Each body is sketched, looked up among those before it, and encoded
//! against the best candidate, or alone; bases may be up to 8 deep, and half of the bodies are said
//! to be cached, the latest. With `KEYS` the key is a lineage hint. Printed for each way of
//! sketching: the ratio of bodies to stored bytes, how often the base is an earlier revision of the
//! same key, depth, and MB/s of each step. In place of the file, a folder of files may be given,
//! whose distinct chunks of 64 KiB are taken.
#![allow(clippy::print_stdout, reason = "this is a program")]

use std::collections::HashSet;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use ibid_chunk::{Chunker, Settings};
use ibid_delta::{BaseChooser, CandidateState, FeatureBytes, FeatureIndex, Interval, Method, Ranking, Sketcher};

struct Record {
    key: String,
    body: Vec<u8>,
}

fn timed<T>(total: &mut Duration, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    *total += start.elapsed();
    result
}

fn run(
    name: &str,
    mut sketcher: Sketcher,
    scoring: &Ranking,
    keys: bool,
    records: &[Record],
) -> Result<(), Box<dyn Error>> {
    let method = Method::ZstdPrefix { level: 1 };
    let mut chooser = BaseChooser::new(method);
    let mut index = FeatureIndex::new();
    index.add_partition(0, 8 * records.len())?;
    let (mut candidates, mut ranked, mut out) = (Vec::new(), Vec::new(), Vec::new());
    let mut depths: Vec<u32> = Vec::new();
    let [mut sketching, mut searching, mut encoding] = [Duration::ZERO; 3];
    let (mut read, mut stored, mut of_key, mut deltas) = (0, 0, 0, 0);
    for (place, record) in records.iter().enumerate() {
        let mut sketch = timed(&mut sketching, || sketcher.sketch(&record.body));
        if keys {
            let mut hasher = DefaultHasher::new();
            record.key.hash(&mut hasher);
            sketch = sketch.with_lineage(hasher.finish());
        }
        timed(&mut searching, || {
            index.candidates(0, &sketch, &mut candidates);
            let standing = |candidate: u32| {
                Some(CandidateState {
                    cached: candidate as usize >= place / 2,
                    depth: depths[candidate as usize],
                })
            };
            scoring.rank(&candidates, standing, &mut ranked);
        });
        out.clear();
        let chosen = timed(&mut encoding, || {
            let base = |place: u32| Some(&records[place as usize].body);
            let chosen = chooser.choose(&ranked, base, &record.body, &mut out)?;
            let chosen = chosen.filter(|chosen| 2 * chosen.delta_len < record.body.len());
            if chosen.is_none() {
                out.clear();
                chooser.encoder().encode(method, b"", &record.body, &mut out)?;
            }
            Ok::<_, ibid_delta::Error>(chosen)
        })?;
        depths.push(chosen.map_or(0, |chosen| depths[chosen.place as usize] + 1));
        if let Some(chosen) = chosen {
            deltas += 1;
            of_key += usize::from(records[chosen.place as usize].key == record.key);
            timed(&mut searching, || index.touch(0, &sketch, chosen.place));
        }
        timed(&mut searching, || index.insert(0, &sketch, place as u32));
        read += record.body.len();
        stored += out.len();
    }
    let depth: u32 = depths.iter().sum();
    let rate = |time: Duration| read as f64 / time.as_secs_f64() / 1e6;
    println!(
        "| {name} | {:.1} | {deltas} | {of_key} | {:.1} | {:.0} | {:.0} | {:.0} |",
        read as f64 / stored as f64,
        f64::from(depth) / records.len() as f64,
        rate(sketching),
        rate(searching),
        rate(encoding)
    );
    Ok(())
}

fn revisions(file: &str, count: usize) -> Result<Vec<Record>, Box<dyn Error>> {
    let mut records = Vec::new();
    for line in BufReader::new(std::fs::File::open(file)?).lines().take(count) {
        let record: serde_json::Value = serde_json::from_str(&line?)?;
        let (Some(key), Some(body)) = (record["key"].as_str(), record["body"].as_str()) else {
            return Err("a line without key or body".into());
        };
        records.push(Record {
            key: key.to_owned(),
            body: body.as_bytes().to_vec(),
        });
    }
    Ok(records)
}

/// The distinct chunks of a folder's files, by name.
fn chunks_of_files(folder: &str, count: usize) -> Result<Vec<Record>, Box<dyn Error>> {
    let mut files: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    files.sort_by_key(std::fs::DirEntry::path);
    let chunker = Chunker::new(&Settings::for_average("fastcdc", 64 << 10)?)?;
    let (mut records, mut known) = (Vec::new(), HashSet::new());
    for file in files {
        let data = std::fs::read(file.path())?;
        for chunk in ibid_chunk::chunks(&chunker, &data) {
            let mut hasher = DefaultHasher::new();
            chunk.hash(&mut hasher);
            if records.len() < count && known.insert(hasher.finish()) {
                records.push(Record {
                    key: String::new(),
                    body: chunk.to_vec(),
                });
            }
        }
    }
    Ok(records)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments
        .next()
        .ok_or("expected: similar FILE.jsonl [RECORDS [HOT-WEIGHT [KEYS]]]")?;
    let count: usize = arguments.next().map_or(Ok(10_000), |count| count.parse())?;
    let mut scoring = Ranking::default();
    if let Some(weight) = arguments.next() {
        scoring.hot_weight = weight.parse()?;
    }
    let keys = arguments.next().is_some();
    let records = if std::fs::metadata(&file)?.is_dir() {
        chunks_of_files(&file, count)?
    } else {
        revisions(&file, count)?
    };
    println!("{} records, hot features weigh {}", records.len(), scoring.hot_weight);
    println!(
        "| sketch | ratio | deltas | against the same key | depth | sketch MB/s | search MB/s | encode MB/s |\n\
         |---|---|---|---|---|---|---|---|"
    );
    for interval in [Interval::I16, Interval::I64, Interval::I128] {
        for bytes in FeatureBytes::ALL {
            let sketcher = Sketcher::sampled(interval, bytes);
            run(
                &format!("1/{} {bytes:?}", interval.positions()),
                sketcher,
                &scoring,
                keys,
                &records,
            )?;
        }
    }
    for name in ["gear", "seqcdc"] {
        let chunker = Chunker::new(&Settings::for_average(name, 256)?)?;
        run(
            &format!("{name} 256"),
            Sketcher::chunked(chunker),
            &scoring,
            keys,
            &records,
        )?;
    }
    Ok(())
}
