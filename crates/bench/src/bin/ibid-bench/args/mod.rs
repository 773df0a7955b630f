//! The command line. Every option is defined once; the help comes from there.

mod chunk;
mod chunkers;
mod files;
mod generate;
#[cfg(test)]
#[path = "../../../../../cli/src/args/help_lines.rs"]
mod help_lines;
mod locality;
mod measured;
mod records;
mod tune;
mod value;

use std::path::PathBuf;

pub(crate) use chunk::ChunkArgs;
pub(crate) use chunkers::ChunkersArgs;
use clap::{Args, Parser, Subcommand};
pub(crate) use files::{JsonFile, ReportFile};
pub(crate) use generate::{GenerateCommand, VersionsArgs};
pub(crate) use locality::{DuplicateLocalityArgs, LocalityArgs};
pub(crate) use measured::{BreakdownArgs, CpuArgs, HashesArgs};
pub(crate) use records::RecordsArgs;
pub(crate) use tune::{TuneCommand, TuneSeqcdcArgs};
pub(crate) use value::count;

use crate::corpus::Corpus;
use crate::tools::Kind;
use crate::{aging, charts, databases, hours, index_lookups, random_read, similarity, soak};

const AFTER_HELP: &str = "\
Figures of a machine that does other things as well differ from run to run.

Exit codes:
  0    done
  1    failed
  2    the command line makes no sense
  3    done, but some files could not be read; each was named
  130  interrupted

Examples:
  ibid-bench chunkers ~/backups/*.tar
  ibid-bench cpu
  ibid-bench repositories --corpus lnx=corpora/lnx --tools ibid,restic --json run.json";

/// Measure chunkers, deltas and whole repositories, on your data and on generated data
#[derive(Debug, Parser)]
#[command(
    name = "ibid-bench",
    version,
    after_help = AFTER_HELP,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Show no progress and no summaries; warnings and errors stay
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what each chunker saves on your files, and how fast it is
    Chunkers(ChunkersArgs),
    /// Show where a file is cut into chunks
    Chunk(ChunkArgs),
    /// Show how duplicates follow one another, as files are added
    DuplicateLocality(DuplicateLocalityArgs),
    /// Show what is gained by cutting where the next chunk ended last time
    Locality(LocalityArgs),
    /// Show what deltas between your records save, and what they cost
    Records(RecordsArgs),
    /// Show where SeqCDC's speed comes from: minimum size, skips, vectors
    Breakdown(BreakdownArgs),
    /// Show how evenly rolling hashes are spread, and how fast they roll
    Hashes(HashesArgs),
    /// Show what instructions cost on this CPU, and which vector instructions are used
    Cpu(CpuArgs),
    /// Search for the parameters that suit your data
    #[command(subcommand)]
    Tune(TuneCommand),
    /// Generate data to measure on
    #[command(subcommand)]
    Generate(GenerateCommand),
    /// Compare ibid with other backup programs: size, CPU, memory, speed
    #[command(after_help = "\
Each tool backs up all versions of a corpus one after the other, reads the last one again, and restores it, which is \
checked. Tools are programs on the PATH: ibid, restic, borg, borg-8k (borg with chunks of 8 KiB), kopia, zpaq.

Examples:
  ibid-bench repositories --corpus lnx=corpora/lnx
  ibid-bench repositories --corpus lnx=corpora/lnx --tools ibid,restic,kopia --rounds 1 --json run.json")]
    Repositories {
        #[command(flatten)]
        common: RepositoriesArgs,
        /// Compare these tools
        #[arg(long, value_delimiter = ',', default_values = ["ibid", "restic", "borg"])]
        tools: Vec<Kind>,
    },
    /// Compare average chunk sizes of ibid's repositories
    #[command(after_help = "\
The experiment is that of `ibid-bench repositories`, with ibid alone.

Examples:
  ibid-bench chunk-sizes --corpus lnx=corpora/lnx --averages 64KiB,128KiB")]
    ChunkSizes {
        #[command(flatten)]
        common: RepositoriesArgs,
        /// Compare these average sizes of chunks, as `ibid init --average` takes them
        #[arg(long, value_delimiter = ',', default_values = ["16KiB", "32KiB", "64KiB", "128KiB"])]
        averages: Vec<String>,
    },
    /// Measure reading single chunks at random, for several sizes of frames
    RandomRead(random_read::Options),
    /// Measure lookups in an index of very many chunks, and the memory it takes
    Index(index_lookups::Options),
    /// Measure how much of what is similar is found in repositories of any size
    Similarity(similarity::Options),
    /// Show that ibid stays within its memory, with far more chunks, files and snapshots than fit into it
    Soak(soak::Options),
    /// Show what months of backups, `forget` and `prune` do to a repository: size, CPU, restores
    Aging(aging::Options),
    /// Compare the record store with databases: size, CPU, memory, time to read a record
    Databases(databases::Options),
    /// Run a mixed load on the record store for a simulated day: size, memory and latency in each hour
    Hours(hours::Options),
    /// Run one subject of `hours`, in a process of its own
    #[command(name = hours::STAGE_COMMAND, hide = true)]
    HoursStage { order: PathBuf },
    /// Run one stage of `databases`, in a process of its own
    #[command(name = databases::STAGE_COMMAND, hide = true)]
    DatabasesStage { order: PathBuf },
    /// Print the tables of earlier runs
    #[command(after_help = "Examples:\n  ibid-bench table crates/bench/runs/2026-11-23-repositories-all-epyc.json")]
    Table {
        /// Read these files, which `--json` wrote
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Draw repository sizes from earlier runs, as SVG
    Charts(charts::Options),
}

impl Command {
    /// Whether standard output and errors are JSON.
    pub(crate) fn prints_json(&self) -> bool {
        match self {
            Command::Chunk(args) => args.json,
            Command::Generate(GenerateCommand::Versions(args)) => args.json,
            Command::Chunkers(args) => args.json.is_printed(),
            Command::DuplicateLocality(args) => args.json.is_printed(),
            Command::Locality(args) => args.json.is_printed(),
            Command::Records(args) => args.json.is_printed(),
            Command::Breakdown(args) => args.json.is_printed(),
            Command::Hashes(args) => args.json.is_printed(),
            Command::Cpu(args) => args.json.is_printed(),
            Command::Tune(TuneCommand::Seqcdc(args)) => args.json.is_printed(),
            _ => false,
        }
    }
}

/// Options of both experiments with repositories.
#[derive(Debug, Args)]
pub(crate) struct RepositoriesArgs {
    /// Store the versions in this folder, and call them so: files, or else folders, whose names begin
    /// with `v`, in the order of their names
    #[arg(long = "corpus", value_name = "NAME=DIR", required = true)]
    pub(crate) corpora: Vec<Corpus>,
    /// Run this ibid [default: the one beside this program, else the one on the PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) ibid: Option<PathBuf>,
    /// Repeat everything this often
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// Keep repositories and restored files in this folder meanwhile [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,
    /// Write every sample and the results into this file, after each round
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables into this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_contradicts_itself_nowhere() {
        super::Cli::command().debug_assert();
    }

    #[test]
    fn every_help_line_begins_with_a_verb() {
        let found = super::help_lines::without_verb(super::Cli::command());
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}
