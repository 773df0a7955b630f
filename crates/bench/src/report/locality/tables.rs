//! All numbers about boundary hints, as tables.

use std::fmt::Write;

use super::super::tables::named as table;
use super::super::{gb, percent, size};
use super::each;
use crate::{Locality, LocalityChunker, LocalityRun};

/// Adds a table for each dataset, chunker and list length, one of threads and one of stores.
pub(super) fn all(body: &mut String, found: &Locality) {
    each(found, |_, title, chunker| {
        for list in chunker.lists() {
            let _ = write!(
                body,
                "<section><h2>{title}, lists of {list}</h2>{}</section>",
                criteria_table(chunker, list)
            );
        }
        if !chunker.threads.is_empty() {
            let _ = write!(
                body,
                "<section><h2>{title}, threads</h2>{}</section>",
                threads_table(chunker)
            );
        }
        if !chunker.stores.is_empty() {
            let _ = write!(
                body,
                "<section><h2>{title}, into a store</h2>{}</section>",
                stores_table(chunker)
            );
        }
    });
    *body += "<p class=note>GB are 10⁹ bytes. By hints: the share of all chunks that were cut off where a hint said. \
     1st, 2nd, …: of the chunks after a duplicate, the share whose end was \
              the hint in that place. Refused: hints that were tried and not accepted. Beside: chunks that were found \
               without a search in the table, beside the one before. Memory: of the table, with hints. CPUs: processor \
               time by time; less than the threads if others had the processors.</p>";
}

fn criteria_table(chunker: &LocalityChunker, list: usize) -> String {
    let mut titles: Vec<String> = [
        "",
        "chunking, GB/s",
        "times plain",
        "if all refused",
        "ratio",
        "by hints",
    ]
    .map(str::to_owned)
    .into();
    titles.extend((1..=list).map(|n| format!("place {n}")));
    let rest = [
        "refused",
        "with BLAKE3, GB/s",
        "times plain",
        "searches",
        "beside",
        "memory",
    ];
    titles.extend(rest.map(str::to_owned));
    let row = |name: &str, run: &LocalityRun, worst: Option<f64>| {
        let mut cells = vec![
            name.to_owned(),
            gb(run.chunking_speed()),
            format!("{:.2}", chunker.chunking_gain(run)),
            worst.map_or("–".to_owned(), |share| format!("{:+.1}\u{a0}%", share * 100.0)),
            format!("{:.3}", run.ratio()),
            percent(run.tally.hinted() as f64 / run.tally.chunks.max(1) as f64),
        ];
        cells.extend((0..list).map(|place| format!("{:.2}\u{a0}%", run.hit_share(place) * 100.0)));
        cells.extend([
            run.tally.refused.to_string(),
            gb(run.total_speed()),
            format!("{:.2}", chunker.total_gain(run)),
            run.searches.to_string(),
            run.neighbours.to_string(),
            size(run.memory as f64),
        ]);
        cells
    };
    let mut rows = vec![row("plain", &chunker.plain, None)];
    let entries = chunker.with_list(list);
    rows.extend(entries.map(|entry| row(entry.criterion.name(), &entry.run, chunker.worst_slowdown(entry))));
    let columns = titles.len();
    rows.extend(chunker.left_out.iter().map(|criterion| {
        let mut cells = vec![criterion.name().to_owned()];
        cells.resize(columns, "–".to_owned());
        cells
    }));
    table(&titles, &rows)
}

fn threads_table(chunker: &LocalityChunker) -> String {
    let titles = ["", "threads", "GB/s", "times one", "CPUs", "ratio"].map(str::to_owned);
    let rows: Vec<Vec<String>> = chunker
        .threads
        .iter()
        .map(|entry| {
            vec![
                entry.name().to_owned(),
                entry.threads.to_string(),
                gb(entry.speed()),
                chunker
                    .threads_gain(entry)
                    .map_or("–".to_owned(), |gain| format!("{gain:.2}")),
                format!("{:.2}", entry.cpu_seconds / entry.seconds.max(1e-9)),
                format!("{:.3}", entry.ratio()),
            ]
        })
        .collect();
    table(&titles, &rows)
}

fn stores_table(chunker: &LocalityChunker) -> String {
    let titles = ["", "GB/s", "times plain", "CPUs", "ratio", "stored"].map(str::to_owned);
    let rows: Vec<Vec<String>> = chunker
        .stores
        .iter()
        .map(|entry| {
            vec![
                entry.method.name().to_owned(),
                gb(entry.speed()),
                chunker
                    .store_gain(entry)
                    .map_or("–".to_owned(), |gain| format!("{gain:.2}")),
                format!("{:.2}", entry.cpu_seconds / entry.seconds.max(1e-9)),
                format!("{:.3}", entry.ratio()),
                size(entry.stored as f64),
            ]
        })
        .collect();
    table(&titles, &rows)
}
