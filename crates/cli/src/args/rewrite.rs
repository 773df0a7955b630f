//! The options of `ibid rewrite`.

use std::path::PathBuf;

use clap::Args;

use super::SelectArgs;
use crate::complete;

#[derive(Debug, Args)]
#[command(after_help = "\
The new snapshot has another id, the place of the old one in the list, and everything that no pattern matches. \
Patterns are those of `ibid backup`, and can match what was named there, too. The data is freed by `ibid prune` once \
the old snapshot is forgotten.

Examples:
  ibid rewrite latest --exclude '*.iso' --dry-run
  ibid rewrite --all --exclude /home/me/secret.txt --forget
  ibid prune                                   free what they took")]
pub(crate) struct RewriteArgs {
    /// Leave files out of these snapshots
    #[arg(value_name = "SNAP", add = complete::snapshots(), required_unless_present = "all")]
    pub(crate) snapshots: Vec<String>,
    /// Leave files out of all snapshots, or of all that are selected
    #[arg(long, conflicts_with = "snapshots")]
    pub(crate) all: bool,
    /// Leave out files and folders that match PATTERN; can be repeated
    #[arg(long, value_name = "PATTERN", required_unless_present_any = ["iexclude", "exclude_file", "exclude_lost"])]
    pub(crate) exclude: Vec<String>,
    /// Leave out what matches PATTERN in upper or lower case; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) iexclude: Vec<String>,
    /// Leave out what matches the patterns in FILE, one per line; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude_file: Vec<PathBuf>,
    /// Leave out files and folders of which data is lost, and name them
    #[arg(long)]
    pub(crate) exclude_lost: bool,
    /// Forget the old snapshots; `ibid forget --undo` brings them back until the next prune
    #[arg(long)]
    pub(crate) forget: bool,
    /// Show how much would be left out, and store nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}
