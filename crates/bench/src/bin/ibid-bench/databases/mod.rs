//! A comparison of stores for versions of records, this project's and its rivals: space, time,
//! memory, and read latency.

mod blocks;
mod compressed;
mod input;
mod kind;
mod line;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(not(all(feature = "lmdb", feature = "rocksdb", feature = "sqlite")))]
mod missing;
#[cfg(any(feature = "lmdb", feature = "rocksdb"))]
mod ordered;
mod postgres;
mod results;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stage;
mod store;
mod stream;
mod subject;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use kind::Kind;
pub(crate) use results::{FileInfo, Records, Row, Skipped};
pub(crate) use stage::run as run_stage;
use stage::{Loaded, Order, ReadBack, Stage};

use crate::measure;
use crate::record::{Outcome, Record};
use crate::report;

/// The hidden command by which this program runs itself.
pub(crate) const STAGE_COMMAND: &str = "databases-stage";

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  ibid-bench databases records.jsonl.zst --subjects ddedup,plain,redb-zstd")]
pub(crate) struct Options {
    /// Load these records, one JSON object a line with `key`, `rev` and `body`, in the order of time;
    /// `.zst` is decompressed
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Compare these stores [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    subjects: Vec<Kind>,
    /// Store every version as a record of its own, under `key/rev`
    #[arg(long)]
    distinct: bool,
    /// Read the latest versions of N records at random, and N versions of any age
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    reads: u32,
    /// Keep the stores in this folder meanwhile [default: the folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write the results into this file, after each subject
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the comparison.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut found = Records {
        distinct: options.distinct,
        reads: options.reads,
        versions: Vec::new(),
        files: Vec::new(),
        rows: Vec::new(),
        skipped: Vec::new(),
    };
    let kinds = available(options, &mut found);
    ensure!(!kinds.is_empty(), "none of the subjects can be had here");
    let mut record = Record::begin("records", Outcome::Records(found.clone()));
    for file in &options.files {
        for &kind in &kinds {
            let row = measure(options, file, kind, &mut found.files)
                .with_context(|| format!("{} of {}", kind.name(), file.display()))?;
            report::records_progress(&row);
            found.rows.push(row);
            record.outcome = Outcome::Records(found.clone());
            record.save(options.json.as_deref())?;
        }
    }
    report::show(&report::markdown(&record));
    Ok(())
}

/// Returns the subjects that were asked for and are available. Reports the others.
fn available(options: &Options, found: &mut Records) -> Vec<Kind> {
    let mut kinds = options.subjects.clone();
    if kinds.is_empty() {
        kinds.extend(Kind::value_variants());
    }
    kinds.retain(
        |&kind| match kind.subject(options.distinct).map(|subject| subject.version()) {
            None | Some(Ok(None)) => true,
            Some(Ok(Some(version))) => {
                if !found.versions.contains(&version) {
                    found.versions.push(version);
                }
                true
            }
            Some(Err(error)) => {
                let skipped = Skipped {
                    subject: kind,
                    why: format!("{error:#}"),
                };
                report::skipped(&skipped);
                found.skipped.push(skipped);
                false
            }
        },
    );
    kinds
}

/// Fills a store in one process, and reads it in another.
fn measure(options: &Options, file: &Path, kind: Kind, files: &mut Vec<FileInfo>) -> Result<Row> {
    let work = options.work.clone().unwrap_or_else(std::env::temp_dir);
    let work = tempfile::Builder::new()
        .prefix("ibid-bench-")
        .tempdir_in(&work)
        .with_context(|| format!("making a folder in {}", work.display()))?;
    let folder = work.path().join("store");
    std::fs::create_dir(&folder)?;
    let order = |stage| Order {
        stage,
        subject: kind,
        file: file.to_owned(),
        distinct: options.distinct,
        reads: options.reads,
        folder: folder.clone(),
        answer: work.path().join("answer"),
    };
    let load = order(Stage::Load);
    let (load, loaded): (_, Loaded) = measure::run_stage(STAGE_COMMAND, &load, &load.answer, work.path())?;
    note_file(files, file, &loaded)?;
    let read = if kind == Kind::Nothing {
        ReadBack::default()
    } else {
        let read = order(Stage::Read);
        measure::run_stage(STAGE_COMMAND, &read, &read.answer, work.path())?.1
    };
    Ok(Row {
        file: name(file),
        subject: kind,
        disk_bytes: loaded.disk_bytes,
        disk_bytes_max: Some(loaded.disk_bytes_max),
        value_bytes: read.value_bytes,
        index: loaded.index,
        load,
        insert_s: loaded.insert_s,
        finish_s: loaded.finish_s,
        latency: read.latency,
        latency_of_any: read.latency_of_any,
    })
}

/// Fails unless every subject has seen the same records.
fn note_file(files: &mut Vec<FileInfo>, file: &Path, loaded: &Loaded) -> Result<()> {
    let info = FileInfo {
        name: name(file),
        records: loaded.records,
        keys: loaded.keys,
        body_bytes: loaded.body_bytes,
    };
    match files.iter().find(|known| known.name == info.name) {
        Some(known) => ensure!(
            *known == info,
            "{} has changed meanwhile, or has the name of another file",
            file.display()
        ),
        None => files.push(info),
    }
    Ok(())
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
