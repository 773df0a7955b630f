//! What was typed. Nothing is done here: every flag is defined once, and help, man pages and
//! completions come from there.

mod backup;
mod bench;
mod chunk;
mod generate;
mod init;
mod json;
mod locality;
mod password;
mod records;
mod restore;
mod select;
mod tune;
mod value;

use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) use backup::BackupArgs;
pub(crate) use bench::{BenchCommand, BreakdownArgs, ChunkersArgs, CpuArgs, HashesArgs, RecordsBenchArgs};
pub(crate) use chunk::ChunkArgs;
use clap::{Args, Parser, Subcommand};
pub(crate) use generate::{GenerateCommand, VersionsArgs};
pub(crate) use init::{InitArgs, InitSettings};
pub(crate) use json::JsonTo;
pub(crate) use locality::{DuplicateLocalityArgs, LocalityArgs};
pub(crate) use password::{NewPasswordArgs, PasswordArgs};
pub(crate) use records::{
    CompactArgs, DeleteArgs, DurabilityName, Followed, GetArgs, Key, LoadArgs, NamespaceArgs, NewRecordsArgs,
    PromoteArgs, PutArgs, RecordsCommand, RecordsStatsArgs, ReplicateArgs, ScanArgs, ServeArgs, StoreArgs, VerifyArgs,
    VersionName, VersionsKept, VersionsOfArgs,
};
pub(crate) use restore::{OverwriteRule, RestoreArgs};
pub(crate) use select::{Address, SelectArgs};
pub(crate) use tune::{TuneCommand, TuneSeqcdcArgs};

const AFTER_HELP: &str = "\
Environment:
  IBID_REPO              the repository, unless --repo says otherwise
  IBID_PASSWORD          the password itself
  IBID_PASSWORD_FILE     as --password-file
  IBID_PASSWORD_COMMAND  as --password-command
  IBID_MEMORY            as --memory
  IBID_STORE             the store of `ibid records`, unless --store says otherwise
  IBID_NEW_PASSWORD, IBID_NEW_PASSWORD_FILE, IBID_NEW_PASSWORD_COMMAND
                         the same for the new password of `key add` and `key passwd`

Snapshots are named by the beginning of their id, by `latest`, or by `latest~2` for the second before that. \
`SNAP:path/inside` addresses a file or folder in a snapshot.

Exit codes:
  0    done
  1    failed
  2    the command line makes no sense
  3    done, but something could not be read, loaded or restored; each was named
  4    `check` or `records verify` found faults
  5    wrong password, or none
  6    `records`: there is no such key, version or namespace
  10   there is no repository, or no store of records
  130  interrupted

Examples:
  export IBID_REPO=/mnt/disk/backup
  ibid init
  ibid backup ~/
  ibid snapshots
  ibid restore latest:home/me/letters /tmp/letters";

/// Encrypted, deduplicated, verifiable snapshots of your files
#[derive(Debug, Parser)]
#[command(name = "ibid", version, after_help = AFTER_HELP, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// The repository: a folder
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
    /// Accept that the repository is not encrypted: needed to make one so, and to back up into one
    #[arg(long, global = true, conflicts_with_all = ["password_file", "password_command"])]
    pub(crate) unencrypted: bool,
    /// Memory that the work may take: index, buffers, queues
    #[arg(long, global = true, value_name = "SIZE", value_parser = value::size, default_value = "512MiB", env = "IBID_MEMORY", hide_env_values = true)]
    pub(crate) memory: u64,
    /// No progress, no summaries: only what was asked for, warnings and errors
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print JSON, as docs/json.md describes it
    #[arg(
        long,
        global = true,
        action = clap::ArgAction::SetTrue,
        default_value = json::NOWHERE,
        default_missing_value = json::OUTPUT,
        value_parser = json::json_to()
    )]
    pub(crate) json: JsonTo,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a repository
    Init(InitArgs),
    /// Make a snapshot of files and folders
    Backup(BackupArgs),
    /// List the snapshots
    Snapshots(SnapshotsArgs),
    /// List what is in a snapshot
    Ls(LsArgs),
    /// Find files in all snapshots
    Find(FindArgs),
    /// Bring files back
    Restore(RestoreArgs),
    /// Write one file of a snapshot to standard output
    Dump(DumpArgs),
    /// Show what changed between two snapshots
    Diff(DiffArgs),
    /// Show how much is stored, and what saved the rest
    Stats(StatsArgs),
    /// Check that everything is there and right
    Check(CheckArgs),
    /// List, add, remove and change passwords
    #[command(subcommand)]
    Key(KeyCommand),
    /// Keep records and their versions under keys, in a store of their own
    #[command(subcommand)]
    Records(RecordsCommand),
    /// Show where a file is cut into chunks
    Chunk(ChunkArgs),
    /// Measure on this machine, and on your data
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Look for the parameters that suit your data
    #[command(subcommand)]
    Tune(TuneCommand),
    /// Make data to try things with
    #[command(subcommand)]
    Generate(GenerateCommand),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual
    Man(ManArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid snapshots                       all of them, newest last
  ibid snapshots --latest 5            the newest five
  ibid snapshots --host mill --tag weekly
  ibid snapshots --json                one JSON object a line")]
pub(crate) struct SnapshotsArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Only the newest N of them
    #[arg(long, value_name = "N")]
    pub(crate) latest: Option<usize>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid ls latest                       what is in the root
  ibid ls latest:home/me -l            one folder, with modes, owners, sizes and times
  ibid ls 4f1a -R                      everything")]
pub(crate) struct LsArgs {
    /// The snapshot, and where in it
    #[arg(value_name = "SNAP[:PATH]", value_parser = select::address())]
    pub(crate) address: Address,
    /// Modes, owners, sizes and times, too
    #[arg(short, long)]
    pub(crate) long: bool,
    /// And what is in the folders
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A pattern that begins with a slash is compared with whole paths, any other with the end of paths: `a.txt` and \
`letters/a.txt` match in every folder, `/a.txt` only in the root. With a slash at its end it means folders only. `*` and \
`?` match no slash, `**` does; `[ab]` and `{one,two}` work, too; `!pattern` takes back what an earlier one found.

Examples:
  ibid find '*.odt'                    by name, in every snapshot
  ibid find 'letters/*.odt'            in every folder that is called so
  ibid find '/home/me/**/*.odt' --snapshot latest")]
pub(crate) struct FindArgs {
    /// What to look for
    #[arg(value_name = "PATTERN", required = true)]
    pub(crate) patterns: Vec<String>,
    /// Only in this snapshot, or in what it has at a path; can be repeated
    #[arg(long, value_name = "SNAP[:PATH]", value_parser = select::address())]
    pub(crate) snapshot: Vec<Address>,
    /// Upper and lower case are the same
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid dump latest:home/me/notes.txt   to the terminal
  ibid dump latest:db.sql | psql       into another program
  ibid dump latest~3:db.sql > db.sql   into a file")]
pub(crate) struct DumpArgs {
    /// The snapshot, and the file in it
    #[arg(value_name = "SNAP:PATH", value_parser = select::address())]
    pub(crate) address: Address,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Each line begins with what happened:
  +  only in the second        M  other contents      T  another kind of thing
  -  only in the first         U  other attributes (mode, owner, times, extended attributes)

Examples:
  ibid diff latest~1 latest            what the last backup changed
  ibid diff latest~1:home latest:home  only there
  ibid diff latest:old latest:new      two folders of one snapshot")]
pub(crate) struct DiffArgs {
    /// The first snapshot, and where in it
    #[arg(value_name = "SNAP[:PATH]", value_parser = select::address())]
    pub(crate) old: Address,
    /// The second
    #[arg(value_name = "SNAP[:PATH]", value_parser = select::address())]
    pub(crate) new: Address,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid stats                           all snapshots together
  ibid stats latest                    one of them
  ibid stats --host mill               those of one machine")]
pub(crate) struct StatsArgs {
    /// Only these snapshots
    #[arg(value_name = "SNAP")]
    pub(crate) snapshots: Vec<String>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Without --read-data, the structure is checked: keys, index, directories of packs, snapshots, every folder of every \
snapshot, and that every chunk has a place. Bytes that rotted in a pack are found by reading them only.

Examples:
  ibid check                           the structure: quick
  ibid check --read-data               every byte
  ibid check --read-data=5%            every byte of a twentieth of the packs, at least of one, each time others")]
pub(crate) struct CheckArgs {
    /// Read every byte, or those of a share of the packs
    #[arg(long, value_name = "SHARE", value_parser = value::share, num_args = 0..=1, require_equals = true, default_missing_value = "100%")]
    pub(crate) read_data: Option<f64>,
    /// Which packs are read of a share: the same number chooses the same ones [default: a random
    /// number]
    #[arg(long, value_name = "NUMBER", requires = "read_data")]
    pub(crate) seed: Option<u64>,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Each key file opens the repository with one password. Removing one keeps its password from opening this repository; \
whoever had the password before could have kept a copy of what it opens.

Examples:
  ibid key list
  ibid key add --label laptop
  ibid key passwd                      another password instead of the one given
  ibid key remove 4f1a")]
pub(crate) enum KeyCommand {
    /// List the keys
    #[command(after_help = "Examples:\n  ibid key list\n  ibid key list --json")]
    List,
    /// Add another password
    #[command(after_help = "\
Examples:
  ibid key add --label laptop
  ibid key add --new-password-file /root/second --argon2 1GiB:4:4")]
    Add(KeyAddArgs),
    /// Remove a key; the one that opened the repository stays
    #[command(after_help = "Examples:\n  ibid key remove 4f1a")]
    Remove(KeyRemoveArgs),
    /// Change the password: the new one is stored before the old one goes
    #[command(after_help = "Examples:\n  ibid key passwd\n  ibid key passwd --new-password-command 'pass ibid'")]
    Passwd(KeyPasswdArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KeyAddArgs {
    #[command(flatten)]
    pub(crate) password: NewPasswordArgs,
    /// What to call it
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// What one guess costs [default: 46MiB:1:1]
    #[arg(long, value_name = "MEMORY:PASSES:LANES", value_parser = value::argon2)]
    pub(crate) argon2: Option<ibid_format::slot::Argon2Cost>,
}

#[derive(Debug, Args)]
pub(crate) struct KeyRemoveArgs {
    /// The beginning of its id
    #[arg(value_name = "KEY")]
    pub(crate) key: String,
}

#[derive(Debug, Args)]
pub(crate) struct KeyPasswdArgs {
    #[command(flatten)]
    pub(crate) password: NewPasswordArgs,
    /// What one guess costs [default: 46MiB:1:1]
    #[arg(long, value_name = "MEMORY:PASSES:LANES", value_parser = value::argon2)]
    pub(crate) argon2: Option<ibid_format::slot::Argon2Cost>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid completions bash > ~/.local/share/bash-completion/completions/ibid
  ibid completions zsh > ~/.zfunc/_ibid
  ibid completions fish > ~/.config/fish/completions/ibid.fish")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ibid man > ibid.1                    the page of the program
  ibid man backup | man -l -           the page of a command
  ibid man key add")]
pub(crate) struct ManArgs {
    /// The command [default: the program itself]
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// Reads the command line.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(arguments)
}

/// Help, man pages and completions are made from this.
pub(crate) fn definition() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_definition_contradicts_itself_nowhere() {
        super::definition().debug_assert();
    }

    fn unwrapped(command: &mut clap::Command) -> String {
        let help = command.render_long_help().to_string();
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The help says defaults that other crates decide.
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
        assert_eq!(super::value::size(average), Ok(defaults.chunker.size_average() as u64));
        assert_eq!(super::value::size_u32(frame), Ok(defaults.frame_size));
        assert_eq!(super::value::size_u32(pack), Ok(defaults.pack_size));
        assert_eq!(super::value::argon2(cost), Ok(defaults.cost));
        let help = unwrapped(&mut super::definition());
        assert!(help.contains("[default: 512MiB]") && super::value::size("512MiB") == Ok(ibid_repo::MEMORY_DEFAULT));
    }
}
