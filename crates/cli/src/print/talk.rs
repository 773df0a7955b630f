//! Standard error: warnings, errors, notes.

use std::net::SocketAddr;
use std::path::Path;

use ibid_format::FileId;
use ibid_record::replicate::nats::Address;
use ibid_repo::{Error, Warning};
use ibid_terminal::number::size;
use ibid_terminal::{message as line, path_text};

use super::records::BadLine;
use crate::failure::{Failure, with_causes};

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
            line(&format!("{verb}: {}: {problem}", path_text(path)));
            return Some(problem);
        }
        Warning::ChangedWhileRead { path } => line(&format!("changed while it was read: {}", path_text(path))),
        Warning::Attributes { path, what, source } => line(&format!("{}: {what}: {source}", path_text(path))),
        Warning::Mixed { path } => line(&format!(
            "changed in part: {}: some of it is as in the snapshot now, the rest as it was",
            path_text(path)
        )),
        Warning::Kept { path, below } => line(&format!(
            "kept: {} is no folder, so what the snapshot has in it ({below}) is not restored",
            path_text(path)
        )),
        Warning::NothingMatches { pattern } => line(&format!(
            "nothing in what is restored of the snapshot matches --include {pattern:?}; see `ibid ls -R`"
        )),
        Warning::Repository { error } => line(&format!("warning: {}", with_causes(error))),
        Warning::OwnFolder { path } => line(&format!("note: the repository itself is left out: {}", path_text(path))),
        // Said in full rather than lost.
        other => line(&format!("warning: {other:?}")),
    }
    None
}

/// What failed, and kept nobody from going on.
pub(crate) fn failure(failure: &Failure) {
    line(&format!("ibid: {failure}"));
}

/// Why the command failed: the last that it says.
pub(crate) fn fatal(failure: &Failure, json: bool) {
    ibid_terminal::fatal("ibid", &failure.to_string(), failure.exit_code(), json);
}

/// Said of a line that is not loaded.
pub(crate) fn bad_line(bad: &BadLine) {
    line(&format!("line {}: {}", bad.line, bad.problem));
}

/// Said of a store that was made because there was none.
pub(crate) fn new_store(path: &Path) {
    line(&format!("note: made a new store of records in {}", path_text(path)));
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
    format!("{what} for {}: ", path_text(repository))
}
