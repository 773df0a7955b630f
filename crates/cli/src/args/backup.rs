//! `ibid backup`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use ibid_format::tree::Time;
use ibid_repo::{Compression, Hints, Similarity};
use ibid_terminal::value::{share, size};

use super::{InitSettings, value};
use crate::complete;

#[derive(Debug, Args)]
#[command(after_help = "\
Patterns are almost those of .gitignore:
  *.o              in every folder
  me/cache         in every folder that is called me
  /home/*/cache    a leading slash means the whole path from the root
  target/          a trailing slash means folders only
  !keep.o          takes back an earlier match, unless its folder is left out
The PATHs you give, and the folders that lead to them, are never left out by patterns.

Examples:
  ibid backup ~/
  ibid backup / --one-file-system --exclude-caches --exclude /tmp/ --exclude /var/tmp/
  ibid backup ~/ --exclude '*.iso' --exclude-larger-than 1GiB --tag weekly,laptop
  ibid backup --stdin-name mill.sql --stdin-from-command -- pg_dump mill
                                                    the output of another program
  git ls-files -z | ibid backup --files-from0 -     the files in a list
  ibid backup /dev/vdb --parent 90dc8173 --changed-blocks map
  ibid -r /mnt/new backup --init ~/                 create the repository first")]
pub(crate) struct BackupArgs {
    /// Back up these files and folders
    #[arg(
        value_name = "PATH",
        required_unless_present_any = ["stdin", "files_from", "files_from0", "stdin_from_command"],
        conflicts_with = "stdin"
    )]
    pub(crate) paths: Vec<PathBuf>,
    /// Back up the files and folders that FILE lists, one path a line; - is standard input. Can be
    /// repeated, and given with PATHs
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "stdin_from_command"])]
    pub(crate) files_from: Vec<PathBuf>,
    /// Back up the files and folders that FILE lists, each path ended by a NUL byte, as `find -print0`
    /// prints them; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stdin", "stdin_from_command"])]
    pub(crate) files_from0: Vec<PathBuf>,
    /// Back up standard input, as a file of this name. A program that fails and closes its pipe looks
    /// like one that is done: --stdin-from-command notices that
    #[arg(long, value_name = "NAME", value_parser = OsStringValueParser::new().try_map(value::file_name))]
    pub(crate) stdin: Option<OsString>,
    /// Run the command that follows `--`, and back up what it prints. If it fails, there is no snapshot
    #[arg(long, conflicts_with = "stdin")]
    pub(crate) stdin_from_command: bool,
    /// Name the file that --stdin-from-command makes [default: stdin]
    #[arg(
        long,
        value_name = "NAME",
        requires = "stdin_from_command",
        value_parser = OsStringValueParser::new().try_map(value::file_name)
    )]
    pub(crate) stdin_name: Option<OsString>,
    /// Tag the snapshot; can be repeated
    #[arg(
        long,
        value_name = "TAG",
        value_delimiter = ',',
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        add = complete::tags()
    )]
    pub(crate) tag: Vec<String>,
    /// Record this name for the machine instead of its own
    #[arg(long, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) host: Option<String>,
    /// Record this time instead of now: 2026-11-21T12:00:00Z, "2026-11-21 12:00:00" in local time,
    /// or @ and seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = value::time)]
    pub(crate) time: Option<Time>,
    /// Show what would be stored, and store nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Make no snapshot if everything is as in the snapshot that files are compared with
    #[arg(long, conflicts_with_all = ["stdin", "stdin_from_command", "dry_run"])]
    pub(crate) skip_if_unchanged: bool,
    /// Read every file, even those that look unchanged
    #[arg(long)]
    pub(crate) force: bool,
    /// Compare with this snapshot instead of the latest of the same machine and paths
    #[arg(long, value_name = "SNAP", add = complete::snapshots())]
    pub(crate) parent: Option<String>,
    /// Read only what FILE says has changed since --parent, and take the rest of the file or device from
    /// there: lines `OFFSET LENGTH` in bytes, or a dirty bitmap of QEMU as JSON; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        requires = "parent",
        conflicts_with_all = ["stdin", "stdin_from_command", "force", "init"]
    )]
    pub(crate) changed_blocks: Option<PathBuf>,
    /// Compare this share of the unchanged rest with --parent all the same, such as 1%
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "changed_blocks")]
    pub(crate) verify_unchanged: Option<f64>,
    /// Compress at this level: auto, off, or 1 (fast) to 22 (small)
    #[arg(
        long,
        value_name = "LEVEL",
        value_parser = value::compression,
        default_value = "auto",
        add = complete::words(&["auto", "off"])
    )]
    pub(crate) compression: Compression,
    /// Store chunks that resemble stored ones as deltas: auto, off, or max (compare all data, and
    /// search longer: smallest and slowest)
    #[arg(
        long,
        value_name = "MODE",
        value_parser = value::similarity,
        default_value = "auto",
        add = complete::words(&["auto", "off", "max"])
    )]
    pub(crate) similarity: Similarity,
    /// Cut changed files where the stored version was cut, as long as they agree: auto (where that is
    /// faster than searching for boundaries), off, or always
    #[arg(
        long,
        value_name = "WHEN",
        value_parser = value::hints,
        default_value = "auto",
        add = complete::words(&["auto", "off", "always"])
    )]
    pub(crate) hints: Hints,
    /// Store a checkpoint whenever SIZE was read; for tests
    #[arg(long, value_name = "SIZE", value_parser = size, hide = true)]
    pub(crate) checkpoint_every: Option<u64>,
    /// Read, fingerprint and compress with this many threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Stop once the requests have cost more than MONEY, such as 0.50: the next backup goes on from there
    #[arg(long, value_name = "MONEY", value_parser = super::costs::money)]
    pub(crate) max_cost: Option<f64>,
    /// Create the repository first if there is none
    #[arg(long)]
    pub(crate) init: bool,
    #[command(flatten)]
    pub(crate) exclude: ExcludeArgs,
    #[command(flatten)]
    pub(crate) settings: InitSettings,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Leaving files out")]
pub(crate) struct ExcludeArgs {
    /// Leave out files and folders that match PATTERN; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// Leave out files and folders that match PATTERN in upper or lower case; can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) iexclude: Vec<String>,
    /// Leave out files and folders that match a pattern in FILE, one per line; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) exclude_file: Vec<PathBuf>,
    /// Leave out what is in a folder that has a file or folder called NAME, except that one; can be
    /// repeated
    #[arg(long, value_name = "NAME", value_parser = OsStringValueParser::new().try_map(value::marker_name))]
    pub(crate) exclude_if_present: Vec<OsString>,
    /// Leave out what is in a folder that has a valid CACHEDIR.TAG, except that file
    #[arg(long)]
    pub(crate) exclude_caches: bool,
    /// Leave out files larger than SIZE
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) exclude_larger_than: Option<u64>,
    /// Do not cross into other file systems
    #[arg(long)]
    pub(crate) one_file_system: bool,
}
