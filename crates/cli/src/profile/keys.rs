//! Keys and values of the config file, by clap's definition of the command line.

use std::error::Error as _;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, ValueHint};
use ibid_remote::Address;
use ibid_remote::connection::{HostAddress, TlsAddress};
use toml::Spanned;
use toml::de::DeValue;

use super::Config;
use super::Setting;
use super::file::Problem;
use crate::args;
use crate::commands::of_another_program;
use crate::failure::{Failure, Result};

/// Arguments that say what one run does, and have no place in a profile, by their ids.
const FOR_ONE_RUN: [&str; 22] = [
    "as_of",
    "changed_blocks",
    "config",
    "dry_run",
    "estimate",
    "force",
    "give_up_on",
    "help",
    "json",
    "parent",
    "profile",
    "prune",
    "quiet",
    "seed",
    "snapshots",
    "stdin",
    "stdin_from_command",
    "stdin_name",
    "time",
    "undo",
    "verify_unchanged",
    "version",
];

/// Returns whether an option of this name says what one run does.
pub(super) fn is_for_one_run(name: &str) -> bool {
    FOR_ONE_RUN.contains(&name.replace('-', "_").as_str())
}

/// The options that a table of the file may have.
pub(super) struct Scope {
    definition: Command,
    /// `None` for those of every command.
    command: Option<&'static str>,
    /// Keys, and the arguments that they name.
    known: Vec<(String, Arg)>,
}

impl Scope {
    /// Returns the options that every command takes.
    pub(super) fn global() -> Scope {
        Scope::new(None)
    }

    /// Returns the options of a command, without those that every command takes.
    pub(super) fn of(command: &'static str) -> Scope {
        Scope::new(Some(command))
    }

    fn new(command: Option<&'static str>) -> Scope {
        let definition = args::definition();
        let of = command.and_then(|name| definition.find_subcommand(name));
        let arguments = of.unwrap_or(&definition).get_arguments();
        let arguments = arguments.filter(|arg| !FOR_ONE_RUN.contains(&arg.get_id().as_str()));
        let known = arguments
            .map(|arg| (arg.get_long().unwrap_or(arg.get_id().as_str()).to_owned(), arg.clone()))
            .collect();
        Scope {
            definition,
            command,
            known,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.known.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Returns a known key and its value as arguments.
    ///
    /// # Errors
    /// The value has the wrong type, or the option does not take it.
    pub(super) fn setting(&mut self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Setting, Problem> {
        let known = self.known.iter().find(|(known, _)| known == name);
        let arg = known.expect("the caller has looked it up").1.clone();
        let is_flag = matches!(arg.get_action(), ArgAction::SetTrue);
        let values = values(name, &arg, value)?;
        let arguments: Vec<OsString> = match (&values, arg.get_long()) {
            (None, _) => Vec::new(),
            (Some(values), None) => values.clone(),
            (Some(values), Some(long)) if values.is_empty() && (is_flag || takes_none(&arg)) => {
                vec![format!("--{long}").into()]
            }
            (Some(values), Some(long)) => values.iter().map(|value| option(long, value)).collect(),
        };
        self.check(name, &arguments, value)?;
        Ok(Setting {
            id: arg.get_id().to_string(),
            values: values.unwrap_or_default(),
            arguments,
        })
    }

    /// Has clap parse the arguments alone.
    fn check(&mut self, name: &str, arguments: &[OsString], value: &Spanned<DeValue<'_>>) -> Result<(), Problem> {
        let words = std::iter::once(OsString::from("ibid")).chain(self.command.map(OsString::from));
        let parsed = self
            .definition
            .try_get_matches_from_mut(words.chain(arguments.iter().cloned()));
        let error = match parsed {
            Err(error) if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) => error,
            // An option alone may lack others.
            _ => return Ok(()),
        };
        Err(Problem::new(value.span().start, format!("{name}: {}", why(&error))))
    }
}

/// Returns whether an option that takes a value can do without.
fn takes_none(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|range| range.min_values() == 0)
}

/// Returns `--long=value`.
fn option(long: &str, value: &OsString) -> OsString {
    let mut option = OsString::from(format!("--{long}="));
    option.push(value);
    option
}

/// Returns why clap refuses a value.
fn why(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return source.to_string();
    }
    match (error.get(ContextKind::ValidValue), error.get(ContextKind::InvalidValue)) {
        (Some(ContextValue::Strings(valid)), Some(ContextValue::String(found))) if !valid.is_empty() => {
            format!("expected one of {}, found {found:?}", valid.join(", "))
        }
        _ => one_line(error),
    }
}

/// Returns what an error of clap says, in one line, without its title and the usage.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let cause = text.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = cause.trim_start_matches("error: ").split_whitespace().collect();
    words.join(" ")
}

/// Returns the values that a key gives to its option; `None` if it turns the option off.
fn values(name: &str, arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Option<Vec<OsString>>, Problem> {
    let is_path = arg.get_value_hint() == ValueHint::AnyPath;
    let one = |value: &Spanned<DeValue<'_>>, expected: &str| match value.get_ref() {
        DeValue::String(text) if is_path => {
            path(text).map_err(|text| Problem::new(value.span().start, format!("{name}: {text}")))
        }
        DeValue::String(text) => Ok(OsString::from(text.as_ref())),
        DeValue::Integer(number) if !is_path && number.radix() == 10 => Ok(number.as_str().into()),
        _ => Err(wrong_type(name, expected, value)),
    };
    match (arg.get_action(), value.get_ref()) {
        (ArgAction::SetTrue, DeValue::Boolean(on)) => Ok(on.then(Vec::new)),
        (ArgAction::SetTrue, _) => Err(wrong_type(name, "true or false", value)),
        (ArgAction::Append, DeValue::Array(list)) => {
            let texts = list.iter().map(|value| one(value, "a string"));
            texts.collect::<Result<Vec<_>, _>>().map(Some)
        }
        (ArgAction::Append, _) => one(value, "a string or a list of strings").map(|value| Some(vec![value])),
        (_, DeValue::Boolean(on)) if takes_none(arg) => Ok(on.then(Vec::new)),
        _ if is_path => one(value, "a string").map(|value| Some(vec![value])),
        _ => one(value, "a string or an integer").map(|value| Some(vec![value])),
    }
}

/// Returns a path with the home folder in place of `~`, or an address. Relative paths are refused: a timer and a shell
/// run in different folders.
fn path(text: &str) -> Result<OsString, String> {
    if let Some(why) = of_another_program(text) {
        return Err(why.to_owned());
    }
    let is_address = Address::is_meant_by(text) || HostAddress::is_meant_by(text) || TlsAddress::is_meant_by(text);
    if text.starts_with('/') || is_address {
        return Ok(text.into());
    }
    let inside = if text == "~" { Some("") } else { text.strip_prefix("~/") };
    let inside = inside.ok_or_else(|| format!("expected a path that begins with / or ~/, found {text:?}"))?;
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute());
    let home = home.ok_or_else(|| format!("{text:?} needs the variable HOME, which is not set"))?;
    Ok(if inside.is_empty() { home } else { home.join(inside) }.into())
}

/// Returns how long `every` says.
pub(super) fn every(value: &Spanned<DeValue<'_>>) -> Result<Duration, Problem> {
    let text = value
        .get_ref()
        .as_str()
        .ok_or_else(|| wrong_type("every", "a string", value))?;
    args::span(text).map_err(|text| Problem::new(value.span().start, format!("every: {text}")))
}

pub(super) fn wrong_type(name: &str, expected: &str, value: &Spanned<DeValue<'_>>) -> Problem {
    let found = match value.get_ref().type_str() {
        kind @ ("integer" | "array") => format!("an {kind}"),
        kind => format!("a {kind}"),
    };
    Problem::new(
        value.span().start,
        format!("{name}: expected {expected}, found {found}"),
    )
}

/// Looks for options in one profile that contradict each other.
pub(super) fn check_conflicts(config: &Config) -> Result<()> {
    let mut definition = args::definition();
    for (name, profile) in &config.profiles {
        let mut check = |command: &str, table: &[Setting]| {
            let global = profile.global.iter().flat_map(|setting| setting.arguments.clone());
            let words = std::iter::once("ibid".into()).chain(global).chain([command.into()]);
            let words = words.chain(table.iter().flat_map(|setting| setting.arguments.clone()));
            match definition.try_get_matches_from_mut(words) {
                Err(error) if error.kind() == ErrorKind::ArgumentConflict => Err(Failure::Usage(format!(
                    "profile {name:?} of {}: {}",
                    ibid_terminal::path_text(&config.path),
                    one_line(&error)
                ))),
                _ => Ok(()),
            }
        };
        check("snapshots", &[])?;
        for (command, table) in &profile.tables {
            check(command, &table.settings)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An option that is renamed must not become a key unnoticed.
    #[test]
    fn what_is_for_one_run_is_defined() {
        let mut definition = args::definition();
        definition.build();
        let commands = super::super::COMMANDS.map(|name| definition.find_subcommand(name).unwrap());
        let all = commands.iter().flat_map(|command| command.get_arguments());
        let ids: Vec<&str> = all
            .chain(definition.get_arguments())
            .map(|arg| arg.get_id().as_str())
            .collect();
        for id in FOR_ONE_RUN {
            assert!(ids.contains(&id), "{id}");
        }
    }

    #[test]
    fn paths_begin_at_the_root_or_at_home() {
        assert_eq!(path("/etc"), Ok("/etc".into()));
        for text in ["etc", "", "-", "~ben/x", "./x"] {
            assert!(path(text).is_err(), "{text:?}");
        }
    }
}
