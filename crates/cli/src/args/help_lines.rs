//! A test of the help that `ibid` and `ibid-bench` share: the first line of each command, option
//! and argument begins with a verb, because completions and manual pages show it alone.
//! "Other file systems" says the opposite of "Do not cross into other file systems".

use clap::Command;

/// Verbs that a line may begin with.
const VERBS: &[&str] = &[
    "Accept",
    "Add",
    "Answer",
    "Back",
    "Begin",
    "Bring",
    "Change",
    "Check",
    "Choose",
    "Compact",
    "Compare",
    "Complete",
    "Compress",
    "Connect",
    "Copy",
    "Count",
    "Create",
    "Cut",
    "Deduplicate",
    "Delete",
    "Do",
    "Draw",
    "Encrypt",
    "End",
    "Find",
    "Fix",
    "Follow",
    "Forget",
    "Free",
    "Generate",
    "Get",
    "Give",
    "Group",
    "Hash",
    "Ignore",
    "Insert",
    "Keep",
    "Leave",
    "Let",
    "Limit",
    "List",
    "Load",
    "Look",
    "Make",
    "Measure",
    "Move",
    "Name",
    "Open",
    "Print",
    "Publish",
    "Put",
    "Read",
    "Record",
    "Remove",
    "Repair",
    "Repeat",
    "Replace",
    "Require",
    "Restore",
    "Run",
    "Search",
    "Select",
    "Serve",
    "Set",
    "Show",
    "Skip",
    "Start",
    "Stop",
    "Store",
    "Tag",
    "Take",
    "Time",
    "Trust",
    "Try",
    "Tune",
    "Turn",
    "Use",
    "Wait",
    "Write",
];

/// Returns the help lines of a command and everything in it that do not begin with a verb, each with
/// the place where it stands.
pub(crate) fn without_verb(mut program: Command) -> Vec<String> {
    program.build();
    let mut found = Vec::new();
    visit(&program, program.get_name(), &mut found);
    found
}

fn visit(command: &Command, place: &str, found: &mut Vec<String>) {
    let mut look = |what: String, help: Option<String>| {
        let help = help.unwrap_or_default();
        let first = help.split_whitespace().next().unwrap_or_default();
        if !VERBS.contains(&first.trim_end_matches(',')) {
            found.push(format!("{what}: {help:?}"));
        }
    };
    look(place.to_owned(), command.get_about().map(ToString::to_string));
    for argument in command.get_arguments() {
        let what = format!("{place} {argument}");
        look(what, argument.get_help().map(ToString::to_string));
    }
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        visit(below, &format!("{place} {}", below.get_name()), found);
    }
}
