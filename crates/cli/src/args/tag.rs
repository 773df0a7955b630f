//! The arguments of `ibid tag`.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

use super::SelectArgs;
use crate::complete;

#[derive(Debug, Subcommand)]
#[command(after_help = "\
A snapshot with other tags has another id, and the place of the old one in the list. The command prints both ids.

Examples:
  ibid tag add weekly latest
  ibid tag add weekly,laptop 4f1a 90dc
  ibid tag remove weekly --all --host mill")]
pub(crate) enum TagCommand {
    /// Add tags to snapshots
    #[command(after_help = "\
Examples:
  ibid tag add weekly latest
  ibid tag add weekly,laptop 4f1a 90dc
  ibid tag add mill --all --host mill")]
    Add(TagArgs),
    /// Remove tags from snapshots
    #[command(after_help = "\
Examples:
  ibid tag remove weekly latest
  ibid tag remove weekly --all --host mill")]
    Remove(TagArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TagArgs {
    /// Add or remove these tags, separated by commas
    #[arg(value_name = "TAGS", value_parser = NonEmptyStringValueParser::new(), add = complete::tags())]
    pub(crate) tags: String,
    /// Change the tags of these snapshots
    #[arg(value_name = "SNAP", add = complete::snapshots(), required_unless_present = "all")]
    pub(crate) snapshots: Vec<String>,
    /// Change the tags of all snapshots, or of all that are selected
    #[arg(long, conflicts_with = "snapshots")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}
