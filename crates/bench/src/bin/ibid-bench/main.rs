//! Experiments: ibid beside its rivals, and what its defaults cost.
//!
//! `docs/benchmarks.md` says what each experiment measures, what its right answer is, and how to
//! run it.
#![forbid(unsafe_code)]

mod chunk_sizes;
mod corpus;
mod files;
mod measure;
mod random;
mod random_read;
mod record;
mod records;
mod report;
mod repositories;
mod statistics;
mod summary;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use corpus::Corpus;
use tools::Kind;

/// Experiments: ibid beside its rivals, and what its defaults cost
#[derive(Debug, Parser)]
#[command(name = "ibid-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Back up all versions of a file or folder one after the other, read all again, restore the
    /// last: size, CPU, memory, speed
    Repositories {
        #[command(flatten)]
        common: Common,
        /// Tools to compare
        #[arg(long, value_delimiter = ',', default_values = ["ibid", "restic", "borg"])]
        tools: Vec<Kind>,
    },
    /// The same with ibid alone at several average chunk sizes
    ChunkSizes {
        #[command(flatten)]
        common: Common,
        /// Average sizes of chunks, as `ibid init --average` takes them
        #[arg(long, value_delimiter = ',', default_values = ["16KiB", "32KiB", "64KiB", "128KiB"])]
        averages: Vec<String>,
    },
    /// Read single chunks at random, for several sizes of frames
    RandomRead(random_read::Options),
    /// Store versions of records in this project's record store and in its rivals: size, CPU,
    /// memory, time to read one
    Records(records::Options),
    /// What `records` runs itself by
    #[command(name = records::STAGE_COMMAND, hide = true)]
    RecordsStage { order: PathBuf },
    /// Print the tables of earlier runs
    Table {
        /// What `--json` wrote
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

/// What both experiments with repositories take.
#[derive(Debug, Args)]
struct Common {
    /// A name and the folder that holds its versions: files, or else folders, whose names begin
    /// with `v`, in the order of their names
    #[arg(long = "corpus", value_name = "NAME=DIR", required = true)]
    corpora: Vec<Corpus>,
    /// The program ibid [default: the one beside this program, else the one on the PATH]
    #[arg(long, value_name = "PATH")]
    ibid: Option<PathBuf>,
    /// How often everything is done
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Where repositories and restored files lie meanwhile [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// Write every sample and the results into this file, after each round
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables into this file as well
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Common {
    fn run(self, experiment: &str, tools: Vec<tools::Tool>) -> Result<()> {
        let plan = repositories::Plan {
            experiment: experiment.to_owned(),
            corpora: self.corpora,
            tools,
            rounds: self.rounds,
            work: self.work.unwrap_or_else(std::env::temp_dir),
        };
        let record = repositories::run(&plan, self.json.as_deref())?;
        let text = report::markdown(&record);
        if let Some(path) = &self.markdown {
            std::fs::write(path, &text).with_context(|| format!("writing {}", path.display()))?;
        }
        report::show(&text);
        Ok(())
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Repositories { common, tools } => {
            let ibid = tools::find_ibid(common.ibid.as_deref())?;
            let tools = tools.into_iter().map(|kind| kind.tool(&ibid)).collect();
            common.run("repositories", tools)
        }
        Command::ChunkSizes { common, averages } => {
            let ibid = tools::find_ibid(common.ibid.as_deref())?;
            common.run("chunk-sizes", chunk_sizes::tools(&ibid, &averages))
        }
        Command::RandomRead(options) => random_read::run(&options),
        Command::Records(options) => records::run(&options),
        Command::RecordsStage { order } => records::run_stage(&order),
        Command::Table { files } => {
            for file in files {
                report::show(&report::markdown(&record::read(&file)?));
            }
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report::failure(&error);
            ExitCode::FAILURE
        }
    }
}
