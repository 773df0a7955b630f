//! `ibid restore`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Address, CostArgs, PastArgs, SelectArgs, ThawArgs, select};
use crate::complete;

#[derive(Debug, Args)]
#[command(after_help = "\
The contents of a folder go into DEST; a single file goes into DEST under its own name. If a file exists there \
already, nothing at all is written unless --overwrite says what to do. Files in DEST that the snapshot does not have \
stay.

Patterns are those of `ibid backup`, for paths in the snapshot: a leading slash means the whole path from its root.

Examples:
  ibid restore latest /tmp/all                      the whole snapshot
  ibid restore latest:home/me/letters /tmp/letters  one folder
  ibid restore latest:home/me ~/ --overwrite if-changed --verify
  ibid restore latest /tmp/all --thaw --estimate    what it costs to have an archive thawed
  ibid restore 4f1a /tmp/all --include '*.odt' --exclude /var/ --dry-run")]
pub(crate) struct RestoreArgs {
    /// Restore this snapshot, or this file or folder in it
    #[arg(value_name = "SNAP[:PATH]", value_parser = select::address(), add = complete::snapshots())]
    pub(crate) address: Address,
    /// Restore into this folder, which is created if it does not exist
    #[arg(value_name = "DEST")]
    pub(crate) destination: PathBuf,
    /// Restore only what matches PATTERN, folders with their contents; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Leave out what matches PATTERN; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Restore into a place where files exist, and do this with them
    #[arg(long, value_name = "RULE", value_enum)]
    pub(crate) overwrite: Option<OverwriteRule>,
    /// Show what would be done, file by file, and do nothing
    #[arg(short = 'n', long, conflicts_with_all = ["estimate", "thaw"])]
    pub(crate) dry_run: bool,
    /// Read every file back afterwards and compare
    #[arg(long)]
    pub(crate) verify: bool,
    /// Restore damaged files as NAME.damaged, with zeros in place of lost bytes
    #[arg(long)]
    pub(crate) keep_damaged: bool,
    /// Restore owners by their numbers, not by their names
    #[arg(long)]
    pub(crate) numeric_ids: bool,
    /// Read and write with this many threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) thaw: ThawArgs,
    #[command(flatten)]
    pub(crate) costs: CostArgs,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) past: PastArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverwriteRule {
    /// Make it as it is in the snapshot
    Always,
    /// Make it as it is in the snapshot, but trust the contents of a file with the right size and time
    IfChanged,
    /// Keep it
    Never,
}
