//! The options that give a password. The variables are read where the password is needed: an option
//! takes precedence over all of them.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct PasswordArgs {
    /// Read the password from the first line of FILE
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Read the password from the first line that COMMAND prints (run by sh)
    #[arg(long, global = true, value_name = "COMMAND", conflicts_with = "password_file")]
    pub(crate) password_command: Option<String>,
    /// Whose password it is: others come from other variables.
    #[arg(skip)]
    pub(crate) whose: Whose,
}

/// The repository that a password opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Whose {
    /// That of --repo.
    #[default]
    Own,
    /// That of `copy --to`.
    Destination,
    /// That of `init --like`.
    Model,
}

#[derive(Debug, Args)]
pub(crate) struct NewPasswordArgs {
    /// Read the new password from the first line of FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) new_password_file: Option<PathBuf>,
    /// Read the new password from the first line that COMMAND prints (run by sh)
    #[arg(long, value_name = "COMMAND", conflicts_with = "new_password_file")]
    pub(crate) new_password_command: Option<String>,
}
