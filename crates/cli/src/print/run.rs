//! Prints `run`: one line, or one object, for each step.

use std::time::{SystemTime, UNIX_EPOCH};

use ibid_format::tree::Time;
use ibid_repo::Result;
use ibid_terminal::json::JsonPath;
use ibid_terminal::number::{counted, size};
use ibid_terminal::{escape, message, path_text};
use serde::Serialize;
use serde_json::Value;

use super::Out;
use super::json::Nothing;
use super::time::{local, rfc3339};
use crate::failure::{Failure, Outcome};
use crate::profile::{COMMANDS, Config};

/// How a step of a profile ended.
pub(crate) enum Ended {
    Ran(Outcome),
    Failed(Failure),
    /// It is not due before this time.
    NotDue(SystemTime),
    /// A step that it needs has failed.
    NotRun,
    /// Another process runs the profile.
    Busy,
}

impl Ended {
    fn name(&self) -> &'static str {
        match self {
            Ended::Ran(Outcome::Done) => "done",
            Ended::Ran(Outcome::Partial) => "partial",
            Ended::Ran(Outcome::Faults) => "faults",
            Ended::Ran(Outcome::Failed(_)) | Ended::Failed(_) => "failed",
            Ended::NotDue(_) => "not_due",
            Ended::NotRun => "not_run",
            Ended::Busy => "busy",
        }
    }

    /// Returns the exit code that the step alone would have had.
    fn code(&self) -> u8 {
        match self {
            Ended::Ran(outcome) => outcome.exit_code(),
            Ended::Failed(failure) => failure.exit_code(),
            Ended::NotDue(_) | Ended::NotRun | Ended::Busy => 0,
        }
    }
}

/// A step of a profile.
pub(crate) struct Step<'a> {
    pub(crate) profile: &'a str,
    /// A command, or `run` if no step began.
    pub(crate) command: &'a str,
    pub(crate) ended: Ended,
    /// What the command prints with --json.
    pub(crate) document: Option<Value>,
}

#[derive(Serialize)]
struct JsonStep<'a> {
    profile: &'a str,
    step: &'a str,
    outcome: &'static str,
    code: u8,
    message: Option<String>,
    not_before: Option<String>,
    result: Option<Value>,
}

/// Prints the `begin` line.
pub(crate) fn begin(out: &mut Out) -> Result<()> {
    match out.json {
        true => out.begin_with("run", None, &Nothing {}),
        false => Ok(()),
    }
}

/// Prints the `end` line.
pub(crate) fn end(out: &mut Out) -> Result<()> {
    match out.json {
        true => out.item("end", Nothing {}),
        false => Ok(()),
    }
}

/// Prints which step begins, above what it prints itself.
pub(crate) fn title(out: &mut Out, profile: &str, command: &str) -> Result<()> {
    out.line(format!("== {profile}: {command}"))
}

/// Prints how a step ended. Problems go to standard error, even if `out` is quiet.
pub(crate) fn step(out: &mut Out, step: Step<'_>) -> Result<()> {
    if out.json {
        let message = match &step.ended {
            Ended::Failed(failure) => Some(failure.to_string()),
            _ => None,
        };
        let not_before = match step.ended {
            Ended::NotDue(due) => Some(rfc3339(time(due))),
            _ => None,
        };
        let body = JsonStep {
            profile: step.profile,
            step: step.command,
            outcome: step.ended.name(),
            code: step.ended.code(),
            message,
            not_before,
            result: step.document,
        };
        return out.item("step", body);
    }
    let place = format!("{}: {}", step.profile, step.command);
    let document = step.document.unwrap_or_default();
    let text = match step.ended {
        Ended::Failed(failure) => {
            message(&format!("ibid: {place} failed: {failure}"));
            return Ok(());
        }
        Ended::Ran(outcome) => {
            let summary = summary(step.command, &document);
            if outcome == Outcome::Done {
                summary
            } else {
                problems(&document);
                message(&format!("ibid: {place}: {summary}"));
                return Ok(());
            }
        }
        Ended::NotDue(due) => format!("not due before {}", local(time(due))),
        Ended::NotRun => "not run, because a step before it failed".to_owned(),
        Ended::Busy => {
            let text = format!(
                "{}: nothing done, because another `ibid run` of this profile is at work",
                step.profile
            );
            return if out.quiet { Ok(()) } else { out.line(text) };
        }
    };
    match out.quiet {
        true => Ok(()),
        false => out.line(format!("{place}: {text}")),
    }
}

fn time(time: SystemTime) -> Time {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Time {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: 0,
    }
}

/// Returns in one line what a command did, by the document that it prints with --json.
fn summary(command: &str, document: &Value) -> String {
    let number = |name: &str| document[name].as_u64().unwrap_or_default();
    match command {
        "backup" => backup(document),
        "forget" => format!(
            "{} forgotten, {} kept",
            counted(number("forgotten"), "snapshot", "snapshots"),
            number("kept")
        ),
        "prune" => prune(&document["done"]),
        _ => {
            let found = match number("faults_total") {
                0 => "no faults".to_owned(),
                faults => format!("FOUND {}", counted(faults, "fault", "faults")),
            };
            let affected = match number("affected_total") {
                0 => String::new(),
                files => format!(
                    ", {} of snapshots cannot be restored whole",
                    counted(files, "file or folder", "files or folders")
                ),
            };
            format!(
                "{found} in {} and {}{affected}; {} of data were read",
                counted(number("snapshots"), "snapshot", "snapshots"),
                counted(number("packs"), "pack", "packs"),
                size(number("read_bytes"))
            )
        }
    }
}

fn prune(done: &Value) -> String {
    let number = |name: &str| done[name].as_u64().unwrap_or_default();
    let (freed, stored) = (size(number("freed_bytes")), size(number("stored_bytes")));
    let waits = match done["waiting"].as_array().map_or(0, |list| list.len() as u64) {
        0 => String::new(),
        sessions => format!("; waiting for {}", counted(sessions, "session", "sessions")),
    };
    let lost = match number("lost_packs") {
        0 => String::new(),
        lost => format!(
            "; {} of the repository not whole (see above)",
            counted(lost, "pack", "packs")
        ),
    };
    format!("{freed} freed, {stored} stored{waits}{lost}")
}

fn backup(document: &Value) -> String {
    let number = |name: &str| document[name].as_u64().unwrap_or_default();
    let files = counted(number("files"), "file", "files");
    let mut text = match document["snapshot"].as_str() {
        Some(id) => format!(
            "snapshot {} of {files}, {}; {} stored",
            id.get(..8).unwrap_or(id),
            size(number("bytes")),
            size(number("written_bytes"))
        ),
        None => format!("nothing has changed in {files}"),
    };
    let flaws = [
        ("unreadable", "file or folder", "files or folders", "could not be read"),
        ("attributes_lost", "attribute", "attributes", "could not be stored"),
        ("lost_packs", "pack", "packs", "of the repository not whole"),
        (
            "damaged_frames",
            "place",
            "places",
            "of the repository that can't be read",
        ),
    ];
    for (name, one, many, what) in flaws.into_iter().filter(|(name, ..)| number(name) > 0) {
        text += &format!("; {} {what} (see above)", counted(number(name), one, many));
    }
    text
}

/// Names the faults that a check found.
fn problems(document: &Value) {
    let list = |name: &str| document[name].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| escape(value.as_str().unwrap_or_default().as_bytes());
    for fault in list("faults") {
        message(&format!(
            "fault: {}: {}",
            text(&fault["object"]),
            text(&fault["problem"])
        ));
    }
    for file in list("affected") {
        let (snapshot, path) = (text(&file["snapshot"]), text(&file["path"]));
        let short = snapshot.get(..8).unwrap_or(&snapshot);
        message(&format!("affected: {short}:{path}  {}", text(&file["problem"])));
    }
}

#[derive(Serialize)]
struct JsonProfile<'a> {
    profile: &'a str,
    repository: Option<JsonPath>,
    steps: Vec<&'static str>,
}

/// Prints the profiles of a config file.
pub(crate) fn list(out: &mut Out, config: &Config) -> Result<()> {
    use std::os::unix::ffi::OsStrExt;
    begin(out)?;
    for (name, profile) in &config.profiles {
        let repository = profile.global_values("repo").first();
        let steps: Vec<&str> = COMMANDS
            .into_iter()
            .filter(|command| profile.tables.contains_key(command))
            .collect();
        if out.json {
            let repository = repository.map(|path| JsonPath::new(path.as_bytes()));
            out.item(
                "profile",
                JsonProfile {
                    profile: name,
                    repository,
                    steps,
                },
            )?;
            continue;
        }
        let repository = repository.map_or_else(|| "(no repository)".to_owned(), |path| path_text(path.as_ref()));
        out.line(format!("{name}  {repository}  {}", steps.join(", ")))?;
    }
    if config.profiles.is_empty() && !out.json && !out.quiet {
        out.line(format!("no profiles in {}", path_text(&config.path)))?;
    }
    end(out)
}
