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
    /// Whether it is the password of the destination of a copy, which other variables give.
    #[arg(skip)]
    pub(crate) is_of_destination: bool,
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
