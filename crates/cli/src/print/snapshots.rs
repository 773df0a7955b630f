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

#[derive(Serialize)]
struct JsonEnd {
    snapshots: u64,
}

/// Prints the snapshots, newest last.
pub(crate) fn snapshots(out: &mut Out, about: About, snapshots: &[SnapshotInfo]) -> Result<()> {
    if out.json {
        out.begin("snapshots", about)?;
        for info in snapshots {
            out.item("snapshot", JsonSnapshot::new(info))?;
        }
        return out.item(
            "end",
            JsonEnd {
                snapshots: snapshots.len() as u64,
            },
        );
    }
    let titles = [
        ("id", Align::Left),
        ("time", Align::Left),
        ("host", Align::Left),
        ("tags", Align::Left),
        ("size", Align::Right),
        ("paths", Align::Left),
        ("", Align::Left),
    ];
    let mut table = Table::new(&titles);
    for info in snapshots {
        let snapshot = &info.snapshot;
        let tags: Vec<String> = snapshot.tags.iter().map(|tag| escape(tag.as_bytes())).collect();
        let paths: Vec<String> = snapshot.paths.iter().map(|path| escape(path)).collect();
        table.row(vec![
            info.short_id(),
            local(snapshot.time),
            escape(snapshot.host.as_bytes()),
            tags.join(","),
            size(snapshot.counters.bytes),
            paths.join(" "),
            flaws(&snapshot.counters),
        ]);
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
