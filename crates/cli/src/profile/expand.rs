//! Fills in what the command line leaves open. A profile comes before the environment: it is named for its
//! repository, and `forget` in another one would be a loss.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::{Config, Profile, Setting};
use crate::args;
use crate::failure::{Failure, Result};

/// The arguments of `backup` that say what is backed up: who gives one on the command line means
/// nothing else.
const SOURCES: [&str; 5] = ["paths", "files_from", "files_from0", "stdin", "stdin_from_command"];

/// A command line as far as it could be parsed: a profile may give what it lacks.
struct Given {
    definition: Command,
    matches: ArgMatches,
    command: String,
}

impl Given {
    /// Returns `None` if the command line names no command, or asks for help.
    fn look(arguments: &[OsString]) -> Option<Given> {
        let mut definition = args::definition().ignore_errors(true);
        let matches = definition.try_get_matches_from_mut(arguments).ok()?;
        let command = matches.subcommand_name()?.to_owned();
        definition.build();
        Some(Given {
            definition,
            matches,
            command,
        })
    }

    /// Returns the matches from the program down to the last command in commands.
    fn levels(&self) -> impl Iterator<Item = &ArgMatches> {
        std::iter::successors(Some(&self.matches), |level| Some(level.subcommand()?.1))
    }

    /// Returns the level at which the command line gives an argument.
    fn level_of(&self, id: &str) -> Option<&ArgMatches> {
        let is_given = |level: &&ArgMatches| {
            level.try_contains_id(id).is_ok_and(|has| has) && level.value_source(id) == Some(ValueSource::CommandLine)
        };
        self.levels().filter(is_given).last()
    }

    /// Returns whether the command line gives an argument.
    fn has(&self, id: &str) -> bool {
        self.level_of(id).is_some()
    }

    /// Returns the first value of a global option on the command line.
    fn value(&self, id: &str) -> Option<OsString> {
        Some(self.level_of(id)?.get_raw(id)?.next()?.to_owned())
    }

    /// Returns whether the profile's setting is to be used.
    fn leaves_open(&self, setting: &Setting) -> bool {
        let id = setting.id.as_str();
        if self.has(id) || SOURCES.contains(&id) && SOURCES.iter().any(|other| self.has(other)) {
            return false;
        }
        !self.contradicts(id)
    }

    /// Returns whether the command line has an argument that does not go with this one.
    fn contradicts(&self, id: &str) -> bool {
        let command = self
            .definition
            .find_subcommand(&self.command)
            .unwrap_or(&self.definition);
        let conflict = |one: &clap::Arg, other: &str| {
            command
                .get_arg_conflicts_with(one)
                .iter()
                .any(|arg| arg.get_id() == other)
        };
        let Some(own) = command.get_arguments().find(|arg| arg.get_id() == id) else {
            return false;
        };
        let given = command.get_arguments().filter(|arg| self.has(arg.get_id().as_str()));
        given
            .into_iter()
            .any(|arg| conflict(arg, id) || conflict(own, arg.get_id().as_str()))
    }
}

/// Returns the command line with what `--profile` adds to it: unchanged without that option.
///
/// # Errors
/// The config file or the profile does not exist, or is wrong.
pub(crate) fn expand(arguments: Vec<OsString>) -> Result<Vec<OsString>> {
    // A command line without these options, which may have many paths, is parsed only once.
    let begins = |word: &OsString, option: &str| word.as_bytes().starts_with(option.as_bytes());
    let may_have_one = |word| begins(word, "--profile") || begins(word, "--config");
    let given = arguments.iter().any(may_have_one).then(|| Given::look(&arguments));
    // `run` names its profiles itself.
    let Some(given) = given.flatten().filter(|given| given.command != "run") else {
        return Ok(arguments);
    };
    let Some(name) = given.value("profile") else {
        return match given.value("config") {
            None => Ok(arguments),
            Some(_) => Err(Failure::Usage(
                "--config names a file of profiles: name the profile with --profile, too".into(),
            )),
        };
    };
    let config = Config::read(given.value("config").map(PathBuf::from).as_deref())?;
    let profile = config.profile(&name.to_string_lossy())?;
    Ok(insert(arguments, &given, profile))
}

fn insert(mut arguments: Vec<OsString>, given: &Given, profile: &Profile) -> Vec<OsString> {
    let open = |settings: &[Setting]| -> Vec<OsString> {
        let open = settings.iter().filter(|setting| given.leaves_open(setting));
        open.flat_map(|setting| setting.arguments.clone()).collect()
    };
    if let Some(table) = profile.tables.get(given.command.as_str()) {
        // Paths come right after the command, in front of any `--`.
        let at = place_of_command(&arguments) + 1;
        arguments.splice(at..at, open(&table.settings));
    }
    arguments.splice(1..1, open(&profile.global));
    arguments
}

/// Returns where in the command line the command stands: the first word that makes clap see one.
fn place_of_command(arguments: &[OsString]) -> usize {
    let found = (1..arguments.len()).find(|&at| Given::look(&arguments[..=at]).is_some());
    found.unwrap_or(arguments.len() - 1)
}

/// Returns the global options of a command line, each as one argument.
pub(crate) fn globals_given(arguments: &[OsString]) -> Vec<OsString> {
    let Some(given) = Given::look(arguments) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for arg in given.definition.get_arguments().filter(|arg| arg.is_global_set()) {
        let (id, Some(long)) = (arg.get_id().as_str(), arg.get_long()) else {
            continue;
        };
        if ["profile", "json", "quiet"].contains(&id) || !given.has(id) {
            continue;
        }
        let mut option = OsString::from(format!("--{long}"));
        if arg.get_action().takes_values() {
            option.push("=");
            option.push(given.value(id).unwrap_or_default());
        }
        found.push(option);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_command_is_found_behind_global_options() {
        for (text, place) in [
            ("ibid backup x", 1),
            ("ibid --repo backup backup backup", 3),
            ("ibid -r=backup --quiet backup", 3),
            ("ibid --profile home key list", 3),
        ] {
            assert_eq!(place_of_command(&words(text)), place, "{text}");
        }
    }

    #[test]
    fn a_profile_gives_what_the_command_line_does_not() {
        let setting = |id: &str, argument: &str| Setting {
            id: id.to_owned(),
            values: Vec::new(),
            arguments: vec![argument.into()],
        };
        let mut profile = Profile::default();
        profile.global.push(setting("repo", "--repo=/r"));
        profile.global.push(setting("memory", "--memory=1GiB"));
        let backup = profile.tables.entry("backup").or_default();
        backup.settings.push(setting("paths", "/home"));
        backup.settings.push(setting("host", "--host=mill"));
        let forget = profile.tables.entry("forget").or_default();
        forget.settings.push(setting("keep_daily", "--keep-daily=7"));
        for (text, expected) in [
            ("ibid backup", "ibid --repo=/r --memory=1GiB backup /home --host=mill"),
            (
                "ibid backup --host a /x",
                "ibid --repo=/r --memory=1GiB backup --host a /x",
            ),
            (
                "ibid backup --memory 2GiB -r /s",
                "ibid backup /home --host=mill --memory 2GiB -r /s",
            ),
            (
                "ibid backup --files-from l",
                "ibid --repo=/r --memory=1GiB backup --host=mill --files-from l",
            ),
            (
                "ibid forget -n",
                "ibid --repo=/r --memory=1GiB forget --keep-daily=7 -n",
            ),
            ("ibid forget 4f1a", "ibid --repo=/r --memory=1GiB forget 4f1a"),
            ("ibid forget --undo", "ibid --repo=/r --memory=1GiB forget --undo"),
            ("ibid ls latest", "ibid --repo=/r --memory=1GiB ls latest"),
        ] {
            let given = Given::look(&words(text)).unwrap();
            assert_eq!(insert(words(text), &given, &profile), words(expected), "{text}");
        }
    }
}
