//! Completions of the command line in a shell.
//!
//! The script of a shell calls this program at each Tab, with the words so far and the variable
//! `IBID_COMPLETE`. So it never differs from the program, and knows what is in the repository.
//!
//! Nobody waits for an answer that a question must precede, or reads an error there: where anything is
//! missing, nothing is completed.

use std::ffi::OsString;
use std::io::{Error, Result};
use std::path::PathBuf;
use std::sync::Arc;

use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCandidates, CompletionCandidate};
use ibid_repo::{FileId, KeyInfo, Repository, SessionInfo, SessionState, SnapshotInfo, Time};
use ibid_storage::Local;
use ibid_terminal::escape;
use zeroize::Zeroizing;

use crate::args;
use crate::print::local_time;

/// The variable that says which shell asks.
const VARIABLE: &str = "IBID_COMPLETE";
const NAME: &str = "ibid";

/// Answers a shell that asks for completions, and ends the program. Returns if none does.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(args::definition).var(VARIABLE).complete();
}

/// Returns the script for a shell.
///
/// # Errors
/// There is no script for this shell.
pub(crate) fn script(shell: &str) -> Result<Vec<u8>> {
    let shells = Shells::builtins();
    let shell = shells.completer(shell).ok_or_else(|| Error::other("unknown shell"))?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut script)?;
    Ok(script)
}

/// Completes these words.
pub(crate) fn words(words: &'static [&'static str]) -> ArgValueCandidates {
    ArgValueCandidates::new(|| words.iter().map(CompletionCandidate::new).collect())
}

/// Completes `latest` and ids of snapshots, the newest first.
pub(crate) fn snapshots() -> ArgValueCandidates {
    ArgValueCandidates::new(live)
}

/// Completes snapshots for `forget`: with `--undo` ids of those that were forgotten, the newest first.
pub(crate) fn snapshots_or_forgotten() -> ArgValueCandidates {
    ArgValueCandidates::new(|| match typed().iter().any(|word| word == "--undo") {
        true => {
            let forgotten = opened().and_then(|repository| repository.forgotten(|_, _| ()).ok());
            forgotten.iter().flatten().rev().map(snapshot).collect()
        }
        false => live(),
    })
}

fn live() -> Vec<CompletionCandidate> {
    let found = stored();
    let latest = (!found.is_empty()).then(|| CompletionCandidate::new("latest"));
    latest.into_iter().chain(found.iter().rev().map(snapshot)).collect()
}

fn snapshot(info: &SnapshotInfo) -> CompletionCandidate {
    let snapshot = &info.snapshot;
    candidate(info.id, local_time(snapshot.time), &snapshot.host, &snapshot.paths)
}

/// Returns the beginning of an id, and what it stands for.
fn candidate(id: FileId, time: String, host: &str, paths: &[Vec<u8>]) -> CompletionCandidate {
    let paths: Vec<_> = paths.iter().take(3).map(|path| escape(path)).collect();
    let help = format!("{time} {} {}", escape(host.as_bytes()), paths.join(" "));
    CompletionCandidate::new(&id.to_string()[..8]).help(Some(help.trim_end().to_owned().into()))
}

/// Completes ids of sessions that have not ended.
pub(crate) fn sessions() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let sessions = opened().and_then(|repository| repository.sessions(|_, _| ()).ok());
        let open = sessions.into_iter().flatten();
        let open = open.filter(|info| info.state != SessionState::Ended);
        let one = |info: SessionInfo| {
            let session = info.session;
            candidate(info.id, local_time(session.time), &session.host, &session.paths)
        };
        open.map(one).collect()
    })
}

/// Completes ids of keys that can be removed.
pub(crate) fn keys() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let keys = opened().and_then(|repository| repository.keys().ok());
        let others = keys.into_iter().flatten().filter(|key| !key.current);
        let one = |key: KeyInfo| match key.note {
            Ok(note) => {
                let created = Time {
                    seconds: note.created,
                    nanos: 0,
                };
                candidate(key.id, local_time(created), &note.host, &[note.label.into_bytes()])
            }
            Err(_) => CompletionCandidate::new(&key.id.to_string()[..8]),
        };
        others.map(one).collect()
    })
}

/// Completes commands after `man`, and those in a command.
pub(crate) fn commands() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let words = typed();
        let mut command = args::definition();
        // The last word is the one to complete.
        let before = words.iter().take(words.len().saturating_sub(1));
        for word in before.skip_while(|word| *word != "man").skip(1) {
            match command.find_subcommand(word) {
                Some(found) => command = found.clone(),
                None => return Vec::new(),
            }
        }
        let below = command.get_subcommands().filter(|below| below.get_name() != "help");
        let one = |below: &clap::Command| CompletionCandidate::new(below.get_name()).help(below.get_about().cloned());
        below.filter(|below| !below.is_hide_set()).map(one).collect()
    })
}

/// Completes the machines of snapshots.
pub(crate) fn hosts() -> ArgValueCandidates {
    ArgValueCandidates::new(|| unique(stored().into_iter().map(|info| info.snapshot.host)))
}

/// Completes the tags of snapshots.
pub(crate) fn tags() -> ArgValueCandidates {
    ArgValueCandidates::new(|| unique(stored().into_iter().flat_map(|info| info.snapshot.tags)))
}

/// Completes the names of profiles in the config file.
pub(crate) fn profiles() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let words: Vec<OsString> = std::env::args_os().collect();
        let file = given(&words, &["--config"]).map(PathBuf::from);
        let config = crate::profile::Config::read(file.as_deref());
        unique(config.into_iter().flat_map(|config| config.profiles.into_keys()))
    })
}

fn unique(names: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    // A name that could control the terminal is not for the command line either.
    let mut names: Vec<_> = names.filter(|name| escape(name.as_bytes()) == *name).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the words that were typed so far. The shell puts them after `--`.
fn typed() -> Vec<OsString> {
    std::env::args_os().skip_while(|word| word != "--").skip(1).collect()
}

/// Returns the snapshots of the repository, oldest first; none if it can't be opened.
fn stored() -> Vec<SnapshotInfo> {
    opened()
        .and_then(|repository| repository.snapshots_with(|_, _| ()).ok())
        .unwrap_or_default()
}

/// Returns the repository that the command line and the environment name, if it can be opened.
fn opened() -> Option<Repository> {
    let words: Vec<OsString> = std::env::args_os().collect();
    open(&words)
}

fn open(words: &[OsString]) -> Option<Repository> {
    let path = given(words, &["-r", "--repo"]).or_else(|| std::env::var_os("IBID_REPO"))?;
    // Nothing is asked of a server while someone types.
    let storage = Arc::new(Local::open(PathBuf::from(path)).ok()?);
    let password = match Repository::probe(storage.as_ref()).ok()?.encrypted {
        true => Some(password(words)?),
        false => None,
    };
    Repository::open(storage, password.as_ref().map(|password| password.as_slice())).ok()
}

/// Returns the password if a file or a variable has it. A command is not run: it may ask.
fn password(words: &[OsString]) -> Option<Zeroizing<Vec<u8>>> {
    use std::os::unix::ffi::OsStringExt;
    let from_file = |file: OsString| crate::commands::password_from_file(&PathBuf::from(file)).ok();
    if let Some(file) = given(words, &["--password-file"]) {
        return from_file(file);
    }
    match std::env::var_os("IBID_PASSWORD") {
        Some(password) => Some(Zeroizing::new(password.into_vec())),
        None => from_file(std::env::var_os("IBID_PASSWORD_FILE")?),
    }
}

/// Returns the value of an option in a command line that is not complete.
fn given(words: &[OsString], names: &[&str]) -> Option<OsString> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    words.iter().enumerate().find_map(|(at, word)| {
        names.iter().find_map(|name| {
            let rest = word.as_bytes().strip_prefix(name.as_bytes())?;
            match rest {
                b"" => words.get(at + 1).cloned(),
                [b'=', value @ ..] => Some(OsString::from_vec(value.to_vec())),
                _ => None,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_both_forms() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let repo = |text| given(&words(text), &["-r", "--repo"]);
        assert_eq!(repo("ibid ls --repo /mnt/a "), Some("/mnt/a".into()));
        assert_eq!(repo("ibid -r b ls"), Some("b".into()));
        assert_eq!(repo("ibid --repo=c ls"), Some("c".into()));
        assert_eq!(repo("ibid ls --repository x -r"), None);
    }
}
