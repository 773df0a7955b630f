//! Profiles: what the config file says, as arguments of the command line.
//!
//! A key of the file is the name of an option. [`keys`] looks it up in the definition of the command
//! line, so no list of options is kept here, and clap parses the values of both.

mod expand;
mod file;
mod keys;
mod nearest;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use expand::{expand, globals_given};
pub(crate) use keys::one_line;

use crate::failure::{Failure, Result};

/// The commands that may have a table of their own in a profile, in the order in which `run` takes
/// them.
pub(crate) const COMMANDS: [&str; 4] = ["backup", "forget", "prune", "check"];

/// A config file whose keys and values are all valid.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where it was found.
    pub(crate) path: PathBuf,
    pub(crate) profiles: BTreeMap<String, Profile>,
}

/// What one profile says.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    /// The options that every command takes.
    pub(crate) global: Vec<Setting>,
    /// Those of single commands, by their names.
    pub(crate) tables: BTreeMap<&'static str, Table>,
}

/// The options of one command in a profile.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) settings: Vec<Setting>,
    /// How often `run` does this; at each run if `None`.
    pub(crate) every: Option<Duration>,
}

/// One key and its value.
#[derive(Debug)]
pub(crate) struct Setting {
    /// The id of the argument in clap's definition.
    pub(crate) id: String,
    /// The values, with `~/` replaced; none for an option that takes none.
    pub(crate) values: Vec<OsString>,
    /// What to insert into the command line.
    pub(crate) arguments: Vec<OsString>,
}

impl Config {
    /// Returns the profile of this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn profile(&self, name: &str) -> Result<&Profile> {
        self.profiles.get(name).ok_or_else(|| {
            let path = ibid_terminal::path_text(&self.path);
            let names: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
            let known = match (nearest::nearest(name, names.iter().copied()), names.is_empty()) {
                (Some(near), _) => format!("did you mean {near:?}?"),
                (None, true) => "it has none".to_owned(),
                (None, false) => format!("it has {}", names.join(", ")),
            };
            Failure::Usage(format!("there is no profile {name:?} in {path}: {known}"))
        })
    }
}

impl Profile {
    /// Returns the values of an option that every command takes; none if the profile does not have it.
    pub(crate) fn global_values(&self, id: &str) -> &[OsString] {
        values(&self.global, id)
    }
}

impl Table {
    /// Returns whether the table turns an option on.
    pub(crate) fn has(&self, id: &str) -> bool {
        let is_on = |setting: &Setting| setting.id == id && !setting.arguments.is_empty();
        self.settings.iter().any(is_on)
    }

    /// Returns the values of an option; none if the table does not have it.
    pub(crate) fn values(&self, id: &str) -> &[OsString] {
        values(&self.settings, id)
    }
}

fn values<'s>(settings: &'s [Setting], id: &str) -> &'s [OsString] {
    let found = settings.iter().find(|setting| setting.id == id);
    found.map_or(&[], |setting| &setting.values)
}
