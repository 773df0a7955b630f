//! The HTML page about deltas between records.

mod figures;
mod tables;

use std::fmt::Write;

use ibid_record::{Encoding, FeatureBytes, Retrieval};

use super::plot::escape;
use super::{COLORS, DASHES, Series, cards, page, size, times};
use crate::{Latencies, Records, RecordsFigure, RecordsRun, Rival, RivalRun, Trace};

/// Returns the savings and costs of deltas between records as one self-contained HTML page, in the
/// form that [`html`](crate::html) describes: figures 1, 6 and 9 to 12 of dDedup where they were
/// measured, and all numbers as tables.
///
/// ```
/// use ibid_bench::{Bursts, Unobserved, RecordsPlan, records, records_html};
///
/// let folder = tempfile::tempdir()?;
/// let plan = RecordsPlan {
///     records: vec![(b"ibid".to_vec(), b"in the same place".to_vec())],
///     folder: folder.path().to_owned(),
///     traces: Vec::new(),
///     bursts: Bursts { count: 0, ..Bursts::default() },
/// };
/// let page = records_html(&records(&plan, &mut Unobserved)?);
/// assert!(page.starts_with("<!doctype html>") && page.contains("id=\"distance-ratio\""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn records_html(found: &Records) -> String {
    let mut body = String::new();
    head(&mut body, found);
    facts(&mut body, found);
    body += "<div class=charts>";
    figures::draw(&mut body, found);
    body += "</div>";
    tables::all(&mut body, found);
    page("What deltas between records save", &body)
}

fn head(body: &mut String, found: &Records) {
    let cpu = match found.machine.cpu.as_str() {
        "" => String::new(),
        cpu => format!(" on {}", escape(cpu)),
    };
    let (what, how) = match found.versions_kept {
        true => (
            "versions",
            "Keys come again, so versions are kept: a record is compared with the one that it replaces under its key, \
             and the latest of a key stays whole.",
        ),
        false => (
            "records",
            "No key comes again, so records are compared with whatever they are like.",
        ),
    };
    let _ = write!(
        body,
        "<h1>What deltas between records save</h1><p class=soft>{} {what}, {}{cpu}, stored again and again, each time \
         in another way. {how} Nothing is synced: what is \
         measured is the work, not the disk.</p>",
        found.records,
        size(found.bytes as f64)
    );
}

/// Adds the main results.
fn facts(body: &mut String, found: &Records) {
    let mut all = Vec::new();
    if let Some(run) = of(found, RecordsFigure::Ratio).find(|run| is_usual(&run.encoding)) {
        let in_blocks = run.block_bytes.map_or(String::new(), |bytes| {
            format!("; {} times, compressed in blocks", times(ratio(found, bytes)))
        });
        let index = size(run.index_bytes as f64);
        all.push((
            "With deltas, less is stored".to_owned(),
            format!("{} times", times(ratio(found, run.stored_bytes))),
            format!("by themselves{in_blocks}; index of {index}"),
        ));
    }
    let in_blocks = |run: &&RivalRun| ratio(found, run.block_bytes);
    let best = found.rivals.iter().max_by(|a, b| in_blocks(a).total_cmp(&in_blocks(b)));
    if let Some(run) = best {
        all.push((
            "Best without deltas, in blocks".to_owned(),
            format!("{} times", times(in_blocks(&run))),
            format!("{}; index of {}", rival_name(run.rival), size(run.index_bytes as f64)),
        ));
    }
    let slow = |deltas: bool| {
        let run = found.traces.iter().find(|run| run.deltas == deltas)?;
        Some((run.trace, run.reads.percentile_us(99.9)?))
    };
    if let (Some((trace, with)), Some((_, without))) = (slow(true), slow(false)) {
        all.push((
            "Of 1000 reads, 999 take at most".to_owned(),
            format!("{with:.1}\u{a0}µs"),
            format!("with deltas, {without:.1}\u{a0}µs without; {}", trace_name(trace)),
        ));
    }
    cards(body, &all);
}

fn of(found: &Records, figure: RecordsFigure) -> impl Iterator<Item = &RecordsRun> {
    found.runs.iter().filter(move |run| run.figure == figure)
}

/// Returns whether this is the default encoding, apart from dropping deltas when time is short.
fn is_usual(encoding: &Encoding) -> bool {
    let lossy = encoding.lossy;
    *encoding == Encoding::default().with_lossy(lossy)
}

fn ratio(found: &Records, stored: u64) -> f64 {
    found.bytes as f64 / stored.max(1) as f64
}

/// Returns the speed in MB of bodies a second.
fn speed(found: &Records, run: &RecordsRun) -> f64 {
    found.bytes as f64 / run.seconds.max(1e-9) / 1e6
}

/// Returns a name such as `deltas, 64 B`, with the size of features.
fn run_name(encoding: &Encoding) -> String {
    match encoding.enabled {
        true => format!("deltas, {}", feature_size(encoding.feature_bytes)),
        false => "whole".to_owned(),
    }
}

fn feature_size(bytes: FeatureBytes) -> String {
    size(bytes.count() as f64)
}

fn rival_name(rival: Rival) -> String {
    match rival {
        Rival::Blocks => "blocks alone".to_owned(),
        Rival::Traditional { chunk_bytes } => format!("chunks, {}", size(chunk_bytes as f64)),
    }
}

/// `9 reads for 1 write`.
fn trace_name(trace: Trace) -> String {
    let counted = |count: u64, one: &str| format!("{count}\u{a0}{one}{}", if count == 1 { "" } else { "s" });
    format!(
        "{} for {}",
        counted(trace.reads, "read"),
        counted(trace.writes, "write")
    )
}

fn retrieval_name(retrieval: Retrieval) -> &'static str {
    match retrieval {
        Retrieval::Chain => "one chain",
        Retrieval::Hop { .. } => "hops",
        Retrieval::VersionJumping { .. } => "version jumping",
    }
}

fn store_name(deltas: bool) -> &'static str {
    if deltas { "deltas" } else { "whole" }
}

fn write_back_name(write_back: bool) -> &'static str {
    match write_back {
        true => "write-back cache",
        false => "written at once",
    }
}

/// Returns series of these names that look as different as possible.
fn looks<const N: usize>(names: [&str; N]) -> [Series; N] {
    let mut places = 0..;
    names.map(|name| {
        let place = places.next().unwrap_or(0);
        Series {
            name: name.to_owned(),
            color: COLORS[place % COLORS.len()],
            shape: place % 4,
            dash: DASHES[place % DASHES.len()],
        }
    })
}

/// Formats microseconds with three significant digits.
fn micros(us: f64) -> String {
    match us {
        0.0..9.95 => format!("{us:.1}\u{a0}µs"),
        9.95..9950.0 => format!("{us:.0}\u{a0}µs"),
        _ => format!("{:.0}\u{a0}ms", us / 1000.0),
    }
}

fn percentiles(latencies: &Latencies) -> String {
    let shown = [50.0, 99.0, 99.9, 100.0].map(|percent| {
        let us = latencies.percentile_us(percent).unwrap_or_default();
        format!("{percent}\u{a0}% within {}", micros(us))
    });
    shown.join("\n")
}
