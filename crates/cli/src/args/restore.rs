//! `ibid restore`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Address, SelectArgs, select};

#[derive(Debug, Args)]
#[command(after_help = "\
What is in a folder of the snapshot comes into DEST; a file comes into DEST under its own name. Where something exists, \
nothing at all is written unless --overwrite says what to do. Files in DEST that the snapshot does not have stay.

Patterns are those of `ibid backup`, for paths in the snapshot: one that begins with a slash is compared with whole \
paths, from the snapshot's root, any other with the end of paths.

Examples:
  ibid restore latest /tmp/all                      everything
  ibid restore latest:home/me/letters /tmp/letters  one folder
  ibid restore latest:home/me ~/ --overwrite if-changed --verify
  ibid restore 4f1a /tmp/all --include '*.odt' --exclude /var/ --dry-run")]
pub(crate) struct RestoreArgs {
    /// The snapshot, and what of it
    #[arg(value_name = "SNAP[:PATH]", value_parser = select::address())]
    pub(crate) address: Address,
    /// The folder to restore into; it is made if it does not exist
    #[arg(value_name = "DEST")]
    pub(crate) destination: PathBuf,
    /// Only what matches this pattern, and what is in it; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// Not what matches this pattern; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// What to do where something exists
    #[arg(long, value_name = "RULE", value_enum)]
    pub(crate) overwrite: Option<OverwriteRule>,
    /// Say what would be done, name by name, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Afterwards, read everything back and compare
    #[arg(long)]
    pub(crate) verify: bool,
    /// Keep what is left of damaged files, as NAME.damaged with zeros for what is lost
    #[arg(long)]
    pub(crate) keep_damaged: bool,
    /// Give files to the recorded numbers of users and groups, whatever their names
    #[arg(long)]
    pub(crate) numeric_ids: bool,
    /// Threads that read and write [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverwriteRule {
    /// Make it as in the snapshot
    Always,
    /// The same, but the contents of a file with the right size and time are taken as right
    IfChanged,
    /// Leave it
    Never,
}
