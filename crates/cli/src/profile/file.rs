//! Finds and reads the config file.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ibid_terminal::path_text;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{self, Scope};
use super::nearest::nearest;
use super::{COMMANDS, Config, Profile, Table};
use crate::failure::{Failure, Result};

/// The longest config file, bytes.
const LENGTH_MAX: u64 = 1 << 20;
/// Where the file of a machine is, for root.
const OF_THE_MACHINE: &str = "/etc/ibid/config.toml";

type Map<'i> = DeTable<'i>;

/// What is wrong, and at which byte of the file.
pub(super) struct Problem {
    pub(super) at: usize,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn new(at: usize, text: impl Into<String>) -> Problem {
        let text = text.into();
        Problem { at, text }
    }
}

impl Config {
    /// Reads the config file: `given`, or the one at the usual place.
    ///
    /// # Errors
    /// There is none; it can't be read; others may write it; a key or a value is wrong.
    pub(crate) fn read(given: Option<&Path>) -> Result<Config> {
        let path = match given {
            Some(path) => path.to_owned(),
            None => usual_place()?,
        };
        let text = read(&path)?;
        let profiles = parse(&text).map_err(|problem| {
            let before = &text.as_bytes()[..problem.at.min(text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            Failure::Usage(format!("line {line} of {}: {}", path_text(&path), problem.text))
        })?;
        let mut config = Config { path, profiles };
        config.path = std::path::absolute(&config.path).unwrap_or(config.path);
        keys::check_conflicts(&config)?;
        Ok(config)
    }
}

/// Returns where the file of this user is; for root, that of the machine if root has none.
fn usual_place() -> Result<PathBuf> {
    let absolute = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let folder = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")));
    let own = folder.map(|folder| folder.join("ibid/config.toml"));
    let machines = rustix::process::geteuid()
        .is_root()
        .then(|| PathBuf::from(OF_THE_MACHINE));
    match (own, machines) {
        (Some(own), Some(machines)) if !own.exists() && machines.exists() => Ok(machines),
        (Some(own), _) => Ok(own),
        (None, Some(machines)) => Ok(machines),
        (None, None) => Err(Failure::Usage(
            "there is no place for a config file: HOME is not set. Name the file with --config".into(),
        )),
    }
}

/// Returns the text of a config file that only its user, or root, may write.
fn read(path: &Path) -> Result<String> {
    let failed = |source| Failure::local("read the config file", path, source);
    let file = File::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Failure::Usage(format!(
            "there is no config file {}. Profiles are described in docs/commands.md",
            path_text(path)
        )),
        _ => failed(source),
    })?;
    let about = file.metadata().map_err(failed)?;
    let shown = path_text(path);
    if about.mode() & 0o022 != 0 && about.is_file() {
        return Err(Failure::Fatal(format!(
            "others may write the config file {shown}, which can name commands to run. \
             Look through it, then run: chmod go-w {shown}"
        )));
    }
    if about.uid() != 0 && about.uid() != rustix::process::geteuid().as_raw() {
        return Err(Failure::Fatal(format!(
            "the config file {shown}, which can name commands to run, belongs to another user. \
             Look through it, then make it yours with chown"
        )));
    }
    let mut text = String::new();
    file.take(LENGTH_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() as u64 > LENGTH_MAX {
        true => Err(Failure::Fatal(format!(
            "the config file {shown} has more than {LENGTH_MAX} bytes"
        ))),
        false => Ok(text),
    }
}

type Profiles = std::collections::BTreeMap<String, Profile>;

fn parse(text: &str) -> Result<Profiles, Problem> {
    let root = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        Problem::new(at, error.message().replace('\n', ", "))
    })?;
    let mut profiles = Profiles::new();
    for (key, value) in root.get_ref() {
        if key.get_ref() != "profile" {
            let text = format!(
                "unknown key {:?}: did you mean a table such as [profile.home]?",
                key.get_ref()
            );
            return Err(Problem::new(key.span().start, text));
        }
        for (name, value) in table(value, "profile")? {
            check_name(name.get_ref()).map_err(|text| Problem::new(name.span().start, text))?;
            let profile = profile(table(value, name.get_ref())?)?;
            profiles.insert(name.get_ref().to_string(), profile);
        }
    }
    Ok(profiles)
}

/// Profiles give their names to files and units.
fn check_name(name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let begins = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    match begins && name.len() <= 64 && name.bytes().all(fits) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is no name for a profile: expected up to 64 letters, digits, - _ and ., a letter or digit first"
        )),
    }
}

fn profile(table_of: &Map<'_>) -> Result<Profile, Problem> {
    let mut profile = Profile::default();
    let mut global = Scope::global();
    for (key, value) in table_of {
        let name = key.get_ref().as_ref();
        if let Some(command) = COMMANDS.into_iter().find(|command| *command == name) {
            profile
                .tables
                .insert(command, command_table(command, table(value, command)?)?);
        } else if global.has(name) {
            profile.global.push(global.setting(name, value)?);
        } else {
            return Err(unknown(
                key,
                global.names().chain(COMMANDS),
                "`ibid --help` lists the options",
            ));
        }
    }
    Ok(profile)
}

fn command_table(command: &'static str, table_of: &Map<'_>) -> Result<Table, Problem> {
    let mut scope = Scope::of(command);
    let mut table = Table::default();
    let may_wait = matches!(command, "prune" | "check");
    for (key, value) in table_of {
        let name = key.get_ref().as_ref();
        if name == "every" && may_wait {
            table.every = Some(keys::every(value)?);
        } else if scope.has(name) {
            table.settings.push(scope.setting(name, value)?);
        } else {
            let more = may_wait.then_some("every");
            let advice = format!("`ibid {command} --help` lists the options");
            return Err(unknown(key, scope.names().chain(more), &advice));
        }
    }
    Ok(table)
}

fn unknown<'n>(key: &Spanned<toml::de::DeString<'_>>, known: impl Iterator<Item = &'n str>, advice: &str) -> Problem {
    let name = key.get_ref().as_ref();
    let text = match name {
        "password" => "a password does not belong into this file: use password-file or password-command".to_owned(),
        _ if keys::is_for_one_run(name) => format!("{name:?} is for one run only, and has no place in a profile"),
        _ => match nearest(name, known) {
            Some(near) => format!("unknown key {name:?}: did you mean {near:?}?"),
            None => format!("unknown key {name:?}; {advice}"),
        },
    };
    Problem::new(key.span().start, text)
}

fn table<'v, 'i>(value: &'v Spanned<DeValue<'i>>, name: &str) -> Result<&'v Map<'i>, Problem> {
    value
        .get_ref()
        .as_table()
        .ok_or_else(|| keys::wrong_type(name, "a table", value))
}
