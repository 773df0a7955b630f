//! Prints `stats`.

use ibid_repo::{Result, Stats};
use ibid_terminal::number::{count, counted, percent, ratio, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::upkeep::JsonEstimate;
use super::{About, Out};

const BAR: usize = 40;

#[derive(Serialize)]
struct JsonSize {
    up_to: u64,
    chunks: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct JsonDepth {
    depth: u64,
    files: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct JsonFrames {
    depth: u64,
    frames: u64,
    chunks: u64,
    bytes: u64,
    packed_bytes: u64,
}

#[derive(Serialize)]
struct JsonReadCost {
    bytes_mean: u64,
    bytes_worst: u64,
    frames_mean: f64,
    frames_worst: u64,
}

#[derive(Serialize)]
struct JsonStats {
    snapshots: u64,
    files: u64,
    logical_bytes: u64,
    hole_bytes: u64,
    chunks: u64,
    unique_bytes: u64,
    packed_bytes: u64,
    metadata_chunks: u64,
    metadata_unique_bytes: u64,
    metadata_packed_bytes: u64,
    saved_by_deduplication: u64,
    saved_by_compression: u64,
    ratio: Option<f64>,
    chunk_sizes: Vec<JsonSize>,
    depths: Vec<JsonDepth>,
    stored_bytes: u64,
    packs: u64,
    pack_bytes: u64,
    index_bytes: u64,
    snapshot_bytes: u64,
    sketch_bytes: u64,
    index_chunks: u64,
    index_memory_bytes: u64,
    frame_depths: Vec<JsonFrames>,
    read_cost: JsonReadCost,
    prune: Option<JsonEstimate>,
}

/// Prints how much is stored and how much was saved.
pub(crate) fn stats(out: &mut Out, about: About, stats: &Stats) -> Result<()> {
    if out.json {
        return out.document("stats", about, &document(stats));
    }
    let json = document(stats);
    let mut table = Table::bare(&[Align::Left, Align::Right, Align::Left]);
    let mut row = |what: &str, number: String, note: String| table.row(vec![what.to_owned(), number, note]);
    row("snapshots", count(stats.snapshots), String::new());
    row("files", count(stats.files), "counted in each snapshot".into());
    row("logical", size(stats.logical), "if all snapshots were restored".into());
    let note = format!("{} saved by deduplication and holes", size(json.saved_by_deduplication));
    row(
        "unique",
        size(stats.unique),
        format!("{}; {note}", counted(stats.chunks, "chunk", "chunks")),
    );
    let note = format!("{} saved by compression", size(json.saved_by_compression));
    row("packed", size(stats.packed), note);
    let note = format!(
        "lists of folders and of chunks, {} uncompressed",
        size(stats.metadata_unique)
    );
    row("metadata", size(stats.metadata_packed), note);
    let whole = json
        .ratio
        .map_or_else(String::new, |ratio| format!("{ratio:.2} times less than logical"));
    row("total", size(stats.packed + stats.metadata_packed), whole);
    row("", String::new(), String::new());
    let parts = [
        ("packs", stats.pack_bytes),
        ("index", stats.index_bytes),
        ("snapshots", stats.snapshot_bytes),
        ("sketches", stats.sketch_bytes),
    ];
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, bytes)| format!("{name} {}", size(*bytes)))
        .collect();
    row("repository", size(stats.stored()), parts.join(", "));
    let each = ratio(stats.index_memory, stats.index_chunks)
        .map_or_else(String::new, |each| format!(", {each:.1} bytes each"));
    row(
        "index",
        size(stats.index_memory),
        format!("of memory for {}{each}", counted(stats.index_chunks, "chunk", "chunks")),
    );
    let cost = &stats.read_cost;
    let note = format!(
        "are decoded to read one chunk, from {:.1} frames; at worst {} from {}",
        cost.frames_mean,
        size(cost.bytes_worst),
        count(cost.frames_worst)
    );
    row("reading", size(cost.bytes_mean), note);
    match &stats.prune {
        Some(prune) => {
            row("needed", size(prune.needed), "of the packs, by all snapshots".into());
            row("bases", size(prune.bases), "needed only to read deltas".into());
            let note = format!("`ibid prune` would free {}", size(prune.freed));
            row("unused", size(prune.unused), note);
        }
        None => row("unused", "?".into(), "some snapshot can't be read".into()),
    }
    for line in table.lines() {
        out.line(line)?;
    }
    frames(out, stats)?;
    sizes(out, stats)?;
    depths(out, stats)
}

fn document(stats: &Stats) -> JsonStats {
    let sizes = stats.sizes.iter().filter(|class| class.chunks > 0);
    JsonStats {
        snapshots: stats.snapshots,
        files: stats.files,
        logical_bytes: stats.logical,
        hole_bytes: stats.holes,
        chunks: stats.chunks,
        unique_bytes: stats.unique,
        packed_bytes: stats.packed,
        metadata_chunks: stats.metadata_chunks,
        metadata_unique_bytes: stats.metadata_unique,
        metadata_packed_bytes: stats.metadata_packed,
        saved_by_deduplication: stats.logical.saturating_sub(stats.unique),
        saved_by_compression: stats.unique.saturating_sub(stats.packed),
        ratio: ratio(stats.logical, stats.packed + stats.metadata_packed),
        chunk_sizes: sizes
            .map(|class| JsonSize {
                up_to: class.up_to,
                chunks: class.chunks,
                bytes: class.bytes,
            })
            .collect(),
        depths: (0..)
            .zip(&stats.depths)
            .map(|(depth, class)| JsonDepth {
                depth,
                files: class.files,
                bytes: class.bytes,
            })
            .collect(),
        stored_bytes: stats.stored(),
        packs: stats.packs,
        pack_bytes: stats.pack_bytes,
        index_bytes: stats.index_bytes,
        snapshot_bytes: stats.snapshot_bytes,
        sketch_bytes: stats.sketch_bytes,
        index_chunks: stats.index_chunks,
        index_memory_bytes: stats.index_memory,
        frame_depths: (0..)
            .zip(&stats.frame_depths)
            .map(|(depth, class)| JsonFrames {
                depth,
                frames: class.frames,
                chunks: class.chunks,
                bytes: class.bytes,
                packed_bytes: class.packed,
            })
            .collect(),
        read_cost: JsonReadCost {
            bytes_mean: stats.read_cost.bytes_mean,
            bytes_worst: stats.read_cost.bytes_worst,
            frames_mean: stats.read_cost.frames_mean,
            frames_worst: stats.read_cost.frames_worst,
        },
        prune: stats.prune.as_ref().map(JsonEstimate::new),
    }
}

fn bar(part: u64, most: u64) -> String {
    "█".repeat((part as f64 / most.max(1) as f64 * BAR as f64).round() as usize)
}

/// Prints the frames by depth, if there are deltas.
fn frames(out: &mut Out, stats: &Stats) -> Result<()> {
    if stats.frame_depths.len() < 2 {
        return Ok(());
    }
    out.line("")?;
    let most = stats.frame_depths.iter().map(|class| class.packed).max().unwrap_or(0);
    let mut table = Table::new(&[
        ("depth", Align::Right),
        ("frames", Align::Right),
        ("bytes", Align::Right),
        ("packed", Align::Right),
        ("", Align::Left),
    ]);
    for (depth, class) in stats.frame_depths.iter().enumerate() {
        table.row(vec![
            depth.to_string(),
            count(class.frames),
            size(class.bytes),
            size(class.packed),
            bar(class.packed, most),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))
}

fn sizes(out: &mut Out, stats: &Stats) -> Result<()> {
    let classes: Vec<_> = stats.sizes.iter().filter(|class| class.chunks > 0).collect();
    let most = classes.iter().map(|class| class.bytes).max().unwrap_or(0);
    if most == 0 {
        return Ok(());
    }
    out.line("")?;
    let mut table = Table::new(&[
        ("chunks up to", Align::Right),
        ("number", Align::Right),
        ("bytes", Align::Right),
        ("share of the bytes", Align::Left),
    ]);
    for class in classes {
        table.row(vec![
            size(class.up_to),
            count(class.chunks),
            size(class.bytes),
            bar(class.bytes, most),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))
}

fn depths(out: &mut Out, stats: &Stats) -> Result<()> {
    if stats.logical == 0 {
        return Ok(());
    }
    out.line("")?;
    let most = stats.depths.iter().map(|class| class.bytes).max().unwrap_or(0);
    let titles = [
        ("folders deep", Align::Right),
        ("files", Align::Right),
        ("bytes", Align::Right),
        ("share", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(&titles);
    for (depth, class) in stats.depths.iter().enumerate().filter(|(_, class)| class.files > 0) {
        let share = percent(class.bytes, stats.logical);
        table.row(vec![
            depth.to_string(),
            count(class.files),
            size(class.bytes),
            share,
            bar(class.bytes, most),
        ]);
    }
    table.lines().try_for_each(|line| out.line(line))
}
