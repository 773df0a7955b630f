//! The options of `ibid key`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

use super::{NewPasswordArgs, value};
use crate::complete;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Each key opens the repository with one password. After you remove a key, its password does not open this repository \
any more. Someone who knew it and copied the key file can still open the repository with that copy.

Examples:
  ibid key list
  ibid key add --label laptop
  ibid key passwd                      replace the password you opened it with
  ibid key remove 4f1a
  ibid key add-writer --label laptop --out laptop.key")]
pub(crate) enum KeyCommand {
    /// List keys and writers
    #[command(after_help = "Examples:\n  ibid key list\n  ibid key list --json")]
    List,
    /// Add a key with another password
    #[command(after_help = "\
Examples:
  ibid key add --label laptop
  ibid key add --new-password-file /root/second --argon2 1GiB:4:4")]
    Add(KeyAddArgs),
    /// Make the key of a writer, which can store snapshots and nothing else
    #[command(after_help = "\
Put the key on the machine that is to be backed up, and set IBID_KEY_FILE there. `ibid backup` then works without a \
password. The machine cannot read what it has stored, cannot delete it, and has no access to anything else in the \
repository. You read its snapshots with your password and --writer.

Examples:
  ibid key add-writer --label laptop --out laptop.key
  ibid key add-writer --label laptop | ssh laptop 'umask 077; cat > .ibid.key'
  ibid snapshots --writer laptop
  ibid key remove laptop               what it stores from then on does not count")]
    AddWriter(KeyAddWriterArgs),
    /// Remove a key, but never the one that opened the repository, or a writer
    #[command(after_help = "Examples:\n  ibid key remove 4f1a\n  ibid key remove laptop               a writer")]
    Remove(KeyRemoveArgs),
    /// Change the password: store the new key, then remove the old one
    #[command(after_help = "Examples:\n  ibid key passwd\n  ibid key passwd --new-password-command 'pass ibid'")]
    Passwd(KeyPasswdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KeyAddArgs {
    #[command(flatten)]
    pub(crate) password: NewPasswordArgs,
    /// Name the key, for `ibid key list`
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// Set what one guess at the password costs [default: 46MiB:1:1]
    #[arg(long, value_name = "MEMORY:PASSES:LANES", value_parser = value::argon2)]
    pub(crate) argon2: Option<ibid_format::slot::Argon2Cost>,
}

#[derive(Debug, Args)]
pub(crate) struct KeyAddWriterArgs {
    /// Name the writer, for `ibid key list` and --writer
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) label: String,
    /// Write the key into this new file, which only you can read [default: print it]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct KeyRemoveArgs {
    /// Remove the key whose id begins so, or the writer with this label or id
    #[arg(value_name = "KEY", add = complete::keys())]
    pub(crate) key: String,
}

#[derive(Debug, Args)]
pub(crate) struct KeyPasswdArgs {
    #[command(flatten)]
    pub(crate) password: NewPasswordArgs,
    /// Set what one guess at the password costs [default: 46MiB:1:1]
    #[arg(long, value_name = "MEMORY:PASSES:LANES", value_parser = value::argon2)]
    pub(crate) argon2: Option<ibid_format::slot::Argon2Cost>,
}
