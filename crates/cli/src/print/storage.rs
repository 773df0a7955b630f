//! Prints `storage test`.

use ibid_repo::Result;
use ibid_storage::probe::{Promise, Report};
use ibid_terminal::{Align, Table, escape};
use serde::Serialize;

use super::Out;

#[derive(Serialize)]
struct JsonFinding<'a> {
    promise: &'static str,
    ok: bool,
    problem: Option<&'a str>,
}

#[derive(Serialize)]
struct JsonStorageTest<'a> {
    location: &'a str,
    ok: bool,
    findings: Vec<JsonFinding<'a>>,
    left: Vec<String>,
}

/// Prints which promises the storage keeps, and what follows from those that it breaks.
pub(crate) fn storage_test(out: &mut Out, location: &str, report: &Report) -> Result<()> {
    if out.json {
        let findings = report.findings.iter().map(|finding| JsonFinding {
            promise: key(finding.promise),
            ok: finding.problem.is_none(),
            problem: finding.problem.as_deref(),
        });
        let body = JsonStorageTest {
            location,
            ok: report.is_ok(),
            findings: findings.collect(),
            left: report.left.iter().map(ToString::to_string).collect(),
        };
        return out.document("storage test", None, &body);
    }
    let mut table = Table::bare(&[Align::Left, Align::Left, Align::Left]);
    for finding in &report.findings {
        let (result, problem) = match &finding.problem {
            None => ("ok", String::new()),
            Some(problem) => ("FAILED", escape(problem.as_bytes())),
        };
        table.row(vec![title(finding.promise).to_owned(), result.to_owned(), problem]);
    }
    if !(out.quiet && report.is_ok()) {
        for line in table.lines() {
            out.line(line)?;
        }
    }
    let mut told = Vec::new();
    let broken = report.findings.iter().filter(|finding| finding.problem.is_some());
    for means in broken.map(|finding| means(finding.promise)) {
        if !told.contains(&means) {
            told.push(means);
            out.line(means)?;
        }
    }
    for name in &report.left {
        out.line(format!("{name} could not be deleted: delete it by hand"))?;
    }
    Ok(())
}

fn key(promise: Promise) -> &'static str {
    match promise {
        Promise::OneWins => "one_wins",
        Promise::NoOverwrite => "no_overwrite",
        Promise::ReadAfterWrite => "read_after_write",
        Promise::List => "list",
        Promise::Delete => "delete",
        Promise::Durable => "durable",
        _ => "other",
    }
}

fn title(promise: Promise) -> &'static str {
    match promise {
        Promise::OneWins => "of 16 puts of one name at once, one wins",
        Promise::NoOverwrite => "a put never overwrites",
        Promise::ReadAfterWrite => "what was put can be read at once",
        Promise::List => "a list shows what was put and deleted before it",
        Promise::Delete => "what was deleted is gone, and its name is free",
        Promise::Durable => "files and folders are synced, and files renamed",
        _ => "another promise",
    }
}

/// Returns what follows if a promise is broken.
fn means(promise: Promise) -> &'static str {
    match promise {
        Promise::OneWins | Promise::NoOverwrite | Promise::List => {
            "prune is not safe beside backups here: use `ibid prune --exclusive` while nothing else runs"
        }
        Promise::Delete => "prune frees nothing here",
        Promise::Durable => "a backup may not survive a loss of power here",
        _ => "do not keep a repository here",
    }
}
