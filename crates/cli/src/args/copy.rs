//! The options of `ibid copy`.

use std::path::PathBuf;

use clap::Args;
use ibid_repo::{Compression, Similarity};

use super::{CostArgs, PastArgs, SelectArgs, ThawArgs, value};
use crate::complete;

#[derive(Debug, Args)]
#[command(after_help = "\
The destination is a repository of its own: with other passwords, and possibly other settings. Make it with `ibid \
init`. Snapshots that it has already are skipped, so the same command again copies what is new. A copy has an id of \
its own.

Between repositories that are alike (see `ibid init --help`), data moves as it is compressed in the source, unless you \
give --compression or --similarity.

Environment:
  IBID_TO_REPO              same as --to
  IBID_TO_PASSWORD          the password of the destination
  IBID_TO_PASSWORD_FILE     same as --to-password-file
  IBID_TO_PASSWORD_COMMAND  same as --to-password-command

Examples:
  ibid copy --to /mnt/offsite                  all snapshots
  ibid copy --to /mnt/offsite latest 4f1a      these
  ibid copy --to /mnt/offsite --host mill --tag monthly
  ibid copy --to /mnt/offsite --dry-run        what would be copied
  ibid copy --to /mnt/offsite latest --thaw --max-cost 2   from an archive of the server")]
pub(crate) struct CopyArgs {
    /// Copy these snapshots [default: all, or all that are selected]
    #[arg(value_name = "SNAP", add = complete::snapshots())]
    pub(crate) snapshots: Vec<String>,
    /// Copy to the repository in this folder
    #[arg(long, value_name = "PATH", env = "IBID_TO_REPO", hide_env_values = true)]
    pub(crate) to: PathBuf,
    /// Read the password of the destination from the first line of FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) to_password_file: Option<PathBuf>,
    /// Read the password of the destination from the first line that COMMAND prints (run by sh)
    #[arg(long, value_name = "COMMAND", conflicts_with = "to_password_file")]
    pub(crate) to_password_command: Option<String>,
    /// Accept a destination without encryption
    #[arg(long, conflicts_with_all = ["to_password_file", "to_password_command"])]
    pub(crate) to_unencrypted: bool,
    /// Show which snapshots would be copied, and copy nothing
    #[arg(short = 'n', long, conflicts_with_all = ["estimate", "thaw"])]
    pub(crate) dry_run: bool,
    /// Compress at this level: auto, off, or 1 (fast) to 22 (small)
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = value::compression,
        default_value = "auto",
        add = complete::words(&["auto", "off"])
    )]
    pub(crate) compression: Compression,
    /// Store chunks that resemble those of the destination as deltas: auto, off, or max (compare all data)
    #[arg(
        long,
        value_name = "MODE",
        value_parser = value::similarity,
        default_value = "auto",
        add = complete::words(&["auto", "off", "max"])
    )]
    pub(crate) similarity: Similarity,
    /// Read, fingerprint and compress with this many threads [default: one per core]
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
