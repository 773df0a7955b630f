//! The command line. Every option is defined once, here; help, manual pages and completions are
//! generated from these definitions.

mod backup;
mod copy;
mod costs;
#[cfg(test)]
mod help_lines;
mod init;
mod key;
mod network;
mod password;
mod past;
mod records;
mod restore;
mod rewrite;
mod run;
mod select;
mod serve;
mod tag;
mod thaw;
mod upkeep;
pub(crate) mod value;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) use backup::BackupArgs;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
pub(crate) use copy::CopyArgs;
pub(crate) use costs::CostArgs;
use ibid_format::tree::Time;
use ibid_terminal::value::{share, size};

use crate::complete;
pub(crate) use init::{InitArgs, InitSettings, LikeArgs};
pub(crate) use key::{KeyAddWriterArgs, KeyCommand};
pub(crate) use network::NetworkArgs;
pub(crate) use password::{NewPasswordArgs, PasswordArgs, Whose};
pub(crate) use past::PastArgs;
pub(crate) use records::{
    BatchArgs, CompactArgs, ConnectionArgs, DeleteArgs, DurabilityName, ExpireArgs, FindRecordsArgs, Followed, GetArgs,
    IndexArgs, IndexValue, Key, LatestArgs, LoadArgs, NAMESPACE, NamespaceArgs, NewRecordsArgs, PromoteArgs, PurgeArgs,
    PutArgs, RecordsCommand, RecordsStatsArgs, RepairRecordsArgs, ReplicateArgs, RetentionArgs, SalvageArgs, ScanArgs,
    ServeArgs, StoreArgs, VerifyArgs, VersionName, VersionsOfArgs,
};
pub(crate) use restore::{OverwriteRule, RestoreArgs};
pub(crate) use rewrite::RewriteArgs;
pub(crate) use run::RunArgs;
pub(crate) use select::{Address, SelectArgs};
pub(crate) use serve::ServeRepositoryArgs;
pub(crate) use tag::TagCommand;
pub(crate) use thaw::ThawArgs;
pub(crate) use upkeep::{ForgetArgs, GroupName, PruneArgs, RuleArgs, SessionsArgs, patience as span, tags};

const AFTER_HELP: &str = "\
Snapshots:
  4f1a          the snapshot whose id begins with 4f1a
  latest        the newest snapshot
  latest~2      the second before the newest
  SNAP:PATH     a file or folder in a snapshot

Environment:
  IBID_REPO              same as --repo
  IBID_MEMORY            same as --memory
  IBID_CACHE_DIR         same as --cache-dir
  IBID_CACHED_DATA       same as --cached-data
  IBID_SSH               same as --ssh
  IBID_PASSWORD          the password itself
  IBID_PASSWORD_FILE     same as --password-file
  IBID_PASSWORD_COMMAND  same as --password-command
  IBID_KEY_FILE          same as --key-file
  IBID_NEW_PASSWORD, IBID_NEW_PASSWORD_FILE, IBID_NEW_PASSWORD_COMMAND
                         the new password of `key add` and `key passwd`
  IBID_TO_REPO, IBID_TO_PASSWORD, IBID_TO_PASSWORD_FILE, IBID_TO_PASSWORD_COMMAND
                         the destination of `copy`, and its password
  IBID_STORE             same as --store of `ibid records`

Config file:
  ~/.config/ibid/config.toml has profiles, for --profile and `ibid run`

Exit codes:
  0    done
  1    failed
  2    wrong command line
  3    done, but some files or records were left out, or packs are damaged; each was named
  4    `check` or `records verify` found faults, or `repair` could not mend all
  5    wrong password, or no password
  6    `records`: no such key, version or namespace
  7    `records`: nothing was changed, because a key is in another state than a condition states, or a
       value of a unique index is of another key
  10   no repository, or no store of records, at this place
  130  interrupted

Examples:
  export IBID_REPO=/mnt/disk/backup
  ibid init
  ibid backup ~/
  ibid snapshots
  ibid restore latest:home/me/letters /tmp/letters";

/// Make encrypted, deduplicated, verifiable snapshots of your files
#[derive(Debug, Parser)]
#[command(name = "ibid", version, after_help = AFTER_HELP, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Use the repository in this folder, or elsewhere: ssh://HOST/PATH, tls://HOST:PORT, s3://BUCKET/FOLDER,
    /// gs://…, az://…
    #[arg(
        short,
        long,
        global = true,
        value_name = "PATH",
        env = "IBID_REPO",
        hide_env_values = true
    )]
    pub(crate) repo: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) password: PasswordArgs,
    /// Use the key of a writer in FILE, in place of a password: it can back up and nothing else
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        value_hint = ValueHint::AnyPath,
        env = "IBID_KEY_FILE",
        hide_env_values = true
    )]
    key_file: Option<OsString>,
    /// Use the snapshots of this writer, by its label or the beginning of its id
    #[arg(long, global = true, value_name = "WRITER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) writer: Option<String>,
    /// Accept a repository without encryption: needed to create one and to back up into one
    #[arg(long, global = true, conflicts_with_all = ["password_file", "password_command", "writer"])]
    pub(crate) unencrypted: bool,
    /// Limit the memory for index, buffers and queues
    #[arg(
        long,
        global = true,
        value_name = "SIZE",
        value_parser = value::memory,
        default_value = "512MiB",
        env = "IBID_MEMORY",
        hide_env_values = true
    )]
    pub(crate) memory: u64,
    /// Keep the local cache in this folder, which is not backed up [default: $XDG_CACHE_HOME/ibid, or
    /// ~/.cache/ibid]
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "IBID_CACHE_DIR",
        hide_env_values = true
    )]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Do without the local cache, and read all index files again
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// Keep at most so much data in the local cache, if the repository is not on this machine: what was stored last,
    /// and what backups needed of it
    #[arg(
        long,
        global = true,
        value_name = "SIZE",
        value_parser = size,
        default_value = "2GiB",
        env = "IBID_CACHED_DATA",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub(crate) cached_data: u64,
    /// Take the options that you do not give from this profile of the config file
    #[arg(long, global = true, value_name = "NAME", add = complete::profiles())]
    pub(crate) profile: Option<String>,
    /// Read profiles from this config file [default: $XDG_CONFIG_HOME/ibid/config.toml, or
    /// ~/.config/ibid/config.toml; for root also /etc/ibid/config.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print only results, warnings and errors: no progress, no summaries
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print JSON; docs/json.md describes it
    #[arg(long, global = true)]
    pub(crate) json: bool,
    // Last, because its heading would hold for all options after it.
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
}

impl Global {
    /// Returns the file with the key of a writer, if one is to be used. An empty variable is none.
    pub(crate) fn key_file(&self) -> Option<&Path> {
        self.key_file.as_deref().filter(|file| !file.is_empty()).map(Path::new)
    }

    /// Returns the options for another repository, with a password of its own.
    pub(crate) fn of_another(&self, repo: PathBuf, password: PasswordArgs, unencrypted: bool) -> Global {
        Global {
            config: None,
            profile: None,
            repo: Some(repo),
            password,
            key_file: None,
            writer: None,
            unencrypted,
            memory: self.memory,
            cache_dir: self.cache_dir.clone(),
            no_cache: self.no_cache,
            cached_data: self.cached_data,
            network: self.network.of_another(),
            quiet: self.quiet,
            json: self.json,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a repository
    Init(InitArgs),
    /// Store a snapshot of files and folders
    Backup(Box<BackupArgs>),
    /// List snapshots
    Snapshots(SnapshotsArgs),
    /// List the files in a snapshot
    Ls(LsArgs),
    /// Find files in all snapshots
    Find(FindArgs),
    /// Restore files from a snapshot
    Restore(RestoreArgs),
    /// Write one file of a snapshot, or a folder as an archive, to standard output
    Dump(DumpArgs),
    /// Show what changed between two snapshots
    Diff(DiffArgs),
    /// Show how much is stored and how much was saved
    Stats(StatsArgs),
    /// Add tags to snapshots, or remove some
    #[command(subcommand)]
    Tag(TagCommand),
    /// Copy snapshots to another repository
    Copy(Box<CopyArgs>),
    /// Leave files out of snapshots that exist
    Rewrite(RewriteArgs),
    /// Forget snapshots, by name or by rules
    Forget(ForgetArgs),
    /// Free what no snapshot needs
    Prune(PruneArgs),
    /// Back up, forget, prune and check as a profile of the config file says
    Run(RunArgs),
    /// List backups that are running, or were killed
    Sessions(SessionsArgs),
    /// Check the repository for damage
    Check(CheckArgs),
    /// Repair a damaged repository, and name what is lost
    Repair(RepairArgs),
    /// Try out whether the storage of the repository keeps its promises
    #[command(subcommand)]
    Storage(StorageCommand),
    /// Let another machine use a repository here, by SSH
    Serve(ServeRepositoryArgs),
    /// Show or delete the local cache of the repository
    #[command(subcommand)]
    Cache(CacheCommand),
    /// List, add, remove and change passwords and keys of writers
    #[command(subcommand)]
    Key(KeyCommand),
    /// Store records and their versions under keys
    #[command(subcommand)]
    Records(RecordsCommand),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print a manual page
    Man(ManArgs),
}

impl Command {
    /// Returns when the repository is to be read as it was then.
    pub(crate) fn as_of(&self) -> Option<Time> {
        let past = match self {
            Command::Snapshots(args) => &args.past,
            Command::Ls(args) => &args.past,
            Command::Find(args) => &args.past,
            Command::Restore(args) => &args.past,
            Command::Dump(args) => &args.past,
            Command::Diff(args) => &args.past,
            Command::Stats(args) => &args.past,
            Command::Copy(args) => &args.past,
            Command::Check(args) => &args.past,
            _ => return None,
        };
        past.as_of
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid snapshots                       all snapshots, newest last
  ibid snapshots --latest 5            the newest five
  ibid snapshots --host mill --tag weekly
  ibid snapshots --json                one JSON object a line")]
pub(crate) struct SnapshotsArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// List only the newest N
    #[arg(long, value_name = "N")]
    pub(crate) latest: Option<usize>,
    #[command(flatten)]
    pub(crate) past: PastArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid ls latest                       the root of the newest snapshot
  ibid ls latest:/home/me -l           one folder, with modes, owners, sizes and times
  ibid ls 4f1a -R                      the whole snapshot 4f1a
  ibid ls latest:/etc -R0 | xargs -0 …  names as they are, for other programs")]
pub(crate) struct LsArgs {
    /// List this snapshot, or this file or folder in it
    #[arg(value_name = "SNAP[:PATH]", value_parser = select::address(), add = complete::snapshots())]
    pub(crate) address: Address,
    /// Show modes, owners, sizes and times
    #[arg(short, long)]
    pub(crate) long: bool,
    /// List folders with everything below them
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Print paths as they are, without escapes, and a NUL byte after each
    #[arg(short = '0', long, conflicts_with_all = ["long", "json"])]
    pub(crate) null: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) past: PastArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Patterns:
  a.txt            in every folder
  letters/a.txt    in every folder that is called letters
  /home/me/a.txt   a leading slash means the whole path, from the root
  letters/         a trailing slash means folders only
  *  ?             any text, any character: neither matches a slash
  **               any text, with slashes
  [ab]  {one,two}  one of these
  !PATTERN         takes back what an earlier pattern found

Examples:
  ibid find '*.odt'                    by name, in every snapshot
  ibid find 'letters/*.odt'            in every folder that is called so
  ibid find '/home/me/**/*.odt' --snapshot latest
  ibid find '*.odt' --snapshot latest -0 | xargs -0 …")]
pub(crate) struct FindArgs {
    /// Find files and folders that match; see Patterns below
    #[arg(value_name = "PATTERN", required = true)]
    pub(crate) patterns: Vec<String>,
    /// Search only this snapshot, or this folder in it; can be repeated
    #[arg(long, value_name = "SNAP[:PATH]", value_parser = select::address(), add = complete::snapshots())]
    pub(crate) snapshot: Vec<Address>,
    /// Ignore the difference between upper and lower case
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
    /// Print nothing but paths, as they are, without escapes, and a NUL byte after each
    #[arg(short = '0', long, conflicts_with = "json")]
    pub(crate) null: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) past: PastArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid dump latest:home/me/notes.txt   to the terminal
  ibid dump latest:db.sql | psql       into another program
  ibid dump latest~3:db.sql > db.sql   into a file
  ibid dump latest:dev/vdb --offset 1MiB --length 512MiB > partition
  ibid dump latest:/home/me/letters --archive tar | tar -xpf - -C /tmp/letters
  ibid dump latest:/home/me/letters --archive zip > letters.zip
  ibid dump latest:db.sql --thaw --estimate   what it costs to have an archive of the server thawed")]
pub(crate) struct DumpArgs {
    /// Write this file of a snapshot; with --archive, this folder
    #[arg(value_name = "SNAP:PATH", value_parser = select::address(), add = complete::snapshots())]
    pub(crate) address: Address,
    /// Begin at this byte of the file
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) offset: Option<u64>,
    /// Write so many bytes; fail if the file has fewer [default: all that follow]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) length: Option<u64>,
    /// Write an archive of everything in the folder
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["offset", "length"])]
    pub(crate) archive: Option<ArchiveName>,
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
pub(crate) enum ArchiveName {
    /// Keep all attributes, hard links and special files, but no sockets
    Tar,
    /// Keep files, symlinks, modes, owners, and times in seconds
    Zip,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The first letter of each line says what happened:
  +  added
  -  removed
  M  other contents
  U  other attributes: mode, owner, times, extended attributes
  T  another type, such as a link in place of a file

Examples:
  ibid diff latest~1 latest            what the last backup changed
  ibid diff latest~1:home latest:home  the same, for one folder
  ibid diff latest:old latest:new      two folders of one snapshot")]
pub(crate) struct DiffArgs {
    /// Start from this snapshot, or from a file or folder in it
    #[arg(value_name = "SNAP[:PATH]", value_parser = select::address(), add = complete::snapshots())]
    pub(crate) old: Address,
    /// Compare it with this snapshot, or with a file or folder in it
    #[arg(value_name = "SNAP[:PATH]", value_parser = select::address(), add = complete::snapshots())]
    pub(crate) new: Address,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) past: PastArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid stats                           all snapshots together
  ibid stats latest                    the newest snapshot
  ibid stats --host mill               the snapshots of one machine")]
pub(crate) struct StatsArgs {
    /// Count only these snapshots [default: all]
    #[arg(value_name = "SNAP", add = complete::snapshots())]
    pub(crate) snapshots: Vec<String>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) past: PastArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --read-data, `check` reads the structure: keys, index, directories of packs, snapshots and every folder of \
every snapshot, and it makes sure that every chunk has a place. Only --read-data finds bytes that rotted in a pack.

Examples:
  ibid check                           the structure: quick
  ibid check --read-data               every byte
  ibid check --read-data=5%            a random 5% of the packs, at least one
  ibid check --read-data --estimate    what a server would ask for that")]
pub(crate) struct CheckArgs {
    /// Read and verify all data, or the data of a random SHARE of the packs
    #[arg(
        long,
        value_name = "SHARE",
        value_parser = share,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "100%"
    )]
    pub(crate) read_data: Option<f64>,
    /// Choose the packs of a SHARE by this number: the same number chooses the same packs [default:
    /// random]
    #[arg(long, value_name = "NUMBER", requires = "read_data")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) costs: CostArgs,
    #[command(flatten)]
    pub(crate) past: PastArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
`repair` reads everything, stores again what can be read of damaged packs, writes damaged index files again, makes a \
lost config again from its copy, and moves damaged files into the folder `damaged` of the repository. It names the \
files of snapshots that are lost. You can stop it at any time, and back up meanwhile.

Examples:
  ibid repair --dry-run                what is damaged, and what would be done
  ibid repair
  ibid repair --writer laptop          what the writer `laptop` has stored
  ibid repair --delete-damaged         also delete what earlier repairs have moved away")]
pub(crate) struct RepairArgs {
    /// Show only what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Do not read the data of packs whose structure is intact: bytes that rotted there are not found
    #[arg(long)]
    pub(crate) fast: bool,
    /// Delete the files that earlier repairs have moved into the folder `damaged`
    #[arg(long)]
    pub(crate) delete_damaged: bool,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  ibid storage test --repo /mnt/nas/backup")]
pub(crate) enum StorageCommand {
    /// Try out whether programs can work in this folder at once, and whether what they store is durable
    #[command(after_help = "\
It needs no password, and there need be no repository yet. It stores small files in `keys`, with threads and a \
second process that race for their names, lists and deletes them. A folder that fails once is not safe; one that \
passes is likely to be. Exit code 1 if it fails.

Examples:
  ibid storage test --repo /mnt/nas/backup
  ibid storage test --json")]
    Test(StorageTestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StorageTestArgs {
    /// Run as the second process of the test, with this tag
    #[arg(long, value_name = "TAG", hide = true)]
    pub(crate) second: Option<String>,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
The cache holds sealed copies of what the repository knows of its chunks, so that opening it takes time only for what \
is new. You can delete it at any time; the next commands make it again.

Examples:
  ibid cache stats
  ibid cache clear")]
pub(crate) enum CacheCommand {
    /// Show where the cache is and what it takes
    #[command(after_help = "Examples:\n  ibid cache stats\n  ibid cache stats --json")]
    Stats,
    /// Delete the cache
    #[command(after_help = "Examples:\n  ibid cache clear")]
    Clear,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid completions bash > ~/.local/share/bash-completion/completions/ibid
  ibid completions zsh > ~/.zfunc/_ibid
  ibid completions fish > ~/.config/fish/completions/ibid.fish")]
pub(crate) struct CompletionsArgs {
    /// Print completions for this shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid man > ibid.1                    the page of `ibid`
  ibid man backup | man -l -           the page of `ibid backup`
  ibid man key add
  ibid man --all ~/.local/share/man/man1    a page for every command")]
pub(crate) struct ManArgs {
    /// Print the page of this command [default: of ibid itself]
    #[arg(value_name = "COMMAND", conflicts_with = "all", add = complete::commands())]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this folder, one file each
    #[arg(long, value_name = "DIR")]
    pub(crate) all: Option<PathBuf>,
}

/// Parses the command line.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(arguments)
}

/// Returns the definition of the command line, from which help, manual pages and completions are
/// made.
pub(crate) fn definition() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

#[cfg(test)]
mod tests {
    use ibid_terminal::value::size;

    #[test]
    fn the_definition_contradicts_itself_nowhere() {
        super::definition().debug_assert();
    }

    #[test]
    fn every_help_line_begins_with_a_verb() {
        let found = super::help_lines::without_verb(super::definition());
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    fn unwrapped(command: &mut clap::Command) -> String {
        let help = command.render_long_help().to_string();
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The help states defaults that other crates decide.
    #[test]
    fn defaults_are_what_the_help_says() {
        let defaults = ibid_repo::InitOptions::default();
        let help = unwrapped(super::definition().find_subcommand_mut("init").unwrap());
        let said: Vec<&str> = help
            .split("[default: ")
            .skip(1)
            .map(|rest| rest.split(']').next().unwrap())
            .collect();
        let [chunker, average, frame, pack, cost] = said[..5] else {
            panic!("{said:?}")
        };
        assert_eq!(chunker, defaults.chunker.name());
        assert_eq!(size(average), Ok(defaults.chunker.size_average() as u64));
        assert_eq!(super::value::size_u32(frame), Ok(defaults.frame_size));
        assert_eq!(super::value::size_u32(pack), Ok(defaults.pack_size));
        assert_eq!(super::value::argon2(cost), Ok(defaults.cost));
        let help = unwrapped(&mut super::definition());
        assert!(help.contains("[default: 512MiB]") && size("512MiB") == Ok(ibid_repo::MEMORY_DEFAULT));
    }

    #[test]
    fn a_dry_run_is_short_in_every_command_that_has_one() {
        let definition = super::definition();
        let mut found = 0;
        for command in definition.get_subcommands() {
            for arg in command.get_arguments().filter(|arg| arg.get_id() == "dry_run") {
                found += 1;
                assert_eq!(arg.get_short(), Some('n'), "{}", command.get_name());
            }
        }
        assert!(found >= 7, "{found}");
    }
}
