//! The output of `locality`.

use std::io::Result;

use ibid_bench::{
    EditKind, Locality, LocalityChunker, LocalityData, LocalityDataset, LocalityEntry, LocalityRun, StoreEntry,
    ThreadsEntry,
};
use ibid_chunk::locality::Criterion;
use ibid_terminal::number::{count, counted, percent, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::chunker::JsonChunker;
use super::chunkers::JsonMachine;
use crate::output::Out;

#[derive(Serialize)]
struct JsonRun {
    chunking_seconds: f64,
    total_seconds: f64,
    chunking_gb_per_s: f64,
    total_gb_per_s: f64,
    ratio: f64,
    unique_bytes: u64,
    chunks: u64,
    duplicate_chunks: u64,
    duplicate_bytes: u64,
    after_duplicates: u64,
    scanned_chunks: u64,
    hits: Vec<u64>,
    refused: u64,
    refused_unknown: u64,
    searches: u64,
    neighbours: u64,
    table_bytes: u64,
}

impl JsonRun {
    fn new(run: &LocalityRun, list: usize) -> JsonRun {
        let tally = &run.tally;
        JsonRun {
            chunking_seconds: run.chunking_seconds,
            total_seconds: run.total_seconds,
            chunking_gb_per_s: run.chunking_speed() / 1e9,
            total_gb_per_s: run.total_speed() / 1e9,
            ratio: run.ratio(),
            unique_bytes: run.unique_bytes,
            chunks: tally.chunks,
            duplicate_chunks: tally.duplicates,
            duplicate_bytes: tally.duplicate_bytes,
            after_duplicates: run.followers,
            scanned_chunks: tally.scanned,
            hits: tally.hits.iter().copied().take(list).collect(),
            refused: tally.refused,
            refused_unknown: tally.unknown,
            searches: run.searches,
            neighbours: run.neighbours,
            table_bytes: run.memory,
        }
    }
}

#[derive(Serialize)]
struct JsonHinted {
    criterion: &'static str,
    list_length: usize,
    chunking_gain: f64,
    total_gain: f64,
    worst_slowdown: Option<f64>,
    #[serde(flatten)]
    run: JsonRun,
}

#[derive(Serialize)]
struct JsonThreads {
    criterion: Option<&'static str>,
    threads: usize,
    seconds: f64,
    cpu_seconds: f64,
    gb_per_s: f64,
    gain: f64,
    ratio: f64,
}

#[derive(Serialize)]
struct JsonStore {
    method: &'static str,
    seconds: f64,
    cpu_seconds: f64,
    gb_per_s: f64,
    gain: f64,
    ratio: f64,
    stored_bytes: u64,
}

#[derive(Serialize)]
struct JsonContender {
    chunker: JsonChunker,
    plain: JsonRun,
    hinted: Vec<JsonHinted>,
    left_out: Vec<&'static str>,
    threads: Vec<JsonThreads>,
    stores: Vec<JsonStore>,
}

#[derive(Serialize)]
struct JsonSeries {
    size: u64,
    versions: u32,
    edits: u64,
    kinds: Vec<&'static str>,
    edit_bytes: u64,
    spread: f64,
    seed: u64,
}

#[derive(Serialize)]
struct JsonDataset {
    series: Option<JsonSeries>,
    files: u64,
    bytes: u64,
    results: Vec<JsonContender>,
}

#[derive(Serialize)]
struct JsonLocality {
    machine: JsonMachine,
    datasets: Vec<JsonDataset>,
}

fn kind(kind: EditKind) -> &'static str {
    match kind {
        EditKind::Insert => "insert",
        EditKind::Delete => "delete",
        EditKind::Overwrite => "overwrite",
    }
}

fn contender(found: &LocalityChunker) -> JsonContender {
    let hinted = |entry: &LocalityEntry| JsonHinted {
        criterion: entry.criterion.name(),
        list_length: entry.list,
        chunking_gain: found.chunking_gain(&entry.run),
        total_gain: found.total_gain(&entry.run),
        worst_slowdown: found.worst_slowdown(entry),
        run: JsonRun::new(&entry.run, entry.list),
    };
    let threads = |entry: &ThreadsEntry| JsonThreads {
        criterion: entry.criterion.map(Criterion::name),
        threads: entry.threads,
        seconds: entry.seconds,
        cpu_seconds: entry.cpu_seconds,
        gb_per_s: entry.speed() / 1e9,
        gain: found.threads_gain(entry).unwrap_or(1.0),
        ratio: entry.ratio(),
    };
    let store = |entry: &StoreEntry| JsonStore {
        method: entry.method.name(),
        seconds: entry.seconds,
        cpu_seconds: entry.cpu_seconds,
        gb_per_s: entry.speed() / 1e9,
        gain: found.store_gain(entry).unwrap_or(1.0),
        ratio: entry.ratio(),
        stored_bytes: entry.stored,
    };
    JsonContender {
        chunker: JsonChunker::new(&found.settings),
        plain: JsonRun::new(&found.plain, 0),
        hinted: found.hinted.iter().map(hinted).collect(),
        left_out: found.left_out.iter().map(|criterion| criterion.name()).collect(),
        threads: found.threads.iter().map(threads).collect(),
        stores: found.stores.iter().map(store).collect(),
    }
}

/// Returns the JSON document.
pub(crate) fn document(found: &Locality) -> impl Serialize {
    let dataset = |dataset: &LocalityDataset| JsonDataset {
        series: match &dataset.data {
            LocalityData::Files(_) => None,
            LocalityData::Series(series) => Some(JsonSeries {
                size: series.size,
                versions: series.versions,
                edits: series.edits,
                kinds: series.kinds.iter().copied().map(kind).collect(),
                edit_bytes: series.edit_bytes,
                spread: series.spread,
                seed: series.seed,
            }),
        },
        files: dataset.files,
        bytes: dataset.bytes,
        results: dataset.chunkers.iter().map(contender).collect(),
    };
    JsonLocality {
        machine: JsonMachine::new(&found.machine),
        datasets: found.datasets.iter().map(dataset).collect(),
    }
}

/// Prints figures 8 to 18 of RapidCDC as tables.
pub(crate) fn text(out: &mut Out, found: &Locality) -> Result<()> {
    for dataset in &found.datasets {
        out.line(name(dataset))?;
        for chunker in &dataset.chunkers {
            for list in chunker.lists() {
                out.line("")?;
                criteria(out, chunker, list)?;
            }
            if !chunker.threads.is_empty() {
                out.line("")?;
                threads(out, chunker)?;
            }
            if !chunker.stores.is_empty() {
                out.line("")?;
                stores(out, chunker)?;
            }
        }
        out.line("")?;
    }
    out.line(
        "chunking: finding boundaries, GB per second of the processor, and how many times as fast as plain; if all \
         refused: how much slower than plain if no hint were believed; ratio: how many times less is stored; by hints: \
         chunks that end where a hint said",
    )?;
    out.line(
        "1st, 2nd, …: of the chunks after a duplicate, those that end where this hint of the list said; refused: hints \
         that were tried and not believed; with BLAKE3: chunks are named and looked up in memory, too; searches in the \
         table, \
         and chunks found beside the one before instead; memory of the table with hints; CPUs: processor time by time, \
          less than the threads if others had the processor; –: this chunker can't tell for one place if it is a \
          boundary",
    )
}

/// Returns a name for the data.
fn name(dataset: &LocalityDataset) -> String {
    match &dataset.data {
        LocalityData::Files(_) => format!("{}, {}", counted(dataset.files, "file", "files"), size(dataset.bytes)),
        LocalityData::Series(series) => {
            let kinds: Vec<&str> = series.kinds.iter().copied().map(kind).collect();
            let place = match series.spread {
                1.0 => String::new(),
                share => format!(" in the first {} %", (share * 1e4).round() / 100.0),
            };
            format!(
                "{}, {}; {} of {}{place} ({})",
                counted(dataset.files, "version", "versions"),
                size(dataset.bytes),
                counted(series.edits, "edit", "edits"),
                size(series.edit_bytes),
                kinds.join(", ")
            )
        }
    }
}

/// Formats a speed in GB/s with three significant digits.
fn gb(bytes_per_second: f64) -> String {
    let gb = bytes_per_second / 1e9;
    match gb {
        0.0..0.995 => format!("{gb:.3}"),
        0.995..99.95 => format!("{gb:.2}"),
        _ => format!("{gb:.0}"),
    }
}

/// Returns the ordinal of a place in a list, which has at most eight: `1st`, `2nd`.
fn place(n: usize) -> String {
    let ending = ["st", "nd", "rd"].get(n).unwrap_or(&"th");
    format!("{}{ending}", n + 1)
}

fn criteria(out: &mut Out, found: &LocalityChunker, list: usize) -> Result<()> {
    let settings = &found.settings;
    let plain = &found.plain;
    out.line(format!(
        "{} with chunks of {} to {}, {} on average; {} for each",
        settings.name(),
        size(settings.size_min() as u64),
        size(settings.size_max() as u64),
        size(plain.bytes() / plain.tally.chunks.max(1)),
        counted(list as u64, "hint", "hints"),
    ))?;
    let has_worst = found.hinted.iter().any(|entry| entry.worst_seconds.is_some());
    let mut titles = vec!["chunking".to_owned(), "× plain".to_owned()];
    titles.extend(has_worst.then(|| "if all refused".to_owned()));
    titles.extend(["ratio".to_owned(), "by hints".to_owned()]);
    titles.extend((0..list).map(place));
    let rest = ["refused", "with BLAKE3", "× plain", "searches", "beside", "memory"];
    titles.extend(rest.map(str::to_owned));
    let titles = titles.iter().map(|title| (title.as_str(), Align::Right));
    let titles: Vec<_> = [("", Align::Left)].into_iter().chain(titles).collect();
    let mut table = Table::new(&titles);
    let mut row = |name: &str, run: &LocalityRun, entry: Option<&LocalityEntry>| {
        let dash = || "–".to_owned();
        let gain = |gain: f64| entry.map_or_else(dash, |_| format!("{gain:.2}"));
        let worst = entry.and_then(|entry| found.worst_slowdown(entry));
        let mut cells = vec![
            name.to_owned(),
            gb(run.chunking_speed()),
            gain(found.chunking_gain(run)),
        ];
        cells.extend(has_worst.then(|| worst.map_or_else(dash, |share| format!("{:+.1} %", share * 100.0))));
        cells.push(format!("{:.3}", run.ratio()));
        let hinted = |share: String| entry.map_or_else(dash, |_| share);
        cells.push(hinted(percent(run.tally.hinted(), run.tally.chunks)));
        cells.extend((0..list).map(|place| hinted(percent(run.tally.hits[place], run.followers))));
        cells.push(hinted(count(run.tally.refused)));
        cells.extend([gb(run.total_speed()), gain(found.total_gain(run))]);
        cells.extend([count(run.searches), count(run.neighbours), size(run.memory)]);
        table.row(cells);
    };
    row("plain", plain, None);
    for entry in found.with_list(list) {
        row(entry.criterion.name(), &entry.run, Some(entry));
    }
    for criterion in &found.left_out {
        let mut cells = vec![criterion.name().to_owned()];
        cells.resize(titles.len(), "–".to_owned());
        table.row(cells);
    }
    table.lines().try_for_each(|line| out.line(line))
}

fn threads(out: &mut Out, found: &LocalityChunker) -> Result<()> {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("threads", Align::Right),
        ("GB/s", Align::Right),
        ("× one", Align::Right),
        ("CPUs", Align::Right),
        ("ratio", Align::Right),
    ]);
    for entry in &found.threads {
        let gain = found.threads_gain(entry).unwrap_or(1.0);
        table.row(vec![
            entry.name().to_owned(),
            entry.threads.to_string(),
            gb(entry.speed()),
            format!("{gain:.2}"),
            format!("{:.2}", entry.cpu_seconds / entry.seconds.max(1e-9)),
            format!("{:.3}", entry.ratio()),
        ]);
    }
    out.line(format!(
        "{}, each thread with a file of its own: read, cut, named, looked up in one table",
        found.settings.name()
    ))?;
    table.lines().try_for_each(|line| out.line(line))
}

fn stores(out: &mut Out, found: &LocalityChunker) -> Result<()> {
    let mut table = Table::new(&[
        ("", Align::Left),
        ("GB/s", Align::Right),
        ("× plain", Align::Right),
        ("CPUs", Align::Right),
        ("ratio", Align::Right),
        ("stored", Align::Right),
    ]);
    for entry in &found.stores {
        let gain = found.store_gain(entry).unwrap_or(1.0);
        table.row(vec![
            entry.method.name().to_owned(),
            gb(entry.speed()),
            format!("{gain:.2}"),
            format!("{:.2}", entry.cpu_seconds / entry.seconds.max(1e-9)),
            format!("{:.3}", entry.ratio()),
            size(entry.stored),
        ]);
    }
    out.line(format!(
        "{}, into a store: read, cut, named, looked up, what is new written and synced; ideal: boundaries known \
         beforehand",
        found.settings.name()
    ))?;
    table.lines().try_for_each(|line| out.line(line))
}
