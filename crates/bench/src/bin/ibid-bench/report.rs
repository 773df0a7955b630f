//! Output for people: tables in Markdown, progress, errors.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the only module that prints")]

use std::fmt::Write as _;

use crate::databases::{self, Records};
use crate::record::{
    IndexLookups, Outcome, RandomRead, Record, Repositories, Row, Sample, SimilarityRun, Soak, SoakStep, Step,
};
use crate::statistics::median;
use crate::{aging, hours};

/// Prints results to standard output.
pub(crate) fn show(text: &str) {
    println!("{text}");
}

/// Reports how far an experiment is.
pub(crate) fn note(text: &str) {
    eprintln!("{text}");
}

/// Reports that a step is done.
pub(crate) fn progress(sample: &Sample) {
    let size = sample.repository_bytes.map_or_else(String::new, |bytes| {
        format!(", repository {:.1} MB", bytes as f64 / 1e6)
    });
    eprintln!(
        "round {} {} {} {:?} {}: {:.2} s, {:.2} s of CPU, {:.0} MiB{size}",
        sample.round,
        sample.corpus,
        sample.version,
        sample.step,
        sample.tool,
        sample.cost.wall_s,
        sample.cost.cpu_s,
        sample.cost.rss_bytes as f64 / f64::from(1 << 20),
    );
}

/// Reports that a subject has stored and read all records of a file.
pub(crate) fn records_progress(row: &databases::Row) {
    eprintln!(
        "{} {}: {:.1} MB on disk, {:.2} s, {:.2} s of CPU, {:.0} MiB",
        row.file,
        row.subject.name(),
        row.disk_bytes as f64 / 1e6,
        row.load.wall_s,
        row.load.cpu_s,
        row.load.rss_bytes as f64 / f64::from(1 << 20),
    );
}

/// Reports that a subject has lived for all hours.
pub(crate) fn hours_progress(lived: &hours::Lived) {
    eprintln!(
        "{}: {:.0} operations/s, {:.2} s of CPU, {:.1} MB on disk in the end",
        lived.subject,
        lived.seen.operations_a_second(),
        lived.cost.cpu_s,
        lived.seen.settled_bytes as f64 / 1e6,
    );
}

/// Reports that a subject is not available here.
pub(crate) fn skipped(skipped: &databases::Skipped) {
    eprintln!("{}", skipped_text(skipped));
}

fn skipped_text(skipped: &databases::Skipped) -> String {
    format!("SKIPPED {}: {}", skipped.subject.name(), skipped.why)
}

/// Returns a complete record as Markdown.
pub(crate) fn markdown(record: &Record) -> String {
    let mut out = String::new();
    let machine = &record.machine;
    let load = |load: [f64; 3]| format!("{:.2} {:.2} {:.2}", load[0], load[1], load[2]);
    let _ = writeln!(
        out,
        "**{}**, {}: {}, {} cores, {:.1} GiB of memory, Linux {}; load average {} before, {} after.",
        record.experiment,
        record.date,
        machine.cpu,
        machine.cores,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel,
        load(record.load_before),
        load(record.load_after),
    );
    match &record.outcome {
        Outcome::Repositories(found) => repositories(found, &mut out),
        Outcome::RandomRead(found) => random_read(found, &mut out),
        Outcome::IndexLookups(found) => index_lookups(found, &mut out),
        Outcome::Similarity(found) => similarity(found, &mut out),
        Outcome::Soak(found) => soak(found, &mut out),
        Outcome::Aging(found) => aging::markdown(found, &mut out),
        Outcome::Records(found) => records(found, &mut out),
        Outcome::Hours(found) => hours::markdown(found, &mut out),
    }
    out
}

fn repositories(found: &Repositories, out: &mut String) {
    let versions: Vec<_> = found
        .tools
        .iter()
        .map(|tool| format!("{} ({})", tool.label, tool.version))
        .collect();
    let _ = writeln!(out, "{}. Medians of rounds: {}.", versions.join(", "), found.rounds);
    for corpus in &found.corpora {
        let rows: Vec<_> = found.results.iter().filter(|row| row.corpus == corpus.name).collect();
        let _ = writeln!(
            out,
            "\n{}: {} versions, {:.1} MB in all; the last one {:.1} MB, {}.\n",
            corpus.name,
            corpus.versions,
            corpus.bytes as f64 / 1e6,
            corpus.last_bytes as f64 / 1e6,
            plain_speed(found, &corpus.name),
        );
        out.push_str(&corpus_table(found, &rows));
    }
}

/// Returns `read by cat in 0.02 s, copied by cp in 0.08 s`.
fn plain_speed(found: &Repositories, corpus: &str) -> String {
    let wall = |step: Step| {
        let of_step = |sample: &&Sample| sample.corpus == corpus && sample.step == step;
        let walls: Vec<f64> = found
            .samples
            .iter()
            .filter(of_step)
            .map(|sample| sample.cost.wall_s)
            .collect();
        median(&walls).map_or_else(|| "–".to_owned(), number)
    };
    format!(
        "read by cat in {} s, copied by cp in {} s",
        wall(Step::Cat),
        wall(Step::Cp)
    )
}

fn corpus_table(found: &Repositories, rows: &[&Row]) -> String {
    let ratios = rows.iter().any(|row| row.ratio.is_some());
    let goals = rows.iter().any(|row| row.goal.is_some());
    let mut header = vec![String::new()];
    header.extend(found.tools.iter().map(|tool| tool.label.clone()));
    if ratios {
        header.push("ibid / restic".to_owned());
    }
    if goals {
        header.push("goal".to_owned());
    }
    let mut lines = vec![header];
    for row in rows {
        let mut line = vec![format!("{}, {}", row.measure, row.unit)];
        let cell = |label: &String| {
            row.medians
                .get(label)
                .map_or_else(|| "–".to_owned(), |&value| number(value))
        };
        line.extend(found.tools.iter().map(|tool| cell(&tool.label)));
        if ratios {
            line.push(row.ratio.map_or_else(String::new, |ratio| spread(ratio, &row.ratios)));
        }
        if goals {
            let verdict = |reached| if reached { "reached" } else { "**missed**" };
            let goal = row.goal.as_ref();
            line.push(goal.map_or_else(String::new, |goal| format!("{}: {}", goal.text, verdict(goal.reached))));
        }
        lines.push(line);
    }
    table(&lines)
}

/// Formats a median with its range: `0.33 (0.31–0.36)`.
fn spread(median: f64, values: &[f64]) -> String {
    let (min, max) = values.iter().fold((f64::MAX, f64::MIN), |(min, max), &value| {
        (min.min(value), max.max(value))
    });
    if values.len() < 2 {
        return format!("{median:.2}");
    }
    format!("{median:.2} ({min:.2}–{max:.2})")
}

fn index_lookups(found: &IndexLookups, out: &mut String) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let _ = writeln!(
        out,
        "{} chunks in {} packs: {:.2} GB, {:.1} bytes a chunk, written in {:.0} s. With a budget of {:.0} MiB, loaded \
         in {:.2} s; the index takes {:.1} MiB, the peak was {:.1} MiB.\n",
        found.chunks,
        found.packs,
        found.run_bytes as f64 / 1e9,
        found.run_bytes as f64 / found.chunks as f64,
        found.write_s,
        mib(found.memory),
        found.open_s,
        mib(found.index_memory_bytes),
        mib(found.peak_bytes),
    );
    let header = [
        "lookup",
        "threads",
        "lookups",
        "lookups/s",
        "pages each",
        "from disk, KiB each",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for result in &found.results {
        lines.push(vec![
            result.what.clone(),
            result.threads.to_string(),
            result.lookups.to_string(),
            format!("{:.0}", result.lookups as f64 / result.seconds),
            format!("{:.2}", result.pages_each),
            result
                .disk_bytes_each
                .map_or_else(|| "–".to_owned(), |bytes| number(bytes / 1024.0)),
        ]);
    }
    out.push_str(&table(&lines));
}

fn soak(found: &Soak, out: &mut String) {
    let _ = writeln!(
        out,
        "Budget of memory {:.0} MiB; {} commands of ibid took more than that and 20 MiB.\n",
        found.memory as f64 / f64::from(1 << 20),
        found.beyond_budget().count(),
    );
    let mut lines = vec![
        ["case", "command", "wall, s", "CPU, s", "peak, MiB"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for SoakStep {
        case, command, cost, ..
    } in &found.steps
    {
        lines.push(vec![
            case.clone(),
            format!("`{command}`"),
            format!("{:.2}", cost.wall_s),
            format!("{:.2}", cost.cpu_s),
            format!("{:.0}", cost.rss_bytes as f64 / f64::from(1 << 20)),
        ]);
    }
    out.push_str(&table(&lines));
}

fn similarity(found: &SimilarityRun, out: &mut String) {
    let _ = writeln!(
        out,
        "Budget of memory {:.0} MiB. Chunks by how their first base was found.\n",
        found.memory as f64 / f64::from(1 << 20)
    );
    let header = [
        "corpus",
        "other sketches",
        "stored, MB",
        "saved, %",
        "chunks",
        "in memory",
        "by neighbours",
        "by features",
        "none",
        "limited, MB",
        "CPU, s",
        "sketches, MB",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for result in &found.results {
        let with_base = result.in_memory + result.by_neighbours + result.by_features;
        lines.push(vec![
            result.corpus.clone(),
            format!("{} times", result.times),
            format!("{:.2}", result.stored_bytes as f64 / 1e6),
            format!("{:.1}", result.saved_share * 100.0),
            result.chunks.to_string(),
            result.in_memory.to_string(),
            result.by_neighbours.to_string(),
            result.by_features.to_string(),
            result.chunks.saturating_sub(with_base).to_string(),
            format!("{:.1}", result.limited_bytes as f64 / 1e6),
            format!("{:.1}", result.cpu_s),
            format!("{:.0}", result.sketch_bytes as f64 / 1e6),
        ]);
    }
    out.push_str(&table(&lines));
}

fn random_read(found: &RandomRead, out: &mut String) {
    let _ = writeln!(
        out,
        "{} chunks of {} on average from {:.1} MB of `{}`, encrypted, in packs on the disk and in the page cache.\n",
        found.chunks,
        size(found.average),
        found.bytes as f64 / 1e6,
        found.file,
    );
    let header = [
        "frame",
        "stored, MB",
        "chunks a frame",
        "read a chunk, KiB",
        "median, µs",
        "99 %, µs",
        "longest, µs",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for frame in &found.frames {
        lines.push(vec![
            size(frame.frame),
            number(frame.stored_bytes as f64 / 1e6),
            number(found.chunks as f64 / frame.frames as f64),
            number(frame.read_bytes_mean / 1024.0),
            number(frame.median_us),
            number(frame.p99_us),
            number(frame.max_us),
        ]);
    }
    out.push_str(&table(&lines));
}

fn records(found: &Records, out: &mut String) {
    if !found.versions.is_empty() {
        let _ = writeln!(out, "{}.", found.versions.join(", "));
    }
    for skipped in &found.skipped {
        let _ = writeln!(out, "{}", skipped_text(skipped));
    }
    let stored = if found.distinct {
        "each a record of its own"
    } else {
        "as versions"
    };
    for file in &found.files {
        let _ = writeln!(
            out,
            "\n{}: {} bodies under {} keys, {:.1} MB, {stored}; {} reads of latest versions, and of any.\n",
            file.name,
            file.records,
            file.keys,
            file.body_bytes as f64 / 1e6,
            found.reads,
        );
        let rows = found.rows.iter().filter(|row| row.file == file.name);
        out.push_str(&records_table(file, rows));
    }
}

fn records_table<'a>(file: &databases::FileInfo, rows: impl Iterator<Item = &'a databases::Row>) -> String {
    let header = [
        "",
        "on disk, MB",
        "ratio",
        "largest, MB",
        "values, MB",
        "ratio of these",
        "index, MB",
        "CPU, s",
        "peak, MiB",
        "records/s",
        "MB/s",
        "finish, s",
        "latest 50 %, µs",
        "99 %",
        "99.9 %",
        "any 50 %, µs",
        "99 %",
        "99.9 %",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    let or_dash = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    let bodies = file.body_bytes as f64;
    for row in rows {
        let stored = (row.disk_bytes > 0).then_some(row.disk_bytes as f64);
        let values = row.value_bytes.map(|bytes| bytes as f64);
        let index = row.index.map(|index| index.bytes as f64);
        let inserted = (row.insert_s > 0.0).then_some(row.insert_s);
        let mut line = vec![row.subject.name()];
        line.extend(
            [
                stored.map(|bytes| bytes / 1e6),
                stored.map(|bytes| bodies / bytes),
                row.disk_bytes_max.map(|bytes| bytes as f64 / 1e6),
                values.map(|bytes| bytes / 1e6),
                values.map(|bytes| bodies / bytes),
                index.map(|bytes| bytes / 1e6),
                Some(row.load.cpu_s),
                Some(row.load.rss_bytes as f64 / f64::from(1 << 20)),
                inserted.map(|seconds| file.records as f64 / seconds),
                inserted.map(|seconds| bodies / 1e6 / seconds),
                inserted.map(|_| row.finish_s),
                row.latency.map(|latency| latency.p50_us),
                row.latency.map(|latency| latency.p99_us),
                row.latency.map(|latency| latency.p999_us),
                row.latency_of_any.map(|latency| latency.p50_us),
                row.latency_of_any.map(|latency| latency.p99_us),
                row.latency_of_any.map(|latency| latency.p999_us),
            ]
            .map(or_dash),
        );
        lines.push(line);
    }
    table(&lines)
}

/// Formats a size: `1 MiB`, `64 KiB`.
fn size(bytes: u32) -> String {
    match bytes {
        n if n >= 1 << 20 && n % (1 << 20) == 0 => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n % (1 << 10) == 0 => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

/// Formats a number with three digits or more.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        small if small < 0.095 => format!("{value:.3}"),
        small if small < 9.995 => format!("{value:.2}"),
        small if small < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Returns a Markdown table whose columns are aligned: the first line is the header, and all
/// columns but the first are numbers.
pub(crate) fn table(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
            .max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
            let _ = if column == 0 {
                write!(out, "| {cell:<width$} ")
            } else {
                write!(out, "| {cell:>width$} ")
            };
        }
        out.push_str("|\n");
        if at == 0 {
            for (column, width) in widths.iter().enumerate() {
                let dashes = "-".repeat(width - 1);
                let _ = if column == 0 {
                    write!(out, "| {dashes}- ")
                } else {
                    write!(out, "| {dashes}: ")
                };
            }
            out.push_str("|\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0123, "0.012"),
            (0.1, "0.10"),
            (1.234, "1.23"),
            (9.996, "10.0"),
            (99.96, "100"),
            (1234.5, "1234"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
        assert_eq!(
            (size(1 << 20), size(64 << 10), size(1000)),
            ("1 MiB".into(), "64 KiB".into(), "1000 B".into())
        );
    }

    #[test]
    fn columns_line_up() {
        let lines = [
            vec!["".to_owned(), "µs".to_owned()],
            vec!["a".to_owned(), "12345".to_owned()],
        ];
        assert_eq!(table(&lines), "|     |    µs |\n| --- | ----: |\n| a   | 12345 |\n");
    }

    #[test]
    fn the_table_of_a_run() {
        let record = Record::begin("repositories", Outcome::Repositories(crate::summary::tests::example()));
        let text = markdown(&record);
        let line = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).expect(start);
            let cells: Vec<_> = line.split('|').map(str::trim).collect();
            cells[2..6].to_vec()
        };
        let cpu = line("| backup of all versions, CPU, s");
        assert_eq!(cpu, ["4.00", "20.0", "0.21 (0.17–0.25)", "≤ 1/2 of restic: reached"]);
        assert_eq!(
            line("| restore of the last version, wall")[3],
            "≤ 1/2 of restic: **missed**"
        );
        assert!(
            text.contains("\nlnx: 2 versions, 190.0 MB in all; the last one 100.0 MB, "),
            "{text}"
        );
        assert!(
            text.contains("ibid (ibid 1.0), restic (restic 1.0). Medians of rounds: 2."),
            "{text}"
        );
    }
}
