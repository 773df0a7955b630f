//! All numbers about deltas between records, as tables.

use std::fmt::Write;

use ibid_record::Retrieval;

use super::super::tables::named;
use super::super::{percent, size};
use super::{of, ratio, retrieval_name, rival_name, run_name, speed, store_name, trace_name, write_back_name};
use crate::{Records, RecordsFigure};

fn section(body: &mut String, title: &str, titles: &[&str], rows: &[Vec<String>], note: &str) {
    if rows.is_empty() {
        return;
    }
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let _ = write!(
        body,
        "<section><h2>{title}</h2>{}<p class=note>{note}</p></section>",
        named(&titles, rows)
    );
}

/// A table for each figure.
pub(super) fn all(body: &mut String, found: &Records) {
    let tables = [savings, sizes, traces, caches, bursts, distances, intervals];
    tables.into_iter().for_each(|table| table(body, found));
}

fn less(found: &Records, stored: u64) -> String {
    format!("{:.2}", ratio(found, stored))
}

fn savings(body: &mut String, found: &Records) {
    let mut rows: Vec<Vec<String>> = of(found, RecordsFigure::Ratio)
        .map(|run| {
            let blocks = run.block_bytes.unwrap_or_default();
            vec![
                run_name(&run.encoding),
                size(run.stored_bytes as f64),
                less(found, run.stored_bytes),
                size(blocks as f64),
                less(found, blocks),
                size(run.index_bytes as f64),
                format!("{:.0}", speed(found, run)),
            ]
        })
        .collect();
    rows.extend(found.rivals.iter().map(|run| {
        vec![
            rival_name(run.rival),
            size(run.stored_bytes as f64),
            less(found, run.stored_bytes),
            size(run.block_bytes as f64),
            less(found, run.block_bytes),
            size(run.index_bytes as f64),
            "–".to_owned(),
        ]
    }));
    let titles = ["", "by itself", "ratio", "in blocks", "ratio", "index", "MB/s"];
    let note = "Ratio: how many times less is stored. Of deltas and bodies, or of chunks and of lists of them; without \
     keys, and what an engine adds. MB are 10⁶ bytes of bodies, until all is stored and encoded; \
                chunks and blocks alone are counted, and not written.";
    section(body, "Savings", &titles, &rows, note);
}

fn sizes(body: &mut String, found: &Records) {
    let rows: Vec<Vec<String>> = found
        .sizes_at(&[0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 0.99, 1.0])
        .into_iter()
        .map(|at| vec![size(at.to as f64), percent(at.records), percent(at.saved)])
        .collect();
    let titles = ["up to", "of the records", "of the saving"];
    let note = "The saving of a record: its bytes less what is stored of it, before compression. Sizes are rounded up \
     by less than an eighth.";
    section(body, "Sizes", &titles, &rows, note);
}

fn traces(body: &mut String, found: &Records) {
    let mut rows = Vec::new();
    for run in &found.traces {
        for (what, latencies) in [("reads", &run.reads), ("writes", &run.writes)] {
            let at = |percent| {
                let us = latencies.percentile_us(percent);
                us.map_or("–".to_owned(), |us| format!("{us:.1}"))
            };
            let mut row = vec![
                format!("{}, {}: {what}", trace_name(run.trace), store_name(run.deltas)),
                format!("{:.0}", run.operations_per_s),
                latencies.count().to_string(),
            ];
            row.extend([50.0, 90.0, 99.0, 99.9, 99.99, 100.0].map(at));
            rows.push(row);
        }
    }
    let titles = [
        "",
        "a second",
        "timed",
        "50\u{a0}%",
        "90\u{a0}%",
        "99\u{a0}%",
        "99.9\u{a0}%",
        "99.99\u{a0}%",
        "most",
    ];
    let note = "A second: reads and writes together. Then microseconds that so many took at most.";
    section(body, "Reads and writes", &titles, &rows, note);
}

fn caches(body: &mut String, found: &Records) {
    let row = |run: &crate::RecordsRun| {
        vec![
            size(run.encoding.source_cache_bytes as f64),
            run.encoding.reward.to_string(),
            less(found, run.stored_bytes),
            run.cache_hits.to_string(),
            run.cache_misses.to_string(),
            percent(run.miss_share()),
        ]
    };
    let rows: Vec<_> = of(found, RecordsFigure::SourceCache).map(row).collect();
    let titles = [
        "memory",
        "reward",
        "ratio",
        "found in memory",
        "read from the store",
        "share",
    ];
    section(body, "Memory for the newest records", &titles, &rows, "");
}

fn bursts(body: &mut String, found: &Records) {
    let rows: Vec<Vec<String>> = found
        .bursts
        .iter()
        .map(|run| {
            let (mean, least) = run.busy_speeds();
            vec![
                write_back_name(run.write_back).to_owned(),
                run.slices.iter().sum::<u64>().to_string(),
                format!("{mean:.0}"),
                format!("{least:.0}"),
                format!("{:.2}", run.bytes as f64 / run.stored_bytes.max(1) as f64),
                run.dropped.to_string(),
            ]
        })
        .collect();
    let titles = ["", "records", "a second, busy", "least", "ratio", "dropped"];
    let note = "Least: in a slice in which anything was stored. Ratio: of what was stored meanwhile, when the last \
     pause was over.";
    section(body, "Bursts", &titles, &rows, note);
}

fn distances(body: &mut String, found: &Records) {
    let row = |run: &crate::RecordsRun| {
        let distance = match run.encoding.retrieval {
            Retrieval::Chain => "–".to_owned(),
            Retrieval::Hop { distance } | Retrieval::VersionJumping { distance } => distance.to_string(),
        };
        vec![
            retrieval_name(run.encoding.retrieval).to_owned(),
            distance,
            less(found, run.stored_bytes),
            format!("{:.1}", run.retrievals_mean),
            run.retrievals_max.to_string(),
        ]
    };
    let rows: Vec<_> = of(found, RecordsFigure::Retrieval).map(row).collect();
    let titles = ["", "distance", "ratio", "others read, mean", "most"];
    section(body, "Others read for one record", &titles, &rows, "");
}

fn intervals(body: &mut String, found: &Records) {
    let row = |run: &crate::RecordsRun| {
        vec![
            run.encoding.interval.positions().to_string(),
            less(found, run.stored_bytes),
            format!("{:.0}", speed(found, run)),
        ]
    };
    let rows: Vec<_> = of(found, RecordsFigure::Interval).map(row).collect();
    section(body, "Intervals", &["one position in", "ratio", "MB/s"], &rows, "");
}
