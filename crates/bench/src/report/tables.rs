//! All numbers of a comparison, as tables.

use std::fmt::Write;

use super::{gb, percent, size};
use crate::{Comparison, Entry};

/// Returns a table with a line above each change of the average; `cells` returns the cells after
/// average and name.
fn table(comparison: &Comparison, titles: &[String], cells: impl Fn(&Entry) -> Vec<String>) -> String {
    let mut out = String::from(
        "<div class=scroll><table><thead><tr><th scope=col>average</th><th scope=col class=name>chunker</th>",
    );
    for title in titles {
        let _ = write!(out, "<th scope=col>{title}</th>");
    }
    out += "</tr></thead><tbody>";
    let mut last = None;
    for entry in &comparison.entries {
        let average = entry.settings.size_average();
        let class = if last.replace(average).is_some_and(|last| last != average) {
            " class=first"
        } else {
            ""
        };
        let name = entry.settings.name();
        let average = size(average as f64);
        let _ = write!(
            out,
            "<tr{class} data-series=\"{name}\"><td>{average}</td><th scope=row class=name>{name}</th>"
        );
        for cell in cells(entry) {
            let _ = write!(out, "<td>{cell}</td>");
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

pub(super) fn savings(comparison: &Comparison) -> String {
    let titles = [
        "savings",
        "ratio",
        "with metadata",
        "index memory",
        "chunks",
        "mean",
        "σ",
        "5 %",
        "25 %",
        "50 %",
        "75 %",
        "95 %",
        "at maximum",
    ];
    table(comparison, &titles.map(str::to_owned), |entry| {
        let sizes = &entry.sizes;
        let percentile = |share| size(sizes.percentile(share) as f64);
        vec![
            format!("{:.2} %", entry.savings() * 100.0),
            format!("{:.2}", entry.ratio()),
            format!("{:.2}", entry.ratio_with_metadata()),
            size(entry.index_memory_bytes() as f64),
            sizes.chunks().to_string(),
            size(sizes.mean()),
            size(sizes.deviation()),
            percentile(5.0),
            percentile(25.0),
            percentile(50.0),
            percentile(75.0),
            percentile(95.0),
            percent(sizes.at_max() as f64 / sizes.chunks().max(1) as f64),
        ]
    })
}

pub(super) fn speeds(comparison: &Comparison) -> String {
    let backends = comparison.entries.first().map_or(&[][..], |entry| &entry.speeds);
    let mut titles: Vec<String> = backends.iter().map(|(backend, _)| format!("{backend}, GB/s")).collect();
    titles.push("with BLAKE3, GB/s".to_owned());
    table(comparison, &titles, |entry| {
        let speeds = entry
            .speeds
            .iter()
            .map(|(_, speed)| *speed)
            .chain([entry.with_fingerprints]);
        let cell = |speed: crate::Speed| {
            let range = format!("{} to {}", gb(speed.least), gb(speed.most));
            format!("<span title=\"rounds from {range}\">{}</span>", gb(speed.median))
        };
        speeds.map(cell).collect()
    })
}

/// Returns a table whose `rows` begin with a name.
pub(super) fn named(titles: &[String], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=scroll><table><thead><tr>");
    for (n, title) in titles.iter().enumerate() {
        let _ = write!(
            out,
            "<th scope=col{}>{title}</th>",
            if n == 0 { " class=name" } else { "" }
        );
    }
    out += "</tr></thead><tbody>";
    for row in rows {
        out += "<tr>";
        for (n, cell) in row.iter().enumerate() {
            let _ = match n {
                0 => write!(out, "<th scope=row class=name>{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}
