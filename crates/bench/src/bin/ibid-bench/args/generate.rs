//! `ibid-bench generate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use ibid_bench::EditKind;
use ibid_terminal::value::{share, size};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  ibid-bench generate versions ~/series --size 200MB --versions 10")]
pub(crate) enum GenerateCommand {
    /// Make versions of a file of random bytes, each a little different from the one before
    Versions(VersionsArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The first version is random bytes. Each later one is the version before it with edits at random places. The same \
options give the same bytes on every machine, so that measurements can be repeated. Files are called v01.bin, v02.bin, \
…, and existing files are never overwritten. Random bytes do not compress: a chunker saves only what repeats.

Examples:
  ibid-bench generate versions ~/series                              10 versions of 200 MB, 1000 edits of 100 bytes
  ibid-bench generate versions ~/series --size 1GiB --edits 5000
  ibid-bench generate versions ~/series --kind overwrite             nothing moves: fixed sizes do as well
  ibid-bench generate versions ~/series --spread 10%                 all edits in the first tenth
  ibid-bench generate versions ~/series --seed 2                     others of the same kind")]
pub(crate) struct VersionsArgs {
    /// Write into this folder, which is created if needed
    #[arg(value_name = "OUT-DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// Set the size of the first version
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "200MB")]
    pub(crate) size: u64,
    /// Generate N versions
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) versions: u32,
    /// Make N edits between a version and the next
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) edits: u64,
    /// Insert, delete or overwrite this many bytes with each edit
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "100")]
    pub(crate) edit_bytes: u64,
    /// Make edits of these kinds, each as likely as the others
    #[arg(
        long = "kind",
        value_name = "KIND",
        value_enum,
        value_delimiter = ',',
        default_value = "insert,delete,overwrite"
    )]
    pub(crate) kinds: Vec<KindName>,
    /// Make all edits within this share of a file, from its start
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "100%")]
    pub(crate) spread: f64,
    /// Generate other bytes and edits with another number
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    pub(crate) seed: u64,
    /// Print JSON, as docs/measuring.md describes it
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KindName {
    Insert,
    Delete,
    Overwrite,
}

impl From<KindName> for EditKind {
    fn from(name: KindName) -> EditKind {
        match name {
            KindName::Insert => EditKind::Insert,
            KindName::Delete => EditKind::Delete,
            KindName::Overwrite => EditKind::Overwrite,
        }
    }
}
