//! The settings of a new repository, for `ibid init` and `ibid backup --init`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use ibid_format::slot::Argon2Cost;
use ibid_terminal::value::size;

use super::value;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid -r /mnt/disk/backup init
  ibid -r /mnt/disk/backup init --password-file /root/backup-password
  ibid -r /mnt/disk/images init --average 256KiB --frame 4MiB   for few, large files
  ibid -r /mnt/disk/strong init --argon2 1GiB:4:4               more expensive to guess, and to open
  ibid -r /mnt/disk/public init --unencrypted                   anyone who has the disk can read it
  ibid -r /mnt/offsite init --like ~/backup                     for `ibid copy` from ~/backup, or to it

Environment:
  IBID_LIKE_PASSWORD          the password of the repository that --like names
  IBID_LIKE_PASSWORD_FILE     same as --like-password-file
  IBID_LIKE_PASSWORD_COMMAND  same as --like-password-command")]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) settings: InitSettings,
    #[command(flatten)]
    pub(crate) like: LikeArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "A repository like another one")]
pub(crate) struct LikeArgs {
    /// Take the chunker, the sizes and the ids of chunks from the repository in this folder: a copy between the two
    /// does not read what is there, and compresses little anew
    #[arg(long, value_name = "PATH", conflicts_with_all = ["chunker", "average"])]
    pub(crate) like: Option<PathBuf>,
    /// Read the password of that repository from the first line of FILE
    #[arg(long, value_name = "FILE", requires = "like")]
    pub(crate) like_password_file: Option<PathBuf>,
    /// Read the password of that repository from the first line that COMMAND prints (run by sh)
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "like",
        conflicts_with = "like_password_file"
    )]
    pub(crate) like_password_command: Option<String>,
    /// Accept that that repository has no encryption
    #[arg(long, requires = "like", conflicts_with_all = ["like_password_file", "like_password_command"])]
    pub(crate) like_unencrypted: bool,
}

/// Each setting is absent unless given, so that `backup` can refuse one without --init.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Settings of a new repository, which cannot be changed later")]
pub(crate) struct InitSettings {
    /// Cut files into chunks with this chunker: argmin, fastcdc, seqcdc, fixed or another that
    /// docs/chunkers.md explains [default: argmin]
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(ibid_chunk::NAMES),
        hide_possible_values = true
    )]
    pub(crate) chunker: Option<String>,
    /// Set the average size of chunks: smaller ones find more duplicates and take more memory
    /// [default: 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) average: Option<u64>,
    /// Compress this much data together, 4KiB to 8MiB [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size_u32)]
    pub(crate) frame: Option<u32>,
    /// Set the size of packs, the files that hold the data, 1MiB to 64MiB [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size_u32)]
    pub(crate) pack: Option<u32>,
    /// Set what one guess at the password costs [default: 46MiB:1:1]
    #[arg(long, value_name = "MEMORY:PASSES:LANES", value_parser = value::argon2)]
    pub(crate) argon2: Option<Argon2Cost>,
    /// Name the first key, for `ibid key list`
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

impl InitSettings {
    /// Whether no setting was given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == InitSettings::default()
    }
}
