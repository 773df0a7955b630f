//! `ibid backup`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use ibid_format::tree::Time;
use ibid_repo::{Compression, Hints, Similarity};

use super::{InitSettings, value};

#[derive(Debug, Args)]
#[command(after_help = "\
Patterns are nearly those of .gitignore. One that begins with a slash is compared with whole paths, from the root of the \
file system, any other with the end of paths: `*.o`, `target/` (folders only) and `me/cache` match in every folder, \
`/home/*/cache` only there. `!keep.o` takes back what an earlier pattern left out, but not out of a folder that is left \
out itself. PATHs, and the way to them, are not subject to patterns.

Examples:
  ibid backup ~/                                    your files
  ibid backup / --one-file-system --exclude-caches --exclude /tmp/ --exclude /var/tmp/
  ibid backup ~/ --exclude '*.iso' --exclude-larger-than 1GiB --tag weekly,laptop
  pg_dump mill | ibid backup --stdin mill.sql       what another program writes
  ibid -r /mnt/new backup --init ~/                 into a repository that is made first")]
pub(crate) struct BackupArgs {
    /// Files and folders
    #[arg(value_name = "PATH", required_unless_present = "stdin", conflicts_with = "stdin")]
    pub(crate) paths: Vec<PathBuf>,
    /// Store what standard input brings as a file of this name
    #[arg(long, value_name = "NAME", value_parser = OsStringValueParser::new().try_map(value::file_name))]
    pub(crate) stdin: Option<OsString>,
    /// Label the snapshot; can be repeated
    #[arg(long, value_name = "TAG", value_delimiter = ',')]
    pub(crate) tag: Vec<String>,
    /// Record this machine's name instead of the real one
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) host: Option<String>,
    /// Record this time instead of now: 2026-11-21T12:00:00Z, "2026-11-21 12:00:00" in local time,
    /// or @ and seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) time: Option<Time>,
    /// Say what would be stored, and store nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Read every file, also those that look unchanged
    #[arg(long)]
    pub(crate) force: bool,
    /// Compare with this snapshot, instead of the latest of the same machine and paths
    #[arg(long, value_name = "SNAP")]
    pub(crate) parent: Option<String>,
    /// How hard to compress: auto, off, or a level from 1 to 22
    #[arg(long, value_name = "LEVEL", value_parser = value::compression, default_value = "auto")]
    pub(crate) compression: Compression,
    /// What is like what is known, and not the same, is stored as what differs: auto, off, or max
    /// (look everywhere and for more: smallest, slowest)
    #[arg(long, value_name = "WHERE", value_parser = value::similarity, default_value = "auto")]
    pub(crate) similarity: Similarity,
    /// Cut large files where what is stored was cut, as long as they are the same: auto (where that
    /// is faster than looking for boundaries), off, or always
    #[arg(long, value_name = "WHEN", value_parser = value::hints, default_value = "auto")]
    pub(crate) hints: Hints,
    /// Threads that read, fingerprint and compress [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Make the repository first, if there is none
    #[arg(long)]
    pub(crate) init: bool,
    #[command(flatten)]
    pub(crate) exclude: ExcludeArgs,
    #[command(flatten)]
    pub(crate) settings: InitSettings,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "What to leave out")]
pub(crate) struct ExcludeArgs {
    /// What matches this pattern; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// What matches a pattern in this file, one a line; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude_file: Vec<PathBuf>,
    /// What is in folders with a CACHEDIR.TAG
    #[arg(long)]
    pub(crate) exclude_caches: bool,
    /// Files larger than this
    #[arg(long, value_name = "SIZE", value_parser = value::size)]
    pub(crate) exclude_larger_than: Option<u64>,
    /// Other file systems than those of the paths
    #[arg(long)]
    pub(crate) one_file_system: bool,
}
