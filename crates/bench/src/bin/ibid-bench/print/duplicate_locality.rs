//! The output of `duplicate-locality`.

use std::io::Result;

use ibid_bench::{Checkpoint, DuplicateLocality};
use ibid_terminal::number::{count, counted, percent, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::chunker::JsonChunker;
use crate::output::Out;

#[derive(Serialize)]
struct JsonShorter {
    shorter_than: u64,
    chunks: u64,
    bytes: u64,
    share: f64,
}

#[derive(Serialize)]
struct JsonCheckpoint {
    files: u64,
    bytes: u64,
    chunks: u64,
    duplicate_chunks: u64,
    duplicate_bytes: u64,
    isolated_chunks: u64,
    isolated_bytes: u64,
    sequences: u64,
    sequence_chunks: u64,
    sequence_bytes: u64,
    duplicate_share: f64,
    sequence_share: f64,
    ratio: f64,
    median_length: u64,
    longest: u64,
    lengths: Vec<JsonShorter>,
}

#[derive(Serialize)]
struct JsonLocality {
    chunker: JsonChunker,
    files: u64,
    bytes: u64,
    checkpoints: Vec<JsonCheckpoint>,
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn checkpoint(found: &Checkpoint, thresholds: &[u64]) -> JsonCheckpoint {
    let followers = found.in_sequences();
    let shorter = |length: &u64| {
        let shorter = found.shorter_than(*length);
        JsonShorter {
            shorter_than: *length,
            chunks: shorter.chunks,
            bytes: shorter.bytes,
            share: share(shorter.chunks, followers.chunks),
        }
    };
    JsonCheckpoint {
        files: found.files,
        bytes: found.all.bytes,
        chunks: found.all.chunks,
        duplicate_chunks: found.duplicates.chunks,
        duplicate_bytes: found.duplicates.bytes,
        isolated_chunks: found.isolated.chunks,
        isolated_bytes: found.isolated.bytes,
        sequences: found.sequence_count(),
        sequence_chunks: followers.chunks,
        sequence_bytes: followers.bytes,
        duplicate_share: share(found.duplicates.chunks, found.all.chunks),
        sequence_share: share(followers.chunks, found.all.chunks),
        ratio: found.ratio(),
        median_length: found.median_length(),
        longest: found.longest(),
        lengths: thresholds.iter().map(shorter).collect(),
    }
}

/// Returns the JSON document.
pub(crate) fn document(found: &DuplicateLocality) -> impl Serialize {
    let thresholds = found.thresholds();
    let last = found.last();
    JsonLocality {
        chunker: JsonChunker::new(&found.settings),
        files: last.files,
        bytes: last.all.bytes,
        checkpoints: found
            .checkpoints
            .iter()
            .map(|found| checkpoint(found, &thresholds))
            .collect(),
    }
}

/// Prints figures 3 and 4 of RapidCDC as tables.
pub(crate) fn text(out: &mut Out, found: &DuplicateLocality) -> Result<()> {
    let (last, settings) = (found.last(), &found.settings);
    out.line(format!(
        "{}, {}, {} with chunks of {} to {}, {} on average",
        counted(last.files, "file", "files"),
        size(last.all.bytes),
        settings.name(),
        size(settings.size_min() as u64),
        size(settings.size_max() as u64),
        size(last.all.bytes / last.all.chunks.max(1)),
    ))?;
    out.line("")?;
    shares(out, found)?;
    out.line("")?;
    lengths(out, found)
}

fn shares(out: &mut Out, found: &DuplicateLocality) -> Result<()> {
    let mut table = Table::new(&[
        ("files", Align::Right),
        ("chunks", Align::Right),
        ("duplicates", Align::Right),
        ("in sequences", Align::Right),
        ("isolated", Align::Right),
        ("of bytes: duplicates", Align::Right),
        ("in sequences", Align::Right),
        ("ratio", Align::Right),
        ("sequences", Align::Right),
        ("median", Align::Right),
        ("longest", Align::Right),
    ]);
    for found in &found.checkpoints {
        let followers = found.in_sequences();
        table.row(vec![
            count(found.files),
            count(found.all.chunks),
            percent(found.duplicates.chunks, found.all.chunks),
            percent(followers.chunks, found.all.chunks),
            percent(found.isolated.chunks, found.all.chunks),
            percent(found.duplicates.bytes, found.all.bytes),
            percent(followers.bytes, found.all.bytes),
            format!("{:.2}", found.ratio()),
            count(found.sequence_count()),
            count(found.median_length()),
            count(found.longest()),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))?;
    out.line(
        "shares of all chunks, and of all bytes; in sequences: after another duplicate in the same file; isolated: \
         with no duplicate beside it; median: half \
         of the chunks in sequences are in sequences of at least so many",
    )
}

fn lengths(out: &mut Out, found: &DuplicateLocality) -> Result<()> {
    let thresholds = found.thresholds();
    let titles: Vec<String> = thresholds.iter().map(|length| format!("< {length}")).collect();
    let titles = titles.iter().map(|title| (title.as_str(), Align::Right));
    let mut table = Table::new(&[("files", Align::Right)].into_iter().chain(titles).collect::<Vec<_>>());
    for found in &found.checkpoints {
        let whole = found.in_sequences().chunks;
        let shorter = |length: &u64| percent(found.shorter_than(*length).chunks, whole);
        let files = [count(found.files)].into_iter();
        table.row(files.chain(thresholds.iter().map(shorter)).collect());
    }
    table.lines().try_for_each(|line| out.line(line))?;
    out.line("of the chunks in sequences, the share that is in sequences shorter than so many chunks")
}
