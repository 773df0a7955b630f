//! The results as Markdown.

use std::fmt::Write as _;

use super::results::{Hour, Hours, Lived};
use crate::report::{number, table};
use crate::statistics::Latency;

pub(crate) fn markdown(found: &Hours, out: &mut String) {
    let load = match found.load.rate {
        0 => "as many operations as possible".to_owned(),
        rate => format!("{rate} operations a second at noon"),
    };
    let _ = writeln!(
        out,
        "{} hours of {} s, {load}, {} clients, about {} keys, seed {}.\n",
        found.load.hours, found.load.hour_s, found.load.clients, found.load.keys, found.load.seed,
    );
    out.push_str(&summary(found));
    for lived in &found.subjects {
        let _ = writeln!(out, "\n{}, hour by hour:\n", lived.subject);
        out.push_str(&hours(lived));
    }
}

fn latencies(latency: &Latency) -> [String; 3] {
    [latency.p50_us, latency.p99_us, latency.p999_us].map(number)
}

fn megabytes(bytes: u64) -> String {
    number(bytes as f64 / 1e6)
}

/// Returns a row for each subject: of all hours, and in the end.
fn summary(found: &Hours) -> String {
    let header = [
        "",
        "operations/s",
        "CPU, s",
        "bodies, MB",
        "largest, MB",
        "settled, MB",
        "compacted, MB",
        "latest 50 %, µs",
        "99 %",
        "99.9 %",
        "any 50 %, µs",
        "99 %",
        "99.9 %",
        "commit 50 %, µs",
        "99 %",
        "99.9 %",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for lived in &found.subjects {
        let largest = lived
            .seen
            .hours
            .iter()
            .map(|hour| hour.disk_bytes_max)
            .max()
            .unwrap_or(0);
        let mut line = vec![
            lived.subject.clone(),
            number(lived.seen.operations_a_second()),
            number(lived.cost.cpu_s),
            megabytes(lived.seen.body_bytes),
            megabytes(largest),
            megabytes(lived.seen.settled_bytes),
            megabytes(lived.seen.compacted_bytes),
        ];
        for latency in [&lived.seen.latest, &lived.seen.any, &lived.seen.commit] {
            line.extend(latencies(latency));
        }
        lines.push(line);
    }
    table(&lines)
}

fn hours(lived: &Lived) -> String {
    let header = [
        "hour",
        "operations/s",
        "bodies, MB",
        "on disk, MB",
        "largest, MB",
        "memory, MiB",
        "latest 50 %, µs",
        "99.9 %",
        "any 50 %, µs",
        "99.9 %",
        "commit 50 %, µs",
        "99.9 %",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    let row = |hour: &Hour| {
        let mut line = vec![
            hour.hour.to_string(),
            number(hour.operations as f64 / hour.seconds),
            megabytes(hour.body_bytes),
            megabytes(hour.disk_bytes),
            megabytes(hour.disk_bytes_max),
            number(hour.rss_bytes as f64 / f64::from(1 << 20)),
        ];
        for latency in [&hour.latest, &hour.any, &hour.commit] {
            line.extend([latency.p50_us, latency.p999_us].map(number));
        }
        line
    };
    lines.extend(lived.seen.hours.iter().map(row));
    table(&lines)
}
