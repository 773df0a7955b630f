//! Standard error: warnings, errors and notes.

use std::path::Path;
use std::time::Duration;

use ibid_format::FileId;
use ibid_record::Latest;
use ibid_record::replicate::nats::Address;
use ibid_remote::{Requests, Silence};
use ibid_repo::{Error, Party, PolicyGroup, Warning};
use ibid_terminal::number::{count, counted, size};
use ibid_terminal::{escape, message as line, path_text, reason};

use super::costs::kinds_text;
use super::records::BadLine;
use crate::failure::{Failure, advice, with_causes};

/// The operation on files, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Read,
    Restore,
    /// A command that only reads the repository.
    Look,
}

/// Prints a warning. Returns the problem of a file that could not be read or restored.
pub(crate) fn warning(verb: Verb, warning: &Warning) -> Option<String> {
    match warning {
        Warning::Skipped { path, error } => {
            let problem = match error {
                // The source already names the file and the action.
                Error::Local {
                    action: "restore",
                    source,
                    ..
                } => reason(source),
                Error::Local { action, source, .. } => format!("cannot {action}: {}", reason(source)),
                error => with_causes(error),
            };
            let verb = match verb {
                Verb::Read => "left out",
                Verb::Restore => "not restored",
                Verb::Look => "skipped",
            };
            line(&format!("{verb}: {}: {problem}", path_text(path)));
            return Some(problem);
        }
        Warning::ChangedWhileRead { path } => line(&format!("changed while it was read: {}", path_text(path))),
        Warning::Attributes { path, what, source } => line(&format!("{}: {what}: {}", path_text(path), reason(source))),
        Warning::Mixed { path } => line(&format!(
            "partly restored: {}: some of it is as in the snapshot, the rest as before",
            path_text(path)
        )),
        Warning::Kept { path, below } => line(&format!(
            "kept: {} is not a folder, so what the snapshot has in it ({below}) is not restored",
            path_text(path)
        )),
        Warning::NothingMatches { pattern } => line(&format!(
            "warning: --include {pattern:?} matches nothing in this part of the snapshot. `ibid ls -R SNAP` lists it"
        )),
        Warning::Repository { error } => {
            let advice = advice::on_repository(error).map_or_else(String::new, |advice| format!(". {advice}"));
            line(&format!("warning: {}{advice}", with_causes(error)))
        }
        Warning::Unlisted { error } => line(&format!(
            "warning: the snapshot is stored and complete, but not all of the lists by which data is found quickly: \
             {}. Nothing is lost. The next backup takes longer, and may store more",
            with_causes(error)
        )),
        Warning::ThawUnknown { waiting, error } => line(&format!(
            "warning: whether {} ({}) can be read by now is not known: {}. It is asked again, and the service goes on \
             thawing",
            counted(waiting.packs, "pack", "packs"),
            size(waiting.bytes),
            with_causes(error)
        )),
        Warning::Cache { error } => line(&format!(
            "note: the local cache can't be used here: {}. Nothing is lost: ibid reads the repository instead",
            with_causes(error)
        )),
        Warning::LostPacks {
            missing,
            cut,
            unreadable,
            named,
            party,
        } => line(&lost_packs(verb, *party, [*missing, *cut, *unreadable], named)),
        Warning::Replaced { object } => line(&format!(
            "note: {object} was damaged. What it said is in a new file, and it was deleted"
        )),
        Warning::FromTheFuture { snapshot, time } => line(&format!(
            "warning: snapshot {snapshot} is dated {}, later than now. It is not taken as the parent: the clock of \
             this machine was wrong then, or is now",
            super::local_time(*time)
        )),
        Warning::LeftOut { path, is_directory } => {
            let what = if *is_directory { " and all that was in it" } else { "" };
            line(&format!("left out, because it is lost: {}{what}", path_text(path)))
        }
        Warning::StoredAtOnce { snapshot, other } => line(&format!(
            "warning: another process has stored snapshot {other} at the same time as {snapshot}, from the same \
             original. If `ibid snapshots` lists both, forget the one that you do not want"
        )),
        Warning::BackupBeginsAgain => line(
            "warning: a prune has ended this backup, because it had not ended for so long. It begins again, and uses \
             what is stored already",
        ),
        Warning::MovesNothing => line(
            "note: no space is left to move what is still needed, so this prune frees only packs that nothing needs. \
             The next one goes on",
        ),
        Warning::DropsSketches => line(
            "note: no space is left to store which packs go, so the sketches were deleted. Backups make them again, \
             and store more until then",
        ),
        Warning::EncodesNothingAnew => line(
            "note: bases that no snapshot needs stay, since the memory does not suffice to encode anew what needs \
             them: give this prune more with --memory",
        ),
        Warning::WaitsForCaches { seconds } => line(&format!(
            "note: waiting for {seconds} s: in a network folder, other machines may not see before what was stored. \
             If nothing else works in this repository, --exclusive does not wait"
        )),
        Warning::OwnFolder { path } => line(&format!("note: the repository itself is left out: {}", path_text(path))),
        // A warning that this version of the program does not know.
        other => line(&format!("warning: {other:?}")),
    }
    None
}

/// Counts the chunks that are missing or damaged, and that were not named.
pub(crate) fn more_lost(more: u64) {
    let chunks = counted(more, "more chunk is", "more chunks are");
    line(&format!("warning: {chunks} missing or damaged"));
}

/// Names a snapshot that can't be read and is passed over in the search for `latest` or the like.
pub(crate) fn passed_over(wanted: &str, error: &Error) {
    line(&format!(
        "warning: {}. It is passed over for {wanted:?}, though it might be newer",
        with_causes(error)
    ));
}

/// Says why a snapshot that was there could not be restored as a whole.
pub(crate) fn forgotten_meanwhile(id: &str) {
    line(&format!(
        "snapshot {id} was forgotten while it was restored, and a prune has freed its data: nothing is damaged"
    ));
}

/// Prints that a snapshot was not copied.
pub(crate) fn not_copied(what: &str, error: &Error) {
    line(&format!("not copied: {what}: {}", with_causes(error)));
}

/// Returns what is said about packs that are missing, cut short, or unreadable.
fn lost_packs(verb: Verb, party: Party, numbers: [u64; 3], named: &[String]) -> String {
    let states = numbers.iter().zip(["missing", "cut short", "unreadable"]);
    let states = states.filter(|(packs, _)| **packs > 0);
    let states: Vec<String> = states
        .map(|(packs, state)| format!("{} {state}", count(*packs)))
        .collect();
    let all: u64 = numbers.iter().sum();
    let packs = counted(all, "pack", "packs");
    let more = match all - named.len() as u64 {
        0 => String::new(),
        more => format!(" and {} more", count(more)),
    };
    let then = match (party, verb) {
        (Party::Writer, _) => {
            "What these files still have of the lost data is stored again. This warning comes again until the \
             keeper of the repository runs `ibid repair --writer NAME` with the password: tell them"
        }
        (Party::Keeper, _) => {
            "`ibid check` says what is affected, and `ibid repair` saves what is left, with the same --writer"
        }
        (Party::Owner, Verb::Read) => {
            "What these files still have of the lost data is stored again. \
             Run `ibid repair` to see what is lost for good"
        }
        (Party::Owner, Verb::Look | Verb::Restore) => {
            "`ibid check` says what is affected, and `ibid repair` saves what is left"
        }
    };
    let whose = match party {
        Party::Owner => "the repository",
        Party::Keeper | Party::Writer => "this writer",
    };
    format!(
        "warning: {packs} of {whose}: {} ({}{more}). {then}",
        states.join(", "),
        named.join(", ")
    )
}

/// Names a time without snapshots that makes rules forget some.
pub(crate) fn forgotten_for_gap(group: &PolicyGroup) {
    if let Some(gap) = &group.gap {
        line(&format!(
            "note: there is no snapshot between {} and {}, so --keep-within does not keep {} from before that. Check \
             that the clock was right",
            super::local_time(gap.before),
            super::local_time(gap.after),
            counted(gap.forgotten as u64, "snapshot", "snapshots")
        ));
    }
}

/// Says that no command brings back what is forgotten.
pub(crate) fn forgotten_for_good() {
    line("note: no space is left to keep what is forgotten for --undo, so it can't be brought back");
}

/// Says that what writers have stored was not pruned, if there are any.
pub(crate) fn writers_not_pruned(writers: u64) {
    if writers > 0 {
        line(&format!(
            "note: the files of {} were left alone. `ibid prune --writer NAME` prunes those of one",
            counted(writers, "writer", "writers")
        ));
    }
}

/// Prints a failure that does not end the command.
pub(crate) fn failure(failure: &Failure) {
    line(&format!("ibid: {failure}"));
}

/// Prints the advice for files that denied permission.
pub(crate) fn denied(verb: Verb) {
    match verb {
        Verb::Read => line(&format!(
            "permission was denied for some files. {}",
            advice::READ_DENIED
        )),
        Verb::Restore => line(&format!(
            "permission was denied for some files. {}",
            advice::RESTORE_DENIED
        )),
        Verb::Look => {}
    }
}

/// Prints the reason why the command failed, as its last line.
///
/// `of_writer` says whether the command had to do with the files of a writer, as those that it advises will have to.
pub(crate) fn fatal(failure: &Failure, json: bool, of_writer: bool) {
    let mut text = failure.to_string();
    let names_commands = |advice: &str| advice.contains("`ibid ") && !advice.contains("--writer");
    if of_writer && advice::advice(failure).is_some_and(|advice| names_commands(&advice)) {
        text += " Give these commands the same --writer.";
    }
    ibid_terminal::fatal("ibid", &text, failure.exit_code(), json);
}

/// Reports a line that is not loaded.
pub(crate) fn bad_line(bad: &BadLine) {
    line(&format!("line {}: {}", bad.line, bad.problem));
}

/// Warns of a namespace that keeps versions and stores the latest whole although keys do not repeat.
pub(crate) fn unique_keys(namespace: &str, latest: Latest) {
    line(&format!(
        "warning: practically no key of namespace {namespace} has a second version, and it is set to store latest \
         versions {}. So its records do not become deltas of each other. If your keys never repeat, run `ibid records \
         latest automatic`. If they will, all is well",
        match latest {
            Latest::Whole => "whole",
            Latest::Shared | Latest::Automatic | Latest::Deltas => "whole, and the same bytes once",
        },
        namespace = escape(namespace.as_bytes())
    ));
}

/// Warns of a namespace with indexes whose values are not given.
pub(crate) fn not_indexed(namespace: &str) {
    line(&format!(
        "warning: namespace {} has indexes, and what is loaded without --index and --unique-index is in none of them. \
         `ibid records index NAME --field FIELD` can add it later",
        escape(namespace.as_bytes())
    ));
}

/// Warns of keys that cannot be listed as they were at a time.
pub(crate) fn not_as_of(keys: u64) {
    line(&format!(
        "warning: of {}, what they had at that time was purged or has no time, and is not listed",
        counted(keys, "key", "keys")
    ));
}

/// Says that a store was created.
pub(crate) fn new_store(path: &Path) {
    line(&format!("note: created a store of records in {}", path_text(path)));
}

/// Says that the whole log is published.
pub(crate) fn records_published(at: &Address) {
    line(&format!("published at {at}; press Ctrl-C to stop"));
}

/// Prints that a log can't be reached and will be retried, up to a number of tries if there is one.
pub(crate) fn records_retrying(why: &str, tries: Option<u64>) {
    let most = tries.map_or_else(String::new, |tries| {
        format!(", {} at most", counted(tries, "time", "times"))
    });
    line(&format!("{why}; trying again{most}, press Ctrl-C to stop"));
}

/// How the copy of a whole store comes along.
pub(crate) enum Copying {
    Begins,
    Continues,
    Again,
}

/// Says that a replica copies the whole store.
pub(crate) fn records_copying(how: Copying) {
    line(match how {
        Copying::Begins => "copying the whole store, which can be read when all of it is here",
        Copying::Continues => "continuing the copy of the whole store",
        Copying::Again => "copying the whole store again from its beginning: it has changed since the copy began",
    });
}

/// Says that a store which is served was fenced.
pub(crate) fn records_fenced(by: u64) {
    line(&format!(
        "another store takes the place of this one, in epoch {by}; this one takes no more changes"
    ));
}

/// Warns of a key whose password is cheap to guess. The key is created nevertheless.
pub(crate) fn cheap_guesses() {
    line(
        "warning: the password of this key is cheap to guess. \
         Give --argon2 7 MiB or more, and a product of memory and passes of 32 MiB or more",
    );
}

/// Warns of a key that may still open with the old password.
pub(crate) fn untried_key(id: FileId, why: &str) {
    line(&format!(
        "warning: key {id} stays, because the old password could not be tried on it: {why}"
    ));
}

/// Warns that a repository exists and keeps its settings.
pub(crate) fn kept_settings(what: &str) {
    line(&format!(
        "warning: the repository exists and keeps its settings: {what} had no effect"
    ));
}

/// Prints an error in the command line, or the help.
pub(crate) fn usage(error: &clap::Error) {
    let _ = error.print();
}

/// Says that a repository without encryption was opened, also with --quiet.
pub(crate) fn unencrypted(location: &str) {
    line(&format!("note: the repository in {location} is NOT encrypted"));
}

/// Says that unfinished files were removed.
pub(crate) fn swept(files: u64, bytes: u64) {
    line(&format!(
        "note: removed {} ({}) of backups that were cut short",
        counted(files, "unfinished file", "unfinished files"),
        size(bytes)
    ));
}

/// Says that a server does not answer.
pub(crate) fn silent(location: &str, silence: &Silence) {
    let why = silence.why.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    line(&format!(
        "note: no answer from {location} for {} s{why}. It is asked again; Ctrl-C ends the command",
        silence.lasts.as_secs()
    ));
}

/// Says that a server answers which did not.
pub(crate) fn answers_again(location: &str, lasted: Duration) {
    line(&format!("note: {location} answers again, after {} s", lasted.as_secs()));
}

/// Says what a server was asked.
pub(crate) fn requests(requests: &Requests) {
    let again = match requests.again {
        0 => String::new(),
        again => format!("; {again} of them again"),
    };
    line(&format!(
        "{}: {}{again}; {} sent, {} received",
        counted(requests.count(), "request", "requests"),
        kinds_text(requests),
        size(requests.sent_bytes),
        size(requests.received_bytes)
    ));
}

/// Asks a question, to be answered on the same line.
pub(crate) fn ask(question: &str) {
    use std::io::Write;
    let mut err = std::io::stderr();
    let _ = err.write_all(question.as_bytes()).and_then(|()| err.flush());
}

/// Returns the question for a password.
pub(crate) fn question(what: &str, place: &Path) -> String {
    format!("{what} for {}: ", path_text(place))
}
