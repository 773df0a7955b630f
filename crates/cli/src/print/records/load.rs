//! Prints `records load`.

use ibid_repo::Result;
use ibid_terminal::escape;
use ibid_terminal::number::{count, counted, duration, rate, size};
use serde::Serialize;

use super::super::Out;
use super::compact::{self, Compacted};

/// A line that could not be loaded.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct BadLine {
    /// Line number, from 1.
    pub(crate) line: u64,
    pub(crate) problem: String,
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Loaded<'l> {
    pub(crate) namespace: &'l str,
    pub(crate) records: u64,
    /// Bytes of bodies.
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    /// Bad lines; not all of them if there are many.
    pub(crate) bad: &'l [BadLine],
    pub(crate) bad_total: u64,
    /// Duration without compaction, milliseconds.
    pub(crate) duration_ms: u64,
    /// Whether the namespace keeps versions although practically no key has a second one.
    pub(crate) unique_keys: bool,
    /// Result of the compaction, if requested.
    pub(crate) compacted: Option<Compacted>,
}

#[derive(Serialize)]
struct JsonLoad<'l> {
    namespace: &'l str,
    records: u64,
    bytes: u64,
    lines: u64,
    bad_lines: u64,
    duration_ms: u64,
    unique_keys: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    compacted: Option<Compacted>,
    problems: &'l [BadLine],
}

pub(crate) fn records_load(out: &mut Out, loaded: &Loaded<'_>) -> Result<()> {
    if out.json {
        let body = JsonLoad {
            namespace: loaded.namespace,
            records: loaded.records,
            bytes: loaded.bytes,
            lines: loaded.lines,
            bad_lines: loaded.bad_total,
            duration_ms: loaded.duration_ms,
            unique_keys: loaded.unique_keys,
            compacted: loaded.compacted,
            problems: loaded.bad,
        };
        return out.document("records load", None, &body);
    }
    if out.quiet {
        return Ok(());
    }
    out.line(format!(
        "loaded {}, {}, into {}",
        counted(loaded.records, "record", "records"),
        size(loaded.bytes),
        escape(loaded.namespace.as_bytes())
    ))?;
    out.line(format!(
        "  time  {}, {}",
        duration(loaded.duration_ms),
        rate(loaded.bytes, loaded.duration_ms)
    ))?;
    match &loaded.compacted {
        Some(compacted) => {
            let records = counted(compacted.records, "record", "records");
            out.line(format!("and compressed {records}"))?;
            compact::lines(compacted).try_for_each(|line| out.line(line))?;
        }
        None if loaded.records == 0 => {}
        None => out.line("  run `ibid records compact` to make the store smaller")?,
    }
    if loaded.bad_total > 0 {
        out.line(format!(
            "  {} of {} could NOT be loaded (named above)",
            count(loaded.bad_total),
            counted(loaded.lines, "line", "lines")
        ))?;
    }
    Ok(())
}
