//! The output of `chunkers`.

use std::io::Result;

use ibid_bench::{Comparison, Entry, INDEX_BYTES, INDEX_MEMORY_BYTES, Machine, RECIPE_BYTES, Speed};
use ibid_terminal::number::{count, counted, percent, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::chunker::JsonChunker;
use crate::output::Out;

const PERCENTILES: [f64; 5] = [5.0, 25.0, 50.0, 75.0, 95.0];

#[derive(Serialize)]
pub(super) struct JsonMachine {
    cpu: String,
    threads: usize,
}

impl JsonMachine {
    pub(super) fn new(machine: &Machine) -> JsonMachine {
        JsonMachine {
            cpu: machine.cpu.clone(),
            threads: machine.threads,
        }
    }
}

#[derive(Serialize)]
pub(super) struct JsonSpeed {
    gb_per_s: f64,
    gb_per_s_least: f64,
    gb_per_s_most: f64,
}

impl JsonSpeed {
    pub(super) fn new(speed: Speed) -> JsonSpeed {
        JsonSpeed {
            gb_per_s: speed.median / 1e9,
            gb_per_s_least: speed.least / 1e9,
            gb_per_s_most: speed.most / 1e9,
        }
    }
}

#[derive(Serialize)]
pub(super) struct JsonBackend {
    backend: &'static str,
    #[serde(flatten)]
    speed: JsonSpeed,
}

impl JsonBackend {
    pub(super) fn new((backend, speed): &(ibid_chunk::Backend, Speed)) -> JsonBackend {
        JsonBackend {
            backend: backend.name(),
            speed: JsonSpeed::new(*speed),
        }
    }
}

#[derive(Serialize)]
struct JsonPercentile {
    percent: f64,
    size: usize,
}

#[derive(Serialize)]
struct JsonResult {
    #[serde(flatten)]
    chunker: JsonChunker,
    average: usize,
    chunks: u64,
    unique_chunks: u64,
    unique_bytes: u64,
    metadata_bytes: u64,
    index_memory_bytes: u64,
    savings: f64,
    ratio: f64,
    ratio_with_metadata: f64,
    mean: f64,
    deviation: f64,
    least: usize,
    most: usize,
    percentiles: Vec<JsonPercentile>,
    chunks_at_maximum: u64,
    speeds: Vec<JsonBackend>,
    with_fingerprints: JsonSpeed,
    on_frontier: bool,
}

#[derive(Serialize)]
struct JsonComparison {
    machine: JsonMachine,
    files: u64,
    bytes: u64,
    sample_bytes: u64,
    rounds: u32,
    recipe_bytes_per_chunk: u64,
    index_bytes_per_unique_chunk: u64,
    index_memory_bytes_per_unique_chunk: u64,
    read: JsonSpeed,
    results: Vec<JsonResult>,
}

fn result((entry, on_frontier): (&Entry, bool)) -> JsonResult {
    let percentile = |percent| JsonPercentile {
        percent,
        size: entry.sizes.percentile(percent),
    };
    JsonResult {
        chunker: JsonChunker::new(&entry.settings),
        average: entry.settings.size_average(),
        chunks: entry.sizes.chunks(),
        unique_chunks: entry.unique_chunks,
        unique_bytes: entry.unique_bytes,
        metadata_bytes: entry.metadata_bytes(),
        index_memory_bytes: entry.index_memory_bytes(),
        savings: entry.savings(),
        ratio: entry.ratio(),
        ratio_with_metadata: entry.ratio_with_metadata(),
        mean: entry.sizes.mean(),
        deviation: entry.sizes.deviation(),
        least: entry.sizes.least(),
        most: entry.sizes.most(),
        percentiles: PERCENTILES.map(percentile).into(),
        chunks_at_maximum: entry.sizes.at_max(),
        speeds: entry.speeds.iter().map(JsonBackend::new).collect(),
        with_fingerprints: JsonSpeed::new(entry.with_fingerprints),
        on_frontier,
    }
}

/// Returns the JSON document.
pub(crate) fn document(comparison: &Comparison) -> impl Serialize {
    JsonComparison {
        machine: JsonMachine::new(&comparison.machine),
        files: comparison.files,
        bytes: comparison.bytes,
        sample_bytes: comparison.sample,
        rounds: comparison.rounds,
        recipe_bytes_per_chunk: RECIPE_BYTES,
        index_bytes_per_unique_chunk: INDEX_BYTES,
        index_memory_bytes_per_unique_chunk: INDEX_MEMORY_BYTES,
        read: JsonSpeed::new(comparison.read),
        results: comparison
            .entries
            .iter()
            .zip(comparison.frontier())
            .map(result)
            .collect(),
    }
}

/// Prints the tables.
pub(crate) fn text(out: &mut Out, comparison: &Comparison) -> Result<()> {
    let files = counted(comparison.files, "file", "files");
    out.line(format!("{files}, {}", size(comparison.bytes)))?;
    out.line("")?;
    saved(out, comparison)?;
    out.line("")?;
    speeds(out, comparison)
}

fn saved(out: &mut Out, comparison: &Comparison) -> Result<()> {
    let mut table = Table::new(&[
        ("average", Align::Right),
        ("chunker", Align::Left),
        ("savings", Align::Right),
        ("ratio", Align::Right),
        ("with metadata", Align::Right),
        ("index", Align::Right),
        ("chunks", Align::Right),
        ("mean", Align::Right),
        ("σ", Align::Right),
        ("5 %", Align::Right),
        ("50 %", Align::Right),
        ("95 %", Align::Right),
        ("at maximum", Align::Right),
    ]);
    for entry in &comparison.entries {
        let sizes = &entry.sizes;
        let rounded = |bytes: f64| size(bytes.round() as u64);
        table.row(vec![
            size(entry.settings.size_average() as u64),
            entry.settings.name().to_owned(),
            format!("{:.2} %", entry.savings() * 100.0),
            format!("{:.2}", entry.ratio()),
            format!("{:.2}", entry.ratio_with_metadata()),
            size(entry.index_memory_bytes()),
            count(sizes.chunks()),
            rounded(sizes.mean()),
            rounded(sizes.deviation()),
            size(sizes.percentile(5.0) as u64),
            size(sizes.percentile(50.0) as u64),
            size(sizes.percentile(95.0) as u64),
            percent(sizes.at_max(), sizes.chunks()),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))?;
    out.line(format!(
        "metadata: {RECIPE_BYTES} bytes for each chunk, {INDEX_BYTES} for each different one; index: \
         {INDEX_MEMORY_BYTES} bytes of memory for \
         each different one"
    ))
}

fn speeds(out: &mut Out, comparison: &Comparison) -> Result<()> {
    let backends = comparison.entries.first().map_or(&[][..], |entry| &entry.speeds[..]);
    let mut titles = vec![("average", Align::Right), ("chunker", Align::Left)];
    titles.extend(backends.iter().map(|(backend, _)| (backend.name(), Align::Right)));
    titles.extend([
        ("with BLAKE3", Align::Right),
        ("±", Align::Right),
        ("frontier", Align::Left),
    ]);
    let mut table = Table::new(&titles);
    for (entry, on_frontier) in comparison.entries.iter().zip(comparison.frontier()) {
        let mut row = vec![
            size(entry.settings.size_average() as u64),
            entry.settings.name().to_owned(),
        ];
        let all = entry
            .speeds
            .iter()
            .map(|(_, speed)| *speed)
            .chain([entry.with_fingerprints]);
        row.extend(all.clone().map(shown));
        let spread = all.map(spread).fold(0.0, f64::max);
        row.push(format!("{:.0} %", spread * 100.0));
        row.push(if on_frontier { "*" } else { "" }.to_owned());
        table.row(row);
    }
    table.lines().try_for_each(|line| out.line(line))?;
    out.line(format!(
        "GB/s, one thread, {} in memory, median of {} rounds; ± how far a round was from it at most; \
         reading alone: {}",
        size(comparison.sample),
        comparison.rounds,
        shown(comparison.read)
    ))?;
    out.line("* no other saves as much and is as fast")
}

/// Formats a speed in GB/s with three significant digits.
pub(super) fn shown(speed: Speed) -> String {
    let gb = speed.median / 1e9;
    match gb {
        0.0..0.995 => format!("{gb:.3}"),
        0.995..99.95 => format!("{gb:.2}"),
        99.95..1e4 => format!("{gb:.0}"),
        // Fixed sizes read no data.
        _ => "> 10000".to_owned(),
    }
}

fn spread(speed: Speed) -> f64 {
    let furthest = (speed.most - speed.median).max(speed.median - speed.least);
    furthest / speed.median.max(1.0)
}
