//! How a repository is made: for `init`, and for `backup --init`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use ibid_format::slot::Argon2Cost;

use super::value;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid -r /mnt/disk/backup init
  ibid -r /mnt/disk/backup init --password-file /root/backup-password
  ibid -r /mnt/disk/images init --average 256KiB --frame 4MiB   for few large files
  ibid -r /mnt/disk/strong init --argon2 1GiB:4:4               guessing costs far more, and so does opening
  ibid -r /mnt/disk/public init --unencrypted                   readable by whoever has the disk")]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(crate) settings: InitSettings,
}

/// Each is absent unless given, so that `backup` can tell that one was given without --init.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "Options of a new repository, which can't be changed later")]
pub(crate) struct InitSettings {
    /// What finds where files are cut into chunks: argmin, fastcdc, seqcdc and others that `ibid
    /// bench chunkers` compares, or fixed [default: argmin]
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(ibid_chunk::NAMES),
        hide_possible_values = true
    )]
    pub(crate) chunker: Option<String>,
    /// Average size of a chunk; smaller ones find more duplicates and need more memory [default:
    /// 128KiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) average: Option<u64>,
    /// What is compressed together, 4KiB to 8MiB [default: 1MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size_u32)]
    pub(crate) frame: Option<u32>,
    /// Size of the files that hold the data, 1MiB to 64MiB [default: 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = value::size_u32)]
    pub(crate) pack: Option<u32>,
    /// What one guess at the password costs [default: 46MiB:1:1]
    #[arg(long, value_name = "MEMORY:PASSES:LANES", value_parser = value::argon2)]
    pub(crate) argon2: Option<Argon2Cost>,
    /// What to call the first key
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
}

impl InitSettings {
    /// Whether none was given.
    pub(crate) fn is_empty(&self) -> bool {
        *self == InitSettings::default()
    }
}
