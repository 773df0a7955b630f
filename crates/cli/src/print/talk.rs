//! Standard error: warnings, errors, notes. Lines and progress do not get in each other's way.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;

use ibid_format::FileId;
use ibid_record::replicate::nats::Address;
use ibid_repo::{Error, Warning};
use indicatif::ProgressBar;
use serde::Serialize;

use super::names::{self, escape_text};
use super::numbers::size;
use super::records::BadLine;
use crate::failure::{Failure, with_causes};

/// The bar on the terminal, if there is one: lines are printed above it.
static BAR: Mutex<Option<ProgressBar>> = Mutex::new(None);

pub(super) fn set_bar(bar: Option<ProgressBar>) {
    *lock() = bar;
}

fn lock() -> std::sync::MutexGuard<'static, Option<ProgressBar>> {
    BAR.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A line on standard error. If nobody can hear it, nothing can be done about that.
pub(super) fn line(text: &str) {
    let write = || {
        let _ = writeln!(std::io::stderr().lock(), "{}", escape_text(text));
    };
    match lock().as_ref() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// What could not be done with a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Read,
    Restore,
    /// Commands that only look.
    Look,
}

/// Says a warning; returns the file that could not be read or restored, and why.
pub(crate) fn warning(verb: Verb, warning: &Warning) -> Option<String> {
    match warning {
        Warning::Skipped { path, error } => {
            let problem = match error {
                Error::Local { action, source, .. } => format!("cannot {action}: {source}"),
                error => with_causes(error),
            };
            let verb = match verb {
                Verb::Read => "left out",
                Verb::Restore => "not restored",
                Verb::Look => "passed over",
            };
            line(&format!("{verb}: {}: {problem}", names::path(path)));
            return Some(problem);
        }
        Warning::ChangedWhileRead { path } => line(&format!("changed while it was read: {}", names::path(path))),
        Warning::Attributes { path, what, source } => line(&format!("{}: {what}: {source}", names::path(path))),
        Warning::Mixed { path } => line(&format!(
            "changed in part: {}: some of it is as in the snapshot now, the rest as it was",
            names::path(path)
        )),
        Warning::Kept { path, below } => line(&format!(
            "kept: {} is no folder, so what the snapshot has in it ({below}) is not restored",
            names::path(path)
        )),
        Warning::NothingMatches { pattern } => line(&format!(
            "nothing in what is restored of the snapshot matches --include {pattern:?}; see `ibid ls -R`"
        )),
        Warning::Repository { error } => line(&format!("warning: {}", with_causes(error))),
        Warning::OwnFolder { path } => line(&format!(
            "note: the repository itself is left out: {}",
            names::path(path)
        )),
        // Said in full rather than lost.
        other => line(&format!("warning: {other:?}")),
    }
    None
}

/// What failed, and kept nobody from going on.
pub(crate) fn failure(failure: &Failure) {
    line(&format!("ibid: {failure}"));
}

#[derive(Serialize)]
struct JsonError<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    code: u8,
    message: &'a str,
}

/// Why the command failed: the last that it says.
pub(crate) fn fatal(failure: &Failure, json: bool) {
    let text = escape_text(&failure.to_string());
    let body = JsonError {
        kind: "error",
        code: failure.exit_code(),
        message: &text,
    };
    match serde_json::to_string(&body) {
        Ok(object) if json => line(&object),
        _ => line(&format!("ibid: {text}")),
    }
}

/// Said of a file that a measurement goes on without.
pub(crate) fn passed_over(path: &Path, error: &std::io::Error) {
    line(&format!("passed over: {}: {error}", names::path(path)));
}

/// Said of a line that is not loaded.
pub(crate) fn bad_line(bad: &BadLine) {
    line(&format!("line {}: {}", bad.line, bad.problem));
}

/// Said of a store that was made because there was none.
pub(crate) fn new_store(path: &Path) {
    line(&format!("note: made a new store of records in {}", names::path(path)));
}

/// Where others can follow a store.
pub(crate) fn records_serving(address: SocketAddr) {
    line(&format!("listening at {address}; Ctrl-C ends it"));
}

/// Said once all is published that there was.
pub(crate) fn records_published(at: &Address) {
    line(&format!("published at {at}; Ctrl-C ends it"));
}

/// Said of a log that could not be asked, and is asked again.
pub(crate) fn records_retrying(why: &str) {
    line(&format!("{why} (trying again; Ctrl-C ends it)"));
}

/// Said of a key that is made all the same.
pub(crate) fn cheap_guesses() {
    line(
        "warning: guessing the password of this key is cheap: better let --argon2 take 7 MiB or more, and memory times passes 32 MiB or more",
    );
}

/// Said of a key that may still open with the old password.
pub(crate) fn untried_key(id: FileId, why: &str) {
    line(&format!(
        "warning: key {id} could not be tried with the old password, and stays: {why}"
    ));
}

/// Said when --init finds a repository that was made otherwise.
pub(crate) fn kept_settings(what: &str) {
    line(&format!(
        "warning: there is a repository already, and it keeps what it was made with: {what} changes nothing"
    ));
}

/// What is wrong with the command line, or the help that was asked for.
pub(crate) fn usage(error: &clap::Error) {
    let _ = error.print();
}

/// Said whenever a repository without encryption is opened, also with --quiet.
pub(crate) fn unencrypted(location: &str) {
    line(&format!("note: the repository at {location} is NOT encrypted"));
}

pub(crate) fn swept(files: u64, bytes: u64) {
    line(&format!(
        "note: removed {files} unfinished files ({}) of backups that were cut short",
        size(bytes)
    ));
}

/// The text in front of where a password is typed.
pub(crate) fn question(what: &str, repository: &Path) -> String {
    format!("{what} for {}: ", names::path(repository))
}

/// Told once somebody asked to stop.
pub(super) fn stopping() {
    line("stopping; once more to stop at once");
}
