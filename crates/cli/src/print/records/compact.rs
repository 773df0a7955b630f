//! Prints `records compact`.

use ibid_repo::Result;
use ibid_terminal::number::{counted, duration, ratio, size};
use ibid_terminal::{Align, Table};
use serde::Serialize;

use super::super::Out;

/// Result of a compaction.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Compacted {
    /// Records that were compressed.
    pub(crate) records: u64,
    /// Their bytes before and after, without the engine's overhead.
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    /// Bytes of all files of the store.
    pub(crate) file_bytes_before: u64,
    pub(crate) file_bytes_after: u64,
    /// Whether the bytes of purged records were overwritten.
    pub(crate) wiped: bool,
    /// Purged records that the log for replicas keeps.
    pub(crate) purged_for_log: u64,
    pub(crate) duration_ms: u64,
}

pub(crate) fn records_compact(out: &mut Out, compacted: &Compacted) -> Result<()> {
    if out.json {
        return out.document("records compact", None, compacted);
    }
    if out.quiet {
        return Ok(());
    }
    out.line(format!(
        "compressed {}",
        counted(compacted.records, "record", "records")
    ))?;
    lines(compacted).try_for_each(|line| out.line(line))?;
    if compacted.wiped {
        out.line("  no file has bytes of what was purged")?;
    }
    match compacted.purged_for_log {
        0 => Ok(()),
        records => out.line(format!(
            "  except {}, which the log for replicas keeps (see `ibid records purge --help`)",
            counted(records, "record", "records")
        )),
    }
}

/// Returns lines that describe what a compaction changed, and how long it took.
pub(super) fn lines(compacted: &Compacted) -> impl Iterator<Item = String> + use<> {
    let mut table = Table::bare(&[Align::Left, Align::Right, Align::Left, Align::Right, Align::Right]);
    let mut row = |of: &str, before: u64, after: u64| {
        let times = ratio(before, after).map_or_else(String::new, |ratio| format!("{ratio:.2} times"));
        table.row(vec![
            format!("  {of}"),
            size(before),
            "→".to_owned(),
            size(after),
            times,
        ]);
    };
    row("records", compacted.bytes_before, compacted.bytes_after);
    row("on disk", compacted.file_bytes_before, compacted.file_bytes_after);
    let lines: Vec<String> = table.lines().collect();
    let time = format!("  time     {}", duration(compacted.duration_ms));
    lines.into_iter().chain(std::iter::once(time))
}
