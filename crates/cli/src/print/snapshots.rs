//! Prints `snapshots`.

use ibid_format::snapshot::SnapshotTotals;
use ibid_repo::{Result, SnapshotInfo};
use ibid_terminal::escape;
use ibid_terminal::number::{count, counted, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::json::JsonSnapshot;
use super::time::local;
use super::{About, Out};

/// A snapshot in a listing.
pub(crate) struct Listed {
    /// The writer that has stored it, if one has.
    pub(crate) writer: Option<String>,
    pub(crate) info: SnapshotInfo,
}

#[derive(Serialize)]
struct JsonListed<'a> {
    #[serde(flatten)]
    snapshot: JsonSnapshot,
    writer: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonEnd {
    snapshots: u64,
}

/// Prints the snapshots, newest last.
pub(crate) fn snapshots(out: &mut Out, about: About, snapshots: &[Listed]) -> Result<()> {
    if out.json {
        out.begin("snapshots", about)?;
        for Listed { writer, info } in snapshots {
            let item = JsonListed {
                snapshot: JsonSnapshot::new(info),
                writer: writer.as_deref(),
            };
            out.item("snapshot", item)?;
        }
        return out.item(
            "end",
            JsonEnd {
                snapshots: snapshots.len() as u64,
            },
        );
    }
    let has_writers = snapshots.iter().any(|listed| listed.writer.is_some());
    let mut titles = vec![
        ("id", Align::Left),
        ("time", Align::Left),
        ("host", Align::Left),
        ("tags", Align::Left),
        ("size", Align::Right),
        ("paths", Align::Left),
        ("", Align::Left),
    ];
    if has_writers {
        titles.insert(2, ("writer", Align::Left));
    }
    let mut table = Table::new(&titles);
    for Listed { writer, info } in snapshots {
        let snapshot = &info.snapshot;
        let tags: Vec<String> = snapshot.tags.iter().map(|tag| escape(tag.as_bytes())).collect();
        let paths: Vec<String> = snapshot.paths.iter().map(|path| escape(path)).collect();
        let mut row = vec![
            info.short_id(),
            local(snapshot.time),
            escape(snapshot.host.as_bytes()),
            tags.join(","),
            size(snapshot.counters.bytes),
            paths.join(" "),
            flaws(&snapshot.counters),
        ];
        if has_writers {
            row.insert(2, escape(writer.as_deref().unwrap_or_default().as_bytes()));
        }
        table.row(row);
    }
    if !snapshots.is_empty() {
        for line in table.lines() {
            out.line(line)?;
        }
    }
    if out.quiet {
        return Ok(());
    }
    out.line(counted(snapshots.len() as u64, "snapshot", "snapshots"))
}

/// Returns the flaws of a snapshot: files that were not read, or changed while they were read.
fn flaws(counters: &SnapshotTotals) -> String {
    let flaws = [
        (counters.unreadable, "not read"),
        (counters.changed_while_read, "changed while read"),
    ];
    let flaws: Vec<String> = flaws
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{} {what}", count(*number)))
        .collect();
    flaws.join(", ")
}

/// Says that there is no snapshot to change.
pub(crate) fn none_match(out: &mut Out) -> Result<()> {
    match out.json || out.quiet {
        true => Ok(()),
        false => out.line("no snapshot matches, so none was changed"),
    }
}
