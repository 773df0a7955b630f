//! The output of `records`.

use std::io::Result;

use ibid_bench::{BurstsRun, Latencies, Records, RecordsFigure, RecordsRun, Rival, RivalRun, SizeShare, TraceRun};
use ibid_record::{Encoding, Retrieval};
use ibid_terminal::number::{count, counted, percent, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::chunkers::JsonMachine;
use crate::output::Out;

#[derive(Serialize)]
struct JsonRun {
    figure: &'static str,
    deltas: bool,
    retrieval: &'static str,
    distance: u32,
    interval: u32,
    feature_bytes: u64,
    source_cache_bytes: u64,
    reward: u8,
    seconds: f64,
    stored_bytes: u64,
    ratio: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_bytes: Option<u64>,
    retrievals_mean: f64,
    retrievals_max: u64,
    cache_hits: u64,
    cache_misses: u64,
    index_bytes: u64,
}

#[derive(Serialize)]
struct JsonRival {
    rival: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk_bytes: Option<u64>,
    stored_bytes: u64,
    ratio: f64,
    block_bytes: u64,
    index_bytes: u64,
}

#[derive(Serialize)]
struct JsonSize {
    bytes_max: u64,
    records_share: f64,
    saved_share: f64,
}

#[derive(Serialize)]
struct JsonLatencies {
    count: u64,
    p50_us: Option<f64>,
    p90_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    max_us: Option<f64>,
    curve: Vec<JsonLatency>,
}

#[derive(Serialize)]
struct JsonLatency {
    percent: f64,
    us: f64,
}

#[derive(Serialize)]
struct JsonTrace {
    reads_of: u64,
    writes_of: u64,
    deltas: bool,
    operations_per_s: f64,
    reads: JsonLatencies,
    writes: JsonLatencies,
}

#[derive(Serialize)]
struct JsonBursts {
    write_back: bool,
    slice_seconds: f64,
    records_per_slice: Vec<u64>,
    bytes: u64,
    stored_bytes: u64,
    dropped: u64,
}

#[derive(Serialize)]
struct JsonRecords {
    machine: JsonMachine,
    records: u64,
    bytes: u64,
    versions: &'static str,
    runs: Vec<JsonRun>,
    rivals: Vec<JsonRival>,
    sizes: Vec<JsonSize>,
    traces: Vec<JsonTrace>,
    bursts: Vec<JsonBursts>,
}

fn figure(figure: RecordsFigure) -> &'static str {
    match figure {
        RecordsFigure::Ratio => "ratio",
        RecordsFigure::SourceCache => "source_cache",
        RecordsFigure::Retrieval => "retrieval",
        RecordsFigure::Interval => "interval",
    }
}

fn retrieval(retrieval: Retrieval) -> (&'static str, u32) {
    match retrieval {
        Retrieval::Chain => ("chain", 0),
        Retrieval::Hop { distance } => ("hop", distance),
        Retrieval::VersionJumping { distance } => ("jump", distance),
    }
}

fn ratio(found: &Records, stored: u64) -> f64 {
    found.bytes as f64 / stored.max(1) as f64
}

fn json_run(found: &Records, run: &RecordsRun) -> JsonRun {
    let Encoding {
        enabled,
        interval,
        feature_bytes,
        source_cache_bytes,
        reward,
        ..
    } = run.encoding;
    let (retrieval, distance) = retrieval(run.encoding.retrieval);
    JsonRun {
        figure: figure(run.figure),
        deltas: enabled,
        retrieval,
        distance,
        interval: interval.positions(),
        feature_bytes: feature_bytes.count() as u64,
        source_cache_bytes: source_cache_bytes as u64,
        reward,
        seconds: run.seconds,
        stored_bytes: run.stored_bytes,
        ratio: ratio(found, run.stored_bytes),
        block_bytes: run.block_bytes,
        retrievals_mean: run.retrievals_mean,
        retrievals_max: run.retrievals_max,
        cache_hits: run.cache_hits,
        cache_misses: run.cache_misses,
        index_bytes: run.index_bytes,
    }
}

fn json_rival(found: &Records, run: &RivalRun) -> JsonRival {
    let (rival, chunk_bytes) = match run.rival {
        Rival::Blocks => ("blocks", None),
        Rival::Traditional { chunk_bytes } => ("chunks", Some(chunk_bytes as u64)),
    };
    JsonRival {
        rival,
        chunk_bytes,
        stored_bytes: run.stored_bytes,
        ratio: ratio(found, run.stored_bytes),
        block_bytes: run.block_bytes,
        index_bytes: run.index_bytes,
    }
}

fn json_latencies(latencies: &Latencies) -> JsonLatencies {
    let at = |percent| latencies.percentile_us(percent);
    JsonLatencies {
        count: latencies.count() as u64,
        p50_us: at(50.0),
        p90_us: at(90.0),
        p99_us: at(99.0),
        p999_us: at(99.9),
        max_us: at(100.0),
        curve: latencies
            .curve()
            .map(|(percent, us)| JsonLatency { percent, us })
            .collect(),
    }
}

fn json_trace(run: &TraceRun) -> JsonTrace {
    JsonTrace {
        reads_of: run.trace.reads,
        writes_of: run.trace.writes,
        deltas: run.deltas,
        operations_per_s: run.operations_per_s,
        reads: json_latencies(&run.reads),
        writes: json_latencies(&run.writes),
    }
}

fn json_bursts(run: &BurstsRun) -> JsonBursts {
    JsonBursts {
        write_back: run.write_back,
        slice_seconds: run.slice_seconds,
        records_per_slice: run.slices.clone(),
        bytes: run.bytes,
        stored_bytes: run.stored_bytes,
        dropped: run.dropped,
    }
}

fn json_size(share: SizeShare) -> JsonSize {
    JsonSize {
        bytes_max: share.to,
        records_share: share.records,
        saved_share: share.saved,
    }
}

/// Returns the JSON document.
pub(crate) fn document(found: &Records) -> impl Serialize {
    let versions = if found.versions_kept { "kept" } else { "latest" };
    JsonRecords {
        machine: JsonMachine::new(&found.machine),
        records: found.records,
        bytes: found.bytes,
        versions,
        runs: found.runs.iter().map(|run| json_run(found, run)).collect(),
        rivals: found.rivals.iter().map(|run| json_rival(found, run)).collect(),
        sizes: found.size_shares().into_iter().map(json_size).collect(),
        traces: found.traces.iter().map(json_trace).collect(),
        bursts: found.bursts.iter().map(json_bursts).collect(),
    }
}

/// Prints figures 1, 6 and 9 to 12 of dDedup as tables.
pub(crate) fn text(out: &mut Out, found: &Records) -> Result<()> {
    let records = counted(found.records, "record", "records");
    out.line(format!("{records}, {}", size(found.bytes)))?;
    let mut tables = vec![
        ("what deltas and blocks save, and what else would", ratios(found)),
        ("which records save", sizes(found)),
        (
            "memory for the newest records, and the reward for those in it",
            caches(found),
        ),
        ("how many others are read for one record", retrievals(found)),
        ("how densely records are searched", intervals(found)),
    ];
    if !found.traces.is_empty() {
        tables.push(("reads and writes mixed, µs", traces(found)));
    }
    if !found.bursts.is_empty() {
        tables.push(("bursts of writes, records a second", bursts(found)));
    }
    for (title, table) in tables {
        out.line(format!("\n{title}"))?;
        table.lines().try_for_each(|line| out.line(line))?;
    }
    Ok(())
}

fn of(found: &Records, figure: RecordsFigure) -> impl Iterator<Item = &RecordsRun> {
    found.runs.iter().filter(move |run| run.figure == figure)
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// Formats bytes of bodies a second.
fn speed(found: &Records, run: &RecordsRun) -> String {
    format!("{}/s", size((found.bytes as f64 / run.seconds.max(1e-9)) as u64))
}

fn ratios(found: &Records) -> Table {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("stored", Align::Right),
        ("ratio", Align::Right),
        ("in blocks", Align::Right),
        ("ratio", Align::Right),
        ("index", Align::Right),
        ("speed", Align::Right),
    ]);
    for run in of(found, RecordsFigure::Ratio) {
        let blocks = run.block_bytes.unwrap_or_default();
        let name = match run.encoding.enabled {
            true => format!(
                "deltas, features of {}",
                size(run.encoding.feature_bytes.count() as u64)
            ),
            false => "whole".to_owned(),
        };
        table.row(vec![
            name,
            size(run.stored_bytes),
            times(ratio(found, run.stored_bytes)),
            size(blocks),
            times(ratio(found, blocks)),
            size(run.index_bytes),
            speed(found, run),
        ]);
    }
    for run in &found.rivals {
        let name = match run.rival {
            Rival::Blocks => "blocks alone".to_owned(),
            Rival::Traditional { chunk_bytes } => format!("chunks of {}", size(chunk_bytes as u64)),
        };
        table.row(vec![
            name,
            size(run.stored_bytes),
            times(ratio(found, run.stored_bytes)),
            size(run.block_bytes),
            times(ratio(found, run.block_bytes)),
            size(run.index_bytes),
            "–".to_owned(),
        ]);
    }
    table
}

/// Returns a table of sizes with the share of the records up to each, and the share of the saving
/// due to these.
fn sizes(found: &Records) -> Table {
    let mut table = Table::new(&[
        ("up to", Align::Right),
        ("of the records", Align::Right),
        ("of the saving", Align::Right),
    ]);
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    for at in found.sizes_at(&[0.1, 0.2, 0.4, 0.6, 0.8, 1.0]) {
        table.row(vec![size(at.to), percent(at.records), percent(at.saved)]);
    }
    table
}

fn caches(found: &Records) -> Table {
    let mut table = Table::new(&[
        ("memory", Align::Right),
        ("reward", Align::Right),
        ("ratio", Align::Right),
        ("read from the store", Align::Right),
    ]);
    for run in of(found, RecordsFigure::SourceCache) {
        table.row(vec![
            size(run.encoding.source_cache_bytes as u64),
            run.encoding.reward.to_string(),
            times(ratio(found, run.stored_bytes)),
            percent(run.cache_misses, run.cache_hits + run.cache_misses),
        ]);
    }
    table
}

fn retrievals(found: &Records) -> Table {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("distance", Align::Right),
        ("ratio", Align::Right),
        ("mean", Align::Right),
        ("most", Align::Right),
    ]);
    for run in of(found, RecordsFigure::Retrieval) {
        let (name, distance) = retrieval(run.encoding.retrieval);
        table.row(vec![
            name.to_owned(),
            if distance == 0 {
                String::new()
            } else {
                distance.to_string()
            },
            times(ratio(found, run.stored_bytes)),
            format!("{:.1}", run.retrievals_mean),
            count(run.retrievals_max),
        ]);
    }
    table
}

fn intervals(found: &Records) -> Table {
    let mut table = Table::new(&[
        ("one position in", Align::Right),
        ("ratio", Align::Right),
        ("speed", Align::Right),
    ]);
    for run in of(found, RecordsFigure::Interval) {
        table.row(vec![
            run.encoding.interval.positions().to_string(),
            times(ratio(found, run.stored_bytes)),
            speed(found, run),
        ]);
    }
    table
}

fn traces(found: &Records) -> Table {
    let mut table = Table::new(&[
        ("reads:writes", Align::Right),
        ("", Align::Left),
        ("a second", Align::Right),
        ("reads 50 %", Align::Right),
        ("99 %", Align::Right),
        ("99.9 %", Align::Right),
        ("writes 50 %", Align::Right),
        ("99 %", Align::Right),
        ("99.9 %", Align::Right),
    ]);
    for run in &found.traces {
        let name = if run.deltas { "deltas" } else { "whole" };
        let mut row = vec![
            format!("{}:{}", run.trace.reads, run.trace.writes),
            name.to_owned(),
            count(run.operations_per_s as u64),
        ];
        for latencies in [&run.reads, &run.writes] {
            let at = |percent| latencies.percentile_us(percent);
            let shown = |percent| at(percent).map_or("–".to_owned(), |us| format!("{us:.1}"));
            row.extend([50.0, 99.0, 99.9].map(shown));
        }
        table.row(row);
    }
    table
}

fn bursts(found: &Records) -> Table {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("records", Align::Right),
        ("a second, busy", Align::Right),
        ("least", Align::Right),
        ("ratio", Align::Right),
        ("dropped", Align::Right),
    ]);
    for run in &found.bursts {
        let name = match run.write_back {
            true => "write-back cache",
            false => "written at once",
        };
        let (mean, least) = run.busy_speeds();
        table.row(vec![
            name.to_owned(),
            count(run.slices.iter().sum()),
            count(mean as u64),
            count(least as u64),
            times(run.bytes as f64 / run.stored_bytes.max(1) as f64),
            count(run.dropped),
        ]);
    }
    table
}
